//! The commits of a namespace, told in the order of their revisions.
//!
//! Our own are told as soon as they are done. Those of others on the same file, in this process or another, are read
//! from the table `changes` when the WAL is written, and at least every [`POLL`]. Whoever tells holds the lock and
//! tells only the revision that follows the last one told; a gap is filled by reading, so the order always holds.

use super::connect::{Database, Role, close, failure};
use super::decode::column;
use super::told::Told;
use crate::mounts::store::announce::Announcer;
use crate::mounts::store::engine::StoreChange;
use crate::mounts::store::record::Revision;
use crate::types::Result;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use inotify::{EventStream, Inotify, WatchMask};
use parking_lot::Mutex;
use sqlx::sqlite::SqliteConnection;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How often others' commits are looked for without a sign of them.
const POLL: Duration = Duration::from_millis(200);

/// The least time between two looks: our own commits write the WAL too.
const PAUSE: Duration = Duration::from_millis(2);

/// Rows read at once.
const ROWS: i64 = 512;

/// Tells commits.
pub struct Feed {
    ns: i64,
    told: Mutex<Last>,
    gap: Notify,
}

struct Last {
    revision: u64,
    /// `None` once closed.
    announcer: Option<Announcer>,
}

impl Last {
    fn send(&mut self, revision: u64, change: StoreChange) {
        self.revision = revision;
        if let Some(announcer) = &self.announcer {
            announcer.tell(change);
        }
    }

    fn lost(&mut self) {
        self.send(self.revision, StoreChange::Lost);
    }
}

impl Feed {
    /// A feed that goes on after `revision`.
    pub fn new(ns: i64, revision: Revision) -> Feed {
        let last = Last { revision: revision.0, announcer: Some(Announcer::default()) };
        Feed { ns, told: Mutex::new(last), gap: Notify::new() }
    }

    /// Commits from now on.
    pub fn changes(&self) -> BoxStream<'static, StoreChange> {
        match &self.told.lock().announcer {
            Some(announcer) => announcer.listen(),
            None => stream::empty().boxed(),
        }
    }

    /// Tells our own commits, consecutive ones from `first` on, which readers see already.
    pub fn publish(&self, first: u64, told: Vec<Told>) {
        let mut last = self.told.lock();
        if first > last.revision + 1 {
            // Others committed between: whoever reads their rows reads ours too.
            self.gap.notify_one();
            return;
        }
        for (revision, told) in (first..).zip(told) {
            if revision > last.revision {
                last.send(revision, told.change(Revision(revision)));
            }
        }
    }

    /// Ends all streams.
    pub fn close(&self) {
        self.told.lock().announcer = None;
    }

    /// Looks for others' commits until `stop` says so or is dropped.
    pub async fn watch(self: Arc<Self>, database: Arc<Database>, mut stop: watch::Receiver<bool>) {
        let wal = watch_wal(&database).inspect_err(|error| tracing::warn!(%error, "the WAL cannot be watched"));
        let mut wal = wal.ok();
        let mut connection = None;
        loop {
            tokio::select! {
                _ = stop.changed() => break,
                () = self.gap.notified() => {}
                () = written(&mut wal) => {}
                () = tokio::time::sleep(POLL) => {}
            }
            if let Err(error) = self.look(&database, &mut connection).await {
                tracing::warn!(%error, "the changes of the store cannot be read");
                self.told.lock().lost();
                connection = None;
                tokio::time::sleep(POLL).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
        if let Some(connection) = connection {
            let _ = close(connection).await;
        }
    }

    /// Reads and tells what follows the last revision told.
    async fn look(&self, database: &Database, connection: &mut Option<SqliteConnection>) -> Result<()> {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(database.connect(Role::Reader).await?),
        };
        loop {
            let last = self.told.lock().revision;
            let sql = "SELECT revision, session, keys, data FROM changes WHERE ns=? AND revision>?
                ORDER BY revision LIMIT ?";
            let query = sqlx::query(sql).bind(self.ns).bind(last as i64).bind(ROWS);
            let rows = query.fetch_all(&mut *connection).await.map_err(|error| failure("changes", error))?;
            let mut read = Vec::with_capacity(rows.len());
            for row in &rows {
                let revision = column::<i64>(row, 0)? as u64;
                read.push((revision, Told::read(column(row, 1)?, column(row, 2)?, column(row, 3)?)));
            }
            self.tell(read);
            if rows.len() < ROWS as usize {
                return Ok(());
            }
        }
    }

    fn tell(&self, read: Vec<(u64, Option<Told>)>) {
        let mut last = self.told.lock();
        for (revision, told) in read {
            if revision <= last.revision {
                continue;
            }
            // A revision that is missing was taken out of the table before we came.
            let follows = revision == last.revision + 1;
            match told {
                Some(told) if follows => last.send(revision, told.change(Revision(revision))),
                _ => last.send(revision, StoreChange::Lost),
            }
        }
    }
}

/// The kernel's notice of writes to the WAL, which is one file as long as we hold the database open.
fn watch_wal(database: &Database) -> std::io::Result<EventStream<[u8; 1024]>> {
    let inotify = Inotify::init()?;
    inotify.watches().add(database.wal_path(), WatchMask::MODIFY)?;
    inotify.into_event_stream([0; 1024])
}

/// Returns when the WAL was written since the last call; never, where it cannot be watched.
async fn written(wal: &mut Option<EventStream<[u8; 1024]>>) {
    let Some(events) = wal else { return std::future::pending().await };
    if events.next().await.is_none() {
        return std::future::pending().await;
    }
    // What else came is of the same kind.
    while events.next().now_or_never().is_some() {}
}
