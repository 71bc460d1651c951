//! What was read from the store and is still good: records by their key, blocks by file and index.
//!
//! A record may be remembered until a change tells otherwise. Two races are shut out here, both with a counter for each
//! group of keys (a stripe): a read that was under way while a change came is not remembered, and a commit of our own
//! whose answer comes after a later change leaves nothing behind. A lock is held for one look-up, and no second one
//! under it.

use super::super::engine::{Field, FieldChange, FieldOp};
use super::super::record::{Key, Record, Revision, Stats, Stored};
use crate::mounts::CacheUse;
use crate::types::{NodeId, Timestamp};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash, RandomState};

const STRIPES: usize = 256;
/// Records remembered, some 300 bytes each.
const RECORDS: usize = 200_000;
/// Bytes of blocks remembered.
const BLOCK_BYTES: u64 = 64 << 20;

/// What must not change between the start of a read and its being remembered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stamp(u64);

/// The state of one group of keys.
#[derive(Default)]
struct Stripe {
    /// Counts whatever happened to a key of the group.
    seq: u64,
    /// The newest commit that touched a key of the group.
    latest: u64,
    /// Of blocks: which are remembered, so that a range of them is forgotten at the cost of those that are there. What was
    /// evicted may still stand here for a moment; what is remembered always does.
    blocks: BTreeSet<(NodeId, u64)>,
}

struct Stripes {
    locks: Box<[Mutex<Stripe>]>,
    hasher: RandomState,
}

impl Stripes {
    fn new() -> Stripes {
        Stripes { locks: (0..STRIPES).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    fn of(&self, key: &impl Hash) -> MutexGuard<'_, Stripe> {
        self.locks[self.hasher.hash_one(key) as usize % STRIPES].lock()
    }

    fn bump_all(&self) {
        self.locks.iter().for_each(|lock| lock.lock().seq += 1);
    }

    /// How many blocks are said to be remembered.
    #[cfg(test)]
    fn blocks(&self) -> usize {
        self.locks.iter().map(|lock| lock.lock().blocks.len()).sum()
    }
}

/// A record, or that there is none, as it was after the commit `at`.
#[derive(Clone)]
struct Seen {
    at: Revision,
    stored: Option<Stored>,
}

/// Records that were read.
pub struct Records {
    map: Cache<Key, Seen>,
    stripes: Stripes,
}

impl Records {
    pub fn new() -> Records {
        Records { map: Cache::new(RECORDS), stripes: Stripes::new() }
    }

    /// What is remembered of a key; `Some(None)`: there is no record.
    pub fn get(&self, key: &Key) -> Option<Option<Stored>> {
        self.map.get(key).map(|seen| seen.stored)
    }

    /// To be taken before a read, for `fill`.
    pub fn stamp(&self, key: &Key) -> Stamp {
        Stamp(self.stripes.of(key).seq)
    }

    /// Remembers what a read found, unless something happened to the key since `stamp`.
    pub fn fill(&self, key: &Key, stamp: Stamp, stored: Option<Stored>) {
        let mut stripe = self.stripes.of(key);
        if stripe.seq == stamp.0 {
            stripe.seq += 1;
            let at = stored.as_ref().map_or(Revision::FIRST, |stored| stored.revision);
            self.map.insert(key.clone(), Seen { at, stored });
        }
    }

    /// A commit changed this record. `own`: it was this session's.
    ///
    /// Statistics are changed by many without a new revision, so only a commit of our own that was already taken into
    /// account (`adjust`) leaves them remembered.
    pub fn changed(&self, key: &Key, revision: Revision, own: bool) {
        let mut stripe = self.stripes.of(key);
        stripe.seq += 1;
        stripe.latest = stripe.latest.max(revision.0);
        let may_stay = own || !matches!(key, Key::Stats(_));
        self.map.remove_if(key, |seen| !(may_stay && seen.at >= revision));
    }

    /// Our own commit put or deleted this record.
    pub fn wrote(&self, key: &Key, record: Option<&Record>, revision: Revision) {
        let mut stripe = self.stripes.of(key);
        stripe.seq += 1;
        if stripe.latest > revision.0 {
            self.map.remove(key);
            return;
        }
        stripe.latest = revision.0;
        let stored = record.map(|record| Stored { record: record.clone(), revision });
        self.map.insert(key.clone(), Seen { at: revision, stored });
    }

