//! Group commit: one connection, and whoever finds it free leads.
//!
//! A commit is put into the queue. If nobody is committing, its caller takes the connection and does one group: all
//! that is in the queue and may go together. What gathers meanwhile is done by a task, group after group, until the
//! queue is empty; then the connection lies there for the next caller. So a commit alone costs no hop between tasks,
//! and many at once share a transaction, without waiting for a window of time.
//!
//! A caller that goes away in the middle does not stop its group: the rest runs as a task.

use super::connect::{Database, Role, Wal, close, code, failure, restart_wal};
use super::demands::REFUSED;
use super::feed::Feed;
use super::group::Footprint;
use super::pressure::Pressure;
use super::room::Room;
use super::told::Told;
use super::unstoppable::Unstoppable;
use super::{commit, room};
use crate::mounts::store::engine::{Batch, Outcome};
use crate::mounts::store::record::{Revision, SessionId};
use crate::types::{Errno, Error, Result};
use futures::TryStreamExt;
use parking_lot::Mutex;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{AssertSqlSafe, Either, Executor, Row};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

/// Commits that the table `changes` keeps at least.
const CHANGES_KEPT: u64 = 100_000;

/// Commits after which the oldest changes are taken out.
const PRUNE_EVERY: u64 = 1024;

/// SQLITE_CONSTRAINT_PRIMARYKEY: a cookie that another entry has.
const COOKIE_TAKEN: i32 = 1555;

/// What every commit of this store goes through.
pub struct Committer {
    /// What was written to the WAL.
    pub pressure: Pressure,
    ns: i64,
    block_size: u32,
    database: Arc<Database>,
    feed: Arc<Feed>,
    runtime: Handle,
    queue: Mutex<Queue>,
    home: Notify,
}

struct Queue {
    waiting: VecDeque<Work>,
    /// The connection, while nobody commits.
    writer: Option<Writer>,
    closed: bool,
}

/// The connection that commits; `None` where its thread died, until it is opened again.
struct Writer {
    connection: Option<SqliteConnection>,
    pruned: u64,
}

enum Work {
    Commit(Member),
    Restart(oneshot::Sender<Result<()>>),
}

struct Member {
    batch: Batch,
    answer: oneshot::Sender<Result<Outcome>>,
}

/// Why a group did not happen.
enum Failure {
    /// A demand did not hold.
    Refused,
    /// Anything else.
    Failed(Error),
}

impl Writer {
    /// What the failure means; a connection whose thread died is opened anew for what comes next.
    fn failed(&mut self, operation: &'static str, error: sqlx::Error) -> Error {
        if matches!(error, sqlx::Error::WorkerCrashed) {
            self.connection = None;
        }
        failure(operation, error)
    }
}

impl Committer {
    /// Opens the connection.
    pub async fn open(database: Arc<Database>, ns: i64, block_size: u32, feed: Arc<Feed>) -> Result<Arc<Committer>> {
        let connection = database.connect(Role::Writer).await?;
        let writer = Writer { connection: Some(connection), pruned: 0 };
        Ok(Arc::new(Committer {
            pressure: Pressure::default(),
            ns,
            block_size,
            database,
            feed,
            runtime: Handle::current(),
            queue: Mutex::new(Queue { waiting: VecDeque::new(), writer: Some(writer), closed: false }),
            home: Notify::new(),
        }))
    }

    /// Commits `batch`.
    pub async fn commit(self: &Arc<Self>, batch: Batch) -> Result<Outcome> {
        let (answer, receiver) = oneshot::channel();
        self.enqueue("commit", Work::Commit(Member { batch, answer })).await?;
        receiver.await.unwrap_or_else(|_| Err(unknown("the store ended meanwhile")))
    }

    /// Has the WAL copied whole and begun anew, between two commits.
    pub async fn restart_wal(self: &Arc<Self>) -> Result<()> {
        let (answer, receiver) = oneshot::channel();
        self.enqueue("checkpoint", Work::Restart(answer)).await?;
        receiver.await.unwrap_or(Ok(()))
    }

    async fn enqueue(self: &Arc<Self>, operation: &'static str, work: Work) -> Result<()> {
        let writer = {
            let mut queue = self.queue.lock();
            if queue.closed {
                return Err(Error::new(operation, Errno::EIO).context("the store was closed"));
            }
            queue.waiting.push_back(work);
            queue.writer.take()
        };
        if let Some(writer) = writer {
            let lead = Box::pin(Arc::clone(self).lead(writer));
            Unstoppable::new(lead, self.runtime.clone()).await;
        }
        Ok(())
    }

    /// Does one group, and leaves what has gathered meanwhile to a task.
    async fn lead(self: Arc<Self>, mut writer: Writer) {
        self.turn(&mut writer).await;
        if let Some(writer) = self.bring_home(writer) {
            let runtime = self.runtime.clone();
            runtime.spawn(self.follow(writer));
        }
    }

