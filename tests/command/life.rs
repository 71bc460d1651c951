//! A mount's life: made, looked at, used, and ended in every way there is.

use super::{Desk, Holder, is_gone, said};
use crate::harness::{changed_within, mount_table, sys};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

#[test]
fn mount_returns_when_it_answers_and_umount_when_all_is_written() {
    let desk = Desk::new();
    let mounted = desk.mount(&[]);
    assert!(mounted.err.contains("work did not exist and was made"), "{mounted:?}");
    fs::write(desk.path("work/file"), "at once").expect("it answers");
    let pid = desk.pid();
    desk.does(&["umount", "work"]);
    assert!(!desk.is_mounted());
    assert!(is_gone(pid), "the process is gone");
    assert_eq!(fs::read_to_string(desk.path("project/file")).expect("kept"), "at once");
    assert_eq!(fs::read_dir(desk.path("work")).expect("a folder").count(), 0);
    let left = fs::read_dir(desk.path("state")).expect("a folder").map(|entry| entry.expect("an entry").path());
    assert!(left.into_iter().all(|path| path.extension().is_some_and(|kind| kind == "log")), "only the log stays");
}

#[test]
fn what_is_made_for_a_mount_keeps_the_users_mask() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::new();
    desk.mount(&[]);
    let mode = |name| fs::metadata(desk.path(name)).expect("made").permissions().mode() & 0o777;
    assert_eq!(mode("project") & 0o022, 0, "not writable by others");
    Command::new("sh").args(["-c", "umask 0; : > work/open"]).current_dir(&desk.root).status().expect("sh runs");
    assert_eq!(mode("work/open"), 0o666, "the caller's mask counts, not the daemon's");
}

#[test]
fn status_tells_what_is_mounted_and_how_it_is() {
    let desk = Desk::new();
    assert!(desk.does(&["status"]).out.contains("nothing is mounted"));
    assert_eq!(desk.does(&["status", "--json"]).out.trim(), "[]");
    desk.run(&["status", "work"]).fails(4, &["nothing of workfs is mounted at", "/work"]);
    desk.mount(&[]);
    let status = desk.status();
    assert_eq!((&status["state"], &status["mode"]), (&"live".into(), &"nested".into()));
    assert_eq!(status["mountpoint"].as_str(), desk.path("work").to_str());
    let mounts = status["mounts"].as_array().expect("mounts");
    let told = mounts.iter().map(|mount| [&mount["at"], &mount["kind"], &mount["label"], &mount["health"]]);
    let told = told.map(|row| row.map(|cell| cell.as_str().unwrap_or("?").to_owned())).collect::<Vec<_>>();
    let expected = [["/", "disk", "./project"], ["/docs", "disk", "./docs"], ["/mem", "memory", "memory:"]];
    assert_eq!(told, expected.map(|[at, kind, label]| [at, kind, label, "ok"]));
    assert_eq!(mounts[1]["read_only"], true);
    assert!(mounts.iter().all(|mount| mount["size"]["total"].as_u64() > Some(0)), "{status}");
    let sessions = status["sessions"].as_array().expect("sessions");
    assert!(sessions.len() == 3 && sessions.iter().all(|session| session["mounted"] == true), "{status}");
    let text = desk.does(&["status", "work"]).out;
    for word in ["live", "nested", "log ", "memory:", "./docs", "ro", "ok"] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    desk.does(&["umount", "work"]);
}

#[test]
fn what_a_volume_remembers_is_in_the_status() {
    let desk = Desk::new();
    desk.mount(&[]);
    fs::write(desk.path("work/mem/a"), "x").expect("written");
    fs::read_dir(desk.path("work/mem")).expect("listed").count();
    let status = desk.status();
    let caches = status["mounts"][2]["caches"].as_array().expect("caches");
    let names = caches.iter().map(|cache| cache["name"].as_str().unwrap_or("?")).collect::<Vec<_>>();
    assert_eq!(names, ["records", "blocks"]);
    let figure = |name: &str| caches[0][name].as_u64().expect("a figure");
    assert!(figure("entries") > 1 && figure("hits") > 0 && figure("limit") >= 1000, "{status}");
    let text = desk.does(&["status", "work"]).out;
    assert!(text.contains("caches of /mem: records ") && text.contains(" % hits"), "{text}");
}