    /// Our own commit changed fields of these statistics. They are followed only if nothing else happened to them since
    /// `stamp`, which was taken before the commit; else they are forgotten.
    pub fn adjust(&self, node: NodeId, stamp: Stamp, changes: &[FieldChange], revision: Revision) {
        let key = Key::Stats(node);
        let mut stripe = self.stripes.of(&key);
        let undisturbed = stripe.seq == stamp.0;
        stripe.seq += 1;
        stripe.latest = stripe.latest.max(revision.0);
        let Some((key, mut seen)) = self.map.remove(&key) else { return };
        if !undisturbed {
            return;
        }
        if let Some(Stored { record: Record::Stats(stats), .. }) = &mut seen.stored {
            changes.iter().filter(|change| change.node == node).for_each(|change| apply(stats, change));
            seen.at = revision;
            self.map.insert(key, seen);
        }
    }

    /// How they are used.
    pub fn usage(&self) -> CacheUse {
        CacheUse::of("records", false, &self.map)
    }

    /// Forgets one key.
    pub fn drop(&self, key: &Key) {
        self.stripes.of(key).seq += 1;
        self.map.remove(key);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.stripes.bump_all();
        self.map.clear();
    }
}

fn apply(stats: &mut Stats, change: &FieldChange) {
    let to = |old: i64| match change.op {
        FieldOp::Add(by) => old.saturating_add(by),
        FieldOp::Max(to) => old.max(to),
        FieldOp::Set(to) => to,
    };
    match change.field {
        Field::Size => stats.size = to(stats.size as i64) as u64,
        Field::Links => stats.links = to(stats.links as i64) as u64,
        Field::Entries => stats.entries = to(stats.entries as i64) as u64,
        Field::Atime => stats.atime = Timestamp(to(stats.atime.0)),
        Field::Mtime => stats.mtime = Timestamp(to(stats.mtime.0)),
        Field::Ctime => stats.ctime = Timestamp(to(stats.ctime.0)),
    }
}

#[derive(Clone)]
struct BlockWeight;

impl Weighter<(NodeId, u64), Bytes> for BlockWeight {
    fn weight(&self, _: &(NodeId, u64), bytes: &Bytes) -> u64 {
        bytes.len() as u64 + 64
    }
}

/// Collects what an insert evicts, to be struck off when no lock is held.
#[derive(Clone)]
struct Evicted;

impl Lifecycle<(NodeId, u64), Bytes> for Evicted {
    type RequestState = Vec<(NodeId, u64)>;

    fn on_evict(&self, evicted: &mut Vec<(NodeId, u64)>, key: (NodeId, u64), _: Bytes) {
        evicted.push(key);
    }
}

type BlockMap = Cache<(NodeId, u64), Bytes, BlockWeight, DefaultHashBuilder, Evicted>;

/// Blocks that were read.
pub struct Blocks {
    map: BlockMap,
    stripes: Stripes,
}

impl Blocks {
    pub fn new() -> Blocks {
        Blocks::holding(BLOCK_BYTES)
    }

    fn holding(bytes: u64) -> Blocks {
        let map = Cache::with(4096, bytes, BlockWeight, DefaultHashBuilder::default(), Evicted);
        Blocks { map, stripes: Stripes::new() }
    }

    /// A block as it is remembered; an empty one is a hole.
    pub fn get(&self, node: NodeId, index: u64) -> Option<Bytes> {
        self.map.get(&(node, index))
    }

    /// To be taken before a read, for `fill`.
    pub fn stamp(&self, node: NodeId) -> Stamp {
        Stamp(self.stripes.of(&node).seq)
    }

    /// Remembers a block that a read found, unless the file's bytes changed since `stamp`.
    pub fn fill(&self, node: NodeId, stamp: Stamp, index: u64, bytes: Bytes) {
        let mut evicted = Vec::new();
        let mut stripe = self.stripes.of(&node);
        if stripe.seq == stamp.0 {
            stripe.blocks.insert((node, index));
            self.map.insert_with_lifecycle((node, index), bytes, &mut evicted);
        }
        drop(stripe);
        evicted.iter().for_each(|key| self.strike_off(key));
    }

    /// Notes that a block was evicted, unless it was read again since.
    fn strike_off(&self, key: &(NodeId, u64)) {
        let mut stripe = self.stripes.of(&key.0);
        if self.map.peek(key).is_none() {
            stripe.blocks.remove(key);
        }
    }