    async fn follow(self: Arc<Self>, writer: Writer) {
        let mut busy = Some(writer);
        while let Some(mut writer) = busy.take() {
            self.turn(&mut writer).await;
            busy = self.bring_home(writer);
        }
    }

    /// Puts the connection back where nothing waits for it.
    fn bring_home(&self, writer: Writer) -> Option<Writer> {
        let mut queue = self.queue.lock();
        if !queue.waiting.is_empty() {
            return Some(writer);
        }
        queue.writer = Some(writer);
        self.home.notify_waiters();
        None
    }

    /// Does the work at the head of the queue: one group of commits, or a restart of the WAL.
    async fn turn(&self, writer: &mut Writer) {
        let mut members = Vec::new();
        let mut restart = None;
        {
            let mut queue = self.queue.lock();
            let mut footprint = Footprint::default();
            let alone = queue.waiting.len() == 1;
            let mut left = VecDeque::new();
            while let Some(work) = queue.waiting.pop_front() {
                match work {
                    Work::Commit(member) if alone || footprint.admit(&member.batch) => members.push(member),
                    Work::Restart(answer) if members.is_empty() && left.is_empty() => {
                        restart = Some(answer);
                        break;
                    }
                    work => left.push_back(work),
                }
            }
            left.append(&mut queue.waiting);
            queue.waiting = left;
        }
        if let Some(answer) = restart {
            let _ = answer.send(self.make_room(writer, Wal::Reused).await);
        } else {
            self.group(writer, members).await;
        }
    }

    /// Commits the members, together if that goes, else one by one.
    async fn group(&self, writer: &mut Writer, mut members: Vec<Member>) {
        // Whoever went away before it began wants nothing any more.
        members.retain(|member| !member.answer.is_closed());
        if self.pressure.is_full()
            && let Err(error) = self.make_room(writer, Wal::Reused).await
        {
            tracing::warn!(%error, "the WAL cannot be copied into the database");
        }
        let members = self.fitting(writer, members).await;
        if members.len() > 1 {
            let batches: Vec<&Batch> = members.iter().map(|member| &member.batch).collect();
            match self.attempt(writer, &batches).await {
                Ok(first) => {
                    for (member, revision) in members.into_iter().zip(first..) {
                        let _ = member.answer.send(Ok(Outcome::Committed(Revision(revision))));
                    }
                    return;
                }
                // Another process does not let go: each alone would wait as long again.
                Err(Failure::Failed(error)) if error.errno() == Errno::ETIMEDOUT => {
                    let text = error.to_string();
                    let copy = || Err(Error::new("commit", Errno::ETIMEDOUT).context(text.clone()));
                    members.into_iter().for_each(|member| drop(member.answer.send(copy())));
                    return;
                }
                Err(_) => {}
            }
        }
        for Member { batch, answer } in members {
            let outcome = match self.attempt_alone(writer, &batch).await {
                Ok(revision) => Ok(Outcome::Committed(Revision(revision))),
                Err(Failure::Refused) => self.refusal(writer, batch.session).await,
                Err(Failure::Failed(error)) => Err(error),
            };
            let _ = answer.send(outcome);
        }
    }

    /// Those that fit on the disk; the others are refused.
    async fn fitting(&self, writer: &mut Writer, mut members: Vec<Member>) -> Vec<Member> {
        let added = |member: &Member| room::added(&member.batch);
        let all: u64 = members.iter().filter_map(added).sum();
        if all == 0 || self.room(writer).await.take(all) {
            return members;
        }
        if let Err(error) = self.make_room(writer, Wal::Cut).await {
            tracing::warn!(%error, "the WAL cannot be copied into the database");
        }
        let mut room = self.room(writer).await;
        let others = members.extract_if(.., |member| added(member).is_some_and(|added| !room.take(added)));
        others.for_each(|member| drop(member.answer.send(Err(room::refused()))));
        members
    }

    async fn room(&self, writer: &mut Writer) -> Room {
        match self.connection(writer).await {
            Ok(connection) => Room::now(&self.database, connection).await,
            Err(_) => Room::UNKNOWN, // the commit will say why
        }
    }

    /// Does one batch. Where the disk is full, what the WAL holds may be room enough once that is copied.
    async fn attempt_alone(&self, writer: &mut Writer, batch: &Batch) -> std::result::Result<u64, Failure> {
        match self.attempt(writer, &[batch]).await {
            Err(Failure::Failed(error)) if error.errno() == Errno::ENOSPC => {
                self.make_room(writer, Wal::Reused).await.map_err(Failure::Failed)?;
                self.attempt(writer, &[batch]).await
            }
            done => done,
        }
    }

    /// Has the WAL copied whole. Where readers or another process are in the way, they are waited for a little.
    async fn make_room(&self, writer: &mut Writer, then: Wal) -> Result<()> {
        let connection = self.connection(writer).await?;
        let _alone = self.pressure.copying.lock().await;
        let left = restart_wal(connection, then).await;
        if let Some(left) = left.map_err(|error| writer.failed("checkpoint", error))? {
            self.pressure.hold(left);
        }
        Ok(())
    }

