//! How full the WAL gets.

use crate::mounts::store::engine::{Batch, BlockChange};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Pages (of 4 KiB) after which the WAL is to be copied.
const COPY: u64 = 1000;

/// Pages that a commit writes besides its blocks, by measurement.
const COMMIT: u64 = 8;

/// How much was written to the WAL since it was last copied, and who is told when that is much.
#[derive(Default)]
pub struct Pressure {
    pages: AtomicU64,
    wake: Notify,
}

impl Pressure {
    /// These were committed.
    pub fn add(&self, batches: &[&Batch]) {
        let pages = batches.iter().map(|batch| pages(batch)).sum();
        if self.pages.fetch_add(pages, Ordering::Relaxed) + pages >= COPY {
            self.wake.notify_one();
        }
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
