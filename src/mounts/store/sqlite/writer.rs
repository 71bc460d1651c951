//! The committing connection, and the task that owns it.
//!
//! There is no time window: what comes while a commit runs is the next group. A group is one transaction; where one of
//! its members is refused, each is done by itself, so that none harms another.

use super::checkpoint::Wake;
use super::commit;
use super::connect::{Database, Role, close, code, failure};
use super::demands::REFUSED;
use super::feed::Feed;
use super::group::{Footprint, size};
use super::told::Told;
use crate::mounts::store::engine::{Batch, Outcome};
use crate::mounts::store::record::{Revision, SessionId};
use crate::types::{Errno, Error, Result};
use parking_lot::Mutex;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Executor, Row};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// SQLITE_CONSTRAINT_PRIMARYKEY and SQLITE_CONSTRAINT_UNIQUE: another entry of the directory has the cookie.
const TAKEN: [i32; 2] = [1555, 2067];

/// Commits whose changes are kept for other processes that fall behind.
const CHANGES_KEPT: u64 = 100_000;

/// The old ones go each time this many have come.
const PRUNED_EVERY: u64 = 4096;

struct Job {
    batch: Batch,
    done: oneshot::Sender<Result<Outcome>>,
}

/// The way to the committing task.
pub struct Writer {
    jobs: Mutex<Option<mpsc::UnboundedSender<Job>>>,
    task: Mutex<Option<JoinHandle<Result<()>>>>,
}

impl Writer {
    /// Opens the connection and starts the task. It ends when the writer is closed or dropped, with what waits done.
    pub async fn start(
        database: Arc<Database>,
        feed: Arc<Feed>,
        wake: Wake,
        ns: i64,
        block_size: u32,
    ) -> Result<Writer> {
        let connection = database.connect(Role::Writer).await?;
        let (jobs, waiting) = mpsc::unbounded_channel();
        let mut task = Task { ns, block_size, database, feed, wake, connection: Some(connection) };
        let task = tokio::spawn(async move {
            task.run(waiting).await;
            match task.connection {
                Some(connection) => close(connection).await,
                None => Ok(()),
            }
        });
        Ok(Writer { jobs: Mutex::new(Some(jobs)), task: Mutex::new(Some(task)) })
    }

    /// Commits `batch`. Once begun it is finished, also where the caller goes away.
    pub async fn commit(&self, batch: Batch) -> Result<Outcome> {
        let closed = || Error::new("commit", Errno::EIO).context("the store was closed");
        let (done, outcome) = oneshot::channel();
        let sent = self.jobs.lock().as_ref().map(|jobs| jobs.send(Job { batch, done }).is_ok());
        if sent != Some(true) {
            return Err(closed());
        }
        outcome.await.map_err(|_| closed())?
    }

    /// Does what waits, and closes the connection.
    pub async fn close(&self) -> Result<()> {
        drop(self.jobs.lock().take());
        let task = self.task.lock().take();
        match task {
            Some(task) => task.await.map_err(|error| Error::new("close", Errno::EIO).source(error))?,
            None => Ok(()),
        }
    }
}

struct Task {
    ns: i64,
    block_size: u32,
    database: Arc<Database>,
    feed: Arc<Feed>,
    wake: Wake,
    connection: Option<SqliteConnection>,
}

impl Task {
    async fn run(&mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        let mut waiting: VecDeque<Job> = VecDeque::new();
        loop {
            while let Ok(job) = jobs.try_recv() {
                waiting.push_back(job);
            }
            if waiting.is_empty() {
                match jobs.recv().await {
                    Some(job) => waiting.push_back(job),
                    None => return,
                }
                continue;
            }
            let group = take_group(&mut waiting);
            self.commit(group).await;
        }
    }

    async fn commit(&mut self, group: Vec<Job>) {
        let batches: Vec<&Batch> = group.iter().map(|job| &job.batch).collect();
        self.wake.after_commit(batches.iter().map(|batch| size(batch) as u64).sum());
        match self.attempt(&batches).await {
            // One that was refused, or cannot be done at all, must not harm the others.
            Ok(Outcome::Conflict) | Err(_) if group.len() > 1 => {
                for job in group {
                    let outcome = self.attempt(&[&job.batch]).await;
                    let _ = job.done.send(outcome);
                }
            }
            Ok(Outcome::Committed(last)) => {
                let first = last.0 + 1 - group.len() as u64;
                for (revision, job) in (first..).zip(group) {
                    let _ = job.done.send(Ok(Outcome::Committed(Revision(revision))));
                }
            }
            outcome => group.into_iter().for_each(|job| drop(job.done.send(clone(&outcome)))),
        }
    }