    /// Does the batches in one transaction, tells them, and answers the first's revision.
    async fn attempt(&self, writer: &mut Writer, batches: &[&Batch]) -> std::result::Result<u64, Failure> {
        let durable = batches.iter().any(|batch| batch.durable);
        let told: Vec<Told> = batches.iter().map(|batch| Told::of(batch, self.block_size)).collect();
        let script = commit::write(self.ns, self.block_size, batches, &told, durable).map_err(Failure::Failed)?;
        let (sql, arguments) = script.finish();
        self.database.check().map_err(Failure::Failed)?;
        let connection = self.connection(writer).await.map_err(Failure::Failed)?;
        match execute(connection, sql, arguments).await {
            Ok(last) => {
                let first = last + 1 - batches.len() as u64;
                self.feed.publish(first, told);
                self.pressure.add(batches);
                self.prune(writer, last).await;
                Ok(first)
            }
            Err(error) => Err(self.undo(writer, error, durable).await),
        }
    }

    /// Leaves no transaction open, and says what the error means.
    async fn undo(&self, writer: &mut Writer, error: sqlx::Error, durable: bool) -> Failure {
        if matches!(error, sqlx::Error::WorkerCrashed) {
            return Failure::Failed(unknown("the connection was lost").source(writer.failed("commit", error)));
        }
        if let Some(connection) = &mut writer.connection {
            // Some errors have ended it already; then this one is of no interest.
            let _ = connection.execute("ROLLBACK").await;
            if durable {
                let _ = connection.execute("PRAGMA synchronous=NORMAL").await;
            }
        }
        match code(&error) {
            Some(REFUSED | COOKIE_TAKEN) => Failure::Refused,
            _ => Failure::Failed(writer.failed("commit", error)),
        }
    }

    /// A session's record that is gone never comes back, so it does not matter that this looks a moment later.
    async fn refusal(&self, writer: &mut Writer, session: Option<SessionId>) -> Result<Outcome> {
        let Some(session) = session else { return Ok(Outcome::Conflict) };
        let connection = self.connection(writer).await?;
        let query = sqlx::query("SELECT 1 FROM sessions WHERE ns=? AND id=?").bind(self.ns).bind(session.0 as i64);
        let found = connection.fetch_optional(query).await;
        let found = found.map_err(|error| writer.failed("commit", error))?;
        Ok(if found.is_some() { Outcome::Conflict } else { Outcome::Fenced })
    }

    /// Takes out the oldest changes, now and then.
    async fn prune(&self, writer: &mut Writer, newest: u64) {
        let bound = newest.saturating_sub(CHANGES_KEPT);
        if bound < writer.pruned + PRUNE_EVERY || bound <= Revision::FIRST.0 {
            return;
        }
        writer.pruned = bound;
        let sql = format!("DELETE FROM changes WHERE ns={} AND revision<={bound}", self.ns);
        if let Err(error) = self.run(writer, &sql).await {
            tracing::warn!(%error, "old changes cannot be taken out");
        }
    }

    async fn run(&self, writer: &mut Writer, sql: &str) -> Result<()> {
        let connection = self.connection(writer).await?;
        let done = connection.execute(AssertSqlSafe(sql)).await;
        done.map(drop).map_err(|error| writer.failed("maintenance", error))
    }

    async fn connection<'a>(&self, writer: &'a mut Writer) -> Result<&'a mut SqliteConnection> {
        match &mut writer.connection {
            Some(connection) => Ok(connection),
            none => Ok(none.insert(self.database.connect(Role::Writer).await?)),
        }
    }

    /// Takes nothing more, finishes what was taken, and closes the connection. Calling it again does nothing.
    pub async fn close(&self) -> Result<()> {
        let again = std::mem::replace(&mut self.queue.lock().closed, true);
        if again {
            return Ok(());
        }
        loop {
            let home = self.home.notified();
            let writer = self.queue.lock().writer.take();
            match writer.map(|writer| writer.connection) {
                Some(Some(connection)) => return close(connection).await,
                Some(None) => return Ok(()),
                None => home.await,
            }
        }
    }
}

/// Runs a commit's script, and answers the newest revision.
async fn execute(connection: &mut SqliteConnection, sql: String, arguments: SqliteArguments) -> sqlx::Result<u64> {
    let mut results = connection.fetch_many(sqlx::query_with(AssertSqlSafe(sql), arguments));
    let mut newest = None;
    while let Some(result) = results.try_next().await? {
        if let Either::Right(row) = result {
            newest = Some(row.try_get::<i64, _>(0)? as u64);
        }
    }
    newest.ok_or(sqlx::Error::RowNotFound)
}

fn unknown(why: &str) -> Error {
    Error::new("commit", Errno::EIO).context(format!("{why}; whether it happened is not known"))
}
