//! Copying the WAL into the database, off the committing thread, before the WAL grows past a bound.
//!
//! A passive checkpoint waits for nobody and holds nobody up, but the WAL starts anew only if it was copied whole when
//! a commit begins. While commits come all the time that may never be, so past a bound the rest is copied between two
//! commits; and where they come faster than a slow disk takes them, they wait for it.

use super::connect::{Database, Role, close, failure};
use super::decode::column;
use super::writer::Committer;
use crate::types::Result;
use sqlx::sqlite::SqliteConnection;
use std::sync::Arc;
use tokio::sync::watch;

/// Pages in the WAL past which commits wait for it to be copied whole.
const BOUND: i64 = 6000;

/// Copies the WAL as it fills, until `stop` says so or is dropped.
pub async fn run(database: Arc<Database>, committer: Arc<Committer>, mut stop: watch::Receiver<bool>) {
    let mut connection = None;
    loop {
        tokio::select! {
            _ = stop.changed() => break,
            () = committer.pressure.much() => {}
        }
        if let Err(error) = checkpoint(&database, &mut connection, &committer).await {
            tracing::warn!(%error, "the WAL cannot be copied into the database");
            connection = None;
        }
    }
    if let Some(connection) = connection {
        let _ = close(connection).await;
    }
}

async fn checkpoint(
    database: &Database,
    connection: &mut Option<SqliteConnection>,
    committer: &Arc<Committer>,
) -> Result<()> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(database.connect(Role::Checkpointer).await?),
    };
    let alone = committer.pressure.copying.lock().await;
    let query = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)");
    let row = query.fetch_one(connection).await.map_err(|error| failure("checkpoint", error))?;
    drop(alone);
    let (held, copied): (i64, i64) = (column(&row, 1)?, column(&row, 2)?);
    committer.pressure.hold((held - copied).max(0) as u64);
    if held >= BOUND {
        committer.restart_wal().await?;
    }
    Ok(())
}
