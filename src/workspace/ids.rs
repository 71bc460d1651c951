//! The numbers that a session shows for the files of its volumes.
//!
//! A volume's own numbers are kept wherever that is possible, since programs remember them from one mount to the next
//! (git compares `st_ino` with its index). The first volume's pass as they are; each further volume of a session that
//! crosses mounts has its place in the high bits. What cannot be shown so gets an alias.

use super::skeleton::Skeleton;
use crate::types::NodeId;
use parking_lot::Mutex;
use std::collections::HashMap;

/// A file of one of the session's volumes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Inner {
    /// The volume, by its place in the session's list.
    pub volume: usize,
    /// The file's number there.
    pub node: NodeId,
}

/// Bits for a volume's own numbers where several share a session.
const SHIFT: u32 = 48;

/// Aliases lie above every shifted number and below the pinned ones.
const ALIAS: u64 = 1 << 59;

/// More volumes than this have only aliases.
const VOLUMES: usize = 1 << (59 - SHIFT);

/// Both ways between a session's numbers and its volumes'.
pub(super) struct Ids {
    crossing: bool,
    aliases: Mutex<Aliases>,
}

#[derive(Default)]
struct Aliases {
    next: u64,
    by_id: HashMap<NodeId, (Inner, u64)>,
    by_inner: HashMap<Inner, NodeId>,
}

impl Ids {
    /// For a session that serves one volume, or, where `crossing`, several.
    pub(super) fn new(crossing: bool) -> Ids {
        Ids { crossing, aliases: Mutex::default() }
    }

    /// The session's number for `inner`; `lookups` are added to what an alias is kept for.
    pub(super) fn outer(&self, inner: Inner, lookups: u64) -> NodeId {
        self.direct(inner).unwrap_or_else(|| self.aliases.lock().outer(inner, lookups))
    }

    /// The file that bears `id`, or `None` for an alias that was forgotten.
    pub(super) fn inner(&self, id: NodeId) -> Option<Inner> {
        if id.0 & ALIAS != 0 && id.0 < ALIAS << 1 {
            return self.aliases.lock().by_id.get(&id).map(|(inner, _)| *inner);
        }
        if !self.crossing {
            return Some(Inner { volume: 0, node: id });
        }
        Some(Inner { volume: (id.0 >> SHIFT) as usize, node: NodeId(id.0 & ((1 << SHIFT) - 1)) })
    }

    /// Takes back `count` lookups of an alias.
    pub(super) fn forget(&self, id: NodeId, count: u64) {
        let mut aliases = self.aliases.lock();
        if let Some((inner, lookups)) = aliases.by_id.get_mut(&id) {
            *lookups = lookups.saturating_sub(count);
            if *lookups == 0 {
                let inner = *inner;
                aliases.by_id.remove(&id);
                aliases.by_inner.remove(&inner);
            }
        }
    }

    fn direct(&self, inner: Inner) -> Option<NodeId> {
        let Inner { volume, node } = inner;
        let id = if !self.crossing {
            node
        } else if volume < VOLUMES && node.0 >> SHIFT == 0 {
            NodeId((volume as u64) << SHIFT | node.0)
        } else {
            return None;
        };
        (id.0 < ALIAS && !Skeleton::reserves(id)).then_some(id)
    }
}

impl Aliases {
    fn outer(&mut self, inner: Inner, lookups: u64) -> NodeId {
        let next = &mut self.next;
        let id = *self.by_inner.entry(inner).or_insert_with(|| {
            *next += 1;
            NodeId(ALIAS + *next)
        });
        self.by_id.entry(id).or_insert((inner, 0)).1 += lookups;
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inner(volume: usize, node: u64) -> Inner {
        Inner { volume, node: NodeId(node) }
    }

    #[test]
    fn a_single_volume_keeps_its_numbers() {
        let ids = Ids::new(false);
        for node in [2, 42, 1 << 48, (1 << 59) - 1] {
            assert_eq!(ids.outer(inner(0, node), 1), NodeId(node));
            assert_eq!(ids.inner(NodeId(node)), Some(inner(0, node)));
        }
    }

    #[test]
    fn numbers_of_all_volumes_differ_and_lead_back() {
        let ids = Ids::new(true);
        let files = [(0, 1), (0, 2), (1, 1), (1, 2), (2, u64::MAX), (1, 1 << 48), (5000, 7), (0, 1 << 60)];
        let outer: Vec<NodeId> = files.iter().map(|(v, n)| ids.outer(inner(*v, *n), 1)).collect();
        for (i, id) in outer.iter().enumerate() {
            assert_eq!(ids.inner(*id), Some(inner(files[i].0, files[i].1)));
            assert!(!Skeleton::reserves(*id), "{id:?} is kept for pinned nodes");
            assert!(!outer[..i].contains(id), "{id:?} twice");
        }
    }

    #[test]
    fn an_alias_goes_with_its_last_lookup() {
        let ids = Ids::new(false);
        let id = ids.outer(inner(0, 1), 1);
        assert_eq!(ids.outer(inner(0, 1), 1), id);
        ids.forget(id, 1);
        assert_eq!(ids.inner(id), Some(inner(0, 1)));
        ids.forget(id, 1);
        assert_eq!(ids.inner(id), None);
        assert_ne!(ids.outer(inner(0, 1), 1), id, "an alias is not used again");
    }
}
