//! The locks that are held in this session.
//!
//! While the session is alone they are here only, and cost no commit. When another comes they are put into the store
//! before that one is told that it is known, and it takes no lock earlier.

use super::super::record::{LockHolder, SessionId};
use crate::mounts::locks::{HeldLock, LockTable};
use crate::types::{LockOwner, NodeId};
use std::collections::HashMap;
use tokio::sync::{Mutex, MutexGuard};

const STRIPES: usize = 64;

/// The locks by file. The mutex of a stripe (async) is held while the locks of one of its files are changed, so that what
/// is here is what was committed.
pub struct Lockers([Mutex<Stripe>; STRIPES]);

/// The locks of some files.
pub type Stripe = HashMap<NodeId, OwnLocks>;

/// The locks that this session holds of one file.
#[derive(Default)]
pub struct OwnLocks {
    pub table: LockTable<LockOwner>,
    pub store: InStore,
}

/// What the store holds of a file's locks for this session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InStore {
    #[default]
    Nothing,
    /// Just the table.
    Same,
    /// Something else, or nobody knows what.
    Unlike,
}

impl Default for Lockers {
    fn default() -> Lockers {
        Lockers(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Lockers {
    /// The stripe of a file.
    pub async fn of(&self, node: NodeId) -> MutexGuard<'_, Stripe> {
        self.0[node.0 as usize % STRIPES].lock().await
    }

    /// All stripes.
    pub fn stripes(&self) -> impl Iterator<Item = &Mutex<Stripe>> {
        self.0.iter()
    }
}

impl OwnLocks {
    /// The table was changed, and not the store.
    pub fn changed_here(&mut self) {
        if self.store == InStore::Same {
            self.store = InStore::Unlike;
        }
    }

    /// Whether the store is to be told.
    pub fn is_to_be_told(&self) -> bool {
        match self.store {
            InStore::Nothing => !self.table.is_empty(),
            InStore::Same => false,
            InStore::Unlike => true,
        }
    }

    /// Whether there is nothing to remember.
    pub fn is_idle(&self) -> bool {
        self.table.is_empty() && self.store != InStore::Unlike
    }
}

/// The locks of a file that all sessions hold: `stored`, but of this session just its `own`.
pub fn of_all(stored: &LockTable<LockHolder>, own: &LockTable<LockOwner>, session: SessionId) -> LockTable<LockHolder> {
    let others = stored.held().iter().filter(|held| held.owner.session != session).copied();
    let own = own.held().iter().map(|held| with_session(held, session));
    LockTable::new(others.chain(own).collect())
}

/// A lock of this session, as others know it.
pub fn with_session(held: &HeldLock<LockOwner>, session: SessionId) -> HeldLock<LockHolder> {
    let HeldLock { range, owner, kind, pid } = *held;
    HeldLock { range, owner: LockHolder { session, owner }, kind, pid }
}
