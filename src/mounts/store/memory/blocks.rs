//! The bytes of files, in blocks that are changed in place.

use super::super::record::Revision;
use crate::types::NodeId;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::ops::Range;

/// The size of a full block, in bytes.
pub const BLOCK_SIZE: u32 = 128 * 1024;

/// One block: its bytes up to the last that was written, and the commit that last changed it.
pub struct Block {
    pub bytes: Bytes,
    pub revision: Revision,
}

/// The blocks of all files.
#[derive(Default)]
pub struct Blocks {
    map: BTreeMap<(NodeId, u64), Block>,
    used: u64,
}

impl Blocks {
    /// Bytes held in all.
    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn get(&self, node: NodeId, index: u64) -> Option<&Block> {
        self.map.get(&(node, index))
    }

    /// The blocks of `node` with an index in `range`, in order.
    pub fn range(&self, node: NodeId, range: Range<u64>) -> impl Iterator<Item = (u64, &Block)> {
        let range = range.start..range.end.max(range.start);
        self.map.range((node, range.start)..(node, range.end)).map(|((_, index), block)| (*index, block))
    }

    /// Writes `data` into a block, and tells by how much the block grew.
    pub fn patch(&mut self, node: NodeId, index: u64, offset: usize, data: &[u8], revision: Revision) -> i64 {
        let end = offset + data.len();
        let grown = self.edit(node, index, revision, |bytes| {
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset..end].copy_from_slice(data);
        });
        self.used = self.used.saturating_add_signed(grown);
        grown
    }

    /// Makes the bytes from `start` to before `end` zeros, and tells by how much the file's blocks grew (never up).
    pub fn discard(&mut self, node: NodeId, start: u64, end: u64, size: u64, revision: Revision) -> i64 {
        if start >= end {
            return 0;
        }
        let touched: Vec<u64> = self.range(node, start / size..end.div_ceil(size)).map(|(index, _)| index).collect();
        let mut grown = 0;
        for index in touched {
            let first = start.saturating_sub(index * size) as usize;
            let last = (end - index * size).min(size) as usize;
            grown += self.edit(node, index, revision, |bytes| clear(bytes, first, last));
        }
        self.used = self.used.saturating_add_signed(grown);
        grown
    }

    /// Changes a block, which goes when nothing is left in it. Bytes that a reader still holds are copied first.
    fn edit(&mut self, node: NodeId, index: u64, revision: Revision, change: impl FnOnce(&mut BytesMut)) -> i64 {
        let old = self.map.remove(&(node, index)).map_or_else(Bytes::new, |block| block.bytes);
        let before = old.len() as i64;
        let mut bytes = old.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        change(&mut bytes);
        let after = bytes.len() as i64;
        if after > 0 {
            self.map.insert((node, index), Block { bytes: bytes.freeze(), revision });
        }
        after - before
    }
}

/// Clears a range of a block; what it ends with is cut off, since what is not there reads as zeros.
fn clear(bytes: &mut BytesMut, first: usize, last: usize) {
    if last >= bytes.len() {
        bytes.truncate(first);
    } else {
        bytes[first..last].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(7);
    const REVISION: Revision = Revision::FIRST;

    fn bytes(blocks: &Blocks, index: u64) -> Vec<u8> {
        blocks.get(NODE, index).map_or_else(Vec::new, |block| block.bytes.to_vec())
    }

    #[test]
    fn patches_fill_up_with_zeros() {
        let mut blocks = Blocks::default();
        assert_eq!(blocks.patch(NODE, 3, 2, b"ab", REVISION), 4);
        assert_eq!(blocks.patch(NODE, 3, 0, b"x", REVISION), 0);
        assert_eq!(bytes(&blocks, 3), b"x\0ab");
        assert_eq!(blocks.used(), 4);
    }

    #[test]
    fn a_reader_keeps_the_bytes_it_was_given() {
        let mut blocks = Blocks::default();
        blocks.patch(NODE, 0, 0, b"old", REVISION);
        let held = blocks.get(NODE, 0).expect("a block").bytes.clone();
        blocks.patch(NODE, 0, 0, b"new", REVISION);
        assert_eq!(&held[..], b"old");
        assert_eq!(bytes(&blocks, 0), b"new");
    }

    #[test]
    fn whole_blocks_go_and_partial_ones_are_cleared() {
        let mut blocks = Blocks::default();
        for index in 0..4 {
            blocks.patch(NODE, index, 0, b"abcd", REVISION);
        }
        assert_eq!(blocks.discard(NODE, 2, 13, 4, REVISION), -(2 + 4 + 4));
        assert_eq!(bytes(&blocks, 0), b"ab");
        assert!(blocks.get(NODE, 1).is_none() && blocks.get(NODE, 2).is_none());
        assert_eq!(bytes(&blocks, 3), b"\0bcd");
        assert_eq!(blocks.discard(NODE, 0, u64::MAX, 4, REVISION), -(2 + 4));
        assert_eq!(blocks.used(), 0);
    }
}
