//! The open files of a session, by the handle that the kernel holds.

use crate::mounts::OpenFile;
use crate::types::LockOwner;
use fuser::BackingId;
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An open file.
#[derive(Clone)]
pub(super) struct Opened {
    pub file: Arc<dyn OpenFile>,
    /// Opened to append: it writes nowhere but at the end.
    pub append: bool,
    /// Who took locks through it. They end with it.
    pub lockers: Arc<Mutex<HashSet<LockOwner>>>,
    /// What the kernel reads and writes it by, past us.
    #[expect(dead_code, reason = "it is held for as long as the file is open, and not asked")]
    pub backing: Option<Arc<BackingId>>,
}

/// How long after a close the RELEASE may still be under way.
const PARTING: Duration = Duration::from_millis(50);

/// Open files. Handle 0 is none: it stands for "whatever the node is", where opens are not told.
#[derive(Default)]
pub(super) struct Handles {
    last: AtomicU64,
    files: RwLock<HashMap<u64, Opened>>,
    /// When a descriptor was last closed of an open file that has locks of its own.
    closed: Mutex<Option<Instant>>,
}

impl Handles {
    /// Keeps an open file, under a handle that was never given before.
    pub(super) fn add(&self, opened: Opened) -> u64 {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.files.write().insert(handle, opened);
        handle
    }

    /// The file behind a handle.
    pub(super) fn get(&self, handle: u64) -> Option<Opened> {
        self.files.read().get(&handle).cloned()
    }

    /// Takes a file out. Dropping what is returned closes it, unless an operation still runs on it.
    pub(super) fn remove(&self, handle: u64) -> Option<Opened> {
        self.files.write().remove(&handle)
    }

    /// A descriptor was closed of an open file that has locks of its own. If it was the last one they are to go, but the
    /// kernel lets the closer go on before it tells so.
    pub(super) fn note_close(&self) {
        *self.closed.lock() = Some(Instant::now());
    }

    /// How long locks may still be held that were given back by a close.
    pub(super) fn parting(&self) -> Option<Duration> {
        let closed = (*self.closed.lock())?;
        PARTING.checked_sub(closed.elapsed())
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.files.read().len()
    }

    /// Takes all of them out.
    pub(super) fn clear(&self) -> Vec<Opened> {
        self.files.write().drain().map(|(_, opened)| opened).collect()
    }
}
