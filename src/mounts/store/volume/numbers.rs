//! Inode numbers: never used again, and reserved in ranges, so that a create needs no counter.

use super::super::engine::{Batch, Expect, Outcome};
use super::super::record::{Counter, Key, Record, Stored};
use super::core::Core;
use crate::types::{Errno, Error, NodeId, Result};

/// Numbers that are reserved at once. What a session does not use of them is lost.
const RANGE: u64 = 4096;

/// The next number.
pub async fn next(core: &Core) -> Result<NodeId> {
    loop {
        if let Some(number) = core.numbers.lock().next() {
            return Ok(NodeId(number));
        }
        let range = reserve(core).await?;
        let mut numbers = core.numbers.lock();
        if numbers.is_empty() {
            *numbers = range;
        }
    }
}

async fn reserve(core: &Core) -> Result<std::ops::Range<u64>> {
    let key = Key::Counter(Counter::NextInode);
    for _ in 0..100 {
        let (first, expect) = match core.store.get(std::slice::from_ref(&key)).await?.pop().flatten() {
            Some(Stored { record: Record::Counter(next), revision }) => (next, Expect::At(revision)),
            _ => return Err(Error::new("create", Errno::EIO).context("the store has no counter of inode numbers")),
        };
        let batch = Batch {
            expect: vec![(key.clone(), expect)],
            put: vec![(key.clone(), Record::Counter(first + RANGE))],
            ..Batch::default()
        };
        if let Outcome::Committed(_) = core.commit(batch, None).await? {
            return Ok(first..first + RANGE);
        }
    }
    Err(Error::new("create", Errno::EIO).context("inode numbers are reserved by others all the time"))
}
