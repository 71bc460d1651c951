//! The model on stores, with remounts and crashes between the operations.

use super::choose::Chooser;
use super::fsck::fsck;
use super::inside::Inside;
use super::op::Op;
use super::reference::{Inode, Model};
use super::run::Run;
use super::world::Habits;
use crate::store_volume::probe::Probe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use workfs::mounts::Volume;
use workfs::mounts::store::StoreVolume;
use workfs::mounts::store::engine::Store;
use workfs::mounts::store::memory::MemoryStore;
use workfs::mounts::store::record::Prefix;
use workfs::mounts::store::sqlite::SqliteStore;

const STORE: Habits = Habits { noatime: true, tick: 0, counts_room: true };

/// A session that is not heard of for so long, in seconds, is given up.
const LEASE: i64 = 31;

/// What keeps the records when nothing is mounted.
pub enum Engine {
    Memory(Arc<MemoryStore>),
    Sqlite { path: PathBuf, _folder: TempDir },
}

impl Engine {
    pub fn sqlite() -> Engine {
        let folder = tempfile::tempdir().expect("a folder");
        Engine::Sqlite { path: folder.path().join("desk.db"), _folder: folder }
    }

    async fn open(&self) -> Arc<dyn Store> {
        match self {
            Engine::Memory(store) => store.clone(),
            Engine::Sqlite { path, .. } => SqliteStore::open(path, "main").await.expect("opens"),
        }
    }

    /// What is under way in the engine ends, and it is closed.
    async fn close(&self, store: Arc<dyn Store>) {
        if let Engine::Sqlite { .. } = self {
            store.close().await.expect("closes");
        }
    }
}

/// A store volume under test.
pub struct Stored {
    engine: Engine,
    probe: Arc<Probe>,
    run: Run<Inside>,
    /// How far the store's clock was set forward.
    ahead: i64,
}

impl Stored {
    pub async fn new(engine: Engine) -> Stored {
        let probe = Probe::over(engine.open().await);
        let volume = StoreVolume::open(probe.clone()).await.expect("opens");
        let attr = volume.root().await.expect("the root").attr;
        let model = Model::new(attr.mode, attr.uid, attr.gid);
        Stored { engine, probe, run: Run::new(Inside::new(volume).await, model, STORE), ahead: 0 }
    }

    /// Random operations; now and then a crash, a remount, or a look at everything.
    pub async fn go(&mut self, chooser: &mut Chooser, steps: u64) {
        let end = self.run.steps + steps;
        while self.run.steps < end {
            self.run.step(chooser).await;
            match chooser.random.u32(..1500) {
                0 => self.crash().await,
                1 => self.remount().await,
                2 => self.check().await,
                _ => {}
            }
            self.probe.committed();
        }
        self.release().await;
    }

    /// Everything is compared, in the volume and in its records.
    pub async fn check(&mut self) {
        self.run.whole().await;
        self.run.act(&Op::SyncAll).await;
        self.reaped().await;
        let found = fsck(&*self.probe).await;
        let nodes = self.run.model.nodes.values();
        let named = nodes.filter(|inode| inode.names > 0).count();
        assert_eq!(found.named, named, "files that have a name");
    }

    /// When nobody holds anything any more no orphan is left.
    async fn release(&mut self) {
        self.run.world.let_go();
        self.run.model.let_go();
        self.check().await;
    }

    /// Waits until files without a name that nobody holds are gone: a task of the volume removes them, and whoever reads
    /// the records meanwhile sees now one half, now the other.
    async fn reaped(&self) {
        let held = self.run.model.nodes.values().filter(|inode| inode.names == 0 && !inode.is_dir()).count();
        let start = Instant::now();
        while self.probe.scan(&Prefix::Orphans, None, usize::MAX).await.expect("scan").len() > held {
            assert!(start.elapsed() < Duration::from_secs(20), "orphans are left");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The volume ends without a word, as a crash ends it; the next one finds what was committed.
    pub async fn crash(&mut self) {
        self.end(false).await;
        self.run.settle().await;
        self.after().await;
    }

    /// The volume is closed and opened again.
    pub async fn remount(&mut self) {
        self.run.world.close_files();
        self.end(true).await;
        self.run.model.nodes.values_mut().for_each(Inode::commit);
        self.after().await;
    }

    async fn after(&mut self) {
        let found = fsck(&*self.probe).await;
        assert_eq!((found.named, found.orphans), (self.run.model.nodes.len(), 0), "files, and orphans");
        self.run.whole().await;
    }

    async fn end(&mut self, cleanly: bool) {
        if cleanly {
            self.run.world.volume.close().await.expect("closes");
        }
        let nothing = StoreVolume::open(Probe::new()).await.expect("opens");
        let old = std::mem::replace(&mut self.run.world, Inside::new(nothing).await);
        drop(old);
        // What the volume's tasks had begun ends before the next begins.
        while Arc::strong_count(&self.probe) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.engine.close(self.probe.inner.clone()).await;
        self.run.model.let_go();
        self.ahead += LEASE;
        self.probe = Probe::over(self.engine.open().await);
        self.probe.pass(self.ahead);
        let volume = StoreVolume::open(self.probe.clone()).await.expect("opens");
        self.run.world = Inside::new(volume).await;
    }

    /// The end: what is left is what the records say, and no session.
    pub async fn finish(mut self) {
        self.run.world.close_files();
        self.run.world.volume.close().await.expect("closes");
        let store = self.engine.open().await;
        let found = fsck(&*store).await;
        assert_eq!((found.named, found.orphans), (self.run.model.nodes.len(), 0), "files, and orphans");
        assert!(store.scan(&Prefix::Sessions, None, 10).await.expect("scan").is_empty(), "all are closed");
    }
}
