//! The memory store: one lock over ordered maps. It lives as long as somebody holds it, and any number of volumes can
//! be opened on it, in one process; each is then a replica of the others.

mod blocks;
mod tables;

use super::announce::{Announcer, touched};
use super::engine::{Batch, Outcome, Store, StoreChange, Usage};
use super::record::{Key, Prefix, Stored};
use crate::types::{NodeId, Result, Timestamp};
use async_trait::async_trait;
use blocks::BLOCK_SIZE;
use bytes::Bytes;
use futures::stream::BoxStream;
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::Arc;
use tables::Tables;

/// What a record's bookkeeping is taken to cost, in bytes: an average, for `statfs`.
const RECORD_COST: u64 = 192;

/// A namespace in this process's memory.
pub struct MemoryStore {
    tables: RwLock<Tables>,
    announcer: Announcer,
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Arc<MemoryStore> {
        Arc::new(MemoryStore { tables: RwLock::new(Tables::new()), announcer: Announcer::default() })
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn block_size(&self) -> u32 {
        BLOCK_SIZE
    }

    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Stored>>> {
        let tables = self.tables.read();
        Ok(keys.iter().map(|key| tables.get(key)).collect())
    }

    async fn scan(&self, prefix: &Prefix, after: Option<u64>, limit: usize) -> Result<Vec<(Key, Stored)>> {
        Ok(self.tables.read().scan(prefix, after, limit))
    }

    async fn blocks(&self, node: NodeId, range: Range<u64>) -> Result<Vec<(u64, Bytes)>> {
        let tables = self.tables.read();
        Ok(tables.blocks.range(node, range).map(|(index, block)| (index, block.bytes.clone())).collect())
    }

    async fn commit(&self, batch: Batch) -> Result<Outcome> {
        let mut tables = self.tables.write();
        let outcome = tables.check(&batch)?;
        if let Outcome::Committed(revision) = outcome {
            tables.apply(&batch, revision);
            // Told under the lock, so that changes come in the order of their revisions; sending does not wait.
            let (keys, data) = touched(&batch, BLOCK_SIZE);
            self.announcer.tell(StoreChange::Commit { revision, session: batch.session, keys, data });
        }
        Ok(outcome)
    }

    fn changes(&self) -> BoxStream<'static, StoreChange> {
        self.announcer.listen()
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(Timestamp::now())
    }

    async fn usage(&self) -> Result<Usage> {
        let tables = self.tables.read();
        let used = tables.blocks.used() + tables.len() as u64 * RECORD_COST;
        Ok(Usage { used, free: available_memory(), files: tables.files })
    }

    async fn close(&self) -> Result<()> {
        // Others may still use it; it goes with the last of them.
        Ok(())
    }
}

/// Bytes that the machine says it can still give, or 0 where it does not say.
fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
