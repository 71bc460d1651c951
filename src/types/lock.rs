//! Advisory locks of files (`fcntl(2)`, `flock(2)`).

use super::{Errno, Error, Origin, Result};

/// Whether a lock may be shared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum LockKind {
    /// Others may hold read locks of the same bytes.
    Read,
    /// Nobody else may hold a lock of the same bytes.
    Write,
}

/// The bytes that a lock covers, the last one included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct LockRange {
    start: u64,
    end: u64,
}

impl LockRange {
    /// The last byte that a file can have: a range to here goes to the end of the file, however far that is.
    pub const LAST: u64 = i64::MAX as u64;
    /// All bytes, those that the file does not have yet too.
    pub const WHOLE: LockRange = LockRange { start: 0, end: LockRange::LAST };

    /// From `start` to `end`, both included.
    ///
    /// # Errors
    /// `EINVAL` where `end` is before `start` or past [`LockRange::LAST`].
    pub fn new(start: u64, end: u64) -> Result<LockRange> {
        if start <= end && end <= LockRange::LAST {
            return Ok(LockRange { start, end });
        }
        Err(Error::new("lock", Errno::EINVAL).context(format!("the range from {start} to {end}")))
    }

    /// The first byte.
    pub fn start(self) -> u64 {
        self.start
    }

    /// The last byte.
    pub fn end(self) -> u64 {
        self.end
    }

    /// Whether both have a byte.
    pub fn overlaps(self, other: LockRange) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// What lies before `other`, and what lies after it.
    pub fn without(self, other: LockRange) -> [Option<LockRange>; 2] {
        let before = other.start.checked_sub(1).map(|end| LockRange { start: self.start, end: end.min(self.end) });
        let after = LockRange { start: other.end.saturating_add(1).max(self.start), end: self.end };
        [before, Some(after)].map(|part| part.filter(|part| part.start <= part.end))
    }

    /// Both as one, where they overlap or touch.
    pub fn joined(self, other: LockRange) -> Option<LockRange> {
        let near = self.start <= other.end.saturating_add(1) && other.start <= self.end.saturating_add(1);
        near.then(|| LockRange { start: self.start.min(other.start), end: self.end.max(other.end) })
    }
}

/// Whose a lock is: a process's or an open file's, as the kernel of a session numbers them. Two locks of one owner never
/// stand in each other's way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct LockOwner {
    /// The session: each has numbers of its own.
    pub origin: Origin,
    /// The number.
    pub number: u64,
}

/// A lock that somebody wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockRequest {
    /// For whom.
    pub owner: LockOwner,
    /// Shared or not.
    pub kind: LockKind,
    /// Which bytes.
    pub range: LockRange,
    /// The process that asks, for whoever wants to know.
    pub pid: u32,
}

/// A lock that stands in somebody's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockInTheWay {
    /// Shared or not.
    pub kind: LockKind,
    /// Which bytes.
    pub range: LockRange,
    /// The process that took it; 0 where that is on another machine, or not known here.
    pub pid: u32,
}
