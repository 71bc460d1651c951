//! The skeleton: nested mounts stay, and stay read-only, whatever happens to what is above them.

use super::faulty::Faulty;
use super::tree::{Parts, Tree, errno, soon};
use crate::harness::drop_caches;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::sleep;
use std::time::{Duration, Instant};
use workfs::fs::{MountOptions, Nesting};
use workfs::types::{ChangeKind, Errno};

/// `/` with `docs` and `a/b/deep` read-only in it.
struct Nested {
    tree: Tree,
    outer: Arc<Faulty>,
    inner: [Arc<Faulty>; 2],
    devices: [u64; 3],
}

const NESTED: [(&str, &str); 2] = [("docs", "guide.txt"), ("a/b/deep", "note.txt")];

impl Nested {
    /// With `ancestors`, the outer volume has the directories where the others are mounted; else it is empty.
    fn new(ancestors: bool) -> Nested {
        let mut parts = Parts::new();
        let outer = parts.disk("/", "outer", false);
        let inner = [parts.disk("docs", "docs", true), parts.disk("a/b/deep", "deep", true)];
        for (folder, file) in [("docs", "guide.txt"), ("deep", "note.txt")] {
            fs::write(parts.temp.path().join(folder).join(file), file).expect("written");
        }
        let beside = parts.temp.path().join("outer");
        let made: &[&str] = if ancestors { &["other", "docs", "a/b/deep"] } else { &["other"] };
        made.iter().for_each(|dir| fs::create_dir_all(beside.join(dir)).expect("made"));
        let tree = parts.mount(&MountOptions { nesting: Nesting::Nested, ..MountOptions::default() });
        let devices = [".", "docs", "a/b/deep"].map(|path| fs::metadata(tree.at(path)).expect("there").dev());
        Nested { tree, outer, inner, devices }
    }

    /// The nested mounts answer as on the first day, and nothing was mounted anew.
    fn stays(&self, after: &str) {
        for (place, (at, file)) in (1..).zip(NESTED) {
            let path = self.tree.at(at);
            let read = fs::read_to_string(path.join(file));
            assert_eq!(read.unwrap_or_else(|e| panic!("{at} after {after}: {e}")), file);
            assert_eq!(fs::metadata(&path).expect("there").dev(), self.devices[place], "{at} after {after}");
            assert_eq!(errno(fs::write(path.join("evil"), "x")), libc::EROFS, "{at} after {after}");
        }
        for (at, _) in NESTED {
            let point = format!(" {} ro,", self.tree.at(at).display());
            let mounted = self.tree.table().iter().any(|line| line.contains(&point));
            assert!(mounted, "{at} is not mounted read-only after {after}");
        }
        assert!(self.tree.view.status().sessions.iter().all(|session| session.mounted && session.lost == 0), "{after}");
    }

    fn walk(&self) {
        // A walk asks for everything again; errors in the outer volume are what some tests want.
        for path in [".", "a", "a/b", "a/b/deep", "docs", "other", "missing", "z", "z/b"] {
            fs::symlink_metadata(self.tree.at(path)).ok();
            if let Ok(listing) = fs::read_dir(self.tree.at(path)) {
                listing.flatten().for_each(|file| drop(file.metadata()));
            }
        }
    }
}

fn on_both(test: impl Fn(&Nested)) {
    for ancestors in [true, false] {
        let nested = Nested::new(ancestors);
        nested.stays("the start");
        test(&nested);
    }
}

#[test]
fn nested_mounts_outlast_changes_of_their_ancestors_beside_the_mount() {
    on_both(|nested| {
        nested.walk();
        let beside = nested.tree.beside("outer");
        if beside.join("a").exists() {
            fs::rename(beside.join("a"), beside.join("z")).expect("renamed beside");
            fs::remove_dir(beside.join("docs")).expect("removed beside");
        } else {
            fs::write(beside.join("docs"), "a file in the way").expect("written beside");
            fs::create_dir(beside.join("a")).expect("made beside");
        }
        sleep(Duration::from_millis(1100));
        nested.walk();
        nested.stays("changes beside the mount");
        drop_caches();
        nested.walk();
        nested.stays("changes beside the mount, and dropped caches");
        assert_eq!(nested.tree.at("z").exists(), beside.join("z").exists(), "what is not pinned shows as it is");
    });
}

#[test]
fn nested_mounts_outlast_a_failing_outer_volume() {
    on_both(|nested| {
        nested.outer.fails.store(true, SeqCst);
        assert_eq!(errno(fs::metadata(nested.tree.at("missing"))), libc::EIO);
        nested.walk();
        nested.stays("a failure of the outer volume");
        drop_caches();
        nested.walk();
        nested.outer.fails.store(false, SeqCst);
        nested.stays("a failure of the outer volume that has ended");
    });
}