    /// How they are used.
    pub fn usage(&self) -> CacheUse {
        CacheUse::of("blocks", true, &self.map)
    }

    /// Forgets the blocks that have an index from `first` to `last`.
    pub fn drop(&self, node: NodeId, first: u64, last: u64) {
        let mut stripe = self.stripes.of(&node);
        stripe.seq += 1;
        for key in stripe.blocks.extract_if((node, first)..=(node, last), |_| true) {
            self.map.remove(&key);
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        for lock in &self.stripes.locks {
            let mut stripe = lock.lock();
            stripe.seq += 1;
            std::mem::take(&mut stripe.blocks).iter().for_each(|key| drop(self.map.remove(key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    const KEY: Key = Key::Stats(NodeId(5));

    fn stats(links: u64) -> Option<Stored> {
        let record = Record::Stats(Stats { links, ..Stats::default() });
        Some(Stored { record, revision: Revision(10) })
    }

    fn more_links() -> [FieldChange; 1] {
        [FieldChange { node: NodeId(5), field: Field::Links, op: FieldOp::Add(1) }]
    }

    #[test]
    fn a_read_that_a_change_overtook_is_not_remembered() {
        let records = Records::new();
        let stamp = records.stamp(&KEY);
        records.changed(&KEY, Revision(11), false);
        records.fill(&KEY, stamp, stats(1));
        assert!(records.get(&KEY).is_none());
    }

    #[test]
    fn our_own_commit_is_followed_and_its_echo_passed_over() {
        let records = Records::new();
        records.fill(&KEY, records.stamp(&KEY), stats(1));
        let stamp = records.stamp(&KEY);
        records.adjust(NodeId(5), stamp, &more_links(), Revision(11));
        records.changed(&KEY, Revision(11), true);
        let Some(Some(Stored { record: Record::Stats(seen), .. })) = records.get(&KEY) else { panic!("forgotten") };
        assert_eq!(seen.links, 2);
        records.changed(&KEY, Revision(9), false);
        assert!(records.get(&KEY).is_none(), "somebody else's change may not be in it, whatever its revision");
    }

    #[test]
    fn statistics_that_were_read_meanwhile_are_not_counted_twice() {
        let records = Records::new();
        let stamp = records.stamp(&KEY);
        records.fill(&KEY, records.stamp(&KEY), stats(2));
        records.adjust(NodeId(5), stamp, &more_links(), Revision(11));
        assert!(records.get(&KEY).is_none());
    }

    #[test]
    fn a_later_change_outlives_the_late_answer_of_our_commit() {
        let records = Records::new();
        records.changed(&Key::Inode(NodeId(5)), Revision(12), false);
        records.wrote(&Key::Inode(NodeId(5)), None, Revision(11));
        assert!(records.get(&Key::Inode(NodeId(5))).is_none());
    }

    #[test]
    fn blocks_are_forgotten_by_range() {
        let blocks = Blocks::new();
        let node = NodeId(5);
        for index in 0..4 {
            blocks.fill(node, blocks.stamp(node), index, Bytes::from_static(b"x"));
        }
        blocks.drop(node, 2, u64::MAX);
        assert!(blocks.get(node, 1).is_some() && blocks.get(node, 2).is_none() && blocks.get(node, 3).is_none());
    }

    #[test]
    fn a_block_that_was_read_far_away_does_not_make_a_truncation_long() {
        let blocks = Blocks::new();
        let (far, near) = (NodeId(5), NodeId(6));
        blocks.fill(far, blocks.stamp(far), 1 << 46, Bytes::new());
        blocks.fill(near, blocks.stamp(near), 0, Bytes::from_static(b"x"));
        let start = Instant::now();
        blocks.drop(far, 1, u64::MAX);
        assert!(start.elapsed() < Duration::from_secs(1));
        assert!(blocks.get(far, 1 << 46).is_none() && blocks.get(near, 0).is_some());
    }

    #[test]
    fn what_was_evicted_is_not_kept_account_of() {
        let blocks = Blocks::holding(10_000);
        for index in 0..10_000u64 {
            let node = NodeId(index % 7);
            blocks.fill(node, blocks.stamp(node), index, Bytes::from_static(b"x"));
        }
        assert_eq!(blocks.stripes.blocks(), blocks.map.len());
        blocks.clear();
        assert_eq!((blocks.stripes.blocks(), blocks.map.len()), (0, 0));
    }
}
