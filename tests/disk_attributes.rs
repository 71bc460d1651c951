//! Attributes of files on a disk volume, ordinary and extended.

use crate::disk::{Disk, errno, is_root, name, now};
use bytes::Bytes;
use futures::FutureExt;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use workfs::mounts::Volume;
use workfs::types::{Errno, FileKind, Mode, SetAttr, SetTime, Timestamp, XattrMode};

#[test]
fn attributes_are_set_all_or_none() {
    let disk = Disk::new();
    let (volume, me, node) = (&disk.volume, &disk.me, disk.make("f", b"12345"));
    let early = Timestamp::from_parts(-86_400, 123_456_789);
    let late = Timestamp::from_parts(1 << 32, 987_654_321);
    let set = SetAttr {
        mode: Some(Mode::new(0o4711)),
        size: Some(3),
        atime: Some(SetTime::At(late)),
        mtime: Some(SetTime::At(early)),
        ..SetAttr::default()
    };
    let attr = now(volume.setattr(me, node, &set)).expect("set");
    assert_eq!((attr.mode.bits(), attr.size, attr.atime, attr.mtime), (0o4711, 3, late, early));
    let host = fs::metadata(disk.path("f")).expect("stat");
    assert_eq!((host.mtime(), host.mtime_nsec()), (-86_400, 123_456_789));
    let touch = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
    let touched = now(volume.setattr(me, node, &touch)).expect("set");
    assert!(touched.mtime > early && touched.atime == late);
    let refused = SetAttr { mode: Some(Mode::new(0o600)), size: Some(1 << 62), ..SetAttr::default() };
    assert_eq!(errno(volume.setattr(me, node, &refused)), Errno::EFBIG);
    let after = now(volume.getattr(node)).expect("known");
    assert_eq!((after.mode, after.size), (Mode::new(0o4711), 3), "nothing changed");
    let link = now(volume.symlink(me, disk.root, &name("l"), b"f")).expect("made").attr.node;
    let times = SetAttr { mtime: Some(SetTime::At(early)), ..SetAttr::default() };
    assert_eq!(now(volume.setattr(me, link, &times)).expect("set").mtime, early);
    assert_ne!(now(volume.getattr(node)).expect("known").mtime, early, "the link's target is another file");
    let mode = SetAttr { mode: Some(Mode::new(0o600)), ..SetAttr::default() };
    assert_eq!(errno(volume.setattr(me, link, &mode)), Errno::EOPNOTSUPP);
}

#[test]
fn extended_attributes_are_the_files_own() {
    let disk = Disk::new();
    let (volume, me, node) = (&disk.volume, &disk.me, disk.make("f", b""));
    let set = |mode, value: &'static [u8]| volume.setxattr(me, node, b"user.note", value, mode).boxed();
    assert_eq!(errno(volume.getxattr(node, b"user.note")), Errno::ENODATA);
    assert_eq!(errno(set(XattrMode::Replace, b"x")), Errno::ENODATA);
    now(set(XattrMode::Create, b"one")).expect("set");
    assert_eq!(errno(set(XattrMode::Create, b"two")), Errno::EEXIST);
    now(set(XattrMode::Replace, b"\0\xff")).expect("set");
    assert_eq!(now(volume.getxattr(node, b"user.note")).expect("read"), &b"\0\xff"[..]);
    now(volume.setxattr(me, node, b"user.big", &[7; 3000], XattrMode::Set)).expect("set");
    assert_eq!(now(volume.getxattr(node, b"user.big")).expect("read"), vec![7; 3000]);
    now(volume.setxattr(me, node, b"user.empty", b"", XattrMode::Set)).expect("set");
    assert_eq!(now(volume.getxattr(node, b"user.empty")).expect("read"), "");
    let names: BTreeSet<Bytes> = now(volume.listxattr(node)).expect("listed").into_iter().collect();
    assert_eq!(names, ["user.big", "user.empty", "user.note"].map(Bytes::from).into());
    now(volume.removexattr(me, node, b"user.note")).expect("removed");
    assert_eq!(errno(volume.removexattr(me, node, b"user.note")), Errno::ENODATA);
    let long = [b"user.".as_slice(), &[b'x'; 300]].concat();
    assert_eq!(errno(volume.setxattr(me, node, &long, b"", XattrMode::Set)), Errno::ERANGE);
    assert_eq!(errno(volume.setxattr(me, node, b"user.huge", &[0; 65537], XattrMode::Set)), Errno::E2BIG);
    assert_eq!(errno(volume.setxattr(me, node, b"nothing.x", b"", XattrMode::Set)), Errno::EOPNOTSUPP);
    for acl in [&b"system.posix_acl_access"[..], b"system.posix_acl_default"] {
        assert_eq!(errno(volume.getxattr(node, acl)), Errno::EOPNOTSUPP);
        assert_eq!(errno(volume.setxattr(me, node, acl, b"x", XattrMode::Set)), Errno::EOPNOTSUPP);
    }
}

#[test]
fn attributes_of_links_and_special_files_are_not_their_targets() {
    let disk = Disk::new();
    let (volume, me, target) = (&disk.volume, &disk.me, disk.make("f", b""));
    now(volume.setxattr(me, target, b"user.of", b"target", XattrMode::Set)).expect("set");
    let link = now(volume.symlink(me, disk.root, &name("l"), b"f")).expect("made").attr.node;
    let fifo = now(volume.mknod(me, disk.root, &name("p"), FileKind::Fifo, Mode::new(0o600), 0)).expect("made");
    for node in [link, fifo.attr.node] {
        assert_eq!(now(volume.listxattr(node)).expect("listed"), Vec::<Bytes>::new());
        assert_ne!(now(volume.getxattr(node, b"user.of")).ok(), Some(Bytes::from("target")));
        assert_eq!(errno(volume.setxattr(me, node, b"user.of", b"x", XattrMode::Set)), Errno::EPERM);
        if is_root() {
            now(volume.setxattr(me, node, b"trusted.of", b"link", XattrMode::Set)).expect("set");
            assert_eq!(now(volume.getxattr(node, b"trusted.of")).expect("read"), "link");
        }
    }
    assert_eq!(now(volume.getxattr(target, b"user.of")).expect("read"), "target");
}
