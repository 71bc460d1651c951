//! How far a file reaches.

use super::{Errno, Error, Result};

/// The largest file, in bytes: what a signed offset can say.
pub const FILE_MAX: u64 = i64::MAX as u64;

/// The end of `len` bytes at `offset`.
///
/// # Errors
/// `EFBIG` past the largest file.
pub fn end_of(operation: &'static str, offset: u64, len: u64) -> Result<u64> {
    offset
        .checked_add(len)
        .filter(|end| *end <= FILE_MAX)
        .ok_or_else(|| Error::new(operation, Errno::EFBIG).context(format!("{len} bytes at {offset}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_past_the_largest_file() {
        assert_eq!(end_of("write", FILE_MAX - 1, 1).map_err(|error| error.errno()), Ok(FILE_MAX));
        for (offset, len) in [(FILE_MAX, 1), (FILE_MAX + 1, 0), (u64::MAX, 2), (1, u64::MAX)] {
            assert_eq!(end_of("write", offset, len).map_err(|error| error.errno()), Err(Errno::EFBIG));
        }
    }
}
