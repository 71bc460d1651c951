//! Who holds locks in this session. A close that has none to give back asks no store.

use crate::types::{LockOwner, NodeId};
use std::collections::HashSet;
use tokio::sync::Mutex;

const STRIPES: usize = 64;

/// Owners that may hold locks, by file. The lock of a stripe is held (async) while the locks of one of its files are
/// changed, so that what is noted here is what was committed.
pub struct Lockers([Mutex<HashSet<(NodeId, LockOwner)>>; STRIPES]);

impl Default for Lockers {
    fn default() -> Lockers {
        Lockers(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Lockers {
    /// The stripe of a file.
    pub fn of(&self, node: NodeId) -> &Mutex<HashSet<(NodeId, LockOwner)>> {
        &self.0[node.0 as usize % STRIPES]
    }
}