#[test]
fn a_volume_whose_directory_was_removed_is_not_ok() {
    let desk = Desk::new();
    desk.mount(&[]);
    fs::remove_dir_all(desk.path("docs")).expect("removed");
    let status = desk.status();
    let health = status["mounts"][1]["health"].as_str().expect("a health");
    assert!(health.contains("ENOENT") && health.contains("removed beside the mount"), "{health}");
    assert_eq!(status["mounts"][0]["health"], "ok");
    desk.does(&["umount", "work"]);
}

#[test]
fn nothing_is_ever_mounted_at_the_root() {
    Desk::new().run(&["status", "/"]).fails(4, &["nothing of workfs is mounted at /"]);
}

#[test]
fn a_line_break_in_a_path_breaks_no_table() {
    let desk = Desk::new();
    desk.does(&["mount", "work", "-m", "/=memory:", "-m", "a\nb=memory:"]);
    let text = desk.does(&["status", "work"]).out;
    assert!(text.contains("/a\\nb "), "{text}");
    desk.does(&["umount", "work"]);
}

#[test]
fn requests_are_counted_by_session() {
    let desk = Desk::new();
    desk.mount(&[]);
    let asked = |status: &serde_json::Value| status["sessions"][2]["requests"].as_u64().expect("a count");
    let before = asked(&desk.status());
    fs::write(desk.path("work/mem/a"), "x").expect("written");
    let after = desk.status();
    assert!(asked(&after) > before, "{after}");
    assert_eq!(after["sessions"][2]["at"], "/mem");
}

#[test]
fn one_session_or_many_as_asked() {
    let desk = Desk::new();
    desk.mount(&["--single"]);
    assert_eq!(mount_table::below(&desk.root).len(), 1);
    assert_eq!((&desk.status()["mode"], &desk.status()["why"]), (&"single".into(), &"asked for".into()));
    assert_eq!(fs::read_to_string(desk.path("work/docs/guide")).expect("read"), "read me\n");
    desk.does(&["umount", "work"]);
    desk.mount(&["--nested"]);
    assert_eq!(mount_table::below(&desk.root).len(), 3);
    desk.run(&["mount", "x", "-m", "/=memory:", "--single", "--nested"]).fails(2, &["cannot be used with"]);
}

#[test]
fn exec_runs_in_the_mount_and_ends_as_its_command_does() {
    let desk = Desk::new();
    desk.mount(&[]);
    let there = desk.does(&["exec", "work", "--", "pwd"]);
    assert_eq!(there.out.trim(), desk.path("work").to_str().expect("text"));
    assert_eq!(desk.does(&["exec", "work/docs", "--", "cat", "guide"]).out, "read me\n");
    assert_eq!(desk.run(&["exec", "work", "--", "sh", "-c", "exit 7"]).code, Some(7));
    assert_eq!(desk.run(&["exec", "work", "--", "sh", "-c", "kill -9 $$"]).code, Some(-9));
    desk.run(&["exec", "work", "--", "no-such-program"]).fails(127, &["no-such-program"]);
    desk.run(&["exec", "work", "--", "./docs/guide"]).fails(126, &["guide"]);
    desk.run(&["exec", "docs", "--", "true"]).fails(125, &["is in no mount of workfs"]);
    desk.run(&["exec", "work/gone", "--", "true"]).fails(125, &["work/gone"]);
}