    /// Commits `batches` as one transaction, and tells of it. The revision is that of the last.
    async fn attempt(&mut self, batches: &[&Batch]) -> Result<Outcome> {
        let told: Vec<Told> = batches.iter().map(|batch| Told::of(batch, self.block_size)).collect();
        let durable = batches.iter().any(|batch| batch.durable);
        let (sql, arguments) = commit::write(self.ns, self.block_size, batches, &told, durable)?.finish();
        let connection = self.connection().await?;
        // All rows are fetched, so that every statement of the text is run.
        match connection.fetch_all(sqlx::query_with(AssertSqlSafe(sql), arguments)).await {
            Ok(rows) => {
                let revision = rows.first().map(|row| row.try_get::<i64, _>(0));
                let revision = revision.ok_or_else(|| Error::new("commit", Errno::EIO).context("no namespace"))?;
                let last = Revision(revision.map_err(|error| failure("commit", error))? as u64);
                self.feed.committed(last, told).await;
                self.prune(last, batches.len() as u64).await;
                Ok(Outcome::Committed(last))
            }
            Err(error) => self.refused(error, batches).await,
        }
    }

    /// What it means that a commit failed. Afterwards no transaction is open.
    async fn refused(&mut self, error: sqlx::Error, batches: &[&Batch]) -> Result<Outcome> {
        if matches!(error, sqlx::Error::WorkerCrashed) {
            self.connection = None;
            return Err(failure("commit", error).context("whether the commit happened is not known"));
        }
        let connection = self.connection().await?;
        // A failing statement may have ended the transaction by itself; then there is nothing to roll back.
        let _ = connection.execute("ROLLBACK").await;
        connection.execute("PRAGMA synchronous=NORMAL").await.map_err(|error| failure("commit", error))?;
        let demand = code(&error).is_some_and(|code| code == REFUSED || TAKEN.contains(&code));
        match batches {
            _ if !demand => Err(failure("commit", error)),
            [Batch { session: Some(session), .. }] if !self.lives(*session).await? => Ok(Outcome::Fenced),
            _ => Ok(Outcome::Conflict),
        }
    }

    async fn lives(&mut self, session: SessionId) -> Result<bool> {
        let ns = self.ns;
        let query = sqlx::query("SELECT 1 FROM sessions WHERE ns=? AND id=?").bind(ns).bind(session.0 as i64);
        let found = self.connection().await?.fetch_optional(query).await;
        Ok(found.map_err(|error| failure("commit", error))?.is_some())
    }

    /// Removes what is kept of old commits, now and then. It may fail: the next time does it.
    async fn prune(&mut self, last: Revision, members: u64) {
        if last.0 % PRUNED_EVERY >= members {
            return;
        }
        let (ns, before) = (self.ns, last.0.saturating_sub(CHANGES_KEPT) as i64);
        let query = sqlx::query("DELETE FROM changes WHERE ns=? AND revision<?").bind(ns).bind(before);
        let Ok(connection) = self.connection().await else { return };
        if let Err(error) = connection.execute(query).await {
            tracing::warn!(%error, "old changes are kept for longer");
        }
    }

    async fn connection(&mut self) -> Result<&mut SqliteConnection> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.database.connect(Role::Writer).await?,
        };
        Ok(self.connection.insert(connection))
    }
}

/// From the front of what waits, as many as can be one transaction.
fn take_group(waiting: &mut VecDeque<Job>) -> Vec<Job> {
    let mut footprint = Footprint::default();
    let fitting = waiting.iter().take_while(|job| footprint.admit(&job.batch)).count();
    waiting.drain(..fitting).collect()
}

/// The same answer for each member of a group; a group of more than one has only outcomes.
fn clone(outcome: &Result<Outcome>) -> Result<Outcome> {
    match outcome {
        Ok(outcome) => Ok(*outcome),
        Err(error) => Err(Error::new("commit", error.errno()).context(error.to_string())),
    }
}
