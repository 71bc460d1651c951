//! The locks of one file, as a table: who holds what, and what a request would meet.
//!
//! The rules are those of `fcntl(2)`: an owner holds at most one lock of each byte, a new one replaces what it held of
//! the range (so a lock becomes stronger or weaker, is split, or grows together with its neighbours), and locks of
//! different owners may overlap only where both are for reading.

use crate::types::{Errno, Error, LockInTheWay, LockKind, LockOwner, LockRange, LockRequest};

/// A lock that is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HeldLock<O> {
    /// The bytes.
    pub range: LockRange,
    /// Who holds it.
    pub owner: O,
    /// Shared or not.
    pub kind: LockKind,
    /// The process that took it.
    pub pid: u32,
}

impl HeldLock<LockOwner> {
    /// What a request asks for, as it would be held.
    pub fn wanted(request: &LockRequest) -> HeldLock<LockOwner> {
        let LockRequest { owner, kind, range, pid } = *request;
        HeldLock { range, owner, kind, pid }
    }
}

impl<O> HeldLock<O> {
    /// As it is told to whom it is in the way.
    pub fn told(&self) -> LockInTheWay {
        LockInTheWay { kind: self.kind, range: self.range, pid: self.pid }
    }

    /// That it is in the way.
    pub fn refusal(&self) -> Error {
        let HeldLock { range, kind, pid, .. } = self;
        let (start, end) = (range.start(), range.end());
        Error::new("lock", Errno::EAGAIN).context(format!("process {pid} has a {kind:?} lock of {start} to {end}"))
    }
}

/// The locks of one file, in the order of their first bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockTable<O>(Vec<HeldLock<O>>);

impl<O> Default for LockTable<O> {
    fn default() -> LockTable<O> {
        LockTable(Vec::new())
    }
}

impl<O: Copy + Ord> LockTable<O> {
    /// The table that holds just these, which do not conflict.
    pub fn new(mut held: Vec<HeldLock<O>>) -> LockTable<O> {
        held.sort_unstable();
        LockTable(held)
    }

    /// All locks.
    pub fn held(&self) -> &[HeldLock<O>] {
        &self.0
    }

    /// All locks, taken out.
    pub fn into_held(self) -> Vec<HeldLock<O>> {
        self.0
    }

    /// The first lock that would stand in the way of this one.
    pub fn in_the_way(&self, wanted: &HeldLock<O>) -> Option<&HeldLock<O>> {
        self.0.iter().find(|held| {
            let exclusive = held.kind == LockKind::Write || wanted.kind == LockKind::Write;
            exclusive && held.owner != wanted.owner && held.range.overlaps(wanted.range)
        })
    }

    /// Gives the owner this lock, in place of what it held of the range. Nothing is in its way.
    pub fn take(&mut self, mut lock: HeldLock<O>) {
        self.give_back(lock.owner, lock.range);
        self.0.retain(|held| {
            let alike = held.owner == lock.owner && held.kind == lock.kind;
            match held.range.joined(lock.range).filter(|_| alike) {
                Some(joined) => lock.range = joined,
                None => return true,
            }
            false
        });
        let place = self.0.partition_point(|held| *held < lock);
        self.0.insert(place, lock);
    }

    /// Takes away what the owner holds of the range. False where that was nothing.
    pub fn give_back(&mut self, owner: O, range: LockRange) -> bool {
        let mine = |held: &HeldLock<O>| held.owner == owner && held.range.overlaps(range);
        let cut: Vec<HeldLock<O>> = self.0.extract_if(.., |held| mine(held)).collect();
        for held in &cut {
            let rest = held.range.without(range).into_iter().flatten();
            self.0.extend(rest.map(|range| HeldLock { range, ..*held }));
        }
        self.0.sort_unstable();
        !cut.is_empty()
    }

    /// Whether the owner holds any lock.
    pub fn holds(&self, owner: O) -> bool {
        self.0.iter().any(|held| held.owner == owner)
    }

