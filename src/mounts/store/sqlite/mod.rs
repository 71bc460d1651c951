//! The SQLite store: namespaces in one file, which other processes may have open too.
//!
//! A commit's straight line: `writer` (the queue, and who leads) → `group` (who may go together) → `room` (whether it fits) → `commit` (the
//! script: `demands`, `tables`, `fields`, `patches`) → SQLite → `feed` (told) → the answer. Reading is `read` and
//! `decode`; `checkpoint` runs beside them.
//!
//! Where two locks are held the order is: queue, then feed. No lock is held while something is awaited.

mod checkpoint;
mod commit;
mod connect;
mod decode;
mod demands;
mod feed;
mod fields;
mod group;
mod held;
mod patches;
mod pressure;
mod read;
mod room;
mod schema;
mod script;
mod tables;
mod told;
mod unstoppable;
mod writer;

use super::engine::{Batch, Outcome, Store, StoreChange, Usage};
use super::record::{Key, Prefix, Stored};
use crate::types::{Errno, Error, NodeId, Result, Timestamp};
use async_trait::async_trait;
use bytes::Bytes;
use connect::{Database, PAGE};
use feed::Feed;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use read::Readers;
use room::Room;
use script::Script;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use writer::Committer;

/// How long a call may take. SQLite itself gives up a lock after [`connect::BUSY`].
const DEADLINE: Duration = Duration::from_secs(30);

/// A namespace in an SQLite file.
pub struct SqliteStore {
    ns: i64,
    block_size: u32,
    database: Arc<Database>,
    readers: Readers,
    committer: Arc<Committer>,
    feed: Arc<Feed>,
    runtime: Handle,
    /// Dropped, or told so, the tasks end.
    stop: watch::Sender<bool>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens the namespace `namespace` of the file at `path`; what does not exist is made. It needs a tokio runtime,
    /// in which its tasks then run.
    ///
    /// # Errors
    /// `ENOENT` where the file's directory is missing, `EISDIR`, `EINVAL` where the file is no SQLite database, one
    /// of another program, or one of a newer workfs; `ETIMEDOUT` where another process holds it.
    pub async fn open(path: &Path, namespace: &str) -> Result<Arc<SqliteStore>> {
        let database = Arc::new(Database::at(path)?);
        let found = schema::prepare(&database, namespace, connect::BUSY).await?;
        database.hold()?;
        let feed = Arc::new(Feed::new(found.id, found.revision));
        let readers = Readers::open(Arc::clone(&database), found.id).await?;
        let committer = Committer::open(Arc::clone(&database), found.id, found.block_size, Arc::clone(&feed)).await?;
        let (stop, stopped) = watch::channel(false);
        let tasks = vec![
            tokio::spawn(Arc::clone(&feed).watch(Arc::clone(&database), stopped.clone())),
            tokio::spawn(checkpoint::run(Arc::clone(&database), Arc::clone(&committer), stopped)),
        ];
        Ok(Arc::new(SqliteStore {
            ns: found.id,
            block_size: found.block_size,
            database,
            readers,
            committer,
            feed,
            runtime: Handle::current(),
            stop,
            tasks: Mutex::new(tasks),
        }))
    }

    /// `work`, or `ETIMEDOUT` past the deadline.
    async fn bounded<T>(&self, operation: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
        // A caller's first poll may come from a thread outside the runtime, where a timer needs telling.
        let timed = {
            let _runtime = self.runtime.enter();
            tokio::time::timeout(DEADLINE, work)
        };
        let late = || Error::new(operation, Errno::ETIMEDOUT).context(format!("no answer in {DEADLINE:?}"));
        timed.await.unwrap_or_else(|_| Err(late()))
    }

    async fn finish(&self) -> Result<()> {
        self.stop.send_replace(true);
        let tasks = std::mem::take(&mut *self.tasks.lock());
        // The tasks end before the connections close, so that the last one to close is ours, and copies the WAL.
        for task in tasks {
            let _ = task.await;
        }
        self.feed.close();
        self.readers.close().await?;
        self.committer.close().await?;
        self.database.check()
    }

    async fn measure(&self) -> Result<Usage> {
        self.database.check()?;
        let mut script = Script::new();
        script.write(format_args!(
            "SELECT files, (SELECT page_count FROM pragma_page_count),
                (SELECT freelist_count FROM pragma_freelist_count) FROM namespaces WHERE id={}",
            self.ns
        ));
        let rows = self.readers.rows("usage", script, true).await?;
        let row = rows.first().ok_or_else(|| Error::new("usage", Errno::EIO).context("the namespace is gone"))?;
        let number = |index| decode::column::<i64>(row, index).map(|number| number as u64);
        let (files, pages, empty) = (number(0)?, number(1)?, number(2)?);
        let wal = std::fs::metadata(self.database.wal_path()).map_or(0, |found| found.len());
        let free = Room::on_disk(&self.database, empty * PAGE)?.left();
        Ok(Usage { used: pages.saturating_sub(empty) * PAGE + wal, free, files })
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn block_size(&self) -> u32 {
        self.block_size
    }

    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Stored>>> {
        self.bounded("get", self.readers.get(keys)).await
    }

    async fn scan(&self, prefix: &Prefix, after: Option<u64>, limit: usize) -> Result<Vec<(Key, Stored)>> {
        self.bounded("scan", self.readers.scan(prefix, after, limit)).await
    }

    async fn blocks(&self, node: NodeId, range: Range<u64>) -> Result<Vec<(u64, Bytes)>> {
        self.bounded("blocks", self.readers.blocks(node, range)).await
    }

    async fn commit(&self, batch: Batch) -> Result<Outcome> {
        self.bounded("commit", self.committer.commit(batch)).await
    }

    fn changes(&self) -> BoxStream<'static, StoreChange> {
        self.feed.changes()
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(Timestamp::now())
    }

    async fn usage(&self) -> Result<Usage> {
        self.bounded("usage", self.measure()).await
    }

    async fn close(&self) -> Result<()> {
        self.bounded("close", self.finish()).await
    }
}
