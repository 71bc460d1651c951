//! `workfs demo`: the tour holds, for root and for an ordinary user, and leaves nothing behind, however it ends.

use crate::harness::deadline::Deadline;
use crate::harness::{changed_within, mount_table, program, sys};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(180);

/// The steps that hold in every tour.
const HELD: [&str; 8] = [
    "one tree of a folder, an SQLite file and read-only docs is mounted",
    "ls and find see one tree",
    "the docs refused it with EROFS",
    "one search reached a folder, an SQLite file and the docs",
    "git init, add, commit and fsck",
    "a note was written",
    "unmounted; nothing is mounted",
    "the note is there, byte for byte",
];

/// A folder for temporary folders, in which a demo runs and which must be empty afterwards.
struct Stage {
    _deadline: Deadline,
    _folder: TempDir,
    root: PathBuf,
}

impl Stage {
    fn new() -> Stage {
        program::need(&["rg", "git", "ls", "find", "cat"]);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().expect("it exists");
        for name in ["tmp", "state", "bin"] {
            fs::create_dir(root.join(name)).expect("a folder can be made");
        }
        Stage { _deadline: Deadline::new(&root, LIMIT), _folder: folder, root }
    }

    fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// The demo, with `more` arguments, as the user who runs the tests.
    fn demo(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workfs"));
        command.arg("demo").args(more);
        self.surround(&mut command);
        command
    }

    fn surround(&self, command: &mut Command) {
        command.stdin(Stdio::null()).env("TMPDIR", self.tmp()).env_remove("WORKFS_LOG");
        command.env("WORKFS_STATE_DIR", self.root.join("state"));
        sys::die_with_parent(command, libc::SIGTERM);
    }

    /// Only these programs on the path.
    fn programs(&self, names: &[&str]) -> PathBuf {
        let bin = self.root.join("bin");
        for name in names {
            symlink(program::find(name).expect("it is needed"), bin.join(name)).expect("a link can be made");
        }
        bin
    }

    #[track_caller]
    fn is_clean(&self) {
        let left = |dir: PathBuf| fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
        assert_eq!(left(self.tmp()).collect::<Vec<_>>(), Vec::<PathBuf>::new(), "left in the temporary folder");
        assert_eq!(left(self.root.join("state")).collect::<Vec<_>>(), Vec::<PathBuf>::new(), "left in the notes");
        assert!(mount_table::below(&self.root).is_empty(), "left mounted");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        mount_table::detach(&self.root);
    }
}

/// Runs it; returns its exit code and all it said.
fn run(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().expect("it starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[track_caller]
fn holds(command: Command) -> String {
    let (code, said) = run(command);
    assert_eq!(code, Some(0), "{said}");
    let (_, summary) = said.split_once("\nWhat held:\n").unwrap_or_else(|| panic!("no summary: {said}"));
    for held in HELD {
        assert!(summary.contains(held), "{held:?} is not in {summary}");
    }
    said
}

#[test]
fn the_tour_holds_and_leaves_nothing_behind() {
    let stage = Stage::new();
    let said = holds(stage.demo(&[]));
    for shown in ["$ workfs mount work", "Read-only file system", "./memories/first:1:", "Keeper: The lighthouse is on"]
    {
        assert!(said.contains(shown), "{shown:?} is not in {said}");
    }
    stage.is_clean();
}

#[test]
fn an_ordinary_user_gets_the_same_tour_with_one_session() {
    program::need(&["fusermount3", "setpriv", "unshare"]);
    let stage = Stage::new();
    if !rustix::process::geteuid().is_root() {
        assert!(holds(stage.demo(&[])).contains("single: an ordinary user"));
        return stage.is_clean();
    }
    // The build's own folder may be closed to others.
    let binary = stage.root.join("bin/workfs");
    fs::copy(env!("CARGO_BIN_EXE_workfs"), &binary).expect("the binary can be copied");
    for (name, mode) in [("", 0o755), ("tmp", 0o777), ("state", 0o777), ("bin/workfs", 0o755)] {
        fs::set_permissions(stage.root.join(name), fs::Permissions::from_mode(mode)).expect("they are ours");
    }
    // In a mount namespace of its own, where /dev/fuse is open to all users, as it is on most machines.
    let script = "mount -t tmpfs -o mode=755,dev none /mnt && mknod /mnt/fuse c 10 229 && chmod 666 /mnt/fuse &&
        mount --bind /mnt/fuse /dev/fuse && exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "sh", "-c", script, "sh"]).arg(&binary).arg("demo");
    stage.surround(&mut command);
    command.env("HOME", "/nonexistent");
    let said = holds(command);
    assert!(said.contains("single: an ordinary user cannot nest mounts"), "{said}");
    stage.is_clean();
}

