//! Byte ranges of a file that were written and are not committed yet.

use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;

/// Pieces of a file, by their offset; none overlaps another.
#[derive(Default, Clone)]
pub struct Ranges {
    pieces: BTreeMap<u64, Bytes>,
    bytes: u64,
}

/// New bytes inside one block.
#[derive(PartialEq, Eq, Debug)]
pub struct Patch {
    pub index: u64,
    pub offset: u32,
    pub bytes: Bytes,
}

impl Ranges {
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes in all pieces.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many pieces there are.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The byte after the last.
    pub fn end(&self) -> u64 {
        self.pieces.last_key_value().map_or(0, |(offset, piece)| offset + piece.len() as u64)
    }

    /// Puts `data` at `offset`, over what is there.
    pub fn write(&mut self, offset: u64, data: Bytes) {
        if data.is_empty() {
            return;
        }
        self.remove(offset, offset + data.len() as u64);
        self.bytes += data.len() as u64;
        self.pieces.insert(offset, data);
    }

    /// Takes out what lies from `start` to before `end`; pieces that reach over a border are cut there.
    pub fn remove(&mut self, start: u64, end: u64) {
        for (offset, piece) in self.overlapping(start, end) {
            self.pieces.remove(&offset);
            let piece_end = offset + piece.len() as u64;
            self.bytes -= piece_end.min(end) - offset.max(start);
            if offset < start {
                self.pieces.insert(offset, piece.slice(..(start - offset) as usize));
            }
            if end < piece_end {
                self.pieces.insert(end, piece.slice((end - offset) as usize..));
            }
        }
    }

    /// The whole pieces that have a byte from `start` to before `end`.
    fn overlapping(&self, start: u64, end: u64) -> Vec<(u64, Bytes)> {
        let mut found = Vec::new();
        if start >= end {
            return found;
        }
        let before = self.pieces.range(..start).next_back();
        let before = before.filter(|(offset, piece)| **offset + piece.len() as u64 > start);
        let inside = self.pieces.range(start..end);
        found.extend(before.into_iter().chain(inside).map(|(offset, piece)| (*offset, piece.clone())));
        found
    }

    /// A copy of the pieces that have a byte from `start` to before `end`. Bytes are shared, not copied.
    pub fn part(&self, start: u64, end: u64) -> Ranges {
        let mut part = Ranges::default();
        for (offset, piece) in self.overlapping(start, end) {
            part.bytes += piece.len() as u64;
            part.pieces.insert(offset, piece);
        }
        part
    }

    /// Puts all of `newer` over these.
    pub fn cover(&mut self, newer: Ranges) {
        for (offset, piece) in newer.pieces {
            self.write(offset, piece);
        }
    }

    /// Copies what lies here over `buffer`, whose first byte is the file's `offset`.
    pub fn overlay(&self, offset: u64, buffer: &mut [u8]) {
        let end = offset + buffer.len() as u64;
        for (at, piece) in self.overlapping(offset, end) {
            let first = at.max(offset);
            let last = (at + piece.len() as u64).min(end);
            buffer[(first - offset) as usize..(last - offset) as usize]
                .copy_from_slice(&piece[(first - at) as usize..(last - at) as usize]);
        }
    }

    /// The pieces as patches of blocks of `size` bytes: cut at the borders of blocks, and joined where they touch.
    pub fn patches(&self, size: u64) -> Vec<Patch> {
        let mut patches = Vec::new();
        let mut run: Vec<(u64, Bytes)> = Vec::new();
        for (offset, piece) in self.cuts(size) {
            let joins =
                run.last().is_some_and(|(at, last)| at + last.len() as u64 == offset && !offset.is_multiple_of(size));
            if !joins {
                patches.extend(join(&run, size));
                run.clear();
            }
            run.push((offset, piece));
        }
        patches.extend(join(&run, size));
        patches
    }

    /// The pieces, cut at the borders of blocks.
    fn cuts(&self, size: u64) -> impl Iterator<Item = (u64, Bytes)> {
        self.pieces.iter().flat_map(move |(offset, piece)| {
            let (mut offset, mut rest) = (*offset, piece.clone());
            std::iter::from_fn(move || {
                if rest.is_empty() {
                    return None;
                }
                let room = (size - offset % size).min(rest.len() as u64);
                let cut = (offset, rest.split_to(room as usize));
                offset += room;
                Some(cut)
            })
        })
    }
}

/// One patch of pieces that touch, all in one block.
fn join(run: &[(u64, Bytes)], size: u64) -> Option<Patch> {
    let (offset, first) = run.first()?;
    let bytes = if run.len() == 1 {
        first.clone()
    } else {
        let mut all = BytesMut::with_capacity(run.iter().map(|(_, piece)| piece.len()).sum());
        run.iter().for_each(|(_, piece)| all.extend_from_slice(piece));
        all.freeze()
    };
    Some(Patch { index: offset / size, offset: (offset % size) as u32, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges(writes: &[(u64, &'static [u8])]) -> Ranges {
        let mut ranges = Ranges::default();
        for (offset, data) in writes {
            ranges.write(*offset, Bytes::from_static(data));
        }
        ranges
    }

    #[test]
    fn pieces_that_touch_become_one_patch_of_a_block() {
        let written = ranges(&[(2, b"ab"), (4, b"cd"), (6, b"efgh"), (20, b"z")]);
        let patch = |index, offset, bytes: &'static [u8]| Patch { index, offset, bytes: Bytes::from_static(bytes) };
        assert_eq!(written.patches(8), [patch(0, 2, b"abcdef"), patch(1, 0, b"gh"), patch(2, 4, b"z")]);
    }

    #[test]
    fn a_write_inside_another_cuts_it() {
        let written = ranges(&[(0, b"aaaaaa"), (2, b"bb")]);
        let mut buffer = [0; 6];
        written.overlay(0, &mut buffer);
        assert_eq!((&buffer, written.bytes(), written.pieces(), written.end()), (b"aabbaa", 6, 3, 6));
    }

    proptest! {
        #[test]
        fn any_writes_and_removals_are_as_on_a_flat_array(
            steps in prop::collection::vec((0u64..60, 1usize..20, any::<Option<u8>>()), 1..30),
        ) {
            let mut flat: Vec<Option<u8>> = vec![None; 100];
            let mut ranges = Ranges::default();
            for (offset, len, byte) in steps {
                match byte {
                    Some(byte) => ranges.write(offset, vec![byte; len].into()),
                    None => ranges.remove(offset, offset + len as u64),
                }
                flat[offset as usize..offset as usize + len].fill(byte);
            }
            let mut seen = vec![0; 100];
            ranges.overlay(0, &mut seen);
            let expected: Vec<u8> = flat.iter().map(|byte| byte.unwrap_or(0)).collect();
            prop_assert_eq!(&seen, &expected);
            prop_assert_eq!(ranges.bytes(), flat.iter().flatten().count() as u64);
            let mut patched = [0; 104];
            for patch in ranges.patches(8) {
                let at = patch.index as usize * 8 + patch.offset as usize;
                prop_assert!(patch.offset as usize + patch.bytes.len() <= 8);
                patched[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
            }
            prop_assert_eq!(&patched[..100], &expected[..]);
        }
    }
}
