//! A dead mount is cleared away; a live one is not.

use super::tree::{Parts, errno, table_below};
use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use workfs::fs::MountOptions;
use workfs::types::Errno;

/// Leaves at `dir` what a killed process leaves: a FUSE mount that nobody serves.
fn leave_dead(dir: &Path) {
    let device = fs::File::options().read(true).write(true).open("/dev/fuse").expect("opened");
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let data = CString::new(data).expect("no NUL");
    let flags = rustix::mount::MountFlags::NODEV;
    rustix::mount::mount("workspace", dir, "fuse.workfs", flags, data.as_c_str()).expect("mounted");
    drop(device);
    assert_eq!(errno(fs::read_dir(dir)), libc::ENOTCONN);
}

#[test]
fn a_dead_mount_is_cleared_away_and_mounted_anew() {
    let mut parts = Parts::new();
    parts.memory("/");
    let dir = parts.temp.path().join("view");
    fs::create_dir(&dir).expect("made");
    leave_dead(&dir);
    leave_dead(&dir);
    let tree = parts.mount_at(dir, &MountOptions::default()).expect("mounted anew");
    fs::write(tree.at("f"), "x").expect("it works");
    assert_eq!(tree.table().len(), 1, "the dead ones are gone: {:?}", tree.table());
}

#[test]
fn a_live_view_is_not_mounted_over() {
    let mut parts = Parts::new();
    parts.memory("/");
    let tree = parts.mount(&MountOptions::default());
    let mut second = Parts::new();
    second.memory("/");
    let refused = second.mount_at(tree.dir.clone(), &MountOptions::default()).err().expect("refused");
    assert_eq!(refused.errno(), Errno::EBUSY);
    fs::write(tree.at("f"), "x").expect("the first goes on");
    assert_eq!(tree.table().len(), 1);
}

#[test]
fn a_mount_that_fails_half_way_leaves_nothing_behind() {
    let mut parts = Parts::new();
    parts.memory("/");
    let broken = parts.memory("docs");
    broken.fails.store(true, std::sync::atomic::Ordering::SeqCst);
    let dir = parts.temp.path().join("missing");
    let temp = parts.temp.path().to_owned();
    let missing = parts.mount_at(dir, &MountOptions::default()).err().expect("refused");
    assert_eq!(missing.errno(), Errno::ENOENT);
    assert_eq!(table_below(&temp), [""; 0]);
}
