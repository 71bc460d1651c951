//! Which batches may become one transaction.
//!
//! A group is done by few statements over all its members: first every demand, then every delete, put, field and
//! block. That is the same as one member after another only where no member looks at or writes what another before
//! it wrote; such a member waits for the next group. Changes of fields and blocks may meet: those are gathered, or
//! done in order.

use crate::mounts::store::engine::{Batch, BlockChange};
use crate::mounts::store::record::Key;
use crate::types::NodeId;
use std::collections::HashSet;

/// Batches in one group at most.
const MEMBERS: usize = 128;

/// Bytes in one group at most, if it has more than one member.
const BYTES: usize = 4 << 20;

/// What the members of a group touch.
#[derive(Default)]
pub struct Footprint {
    members: usize,
    bytes: usize,
    /// Keys that were deleted or put.
    written: HashSet<Key>,
    /// Files whose fields or blocks were changed.
    changed: HashSet<NodeId>,
}

impl Footprint {
    /// Takes `batch` into the group, or says that it must wait.
    pub fn admit(&mut self, batch: &Batch) -> bool {
        let bytes = size(batch);
        let room = self.members < MEMBERS && self.bytes + bytes <= BYTES;
        if self.members > 0 && !(room && self.independent(batch)) {
            return false;
        }
        self.members += 1;
        self.bytes += bytes;
        self.written.extend(writes(batch).cloned());
        self.changed.extend(changes(batch));
        true
    }

    fn independent(&self, batch: &Batch) -> bool {
        let untouched = |key: &Key| !self.written.contains(key);
        let reads = batch.expect.iter().all(|(key, _)| untouched(key) && !self.block_changed(key))
            && batch
                .guard
                .iter()
                .all(|guard| untouched(&Key::Stats(guard.node)) && !self.changed.contains(&guard.node))
            && batch.session.is_none_or(|id| untouched(&Key::Session(id)));
        reads
            && writes(batch).all(|key| untouched(key) && !self.stats_changed(key))
            && changes(batch).all(|node| untouched(&Key::Stats(node)))
    }

    fn block_changed(&self, key: &Key) -> bool {
        matches!(key, Key::Block(node, _) if self.changed.contains(node))
    }

    fn stats_changed(&self, key: &Key) -> bool {
        matches!(key, Key::Stats(node) if self.changed.contains(node))
    }
}

fn writes(batch: &Batch) -> impl Iterator<Item = &Key> {
    batch.delete.iter().chain(batch.put.iter().map(|(key, _)| key))
}

fn changes(batch: &Batch) -> impl Iterator<Item = NodeId> {
    batch.fields.iter().map(|change| change.node).chain(batch.blocks.iter().map(block_node))
}

fn block_node(change: &BlockChange) -> NodeId {
    match change {
        BlockChange::Patch { node, .. } | BlockChange::Discard { node, .. } => *node,
    }
}

/// Bytes that a batch writes into blocks.
pub fn size(batch: &Batch) -> usize {
    let bytes = |change: &BlockChange| match change {
        BlockChange::Patch { bytes, .. } => bytes.len(),
        BlockChange::Discard { .. } => 0,
    };
    batch.blocks.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::store::engine::{Expect, Field, FieldChange, FieldOp, Guard};
    use crate::mounts::store::record::{Record, Revision};

    fn put(key: Key) -> Batch {
        Batch { put: vec![(key, Record::Claim)], ..Batch::default() }
    }

    fn touch(node: u64) -> Batch {
        let change = FieldChange { node: NodeId(node), field: Field::Entries, op: FieldOp::Add(1) };
        Batch { fields: vec![change], ..Batch::default() }
    }

    fn together(first: &Batch, second: &Batch) -> bool {
        let mut group = Footprint::default();
        assert!(group.admit(first), "the first is always taken");
        group.admit(second)
    }

    #[test]
    fn what_meets_only_in_what_commutes_goes_together() {
        assert!(together(&touch(1), &touch(1)));
        assert!(together(&put(Key::Inode(NodeId(1))), &put(Key::Inode(NodeId(2)))));
        assert!(together(&put(Key::Inode(NodeId(1))), &touch(1)));
    }

    #[test]
    fn what_looks_at_or_writes_what_was_written_waits() {
        let key = Key::Inode(NodeId(1));
        let expects = |key: &Key| Batch { expect: vec![(key.clone(), Expect::At(Revision(1)))], ..Batch::default() };
        assert!(!together(&put(key.clone()), &expects(&key)));
        assert!(!together(&put(key.clone()), &put(key.clone())));
        assert!(together(&expects(&key), &put(key)), "the demand is checked first, as it should be");
        let guard =
            Batch { guard: vec![Guard { node: NodeId(1), field: Field::Entries, value: 0 }], ..Batch::default() };
        assert!(!together(&touch(1), &guard));
        assert!(!together(&put(Key::Stats(NodeId(1))), &touch(1)));
        assert!(!together(&touch(1), &put(Key::Stats(NodeId(1)))));
    }
}
