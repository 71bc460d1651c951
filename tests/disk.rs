//! The disk volume in process: what it tells and does, compared with the host's own view of the directory.

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use workfs::mounts::disk::DiskVolume;
use workfs::mounts::{OpenFile, OpenStyle, Volume};
use workfs::types::{
    Access, AllocateMode, Caller, ChangeKind, Cookie, Entry, Errno, FileKind, Mode, Name, NodeId, OpenFlags, Origin,
    Privileges, RenameMode, Result, Seek, SetAttr, Timestamp,
};

/// What is asked of a disk volume is answered at the first poll.
pub fn now<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("answered at the first poll")
}

pub fn errno<T>(answer: impl Future<Output = Result<T>>) -> Errno {
    refusal(now(answer))
}

pub fn refusal<T>(answer: Result<T>) -> Errno {
    match answer {
        Ok(_) => panic!("it should have been refused"),
        Err(error) => error.errno(),
    }
}

pub fn name(text: impl AsRef<[u8]>) -> Name {
    Name::new(text.as_ref()).expect("a name")
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub const RW: OpenFlags = OpenFlags::access(Access::ReadWrite);
pub const RD: OpenFlags = OpenFlags::access(Access::Read);

/// A volume over a temporary folder.
pub struct Disk {
    pub folder: TempDir,
    pub volume: Arc<DiskVolume>,
    pub me: Caller,
    pub root: NodeId,
}

impl Disk {
    pub fn new() -> Disk {
        Disk::over(tempfile::tempdir().expect("a folder"))
    }

    /// In memory, where writing back the whole filesystem takes no time.
    pub fn in_memory() -> Disk {
        Disk::over(tempfile::tempdir_in("/dev/shm").expect("a folder"))
    }

    pub fn over(folder: TempDir) -> Disk {
        let volume = DiskVolume::open(folder.path()).expect("opens");
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let root = now(volume.root()).expect("a root").attr.node;
        Disk { folder, volume, me: Caller { uid, gid, tid: 0, origin: Origin::new() }, root }
    }

    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(below)
    }

    pub fn look(&self, dir: NodeId, text: impl AsRef<[u8]>) -> Entry {
        now(self.volume.lookup(&self.me, dir, &name(text))).expect("found")
    }

    pub fn make(&self, text: &str, bytes: &[u8]) -> NodeId {
        let made = now(self.volume.create(&self.me, self.root, &name(text), Mode::new(0o644), RW));
        let (entry, file) = made.expect("made");
        self.write(&*file, 0, bytes);
        entry.attr.node
    }

    pub fn write(&self, file: &dyn OpenFile, offset: u64, bytes: &[u8]) {
        let bytes = Bytes::copy_from_slice(bytes);
        now(file.write_at(&self.me, offset, bytes, Privileges::Keep)).expect("written");
    }

    pub fn read(&self, node: NodeId) -> Result<Vec<u8>> {
        let file = now(self.volume.open(&self.me, node, RD))?;
        Ok(now(file.read_at(0, 1 << 20))?.to_vec())
    }

    pub fn list(&self, dir: NodeId, page: usize, plus: bool) -> Vec<workfs::mounts::DirEntry> {
        let (mut all, mut after) = (Vec::new(), Cookie::START);
        loop {
            let entries = now(self.volume.readdir(dir, after, page, plus)).expect("listed").entries;
            let Some(last) = entries.last() else { return all };
            after = last.cookie;
            all.extend(entries);
        }
    }
}

#[test]
fn the_root_and_the_directories_above_it_are_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("a/b/c");
    DiskVolume::open(&root).expect("opens");
    assert!(root.is_dir());
    fs::write(folder.path().join("file"), "").expect("written");
    let refused = DiskVolume::open(&folder.path().join("file")).map(drop).expect_err("no directory");
    assert_eq!(refused.errno(), Errno::ENOTDIR);
    assert!(refused.to_string().contains("file"), "{refused}");
}

#[test]
fn attributes_and_numbers_are_the_hosts() {
    let disk = Disk::new();
    fs::write(disk.path("f"), "12345").expect("written");
    let attr = disk.look(disk.root, "f").attr;
    let host = fs::metadata(disk.path("f")).expect("stat");
    assert_eq!((attr.node.0, attr.size, attr.uid, attr.gid), (host.ino(), 5, host.uid(), host.gid()));
    assert_eq!((attr.blocks, u64::from(attr.block_size)), (host.blocks(), host.blksize()));
    assert_eq!(attr.mtime, Timestamp::from_parts(host.mtime(), host.mtime_nsec() as u32));
    assert_eq!(now(disk.volume.getattr(attr.node)).expect("known"), attr);
    let root = now(disk.volume.root()).expect("a root");
    assert_eq!(root.attr.node.0, fs::metadata(disk.folder.path()).expect("stat").ino());
}

