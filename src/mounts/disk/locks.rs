//! Locks of directories, for the moment in which a name is looked at and removed.

use super::nodes::Node;
use parking_lot::{Mutex, MutexGuard};

/// How many locks directories share.
const LOCKS: usize = 64;

/// One lock for each group of directories.
pub struct DirectoryLocks([Mutex<()>; LOCKS]);

impl DirectoryLocks {
    /// All free.
    pub fn new() -> DirectoryLocks {
        DirectoryLocks([const { Mutex::new(()) }; LOCKS])
    }

    /// Waits until no other removal is under way in `dir`.
    pub fn lock(&self, dir: &Node) -> MutexGuard<'_, ()> {
        self.0[index(dir)].lock()
    }

    /// As [`DirectoryLocks::lock`], in two directories. The lower lock comes first, so that two of these never wait
    /// for each other.
    pub fn lock_both(&self, one: &Node, other: &Node) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let (low, high) = (index(one).min(index(other)), index(one).max(index(other)));
        (self.0[low].lock(), (low != high).then(|| self.0[high].lock()))
    }
}

fn index(dir: &Node) -> usize {
    (dir.serial % LOCKS as u64) as usize
}
