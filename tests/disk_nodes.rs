//! How a disk volume finds its nodes again, and what it holds for that.

use crate::disk::{Disk, RD, RW, errno, is_root, name, now, refusal};
use crate::harness::changed_within;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::Duration;
use workfs::mounts::{OpenStyle, Volume};
use workfs::types::{Caller, Errno, FileKind, Mode, NodeId, RenameMode};

/// Descriptors of this process that are open on something below `folder`.
fn descriptors_below(folder: &std::path::Path) -> usize {
    let fds = fs::read_dir("/proc/self/fd").expect("listed");
    fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok()).filter(|to| to.starts_with(folder)).count()
}

/// `count` files, a thousand to a directory that lies in another.
fn many(disk: &Disk, count: usize) {
    for dir in 0..count / 1000 {
        let path = disk.path(format!("d{dir}/e"));
        fs::create_dir_all(&path).expect("made");
        for file in 0..1000 {
            fs::write(path.join(format!("f{file}")), format!("{dir}/{file}")).expect("written");
        }
    }
}

fn know_all(disk: &Disk, count: usize) -> Vec<(NodeId, String)> {
    let mut known = Vec::new();
    for dir in 0..count / 1000 {
        let d = disk.look(disk.root, format!("d{dir}")).attr.node;
        let e = disk.look(d, "e").attr.node;
        for file in 0..1000 {
            known.push((disk.look(e, format!("f{file}")).attr.node, format!("{dir}/{file}")));
        }
    }
    known
}

#[test]
fn twenty_thousand_known_nodes_take_few_descriptors() {
    if !is_root() {
        return;
    }
    let disk = Disk::in_memory();
    many(&disk, 20_000);
    let known = know_all(&disk, 20_000);
    for (node, text) in &known {
        assert_eq!(now(disk.volume.getattr(*node)).expect("found").size, text.len() as u64);
    }
    for (node, text) in known.iter().step_by(13) {
        assert_eq!(disk.read(*node).expect("read"), text.as_bytes());
    }
    let open = descriptors_below(disk.folder.path());
    assert!((20..=300).contains(&open), "{open} descriptors");
    // Idle ones are closed.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while descriptors_below(disk.folder.path()) > 60 {
        assert!(std::time::Instant::now() < deadline, "{} descriptors", descriptors_below(disk.folder.path()));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// Runs `case` on a thread that is an ordinary user's. Credentials are a thread's own for the kernel.
fn as_an_ordinary_user(case: impl FnOnce(Disk) + Send + 'static) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    if is_root() {
        // The user's own, who removes it at the end.
        std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).expect("chown");
    }
    let run = std::thread::spawn(move || {
        if is_root() {
            let (uid, gid) = (rustix::fs::Uid::from_raw(65534), rustix::fs::Gid::from_raw(65534));
            rustix::thread::set_thread_groups(&[]).expect("no groups");
            rustix::thread::set_thread_res_gid(gid, gid, gid).expect("another group");
            rustix::thread::set_thread_res_uid(uid, uid, uid).expect("another user");
        }
        assert!(!is_root());
        case(Disk::over(folder));
    });
    run.join().expect("the case held");
}

#[test]
fn an_ordinary_users_nodes_are_found_again_beyond_the_bound() {
    as_an_ordinary_user(|disk| {
        assert_eq!(disk.volume.capabilities().opens, OpenStyle::PerHandle);
        many(&disk, 6_000);
        let known = know_all(&disk, 6_000);
        let open = descriptors_below(disk.folder.path());
        assert!(open <= 4_200, "{open} descriptors");
        for (node, text) in &known {
            assert_eq!(now(disk.volume.getattr(*node)).expect("found").size, text.len() as u64);
        }
        let open = descriptors_below(disk.folder.path());
        assert!(open <= 4_200, "{open} descriptors");
        // All descriptors gone: by its names, which a rename through the volume keeps up to date.
        let (volume, me, root) = (&disk.volume, &disk.me, disk.root);
        now(volume.rename(me, root, &name("d0"), root, &name("moved"), RenameMode::Replace)).expect("moved");
        now(volume.close()).expect("closed");
        assert_eq!(disk.read(known[5].0).expect("found"), b"0/5");
        // Beside the volume: never another file.
        now(volume.close()).expect("closed");
        fs::rename(disk.path("moved/e/f6"), disk.path("moved/e/f7")).expect("renamed");
        fs::write(disk.path("moved/e/f6"), "another").expect("written");
        for file in [6, 7] {
            assert_eq!(disk.read(known[file].0).map(drop).expect_err("lost").errno(), Errno::ESTALE);
        }
        now(volume.close()).expect("closed");
        fs::rename(disk.path("d1/e"), disk.path("d1/x")).expect("renamed");
        std::os::unix::fs::symlink("x", disk.path("d1/e")).expect("linked");
        assert_eq!(errno(volume.getattr(known[1005].0)), Errno::ESTALE, "through no symbolic link");
        assert_eq!(disk.look(disk.root, "d1").attr.kind, FileKind::Directory);
    });
}

