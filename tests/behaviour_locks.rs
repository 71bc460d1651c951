//! flock and fcntl locks between descriptors and between processes.

use crate::harness::actor::Part;
use crate::harness::sys::{Lock, Owner, conflicting_lock, lock_range, wait_for_range};
use crate::harness::{Failed, Scene, changed_within, each_kind, each_stored_kind, program, put};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// Opens a file to be locked, and makes it.
pub fn open(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).expect("open")
}

/// A child's role: holds an exclusive flock until its input is gone or it is killed; says so by a file beside.
pub fn hold_flock(part: &Part) {
    let file = open(&part.path);
    flock(&file, FlockOperation::LockExclusive).expect("flock");
    say_and_stay(part);
}

/// A child's role: holds an exclusive lock on the range `numbers[1]`, `numbers[2]` for `numbers[0]` ms.
pub fn hold_range(part: &Part) {
    let file = open(&part.path);
    wait_for_range(&file, Lock::Write, part.numbers[1] as i64, part.numbers[2] as i64).expect("lock");
    say_and_stay(part);
}

fn say_and_stay(part: &Part) {
    put(part.path.with_extension("held"), b"");
    std::thread::sleep(Duration::from_millis(part.numbers[0]));
}

/// Waits until the child says that it holds its lock.
fn await_holder(scene: &Scene) {
    assert!(changed_within(Duration::from_secs(10), || scene.at("l.held").exists()), "the holder never got it");
}

/// Longer than any test, in milliseconds.
pub const LONG: u64 = 30_000;

