//! Several volumes as one tree: the borders between mounts are those that the kernel draws between filesystems.

use crate::harness::{Failed, Kind, MountSpec, Scene, Sessions, put, slurp};
use rustix::fs::{CWD, RenameFlags, renameat_with, statvfs};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{create_dir, create_dir_all, hard_link, metadata, read_dir, remove_dir, rename, symlink_metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A project with a store, notes in the midst of it, a store below a directory, and read-only docs.
fn tree(kind: Kind, sessions: Sessions) -> Scene {
    let other = if kind == Kind::Native { Kind::Native } else { Kind::Memory };
    let outermost = if kind == Kind::Native { Kind::Native } else { Kind::Disk };
    let mounts = vec![
        MountSpec::new("/", outermost),
        MountSpec::new("other", other),
        MountSpec::new("docs", outermost).read_only(),
        MountSpec::new("deep/down/store", other),
        MountSpec::new("store", kind),
        MountSpec::new("store/inner", other),
    ];
    let mut scene = Scene::with_mounts(kind, sessions, mounts);
    scene.work_in("store");
    scene
}

/// Each law on a tree whose chief volume is of each kind.
macro_rules! each_tree {
    ($($(#[$meta:meta])* fn $name:ident($scene:ident) $body:block)+) => {
        $(mod $name {
            use super::*;
            $(#[$meta])*
            fn law($scene: &mut Scene) $body
            each_tree! { @tests native Native Nested, disk_nested Disk Nested, disk_single Disk Single,
                sqlite_nested Sqlite Nested, sqlite_single Sqlite Single }
        })+
    };
    (@tests $($test:ident $kind:ident $sessions:ident),+) => {
        $(#[test]
        fn $test() {
            let mut scene = tree(Kind::$kind, Sessions::$sessions);
            law(&mut scene);
            scene.end();
        })+
    };
}

fn names(dir: &Path) -> BTreeSet<String> {
    let names = read_dir(dir).expect("readdir").map(|entry| entry.expect("an entry").file_name());
    names.map(|name| name.into_string().expect("UTF-8")).collect()
}

each_tree! {
    fn mounts_are_directories_of_the_tree(scene) {
        let root = scene.root();
        assert_eq!(names(&root), BTreeSet::from(["other", "deep", "docs", "store"].map(String::from)));
        assert_eq!(names(&root.join("deep")), BTreeSet::from(["down".to_owned()]));
        assert_eq!(names(&root.join("deep/down")), BTreeSet::from(["store".to_owned()]));
        put(root.join("other/a"), b"1");
        put(root.join("store/b"), b"2");
        put(root.join("deep/down/store/c"), b"3");
        put(root.join("store/inner/d"), b"4");
        put(root.join("e"), b"5");
        assert_eq!(names(&root.join("store")), BTreeSet::from(["b", "inner"].map(String::from)));
        let found = scene.bash("cd \"$1\"; find . -type f | sort | xargs cat", &[&root]);
        assert_eq!(found, "35124", "a search from the root goes into every mount");
    }

    fn renames_and_links_between_mounts_give_exdev(scene) {
        let root = scene.root();
        put(root.join("store/f"), b"x");
        put(root.join("g"), b"y");
        create_dir(root.join("store/d")).expect("mkdir");
        let moves = [("store/f", "other/f"), ("g", "store/g"), ("store/d", "d"), ("store/f", "store/inner/f"),
            ("store/f", "deep/down/f"), ("store/d", "deep/d")];
        for (from, to) in moves {
            assert_eq!(rename(root.join(from), root.join(to)).errno(), Errno::XDEV, "{from} → {to}");
        }
        assert_eq!(hard_link(root.join("store/f"), root.join("other/f")).errno(), Errno::XDEV);
        assert_eq!(hard_link(root.join("g"), root.join("store/g")).errno(), Errno::XDEV);
        assert_eq!(hard_link(root.join("store/f"), root.join("deep/down/f")).errno(), Errno::XDEV);
        if scene.kind() != Kind::Native {
            assert!(!scene.home().join("volume-/deep").exists(), "the way to a mount is not made for what is refused");
        }
        let exchange = renameat_with(CWD, root.join("g"), CWD, root.join("store/f"), RenameFlags::EXCHANGE);
        assert_eq!(exchange.errno(), Errno::XDEV);
        assert_eq!((slurp(root.join("store/f")), slurp(root.join("g"))), (b"x".to_vec(), b"y".to_vec()));
    }

    fn mv_between_mounts_copies(scene) {
        let root = scene.root();
        crate::harness::tree::make(&root.join("store/src"), 120, 5);
        let before = crate::harness::tree::told(&root.join("store/src"));
        scene.bash("cd \"$1\"; mv store/src other/dst; mv other/dst deep/down/store/dst; mv deep/down/store/dst back; mv back store/again", &[&root]);
        crate::harness::tree::assert_same(&before, &crate::harness::tree::told(&root.join("store/again")));
        assert!(names(&root.join("other")).is_empty());
    }

    fn mountpoints_cannot_be_removed_or_renamed(scene) {
        let root = scene.root();
        create_dir(root.join("free")).expect("mkdir");
        for mountpoint in ["store", "other", "docs", "deep/down/store", "store/inner"] {
            assert_eq!(remove_dir(root.join(mountpoint)).errno(), Errno::BUSY, "{mountpoint}");
            assert_eq!(rename(root.join(mountpoint), root.join(format!("{mountpoint}-moved"))).errno(), Errno::BUSY, "{mountpoint}");
            assert_eq!(create_dir(root.join(mountpoint)).errno(), Errno::EXIST, "{mountpoint}");
        }
        let over = rename(root.join("free"), root.join("store")).errno();
        assert_eq!(over, Errno::BUSY);
        assert!(root.join("free").is_dir());
    }

    fn links_and_find_stay_on_one_filesystem(scene) {
        let root = scene.root();
        put(root.join("store/inside"), b"");
        put(root.join("top"), b"");
        if scene.kind() == Kind::Native || scene.sessions() == Sessions::Nested {
            let device = |path: &str| metadata(root.join(path)).expect("stat").dev();
            let devices = ["", "store", "other", "docs", "store/inner"].map(device);
            assert_eq!(BTreeSet::from(devices).len(), 5, "each mount is a device of its own");
            assert_eq!(device("deep"), device(""));
            let found = scene.bash("cd \"$1\"; find . -xdev -type f", &[&root]);
            assert_eq!(found, "./top\n");
        }
    }

    fn a_read_only_mount_refuses_every_change(scene) {
        let docs = scene.root().join("docs");
        assert_eq!(std::fs::write(docs.join("new"), b"x").errno(), Errno::ROFS);
        assert_eq!(create_dir(docs.join("new")).errno(), Errno::ROFS);
        assert_eq!(std::fs::set_permissions(&docs, std::os::unix::fs::PermissionsExt::from_mode(0o700)).errno(), Errno::ROFS);
        let complaint = scene.program("touch").arg(docs.join("new")).complaint();
        assert!(complaint.contains("Read-only file system"), "{complaint}");
    }

    fn what_is_written_is_kept_in_its_own_volume(scene) {
        let root = scene.root();
        put(root.join("store/f"), b"in the store");
        put(root.join("g"), b"on the disk");
        create_dir_all(root.join("store/a/b/c")).expect("mkdir");
        if scene.kind() != Kind::Native {
            assert_eq!(slurp(scene.home().join("volume-/g")), b"on the disk");
            assert!(!scene.home().join("volume-/store/f").exists(), "what is covered is not written");
        }
        scene.remount();
        assert_eq!((slurp(root.join("store/f")), slurp(root.join("g"))), (b"in the store".to_vec(), b"on the disk".to_vec()));
        assert!(symlink_metadata(root.join("store/a/b/c")).expect("stat").is_dir());
    }

    fn each_mount_has_its_own_numbers(scene) {
        let root = scene.root();
        if scene.kind() == Kind::Native || scene.sessions() == Sessions::Nested {
            let targets = scene.program("df").arg("--output=target").args(scene.mountpoints()).text();
            let listed: Vec<&str> = targets.lines().skip(1).collect();
            let right: Vec<String> = scene.mountpoints().iter().map(|at| at.display().to_string()).collect();
            if scene.kind() != Kind::Native {
                assert_eq!(listed, right);
            }
        }
        for mount in ["store", "other"] {
            let told = statvfs(root.join(mount)).expect("statvfs");
            assert!(told.f_bsize > 0 && told.f_blocks >= told.f_bfree && told.f_bfree >= told.f_bavail);
            assert!(told.f_blocks > 0 && told.f_namemax == 255);
        }
        if matches!(scene.kind(), Kind::Disk | Kind::Passthrough) {
            let through = statvfs(root.join("store")).expect("statvfs");
            let beside = statvfs(scene.home()).expect("statvfs");
            assert_eq!(through.f_blocks * through.f_frsize, beside.f_blocks * beside.f_frsize, "a disk tells its host's size");
        }
    }

    fn a_file_takes_room_in_its_own_mount(scene) {
        let root = scene.root();
        let used = |mount: &str| {
            let told = statvfs(root.join(mount)).expect("statvfs");
            (told.f_blocks - told.f_bfree) * told.f_frsize
        };
        if !matches!(scene.kind(), Kind::Disk | Kind::Passthrough) {
            let (store, other) = (used("store"), used("other"));
            put(root.join("store/f"), crate::harness::random::bytes(1, 4 << 20));
            std::fs::File::open(root.join("store/f")).expect("open").sync_all().expect("fsync");
            assert!(used("store") >= store + (3 << 20), "{} after {store}", used("store"));
            assert!(used("other") < other + (1 << 20));
        }
    }
}
