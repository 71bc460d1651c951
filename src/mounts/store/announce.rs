//! Telling commits to whoever listens in this process. Every engine does it alike.

use super::engine::{Batch, BlockChange, StoreChange};
use super::record::Key;
use crate::mounts::broadcast::Broadcast;
use crate::types::NodeId;
use futures::stream::BoxStream;

/// Commits that a listener may fall behind before it is told [`StoreChange::Lost`].
const KEPT: usize = 1024;

/// Tells commits, in the order in which it is given them.
pub struct Announcer(Broadcast<StoreChange>);

impl Default for Announcer {
    fn default() -> Announcer {
        Announcer(Broadcast::new(KEPT, StoreChange::Lost))
    }
}

impl Announcer {
    /// Tells one. Never waits; nobody need listen.
    pub fn tell(&self, change: StoreChange) {
        self.0.tell(|| change);
    }

    /// What is told from now on. It ends with the announcer.
    pub fn listen(&self) -> BoxStream<'static, StoreChange> {
        self.0.listen()
    }
}

/// A range of a file's bytes: the file, its first byte, the byte after its last.
pub type Range = (NodeId, u64, u64);

/// What a batch changes, as [`StoreChange::Commit`] tells it: the records, and the bytes.
pub fn touched(batch: &Batch, block_size: u32) -> (Vec<Key>, Vec<Range>) {
    let mut keys: Vec<Key> = batch.delete.clone();
    keys.extend(batch.put.iter().map(|(key, _)| key.clone()));
    keys.extend(batch.fields.iter().map(|change| Key::Stats(change.node)));
    let data: Vec<Range> = batch.blocks.iter().map(|change| range(change, u64::from(block_size))).collect();
    // What its blocks occupy is part of a file's statistics.
    keys.extend(data.iter().map(|(node, ..)| Key::Stats(*node)));
    keys.sort_unstable();
    keys.dedup();
    (keys, data)
}

fn range(change: &BlockChange, block_size: u64) -> Range {
    match change {
        BlockChange::Patch { node, index, offset, bytes } => {
            let start = index * block_size + u64::from(*offset);
            (*node, start, start + bytes.len() as u64)
        }
        BlockChange::Discard { node, start, end } => (*node, *start, *end),
    }
}
