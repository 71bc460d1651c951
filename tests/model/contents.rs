//! A file's bytes: the pages that were written, and a size. What is not there is zeros.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// What a store changes at a time; a disk's blocks are smaller.
pub const BLOCK: u64 = 128 << 10;

/// The bytes of a file. A copy costs little: it shares the pages.
#[derive(Clone, Default)]
pub struct Contents {
    pub size: u64,
    pages: BTreeMap<u64, Arc<[u8]>>,
    /// Blocks that may take room: something was written in them, and they were not cleared whole since.
    occupied: BTreeSet<u64>,
}

/// The parts of a range that lie in one page each: the page, where in it, and how many bytes.
fn parts(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        (at < range.end).then(|| {
            let (page, first) = (at / PAGE, at % PAGE);
            let end = PAGE.min(first + (range.end - at));
            at = at - first + end;
            (page, first as usize..end as usize)
        })
    })
}

impl Contents {
    /// Up to `len` bytes from `offset` on, as a read delivers them.
    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = offset.saturating_add(len).min(self.size);
        let mut bytes = Vec::new();
        for (page, part) in parts(offset..end) {
            match self.pages.get(&page) {
                Some(page) => bytes.extend_from_slice(&page[part]),
                None => bytes.resize(bytes.len() + part.len(), 0),
            }
        }
        bytes
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        let mut rest = data;
        for (page, part) in parts(offset..end) {
            let (now, later) = rest.split_at(part.len());
            self.page(page)[part].copy_from_slice(now);
            rest = later;
        }
        if !data.is_empty() {
            self.occupied.extend(offset / BLOCK..=(end - 1) / BLOCK);
            self.size = self.size.max(end);
        }
    }

    fn page(&mut self, page: u64) -> &mut [u8] {
        let found = self.pages.entry(page).or_insert_with(|| vec![0; PAGE as usize].into());
        Arc::make_mut(found)
    }

    /// Makes a range zeros.
    pub fn clear(&mut self, range: Range<u64>) {
        let whole = range.start.div_ceil(BLOCK)..range.end / BLOCK;
        self.occupied.retain(|block| !whole.contains(block));
        let touched: Vec<u64> =
            self.pages.range(range.start / PAGE..=range.end.saturating_sub(1) / PAGE).map(|(page, _)| *page).collect();
        for page in touched {
            let start = range.start.max(page * PAGE) - page * PAGE;
            let end = range.end.min((page + 1) * PAGE) - page * PAGE;
            match end.saturating_sub(start) {
                0 => {}
                PAGE => drop(self.pages.remove(&page)),
                _ => self.page(page)[start as usize..end as usize].fill(0),
            }
        }
    }

    /// Cuts it, or fills it up with zeros.
    pub fn resize(&mut self, size: u64) {
        self.clear(size..self.size.max(size).next_multiple_of(BLOCK));
        self.size = size;
    }

    /// Where something other than zero lies at or after `offset`.
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        self.pages.range(offset / PAGE..).find_map(|(page, bytes)| {
            let skip = offset.saturating_sub(page * PAGE).min(PAGE) as usize;
            bytes[skip..].iter().position(|byte| *byte != 0).map(|at| page * PAGE + (skip + at) as u64)
        })
    }

    /// The most bytes that it can take.
    pub fn room(&self) -> u64 {
        self.occupied.len() as u64 * BLOCK
    }

    /// The places that a comparison must look at: around each page that is there, and both ends.
    pub fn places(&self) -> Vec<Range<u64>> {
        let mut places: Vec<Range<u64>> = vec![0..1, self.size.saturating_sub(1)..self.size + 1];
        for page in self.pages.keys() {
            let page = (page * PAGE).saturating_sub(1)..(page + 1) * PAGE + 1;
            match places.last_mut() {
                Some(last) if last.end >= page.start && last.start <= page.start => last.end = last.end.max(page.end),
                _ => places.push(page),
            }
        }
        places
    }
}
