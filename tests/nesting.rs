//! The skeleton: nested mounts stay, and stay read-only, whatever happens to what is above them.

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};
use workfs::fs::{MountOptions, MountedView, Nesting, mount};
use workfs::mounts::{Capabilities, DirEntry, Freshness, Listing, OpenFile, OpenStyle, Volume};
use workfs::types::*;
use workfs::workspace::{Mount, Workspace};

/// A directory of the host as a volume, by paths: just enough for this test. It can be made to fail, and to tell
/// changes.
struct Plain {
    paths: Mutex<HashMap<NodeId, (PathBuf, u64)>>,
    fails: AtomicBool,
    listeners: Mutex<Vec<futures::channel::mpsc::UnboundedSender<Change>>>,
}

const PLAIN_ROOT: NodeId = NodeId(7_000_001);

impl Plain {
    fn new(root: &Path) -> Arc<Plain> {
        let paths = Mutex::new(HashMap::from([(PLAIN_ROOT, (root.to_owned(), 1))]));
        Arc::new(Plain { paths, fails: AtomicBool::new(false), listeners: Mutex::default() })
    }

    fn tell(&self, kind: ChangeKind) {
        for listener in self.listeners.lock().expect("listeners").iter() {
            listener.unbounded_send(Change { origin: Origin::OUTSIDE, kind: kind.clone() }).ok();
        }
    }

    fn path(&self, operation: &'static str, node: NodeId) -> Result<PathBuf> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(Error::new(operation, Errno::EIO).context("told to fail"));
        }
        let path = self.paths.lock().expect("paths").get(&node).map(|(path, _)| path.clone());
        path.ok_or_else(|| Error::new(operation, Errno::ESTALE))
    }

    fn attr(&self, operation: &'static str, node: NodeId, path: &Path) -> Result<Attr> {
        let stat = fs::symlink_metadata(path).map_err(|e| Error::from_io(operation, e))?;
        let time = Timestamp::from_parts(stat.mtime(), stat.mtime_nsec() as u32);
        Ok(Attr {
            node,
            kind: FileKind::from_st_mode(stat.mode()).expect("a kind"),
            mode: Mode::new(stat.mode()),
            uid: stat.uid(),
            gid: stat.gid(),
            links: stat.nlink() as u32,
            rdev: 0,
            size: stat.size(),
            blocks: stat.blocks(),
            block_size: 4096,
            atime: time,
            mtime: time,
            ctime: time,
        })
    }

    fn entry(&self, operation: &'static str, path: PathBuf) -> Result<Entry> {
        let stat = fs::symlink_metadata(&path).map_err(|e| Error::from_io(operation, e))?;
        let node = NodeId(stat.ino() + 8_000_000);
        let attr = self.attr(operation, node, &path)?;
        let mut paths = self.paths.lock().expect("paths");
        let known = paths.entry(node).or_insert((path.clone(), 0));
        *known = (path, known.1 + 1);
        Ok(Entry { attr, generation: Generation(0), validity: Validity::Volume })
    }

    fn lookups(&self) -> u64 {
        self.paths.lock().expect("paths").values().map(|(_, count)| count).sum::<u64>() - 1
    }
}

struct PlainFile(fs::File);

fn unsupported<T>(operation: &'static str) -> Result<T> {
    Err(Error::new(operation, Errno::EOPNOTSUPP))
}

