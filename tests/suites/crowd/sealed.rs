//! Contents that say themselves whether they are whole.

use crate::harness::random;
use std::path::Path;

/// The length of a record of the log.
pub const RECORD: usize = 64;

/// A file's bytes: its seed, and what only this seed gives.
pub fn bytes(seed: u64) -> Vec<u8> {
    let length = fastrand::Rng::with_seed(seed).usize(..60_000);
    [seed.to_le_bytes().as_slice(), &random::bytes(seed, length)].concat()
}

/// A record of the log.
pub fn record(seed: u64) -> Vec<u8> {
    [seed.to_le_bytes().as_slice(), &random::bytes(seed, RECORD - 8)].concat()
}

fn seed(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.first_chunk().copied().unwrap_or_else(|| panic!("{} bytes have no seed", bytes.len())))
}

/// Shows that these are a file's bytes, from the first to the last.
#[track_caller]
pub fn check(path: &Path, found: &[u8]) {
    let right = bytes(seed(found));
    let wrong = found.iter().zip(&right).position(|(is, should)| is != should);
    let (path, len, should) = (path.display(), found.len(), right.len());
    assert!(found == right, "{path}: {len} bytes of {should}, the first wrong one at {wrong:?}");
}

/// Shows that these are records of a log, each whole, and tells how many.
#[track_caller]
pub fn check_log(found: &[u8]) -> usize {
    assert_eq!(found.len() % RECORD, 0, "the log ends inside a record");
    for one in found.chunks(RECORD) {
        assert!(one == record(seed(one)), "a record of the log is torn");
    }
    found.len() / RECORD
}