each_kind! {
    fn flock_excludes_other_opens(scene) {
        let (a, b) = (open(&scene.at("l")), open(&scene.at("l")));
        let now = |file: &File, operation| flock(file, operation);
        now(&a, FlockOperation::NonBlockingLockExclusive).expect("free");
        assert_eq!(now(&b, FlockOperation::NonBlockingLockExclusive).errno(), Errno::WOULDBLOCK);
        assert_eq!(now(&b, FlockOperation::NonBlockingLockShared).errno(), Errno::WOULDBLOCK);
        now(&a, FlockOperation::NonBlockingLockShared).expect("a lock can be weakened");
        now(&b, FlockOperation::NonBlockingLockShared).expect("shared");
        assert_eq!(now(&a, FlockOperation::NonBlockingLockExclusive).errno(), Errno::WOULDBLOCK);
        drop(b);
        now(&a, FlockOperation::NonBlockingLockExclusive).expect("the other's close freed it");
        now(&a, FlockOperation::Unlock).expect("unlock");
        now(&open(&scene.at("l")), FlockOperation::NonBlockingLockExclusive).expect("free");
    }

    fn flock_excludes_other_processes(scene) {
        let path = scene.at("l");
        let holder = scene.actor("hold-flock", &path, &[LONG]);
        await_holder(scene);
        let file = open(&path);
        assert_eq!(flock(&file, FlockOperation::NonBlockingLockExclusive).errno(), Errno::WOULDBLOCK);
        drop(holder); // killed: its locks end with it
        assert!(changed_within(Duration::from_secs(5), || flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()));
    }

    fn flock_waits_for_its_turn(scene) {
        let path = scene.at("l");
        let holder = scene.actor("hold-flock", &path, &[400]);
        await_holder(scene);
        let start = Instant::now();
        flock(open(&path), FlockOperation::LockExclusive).expect("its turn comes");
        assert!(start.elapsed() < Duration::from_secs(10));
        holder.text();
    }

    fn ranges_exclude_other_processes_where_they_overlap(scene) {
        let path = scene.at("l");
        let holder = scene.actor("hold-range", &path, &[LONG, 100, 50]);
        let pid = holder.pid();
        await_holder(scene);
        let file = open(&path);
        let now = |start, len| lock_range(&file, Owner::Process, Lock::Write, start, len);
        let refused = now(120, 1).errno();
        assert!([Errno::AGAIN, Errno::ACCESS].contains(&refused), "{refused}");
        now(0, 100).expect("before it");
        now(150, 0).expect("after it, to the end");
        let conflict = conflicting_lock(&file, Lock::Read, 0, 0).expect("F_GETLK");
        assert_eq!(conflict, Some((Lock::Write, 100, 50, pid.as_raw_pid())), "type, range and owner");
        drop(holder);
        assert!(changed_within(Duration::from_secs(5), || now(0, 0).is_ok()), "they end with their process");
        assert_eq!(conflicting_lock(&file, Lock::Write, 0, 0).expect("F_GETLK"), None);
    }

    fn ranges_wait_for_their_turn(scene) {
        let path = scene.at("l");
        let holder = scene.actor("hold-range", &path, &[400, 0, 10]);
        await_holder(scene);
        wait_for_range(open(&path), Lock::Write, 0, 10).expect("its turn comes");
        holder.text();
    }

    fn a_waiting_process_can_be_killed(scene) {
        let path = scene.at("l");
        let holder = scene.actor("hold-range", &path, &[LONG, 0, 10]);
        await_holder(scene);
        std::fs::remove_file(scene.at("l.held")).expect("unlink");
        let waiter = scene.actor("hold-range", &path, &[0, 0, 10]);
        std::thread::sleep(Duration::from_millis(300));
        kill_process(waiter.pid(), Signal::TERM).expect("kill");
        let start = Instant::now();
        assert!(!waiter.output().status.success());
        assert!(start.elapsed() < Duration::from_secs(3), "a signal ended the wait after {:?}", start.elapsed());
        drop(holder);
    }

    fn an_alarm_interrupts_a_wait(scene) {
        program::need(&["python3"]);
        let holder = scene.actor("hold-range", &scene.at("l"), &[LONG, 0, 10]);
        await_holder(scene);
        for take in ["fcntl.lockf(f, fcntl.LOCK_EX)", "fcntl.flock(f, fcntl.LOCK_EX)"] {
            if take.contains("flock") && !scene.kind().is_store() {
                continue; // there it does not meet the lock of a range
            }
            let script = format!(
                "import fcntl, signal, time\nclass Alarm(Exception): pass\ndef ring(*_): raise Alarm\n\
                 signal.signal(signal.SIGALRM, ring); f = open('l', 'r+'); signal.setitimer(signal.ITIMER_REAL, 0.3)\n\
                 start = time.monotonic()\ntry:\n {take}; print('locked')\nexcept Alarm:\n print('rung', time.monotonic() - start < 1.3)"
            );
            assert_eq!(scene.program("python3").args(["-c", &script]).text(), "rung True\n", "{take}");
        }
        drop(holder);
    }

    fn a_wait_goes_on_after_a_signal_that_lets_calls_go_on(scene) {
        program::need(&["python3"]);
        let holder = scene.actor("hold-range", &scene.at("l"), &[1500, 0, 10]);
        await_holder(scene);
        let script = "import fcntl, signal, ctypes\n\
            signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(signal.SIGALRM, False)\n\
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)\nimport os; os.kill(os.getpid(), signal.SIGUSR1)\n\
            f = open('l', 'r+'); signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)\n\
            fcntl.lockf(f, fcntl.LOCK_EX); signal.setitimer(signal.ITIMER_REAL, 0); print('locked')";
        assert_eq!(scene.program("python3").args(["-c", script]).text(), "locked\n");
        holder.text();
    }

    fn copies_of_a_descriptor_share_its_flock(scene) {
        program::need(&["python3"]);
        put(scene.at("l"), b"");
        let script = "import fcntl, os\nX, NB, UN = fcntl.LOCK_EX, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN\n\
            def free():\n g = open('l', 'r+')\n try: fcntl.flock(g, NB); return True\n except BlockingIOError: return False\n finally: g.close()\n\
            f = open('l', 'r+'); fcntl.flock(f, X); d = os.dup(f.fileno()); f.close(); print(free())\n\
            r, w = os.pipe()\nif os.fork() == 0:\n os.close(w); os.read(r, 1); fcntl.flock(d, UN); os._exit(0)\n\
            fcntl.flock(d, NB); print(free()); os.write(w, b'x'); os.wait(); print(free()); os.close(d); print(free())";
        assert_eq!(scene.program("python3").args(["-c", script]).text(), "False\nFalse\nTrue\nTrue\n");
    }

    fn a_child_has_none_of_its_parents_ranges_and_ends_none(scene) {
        program::need(&["python3"]);
        put(scene.at("l"), b"");
        let script = "import fcntl, os\nX = fcntl.LOCK_EX | fcntl.LOCK_NB\n\
            def child(f):\n try: fcntl.lockf(f, X); return 1\n except OSError: return 0\n\
            def run(f):\n p = os.fork()\n if p == 0: os._exit(child(f))\n return os.waitstatus_to_exitcode(os.waitpid(p, 0)[1])\n\
            f = open('l', 'r+'); fcntl.lockf(f, X); print(run(f), run(f)); fcntl.lockf(f, fcntl.LOCK_UN); print(run(f))";
        assert_eq!(scene.program("python3").args(["-c", script]).text(), "0 0\n1\n");
    }

    fn ranges_are_split_and_joined(scene) {
        let (file, other) = (open(&scene.at("l")), open(&scene.at("l")));
        let lock = |kind, start, len| lock_range(&file, Owner::OpenFile, kind, start, len).expect("free");
        // Who holds it is not asked: Linux has no number for the owner of an open file's lock.
        let found = |start, len| {
            conflicting_lock(&other, Lock::Write, start, len).expect("F_GETLK").map(|(kind, at, len, _)| (kind, at, len))
        };
        lock(Lock::Write, 0, 30);
        lock(Lock::Unlock, 10, 10);
        assert_eq!(found(0, 0), Some((Lock::Write, 0, 10)));
        assert_eq!(found(10, 10), None);
        assert_eq!(found(10, 0), Some((Lock::Write, 20, 10)));
        lock(Lock::Read, 10, 10);
        assert_eq!(found(10, 10), Some((Lock::Read, 10, 10)));
        lock(Lock::Write, 10, 10);
        assert_eq!(found(15, 1), Some((Lock::Write, 0, 30)), "one again");
        lock(Lock::Read, 25, 0);
        assert_eq!(found(25, 1), Some((Lock::Read, 25, 0)), "to the end");
        assert_eq!(found(0, 0), Some((Lock::Write, 0, 25)));
    }

    fn locks_of_open_files_exclude_each_other(scene) {
        let (a, b) = (open(&scene.at("l")), open(&scene.at("l")));
        lock_range(&a, Owner::OpenFile, Lock::Write, 0, 10).expect("free");
        assert_eq!(lock_range(&b, Owner::OpenFile, Lock::Read, 5, 1).errno(), Errno::AGAIN);
        lock_range(&b, Owner::OpenFile, Lock::Read, 10, 1).expect("free");
        lock_range(&a, Owner::OpenFile, Lock::Unlock, 0, 7).expect("unlock a part");
        lock_range(&b, Owner::OpenFile, Lock::Read, 5, 1).expect("that part is free");
        assert_eq!(lock_range(&b, Owner::OpenFile, Lock::Read, 8, 1).errno(), Errno::AGAIN);
        drop(a);
        lock_range(&b, Owner::OpenFile, Lock::Write, 0, 0).expect("all free after the close");
    }

    fn any_close_ends_the_locks_of_its_process(scene) {
        let path = scene.at("l");
        let file = open(&path);
        lock_range(&file, Owner::Process, Lock::Write, 0, 0).expect("free");
        let other = open(&path);
        assert_eq!(lock_range(&other, Owner::OpenFile, Lock::Write, 0, 0).errno(), Errno::AGAIN);
        drop(open(&path)); // as POSIX has it
        lock_range(&other, Owner::OpenFile, Lock::Write, 0, 0).expect("free");
    }

    fn the_command_flock_serialises(scene) {
        put(scene.at("n"), b"0\n");
        let script = "for i in 1 2 3; do (for j in $(seq 20); do flock l sh -c 'read n < n; echo $((n+1)) > n'; done) & done; wait; cat n";
        assert_eq!(scene.bash(script, &[]), "60\n");
    }
}

each_stored_kind! {
    fn a_long_wait_gets_its_lock(scene) {
        let path = scene.at("l");
        let holder = scene.actor("hold-range", &path, &[6000, 0, 10]);
        await_holder(scene);
        let start = Instant::now();
        wait_for_range(open(&path), Lock::Write, 0, 10).expect("its turn comes");
        assert!(start.elapsed() > Duration::from_secs(4), "it was held for six seconds");
        holder.text();
    }
}