#[test]
fn what_is_kept_can_be_looked_at_and_ended_as_it_says() {
    let stage = Stage::new();
    let said = holds(stage.demo(&["--keep"]));
    let (_, way) = said.split_once("It stays mounted.").expect("it says so");
    let work = first_below(&stage.tmp()).join("work");
    assert!(way.contains(&format!("cd {}", work.display())), "{way}");
    assert_eq!(
        fs::read_to_string(work.join("docs/tides.md")).expect("it answers").lines().next(),
        Some("# Tide tables")
    );
    let (_, end) = way.split_once("End it:\n").expect("it says how");
    let mut shell = Command::new("sh");
    shell.args(["-ec", end]);
    stage.surround(&mut shell);
    assert_eq!(run(shell).0, Some(0), "{end}");
    assert!(mount_table::below(&stage.root).is_empty());
    assert_eq!(fs::read_dir(stage.tmp()).expect("a folder").count(), 0);
}

#[test]
fn without_rg_and_git_the_tour_says_so_and_goes_on() {
    let stage = Stage::new();
    let mut command = stage.demo(&[]);
    command.env("PATH", stage.programs(&["ls", "find", "cat", "grep", "mkdir"]));
    let (code, said) = run(command);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("rg is not installed, so grep searches") && said.contains("$ grep -rn lighthouse ."),
        "{said}"
    );
    assert!(said.contains("git is not installed, so this step is left out"), "{said}");
    stage.is_clean();
}

#[test]
fn a_step_that_fails_ends_the_tour_with_1_and_nothing_left() {
    let stage = Stage::new();
    let mut command = stage.demo(&[]);
    // Nobody finds anything.
    let bin = stage.programs(&["ls", "find", "cat", "mkdir"]);
    fs::write(bin.join("rg"), "#!/bin/sh\nexit 0\n").expect("written");
    fs::set_permissions(bin.join("rg"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    command.env("PATH", format!("{}:/bin", bin.display()));
    let (code, said) = run(command);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("this does not hold: the search finds the word"), "{said}");
    assert!(said.contains("all that it made is taken away again"), "{said}");
    stage.is_clean();
}

#[test]
fn an_interrupted_tour_cleans_up() {
    let mut codes = Vec::new();
    for (signal, when) in [(Signal::INT, "README.md"), (Signal::TERM, ".git"), (Signal::INT, "timetable.txt")] {
        let stage = Stage::new();
        let mut command = stage.demo(&[]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child: Child = command.spawn().expect("it starts");
        let there = || work(&stage.tmp()).is_some_and(|work| work.join(when).exists());
        assert!(changed_within(LIMIT, there), "it comes to {when}");
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let status = child.wait().expect("it ends");
        codes.push(status.code());
        stage.is_clean();
    }
    // One may have been done just before.
    assert!(codes.contains(&Some(1)) && codes.iter().all(|code| matches!(code, Some(0 | 1))), "{codes:?}");
}

fn work(tmp: &Path) -> Option<PathBuf> {
    let entry = fs::read_dir(tmp).ok()?.next()?.ok()?;
    Some(entry.path().join("work"))
}

fn first_below(dir: &Path) -> PathBuf {
    let mut entries = fs::read_dir(dir).expect("a folder");
    entries.next().expect("something is there").expect("an entry").path()
}
