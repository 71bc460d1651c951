//! The open files of a session, by the handle that the kernel holds.

use crate::mounts::OpenFile;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Open files. Handle 0 is none: it stands for "whatever the node is", where opens are not told.
#[derive(Default)]
pub(super) struct Handles {
    last: AtomicU64,
    files: RwLock<HashMap<u64, Arc<dyn OpenFile>>>,
}

impl Handles {
    /// Keeps an open file, under a handle that was never given before.
    pub(super) fn add(&self, file: Arc<dyn OpenFile>) -> u64 {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.files.write().insert(handle, file);
        handle
    }

    /// The file behind a handle.
    pub(super) fn get(&self, handle: u64) -> Option<Arc<dyn OpenFile>> {
        self.files.read().get(&handle).cloned()
    }

    /// Takes a file out. Dropping what is returned closes it, unless an operation still runs on it.
    pub(super) fn remove(&self, handle: u64) -> Option<Arc<dyn OpenFile>> {
        self.files.write().remove(&handle)
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.files.read().len()
    }

    /// Takes all of them out.
    pub(super) fn clear(&self) -> Vec<Arc<dyn OpenFile>> {
        self.files.write().drain().map(|(_, file)| file).collect()
    }
}
