//! Nothing outside a disk volume's root is reached, and no file is ever taken for another.

use crate::disk::{Disk, RD, RW, errno, is_root, name, now};
use bytes::Bytes;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use workfs::mounts::Volume;
use workfs::types::{Cookie, Errno, FileKind, Mode, Name, NodeId, Privileges, RenameMode, SetAttr, XattrMode};

/// A volume at `in`, with a secret beside it.
struct Guarded {
    disk: Disk,
    outside: tempfile::TempDir,
}

impl Guarded {
    fn new() -> Guarded {
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("secret"), "secret").expect("written");
        Guarded { disk: Disk::new(), outside }
    }

    fn untouched(&self) {
        let names: Vec<_> =
            fs::read_dir(&self.outside).expect("listed").map(|entry| entry.expect("an entry")).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let secret = self.outside.path().join("secret");
        assert_eq!(fs::read(&secret).expect("read"), b"secret");
        assert_eq!(fs::metadata(&secret).expect("stat").mode() & 0o7777, 0o644);
    }
}

#[test]
fn a_symbolic_link_that_leads_out_is_followed_by_no_operation() {
    let guarded = Guarded::new();
    let disk = &guarded.disk;
    let (volume, me, root) = (&disk.volume, &disk.me, disk.root);
    symlink(guarded.outside.path(), disk.path("dir")).expect("linked");
    symlink(guarded.outside.path().join("secret"), disk.path("file")).expect("linked");
    let (dir, file) = (disk.look(root, "dir").attr, disk.look(root, "file").attr);
    assert_eq!((dir.kind, file.kind), (FileKind::Symlink, FileKind::Symlink));
    let (secret, mode) = (name("secret"), Mode::new(0o777));
    assert_eq!(errno(volume.lookup(me, dir.node, &secret)), Errno::ENOTDIR);
    assert_eq!(errno(volume.readdir(dir.node, Cookie::START, 9, true)), Errno::ENOTDIR);
    assert_eq!(errno(volume.create(me, dir.node, &name("x"), mode, RW)), Errno::ENOTDIR);
    assert_eq!(errno(volume.mkdir(me, dir.node, &name("x"), mode)), Errno::ENOTDIR);
    assert_eq!(errno(volume.mknod(me, dir.node, &name("x"), FileKind::Fifo, mode, 0)), Errno::ENOTDIR);
    assert_eq!(errno(volume.symlink(me, dir.node, &name("x"), b"y")), Errno::ENOTDIR);
    assert_eq!(errno(volume.unlink(me, dir.node, &secret)), Errno::ENOTDIR);
    assert_eq!(errno(volume.rmdir(me, dir.node, &secret)), Errno::ENOTDIR);
    assert_eq!(errno(volume.rename(me, dir.node, &secret, root, &secret, RenameMode::Replace)), Errno::ENOTDIR);
    assert_eq!(errno(volume.rename(me, root, &name("file"), dir.node, &secret, RenameMode::Replace)), Errno::ENOTDIR);
    assert_eq!(errno(volume.link(me, file.node, dir.node, &name("x"))), Errno::ENOTDIR);
    assert_eq!(errno(volume.create(me, root, &name("file"), mode, RW)), Errno::ELOOP);
    assert_eq!(errno(volume.open(me, file.node, RD)), Errno::ELOOP);
    assert_eq!(errno(volume.setattr(me, file.node, &SetAttr::size(0))), Errno::EINVAL);
    let chmod = SetAttr { mode: Some(mode), ..SetAttr::default() };
    assert_eq!(errno(volume.setattr(me, file.node, &chmod)), Errno::EOPNOTSUPP);
    assert_eq!(errno(volume.setxattr(me, file.node, b"user.x", b"y", XattrMode::Set)), Errno::EPERM);
    if is_root() {
        let chown = SetAttr { uid: Some(1), gid: Some(1), ..SetAttr::default() };
        now(volume.setattr(me, file.node, &chown)).expect("the link itself");
        assert_eq!(fs::metadata(guarded.outside.path().join("secret")).expect("stat").uid(), 0);
    }
    guarded.untouched();
}

