//! What is written to a file and not committed.
//!
//! There is one [`File`] for each file that is open, whatever the number of its handles. What was written is first
//! `dirty`, then, while a commit of it is under way, `saving`; readers see both over what is committed. What was saved is
//! forgotten only after the caches forgot what they knew, so no reader ever sees the old bytes again.
//!
//! Locks: `order` (async, held during commits of the file's bytes) before `unsaved` (for a moment).

use super::dirty::Ranges;
use crate::types::{NodeId, Timestamp};
use bytes::Bytes;
use parking_lot::Mutex;

/// Dirty bytes of one file above which a writer waits for a commit.
const DIRTY_BYTES: u64 = 8 << 20;
/// Dirty pieces above which it does, however small they are.
const DIRTY_PIECES: usize = 2048;

/// A file that is open, or has bytes to commit.
pub struct File {
    pub node: NodeId,
    /// Held while bytes of the file are being committed, so that commits come in the order of the calls.
    pub order: tokio::sync::Mutex<()>,
    unsaved: Mutex<Unsaved>,
}

#[derive(Default)]
struct Unsaved {
    dirty: Ranges,
    saving: Ranges,
    /// When bytes were last written that are not committed.
    written: Option<Timestamp>,
    /// Whether a background task is to look after it.
    queued: bool,
    /// Whether somebody was told that what is dirty could not be committed.
    told: bool,
}

/// What of a file is not committed, for attributes.
#[derive(Clone, Copy)]
pub struct Pending {
    pub end: u64,
    pub bytes: u64,
    pub written: Timestamp,
}

impl File {
    pub fn new(node: NodeId) -> File {
        File { node, order: tokio::sync::Mutex::new(()), unsaved: Mutex::default() }
    }

    /// Takes bytes in. True where nobody looks after the file yet.
    pub fn write(&self, offset: u64, data: Bytes, now: Timestamp) -> bool {
        let mut unsaved = self.unsaved.lock();
        unsaved.dirty.write(offset, data);
        unsaved.written = unsaved.written.max(Some(now));
        !std::mem::replace(&mut unsaved.queued, true)
    }

    /// Whether so much is dirty that a writer should wait for a commit.
    pub fn is_full(&self) -> bool {
        let unsaved = self.unsaved.lock();
        unsaved.dirty.bytes() > DIRTY_BYTES || unsaved.dirty.pieces() > DIRTY_PIECES
    }

    /// What is not committed of the bytes from `start` to before `end`: older below, newer above.
    pub fn overlay(&self, start: u64, end: u64) -> [Ranges; 2] {
        let unsaved = self.unsaved.lock();
        [unsaved.saving.part(start, end), unsaved.dirty.part(start, end)]
    }

    /// What attributes must tell of it; `None` where all is committed.
    pub fn pending(&self) -> Option<Pending> {
        let unsaved = self.unsaved.lock();
        let written = unsaved.written?;
        let end = unsaved.dirty.end().max(unsaved.saving.end());
        Some(Pending { end, bytes: unsaved.dirty.bytes() + unsaved.saving.bytes(), written })
    }

    /// Whether all is committed.
    pub fn is_clean(&self) -> bool {
        self.unsaved.lock().written.is_none()
    }

    /// Begins a commit of all that is dirty; the caller holds `order` until `saved` or `unsaved`.
    pub fn save(&self) -> (Ranges, Option<Timestamp>) {
        let mut unsaved = self.unsaved.lock();
        unsaved.saving = std::mem::take(&mut unsaved.dirty);
        (unsaved.saving.clone(), unsaved.written)
    }

    /// The commit happened, and the caches know.
    pub fn saved(&self) {
        let mut unsaved = self.unsaved.lock();
        unsaved.saving = Ranges::default();
        unsaved.told = false;
        if unsaved.dirty.is_empty() {
            unsaved.written = None;
        }
    }

    /// The commit did not happen: the bytes are dirty again, under what was written since.
    pub fn not_saved(&self) {
        let mut unsaved = self.unsaved.lock();
        let newer = std::mem::take(&mut unsaved.dirty);
        unsaved.dirty = std::mem::take(&mut unsaved.saving);
        unsaved.dirty.cover(newer);
    }

    /// Notes that a caller is told that its bytes are not committed.
    pub fn tell(&self) {
        self.unsaved.lock().told = true;
    }

    /// Whether what is dirty was given up towards its writer: told as an error of a close.
    pub fn is_given_up(&self) -> bool {
        self.unsaved.lock().told
    }

    /// Forgets what is not committed.
    pub fn discard(&self) {
        let mut unsaved = self.unsaved.lock();
        unsaved.dirty = Ranges::default();
        unsaved.written = None;
        unsaved.told = false;
    }

    /// The background task looks at it now; a later write queues it again.
    pub fn unqueue(&self) {
        self.unsaved.lock().queued = false;
    }

    /// The background task keeps it for another try. False where somebody queued it meanwhile.
    pub fn requeue(&self) -> bool {
        !std::mem::replace(&mut self.unsaved.lock().queued, true)
    }
}