    /// Takes away all locks of the owners that are `gone`. False where there were none.
    pub fn drop_owners(&mut self, gone: impl Fn(&O) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|held| !gone(&held.owner));
        self.0.len() < before
    }

    /// Whether nobody holds any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockKind::{Read, Write};
    use proptest::prelude::*;

    fn lock(owner: u8, kind: LockKind, start: u64, end: u64) -> HeldLock<u8> {
        HeldLock { range: range(start, end), owner, kind, pid: u32::from(owner) }
    }

    fn range(start: u64, end: u64) -> LockRange {
        LockRange::new(start, end).expect("a range")
    }

    fn table(locks: &[HeldLock<u8>]) -> LockTable<u8> {
        let mut table = LockTable::default();
        locks.iter().for_each(|lock| table.take(*lock));
        table
    }

    #[test]
    fn an_unlock_in_the_middle_splits() {
        let mut table = table(&[lock(1, Write, 10, 29)]);
        assert!(table.give_back(1, range(15, 19)));
        assert_eq!(table.held(), [lock(1, Write, 10, 14), lock(1, Write, 20, 29)]);
        assert!(!table.give_back(1, range(15, 19)), "that was free already");
        assert!(!table.give_back(2, LockRange::WHOLE), "nobody else's is touched");
    }

    #[test]
    fn neighbours_of_one_kind_and_owner_grow_together() {
        let grown = table(&[lock(1, Read, 0, 9), lock(1, Read, 20, 29), lock(1, Read, 10, 19)]);
        assert_eq!(grown.held(), [lock(1, Read, 0, 29)]);
        let apart = table(&[lock(1, Read, 0, 9), lock(1, Write, 10, 19), lock(2, Read, 20, 29)]);
        assert_eq!(apart.held().len(), 3);
    }

    #[test]
    fn a_lock_changes_its_kind_where_it_is_taken_anew() {
        let mut held = table(&[lock(1, Write, 0, LockRange::LAST)]);
        held.take(lock(1, Read, 5, 9));
        assert_eq!(held.held(), [lock(1, Write, 0, 4), lock(1, Read, 5, 9), lock(1, Write, 10, LockRange::LAST)]);
        assert_eq!(held.in_the_way(&lock(2, Read, 5, 9)), None);
        assert_eq!(held.in_the_way(&lock(2, Write, 5, 9)), Some(&lock(1, Read, 5, 9)));
        held.take(lock(1, Write, 5, 9));
        assert_eq!(held.held(), [lock(1, Write, 0, LockRange::LAST)]);
    }

    #[test]
    fn one_may_become_stronger_only_where_nobody_else_reads() {
        let held = table(&[lock(1, Read, 0, 9), lock(2, Read, 9, 9)]);
        assert_eq!(held.in_the_way(&lock(1, Write, 0, 9)), Some(&lock(2, Read, 9, 9)));
        assert_eq!(held.in_the_way(&lock(1, Write, 0, 8)), None);
    }

    #[test]
    fn what_an_owner_held_goes_with_it() {
        let mut held = table(&[lock(1, Read, 0, 9), lock(2, Read, 0, 9), lock(1, Write, 20, 29)]);
        assert!(held.holds(1) && held.drop_owners(|owner| *owner == 1));
        assert_eq!(held.held(), [lock(2, Read, 0, 9)]);
        assert!(!held.holds(1) && !held.drop_owners(|owner| *owner == 1) && !held.is_empty());
    }

    const BYTES: usize = 40;

    /// What each owner holds of each byte.
    type Flat = [[Option<LockKind>; BYTES]; 3];

    const FREE: Flat = [[None; BYTES]; 3];

    fn flat_of(table: &LockTable<u8>) -> Flat {
        let mut flat = FREE;
        for held in table.held() {
            for byte in held.range.start()..=held.range.end() {
                let slot = &mut flat[held.owner as usize][byte as usize];
                assert!(slot.replace(held.kind).is_none(), "two locks of one byte");
            }
        }
        flat
    }

    fn is_free(flat: &Flat, wanted: &HeldLock<u8>) -> bool {
        let bytes = wanted.range.start() as usize..=wanted.range.end() as usize;
        flat.iter().enumerate().filter(|(owner, _)| *owner != wanted.owner as usize).all(|(_, bytes_of)| {
            bytes_of[bytes.clone()].iter().flatten().all(|held| *held == Read && wanted.kind == Read)
        })
    }

    proptest! {
        #[test]
        fn any_locks_are_as_on_a_flat_array(
            steps in prop::collection::vec((0u8..3, 0u64..BYTES as u64, 0u64..BYTES as u64, 0u8..3), 1..60),
        ) {
            let (mut flat, mut table) = (FREE, LockTable::default());
            for (owner, a, b, what) in steps {
                let kind = if what == 1 { Read } else { Write };
                let wanted = lock(owner, kind, a.min(b), a.max(b));
                let bytes = wanted.range.start() as usize..=wanted.range.end() as usize;
                if what == 0 {
                    let held = flat[owner as usize][bytes.clone()].iter().any(Option::is_some);
                    prop_assert_eq!(table.give_back(owner, wanted.range), held);
                    flat[owner as usize][bytes].fill(None);
                } else {
                    prop_assert_eq!(table.in_the_way(&wanted).is_none(), is_free(&flat, &wanted));
                    if is_free(&flat, &wanted) {
                        table.take(wanted);
                        flat[owner as usize][bytes].fill(Some(kind));
                    }
                }
                prop_assert_eq!(flat_of(&table), flat);
                prop_assert!(table.held().is_sorted());
                // Nothing is in two pieces that could be one.
                let joinable = |a: &HeldLock<u8>, b: &HeldLock<u8>| {
                    a != b && a.owner == b.owner && a.kind == b.kind && a.range.joined(b.range).is_some()
                };
                prop_assert!(!table.held().iter().any(|a| table.held().iter().any(|b| joinable(a, b))));
            }
        }
    }
}
