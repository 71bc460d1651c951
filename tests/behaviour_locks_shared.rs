//! Locks of one store's files between two mounts of it: in one process, and in two.

use crate::behaviour_locks::{LONG, open};
use crate::harness::actor::Part;
use crate::harness::server::Server;
use crate::harness::sys::{Lock, Owner, conflicting_lock, lock_range, wait_for_range};
use crate::harness::{Failed, Kind, MountSpec, Scene, Sessions, changed_within, program, put, slurp};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Signal;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Two mounts of one store.
struct Pair {
    scene: Scene,
    a: PathBuf,
    b: PathBuf,
    /// What serves `b`, where that is not what serves `a`.
    second: Option<Server>,
}

impl Pair {
    fn in_one_process(kind: Kind, sessions: Sessions) -> Pair {
        let outer = if kind == Kind::Native { kind } else { Kind::Disk };
        let view = |at| MountSpec::new(at, kind).source("volume-shared");
        let scene = Scene::with_mounts(kind, sessions, vec![MountSpec::new("/", outer), view("a"), view("b")]);
        let (a, b) = (scene.root().join("a"), scene.root().join("b"));
        Pair { scene, a, b, second: None }
    }

    fn in_two_processes() -> Pair {
        let scene = Scene::new(Kind::Sqlite, Sessions::Nested);
        let b = scene.home().join("second");
        std::fs::create_dir(&b).expect("mkdir");
        let mut command = Command::new(env!("CARGO_BIN_EXE_workfs"));
        command.arg("mount").arg(&b).arg("--foreground").env("WORKFS_STATE_DIR", scene.home().join("state"));
        command.arg("-m").arg(format!("/=sqlite:{}", scene.home().join("volume-place").display()));
        let second = Server::start(command, &b, std::slice::from_ref(&b), &scene.home().join("second.log"));
        Pair { a: scene.path().to_owned(), b, second: Some(second.expect("a second server")), scene }
    }

    fn end(self) {
        if let Some(mut second) = self.second {
            assert!(second.stop(Signal::TERM).expect("it ends").success(), "{}", second.said());
        }
        self.scene.end();
    }

    /// Waits until the child that holds a lock of `l` through `a` says so.
    fn await_holder(&self) {
        let held = || self.a.join("l.held").exists();
        assert!(changed_within(Duration::from_secs(10), held), "the holder never got it");
        assert!(changed_within(Duration::from_secs(2), || self.b.join("l").exists()), "the file shows");
    }
}

macro_rules! on_pairs {
    ($(fn $name:ident($pair:ident) $body:block)+) => {
        $(mod $name {
            use super::*;
            fn law($pair: &mut Pair) $body
            on_pairs! { @tests native Native Nested, sqlite_nested Sqlite Nested, sqlite_single Sqlite Single,
                memory_nested Memory Nested, memory_single Memory Single }

            #[test]
            fn two_processes() {
                let mut pair = Pair::in_two_processes();
                law(&mut pair);
                pair.end();
            }
        })+
    };
    (@tests $($test:ident $kind:ident $sessions:ident),+) => {
        $(#[test]
        fn $test() {
            let mut pair = Pair::in_one_process(Kind::$kind, Sessions::$sessions);
            law(&mut pair);
            pair.end();
        })+
    };
}

/// A child's role: under a lock of the file, adds one to the numbers in it and in the file beside, again and again. Both
/// stay open, so that no close helps.
pub fn count_under_lock(part: &Part) {
    let files = [open(&part.path), open(&part.path.with_extension("beside"))];
    for _ in 0..part.numbers[0] {
        wait_for_range(&files[0], Lock::Write, 0, 0).expect("lock");
        let [mine, beside] = files.each_ref().map(|file| {
            let mut text = [0; 8];
            file.read_exact_at(&mut text, 0).expect("read");
            std::str::from_utf8(&text).expect("digits").parse::<u64>().expect("a number")
        });
        assert_eq!(mine, beside, "both are of one moment");
        let text = format!("{:08}", mine + 1);
        files.iter().for_each(|file| file.write_all_at(text.as_bytes(), 0).expect("write"));
        lock_range(&files[0], Owner::Process, Lock::Unlock, 0, 0).expect("unlock");
    }
}