#[test]
fn every_kind_of_file_is_made_as_asked() {
    let disk = Disk::new();
    let (volume, me) = (&disk.volume, &disk.me);
    let mut kinds = vec![FileKind::Regular, FileKind::Fifo, FileKind::Socket];
    if is_root() {
        kinds.extend([FileKind::CharDevice, FileKind::BlockDevice]);
    }
    for kind in kinds {
        let text = format!("{kind:?}");
        let rdev = if matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) { (1 << 8) | 3 } else { 0 };
        let made = now(volume.mknod(me, disk.root, &name(&text), kind, Mode::new(0o666), rdev)).expect("made");
        assert_eq!((made.attr.kind, made.attr.mode.bits(), made.attr.rdev), (kind, 0o666, rdev));
        if kind != FileKind::Regular {
            assert_eq!(errno(volume.open(me, made.attr.node, RD)), Errno::ENXIO);
            assert_eq!(errno(volume.setattr(me, made.attr.node, &SetAttr::size(0))), Errno::EINVAL);
        }
        assert_eq!(errno(volume.readlink(made.attr.node)), Errno::EINVAL);
    }
    assert!(fs::metadata(disk.path("Fifo")).expect("stat").file_type().is_fifo());
    let dir = now(volume.mkdir(me, disk.root, &name("d"), Mode::new(0o1777))).expect("made");
    assert_eq!((dir.attr.mode.bits(), dir.attr.links), (0o1777, 2));
    assert_eq!(errno(volume.open(me, dir.attr.node, RD)), Errno::EISDIR);
    assert_eq!(errno(volume.setattr(me, dir.attr.node, &SetAttr::size(0))), Errno::EISDIR);
    let target = b"../any\xff/where";
    let link = now(volume.symlink(me, disk.root, &name("l"), target)).expect("made");
    assert_eq!(link.attr.size, target.len() as u64);
    assert_eq!(now(volume.readlink(link.attr.node)).expect("read"), &target[..]);
    assert_eq!(errno(volume.open(me, link.attr.node, RD)), Errno::ELOOP);
    assert_eq!(errno(volume.symlink(me, disk.root, &name("long"), &[b'x'; 4096])), Errno::ENAMETOOLONG);
    let long = vec![b'y'; 4095];
    let link = now(volume.symlink(me, disk.root, &name("longest"), &long)).expect("made");
    assert_eq!(now(volume.readlink(link.attr.node)).expect("read"), long);
}

#[test]
fn names_are_bytes() {
    let disk = Disk::new();
    for bytes in [&b"\xff\xfe"[..], b"a..b", b"[...slug]", b"\n", &[b'x'; 255]] {
        now(disk.volume.mkdir(&disk.me, disk.root, &name(bytes), Mode::new(0o700))).expect("made");
        let entry = disk.look(disk.root, bytes);
        assert_eq!(entry.attr.kind, FileKind::Directory);
    }
    let listed: BTreeSet<Name> = disk.list(disk.root, 2, false).into_iter().map(|entry| entry.name).collect();
    assert_eq!(listed.len(), 5);
}

#[test]
fn create_opens_what_exists_unless_told_not_to() {
    let disk = Disk::new();
    let (volume, me) = (&disk.volume, &disk.me);
    fs::write(disk.path("f"), "before").expect("written");
    fs::create_dir(disk.path("d")).expect("made");
    std::os::unix::fs::symlink("f", disk.path("l")).expect("linked");
    let create = |text: &str, flags| now(volume.create(me, disk.root, &name(text), Mode::new(0o600), flags));
    assert_eq!(refusal(create("f", OpenFlags { exclusive: true, ..RW })), Errno::EEXIST);
    assert_eq!(refusal(create("l", OpenFlags { exclusive: true, ..RW })), Errno::EEXIST);
    assert_eq!(refusal(create("d", RW)), Errno::EISDIR);
    assert_eq!(refusal(create("l", RW)), Errno::ELOOP);
    let (entry, file) = create("f", RW).expect("opened");
    assert_eq!((entry.attr.size, now(file.read_at(0, 100)).expect("read")), (6, Bytes::from("before")));
    let (entry, _) = create("f", OpenFlags { truncate: true, ..RW }).expect("opened");
    assert_eq!(entry.attr.size, 0);
    let (entry, file) = create("readonly", OpenFlags::access(Access::Write)).expect("made");
    disk.write(&*file, 0, b"x");
    assert_eq!(errno(file.read_at(0, 1)), Errno::EBADF);
    assert_eq!(entry.attr.mode.bits(), 0o600);
}

