//! How a volume does, for whoever operates it.

use serde::{Deserialize, Serialize};

/// What a volume tells of itself that no file of it does.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Health {
    /// What it remembers, so as not to ask again.
    pub caches: Vec<CacheUse>,
    /// What works, but not as it should, a sentence each.
    pub warnings: Vec<String>,
}

/// How much a cache holds, and how often that was of use.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CacheUse {
    /// What is in it, such as `blocks`.
    pub name: String,
    /// How many.
    pub entries: u64,
    /// How much they weigh, in the unit of `limit`.
    pub weight: u64,
    /// What it holds at most: entries, or bytes where `in_bytes`.
    pub limit: u64,
    /// Whether `weight` and `limit` are bytes.
    pub in_bytes: bool,
    /// Questions that it answered since the volume was opened.
    pub hits: u64,
    /// Questions that it could not answer.
    pub misses: u64,
}

impl CacheUse {
    /// The figures of a cache.
    pub fn of<K, V, W, H, L>(name: &str, in_bytes: bool, cache: &quick_cache::sync::Cache<K, V, W, H, L>) -> CacheUse
    where
        K: Eq + std::hash::Hash,
        V: Clone,
        W: quick_cache::Weighter<K, V> + Clone,
        H: std::hash::BuildHasher + Clone,
        L: quick_cache::Lifecycle<K, V> + Clone,
    {
        CacheUse {
            name: name.to_owned(),
            entries: cache.len() as u64,
            weight: cache.weight(),
            limit: cache.capacity(),
            in_bytes,
            hits: cache.hits(),
            misses: cache.misses(),
        }
    }
}