#[test]
fn an_ordinary_user_has_all_operations_too() {
    as_an_ordinary_user(|disk| {
        let (volume, me, root) = (&disk.volume, &disk.me, disk.root);
        let node = disk.make("f", b"bytes");
        let linked = now(volume.link(me, node, root, &name("g"))).expect("linked");
        assert_eq!((linked.attr.node, linked.attr.links, linked.attr.uid), (node, 2, me.uid));
        now(volume.unlink(me, root, &name("f"))).expect("removed");
        now(volume.unlink(me, root, &name("g"))).expect("removed");
        now(volume.close()).expect("closed");
        assert_eq!(disk.read(node).expect("lives"), b"bytes");
        let dir = now(volume.mkdir(me, root, &name("d"), Mode::new(0o755))).expect("made").attr.node;
        let link = now(volume.symlink(me, dir, &name("l"), b"x")).expect("made").attr.node;
        now(volume.close()).expect("closed");
        assert_eq!(now(volume.readlink(link)).expect("found"), "x");
        now(volume.link(me, link, dir, &name("m"))).expect("a symbolic link has two names");
        assert_eq!(disk.list(dir, 1, true).len(), 2);
        assert_eq!(
            errno(volume.mknod(me, root, &name("c"), FileKind::CharDevice, Mode::new(0o600), 259)),
            Errno::EPERM
        );
        let sealed = now(volume.mknod(me, root, &name("s"), FileKind::Regular, Mode::new(0), 0)).expect("made");
        assert_eq!(errno(volume.open(me, sealed.attr.node, RD)), Errno::EACCES);
    });
}

#[test]
fn directories_stay_known_for_what_is_known_in_them() {
    as_an_ordinary_user(|disk| {
        many(&disk, 1000);
        let known = know_all(&disk, 1000);
        let d = disk.look(disk.root, "d0").attr.node;
        let e = disk.look(d, "e").attr.node;
        disk.volume.forget(d, 2);
        disk.volume.forget(e, 2);
        assert_eq!(errno(disk.volume.getattr(e)), Errno::ESTALE);
        now(disk.volume.close()).expect("closed");
        assert_eq!(disk.read(known[3].0).expect("found"), b"0/3");
        for (node, _) in known {
            disk.volume.forget(node, 1);
        }
    });
}

/// A filesystem of its own, mounted inside the volume; unmounted at the end whatever happens.
pub struct Mounted(std::path::PathBuf);

