//! A volume that is full: it says so, keeps what it had, and can be emptied.

use crate::harness::{Kind, MountSpec, Scene, Sessions, changed_within, put, random, slurp};
use rustix::io::Errno;
use std::fs::{File, create_dir, metadata, remove_dir, remove_file, rename};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// A file that is written until nothing more fits, closed and synced.
fn write_until_full(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A scene whose volume lies on a filesystem of 24 MiB of its own.
fn on_a_small_disk(kind: Kind, sessions: Sessions, behaviour: fn(&mut Scene)) {
    let outer = MountSpec::new("/", Kind::Disk).source("outer");
    let mounts = vec![outer, MountSpec::new("full", kind).source("small/volume")];
    let mut scene = Scene::prepared(kind, sessions, mounts, |home| {
        let small = home.join("small");
        create_dir(&small).expect("mkdir");
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", &small, "tmpfs", flags, Some(c"size=24m,mode=755")).expect("a tmpfs");
        if !kind.is_store() {
            create_dir(small.join("volume")).expect("mkdir");
        }
    });
    behaviour(&mut scene);
    scene.end();
}

fn it_keeps_what_it_had_and_can_be_emptied(scene: &mut Scene) {
    let kept = random::bytes(1, 3_000_000);
    put(scene.at("kept"), &kept);
    let piece = random::bytes(2, 1_000_000);
    let name = |number: usize| scene.at(format!("f{number}"));
    let full = (0..40).find_map(|number| write_until_full(&name(number), &piece).err().map(|error| (number, error)));
    let (written, error) = full.expect("24 MiB are full some time");
    assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()), "{error}");
    assert!(written >= 10, "{written} files fitted");
    assert!(slurp(scene.at("kept")) == kept && slurp(name(0)) == piece);
    assert!(metadata(name(written)).map_or(0, |file| file.len()) <= piece.len() as u64);
    let free = rustix::fs::statvfs(scene.path()).expect("statfs");
    assert!(free.f_bavail * free.f_frsize < 1_500_000, "df tells of {} free bytes", free.f_bavail * free.f_frsize);

    // What frees, or needs next to nothing, goes on.
    rename(name(1), scene.at("moved")).expect("rename");
    for number in 2..written {
        remove_file(name(number)).expect("unlink");
    }
    drop(remove_file(name(written)));
    // A disk frees a file when the kernel has forgotten it, which it says a moment later.
    let again = || write_until_full(&scene.at("again"), &piece).is_ok();
    assert!(changed_within(Duration::from_secs(1), again), "there is room again");
    create_dir(scene.at("dir")).expect("mkdir");
    remove_dir(scene.at("dir")).expect("rmdir");
    scene.remount_if_kept();
    assert!(slurp(scene.at("kept")) == kept && slurp(scene.at("moved")) == piece && slurp(scene.at("again")) == piece);
}

fn it_is_unmounted_and_mounted_while_full(scene: &mut Scene) {
    let piece = random::bytes(3, 2_000_000);
    let written =
        (0..20).take_while(|number| write_until_full(&scene.at(format!("f{number}")), &piece).is_ok()).count();
    assert!((5..20).contains(&written), "{written} files fitted");
    scene.remount_if_kept();
    assert!(slurp(scene.at("f0")) == piece);
    scene.kill();
    scene.mount();
    assert!(slurp(scene.at("f1")) == piece);
    remove_file(scene.at("f0")).expect("unlink");
    remove_file(scene.at("f2")).expect("unlink");
    // The session that was killed may have had it open: its lease must run out first.
    let written = || write_until_full(&scene.at("again"), &piece).is_ok();
    assert!(changed_within(Duration::from_secs(60), written), "there is room again");
}

macro_rules! on_each {
    ($($behaviour:ident)+) => {
        $(mod $behaviour {
            use super::*;

            #[test]
            fn native() {
                on_a_small_disk(Kind::Native, Sessions::Nested, super::$behaviour);
            }

            #[test]
            fn disk() {
                on_a_small_disk(Kind::Disk, Sessions::Nested, super::$behaviour);
            }

            #[test]
            fn disk_single() {
                on_a_small_disk(Kind::Disk, Sessions::Single, super::$behaviour);
            }

            #[test]
            fn sqlite() {
                on_a_small_disk(Kind::Sqlite, Sessions::Nested, super::$behaviour);
            }

            #[test]
            fn sqlite_single() {
                on_a_small_disk(Kind::Sqlite, Sessions::Single, super::$behaviour);
            }
        })+
    };
}

on_each! { it_keeps_what_it_had_and_can_be_emptied it_is_unmounted_and_mounted_while_full }