#[test]
fn a_file_may_be_made_that_its_maker_may_not_write() {
    let disk = Disk::new();
    let made = now(disk.volume.create(&disk.me, disk.root, &name("pack"), Mode::new(0o444), RW));
    let (_, file) = made.expect("made");
    disk.write(&*file, 0, b"bytes");
    assert_eq!(fs::read(disk.path("pack")).expect("read"), b"bytes");
}

#[test]
fn our_umask_takes_no_bits_away_and_is_left_as_it_was() {
    let disk = Disk::new();
    let (volume, me) = (&disk.volume, &disk.me);
    std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            // A umask of this thread's own, so that other tests keep theirs.
            now(volume.mkdir(me, disk.root, &name("first"), Mode::new(0o777))).expect("made");
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
            now(volume.mkdir(me, disk.root, &name("d"), Mode::new(0o777))).expect("made");
            now(volume.create(me, disk.root, &name("f"), Mode::new(0o666), RW)).expect("made");
            now(volume.mknod(me, disk.root, &name("p"), FileKind::Fifo, Mode::new(0o622), 0)).expect("made");
            rustix::process::umask(rustix::fs::Mode::empty())
        });
        assert_eq!(made.join().expect("ran").bits(), 0o077, "the thread's umask is as it was");
    });
    let mode = |text: &str| fs::metadata(disk.path(text)).expect("stat").permissions().mode() & 0o7777;
    assert_eq!((mode("d"), mode("f"), mode("p")), (0o777, 0o666, 0o622));
}

#[test]
fn bytes_are_written_read_cut_and_appended() {
    let disk = Disk::new();
    let node = disk.make("f", b"hello");
    let file = now(disk.volume.open(&disk.me, node, RW)).expect("opens");
    disk.write(&*file, 3, b"LO, world");
    assert_eq!(disk.read(node).expect("read"), b"helLO, world");
    assert_eq!(now(file.read_at(10, 10)).expect("read"), "ld");
    assert_eq!(now(file.read_at(100, 10)).expect("read"), "");
    now(file.truncate(&disk.me, 2, Privileges::Keep)).expect("cut");
    assert_eq!(now(disk.volume.setattr(&disk.me, node, &SetAttr::size(4))).expect("grown").size, 4);
    assert_eq!(disk.read(node).expect("read"), b"he\0\0");
    let appending = OpenFlags { append: true, sync: true, ..RW };
    let end = now(disk.volume.open(&disk.me, node, appending)).expect("opens");
    disk.write(&*end, 0, b"!");
    assert_eq!(fs::read(disk.path("f")).expect("read"), b"he\0\0!");
    let reader = now(disk.volume.open(&disk.me, node, RD)).expect("opens");
    assert_eq!(errno(reader.write_at(&disk.me, 0, Bytes::from("x"), Privileges::Keep)), Errno::EBADF);
    assert_eq!(errno(reader.truncate(&disk.me, 0, Privileges::Keep)), Errno::EBADF);
    now(file.flush()).expect("flushed");
    now(file.sync(true)).expect("synced");
    now(file.sync(false)).expect("synced");
    assert_eq!(now(file.attr()).expect("attributes").size, 5);
    now(disk.volume.open(&disk.me, node, OpenFlags { truncate: true, ..RW })).expect("opens");
    assert_eq!(disk.read(node).expect("read"), b"");
}

