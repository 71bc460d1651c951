//! A workspace mounted by this process, with volumes that can be made to fail.

use super::faulty::Faulty;
use crate::harness::changed_within;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use workfs::fs::{MountOptions, MountedView, mount};
use workfs::mounts::Volume;
use workfs::mounts::disk::DiskVolume;
use workfs::mounts::store::StoreVolume;
use workfs::mounts::store::memory::MemoryStore;
use workfs::types::{Result, TreePath};
use workfs::workspace::{Mount, Workspace};

/// A mounted workspace. It is unmounted whatever happens.
pub struct Tree {
    pub view: MountedView,
    /// Where it is mounted.
    pub dir: PathBuf,
    pub runtime: Runtime,
    // Dropped last, when nothing is mounted in it any more.
    temp: tempfile::TempDir,
}

/// The parts of a tree that is not mounted yet.
pub struct Parts {
    pub temp: tempfile::TempDir,
    pub runtime: Runtime,
    mounts: Vec<Mount>,
}

impl Parts {
    pub fn new() -> Parts {
        let temp = tempfile::tempdir().expect("a directory");
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        Parts { temp, runtime, mounts: Vec::new() }
    }

    /// A directory of the host; it is made.
    pub fn disk(&mut self, at: &str, folder: &str, read_only: bool) -> Arc<Faulty> {
        let path = self.temp.path().join(folder);
        std::fs::create_dir_all(&path).expect("made");
        let volume = DiskVolume::open(&path).expect("a disk volume");
        self.add(at, format!("disk:{folder}"), "disk", volume, read_only)
    }

    /// A store in memory.
    pub fn memory(&mut self, at: &str) -> Arc<Faulty> {
        let volume = self.runtime.block_on(StoreVolume::open(MemoryStore::new())).expect("a memory volume");
        self.add(at, "memory:".to_owned(), "memory", volume, false)
    }

    /// Any volume.
    pub fn add(
        &mut self,
        at: &str,
        label: String,
        kind: &'static str,
        inner: Arc<dyn Volume>,
        read_only: bool,
    ) -> Arc<Faulty> {
        let volume = Faulty::new(inner);
        let at = TreePath::parse(at.as_bytes()).expect("a path");
        self.mounts.push(Mount { at, volume: volume.clone(), label, kind, read_only });
        volume
    }

    /// Mounts them at a directory beside them.
    pub fn mount(self, options: &MountOptions) -> Tree {
        let dir = self.temp.path().join("view");
        std::fs::create_dir(&dir).expect("made");
        self.mount_at(dir, options).expect("mounted")
    }

    /// Mounts them at `dir`.
    pub fn mount_at(self, dir: PathBuf, options: &MountOptions) -> Result<Tree> {
        let Parts { temp, runtime, mounts } = self;
        let workspace = Arc::new(Workspace::new(mounts)?);
        let view = mount(workspace, &dir, options, runtime.handle().clone())?;
        Ok(Tree { view, dir, runtime, temp })
    }
}

impl Tree {
    /// The host's folder that a disk volume shows.
    pub fn beside(&self, folder: &str) -> PathBuf {
        self.temp.path().join(folder)
    }

    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.join(path)
    }

    /// How often the session at `at` was asked for `operation`.
    pub fn asked(&self, at: &str, operation: &str) -> u64 {
        let status = self.view.status();
        let session = status.sessions.iter().find(|session| session.at == at).expect("a session there");
        session.requests.by_operation.get(operation).copied().unwrap_or(0)
    }

    /// The lines of the mount table at and below the view.
    pub fn table(&self) -> Vec<String> {
        table_below(&self.dir)
    }
}

pub fn table_below(dir: &Path) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("a table");
    let below = |line: &&str| line.split(' ').nth(4).is_some_and(|at| Path::new(at).starts_with(dir));
    table.lines().filter(below).map(str::to_owned).collect()
}

/// The number of an error; 0 where there is none.
pub fn errno<T>(result: io::Result<T>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

/// Waits until `holds`, for a while.
pub fn soon(what: &str, holds: impl Fn() -> bool) {
    assert!(changed_within(Duration::from_secs(5), holds), "{what}: not within five seconds");
}
