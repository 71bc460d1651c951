//! Locks that hold in this process only, for a volume that has nobody to share them with.

use super::freed_locks::{FreedLocks, LockWatch};
use super::locks::{HeldLock, LockTable};
use crate::types::{Errno, Error, LockInTheWay, LockOwner, LockRange, LockRequest, NodeId, Result};
use parking_lot::Mutex;
use std::collections::HashMap;

/// The locks of a volume's files.
#[derive(Default)]
pub struct LocalLocks {
    tables: Mutex<HashMap<NodeId, LockTable<LockOwner>>>,
    freed: FreedLocks,
}

fn wanted(request: &LockRequest) -> HeldLock<LockOwner> {
    let LockRequest { owner, kind, range, pid } = *request;
    HeldLock { range, owner, kind, pid }
}

/// The lock that a request met, as it is told.
pub fn told<O>(held: &HeldLock<O>) -> LockInTheWay {
    LockInTheWay { kind: held.kind, range: held.range, pid: held.pid }
}

/// That another owner's lock is in the way.
pub fn in_the_way<O>(held: &HeldLock<O>) -> Error {
    let HeldLock { range, kind, pid, .. } = held;
    let (start, end) = (range.start(), range.end());
    Error::new("lock", Errno::EAGAIN).context(format!("process {pid} has a {kind:?} lock of {start} to {end}"))
}

impl LocalLocks {
    /// [`super::OpenFile::lock`]
    pub fn lock(&self, node: NodeId, request: &LockRequest) -> Result<()> {
        let mut tables = self.tables.lock();
        let table = tables.entry(node).or_default();
        let wanted = wanted(request);
        if let Some(held) = table.in_the_way(&wanted) {
            return Err(in_the_way(held));
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
        self.tables.lock().get(&node)?.in_the_way(&wanted(request)).map(told)
    }

    /// [`super::OpenFile::watch_locks`]
    pub fn watch(&self, node: NodeId) -> LockWatch {
        self.freed.watch(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{LockKind, Origin};
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
