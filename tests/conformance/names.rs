//! Names: looked up, given, taken away.

use super::cases;
use super::scene::{RW, Scene, errno, name};
use workfs::types::{Errno, FileKind, Mode, NodeId, OpenFlags, SetAttr};

cases! {
    a_lookup_finds_what_was_made
    a_lookup_of_nothing_is_enoent
    a_file_is_no_directory
    a_new_file_belongs_to_its_maker
    set_group_id_is_inherited
    an_existing_file_is_opened
    a_truncating_create_empties_the_file
    what_is_no_file_is_not_opened_by_create
    a_name_is_given_once
    nothing_is_made_in_a_removed_directory
    directories_count_their_directories
    special_files_are_made
    a_symlink_keeps_its_target
    a_link_is_the_same_file
    what_cannot_be_linked
    unlink_takes_names_of_files_only
    rmdir_takes_empty_directories_only
    names_are_bytes
}

async fn a_lookup_finds_what_was_made(at: &Scene) {
    let made = at.file("f", "x").await;
    let found = at.lookup("f").await.expect("lookup");
    assert_eq!((found.attr.node, found.generation), (made.attr.node, made.generation));
    assert_eq!((found.attr.kind, found.attr.size, found.attr.links), (FileKind::Regular, 1, 1));
}

async fn a_lookup_of_nothing_is_enoent(at: &Scene) {
    assert_eq!(errno(at.lookup("no").await), Errno::ENOENT);
    assert_eq!(errno(at.lookup("no").await), Errno::ENOENT, "also when it is remembered");
    at.file("no", "").await;
    assert!(at.exists("no").await);
}

async fn a_file_is_no_directory(at: &Scene) {
    let f = at.at(&at.file("f", "").await);
    assert_eq!(errno(f.lookup("x").await), Errno::ENOTDIR);
    assert_eq!(errno(f.try_mkdir("x").await), Errno::ENOTDIR);
    assert_eq!(errno(f.unlink("x").await), Errno::ENOTDIR);
    assert_eq!(errno(f.try_create("x", RW).await), Errno::ENOTDIR);
    assert_eq!(errno(at.rename_to("f", f.dir, "x", workfs::types::RenameMode::Replace).await), Errno::ENOTDIR);
}

async fn a_new_file_belongs_to_its_maker(at: &Scene) {
    let other = at.other();
    let (entry, _file) = at.volume.create(&other, at.dir, &name("f"), Mode::new(0o640), RW).await.expect("create");
    assert_eq!((entry.attr.uid, entry.attr.gid, entry.attr.mode), (other.uid, other.gid, Mode::new(0o640)));
    let dir = at.volume.mkdir(&other, at.dir, &name("d"), Mode::new(0o750)).await.expect("mkdir");
    assert_eq!((dir.attr.uid, dir.attr.gid, dir.attr.mode), (other.uid, other.gid, Mode::new(0o750)));
    let link = at.volume.symlink(&other, at.dir, &name("l"), b"t").await.expect("symlink");
    assert_eq!((link.attr.uid, link.attr.gid, link.attr.kind), (other.uid, other.gid, FileKind::Symlink));
}

async fn set_group_id_is_inherited(at: &Scene) {
    let dir = at.mkdir("d").await;
    let set = SetAttr { mode: Some(Mode::new(0o2777)), gid: Some(77), ..SetAttr::default() };
    at.volume.setattr(&at.root, dir.attr.node, &SetAttr { mode: None, ..set }).await.expect("chown");
    at.volume.setattr(&at.root, dir.attr.node, &SetAttr { gid: None, ..set }).await.expect("chmod");
    let inside = at.at(&dir);
    assert_eq!(inside.file("f", "").await.attr.gid, 77);
    let below = inside.mkdir("e").await.attr;
    assert_eq!((below.gid, below.mode), (77, Mode::new(0o2755)), "a directory hands it on");
}

