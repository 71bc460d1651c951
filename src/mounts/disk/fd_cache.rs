//! Descriptors that are kept only to save time.
//!
//! What the process may open is for the programs that use its volumes first, so all these caches together keep half of
//! it at most, each as much as any other.

use quick_cache::sync::Cache;
use rustix::process::{Resource, getrlimit};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The caches of this process.
static CACHES: AtomicUsize = AtomicUsize::new(0);

/// However low the limit is, so many are kept.
const FEWEST: u64 = 8;

/// Descriptors by the node they belong to.
pub struct FdCache<V> {
    map: Cache<u64, V>,
    /// How many are kept where the limit is high.
    most: usize,
    /// Among how many caches the limit was shared when that was last looked at.
    sharers: AtomicUsize,
}

impl<V: Clone> FdCache<V> {
    /// An empty one that keeps `most`, if that is its share.
    pub fn new(most: usize) -> FdCache<V> {
        CACHES.fetch_add(1, Relaxed);
        FdCache { map: Cache::new(most), most, sharers: AtomicUsize::new(0) }
    }

    /// Keeps one, in place of another where there are too many.
    pub fn insert(&self, node: u64, kept: V) {
        let sharers = CACHES.load(Relaxed);
        if self.sharers.swap(sharers, Relaxed) != sharers {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            self.map.set_capacity(share(limit, sharers, self.most));
        }
        self.map.insert(node, kept);
    }
}

fn share(limit: u64, sharers: usize, most: usize) -> u64 {
    (limit / 2 / sharers.max(1) as u64).max(FEWEST).min(most as u64)
}

impl<V> Deref for FdCache<V> {
    type Target = Cache<u64, V>;

    fn deref(&self) -> &Cache<u64, V> {
        &self.map
    }
}

impl<V> Drop for FdCache<V> {
    fn drop(&mut self) {
        CACHES.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_keep_half_of_what_may_be_open() {
        assert_eq!(share(1024, 8, 512), 64);
        assert_eq!((share(20_000, 2, 512), share(u64::MAX, 2, 4096)), (512, 4096));
        assert_eq!(share(10, 100, 512), FEWEST);
    }
}
