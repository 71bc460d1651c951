//! Views that are unmounted from outside.

use super::tree::{Parts, Tree, errno, soon};
use std::fs;
use std::process::Command;
use std::time::Duration;
use workfs::fs::{MountOptions, Nesting};

fn nested(nesting: Nesting) -> Tree {
    let mut parts = Parts::new();
    parts.memory("/");
    parts.memory("docs");
    parts.memory("docs/deep");
    parts.mount(&MountOptions { nesting, ..MountOptions::default() })
}

fn umount(arguments: &[&str], tree: &Tree) -> bool {
    let status = Command::new("umount").args(arguments).arg(&tree.dir).output().expect("umount is there").status;
    status.success()
}

fn ends(tree: &Tree) -> bool {
    let ended = async { tokio::time::timeout(Duration::from_secs(5), tree.view.ended()).await.is_ok() };
    tree.runtime.block_on(ended)
}

#[test]
fn a_single_session_ends_when_it_is_unmounted_from_outside() {
    let tree = nested(Nesting::Single);
    assert_eq!(tree.table().len(), 1);
    assert!(umount(&[], &tree));
    assert!(ends(&tree));
    tree.view.unmount().expect("there is nothing left to do");
}

#[test]
fn a_nested_view_ends_when_all_of_it_is_unmounted_from_outside() {
    for arguments in [["-R"], ["-l"]] {
        let tree = nested(Nesting::Nested);
        assert_eq!(tree.table().len(), 3);
        assert!(umount(&arguments, &tree), "umount {arguments:?}");
        assert!(ends(&tree));
        // The watch has had its time to mount something again, and must not have.
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(tree.table(), [""; 0], "umount {arguments:?}");
        tree.view.unmount().expect("there is nothing left to do");
    }
}

#[test]
fn nested_mounts_in_nested_mounts_come_back_together() {
    let tree = nested(Nesting::Nested);
    fs::write(tree.at("docs/deep/f"), "x").expect("written");
    rustix::mount::unmount(tree.at("docs"), rustix::mount::UnmountFlags::DETACH).expect("detached by force");
    soon("both are back", || fs::read_to_string(tree.at("docs/deep/f")).is_ok_and(|text| text == "x"));
    assert_eq!(tree.table().len(), 3);
}

#[test]
fn what_is_detached_lazily_serves_those_who_are_in_it() {
    let tree = nested(Nesting::Nested);
    fs::write(tree.at("docs/f"), "still here").expect("written");
    let held = fs::File::open(tree.at("docs/f")).expect("open");
    tree.view.detach().expect("detached");
    assert_eq!(tree.table(), [""; 0]);
    assert_eq!(errno(fs::metadata(tree.at("docs"))), libc::ENOENT);
    let mut bytes = [0; 10];
    std::os::unix::fs::FileExt::read_exact_at(&held, &mut bytes, 0).expect("read");
    assert_eq!(&bytes, b"still here");
}

#[test]
fn a_source_with_commas_adds_no_mount_option() {
    let mut parts = Parts::new();
    parts.disk("/", "a,suid,dev b\\", false);
    let tree = parts.mount(&MountOptions::default());
    let table = tree.table();
    assert!(table[0].contains("nosuid,nodev"), "{table:?}");
    assert!(table[0].contains(" - fuse.workfs disk:a,suid,dev\\040b\\134 "), "{table:?}");
}