#[test]
fn a_file_past_4_gib_has_its_holes_and_its_data() {
    let disk = Disk::new();
    let node = disk.make("sparse", b"");
    let file = now(disk.volume.open(&disk.me, node, RW)).expect("opens");
    const FAR: u64 = 5 << 30;
    disk.write(&*file, FAR - 5, b"there");
    let attr = now(disk.volume.getattr(node)).expect("known");
    assert_eq!(attr.size, FAR);
    assert!(attr.blocks < 2048, "{} blocks", attr.blocks);
    assert_eq!(now(file.read_at(FAR - 8, 100)).expect("read"), "\0\0\0there");
    let data = now(file.seek(0, Seek::Data)).expect("found");
    assert!(data > FAR - (1 << 20) && data < FAR, "{data}");
    assert_eq!(now(file.seek(0, Seek::Hole)).expect("found"), 0);
    assert_eq!(now(file.seek(data, Seek::Hole)).expect("found"), FAR);
    assert_eq!(errno(file.seek(FAR, Seek::Data)), Errno::ENXIO);
    now(file.allocate(&disk.me, 0, 1 << 20, AllocateMode::KeepSize, Privileges::Keep)).expect("reserved");
    assert!(now(file.attr()).expect("attributes").blocks >= 2048);
    now(file.allocate(&disk.me, 0, 1 << 20, AllocateMode::PunchHole, Privileges::Keep)).expect("emptied");
    assert!(now(file.attr()).expect("attributes").blocks < 2048);
    now(file.allocate(&disk.me, FAR, 4096, AllocateMode::Extend, Privileges::Keep)).expect("reserved");
    assert_eq!(now(file.attr()).expect("attributes").size, FAR + 4096);
    now(file.allocate(&disk.me, FAR - 5, 2, AllocateMode::ZeroKeepSize, Privileges::Keep)).expect("cleared");
    assert_eq!(now(file.read_at(FAR - 5, 5)).expect("read"), "\0\0ere");
}

#[test]
fn hard_links_are_one_node() {
    let disk = Disk::new();
    let (volume, me, node) = (&disk.volume, &disk.me, disk.make("a", b"one"));
    let linked = now(volume.link(me, node, disk.root, &name("b"))).expect("linked");
    assert_eq!((linked.attr.node, linked.attr.links), (node, 2));
    assert_eq!(errno(volume.link(me, node, disk.root, &name("b"))), Errno::EEXIST);
    assert_eq!(errno(volume.link(me, disk.root, disk.root, &name("r"))), Errno::EPERM);
    let symlink = now(volume.symlink(me, disk.root, &name("s"), b"a")).expect("made").attr.node;
    let linked = now(volume.link(me, symlink, disk.root, &name("t"))).expect("linked");
    assert_eq!((linked.attr.node, linked.attr.kind), (symlink, FileKind::Symlink));
    now(volume.unlink(me, disk.root, &name("a"))).expect("removed");
    assert_eq!(disk.read(node).expect("read"), b"one");
    assert_eq!(now(volume.getattr(node)).expect("known").links, 1);
    now(volume.unlink(me, disk.root, &name("b"))).expect("removed");
    assert_eq!(errno(volume.link(me, node, disk.root, &name("c"))), Errno::ENOENT);
}

#[test]
fn rename_has_its_three_modes_and_its_refusals() {
    let disk = Disk::new();
    let (volume, me, root) = (&disk.volume, &disk.me, disk.root);
    let (a, b) = (disk.make("a", b"A"), disk.make("b", b"B"));
    let dir = now(volume.mkdir(me, root, &name("d"), Mode::new(0o755))).expect("made").attr.node;
    let rename = |from: &str, to: &str, mode| now(volume.rename(me, root, &name(from), root, &name(to), mode));
    let refused = |from: &str, to: &str, mode| rename(from, to, mode).expect_err("refused").errno();
    assert_eq!(refused("a", "b", RenameMode::NoReplace), Errno::EEXIST);
    rename("a", "b", RenameMode::Exchange).expect("swapped");
    assert_eq!((disk.look(root, "a").attr.node, disk.look(root, "b").attr.node), (b, a));
    rename("a", "d", RenameMode::Exchange).expect("a file and a directory swap");
    assert_eq!((disk.look(root, "a").attr.node, disk.look(root, "d").attr.node), (dir, b));
    assert_eq!(refused("d", "a", RenameMode::Replace), Errno::EISDIR);
    assert_eq!(refused("a", "d", RenameMode::Replace), Errno::ENOTDIR);
    assert_eq!(refused("none", "d", RenameMode::Replace), Errno::ENOENT);
    let below = now(volume.rename(me, root, &name("a"), dir, &name("x"), RenameMode::Replace));
    assert_eq!(refusal(below), Errno::EINVAL);
    rename("d", "b", RenameMode::Replace).expect("replaced");
    assert_eq!(disk.look(root, "b").attr.node, b);
    assert_eq!(disk.read(a).expect("still known"), b"A");
    now(volume.rename(me, root, &name("b"), dir, &name("in"), RenameMode::NoReplace)).expect("moved");
    assert_eq!(refused("none", "a", RenameMode::Replace), Errno::ENOENT);
    assert_eq!(disk.look(dir, "in").attr.node, b);
    now(volume.mkdir(me, root, &name("empty"), Mode::new(0o755))).expect("made");
    assert_eq!(refused("empty", "a", RenameMode::Replace), Errno::ENOTEMPTY);
}