impl Mounted {
    pub fn new(args: &[&str], at: std::path::PathBuf) -> Option<Mounted> {
        let done = Command::new("mount").args(args).arg(&at).status().expect("mount runs");
        done.success().then_some(Mounted(at))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn other_filesystems_below_the_root_have_numbers_of_their_own() {
    if !is_root() {
        return;
    }
    let disk = Disk::in_memory();
    for dir in ["other", "same", "inner"] {
        fs::create_dir(disk.path(dir)).expect("made");
    }
    fs::write(disk.path("inner/f"), "inner").expect("written");
    let inner = disk.path("inner");
    let Some(_tmpfs) = Mounted::new(&["-t", "tmpfs", "none"], disk.path("other")) else { return };
    let Some(_bind) = Mounted::new(&["--bind", inner.to_str().expect("text")], disk.path("same")) else { return };
    for index in 0..100 {
        fs::write(disk.path(format!("other/{index}")), "x").expect("written");
    }
    let (volume, me) = (&disk.volume, &disk.me);
    let other = disk.look(disk.root, "other").attr;
    let plain = disk.list(disk.root, 100, false);
    let mut numbers = std::collections::BTreeSet::new();
    for entry in &plain {
        assert_eq!(entry.node, disk.look(disk.root, entry.name.as_bytes()).attr.node, "{entry:?}");
        assert!(numbers.insert(entry.node));
    }
    for entry in disk.list(other.node, 7, false) {
        assert_eq!(entry.node, disk.look(other.node, entry.name.as_bytes()).attr.node);
        assert!(numbers.insert(entry.node), "{} came twice", entry.node);
    }
    let (same, direct) = (disk.look(disk.root, "same").attr, disk.look(disk.root, "inner").attr);
    assert_ne!(same.node, direct.node, "a directory has one parent");
    let through = disk.look(same.node, "f").attr;
    assert_eq!(disk.read(through.node).expect("read"), b"inner");
    let file = disk.look(other.node, "5").attr.node;
    now(volume.close()).expect("closed");
    assert_eq!(disk.read(file).expect("walked to"), b"x");
    assert_eq!(now(volume.statfs(other.node)).expect("told").files, {
        rustix::fs::statvfs(disk.path("other")).expect("told").f_files
    });
    let moved = now(volume.rename(me, disk.root, &name("inner"), other.node, &name("x"), RenameMode::Replace));
    assert_eq!(refusal(moved), Errno::EXDEV);
    assert_eq!(errno(volume.link(me, file, disk.root, &name("x"))), Errno::EXDEV);
    now(volume.sync()).expect("synced");
    assert_eq!(other.kind, FileKind::Directory);
    assert_ne!(
        fs::metadata(disk.path("other")).expect("stat").dev(),
        fs::metadata(disk.path(".")).expect("stat").dev()
    );
}

#[test]
fn what_is_mounted_below_the_root_can_be_unmounted_soon_after_its_last_use() {
    if !is_root() {
        return;
    }
    let disk = Disk::in_memory();
    fs::create_dir(disk.path("other")).expect("made");
    let Some(_tmpfs) = Mounted::new(&["-t", "tmpfs", "none"], disk.path("other")) else { return };
    fs::create_dir_all(disk.path("other/a/b")).expect("made");
    fs::write(disk.path("other/a/b/f"), "text").expect("written");
    let mut dir = disk.look(disk.root, "other").attr.node;
    for below in ["a", "b"] {
        disk.list(dir, 10, true);
        dir = disk.look(dir, below).attr.node;
    }
    let file = disk.look(dir, "f").attr.node;
    assert_eq!(disk.read(file).expect("read"), b"text");
    now(disk.volume.sync()).expect("synced");
    let unmounted = || rustix::mount::unmount(disk.path("other"), rustix::mount::UnmountFlags::empty()).is_ok();
    assert!(changed_within(Duration::from_secs(5), unmounted), "the nodes are known and keep nothing busy");
    assert_eq!(errno(disk.volume.getattr(file)), Errno::ESTALE);
}

/// A volume on an overlay, which has no handles, over a file `f`; `None` where none can be mounted.
pub fn on_an_overlay(parts: &std::path::Path) -> Option<(Disk, Mounted)> {
    for part in ["lower", "upper", "work"] {
        fs::create_dir(parts.join(part)).expect("made");
    }
    fs::write(parts.join("lower/f"), "below").expect("written");
    let folder = tempfile::tempdir().expect("a folder");
    let path = parts.display();
    let options = format!("lowerdir={path}/lower,upperdir={path}/upper,workdir={path}/work");
    let overlay = Mounted::new(&["-t", "overlay", "overlay", "-o", &options], folder.path().to_owned())?;
    Some((Disk::over(folder), overlay))
}

#[test]
fn without_handles_root_keeps_descriptors_and_a_copy_up_makes_no_other_file() {
    let parts = tempfile::tempdir().expect("a folder");
    let Some((disk, _overlay)) = is_root().then(|| on_an_overlay(parts.path())).flatten() else { return };
    assert_eq!(disk.volume.capabilities().opens, OpenStyle::PerHandle);
    let node = disk.look(disk.root, "f").attr.node;
    let file = now(disk.volume.open(&disk.me, node, RW)).expect("opens");
    disk.write(&*file, 0, b"above");
    assert_eq!(disk.look(disk.root, "f").attr.node, node, "it is the same file after it was copied up");
    now(disk.volume.close()).expect("closed");
    assert_eq!(disk.read(node).expect("walked to"), b"above");
    let user = Caller { uid: 65534, gid: 65534, ..disk.me };
    fs::set_permissions(disk.folder.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
    let made = now(disk.volume.mkdir(&user, disk.root, &name("d"), Mode::new(0o700))).expect("made");
    assert_eq!(made.attr.uid, 65534);
    now(disk.volume.unlink(&disk.me, disk.root, &name("f"))).expect("removed");
    assert_eq!(disk.read(node).expect("lives"), b"above");
}

#[test]
fn many_threads_look_make_and_remove_at_once() {
    let disk = Disk::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let disk = &disk;
            scope.spawn(move || {
                for round in 0..500 {
                    let own = format!("{thread}-{}", round % 7);
                    let node = disk.make(&own, own.as_bytes());
                    let shared = now(disk.volume.lookup(&disk.me, disk.root, &name("0-0")));
                    if let Ok(found) = shared {
                        let _ = now(disk.volume.getattr(found.attr.node));
                        disk.volume.forget(found.attr.node, 1);
                    }
                    let to = name(format!("{thread}-x"));
                    now(disk.volume.rename(&disk.me, disk.root, &name(&own), disk.root, &to, RenameMode::Replace))
                        .expect("renamed");
                    assert_eq!(disk.read(node).expect("read"), own.as_bytes());
                    if round % 3 == 0 {
                        now(disk.volume.unlink(&disk.me, disk.root, &to)).expect("removed");
                        assert_eq!(disk.read(node).expect("read"), own.as_bytes());
                    }
                    disk.volume.forget(node, 1);
                }
            });
        }
    });
    assert!(disk.list(disk.root, 100, true).len() <= 4);
}