#[test]
fn a_second_mount_at_one_place_is_refused() {
    let desk = Desk::new();
    desk.mount(&[]);
    let pid = desk.pid();
    let again = desk.run(&["mount", "./work/", "-m", "/=memory:"]);
    again.fails(1, &["EBUSY", "mounted already", &pid.as_raw_nonzero().to_string(), "workfs umount"]);
    assert_eq!(desk.pid(), pid, "the first is as it was");
    assert_eq!(mount_table::below(&desk.root).len(), 3);
}

/// A mount in the foreground, logging to `foreground.log`.
fn foreground(desk: &Desk) -> Child {
    let log = File::create(desk.path("foreground.log")).expect("a log can be made");
    let mut command = desk.command(&["mount", "work", "-m", "/=./project", "-m", "mem=memory:", "--foreground"]);
    command.stdout(Stdio::null()).stderr(log);
    sys::die_with_parent(&mut command, libc::SIGTERM);
    let child = command.spawn().expect("the command starts");
    assert!(changed_within(SOON, || desk.run(&["status", "work"]).code == Some(0)), "it mounts");
    child
}

fn ends(desk: &Desk, mut child: Child) {
    let mut status = None;
    changed_within(SOON, || {
        status = child.try_wait().expect("it can be waited for");
        status.is_some()
    });
    let said = fs::read_to_string(desk.path("foreground.log")).expect("a log");
    assert_eq!(status.and_then(|status| status.code()), Some(0), "{said}");
    assert!(!desk.is_mounted() && said.contains("writing out what is pending"), "{said}");
}

#[test]
fn signals_end_a_foreground_mount_in_order() {
    let desk = Desk::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let child = foreground(&desk);
        assert!(desk.does(&["status"]).out.contains("log on its terminal"));
        fs::write(desk.path("work/kept"), format!("{signal:?}")).expect("written");
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        ends(&desk, child);
        assert_eq!(fs::read_to_string(desk.path("project/kept")).expect("kept"), format!("{signal:?}"));
    }
}

#[test]
fn a_second_signal_forces_what_is_in_use() {
    let desk = Desk::new();
    let child = foreground(&desk);
    let _holder = Holder::of(&desk.path("work/mem"));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::TERM).expect("it runs");
    let log = || fs::read_to_string(desk.path("foreground.log")).expect("a log");
    assert!(changed_within(SOON, || log().contains("sleep (pid ")), "it says who uses it: {}", log());
    assert_eq!(desk.run(&["status", "work"]).code, Some(0), "it still serves");
    kill_process(pid, Signal::TERM).expect("it runs");
    ends(&desk, child);
}

#[test]
fn what_was_told_to_end_ends_when_it_is_free() {
    let desk = Desk::new();
    let child = foreground(&desk);
    let holder = Holder::of(&desk.path("work"));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    std::thread::sleep(Duration::from_millis(300));
    assert!(desk.is_mounted());
    drop(holder);
    ends(&desk, child);
}

#[test]
fn a_mount_in_use_names_its_users_and_offers_a_way_out() {
    let desk = Desk::new();
    desk.mount(&[]);
    let holder = Holder::of(&desk.path("work"));
    let busy = desk.run(&["umount", "work"]);
    busy.fails(1, &["EBUSY", &format!("sleep (pid {}", holder.0.id()), "workfs umount --lazy"]);
    assert!(changed_within(SOON, || fs::read(desk.path("work/docs/guide")).is_ok()), "it still serves");
    let pid = desk.pid();
    desk.does(&["umount", "--lazy", "work"]);
    assert!(!desk.is_mounted());
    assert!(is_gone(pid), "the process is gone");
    assert_eq!(desk.does(&["status", "--json"]).out.trim(), "[]");
}

#[test]
fn a_mount_of_somebody_else_inside_is_named() {
    let desk = Desk::new();
    desk.mount(&[]);
    let inside = desk.path("work/mem/inside");
    fs::create_dir(&inside).expect("made");
    let tmpfs = |arguments: &[&str]| {
        let run = Command::new(arguments[0]).args(&arguments[1..]).arg(&inside).status();
        assert!(run.expect("it runs").success(), "{arguments:?}");
    };
    tmpfs(&["mount", "-t", "tmpfs", "none"]);
    let busy = desk.run(&["umount", "work"]);
    tmpfs(&["umount"]);
    busy.fails(1, &["EBUSY", "another filesystem is mounted inside, at", "/work/mem/inside", "unmount that first"]);
    desk.does(&["umount", "work"]);
}

