//! A read-only volume shows everything and changes nothing.

use crate::disk::{Disk, RD, RW, errno, name, now, refusal};
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use std::fs;
use std::sync::Arc;
use workfs::mounts::{OpenStyle, ReadOnly, Volume};
use workfs::types::{
    Access, AllocateMode, ChangeKind, Cookie, Errno, FileKind, Mode, OpenFlags, Privileges, RenameMode, SetAttr,
    XattrMode,
};

fn read_only() -> (Disk, Arc<ReadOnly>) {
    let disk = Disk::in_memory();
    fs::write(disk.path("f"), "bytes").expect("written");
    fs::create_dir(disk.path("d")).expect("made");
    std::os::unix::fs::symlink("f", disk.path("l")).expect("linked");
    let volume = ReadOnly::new(disk.volume.clone());
    (disk, volume)
}

#[test]
fn every_change_is_refused_and_nothing_changed() {
    let (disk, volume) = read_only();
    let (me, root, mode) = (&disk.me, disk.root, Mode::new(0o777));
    let file = disk.look(root, "f").attr;
    let (f, x) = (name("f"), name("x"));
    let chmod = SetAttr { mode: Some(Mode::new(0)), ..SetAttr::default() };
    assert_eq!(errno(volume.setattr(me, file.node, &chmod)), Errno::EROFS);
    assert_eq!(errno(volume.setattr(me, file.node, &SetAttr::size(0))), Errno::EROFS);
    assert_eq!(errno(volume.mkdir(me, root, &x, mode)), Errno::EROFS);
    assert_eq!(errno(volume.mknod(me, root, &x, FileKind::Fifo, mode, 0)), Errno::EROFS);
    assert_eq!(errno(volume.symlink(me, root, &x, b"f")), Errno::EROFS);
    assert_eq!(errno(volume.link(me, file.node, root, &x)), Errno::EROFS);
    assert_eq!(errno(volume.unlink(me, root, &f)), Errno::EROFS);
    assert_eq!(errno(volume.rmdir(me, root, &name("d"))), Errno::EROFS);
    for how in [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange] {
        assert_eq!(errno(volume.rename(me, root, &f, root, &x, how)), Errno::EROFS);
    }
    assert_eq!(errno(volume.setxattr(me, file.node, b"user.x", b"y", XattrMode::Set)), Errno::EROFS);
    assert_eq!(errno(volume.removexattr(me, file.node, b"user.x")), Errno::EROFS);
    let names: Vec<_> = disk.list(root, 10, false).into_iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(now(volume.getattr(file.node)).expect("known"), file);
    assert_eq!(fs::read(disk.path("f")).expect("read"), b"bytes");
}

#[test]
fn files_open_for_reading_only() {
    let (disk, volume) = read_only();
    let (me, root) = (&disk.me, disk.root);
    let node = disk.look(root, "f").attr.node;
    // The volume below has the file open for writing, and still nothing is written through this one.
    let below = now(disk.volume.open(me, node, RW)).expect("opens");
    for access in [Access::Write, Access::ReadWrite] {
        assert_eq!(errno(volume.open(me, node, OpenFlags::access(access))), Errno::EROFS);
    }
    assert_eq!(errno(volume.open(me, node, OpenFlags { truncate: true, ..RD })), Errno::EROFS);
    let file = now(volume.open(me, node, RD)).expect("opens");
    assert_eq!(now(file.read_at(0, 9)).expect("read"), "bytes");
    assert_eq!(errno(file.write_at(me, 0, Bytes::from("x"), Privileges::Keep)), Errno::EROFS);
    assert_eq!(errno(file.truncate(me, 0, Privileges::Keep)), Errno::EROFS);
    assert_eq!(errno(file.allocate(me, 0, 1, AllocateMode::PunchHole, Privileges::Keep)), Errno::EROFS);
    assert!(file.backing_fd().is_none(), "through a descriptor one could write");
    now(file.flush()).expect("nothing to commit");
    disk.write(&*below, 0, b"BYTES");
    assert_eq!(now(file.read_at(0, 9)).expect("read"), "BYTES");
}

#[test]
fn create_opens_what_exists_and_counts_what_it_gives() {
    let (disk, volume) = read_only();
    let create = |text: &str, flags| now(volume.create(&disk.me, disk.root, &name(text), Mode::new(0o600), flags));
    assert_eq!(refusal(create("new", RD)), Errno::EROFS);
    assert_eq!(refusal(create("f", RW)), Errno::EROFS);
    assert_eq!(refusal(create("f", OpenFlags { truncate: true, ..RD })), Errno::EROFS);
    assert_eq!(refusal(create("f", OpenFlags { exclusive: true, ..RD })), Errno::EEXIST);
    assert_eq!(refusal(create("d", RD)), Errno::EISDIR);
    assert_eq!(refusal(create("l", RD)), Errno::ELOOP);
    let (entry, file) = create("f", RD).expect("opens");
    assert_eq!(now(file.read_at(0, 9)).expect("read"), "bytes");
    volume.forget(entry.attr.node, 1);
    assert_eq!(errno(volume.getattr(entry.attr.node)), Errno::ESTALE, "the refusals above left no count behind");
}

#[test]
fn what_reads_is_the_volume_below() {
    let (disk, volume) = read_only();
    let (below, above) = (disk.volume.capabilities(), volume.capabilities());
    assert!(above.read_only && !below.read_only);
    assert_eq!((above.opens, above.freshness), (below.opens, below.freshness));
    assert!(matches!(above.opens, OpenStyle::Stateless | OpenStyle::PerHandle));
    assert_eq!(now(volume.root()).expect("a root").attr.node, disk.root);
    let link = now(volume.lookup(&disk.me, disk.root, &name("l"))).expect("found").attr.node;
    assert_eq!(now(volume.readlink(link)).expect("read"), "f");
    assert_eq!(now(volume.readdir(disk.root, Cookie::START, 10, true)).expect("listed").entries.len(), 3);
    assert_eq!(errno(volume.getxattr(link, b"trusted.x")), Errno::ENODATA);
    assert_eq!(now(volume.listxattr(link)).expect("listed"), Vec::<Bytes>::new());
    assert_eq!(now(volume.statfs(disk.root)).expect("told").name_max, 255);
    let mut changes = volume.changes();
    disk.make("other", b"");
    let told = changes.next().now_or_never().flatten().expect("changes of the volume below are told");
    assert_eq!(told.kind, ChangeKind::Entry { parent: disk.root, name: name("other") });
    now(volume.sync()).expect("synced");
}