#[test]
fn a_directory_swapped_for_a_link_leads_nowhere_else() {
    let guarded = Guarded::new();
    let disk = &guarded.disk;
    fs::create_dir_all(disk.path("a/b")).expect("made");
    fs::write(disk.path("a/b/secret"), "ours").expect("written");
    let a = disk.look(disk.root, "a").attr.node;
    let b = disk.look(a, "b").attr.node;
    let file = disk.look(b, "secret").attr.node;
    fs::rename(disk.path("a/b"), disk.path("away")).expect("renamed");
    symlink(guarded.outside.path(), disk.path("a/b")).expect("linked");
    assert_eq!(disk.look(a, "b").attr.kind, FileKind::Symlink);
    if let Ok(bytes) = disk.read(file) {
        assert_eq!(bytes, b"ours");
    }
    match now(disk.volume.lookup(&disk.me, b, &name("secret"))) {
        Ok(entry) => assert_eq!(entry.attr.node, file),
        Err(error) => assert_eq!(error.errno(), Errno::ESTALE),
    }
    let _ = now(disk.volume.create(&disk.me, b, &name("x"), Mode::new(0o600), RW));
    guarded.untouched();
}

#[test]
fn dots_and_slashes_are_no_names() {
    for text in ["..", ".", "a/b", "/", "../secret", ""] {
        Name::new(text.as_bytes()).expect_err("no name");
    }
    let guarded = Guarded::new();
    let listed = guarded.disk.list(guarded.disk.root, 10, true);
    assert!(listed.is_empty(), "{listed:?}");
}

#[test]
fn what_is_renamed_beside_is_itself_or_gone() {
    let disk = Disk::new();
    let node = disk.make("f", b"mine");
    fs::rename(disk.path("f"), disk.path("g")).expect("renamed");
    fs::write(disk.path("f"), "another").expect("written");
    match disk.read(node) {
        Ok(bytes) => assert_eq!(bytes, b"mine"),
        Err(error) => assert_eq!(error.errno(), Errno::ESTALE),
    }
    let (f, g) = (disk.look(disk.root, "f").attr, disk.look(disk.root, "g").attr);
    assert_ne!(f.node, node);
    assert_eq!(g.node, node);
    fs::remove_file(disk.path("g")).expect("removed");
    assert_eq!(errno(disk.volume.lookup(&disk.me, disk.root, &name("g"))), Errno::ENOENT);
    assert_eq!(errno(disk.volume.getattr(node)), Errno::ESTALE);
    let dir = now(disk.volume.mkdir(&disk.me, disk.root, &name("d"), Mode::new(0o755))).expect("made").attr.node;
    fs::remove_dir(disk.path("d")).expect("removed");
    assert_eq!(errno(disk.volume.getattr(dir)), Errno::ESTALE);
    let made = now(disk.volume.mkdir(&disk.me, dir, &name("x"), Mode::new(0o755))).map(drop).expect_err("gone");
    assert!(matches!(made.errno(), Errno::ENOENT | Errno::ESTALE), "{made}");
}

#[test]
fn a_number_that_came_back_is_another_file() {
    for folder in [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")] {
        let disk = Disk::over(folder.expect("a folder"));
        fs::write(disk.path("old"), "old").expect("written");
        let old = disk.look(disk.root, "old");
        fs::remove_file(disk.path("old")).expect("removed");
        let again = (0..2000).find(|index| {
            fs::write(disk.path(format!("{index}")), "new").expect("written");
            fs::metadata(disk.path(format!("{index}"))).expect("stat").ino() == old.attr.node.0
        });
        // Not every filesystem gives numbers out again.
        let Some(again) = again else { continue };
        let listed = disk.list(disk.root, 1000, false);
        let new = disk.look(disk.root, again.to_string());
        assert_ne!(new.attr.node, old.attr.node, "the old one is still known");
        assert_ne!(new.generation, old.generation);
        assert_eq!(disk.read(new.attr.node).expect("read"), b"new");
        assert_eq!(errno(disk.volume.getattr(old.attr.node)), Errno::ESTALE);
        assert_eq!(errno(disk.volume.open(&disk.me, old.attr.node, RD)), Errno::ESTALE);
        let in_listing = listed.iter().find(|entry| entry.name == name(again.to_string())).expect("listed");
        assert_eq!(in_listing.node, new.attr.node);
        let known: std::collections::BTreeSet<NodeId> = listed.iter().map(|entry| entry.node).collect();
        assert_eq!(known.len(), listed.len(), "numbers are unique");
        // Once both are forgotten, the number is plain again, and the generation tells it from the old file.
        disk.volume.forget(old.attr.node, 1);
        disk.volume.forget(new.attr.node, 1);
        let plain = disk.look(disk.root, again.to_string());
        assert_eq!((plain.attr.node, plain.generation), (old.attr.node, new.generation));
    }
}