#[async_trait]
impl OpenFile for PlainFile {
    async fn read_at(&self, offset: u64, len: u32) -> Result<Bytes> {
        let mut bytes = vec![0; len as usize];
        let read = self.0.read_at(&mut bytes, offset).map_err(|e| Error::from_io("read", e))?;
        bytes.truncate(read);
        Ok(bytes.into())
    }
    async fn write_at(&self, _: &Caller, offset: u64, data: Bytes, _: Privileges) -> Result<()> {
        self.0.write_all_at(&data, offset).map_err(|e| Error::from_io("write", e))
    }
    async fn truncate(&self, _: &Caller, size: u64, _: Privileges) -> Result<()> {
        self.0.set_len(size).map_err(|e| Error::from_io("truncate", e))
    }
    async fn allocate(&self, _: &Caller, _: u64, _: u64, _: AllocateMode) -> Result<()> {
        unsupported("fallocate")
    }
    async fn seek(&self, _: u64, _: Seek) -> Result<u64> {
        unsupported("seek")
    }
    async fn flush(&self) -> Result<()> {
        Ok(())
    }
    async fn sync(&self, _: bool) -> Result<()> {
        Ok(())
    }
    async fn attr(&self) -> Result<Attr> {
        unsupported("attr")
    }
    fn backing_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

#[async_trait]
impl Volume for Plain {
    fn capabilities(&self) -> Capabilities {
        Capabilities { opens: OpenStyle::Stateless, freshness: Freshness::Pushed, read_only: false, no_xattrs: true }
    }
    fn changes(&self) -> ChangeStream {
        let (send, receive) = futures::channel::mpsc::unbounded();
        self.listeners.lock().expect("listeners").push(send);
        receive.boxed()
    }
    async fn root(&self) -> Result<Entry> {
        let path = self.path("root", PLAIN_ROOT)?;
        let attr = self.attr("root", PLAIN_ROOT, &path)?;
        Ok(Entry { attr, generation: Generation(0), validity: Validity::Volume })
    }
    async fn lookup(&self, _: &Caller, dir: NodeId, name: &Name) -> Result<Entry> {
        self.entry("lookup", self.path("lookup", dir)?.join(name.as_os_str()))
    }
    fn forget(&self, node: NodeId, count: u64) {
        let mut paths = self.paths.lock().expect("paths");
        let known = paths.get_mut(&node).expect("a node that is known");
        assert!(known.1 >= count, "{node:?} was forgotten more often than it was told");
        known.1 -= count;
        if known.1 == 0 {
            paths.remove(&node);
        }
    }
    async fn getattr(&self, node: NodeId) -> Result<Attr> {
        let path = self.path("getattr", node)?;
        self.attr("getattr", node, &path)
    }
    async fn setattr(&self, _: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr> {
        let path = self.path("setattr", node)?;
        if let Some(size) = set.size {
            let file = fs::File::options().write(true).open(&path).map_err(|e| Error::from_io("setattr", e))?;
            file.set_len(size).map_err(|e| Error::from_io("setattr", e))?;
        }
        self.attr("setattr", node, &path)
    }
    async fn readdir(&self, dir: NodeId, after: Cookie, limit: usize, plus: bool) -> Result<Listing> {
        let path = self.path("readdir", dir)?;
        let mut entries = Vec::new();
        let listed = fs::read_dir(&path).map_err(|e| Error::from_io("readdir", e))?;
        for (place, file) in (1..).zip(listed.flatten()).filter(|(place, _)| *place > after.0).take(limit) {
            let entry = self.entry("readdir", file.path())?;
            let name = Name::try_from(&*file.file_name())?;
            let (node, kind) = (entry.attr.node, entry.attr.kind);
            if !plus {
                self.forget(node, 1);
            }
            entries.push(DirEntry { name, cookie: Cookie(place), node, kind, entry: plus.then_some(entry) });
        }
        Ok(Listing { parent: dir, entries })
    }
    async fn readlink(&self, _: NodeId) -> Result<Bytes> {
        unsupported("readlink")
    }
    async fn create(
        &self,
        _: &Caller,
        dir: NodeId,
        name: &Name,
        _: Mode,
        _: OpenFlags,
    ) -> Result<(Entry, Arc<dyn OpenFile>)> {
        let path = self.path("create", dir)?.join(name.as_os_str());
        let file = fs::File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|e| Error::from_io("create", e))?;
        Ok((self.entry("create", path)?, Arc::new(PlainFile(file))))
    }
    async fn mkdir(&self, _: &Caller, dir: NodeId, name: &Name, _: Mode) -> Result<Entry> {
        let path = self.path("mkdir", dir)?.join(name.as_os_str());
        fs::create_dir(&path).map_err(|e| Error::from_io("mkdir", e))?;
        self.entry("mkdir", path)
    }
    async fn mknod(&self, _: &Caller, _: NodeId, _: &Name, _: FileKind, _: Mode, _: u32) -> Result<Entry> {
        unsupported("mknod")
    }
    async fn symlink(&self, _: &Caller, _: NodeId, _: &Name, _: &[u8]) -> Result<Entry> {
        unsupported("symlink")
    }
    async fn link(&self, _: &Caller, _: NodeId, _: NodeId, _: &Name) -> Result<Entry> {
        unsupported("link")
    }
    async fn unlink(&self, _: &Caller, dir: NodeId, name: &Name) -> Result<()> {
        let path = self.path("unlink", dir)?.join(name.as_os_str());
        fs::remove_file(path).map_err(|e| Error::from_io("unlink", e))
    }
    async fn rmdir(&self, _: &Caller, dir: NodeId, name: &Name) -> Result<()> {
        let path = self.path("rmdir", dir)?.join(name.as_os_str());
        fs::remove_dir(path).map_err(|e| Error::from_io("rmdir", e))
    }
    async fn rename(&self, _: &Caller, dir: NodeId, name: &Name, to: NodeId, new: &Name, _: RenameMode) -> Result<()> {
        let from = self.path("rename", dir)?.join(name.as_os_str());
        let to = self.path("rename", to)?.join(new.as_os_str());
        fs::rename(from, to).map_err(|e| Error::from_io("rename", e))
    }
    async fn open(&self, _: &Caller, node: NodeId, flags: OpenFlags) -> Result<Arc<dyn OpenFile>> {
        let path = self.path("open", node)?;
        let file = fs::File::options().read(true).write(flags.access.writes()).open(path);
        Ok(Arc::new(PlainFile(file.map_err(|e| Error::from_io("open", e))?)))
    }
    async fn getxattr(&self, _: NodeId, _: &[u8]) -> Result<Bytes> {
        unsupported("getxattr")
    }
    async fn listxattr(&self, _: NodeId) -> Result<Vec<Bytes>> {
        unsupported("listxattr")
    }
    async fn setxattr(&self, _: &Caller, _: NodeId, _: &[u8], _: &[u8], _: XattrMode) -> Result<()> {
        unsupported("setxattr")
    }
    async fn removexattr(&self, _: &Caller, _: NodeId, _: &[u8]) -> Result<()> {
        unsupported("removexattr")
    }
    async fn statfs(&self, _: NodeId) -> Result<StatFs> {
        unsupported("statfs")
    }
    async fn sync(&self) -> Result<()> {
        Ok(())
    }
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A mounted tree: `/` with `docs` and `a/b/deep` read-only in it. It is unmounted whatever happens.
struct Tree {
    view: MountedView,
    outer: Arc<Plain>,
    inner: [Arc<Plain>; 2],
    beside: PathBuf,
    dir: PathBuf,
    devices: [u64; 3],
    _runtime: tokio::runtime::Runtime,
    // Dropped last, when nothing is mounted in it any more.
    _temp: tempfile::TempDir,
}

const NESTED: [(&str, &str); 2] = [("docs", "guide.txt"), ("a/b/deep", "note.txt")];

impl Tree {
    /// With `ancestors`, the outer volume has the directories where the others are mounted; else it is empty.
    fn new(ancestors: bool) -> Tree {
        let temp = tempfile::tempdir().expect("a directory");
        let (beside, dir) = (temp.path().join("outer"), temp.path().join("view"));
        for made in [&beside, &dir, &temp.path().join("docs"), &temp.path().join("deep")] {
            fs::create_dir(made).expect("made");
        }
        fs::write(temp.path().join("docs/guide.txt"), "guide.txt").expect("written");
        fs::write(temp.path().join("deep/note.txt"), "note.txt").expect("written");
        if ancestors {
            fs::create_dir_all(beside.join("a/b/deep")).expect("made");
            fs::create_dir_all(beside.join("docs")).expect("made");
        }
        fs::create_dir(beside.join("other")).expect("made");
        let (outer, docs, deep) =
            (Plain::new(&beside), Plain::new(&temp.path().join("docs")), Plain::new(&temp.path().join("deep")));
        let mount_at = |at: &str, volume: &Arc<Plain>, read_only| Mount {
            at: TreePath::parse(at.as_bytes()).expect("a path"),
            volume: volume.clone(),
            label: format!("plain:{at}"),
            kind: "plain",
            read_only,
        };
        let mounts =
            vec![mount_at("/", &outer, false), mount_at("docs", &docs, true), mount_at("a/b/deep", &deep, true)];
        let workspace = Arc::new(Workspace::new(mounts).expect("a workspace"));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let options = MountOptions { nesting: Nesting::Nested, ..MountOptions::default() };
        let view = mount(workspace, &dir, &options, runtime.handle().clone()).expect("mounted");
        let device = |path: &str| fs::metadata(dir.join(path)).expect("there").dev();
        let devices = [device("."), device("docs"), device("a/b/deep")];
        Tree { view, outer, inner: [docs, deep], beside, dir, devices, _runtime: runtime, _temp: temp }
    }