#[test]
fn a_mount_of_somebody_else_over_it_is_told() {
    let desk = Desk::new();
    desk.does(&["mount", "work", "-m", "/=memory:"]);
    let work = desk.path("work");
    let run = |arguments: &[&str]| {
        let run = Command::new(arguments[0]).args(&arguments[1..]).arg(&work).status();
        assert!(run.expect("it runs").success(), "{arguments:?}");
    };
    run(&["mount", "-t", "tmpfs", "none"]);
    let busy = desk.run(&["umount", "work"]);
    run(&["umount"]);
    busy.fails(1, &["EBUSY", "something else was mounted over", "/work", "unmount that first"]);
    desk.does(&["umount", "work"]);
}

#[test]
fn unmounting_from_outside_ends_the_daemon() {
    let desk = Desk::new();
    let by = |arguments: &[&str]| {
        let output =
            Command::new(arguments[0]).args(&arguments[1..]).current_dir(&desk.root).output().expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {:?}", said(&output));
        let none = || desk.run(&["status", "--json"]).out.trim() == "[]";
        assert!(changed_within(SOON, none), "{arguments:?}: {:?}", desk.run(&["status"]));
        assert!(!desk.is_mounted());
    };
    desk.mount(&["--single"]);
    by(&["fusermount3", "-u", "work"]);
    desk.mount(&["--single"]);
    by(&["umount", "work"]);
    desk.mount(&["--nested"]);
    by(&["umount", "-R", "work"]);
    desk.mount(&[]);
    by(&["umount", "-l", "work"]);
}

#[test]
fn a_daemon_keeps_no_folder_and_no_terminal() {
    let desk = Desk::new();
    desk.mount(&[]);
    let pid = desk.pid().as_raw_nonzero();
    let link = |name: &str| fs::read_link(format!("/proc/{pid}/{name}")).expect("it runs").display().to_string();
    assert_eq!((link("cwd"), link("fd/0"), link("fd/1")), ("/".into(), "/dev/null".into(), "/dev/null".into()));
    assert_eq!(link("fd/2"), desk.status()["log"].as_str().expect("a log"));
    let session = rustix::process::getsid(Pid::from_raw(pid.get())).expect("it runs");
    assert_eq!(session.as_raw_nonzero(), pid, "it leads a session of its own");
}

