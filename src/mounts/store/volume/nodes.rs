//! The files that this volume's callers know, have open, or are writing.
//!
//! One lock, held for a moment. A file that is just being removed for good cannot be opened: an open waits until that
//! has happened or failed, so an open file is never removed under its holder.

use super::super::record::{Inode, Stats};
use super::file::File;
use crate::types::NodeId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tokio::sync::Notify;

/// What a removed file was like, as long as somebody knows it.
#[derive(Clone)]
pub struct Gone {
    pub inode: Inode,
    pub stats: Stats,
}

#[derive(Default)]
struct Node {
    lookups: u64,
    opens: u32,
    /// This session has told that it has the orphan open.
    claimed: bool,
    /// It lost its last name through this session, and goes when nobody here knows it any more.
    orphan: bool,
    /// Its records are being removed at this moment.
    removing: bool,
    gone: Option<Box<Gone>>,
    file: Option<Arc<File>>,
}

impl Node {
    fn is_idle(&self) -> bool {
        self.lookups == 0 && self.opens == 0 && !self.removing && self.file.is_none()
    }
}

/// What a close leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// The file is open still.
    StillOpen,
    /// It was the last.
    Last,
    /// It was the last, and the file an orphan that nobody here knows any more.
    Free,
}

/// All that somebody holds.
#[derive(Default)]
pub struct Nodes {
    map: Mutex<HashMap<NodeId, Node>>,
    settled: Notify,
}

impl Nodes {
    /// Counts a lookup.
    pub fn know(&self, node: NodeId) {
        self.map.lock().entry(node).or_default().lookups += 1;
    }

    /// Takes lookups back. True where that frees an orphan.
    pub fn forget(&self, node: NodeId, count: u64) -> bool {
        self.change(node, |known| {
            known.lookups = known.lookups.saturating_sub(count);
            known.lookups == 0 && known.opens == 0 && known.orphan
        })
        .unwrap_or(false)
    }

    /// Whether somebody knows the file.
    pub fn is_known(&self, node: NodeId) -> bool {
        self.map.lock().get(&node).is_some_and(|known| known.lookups > 0)
    }

    /// Changes a node that is there, and lets go of it where nobody holds it any more.
    fn change<T>(&self, node: NodeId, change: impl FnOnce(&mut Node) -> T) -> Option<T> {
        let mut map = self.map.lock();
        let Entry::Occupied(mut entry) = map.entry(node) else { return None };
        let result = change(entry.get_mut());
        if entry.get().is_idle() {
            entry.remove();
        }
        Some(result)
    }

    /// Counts an open, and gives the file's state. Waits while the file is being removed.
    pub async fn open(&self, node: NodeId) -> Arc<File> {
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if let Some(file) = self.try_open(node) {
                return file;
            }
            settled.await;
        }
    }

    fn try_open(&self, node: NodeId) -> Option<Arc<File>> {
        let mut map = self.map.lock();
        let known = map.entry(node).or_default();
        if known.removing {
            return None;
        }
        known.opens += 1;
        Some(known.file.get_or_insert_with(|| Arc::new(File::new(node))).clone())
    }

    /// Takes an open back.
    pub fn close(&self, node: NodeId) -> Closed {
        self.change(node, |known| {
            known.opens = known.opens.saturating_sub(1);
            if known.opens > 0 {
                return Closed::StillOpen;
            }
            known.orphan |= std::mem::take(&mut known.claimed);
            if known.orphan && known.lookups == 0 { Closed::Free } else { Closed::Last }
        })
        .unwrap_or(Closed::Last)
    }

    /// Lets go of the state of a file that is closed and clean.
    pub fn tidy(&self, node: NodeId) {
        self.change(node, |known| {
            if known.opens == 0 {
                known.file.take_if(|file| file.is_clean());
            }
        });
    }

    /// The state of a file that is open or has bytes to commit.
    pub fn file(&self, node: NodeId) -> Option<Arc<File>> {
        self.map.lock().get(&node).and_then(|known| known.file.clone())
    }

    /// All files that have bytes to commit.
    pub fn unsaved(&self) -> Vec<Arc<File>> {
        let map = self.map.lock();
        map.values().filter_map(|known| known.file.clone()).filter(|file| !file.is_clean()).collect()
    }

    /// Takes all opens and lookups back.
    pub fn close_all(&self) {
        self.map.lock().values_mut().for_each(|known| {
            known.lookups = 0;
            known.opens = 0;
            known.claimed = false;
        });
    }

    /// Whether it is open.
    pub fn is_open(&self, node: NodeId) -> bool {
        self.map.lock().get(&node).is_some_and(|known| known.opens > 0)
    }

    /// Files that are open without a claim.
    pub fn unclaimed(&self) -> Vec<NodeId> {
        let map = self.map.lock();
        map.iter().filter(|(_, known)| known.opens > 0 && !known.claimed).map(|(node, _)| *node).collect()
    }

    /// Whether it is open and this session has not told so.
    pub fn needs_claim(&self, node: NodeId) -> bool {
        self.map.lock().get(&node).is_some_and(|known| known.opens > 0 && !known.claimed)
    }

    /// Notes that this session told that it has the orphan open. False where it was closed meanwhile.
    pub fn claimed(&self, node: NodeId) -> bool {
        self.change(node, |known| {
            known.claimed = known.opens > 0;
            known.claimed
        })
        .unwrap_or(false)
    }

    /// Notes that a file lost its last name. False where nobody here knows it or has it open, so it may go at once.
    pub fn orphaned(&self, node: NodeId, claimed: bool) -> bool {
        self.change(node, |known| {
            known.orphan = true;
            known.claimed = claimed && known.opens > 0;
            known.lookups > 0 || known.opens > 0
        })
        .unwrap_or(false)
    }

    /// Notes that a file lost its last name through somebody else.
    pub fn note_orphan(&self, node: NodeId) {
        self.change(node, |known| known.orphan = true);
    }

    /// Keeps opens out while the file's records are removed; `None` where it is open or may be at any moment, since
    /// somebody knows it, or where another removes it.
    pub fn remove(&self, node: NodeId) -> Option<Removal<'_>> {
        let mut map = self.map.lock();
        let known = map.entry(node).or_default();
        if known.opens > 0 || known.lookups > 0 || known.removing {
            return None;
        }
        known.removing = true;
        Some(Removal { nodes: self, node })
    }

    /// What a removed file was like, where somebody still knows it.
    pub fn gone(&self, node: NodeId) -> Option<Gone> {
        self.map.lock().get(&node).and_then(|known| known.gone.as_deref().cloned())
    }

    /// Keeps what a file was like when it lost its last name, for those who know it longer than its records last.
    pub fn set_gone(&self, node: NodeId, inode: Inode, stats: Stats) {
        self.change(node, |known| known.gone = Some(Box::new(Gone { inode, stats })));
    }

    /// Drops what was written to a file that is removed for good.
    pub fn drop_unsaved(&self, node: NodeId) {
        self.change(node, |known| {
            if let Some(file) = known.file.take() {
                file.discard();
            }
        });
    }
}

/// A file whose records are being removed. Opens wait until this is dropped.
pub struct Removal<'a> {
    nodes: &'a Nodes,
    node: NodeId,
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        self.nodes.change(self.node, |known| known.removing = false);
        self.nodes.settled.notify_waiters();
    }
}