on_pairs! {
    fn flock_excludes_through_the_other_mount(pair) {
        let a = open(&pair.a.join("l"));
        assert!(changed_within(Duration::from_secs(2), || pair.b.join("l").exists()));
        let b = open(&pair.b.join("l"));
        flock(&a, FlockOperation::NonBlockingLockExclusive).expect("free");
        assert_eq!(flock(&b, FlockOperation::NonBlockingLockShared).errno(), Errno::WOULDBLOCK);
        flock(&a, FlockOperation::NonBlockingLockShared).expect("a lock can be weakened");
        flock(&b, FlockOperation::NonBlockingLockShared).expect("shared");
        assert_eq!(flock(&a, FlockOperation::NonBlockingLockExclusive).errno(), Errno::WOULDBLOCK);
        drop(b);
        let free = || flock(&a, FlockOperation::NonBlockingLockExclusive).is_ok();
        assert!(changed_within(Duration::from_secs(5), free), "the other's close freed it");
    }

    fn ranges_exclude_through_the_other_mount(pair) {
        let holder = pair.scene.actor("hold-range", &pair.a.join("l"), &[LONG, 100, 50]);
        pair.await_holder();
        let file = open(&pair.b.join("l"));
        let now = |start, len| lock_range(&file, Owner::Process, Lock::Write, start, len);
        let refused = now(120, 1).errno();
        assert!([Errno::AGAIN, Errno::ACCESS].contains(&refused), "{refused}");
        now(0, 100).expect("before it");
        now(150, 0).expect("after it, to the end");
        // A process that another server serves may be one of another machine: it has no number here.
        let pid = if pair.second.is_some() { 0 } else { holder.pid().as_raw_pid() };
        let conflict = conflicting_lock(&file, Lock::Read, 0, 0).expect("F_GETLK");
        assert_eq!(conflict, Some((Lock::Write, 100, 50, pid)), "type, range and owner");
        drop(holder); // killed
        assert!(changed_within(Duration::from_secs(5), || now(0, 0).is_ok()), "they end with their process");
    }

    fn one_waits_for_the_other_mount(pair) {
        let holder = pair.scene.actor("hold-flock", &pair.a.join("l"), &[1500]);
        pair.await_holder();
        let start = Instant::now();
        flock(open(&pair.b.join("l")), FlockOperation::LockExclusive).expect("its turn comes");
        let waited = start.elapsed();
        assert!(waited > Duration::from_millis(500) && waited < Duration::from_secs(5), "{waited:?}");
        holder.text();
    }

    fn who_gets_a_lock_reads_what_the_last_holder_wrote(pair) {
        let rounds = 60;
        for name in ["n", "n.beside"] {
            put(pair.a.join(name), "00000000");
            assert!(changed_within(Duration::from_secs(2), || pair.b.join(name).exists()));
        }
        let counters: Vec<_> = [&pair.a, &pair.b, &pair.a, &pair.b]
            .map(|dir| pair.scene.actor("count-under-lock", &dir.join("n"), &[rounds]))
            .into_iter()
            .collect();
        counters.into_iter().for_each(|counter| drop(counter.text()));
        let right = format!("{:08}", 4 * rounds);
        assert_eq!(String::from_utf8(slurp(pair.a.join("n"))).expect("digits"), right);
        let same = || slurp(pair.b.join("n.beside")) == right.as_bytes();
        assert!(changed_within(Duration::from_secs(2), same));
    }

    fn sqlite_writers_in_both_mounts_lose_nothing(pair) {
        program::need(&["sqlite3"]);
        pair.scene.takes(Duration::from_secs(180));
        let query = |dir: &Path, sql: &str| {
            let program = pair.scene.program("sqlite3").dir(dir);
            program.args(["-init", "/dev/null", "-bail", "-cmd", ".timeout 60000", "desk.db", sql]).text()
        };
        query(&pair.a, "pragma journal_mode=delete; create table n(who int, v int)");
        assert!(changed_within(Duration::from_secs(2), || pair.b.join("desk.db").exists()));
        let script = "for i in $(seq 25); do sqlite3 -init /dev/null -bail -cmd '.timeout 60000' desk.db \"insert into n values($1, $i)\"; done";
        let writers = [(&pair.a, "1"), (&pair.b, "2"), (&pair.a, "3"), (&pair.b, "4")].map(|(dir, who)| {
            pair.scene.program("bash").dir(dir).args(["-euo", "pipefail", "-c", script, "bash", who]).start()
        });
        writers.into_iter().for_each(|writer| drop(writer.text()));
        for dir in [&pair.a, &pair.b] {
            let counted = query(dir, "pragma integrity_check; select who, count(*), sum(v) from n group by who");
            assert_eq!(counted, "ok\n1|25|325\n2|25|325\n3|25|325\n4|25|325\n");
        }
    }
}