#[test]
fn ext4_gives_numbers_out_again_so_the_test_above_means_something() {
    let disk = Disk::new();
    let stat = rustix::fs::statfs(disk.folder.path()).expect("told");
    const EXT4: i64 = 0xef53;
    if stat.f_type as i64 != EXT4 {
        return;
    }
    // Others on this filesystem may take a number first.
    let came_back = (0..20).any(|_| {
        fs::write(disk.path("old"), "").expect("written");
        let number = fs::metadata(disk.path("old")).expect("stat").ino();
        fs::remove_file(disk.path("old")).expect("removed");
        (0..200).any(|index| {
            let path = disk.path(format!("{index}"));
            let _ = fs::remove_file(&path);
            fs::write(&path, "").expect("written");
            fs::metadata(&path).expect("stat").ino() == number
        })
    });
    assert!(came_back);
}

#[test]
fn a_removed_file_lives_until_it_is_forgotten() {
    let disk = Disk::new();
    let (volume, me, root) = (&disk.volume, &disk.me, disk.root);
    for how in ["unlink", "replace"] {
        let node = disk.make("f", b"alive");
        let open = now(volume.open(me, node, RW)).expect("opens");
        match how {
            "unlink" => now(volume.unlink(me, root, &name("f"))).expect("removed"),
            _ => {
                disk.make("g", b"other");
                now(volume.rename(me, root, &name("g"), root, &name("f"), RenameMode::Replace)).expect("replaced");
            }
        }
        now(volume.close()).expect("closed");
        assert_eq!(now(open.read_at(0, 9)).expect("read"), "alive");
        assert_eq!(now(volume.getattr(node)).expect("known").links, 0);
        let again = now(volume.open(me, node, RW)).expect("found without a name");
        now(again.write_at(me, 0, Bytes::from("ALIVE!"), Privileges::Keep)).expect("written");
        now(volume.setattr(me, node, &SetAttr::size(7))).expect("grown");
        now(volume.setxattr(me, node, b"user.x", b"y", XattrMode::Set)).expect("set");
        assert_eq!(disk.read(node).expect("read"), b"ALIVE!\0");
        volume.forget(node, 1);
        assert_eq!(errno(volume.getattr(node)), Errno::ESTALE);
        assert_eq!(now(open.read_at(0, 9)).expect("an open one stays"), "ALIVE!\0");
    }
}

#[test]
fn removing_both_names_at_once_keeps_the_file() {
    let disk = Disk::new();
    for round in 0..200 {
        let node = disk.make("a", b"kept");
        fs::create_dir(disk.path("d")).expect("made");
        let dir = disk.look(disk.root, "d").attr.node;
        now(disk.volume.link(&disk.me, node, dir, &name("b"))).expect("linked");
        std::thread::scope(|scope| {
            scope.spawn(|| now(disk.volume.unlink(&disk.me, disk.root, &name("a"))).expect("removed"));
            scope.spawn(|| now(disk.volume.unlink(&disk.me, dir, &name("b"))).expect("removed"));
        });
        assert_eq!(disk.read(node).expect("lives"), b"kept", "round {round}");
        disk.volume.forget(node, 2);
        now(disk.volume.rmdir(&disk.me, disk.root, &name("d"))).expect("removed");
        disk.volume.forget(dir, 1);
    }
}
