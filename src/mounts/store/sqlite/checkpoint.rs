//! Copying the WAL into the database, off the committing thread, before it grows past a bound.

use super::connect::{Database, Role, close};
use crate::types::Result;
use parking_lot::Mutex;
use sqlx::Executor;
use sqlx::sqlite::SqliteConnection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Each time about this many bytes came into the WAL it is copied, whoever reads or writes meanwhile.
const EAGER: u64 = 8 << 20;

/// What a commit writes besides its blocks, in bytes: a few pages, by measurement.
const COMMIT: u64 = 24 << 10;

/// From this size on the copying waits until nobody uses the WAL, so that it starts anew.
const BOUND: u64 = 64 << 20;

/// Wakes the checkpointer when there is something to do.
pub struct Wake {
    notify: Arc<Notify>,
    /// Bytes that came since it was woken last.
    came: u64,
}

impl Wake {
    /// A commit with so many bytes in its blocks went into the WAL.
    pub fn after_commit(&mut self, bytes: u64) {
        self.came += bytes + COMMIT;
        if self.came >= EAGER {
            self.came = 0;
            self.notify.notify_one();
        }
    }
}

/// The task that copies.
pub struct Checkpointer {
    notify: Arc<Notify>,
    closing: Arc<Notify>,
    task: Mutex<Option<JoinHandle<SqliteConnection>>>,
}

impl Checkpointer {
    /// Opens its connection and starts it.
    pub async fn start(database: &Database) -> Result<Checkpointer> {
        let connection = database.connect(Role::Checkpointer).await?;
        let (wal, notify, closing) = (database.wal_path(), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let task = tokio::spawn(run(wal, notify.clone(), closing.clone(), connection));
        Ok(Checkpointer { notify, closing, task: Mutex::new(Some(task)) })
    }

    /// What the writer wakes it by.
    pub fn wake(&self) -> Wake {
        Wake { notify: self.notify.clone(), came: 0 }
    }

    /// Copies what is left and closes the connection. The last to close the database removes its WAL.
    pub async fn close(&self) -> Result<()> {
        let task = self.task.lock().take();
        let Some(task) = task else { return Ok(()) };
        self.closing.notify_one();
        let Ok(mut connection) = task.await else { return Ok(()) };
        copy(&mut connection, "PRAGMA wal_checkpoint(PASSIVE)").await;
        close(connection).await
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.closing.notify_one();
    }
}

async fn run(
    wal: PathBuf,
    notify: Arc<Notify>,
    closing: Arc<Notify>,
    mut connection: SqliteConnection,
) -> SqliteConnection {
    loop {
        tokio::select! {
            () = notify.notified() => {}
            () = closing.notified() => return connection,
        }
        copy(&mut connection, "PRAGMA wal_checkpoint(PASSIVE)").await;
        // Little is left to copy now, so those who wait for the other kind wait briefly.
        if size(&wal) >= BOUND {
            copy(&mut connection, "PRAGMA wal_checkpoint(TRUNCATE)").await;
        }
    }
}

async fn copy(connection: &mut SqliteConnection, how: &'static str) {
    if let Err(error) = connection.execute(how).await {
        tracing::warn!(%error, "the WAL grows: a checkpoint failed");
    }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
