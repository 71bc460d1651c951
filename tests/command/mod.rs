//! The real command, as a person types it: what it does, what it says, and its exit codes.

mod dead;
mod faults;
mod life;
mod limits;
mod words;

use crate::harness::deadline::Deadline;
use crate::harness::{mount_table, sys};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long a test may take.
const LIMIT: Duration = Duration::from_secs(120);

/// A folder in which the command is used, with notes of its own; whatever is mounted in it goes when it is dropped.
struct Desk {
    _deadline: Deadline,
    folder: Option<TempDir>,
    root: PathBuf,
}

/// What a command said, and how it ended.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Desk {
    fn new() -> Desk {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().expect("it exists");
        for dir in ["docs", "state"] {
            fs::create_dir(root.join(dir)).expect("a folder can be made");
        }
        fs::write(root.join("docs/guide"), "read me\n").expect("a file can be written");
        Desk { _deadline: Deadline::new(&root, LIMIT), folder: Some(folder), root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The command, to be run in the folder.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workfs"));
        command.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        command.env("WORKFS_STATE_DIR", self.path("state")).env_remove("WORKFS_LOG").env_remove("RUST_BACKTRACE");
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Said {
        said(&self.command(arguments).output().expect("the command starts"))
    }

    /// Runs what must succeed.
    #[track_caller]
    fn does(&self, arguments: &[&str]) -> Said {
        let said = self.run(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
        said
    }

    /// Mounts a project, a memory store and read-only docs at `work`, in the background.
    #[track_caller]
    fn mount(&self, more: &[&str]) -> Said {
        let mounts = ["mount", "work", "-m", "/=./project", "-m", "mem=memory:", "-m", "docs=./docs:ro"];
        self.does(&[&mounts[..], more].concat())
    }

    /// The one mount's status, as JSON.
    #[track_caller]
    fn status(&self) -> serde_json::Value {
        let said = self.run(&["status", "--json"]);
        let all: serde_json::Value =
            serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        assert_eq!(all.as_array().map(Vec::len), Some(1), "{all}");
        all[0].clone()
    }

    /// The process that serves.
    #[track_caller]
    fn pid(&self) -> Pid {
        let pid = self.status()["pid"].as_i64().expect("a process");
        Pid::from_raw(pid as i32).expect("a pid")
    }

    #[track_caller]
    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the daemon is there");
    }

    fn is_mounted(&self) -> bool {
        !mount_table::below(&self.root).is_empty()
    }

    /// The text of the mount's log.
    fn log(&self) -> String {
        let log = self.status()["log"].as_str().expect("a log").to_owned();
        fs::read_to_string(log).expect("the log can be read")
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // Each daemon ends when its mount is gone.
        mount_table::detach(&self.root);
        if let Some(folder) = self.folder.take()
            && let Err(error) = folder.close()
        {
            eprintln!("left behind: {error}");
        }
    }
}

fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        code: output.status.code().or(output.status.signal().map(|signal| -signal)),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

impl Said {
    /// Checks the exit code, and that standard error has all of `words`.
    #[track_caller]
    fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in {:?}", self.err);
        }
    }
}

/// Whether a process has ended; that nobody has waited for it yet does not matter.
fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// A program that holds a folder as its working directory until it is dropped.
struct Holder(Child);

impl Holder {
    fn of(dir: &Path) -> Holder {
        let mut command = Command::new("sleep");
        command.arg("100").current_dir(dir);
        sys::die_with_parent(&mut command, libc::SIGKILL);
        Holder(command.spawn().expect("sleep starts"))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
