//! A model of the whole filesystem: random operations are done to it and to each volume, and every answer compared.

mod check;
mod choose;
mod contents;
mod fsck;
mod inside;
mod kernel;
mod mounted;
mod names;
mod op;
mod reference;
mod run;
mod stored;
mod world;

use crate::disk::Disk;
use crate::harness::random;
use choose::Chooser;
use inside::Inside;
use reference::Model;
use run::Run;
use std::sync::Arc;
use stored::{Engine, Stored};
use workfs::mounts::Volume;
use workfs::mounts::store::memory::MemoryStore;
use world::Habits;

/// A host's clock ticks, and its files are read.
const DISK: Habits = Habits { noatime: false, tick: 20_000_000, counts_room: false };

/// Steps of a short run, and of a long one.
const SHORT: u64 = 10_000;
const LONG: u64 = 1_000_000;

async fn on_disk(volume: Arc<dyn Volume>, largest: u64, steps: u64) {
    let mut chooser = Chooser::new(random::seed(), false, largest);
    let attr = volume.root().await.expect("the root").attr;
    let mut run = Run::new(Inside::new(volume).await, Model::new(attr.mode, attr.uid, attr.gid), DISK);
    while run.steps < steps {
        run.step(&mut chooser).await;
        if run.steps.is_multiple_of(2000) {
            run.whole().await;
        }
    }
}

async fn on_store(engine: Engine, steps: u64) {
    let mut chooser = Chooser::new(random::seed(), false, i64::MAX as u64);
    let mut stored = Stored::new(engine).await;
    stored.go(&mut chooser, steps).await;
    stored.finish().await;
}

macro_rules! short_and_long {
    ($($name:ident: $steps:ident => $run:expr;)+) => {
        $(
            mod $name {
                use super::*;

                async fn run($steps: u64) {
                    $run.await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn short() {
                    run(SHORT).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                #[ignore = "long: scripts/check --full"]
                async fn long() {
                    run(LONG).await;
                }
            }
        )+
    };
}

short_and_long! {
    disk: steps => on_disk(Disk::new().volume.clone(), 1 << 40, steps);
    disk_in_memory: steps => on_disk(Disk::in_memory().volume.clone(), i64::MAX as u64, steps);
    memory: steps => on_store(Engine::Memory(MemoryStore::new()), steps);
    sqlite: steps => on_store(Engine::sqlite(), steps);
}
