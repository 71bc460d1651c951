//! Nothing leads the daemon out of a volume: symlinks and `..` are the caller's, and are resolved in the caller's own tree.

use crate::harness::{Failed, each_kind, put, slurp};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::fs::{create_dir, read_dir, remove_file, rename, symlink_metadata};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

each_kind! {
    fn dot_dot_at_the_root_of_a_volume_is_the_tree_above(scene) {
        put(scene.home().join("secret"), b"outside");
        put(scene.at("../above"), b"in the tree");
        assert_eq!(slurp(scene.root().join("above")), b"in the tree");
        assert_eq!(symlink_metadata(scene.at("../secret")).errno(), Errno::NOENT);
        let above = symlink_metadata(scene.root()).expect("stat");
        let parent = symlink_metadata(scene.at("..")).expect("stat");
        assert_eq!((above.ino(), above.dev()), (parent.ino(), parent.dev()));
    }

    fn symlinks_are_resolved_for_the_caller(scene) {
        let secret = scene.home().join("secret");
        put(&secret, b"outside");
        symlink(&secret, scene.at("abs")).expect("symlink");
        // The kernel follows it in the caller's own namespace, so it reads what the caller may read; the link itself is bytes.
        assert_eq!(slurp(scene.at("abs")), b"outside");
        assert_eq!(std::fs::read_link(scene.at("abs")).expect("readlink"), secret);
        rename(scene.at("abs"), scene.at("renamed")).expect("the link is moved, not its target");
        remove_file(scene.at("renamed")).expect("the link is removed, not its target");
        assert_eq!(slurp(&secret), b"outside");
    }

    fn a_confined_caller_stays_inside(scene) {
        put(scene.home().join("secret"), b"outside");
        symlink(scene.home().join("secret"), scene.at("abs")).expect("symlink");
        symlink("../../secret", scene.at("rel")).expect("symlink");
        symlink("page", scene.at("inside")).expect("symlink");
        put(scene.at("page"), b"inside");
        let root = std::fs::File::open(scene.path()).expect("open");
        let beneath = |path: &str| openat2(&root, path, OFlags::RDONLY, Mode::empty(), ResolveFlags::BENEATH);
        assert_eq!(beneath("abs").errno(), Errno::XDEV);
        assert_eq!(beneath("rel").errno(), Errno::XDEV);
        beneath("inside").expect("what stays inside is followed");
        let no_links = openat2(CWD, scene.at("inside"), OFlags::RDONLY, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        assert_eq!(no_links.errno(), Errno::LOOP);
    }
}

/// Swaps a directory of the disk volume's own folder for a symlink that leads out, beside the mount, while it is used.
#[test]
fn a_symlink_put_beside_the_mount_is_not_followed_by_the_daemon() {
    use crate::harness::{Kind, Scene, Sessions};
    for sessions in [Sessions::Nested, Sessions::Single] {
        let scene = Scene::new(Kind::Disk, sessions);
        let outside = scene.home().join("outside");
        create_dir(&outside).expect("mkdir");
        put(outside.join("f"), b"secret");
        create_dir(scene.at("dir")).expect("mkdir");
        put(scene.at("dir/f"), b"inside");
        let held = std::fs::File::open(scene.at("dir")).expect("open");
        let folder = scene.home().join("volume-place");
        let swap = |from: &Path, to: &Path| rename(from, to).expect("rename beside the mount");
        swap(&folder.join("dir"), &folder.join("kept"));
        symlink(&outside, folder.join("dir")).expect("symlink beside the mount");
        // Through the directory that was known before: its own file, or nothing, never what the symlink leads to.
        let flags = OFlags::RDONLY;
        if let Ok(file) = rustix::fs::openat(&held, "f", flags, Mode::empty()) {
            let mut bytes = [0; 16];
            let length = rustix::io::read(&file, &mut bytes).expect("read");
            assert_eq!(&bytes[..length], b"inside");
        }
        let made = rustix::fs::openat(&held, "new", OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o600));
        drop(made);
        assert!(!outside.join("new").exists(), "the daemon wrote outside of its volume");
        assert_eq!(read_dir(&outside).expect("readdir").count(), 1);
        drop(held);
        scene.end();
    }
}

/// Many swaps of a directory and a symlink while files are made in it: none may land outside.
#[test]
fn a_race_of_symlinks_beside_the_mount_leads_nowhere() {
    use crate::harness::{Kind, Scene, Sessions};
    use std::sync::atomic::{AtomicBool, Ordering};
    let scene = Scene::new(Kind::Disk, Sessions::Nested);
    let outside = scene.home().join("outside");
    create_dir(&outside).expect("mkdir");
    let folder = scene.home().join("volume-place");
    create_dir(folder.join("dir")).expect("mkdir");
    symlink(&outside, folder.join("trap")).expect("symlink");
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let (dir, trap) = (folder.join("dir"), folder.join("trap"));
                rustix::fs::renameat_with(CWD, &dir, CWD, &trap, rustix::fs::RenameFlags::EXCHANGE).expect("swap");
            }
        });
        let root = std::fs::File::open(scene.path()).expect("open");
        for index in 0..500 {
            // The caller refuses symlinks, so what lands outside can only be the daemon's doing.
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW;
            let _ =
                openat2(&root, format!("dir/f{index}"), flags, Mode::from_raw_mode(0o600), ResolveFlags::NO_SYMLINKS);
        }
        done.store(true, Ordering::Relaxed);
    });
    let landed: Vec<_> =
        read_dir(&outside).expect("readdir").map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(landed.is_empty(), "{landed:?} landed outside");
    scene.end();
}