    /// The nested mounts answer as on the first day, and nothing was mounted anew.
    fn stays(&self, after: &str) {
        for (place, (at, file)) in (1..).zip(NESTED) {
            let path = self.dir.join(at);
            let read = fs::read_to_string(path.join(file));
            assert_eq!(read.unwrap_or_else(|e| panic!("{at} after {after}: {e}")), file);
            assert_eq!(fs::metadata(&path).expect("there").dev(), self.devices[place], "{at} after {after}");
            assert_eq!(errno(fs::write(path.join("evil"), "x")), libc::EROFS, "{at} after {after}");
        }
        let table = fs::read_to_string("/proc/self/mountinfo").expect("a table");
        for (at, _) in NESTED {
            let point = format!(" {} ro,", self.dir.join(at).display());
            assert!(table.contains(&point), "{at} is not mounted read-only after {after}");
        }
        assert!(self.view.status().sessions.iter().all(|session| session.mounted && session.lost == 0), "{after}");
    }

    fn walk(&self) {
        // A walk asks for everything again; errors in the outer volume are what some tests want.
        for path in [".", "a", "a/b", "a/b/deep", "docs", "other", "missing", "z", "z/b"] {
            fs::symlink_metadata(self.dir.join(path)).ok();
            if let Ok(listing) = fs::read_dir(self.dir.join(path)) {
                listing.flatten().for_each(|file| drop(file.metadata()));
            }
        }
    }
}

fn errno<T>(result: io::Result<T>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

fn drop_caches() {
    fs::write("/proc/sys/vm/drop_caches", "3").expect("caches dropped (this test runs as root)");
}

fn on_both(test: impl Fn(&Tree)) {
    for ancestors in [true, false] {
        let tree = Tree::new(ancestors);
        tree.stays("the start");
        test(&tree);
    }
}

#[test]
fn nested_mounts_outlast_changes_of_their_ancestors_beside_the_mount() {
    on_both(|tree| {
        tree.walk();
        if tree.beside.join("a").exists() {
            fs::rename(tree.beside.join("a"), tree.beside.join("z")).expect("renamed beside");
            fs::remove_dir(tree.beside.join("docs")).expect("removed beside");
        } else {
            fs::write(tree.beside.join("docs"), "a file in the way").expect("written beside");
            fs::create_dir(tree.beside.join("a")).expect("made beside");
        }
        let root = NodeId(tree.outer.paths.lock().expect("paths").keys().map(|node| node.0).min().expect("a node"));
        for name in ["a", "docs", "z"] {
            let name = Name::try_from(name).expect("a name");
            tree.outer.tell(ChangeKind::Entry { parent: root, name });
        }
        sleep(Duration::from_millis(100));
        tree.walk();
        tree.stays("changes beside the mount");
        drop_caches();
        tree.walk();
        tree.stays("changes beside the mount, and dropped caches");
        assert!(fs::exists(tree.dir.join("z")).expect("asked") == tree.beside.join("z").exists(), "z shows");
    });
}

#[test]
fn nested_mounts_outlast_a_failing_outer_volume() {
    on_both(|tree| {
        tree.outer.fails.store(true, Ordering::SeqCst);
        assert_eq!(errno(fs::metadata(tree.dir.join("missing"))), libc::EIO);
        tree.walk();
        tree.stays("a failure of the outer volume");
        drop_caches();
        tree.walk();
        tree.outer.fails.store(false, Ordering::SeqCst);
        tree.stays("a failure of the outer volume that has ended");
    });
}

#[test]
fn nested_mounts_outlast_the_loss_of_the_feed_and_dropped_caches() {
    on_both(|tree| {
        tree.walk();
        for round in 0..3 {
            tree.outer.tell(ChangeKind::Everything);
            tree.inner[0].tell(ChangeKind::Everything);
            sleep(Duration::from_millis(50));
            tree.walk();
            tree.stays(&format!("the loss of the feed, round {round}"));
            drop_caches();
            tree.walk();
            tree.stays(&format!("dropped caches, round {round}"));
        }
    });
}

#[test]
fn mountpoints_and_their_ancestors_cannot_be_removed_or_shadowed() {
    on_both(|tree| {
        let at = |path: &str| tree.dir.join(path);
        for pinned in ["docs", "a", "a/b", "a/b/deep"] {
            assert_eq!(errno(fs::remove_dir(at(pinned))), libc::EBUSY, "rmdir {pinned}");
            assert_eq!(errno(fs::rename(at(pinned), at("moved"))), libc::EBUSY, "rename {pinned}");
            assert_eq!(errno(fs::rename(at("other"), at(pinned))), libc::EBUSY, "rename over {pinned}");
            assert_eq!(errno(exchange(&at("other"), &at(pinned))), libc::EBUSY, "exchange with {pinned}");
            assert_eq!(errno(fs::create_dir(at(pinned))), libc::EEXIST, "mkdir {pinned}");
            assert_eq!(errno(fs::File::create(at(pinned))), libc::EISDIR, "create {pinned}");
            assert_eq!(errno(fs::File::create_new(at(pinned))), libc::EEXIST, "create new {pinned}");
            assert_eq!(errno(std::os::unix::fs::symlink("x", at(pinned))), libc::EEXIST, "symlink {pinned}");
            assert!([libc::EBUSY, libc::EISDIR].contains(&errno(fs::remove_file(at(pinned)))), "unlink {pinned}");
        }
        tree.stays("attempts to remove its ancestors");
        fs::write(at("a/b/beside.txt"), "x").expect("the outer volume can be written beside the mount");
        assert_eq!(fs::read_to_string(tree.beside.join("a/b/beside.txt")).expect("there"), "x");
    });
}

fn exchange(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE)?)
}

#[test]
fn a_nested_mount_that_is_detached_by_force_comes_back_and_nothing_gets_beneath_it() {
    on_both(|tree| {
        for (at, file) in NESTED {
            let path = tree.dir.join(at);
            rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH).expect("detached by force");
            let (detached, mut beneath) = (Instant::now(), 0);
            while fs::read_to_string(path.join(file)).is_err() {
                assert!(detached.elapsed() < Duration::from_secs(2), "{at} is not back");
                let refused = [
                    errno(fs::write(path.join("evil"), "x")),
                    errno(fs::create_dir(path.join("evil"))),
                    errno(std::os::unix::fs::symlink("x", path.join("evil"))),
                    errno(fs::rename(tree.dir.join("other"), path.join("evil"))),
                ];
                assert!(refused.iter().all(|e| [libc::EIO, libc::EROFS, libc::EXDEV].contains(e)), "{refused:?}");
                beneath += 1;
                sleep(Duration::from_millis(5));
            }
            assert!(beneath > 10, "the time without the mount was tried");
            assert_eq!(errno(fs::write(path.join("evil"), "x")), libc::EROFS, "{at} is read-only again");
            assert!(!tree.beside.join(at).join("evil").exists(), "nothing was written beneath {at}");
        }
        let lost: Vec<u64> = tree.view.status().sessions.iter().map(|session| session.lost).collect();
        assert_eq!(lost.iter().sum::<u64>(), 2, "{lost:?}");
        assert!(tree.beside.join("other").exists());
    });
}

#[test]
fn a_view_comes_down_deepest_first_and_gives_every_lookup_back() {
    on_both(|tree| {
        tree.walk();
        let held = fs::File::open(tree.dir.join("docs/guide.txt")).expect("open");
        let busy = tree.view.unmount().expect_err("a file is open");
        assert_eq!(busy.errno(), Errno::EBUSY);
        let said = busy.to_string();
        assert!(said.contains(&format!("pid {}", std::process::id())), "{said}");
        sleep(Duration::from_millis(600));
        assert_eq!(fs::read_to_string(tree.dir.join("a/b/deep/note.txt")).expect("back"), "note.txt");
        drop(held);
        tree.view.unmount().expect("unmounted");
        let table = fs::read_to_string("/proc/self/mountinfo").expect("a table");
        assert!(!table.contains(&tree.dir.display().to_string()), "nothing is left");
        assert_eq!([tree.outer.lookups(), tree.inner[0].lookups(), tree.inner[1].lookups()], [0; 3]);
    });
}
