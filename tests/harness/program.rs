//! Real programs run in a scene.

use super::scene::Scene;
use super::sys;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Whether a program of this name is on the path.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// The first of these programs that there is; fails the test where there is none.
#[track_caller]
pub fn need_one_of<'a>(programs: &[&'a str]) -> &'a str {
    let found = programs.iter().find(|program| find(program).is_some());
    found.unwrap_or_else(|| panic!("missing here: install one of {} (scripts/check does so)", programs.join(", ")))
}

/// Fails the test where one of these programs is missing, and says what to install: a test that passed over it would
/// look as if it had held.
#[track_caller]
pub fn need(programs: &[&str]) {
    let missing: Vec<_> = programs.iter().copied().filter(|program| find(program).is_none()).collect();
    assert!(missing.is_empty(), "missing here: install {} (scripts/check does so)", missing.join(", "));
}

/// A program to be run in a scene, with surroundings that do not depend on who runs the tests.
pub struct Program<'a> {
    scene: &'a Scene,
    command: Command,
}

impl Scene {
    /// `program`, to be run in the scene's place.
    #[track_caller]
    pub fn program(&self, program: impl AsRef<OsStr>) -> Program<'_> {
        let mut command = Command::new(program);
        command.current_dir(self.path()).stdin(Stdio::null()).process_group(0);
        command.env("LC_ALL", "C.UTF-8").env("TZ", "UTC").env_remove("RUST_TEST_THREADS");
        command.env_remove("PYTHONDONTWRITEBYTECODE").env_remove("PYTHONPATH").env_remove("VIRTUAL_ENV");
        for person in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{person}_NAME"), "Test").env(format!("GIT_{person}_EMAIL"), "test@example.org");
        }
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        command.env("npm_config_cache", self.home().join("npm-cache")).env("npm_config_userconfig", "/dev/null");
        command.env("npm_config_update_notifier", "false");
        sys::die_with_parent(&mut command, libc::SIGKILL);
        Program { scene: self, command }
    }

    /// The command that tells how the scene's mount is, as JSON.
    #[track_caller]
    pub fn status(&self) -> Program<'_> {
        let program = self.program(env!("CARGO_BIN_EXE_workfs")).args(["status", "--json"]).arg(self.root());
        program.dir(self.home()).env("WORKFS_STATE_DIR", self.home().join("state"))
    }

    /// A script for bash, which stops at the first command that fails. Its words `$1` and on are `arguments`.
    #[track_caller]
    pub fn bash(&self, script: &str, arguments: &[&Path]) -> String {
        self.program("bash").args(["-euo", "pipefail", "-c", script, "bash"]).args(arguments).text()
    }
}

impl<'a> Program<'a> {
    /// A further argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Further arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Where it runs.
    #[must_use]
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts it and goes on at once.
    #[track_caller]
    pub fn start(mut self) -> Running<'a> {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        let pid = Pid::from_child(&child);
        self.scene.deadline().add_program(pid);
        Running { scene: self.scene, child: Some(child), pid, line: format!("{:?}", self.command) }
    }

    /// Runs it to its end, whatever that is.
    #[track_caller]
    pub fn output(self) -> Output {
        self.start().output()
    }

    /// Runs it, and fails the test where it fails; gives what it printed.
    #[track_caller]
    pub fn text(self) -> String {
        self.start().text()
    }

    /// Runs it, and fails the test where it succeeds; gives what it complained of.
    #[track_caller]
    pub fn complaint(self) -> String {
        let line = format!("{:?}", self.command);
        let output = self.output();
        assert!(!output.status.success(), "must fail: {line}\n{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// A program that runs. Dropping it kills its whole process group.
pub struct Running<'a> {
    scene: &'a Scene,
    child: Option<Child>,
    pid: Pid,
    line: String,
}

impl Running<'_> {
    /// Its process, which leads a group of its own.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.as_mut().expect("it was not waited for").try_wait().expect("it can be waited for").is_none()
    }

    /// Waits for its end, whatever that is.
    #[track_caller]
    pub fn output(mut self) -> Output {
        let child = self.child.take().expect("it was not waited for");
        let output = child.wait_with_output().unwrap_or_else(|error| panic!("{}: {error}", self.line));
        self.scene.deadline().remove_program(self.pid);
        output
    }

    /// Waits for its end, and fails the test where it fails; gives what it printed.
    #[track_caller]
    pub fn text(self) -> String {
        let line = self.line.clone();
        let output = self.output();
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {line}\n{stdout}\n{stderr}", output.status);
        stdout.into_owned()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = child.wait();
            self.scene.deadline().remove_program(self.pid);
        }
    }
}