async fn an_existing_file_is_opened(at: &Scene) {
    let made = at.file("f", "abc").await;
    let (entry, file) = at.try_create("f", RW).await.expect("opens");
    assert_eq!((entry.attr.node, entry.attr.size), (made.attr.node, 3));
    assert_eq!(&file.read_at(0, 9).await.expect("read")[..], b"abc");
    let exclusive = OpenFlags { exclusive: true, ..RW };
    assert_eq!(errno(at.try_create("f", exclusive).await), Errno::EEXIST);
    at.try_create("g", exclusive).await.expect("a new one");
}

async fn a_truncating_create_empties_the_file(at: &Scene) {
    at.file("f", "abc").await;
    let (entry, _file) = at.try_create("f", OpenFlags { truncate: true, ..RW }).await.expect("opens");
    assert_eq!(entry.attr.size, 0);
    assert_eq!(at.read("f").await, "");
}

async fn what_is_no_file_is_not_opened_by_create(at: &Scene) {
    at.mkdir("d").await;
    at.symlink("l", b"f").await.expect("symlink");
    assert_eq!(errno(at.try_create("d", RW).await), Errno::EISDIR);
    assert_eq!(errno(at.try_create("l", RW).await), Errno::ELOOP);
}

async fn a_name_is_given_once(at: &Scene) {
    let f = at.file("f", "").await.attr.node;
    let kind = FileKind::Fifo;
    assert_eq!(errno(at.try_mkdir("f").await), Errno::EEXIST);
    assert_eq!(errno(at.symlink("f", b"t").await), Errno::EEXIST);
    assert_eq!(errno(at.link(f, "f").await), Errno::EEXIST);
    let made = at.volume.mknod(&at.root, at.dir, &name("f"), kind, Mode::new(0o644), 0).await;
    assert_eq!(errno(made), Errno::EEXIST);
    assert_eq!(at.node("f").await, f);
}

async fn nothing_is_made_in_a_removed_directory(at: &Scene) {
    let gone = at.at(&at.mkdir("d").await);
    let f = at.file("f", "").await.attr.node;
    at.rmdir("d").await.expect("rmdir");
    assert_eq!(errno(gone.try_mkdir("x").await), Errno::ENOENT);
    assert_eq!(errno(gone.try_create("x", RW).await), Errno::ENOENT);
    assert_eq!(errno(gone.symlink("x", b"t").await), Errno::ENOENT);
    assert_eq!(errno(gone.link(f, "x").await), Errno::ENOENT);
    let made = at.volume.mknod(&at.root, gone.dir, &name("x"), FileKind::Regular, Mode::new(0o644), 0).await;
    assert_eq!(errno(made), Errno::ENOENT);
    assert_eq!(errno(at.rename_to("f", gone.dir, "x", workfs::types::RenameMode::Replace).await), Errno::ENOENT);
    assert_eq!(errno(gone.lookup("x").await), Errno::ENOENT);
}

async fn directories_count_their_directories(at: &Scene) {
    // A volume may not count at all, which it says with 1.
    let before = at.dir_links().await;
    let dir = at.mkdir("d").await;
    assert!(matches!(dir.attr.links, 1 | 2));
    let step = u32::from(before != 1);
    assert_eq!(at.dir_links().await, before + step);
    at.file("f", "").await;
    assert_eq!(at.dir_links().await, before + step);
    at.rmdir("d").await.expect("rmdir");
    assert_eq!(at.dir_links().await, before);
}

async fn special_files_are_made(at: &Scene) {
    let device = 0x0103;
    for (text, kind, rdev) in [
        ("r", FileKind::Regular, 0),
        ("p", FileKind::Fifo, 0),
        ("s", FileKind::Socket, 0),
        ("c", FileKind::CharDevice, device),
        ("b", FileKind::BlockDevice, device),
    ] {
        let made = at.volume.mknod(&at.root, at.dir, &name(text), kind, Mode::new(0o600), rdev).await;
        let attr = match made {
            Ok(entry) => entry.attr,
            // A device may be refused where the volume stands on something that has none.
            Err(error) => {
                assert!(error.errno() == Errno::EPERM && rdev != 0, "{text}: {error}");
                continue;
            }
        };
        assert_eq!((attr.kind, attr.rdev, attr.mode, attr.links), (kind, rdev, Mode::new(0o600), 1));
        let opened = at.volume.open(&at.root, attr.node, RW).await;
        assert!(kind == FileKind::Regular || errno(opened) == Errno::ENXIO, "{text}");
    }
}

