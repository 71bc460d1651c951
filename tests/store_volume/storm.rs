//! Many threads on two replicas do whatever comes to mind; afterwards nothing in the store contradicts anything else, and
//! each replica sees exactly what the store holds.

use super::*;
use crate::interleavings::{Seen, picture};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use workfs::mounts::store::memory::MemoryStore;
use workfs::types::{Cookie, FileKind, RenameMode, XattrMode};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// What a thread works with.
struct Worker {
    volume: Arc<StoreVolume>,
    dirs: Arc<Mutex<Vec<NodeId>>>,
    seed: u64,
}

impl Worker {
    fn random(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 33) as usize % below
    }

    fn dir(&mut self) -> NodeId {
        let at = self.random(usize::MAX >> 1);
        let dirs = self.dirs.lock();
        dirs[at % dirs.len()]
    }

    fn name(&mut self) -> Name {
        name(NAMES[self.random(NAMES.len())])
    }

    /// One operation; what it is refused with does not matter here, but `EIO` never comes.
    async fn act(&mut self) {
        let (volume, dir, text) = (self.volume.clone(), self.dir(), self.name());
        let (other_dir, other) = (self.dir(), self.name());
        let result = match self.random(12) {
            0 | 1 => match volume.mkdir(&CALLER, dir, &text, Mode::new(0o755)).await {
                Ok(made) => {
                    // Few places, so that they meet; the root stays one of them.
                    let at = 1 + self.random(7);
                    let mut dirs = self.dirs.lock();
                    if at < dirs.len() {
                        dirs[at] = made.attr.node
                    } else {
                        dirs.push(made.attr.node)
                    }
                    Ok(())
                }
                Err(error) => Err(error),
            },
            2 | 3 => self.scribble(dir, &text).await,
            4 => volume.unlink(&CALLER, dir, &text).await,
            5 => volume.rmdir(&CALLER, dir, &text).await,
            6 | 7 => volume.rename(&CALLER, dir, &text, other_dir, &other, RenameMode::Replace).await,
            8 => volume.rename(&CALLER, dir, &text, other_dir, &other, RenameMode::Exchange).await,
            9 => match volume.lookup(&CALLER, dir, &text).await {
                Ok(found) => volume.link(&CALLER, found.attr.node, other_dir, &other).await.map(drop),
                Err(error) => Err(error),
            },
            10 => match volume.lookup(&CALLER, dir, &text).await {
                Ok(found) => volume.setxattr(&CALLER, found.attr.node, b"user.a", b"1", XattrMode::Set).await,
                Err(error) => Err(error),
            },
            _ => volume.readdir(dir, Cookie::START, 100, true).await.map(drop),
        };
        if let Err(error) = result {
            assert_ne!(error.errno(), Errno::EIO, "{error}");
        }
    }

    async fn scribble(&mut self, dir: NodeId, text: &Name) -> Result<()> {
        let flags = OpenFlags { append: self.random(2) == 0, truncate: self.random(4) == 0, ..RW };
        let (_, file) = self.volume.create(&CALLER, dir, text, Mode::new(0o644), flags).await?;
        for _ in 0..self.random(4) {
            let (offset, len) = (self.random(300_000) as u64, 1 + self.random(3000));
            file.write_at(&CALLER, offset, Bytes::from(vec![1; len]), Privileges::Keep).await?;
        }
        if self.random(3) == 0 {
            file.truncate(&CALLER, self.random(200_000) as u64, Privileges::Keep).await?;
        }
        file.flush().await
    }
}

/// The tree as a volume shows it, in the form of [`picture`].
async fn shown(volume: &dyn Volume, dir: NodeId, path: &str, tree: &mut BTreeMap<String, Seen>) {
    let attr = volume.getattr(dir).await.expect("getattr");
    tree.insert(path.into(), seen(volume, attr).await);
    let listing = volume.readdir(dir, Cookie::START, usize::MAX, true).await.expect("readdir");
    for entry in listing.entries {
        let path = format!("{path}/{}", entry.name);
        let found = volume.lookup(&CALLER, dir, &entry.name).await.expect("what is listed is found");
        assert_eq!(found.attr, entry.entry.expect("attributes").attr, "{path}");
        match found.attr.kind {
            FileKind::Directory => Box::pin(shown(volume, found.attr.node, &path, tree)).await,
            _ => drop(tree.insert(path, seen(volume, found.attr).await)),
        }
    }
}

async fn seen(volume: &dyn Volume, attr: workfs::types::Attr) -> Seen {
    let bytes = match attr.kind {
        FileKind::Directory => None,
        _ => {
            let file = volume.open(&CALLER, attr.node, RW).await.expect("open");
            Some(read(&*file).await)
        }
    };
    let xattrs = volume.listxattr(attr.node).await.expect("listxattr");
    let xattrs = xattrs.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    Seen { id: 100, links: u64::from(attr.links), bytes, xattrs }
}

async fn rage(volumes: &[Arc<StoreVolume>], threads: u64, rounds: usize) {
    let dirs = Arc::new(Mutex::new(vec![ROOT]));
    let tasks: Vec<_> = (0..threads)
        .map(|n| {
            let volume = volumes[n as usize % volumes.len()].clone();
            let mut worker = Worker { volume, dirs: dirs.clone(), seed: n + 1 };
            tokio::spawn(async move {
                for _ in 0..rounds {
                    worker.act().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a worker");
    }
}

async fn storm(replicas: usize) {
    let store = MemoryStore::new();
    let mut volumes = Vec::new();
    for _ in 0..replicas {
        volumes.push(open(store.clone()).await);
    }
    rage(&volumes, 4, 1500).await;
    // What was told is taken in.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut views = Vec::new();
    for volume in &volumes {
        let mut tree = BTreeMap::new();
        shown(&**volume, ROOT, "", &mut tree).await;
        views.push(tree);
    }
    for volume in &volumes {
        volume.close().await.expect("closes");
    }
    let stored = picture(&*store, &BTreeMap::new()).await;
    for view in views {
        for (path, seen) in &stored {
            assert_eq!(view.get(path), Some(seen), "{path}");
        }
        assert_eq!(view.len(), stored.len());
        assert!(stored.len() > 5, "something is left to compare");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storm_on_one_volume_leaves_everything_in_order() {
    storm(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storm_on_two_replicas_leaves_everything_in_order() {
    storm(2).await;
}
