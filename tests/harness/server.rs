//! The process that serves a test's mounts: the real command in the foreground.

use super::expect::changed_within;
use super::{mount_table, sys};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How long mounting may take, and ending.
const PATIENCE: Duration = Duration::from_secs(20);

/// The type that `statfs(2)` tells of a FUSE mount.
const FUSE: rustix::fs::FsWord = 0x6573_5546;

/// A running server.
pub struct Server {
    child: Child,
    dir: PathBuf,
    log: PathBuf,
}

impl Server {
    /// Starts `command`, which is to serve `dir` with mounts at all of `mountpoints` (a single session: at `dir`), and
    /// returns when they answer. What it says goes to the end of the file `log`.
    pub fn start(mut command: Command, dir: &Path, mountpoints: &[PathBuf], log: &Path) -> Result<Server, String> {
        let output = File::options().append(true).create(true).open(log).expect("the server's log can be written");
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("a second descriptor")).stderr(output);
        // A test process that is killed takes its servers with it, and they their mounts.
        sys::die_with_parent(&mut command, libc::SIGTERM);
        let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let mut server = Server { child, dir: dir.to_owned(), log: log.to_owned() };
        let mut gone = None;
        let up = changed_within(PATIENCE, || {
            gone = server.child.try_wait().expect("the server can be waited for");
            gone.is_some() || server.serves(mountpoints)
        });
        match gone {
            None if up => Ok(server),
            None => Err(format!("no mount after {PATIENCE:?}: {command:?}\n{}", server.said())),
            Some(status) => Err(format!("the server ended with {status}: {command:?}\n{}", server.said())),
        }
    }

    /// Whether all mounts are in the kernel's table and answer, the last server's dead ones not among them. They are
    /// asked what no cache of the kernel answers, and what tells them from the bare directory below.
    fn serves(&self, mountpoints: &[PathBuf]) -> bool {
        let table = mount_table::below(&self.dir);
        let there = |dir: &PathBuf| table.iter().any(|entry| entry.is_fuse() && entry.at == *dir);
        let answers = |dir: &PathBuf| rustix::fs::statfs(dir).is_ok_and(|found| found.f_type == FUSE);
        mountpoints.iter().all(there) && mountpoints.iter().all(answers)
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The end of its log, the text of servers before it included. `WORKFS_TEST_LOG=debug` makes it say more.
    pub fn said(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// Ends it by `signal`, as a person would, and tells how it ended; an error where it does not end.
    pub fn stop(&mut self, signal: Signal) -> Result<ExitStatus, String> {
        let _ = kill_process(self.pid(), signal);
        self.wait()
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> Result<ExitStatus, String> {
        let mut status = None;
        changed_within(PATIENCE, || {
            status = self.child.try_wait().expect("the server can be waited for");
            status.is_some()
        });
        status.ok_or_else(|| format!("the server does not end\n{}", self.said()))
    }

    /// Kills it at once, so that its mounts are dead.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) && self.stop(Signal::TERM).is_err() {
            mount_table::abort_connections(&self.dir);
            self.kill();
        }
    }
}
