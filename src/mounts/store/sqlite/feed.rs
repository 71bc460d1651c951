//! The commits of a namespace, told in the order of their revisions.
//!
//! Our own are told as soon as they are done. Those of others on the same file, in this process or another, are read
//! from the table `changes` when the WAL is written, and at least every [`POLL`]. Whoever tells holds the lock and
//! tells only the revision that follows the last one told; a gap is filled by reading, so the order always holds.

use super::connect::{Database, Role, close, failure};
use super::decode::column;
use super::told::Told;
use crate::mounts::store::engine::StoreChange;
use crate::mounts::store::record::Revision;
use crate::types::{Error, Result};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use parking_lot::Mutex;
use rustix::fs::inotify;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::{Notify, watch};

/// Commits that a receiver may fall behind before it is told [`StoreChange::Lost`].
const BEHIND: usize = 4096;

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
    sender: Option<broadcast::Sender<StoreChange>>,
}

impl Last {
    fn send(&mut self, revision: u64, change: StoreChange) {
        self.revision = revision;
        if let Some(sender) = &self.sender {
            // Nobody may be listening.
            let _ = sender.send(change);
        }
    }

    fn lost(&mut self) {
        self.send(self.revision, StoreChange::Lost);
    }
}

impl Feed {
    /// A feed that goes on after `revision`.
    pub fn new(ns: i64, revision: Revision) -> Feed {
        let (sender, _) = broadcast::channel(BEHIND);
        Feed { ns, told: Mutex::new(Last { revision: revision.0, sender: Some(sender) }), gap: Notify::new() }
    }

    /// Commits from now on.
    pub fn changes(&self) -> BoxStream<'static, StoreChange> {
        let Some(receiver) = self.told.lock().sender.as_ref().map(broadcast::Sender::subscribe) else {
            return stream::empty().boxed();
        };
        stream::unfold(receiver, |mut receiver| async {
            match receiver.recv().await {
                Ok(change) => Some((change, receiver)),
                Err(RecvError::Lagged(_)) => Some((StoreChange::Lost, receiver)),
                Err(RecvError::Closed) => None,
            }
        })
        .boxed()
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
        self.told.lock().sender = None;
    }

    /// Looks for others' commits until `stop` says so or is dropped.
    pub async fn watch(self: Arc<Self>, database: Arc<Database>, mut stop: watch::Receiver<bool>) {
        let wal = WalWatch::new(&database).inspect_err(|error| tracing::warn!(%error, "the WAL cannot be watched"));
        let mut connection = None;
        loop {
            tokio::select! {
                _ = stop.changed() => break,
                () = self.gap.notified() => {}
                () = written(wal.as_ref().ok()) => {}
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
                read.push((revision, Told::read(column(row, 1)?, row.get(2), row.get(3))));
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

/// Returns when the WAL was written since the last call; never, where it cannot be watched.
async fn written(wal: Option<&WalWatch>) {
    match wal {
        Some(wal) => wal.written().await,
        None => std::future::pending().await,
    }
}

/// The kernel's notice of writes to the WAL. The file stays the same as long as we hold the database open.
struct WalWatch(AsyncFd<OwnedFd>);

impl WalWatch {
    fn new(database: &Database) -> Result<WalWatch> {
        let failed = |error: rustix::io::Errno| Error::from_io("inotify", error.into());
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).map_err(failed)?;
        inotify::add_watch(&fd, database.wal_path(), inotify::WatchFlags::MODIFY).map_err(failed)?;
        // SAFETY: an `OwnedFd` is open until it is dropped, and always the same descriptor.
        let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        registered.map(WalWatch).map_err(|error| Error::from_io("inotify", error.into()))
    }

    async fn written(&self) {
        let Ok(mut ready) = self.0.readable().await else { return std::future::pending().await };
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(self.0.get_ref(), &mut buffer);
        while events.next().is_ok() {}
        ready.clear_ready();
    }
}
