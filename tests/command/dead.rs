//! Daemons that were killed, and daemons that do not answer.

use super::{Desk, is_gone};
use crate::harness::changed_within;
use rustix::process::{Pid, Signal};
use std::fs;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

/// A mount whose daemon was killed.
fn killed() -> Desk {
    let desk = Desk::new();
    desk.mount(&[]);
    fs::write(desk.path("work/file"), "closed").expect("written");
    desk.signal(Signal::KILL);
    desk
}

#[test]
fn status_tells_a_dead_mount_from_a_live_one() {
    let desk = killed();
    assert_eq!(desk.run(&["status", "--json"]).code, Some(3));
    let status = desk.status();
    assert_eq!(status["state"], "dead");
    assert!(status["way_out"].as_str().is_some_and(|way| way.contains("workfs umount")), "{status}");
    desk.does(&["mount", "other", "-m", "/=memory:"]);
    let both = desk.run(&["status"]);
    assert_eq!(both.code, Some(3));
    assert!(both.out.contains("other  live") && both.out.contains("work  DEAD"), "{both:?}");
    assert_eq!(desk.run(&["status", "other"]).code, Some(0));
    assert_eq!(desk.run(&["status", "work"]).code, Some(3));
    desk.run(&["exec", "work", "--", "true"]).fails(125, &["is dead", "workfs umount"]);
    desk.does(&["umount", "other"]);
}

#[test]
fn mounting_again_cleans_a_dead_mount_away() {
    let desk = killed();
    // At once, as a supervisor would: the killed process may not be quite gone.
    let again = desk.mount(&[]);
    assert!(again.err.contains("dead mount") && again.err.contains("was cleaned away"), "{again:?}");
    assert_eq!(fs::read_to_string(desk.path("work/file")).expect("it answers"), "closed");
    assert_eq!(desk.status()["state"], "live");
    desk.does(&["umount", "work"]);
    assert!(!desk.is_mounted());
}

#[test]
fn umount_cleans_a_dead_mount_away() {
    for lazy in [&[][..], &["--lazy"]] {
        let desk = killed();
        desk.does(&[&["umount", "work"], lazy].concat());
        assert!(!desk.is_mounted());
        assert_eq!(desk.does(&["status", "--json"]).out.trim(), "[]");
        desk.run(&["umount", "work"]).fails(1, &["nothing of workfs is mounted at"]);
    }
}

#[test]
fn a_dead_mount_of_which_nothing_is_noted_is_cleaned_away_too() {
    let desk = killed();
    for entry in fs::read_dir(desk.path("state")).expect("a folder") {
        fs::remove_file(entry.expect("an entry").path()).expect("removed");
    }
    assert!(changed_within(SOON, || fs::read_dir(desk.path("work")).is_err()), "it dies");
    desk.does(&["umount", "work"]);
    assert!(!desk.is_mounted());
}

#[test]
fn a_daemon_that_does_not_answer_holds_nobody_up() {
    let desk = Desk::new();
    desk.mount(&[]);
    let pid = desk.pid();
    desk.signal(Signal::STOP);
    assert!(changed_within(SOON, || is_stopped(pid)), "it stops");
    let start = Instant::now();
    let status = desk.run(&["status"]);
    assert!(status.code == Some(3) && status.out.contains("NOT ANSWERING"), "{status:?}");
    desk.run(&["exec", "work", "--", "true"]).fails(125, &["does not answer"]);
    desk.run(&["mount", "work", "-m", "/=memory:"]).fails(1, &["mounted already"]);
    desk.run(&["umount", "work"]).fails(1, &["does not answer", "workfs umount --lazy"]);
    assert!(desk.is_mounted());
    desk.does(&["umount", "--lazy", "work"]);
    assert!(!desk.is_mounted());
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    rustix::process::kill_process(pid, Signal::CONT).expect("it is there");
    assert!(changed_within(SOON, || is_gone(pid)), "awake again, it finds that it is unmounted, and ends");
}

/// Whether each of its threads has stopped.
fn is_stopped(pid: Pid) -> bool {
    let mut threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).expect("it is there");
    threads.all(|thread| {
        let stat = fs::read_to_string(thread.expect("a thread").path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}
