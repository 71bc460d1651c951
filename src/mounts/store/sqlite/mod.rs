//! The SQLite store: one database file with many namespaces, used by any number of processes at once.
//!
//! One connection commits whatever has gathered while its last commit ran ([`writer`]), a few read ([`read`]), one
//! copies the WAL into the database off the committing thread ([`checkpoint`]), and one looks out for commits of other
//! processes ([`feed`]). A commit is one text of SQL in one round trip ([`commit`]).

mod checkpoint;
mod commit;
mod connect;
mod decode;
mod demands;
mod feed;
mod fields;
mod group;
mod patches;
mod read;
mod schema;
mod script;
mod tables;
mod told;
mod writer;

use super::engine::{Batch, Outcome, Store, StoreChange, Usage};
use super::record::{Key, Prefix, Stored};
use crate::types::{Errno, Error, NodeId, Result, Timestamp};
use async_trait::async_trait;
use bytes::Bytes;
use checkpoint::Checkpointer;
use connect::Database;
use feed::Feed;
use futures::stream::BoxStream;
use read::Readers;
use script::Script;
use sqlx::Row;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use writer::Writer;

/// How long the opening waits for another process that makes or holds the database.
const OPENING: Duration = Duration::from_secs(10);

/// A namespace in an SQLite database.
pub struct SqliteStore {
    ns: i64,
    block_size: u32,
    database: Arc<Database>,
    readers: Arc<Readers>,
    feed: Arc<Feed>,
    writer: Writer,
    checkpointer: Checkpointer,
}

impl SqliteStore {
    /// Opens the database at `path`, making it where there is none, and `namespace` in it.
    ///
    /// # Errors
    /// `ENOENT` where the directory of `path` is missing; `EINVAL` for a file of another program or of a newer
    /// workfs; `ETIMEDOUT` where another process holds it for longer than ten seconds.
    pub async fn open(path: &Path, namespace: &str) -> Result<Arc<SqliteStore>> {
        let database = Arc::new(Database::at(path)?);
        let found = schema::prepare(&database, namespace, OPENING).await?;
        let readers = Arc::new(Readers::open(database.clone(), found.id).await?);
        let feed = Feed::start(&database, readers.clone(), found.id, found.revision).await?;
        let checkpointer = Checkpointer::start(&database).await?;
        let writer =
            Writer::start(database.clone(), feed.clone(), checkpointer.wake(), found.id, found.block_size).await?;
        Ok(Arc::new(SqliteStore {
            ns: found.id,
            block_size: found.block_size,
            database,
            readers,
            feed,
            writer,
            checkpointer,
        }))
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn block_size(&self) -> u32 {
        self.block_size
    }

    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Stored>>> {
        self.readers.get(keys).await
    }

    async fn scan(&self, prefix: &Prefix, after: Option<u64>, limit: usize) -> Result<Vec<(Key, Stored)>> {
        self.readers.scan(prefix, after, limit).await
    }

    async fn blocks(&self, node: NodeId, range: Range<u64>) -> Result<Vec<(u64, Bytes)>> {
        self.readers.blocks(node, range).await
    }

    async fn commit(&self, batch: Batch) -> Result<Outcome> {
        self.writer.commit(batch).await
    }

    fn changes(&self) -> BoxStream<'static, StoreChange> {
        self.feed.listen()
    }

    async fn now(&self) -> Result<Timestamp> {
        // All who use the file are on one machine, so its clock is the store's.
        Ok(Timestamp::now())
    }

    async fn usage(&self) -> Result<Usage> {
        let mut script = Script::new();
        script.write(format_args!("SELECT files FROM namespaces WHERE id={}", self.ns));
        let rows = self.readers.rows("usage", script, true).await?;
        let files: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(|e| connect::failure("usage", e))?;
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let used = size(self.database.path()) + size(&self.database.wal_path());
        Ok(Usage { used, free: free_space(self.database.path())?, files: files as u64 })
    }

    async fn close(&self) -> Result<()> {
        // What waits is committed first, by the order of these lines.
        let written = self.writer.close().await;
        self.feed.close().await;
        let read = self.readers.close().await;
        written.and(read).and(self.checkpointer.close().await)
    }
}

/// Bytes that the filesystem of `path` could still take.
fn free_space(path: &Path) -> Result<u64> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let found = rustix::fs::statvfs(directory);
    let told = found.map_err(|errno| Error::new("usage", Errno::from_raw(errno.raw_os_error())))?;
    Ok(told.f_bavail * told.f_frsize)
}