async fn a_symlink_keeps_its_target(at: &Scene) {
    for (text, target) in [("short", &b"../a//b/."[..]), ("odd", b"\xff\n"), ("long", &[b'x'; 4095])] {
        let entry = at.symlink(text, target).await.expect("symlink");
        assert_eq!(entry.attr.size, target.len() as u64);
        assert_eq!(&at.volume.readlink(entry.attr.node).await.expect("readlink")[..], target);
    }
    assert_eq!(errno(at.symlink("x", &[b'x'; 4096]).await), Errno::ENAMETOOLONG);
    let f = at.file("f", "").await.attr.node;
    assert_eq!(errno(at.volume.readlink(f).await), Errno::EINVAL);
}

async fn a_link_is_the_same_file(at: &Scene) {
    let f = at.file("f", "abc").await.attr.node;
    let linked = at.link(f, "g").await.expect("link").attr;
    assert_eq!((linked.node, linked.links), (f, 2));
    assert_eq!(at.read("g").await, "abc");
    at.unlink("f").await.expect("unlink");
    assert_eq!(at.lookup("g").await.expect("lookup").attr.links, 1);
    assert_eq!(at.read("g").await, "abc");
}

async fn what_cannot_be_linked(at: &Scene) {
    let d = at.mkdir("d").await.attr.node;
    assert_eq!(errno(at.link(d, "x").await), Errno::EPERM);
    let (entry, _file) = at.open("f").await;
    at.unlink("f").await.expect("unlink");
    assert_eq!(errno(at.link(entry.attr.node, "x").await), Errno::ENOENT, "it has no name left");
    assert!(!at.exists("x").await);
}

async fn unlink_takes_names_of_files_only(at: &Scene) {
    at.mkdir("d").await;
    assert_eq!(errno(at.unlink("d").await), Errno::EISDIR);
    assert_eq!(errno(at.unlink("no").await), Errno::ENOENT);
    at.file("f", "").await;
    at.unlink("f").await.expect("unlink");
    assert!(!at.exists("f").await);
    assert_eq!(errno(at.unlink("f").await), Errno::ENOENT);
}

async fn rmdir_takes_empty_directories_only(at: &Scene) {
    at.file("f", "").await;
    assert_eq!(errno(at.rmdir("f").await), Errno::ENOTDIR);
    assert_eq!(errno(at.rmdir("no").await), Errno::ENOENT);
    let d = at.at(&at.mkdir("d").await);
    d.file("f", "").await;
    assert_eq!(errno(at.rmdir("d").await), Errno::ENOTEMPTY);
    d.unlink("f").await.expect("unlink");
    at.rmdir("d").await.expect("rmdir");
    assert!(!at.exists("d").await);
}

async fn names_are_bytes(at: &Scene) {
    let odd = workfs::types::Name::new(b"\xff\xfe\n ").expect("a name");
    let long = workfs::types::Name::new(&[b'n'; 255]).expect("a name");
    let mut nodes: Vec<NodeId> = Vec::new();
    for name in [&odd, &long] {
        let made = at.volume.mkdir(&at.root, at.dir, name, Mode::new(0o700)).await.expect("mkdir");
        let found = at.volume.lookup(&at.root, at.dir, name).await.expect("lookup");
        assert_eq!(found.attr.node, made.attr.node);
        nodes.push(made.attr.node);
    }
    assert_ne!(nodes[0], nodes[1]);
}
