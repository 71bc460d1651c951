//! One store under several mounts: what is done through one is seen through the other.

use crate::harness::server::Server;
use crate::harness::{Failed, Kind, MountSpec, Scene, Sessions, changed_within, put, random, slurp, tree};
use rustix::io::Errno;
use rustix::process::Signal;
use std::fs::{File, create_dir, hard_link, metadata, read_dir, remove_file, rename, set_permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::Duration;

fn two_views(kind: Kind, sessions: Sessions) -> Scene {
    let outer = if kind == Kind::Native { kind } else { Kind::Disk };
    let view = |at| MountSpec::new(at, kind).source("volume-shared");
    Scene::with_mounts(kind, sessions, vec![MountSpec::new("/", outer).source("outer"), view("a"), view("b")])
}

macro_rules! on_each {
    ($(fn $name:ident($a:ident, $b:ident) $body:block)+) => {
        $(mod $name {
            use super::*;
            fn law($a: &std::path::Path, $b: &std::path::Path) $body
            on_each! { @tests native Native Nested, sqlite_nested Sqlite Nested, sqlite_single Sqlite Single,
                memory_nested Memory Nested, memory_single Memory Single }
        })+
    };
    (@tests $($test:ident $kind:ident $sessions:ident),+) => {
        $(#[test]
        fn $test() {
            let scene = two_views(Kind::$kind, Sessions::$sessions);
            law(&scene.root().join("a"), &scene.root().join("b"));
            scene.end();
        })+
    };
}

on_each! {
    fn closed_files_show_at_once(a, b) {
        for round in 0..40_u64 {
            let bytes = random::bytes(round, 10 + round as usize * 997);
            put(a.join("f"), &bytes);
            assert!(slurp(b.join("f")) == bytes, "round {round}: close-to-open");
            assert_eq!(metadata(b.join("f")).expect("stat").len(), bytes.len() as u64);
            put(b.join("g"), &bytes);
            assert!(slurp(a.join("g")) == bytes, "round {round}: the other way");
        }
    }

    fn what_is_written_shows_before_the_close(a, b) {
        put(a.join("f"), b"old bytes");
        let (writer, reader) = (File::options().write(true).open(a.join("f")).expect("open"), File::open(b.join("f")).expect("open"));
        let read = || {
            let mut bytes = [0; 9];
            reader.read_exact_at(&mut bytes, 0).expect("read");
            bytes
        };
        for round in 0..20 {
            let bytes = format!("new {round:05}");
            writer.write_all_at(bytes.as_bytes(), 0).expect("write");
            assert!(changed_within(Duration::from_secs(2), || read() == *bytes.as_bytes()), "round {round}");
        }
    }

    fn names_that_come_and_go_show(a, b) {
        for round in 0..30 {
            let (left, right) = (a.join(format!("n{round}")), b.join(format!("n{round}")));
            assert_eq!(metadata(&right).errno(), Errno::NOENT);
            put(&left, b"1");
            assert!(changed_within(Duration::from_secs(2), || right.exists()), "a name that was missing has come");
            rename(&right, b.join("moved")).expect("rename");
            assert!(changed_within(Duration::from_secs(2), || !left.exists() && a.join("moved").exists()));
            remove_file(a.join("moved")).expect("unlink");
            assert!(changed_within(Duration::from_secs(2), || !b.join("moved").exists()));
        }
        assert_eq!(read_dir(b).expect("readdir").count(), 0);
    }

    fn attributes_show(a, b) {
        put(a.join("f"), b"1");
        create_dir(b.join("d")).expect("mkdir");
        assert_eq!(metadata(b.join("f")).expect("stat").nlink(), 1);
        set_permissions(a.join("f"), PermissionsExt::from_mode(0o741)).expect("chmod");
        assert!(changed_within(Duration::from_secs(2), || metadata(b.join("f")).expect("stat").mode() & 0o7777 == 0o741));
        hard_link(a.join("f"), a.join("d/g")).expect("link");
        assert!(changed_within(Duration::from_secs(2), || metadata(b.join("f")).expect("stat").nlink() == 2));
        assert_eq!(metadata(b.join("d/g")).expect("stat").ino(), metadata(b.join("f")).expect("stat").ino());
    }

    fn a_file_made_anew_is_another(a, b) {
        for round in 0..20 {
            put(a.join("f"), format!("first {round}"));
            let old = metadata(b.join("f")).expect("stat").ino();
            assert_eq!(slurp(b.join("f")), format!("first {round}").as_bytes());
            remove_file(a.join("f")).expect("unlink");
            put(a.join("f"), format!("second {round}"));
            assert!(changed_within(Duration::from_secs(2), || metadata(b.join("f")).is_ok_and(|meta| meta.ino() != old)));
            assert_eq!(slurp(b.join("f")), format!("second {round}").as_bytes());
        }
    }

    fn appends_through_both_lose_nothing(a, b) {
        let mut files = [a, b].map(|dir| File::options().append(true).create(true).open(dir.join("log")).expect("open"));
        for round in 0..200 {
            files[round % 2].write_all(format!("line {round:04}\n").as_bytes()).expect("append");
        }
        files.into_iter().for_each(|file| crate::harness::sys::close(file).expect("close"));
        let text = String::from_utf8(slurp(a.join("log"))).expect("UTF-8");
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, (0..200).map(|round| format!("line {round:04}")).collect::<Vec<_>>());
    }

    fn an_open_file_outlives_an_unlink_by_the_other(a, b) {
        put(a.join("f"), b"still here");
        let held = File::open(b.join("f")).expect("open");
        remove_file(a.join("f")).expect("unlink");
        let mut bytes = [0; 10];
        held.read_exact_at(&mut bytes, 0).expect("read");
        assert_eq!(&bytes, b"still here");
        assert!(changed_within(Duration::from_secs(2), || held.metadata().expect("fstat").nlink() == 0));
    }

    fn writers_on_both_never_wait_for_each_other(a, b) {
        // Each change at one place is told to the kernel of the other, which asks back while its own writers hold locks.
        let done = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for (dir, writer) in [a, b, a, b].into_iter().zip(0..) {
                let done = &done;
                threads.spawn(move || {
                    for round in 0..150 {
                        put(dir.join("both"), random::bytes(round, 5000));
                        put(dir.join(format!("{writer}-new")), b"new");
                        rename(dir.join(format!("{writer}-new")), dir.join("taken by turns")).expect("rename");
                        let _ = remove_file(dir.join(format!("{}", round % 7)));
                        put(dir.join(format!("{}", (round + writer) % 7)), b"others remove it");
                        let names = read_dir(dir).expect("readdir").map(|entry| entry.expect("an entry").file_name());
                        names.for_each(|name| drop(metadata(dir.join(name))));
                    }
                    done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                });
            }
        });
        assert_eq!(done.into_inner(), 4);
        assert_eq!(tree::told(a).into_keys().collect::<Vec<_>>(), tree::told(b).into_keys().collect::<Vec<_>>());
    }

    fn trees_show_whole(a, b) {
        tree::make(&a.join("tree"), 200, 4);
        tree::assert_same(&tree::told(&a.join("tree")), &tree::told(&b.join("tree")));
        rename(b.join("tree"), b.join("moved")).expect("rename");
        assert!(changed_within(Duration::from_secs(2), || !a.join("tree").exists()));
        tree::assert_same(&tree::told(&a.join("moved")), &tree::told(&b.join("moved")));
    }
}