#[test]
fn removal_tells_files_and_directories_apart() {
    let disk = Disk::new();
    let (volume, me, root) = (&disk.volume, &disk.me, disk.root);
    disk.make("f", b"");
    let dir = now(volume.mkdir(me, root, &name("d"), Mode::new(0o755))).expect("made").attr.node;
    now(volume.mkdir(me, dir, &name("in"), Mode::new(0o755))).expect("made");
    assert_eq!(errno(volume.unlink(me, root, &name("d"))), Errno::EISDIR);
    assert_eq!(errno(volume.rmdir(me, root, &name("f"))), Errno::ENOTDIR);
    assert_eq!(errno(volume.rmdir(me, root, &name("d"))), Errno::ENOTEMPTY);
    assert_eq!(errno(volume.unlink(me, root, &name("none"))), Errno::ENOENT);
    now(volume.rmdir(me, dir, &name("in"))).expect("removed");
    now(volume.rmdir(me, root, &name("d"))).expect("removed");
    assert_eq!(now(volume.getattr(dir)).expect("still known").links, 0);
    assert_eq!(now(volume.readdir(dir, Cookie::START, 9, false)).expect("listed").entries, []);
    assert_eq!(errno(volume.create(me, dir, &name("x"), Mode::new(0o600), RW)), Errno::ENOENT);
    assert_eq!(errno(volume.lookup(me, dir, &name("x"))), Errno::ENOENT);
    volume.forget(dir, 1);
    assert_eq!(errno(volume.getattr(dir)), Errno::ESTALE);
}

#[test]
fn changes_are_told_with_who_made_them() {
    let disk = Disk::new();
    let mut changes = disk.volume.changes();
    let node = disk.make("f", b"x");
    now(disk.volume.unlink(&disk.me, disk.root, &name("f"))).expect("removed");
    let mut told = Vec::new();
    while let Some(Some(change)) = changes.next().now_or_never() {
        assert_eq!(change.origin, disk.me.origin);
        told.push(change.kind);
    }
    let entry = ChangeKind::Entry { parent: disk.root, name: name("f") };
    assert_eq!(told.iter().filter(|kind| **kind == entry).count(), 2, "{told:?}");
    assert!(told.contains(&ChangeKind::Data { node, offset: 0, len: 1 }), "{told:?}");
    assert!(told.contains(&ChangeKind::Attr(disk.root)) && told.contains(&ChangeKind::Attr(node)), "{told:?}");
    drop(disk);
}

#[test]
fn statfs_is_the_hosts() {
    let disk = Disk::new();
    let told = now(disk.volume.statfs(disk.root)).expect("told");
    let host = rustix::fs::statvfs(disk.folder.path()).expect("told");
    assert_eq!((told.blocks, u64::from(told.block_size), told.name_max), (host.f_blocks, host.f_frsize, 255));
}

#[test]
fn a_running_program_is_not_written_to_and_a_written_one_soon_runs() {
    let disk = Disk::new();
    fs::copy("/bin/sleep", disk.path("sleep")).expect("copied");
    let node = disk.look(disk.root, "sleep").attr.node;
    let mut child = std::process::Command::new(disk.path("sleep")).arg("30").spawn().expect("runs");
    let write = now(disk.volume.open(&disk.me, node, RW)).map(drop);
    assert_eq!(now(disk.volume.open(&disk.me, node, RD)).map(drop).ok(), Some(()), "it can be read");
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(write.expect_err("it runs").errno(), Errno::ETXTBSY);
    let file = now(disk.volume.open(&disk.me, node, RW)).expect("it ended");
    disk.write(&*file, fs::metadata(disk.path("sleep")).expect("stat").len(), b"\0");
    drop(file);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while let Err(busy) = std::process::Command::new(disk.path("sleep")).arg("0").status() {
        assert_eq!(busy.raw_os_error(), Some(Errno::ETXTBSY.raw()), "{busy}");
        assert!(std::time::Instant::now() < deadline, "a descriptor that can write is still open");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(disk.volume.capabilities().opens == OpenStyle::Stateless, is_root());
}
