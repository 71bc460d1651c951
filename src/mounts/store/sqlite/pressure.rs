//! How full the WAL gets.

use crate::mounts::store::engine::{Batch, BlockChange};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Mutex, Notify};

/// Pages (of 4 KiB) after which the WAL is to be copied.
const COPY: u64 = 1000;

/// Pages that a commit writes besides its blocks, by measurement.
const COMMIT: u64 = 8;

/// Pages in the WAL past which each commit first has it copied whole, or waits a moment for who does.
const FULL: u64 = 16_000;

/// How much was written to the WAL since it was last copied, and who is told when that is much.
#[derive(Default)]
pub struct Pressure {
    pages: AtomicU64,
    /// Pages in the WAL, by the same measure, since it began anew.
    held: AtomicU64,
    wake: Notify,
    /// Held by who copies it: another would be turned away, and could not tell for how long.
    pub copying: Mutex<()>,
}

impl Pressure {
    /// These were committed.
    pub fn add(&self, batches: &[&Batch]) {
        let pages = batches.iter().map(|batch| pages(batch)).sum();
        self.held.fetch_add(pages, Ordering::Relaxed);
        if self.pages.fetch_add(pages, Ordering::Relaxed) + pages >= COPY {
            self.wake.notify_one();
        }
    }

    /// So many pages are in the WAL and were not copied.
    pub fn hold(&self, pages: u64) {
        self.held.store(pages, Ordering::Relaxed);
    }

    /// Whether commits must wait.
    pub fn is_full(&self) -> bool {
        self.held.load(Ordering::Relaxed) > FULL
    }

    /// Waits until much was written, and counts anew.
    pub async fn much(&self) {
        self.wake.notified().await;
        self.pages.store(0, Ordering::Relaxed);
    }
}

/// About how many pages a commit writes: of a block that is changed in part, those at the change and its first.
fn pages(batch: &Batch) -> u64 {
    let of = |change: &BlockChange| match change {
        BlockChange::Patch { bytes, .. } => bytes.len() as u64 / 4096 + 2,
        BlockChange::Discard { .. } => 2,
    };
    COMMIT + batch.blocks.iter().map(of).sum::<u64>()
}