#[test]
fn of_several_mounts_at_once_one_wins() {
    let desk = Desk::new();
    let start = |_| {
        let mut command = desk.command(&["mount", "work", "-m", "/=memory:"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let children = (0..4).map(start).collect::<Vec<_>>();
    let ended = children.into_iter().map(|child| said(&child.wait_with_output().expect("it ends"))).collect::<Vec<_>>();
    let (won, lost): (Vec<_>, Vec<_>) = ended.iter().partition(|said| said.code == Some(0));
    assert_eq!(won.len(), 1, "{ended:?}");
    lost.iter().for_each(|said| said.fails(1, &["EBUSY", "mounted already"]));
    assert_eq!(mount_table::below(&desk.root).len(), 1);
    desk.does(&["umount", "work"]);
    assert!(!desk.is_mounted());
}

#[test]
fn a_mount_that_nobody_waits_for_any_more_is_taken_back() {
    let desk = Desk::new();
    let mut command = desk.command(&["--daemon", "mount", "work", "-m", "/=./project", "-m", "mem=memory:"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // Whoever started it was killed before it could answer.
    drop(child.stdout.take());
    let ended = said(&child.wait_with_output().expect("it ends"));
    ended.fails(1, &["whoever asked for the mount is gone"]);
    assert!(!desk.is_mounted() && !desk.path("work").exists());
    assert_eq!(desk.does(&["status", "--json"]).out.trim(), "[]");
}

#[test]
fn mountpoints_may_have_odd_names_and_be_links() {
    let desk = Desk::new();
    let long = "l".repeat(200);
    for name in ["a b", "-dash", "tab\there", "\u{fc}ml\u{e4}ut", "back\\slash", "#", "a,b", long.as_str()] {
        desk.does(&["mount", "-m", "/=memory:", "--", name]);
        fs::write(desk.path(name).join("file"), "x").expect("it answers");
        assert_eq!(desk.status()["mountpoint"].as_str(), desk.path(name).to_str());
        desk.does(&["umount", "--", name]);
        assert!(!desk.is_mounted(), "{name}");
    }
    fs::create_dir(desk.path("real")).expect("made");
    std::os::unix::fs::symlink("real", desk.path("link")).expect("made");
    desk.does(&["mount", "link", "-m", "/=memory:"]);
    assert_eq!(desk.status()["mountpoint"].as_str(), desk.path("real").to_str());
    for place in ["real", "link", "link/"] {
        desk.run(&["mount", place, "-m", "/=memory:"]).fails(1, &["mounted already"]);
        desk.does(&["status", place]);
        assert_eq!(desk.does(&["exec", place, "--", "pwd"]).out.trim(), desk.path("real").to_str().expect("text"));
    }
    desk.does(&["umount", "link"]);
    assert!(!desk.is_mounted());
}

#[test]
fn the_notes_may_lie_deep() {
    let desk = Desk::new();
    // A socket's address has at most 107 bytes.
    let state = desk.path(&format!("{0}/{0}", "d".repeat(100)));
    let with = |arguments: &[&str]| {
        let output = desk.command(arguments).env("WORKFS_STATE_DIR", &state).output().expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {:?}", said(&output));
    };
    with(&["mount", "work", "-m", "/=memory:"]);
    with(&["status", "work"]);
    with(&["umount", "work"]);
    assert!(!desk.is_mounted());
}

#[test]
fn a_database_that_was_taken_away_takes_nothing_more() {
    for (what, word) in [("rm desk.db", "removed"), ("cp desk.db other.db; mv other.db desk.db", "replaced")] {
        let desk = Desk::new();
        desk.does(&["mount", "work", "-m", "db=sqlite:./desk.db"]);
        let shell = |script: &str| {
            said(&Command::new("bash").args(["-ec", script]).current_dir(&desk.root).output().expect("bash"))
        };
        assert_eq!(shell("echo before > work/db/f").code, Some(0));
        assert_eq!(shell(what).code, Some(0));
        assert!(shell("cat work/db/f").out == "before\n", "what is there is still read");
        let refused = shell("echo after > work/db/g");
        assert!(refused.code == Some(1) && refused.err.contains("Input/output error"), "{refused:?}");
        let health = desk.status()["mounts"].to_string();
        assert!(health.contains(word), "{health}");
        desk.run(&["umount", "work"]).fails(1, &[word, "desk.db"]);
        assert!(!desk.is_mounted());
    }
}

#[test]
fn a_store_on_a_read_only_disk_says_what_it_needs() {
    let desk = Desk::new();
    fs::create_dir(desk.path("disk")).expect("mkdir");
    rustix::mount::mount("none", desk.path("disk"), "tmpfs", rustix::mount::MountFlags::empty(), None)
        .expect("a tmpfs");
    desk.does(&["mount", "work", "-m", "db=sqlite:./disk/desk.db"]);
    desk.does(&["umount", "work"]);
    rustix::mount::mount_remount(desk.path("disk"), rustix::mount::MountFlags::RDONLY, "").expect("read-only");
    desk.run(&["mount", "work", "-m", "db=sqlite:./disk/desk.db:ro"])
        .fails(1, &["disk/desk.db", "read-only", "copy it elsewhere"]);
}