/// Serves the store of `scene` a second time, from a process of its own, at a directory beside.
fn second_process(scene: &Scene) -> (Server, std::path::PathBuf) {
    let dir = scene.home().join("second");
    create_dir(&dir).expect("mkdir");
    let mut command = Command::new(env!("CARGO_BIN_EXE_workfs"));
    command.arg("mount").arg(&dir).arg("--foreground").env("WORKFS_STATE_DIR", scene.home().join("state"));
    command.arg("-m").arg(format!("/=sqlite:{}", scene.home().join("volume-place").display()));
    let server = Server::start(command, &dir, std::slice::from_ref(&dir), &scene.home().join("second.log"));
    (server.unwrap_or_else(|error| panic!("{error}")), dir)
}

#[test]
fn two_processes_open_one_sqlite_file() {
    let scene = Scene::new(Kind::Sqlite, Sessions::Nested);
    tree::make(&scene.at("tree"), 100, 6);
    let (mut server, other) = second_process(&scene);
    tree::assert_same(&tree::told(&scene.at("tree")), &tree::told(&other.join("tree")));
    let a_second = Duration::from_millis(1500);
    for round in 0..5_u64 {
        let bytes = random::bytes(round, 40_000);
        put(scene.at("f"), &bytes);
        let same = || std::fs::read(other.join("f")).is_ok_and(|read| read == bytes);
        assert!(changed_within(a_second, same), "round {round}: seen by the second process within a second");
        put(other.join("g"), &bytes);
        let same = || std::fs::read(scene.at("g")).is_ok_and(|read| read == bytes);
        assert!(changed_within(a_second, same), "round {round}: seen by the first process within a second");
    }
    remove_file(other.join("f")).expect("unlink");
    assert!(changed_within(a_second, || !scene.at("f").exists()));
    assert!(server.stop(Signal::TERM).expect("it ends").success());
    assert_eq!(slurp(scene.at("g")), random::bytes(4, 40_000), "the first goes on");
    scene.end();
}

#[test]
fn two_processes_write_one_sqlite_file_at_once() {
    let scene = Scene::new(Kind::Sqlite, Sessions::Nested);
    let (mut server, other) = second_process(&scene);
    let dirs = [scene.path().to_owned(), other.clone()];
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let dir = dirs[writer % 2].clone();
            std::thread::spawn(move || {
                for index in 0..60_u64 {
                    put(dir.join(format!("w{writer}-{index}")), random::bytes(index, 3000));
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
    for dir in &dirs {
        assert!(changed_within(Duration::from_secs(2), || read_dir(dir).expect("readdir").count() == 240));
        for (writer, index) in (0..4).flat_map(|writer| (0..60).map(move |index| (writer, index))) {
            assert!(slurp(dir.join(format!("w{writer}-{index}"))) == random::bytes(index, 3000));
        }
    }
    assert!(server.stop(Signal::TERM).expect("it ends").success());
    scene.end();
}