#[test]
fn nested_mounts_outlast_the_loss_of_the_feed_and_dropped_caches() {
    on_both(|nested| {
        nested.walk();
        for round in 0..3 {
            nested.outer.tell(ChangeKind::Everything);
            nested.inner[0].tell(ChangeKind::Everything);
            sleep(Duration::from_millis(50));
            nested.walk();
            nested.stays(&format!("the loss of the feed, round {round}"));
            drop_caches();
            nested.walk();
            nested.stays(&format!("dropped caches, round {round}"));
        }
    });
}

#[test]
fn nested_mounts_outlast_the_loss_of_a_feed_whose_volume_is_remembered_for_ever() {
    let mut parts = Parts::new();
    let outer = parts.memory("/");
    let inner = parts.memory("a/docs");
    let tree = parts.mount(&MountOptions { nesting: Nesting::Nested, ..MountOptions::default() });
    fs::write(tree.at("a/docs/guide.txt"), "guide.txt").expect("written");
    fs::create_dir(tree.at("a/other")).expect("made");
    for round in 0..20 {
        fs::read_dir(tree.at("a")).expect("listed").flatten().for_each(|file| drop(file.metadata()));
        assert!(!tree.at("a/missing").exists());
        [&outer, &inner].iter().for_each(|volume| volume.tell(ChangeKind::Everything));
        sleep(Duration::from_millis(10));
        let read = fs::read_to_string(tree.at("a/docs/guide.txt"));
        assert_eq!(read.unwrap_or_else(|e| panic!("round {round}: {e}")), "guide.txt");
    }
    assert!(tree.view.status().sessions.iter().all(|session| session.mounted && session.lost == 0));
}

#[test]
fn mountpoints_and_their_ancestors_cannot_be_removed_or_shadowed() {
    on_both(|nested| {
        let at = |path: &str| nested.tree.at(path);
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
        nested.stays("attempts to remove its ancestors");
        fs::write(at("a/b/beside.txt"), "x").expect("the outer volume can be written beside the mount");
        assert_eq!(fs::read_to_string(nested.tree.beside("outer/a/b/beside.txt")).expect("there"), "x");
    });
}

fn exchange(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE)?)
}

#[test]
fn a_nested_mount_that_is_detached_by_force_comes_back_and_nothing_gets_beneath_it() {
    on_both(|nested| {
        for (at, file) in NESTED {
            let path = nested.tree.at(at);
            rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH).expect("detached by force");
            let (detached, mut beneath) = (Instant::now(), 0);
            while fs::read_to_string(path.join(file)).is_err() {
                assert!(detached.elapsed() < Duration::from_secs(2), "{at} is not back");
                let refused = [
                    errno(fs::write(path.join("evil"), "x")),
                    errno(fs::create_dir(path.join("evil"))),
                    errno(std::os::unix::fs::symlink("x", path.join("evil"))),
                    errno(fs::rename(nested.tree.at("other"), path.join("evil"))),
                ];
                assert!(refused.iter().all(|e| [libc::EIO, libc::EROFS, libc::EXDEV].contains(e)), "{refused:?}");
                beneath += 1;
                sleep(Duration::from_millis(5));
            }
            assert!(beneath > 10, "the time without the mount was tried");
            assert_eq!(errno(fs::write(path.join("evil"), "x")), libc::EROFS, "{at} is read-only again");
            assert!(!nested.tree.beside("outer").join(at).join("evil").exists(), "nothing was written beneath {at}");
        }
        let lost: Vec<u64> = nested.tree.view.status().sessions.iter().map(|session| session.lost).collect();
        assert_eq!(lost.iter().sum::<u64>(), 2, "{lost:?}");
        assert!(nested.tree.beside("outer/other").exists());
    });
}

#[test]
fn a_view_comes_down_deepest_first_and_gives_every_lookup_back() {
    on_both(|nested| {
        nested.walk();
        let held = fs::File::open(nested.tree.at("docs/guide.txt")).expect("open");
        let busy = nested.tree.view.unmount().expect_err("a file is open");
        assert_eq!(busy.errno(), Errno::EBUSY);
        let said = busy.to_string();
        assert!(said.contains(&format!("pid {}", std::process::id())), "{said}");
        let deep = nested.tree.at("a/b/deep/note.txt");
        soon("what was down already is back", || fs::read_to_string(&deep).is_ok_and(|text| text == "note.txt"));
        drop(held);
        nested.tree.view.unmount().expect("unmounted");
        assert_eq!(nested.tree.table(), [""; 0], "nothing is left");
        assert_eq!([&nested.outer, &nested.inner[0], &nested.inner[1]].map(|volume| volume.lookups()), [0; 3]);
    });
}