#[test]
fn a_server_that_is_killed_amid_transactions_loses_none_that_was_told() {
    program::need(&["sqlite3"]);
    let mut pair = Pair::in_two_processes();
    pair.scene.takes(Duration::from_secs(180));
    let query = |dir: &Path, sql: &str| {
        let program = pair.scene.program("sqlite3").dir(dir);
        program.args(["-init", "/dev/null", "-bail", "-cmd", ".timeout 60000", "desk.db", sql]).text()
    };
    query(&pair.a, "create table n(who text, v int)");
    assert!(changed_within(Duration::from_secs(2), || pair.b.join("desk.db").exists()));
    // Each notes what it was told is committed, until it is told otherwise.
    let script = "for i in $(seq 60); do sqlite3 -init /dev/null -bail -cmd '.timeout 60000' desk.db \"insert into n values('$1', $i)\" 2>/dev/null || exit 0; echo >> \"$2\"; done";
    let told = |who: &str| pair.scene.home().join(format!("told-{who}"));
    let [a, b] = [(&pair.a, "a"), (&pair.b, "b")]
        .map(|(dir, who)| pair.scene.program("bash").dir(dir).args(["-c", script, "bash", who]).arg(told(who)).start());
    let lines = |who: &str| std::fs::read(told(who)).map_or(0, |text| text.len());
    assert!(changed_within(Duration::from_secs(60), || lines("b") >= 5), "both write");
    pair.second.as_mut().expect("it runs").kill();
    a.text();
    b.text();
    let counted = query(&pair.a, "pragma integrity_check; select who, count(*) from n group by who");
    // The one that was under way may have been committed and not told.
    let right = [0, 1].map(|more| format!("ok\na|60\nb|{}\n", lines("b") + more));
    assert!(lines("b") < 60 && right.contains(&counted), "{counted} and not {right:?}");
    drop(pair.second.take());
    pair.end();
}

/// A store at one place to be written and at another only to be read, beside a disk.
fn read_only_view(kind: Kind, sessions: Sessions) -> Scene {
    let view = |at| MountSpec::new(at, kind).source("volume-shared");
    Scene::with_mounts(kind, sessions, vec![MountSpec::new("/", Kind::Disk), view("a"), view("b").read_only()])
}

#[test]
fn a_lock_of_a_read_only_mount_holds_in_the_other() {
    for sessions in [Sessions::Nested, Sessions::Single] {
        let scene = read_only_view(Kind::Memory, sessions);
        let a = open(&scene.root().join("a/l"));
        let b = File::open(scene.root().join("b/l")).expect("open");
        flock(&b, FlockOperation::NonBlockingLockShared).expect("free");
        assert_eq!(flock(&a, FlockOperation::NonBlockingLockExclusive).errno(), Errno::WOULDBLOCK, "{sessions:?}");
        flock(&b, FlockOperation::Unlock).expect("unlock");
        flock(&a, FlockOperation::NonBlockingLockExclusive).expect("free");
        assert_eq!(flock(&b, FlockOperation::NonBlockingLockShared).errno(), Errno::WOULDBLOCK, "{sessions:?}");
        drop((a, b));
        scene.end();
    }
}

#[test]
fn a_disk_beside_a_store_in_one_session_has_locks_too() {
    let scene = read_only_view(Kind::Memory, Sessions::Single);
    let path = scene.root().join("l");
    let holder = scene.actor("hold-range", &path, &[1500, 100, 50]);
    assert!(changed_within(Duration::from_secs(10), || scene.root().join("l.held").exists()));
    let file = open(&path);
    assert_eq!(lock_range(&file, Owner::OpenFile, Lock::Read, 149, 1).errno(), Errno::AGAIN);
    let conflict = conflicting_lock(&file, Lock::Read, 0, 0).expect("F_GETLK");
    assert_eq!(conflict, Some((Lock::Write, 100, 50, holder.pid().as_raw_pid())));
    wait_for_range(&file, Lock::Write, 0, 0).expect("its turn comes");
    holder.text();
    drop(open(&path)); // as POSIX has it, this ends the locks of the process
    flock(open(&path), FlockOperation::NonBlockingLockExclusive).expect("free");
    drop(file);
    scene.end();
}

#[test]
fn the_locks_of_a_killed_server_are_free_for_the_other() {
    let mut pair = Pair::in_two_processes();
    let file = open(&pair.a.join("l"));
    assert!(changed_within(Duration::from_secs(2), || pair.b.join("l").exists()));
    let held = open(&pair.b.join("l"));
    lock_range(&held, Owner::OpenFile, Lock::Write, 0, 10).expect("free");
    flock(open(&pair.b.join("m")), FlockOperation::LockExclusive).expect("free");
    assert_eq!(lock_range(&file, Owner::OpenFile, Lock::Read, 5, 1).errno(), Errno::AGAIN);
    let waiter = pair.scene.actor("hold-range", &pair.a.join("l"), &[0, 0, 10]);
    std::thread::sleep(Duration::from_millis(500));
    pair.second.as_mut().expect("it runs").kill();
    let start = Instant::now();
    waiter.text();
    assert!(start.elapsed() < Duration::from_secs(4), "who waits is woken after {:?}", start.elapsed());
    lock_range(&file, Owner::OpenFile, Lock::Write, 0, 0).expect("free");
    flock(open(&pair.a.join("m")), FlockOperation::NonBlockingLockExclusive).expect("free");
    drop((file, held, pair.second.take()));
    pair.end();
}
