//! How much a session has done, for `status`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! operations {
    ($($variant:ident $name:literal)*) => {
        /// What the kernel asks for.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Operation { $($variant),* }

        const NAMES: &[&str] = &[$($name),*];
    };
}

operations! {
    Lookup "lookup" Forget "forget" GetAttr "getattr" SetAttr "setattr" ReadLink "readlink" MkNod "mknod" MkDir "mkdir"
    Unlink "unlink" RmDir "rmdir" Symlink "symlink" Rename "rename" Link "link" Open "open" Read "read" Write "write"
    Flush "flush" Release "release" Fsync "fsync" OpenDir "opendir" ReadDir "readdir" ReadDirPlus "readdirplus"
    FsyncDir "fsyncdir" StatFs "statfs" SetXattr "setxattr" GetXattr "getxattr" ListXattr "listxattr"
    RemoveXattr "removexattr" Create "create" Fallocate "fallocate" Lseek "lseek" CopyFileRange "copy_file_range" GetLk "getlk" SetLk "setlk"
}

impl Operation {
    /// Its name, as FUSE has it.
    pub(super) fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// Counts, each on its own: together they are no snapshot.
pub(super) struct Counters {
    requests: [AtomicU64; NAMES.len()],
    failed: AtomicU64,
    waited: AtomicU64,
    timed_out: AtomicU64,
    notified: AtomicU64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            requests: std::array::from_fn(|_| AtomicU64::default()),
            failed: AtomicU64::default(),
            waited: AtomicU64::default(),
            timed_out: AtomicU64::default(),
            notified: AtomicU64::default(),
        }
    }
}

impl Counters {
    pub(super) fn asked(&self, operation: Operation) {
        self.requests[operation as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    pub(super) fn waited(&self) {
        self.waited.fetch_add(1, Relaxed);
    }

    pub(super) fn timed_out(&self) {
        self.timed_out.fetch_add(1, Relaxed);
    }

    pub(super) fn notified(&self) {
        self.notified.fetch_add(1, Relaxed);
    }

    /// The counts now.
    pub(super) fn read(&self) -> Requests {
        let counts = NAMES.iter().zip(&self.requests).map(|(name, count)| ((*name).to_owned(), count.load(Relaxed)));
        let by_operation: BTreeMap<_, _> = counts.filter(|(_, count)| *count > 0).collect();
        Requests {
            total: by_operation.values().sum(),
            by_operation,
            failed: self.failed.load(Relaxed),
            waited: self.waited.load(Relaxed),
            timed_out: self.timed_out.load(Relaxed),
            notified: self.notified.load(Relaxed),
        }
    }
}

/// What a session has been asked since it was mounted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Requests {
    /// Requests of the kernel, in all.
    #[serde(rename = "requests")]
    pub total: u64,
    /// The same by kind; kinds that never came are left out.
    pub by_operation: BTreeMap<String, u64>,
    /// Those answered with an error (a name that does not exist is none).
    pub failed: u64,
    /// Those that were not ready at once and waited on the runtime.
    pub waited: u64,
    /// Those given up at the deadline.
    pub timed_out: u64,
    /// Changes by others that the kernel was told.
    pub notified: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_counts_under_its_own_name() {
        let counters = Counters::default();
        counters.asked(Operation::Lookup);
        counters.asked(Operation::CopyFileRange);
        counters.asked(Operation::CopyFileRange);
        let read = counters.read();
        assert_eq!(read.by_operation, BTreeMap::from([("lookup".to_owned(), 1), ("copy_file_range".to_owned(), 2)]));
        assert_eq!(Operation::RemoveXattr.name(), "removexattr");
    }
}
