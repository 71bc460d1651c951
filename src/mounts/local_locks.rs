//! Locks that hold in this process only, for a volume that has nobody to share them with.

use super::freed_locks::{FreedLocks, LockWatch};
use super::locks::{HeldLock, LockTable};
use crate::types::{LockInTheWay, LockOwner, LockRange, LockRequest, NodeId, Result};
use parking_lot::Mutex;
use std::collections::HashMap;

/// The locks of a volume's files.
#[derive(Default)]
pub struct LocalLocks {
    tables: Mutex<HashMap<NodeId, LockTable<LockOwner>>>,
    freed: FreedLocks,
}

impl LocalLocks {
    /// [`super::OpenFile::lock`]
    pub fn lock(&self, node: NodeId, request: &LockRequest) -> Result<()> {
        let mut tables = self.tables.lock();
        let table = tables.entry(node).or_default();
        let wanted = HeldLock::wanted(request);
        if let Some(held) = table.in_the_way(&wanted) {
            return Err(held.refusal());
        }
        table.take(wanted);
        drop(tables);
        // It may have become weaker.
        self.freed.tell(node);
        Ok(())
    }

    /// [`super::OpenFile::unlock`]
    pub fn unlock(&self, node: NodeId, owner: LockOwner, range: LockRange) {
        let mut tables = self.tables.lock();
        let Some(table) = tables.get_mut(&node) else { return };
        let freed = table.give_back(owner, range);
        if table.is_empty() {
            tables.remove(&node);
        }
        drop(tables);
        if freed {
            self.freed.tell(node);
        }
    }

    /// [`super::OpenFile::lock_in_the_way`]
    pub fn in_the_way(&self, node: NodeId, request: &LockRequest) -> Option<LockInTheWay> {
        self.tables.lock().get(&node)?.in_the_way(&HeldLock::wanted(request)).map(HeldLock::told)
    }

    /// [`super::OpenFile::watch_locks`]
    pub fn watch(&self, node: NodeId) -> LockWatch {
        self.freed.watch(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Errno, LockKind, Origin};
    use futures::FutureExt;

    const NODE: NodeId = NodeId(5);

    fn request(number: u64, kind: LockKind) -> LockRequest {
        let owner = LockOwner { origin: Origin(1), number };
        LockRequest { owner, kind, range: LockRange::WHOLE, pid: number as u32 }
    }

    #[test]
    fn a_lock_that_became_weaker_is_told_as_one_given_back() {
        let locks = LocalLocks::default();
        locks.lock(NODE, &request(1, LockKind::Write)).expect("free");
        let mut watch = locks.watch(NODE);
        let refused = locks.lock(NODE, &request(2, LockKind::Read)).expect_err("in the way");
        assert_eq!(refused.errno(), Errno::EAGAIN);
        assert!(watch.freed().now_or_never().is_none());
        locks.lock(NODE, &request(1, LockKind::Read)).expect("weaker");
        assert!(watch.freed().now_or_never().is_some());
        locks.lock(NODE, &request(2, LockKind::Read)).expect("shared");
        assert_eq!(locks.in_the_way(NODE, &request(1, LockKind::Write)).expect("the other").pid, 2);
        locks.unlock(NODE, request(2, LockKind::Read).owner, LockRange::WHOLE);
        assert_eq!(locks.in_the_way(NODE, &request(1, LockKind::Write)), None);
    }
}
