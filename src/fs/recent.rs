//! Which nodes others changed a moment ago.
//!
//! An answer that is on its way to the kernel while a change overtakes it would be remembered although it is old. So
//! each request takes a [`Stamp`] before it asks the volume, and what changed after that is told with no time to live.

use crate::types::NodeId;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A moment, by the count of the changes noted until then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Stamp(u64);

const SLOTS: usize = 4096;

/// The moment of the last change in each of many slots that nodes fall into. Two nodes in one slot cost a request
/// more, never a wrong answer.
pub(super) struct Recent {
    clock: AtomicU64,
    swept: AtomicU64,
    slots: Box<[AtomicU64]>,
}

impl Default for Recent {
    fn default() -> Recent {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Recent { clock: AtomicU64::new(0), swept: AtomicU64::new(0), slots }
    }
}

impl Recent {
    /// Now.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp(self.clock.load(SeqCst))
    }

    /// Others changed `node`, or a name in it. Called before the kernel is told.
    pub(super) fn note(&self, node: NodeId) {
        let now = self.clock.fetch_add(1, SeqCst) + 1;
        self.slot(node).fetch_max(now, SeqCst);
    }

    /// Anything may have changed.
    pub(super) fn sweep(&self) {
        let now = self.clock.fetch_add(1, SeqCst) + 1;
        self.swept.fetch_max(now, SeqCst);
    }

    /// Whether one of `nodes` may have changed since `asked`.
    pub(super) fn changed_since(&self, asked: Stamp, nodes: &[NodeId]) -> bool {
        self.swept_since(asked) || nodes.iter().any(|node| self.slot(*node).load(SeqCst) > asked.0)
    }

    /// Whether everything was withdrawn since `asked`.
    pub(super) fn swept_since(&self, asked: Stamp) -> bool {
        self.swept.load(SeqCst) > asked.0
    }

    fn slot(&self, node: NodeId) -> &AtomicU64 {
        &self.slots[(node.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize % SLOTS]
    }
}
