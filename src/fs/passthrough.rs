//! Kernel passthrough: reads, writes and mappings of an open file go to the host's file without asking us.
//!
//! The kernel wants one backing id for all opens of an inode at a time, and no open of the usual kind beside them; an
//! open that breaks this fails with EIO. So an id lives as long as any open that uses it, and whether an inode has one
//! is decided by what does not change while it is open: the filesystem that it lies on.

use crate::mounts::OpenFile;
use crate::types::{Errno, Error, NodeId, Result};
use fuser::BackingId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The backing ids of a session's open inodes.
#[derive(Default)]
pub(super) struct Backings {
    /// Whether the kernel agreed to passthrough.
    granted: AtomicBool,
    told: AtomicBool,
    ids: Mutex<HashMap<NodeId, Weak<BackingId>>>,
}

impl Backings {
    /// The kernel agreed to it.
    pub(super) fn grant(&self) {
        self.granted.store(true, Ordering::Relaxed);
    }

    /// The backing id for an open of `node`, new ones from `register`; `None` where the file is to be served as usual.
    ///
    /// Errors: what the kernel says for this moment only, such as `ENFILE`.
    pub(super) fn of(
        &self,
        node: NodeId,
        file: &dyn OpenFile,
        register: impl FnOnce(BorrowedFd<'_>) -> io::Result<BackingId>,
    ) -> Result<Option<Arc<BackingId>>> {
        let Some(fd) = file.backing_fd().filter(|_| self.granted.load(Ordering::Relaxed)) else { return Ok(None) };
        // Held over the call, so that two first opens do not make two ids.
        let mut ids = self.ids.lock();
        if let Some(id) = ids.get(&node).and_then(Weak::upgrade) {
            return Ok(Some(id));
        }
        match register(fd) {
            Ok(id) => {
                let id = Arc::new(id);
                ids.insert(node, Arc::downgrade(&id));
                Ok(Some(id))
            }
            Err(error) if is_lasting(&error) => {
                if !self.told.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "no passthrough to files of this filesystem; they are served as usual");
                }
                Ok(None)
            }
            Err(error) => Err(Error::from_io("open", error).context("the kernel took no backing file")),
        }
    }

    /// An open of `node` ended.
    pub(super) fn let_go(&self, node: NodeId) {
        if !self.granted.load(Ordering::Relaxed) {
            return;
        }
        let mut ids = self.ids.lock();
        if ids.get(&node).is_some_and(|id| id.strong_count() == 0) {
            ids.remove(&node);
        }
    }
}

/// Whether the kernel would say so of this file at any time: `ELOOP`, the filesystem is a stack itself; `EPERM`, we are
/// not root; the rest, it has no such thing.
fn is_lasting(error: &io::Error) -> bool {
    let lasting = [Errno::ELOOP, Errno::EPERM, Errno::EOPNOTSUPP, Errno::EINVAL];
    lasting.iter().any(|errno| error.raw_os_error() == Some(errno.raw()))
}
