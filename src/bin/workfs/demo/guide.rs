//! Who leads the tour: says what is done, does it, shows what comes of it, and cleans up.

use super::sample::Sample;
use crate::state::StateDir;
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::watch;

/// How long one step may take.
const STEP: Duration = Duration::from_secs(120);

/// Why the tour cannot go on.
pub type Step<T> = Result<T, String>;

/// Leads the tour.
pub struct Guide {
    sample: Arc<Sample>,
    interrupted: watch::Receiver<bool>,
    keep: bool,
    program: PathBuf,
    count: usize,
    /// What held, for the summary.
    pub held: Vec<String>,
}

/// A line for whoever takes the tour. That nobody listens any more is no reason to leave things behind.
pub fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

impl Guide {
    /// For a tour of `sample`; where it is kept, it is noted where all mounts of the user are.
    pub fn new(sample: Arc<Sample>, interrupted: watch::Receiver<bool>, keep: bool) -> Guide {
        let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
        Guide { sample, interrupted, keep, program, count: 0, held: Vec::new() }
    }

    /// The folders.
    pub fn sample(&self) -> &Sample {
        &self.sample
    }

    /// The command's own path, for a person to type.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Begins a step.
    pub fn step(&mut self, title: &str) {
        self.count += 1;
        say(&format!("\n{}. {title}", self.count));
    }

    /// Notes what held.
    pub fn holds(&mut self, what: &str) {
        say(&format!("   => {what}"));
        self.held.push(what.to_owned());
    }

    /// Waits for `work`, unless it takes too long or the tour is interrupted.
    pub async fn wait<T>(&self, what: &str, work: impl Future<Output = io::Result<T>>) -> Step<T> {
        let mut interrupted = self.interrupted.clone();
        tokio::select! {
            biased;
            _ = interrupted.wait_for(|interrupted| *interrupted) => Err("interrupted".to_owned()),
            done = tokio::time::timeout(STEP, work) => match done {
                Ok(done) => done.map_err(|error| format!("{what}: {error}")),
                Err(_) => Err(format!("{what}: not finished after {} s", STEP.as_secs())),
            },
        }
    }

    /// Runs a program in the mount, shows its command line and what it printed, and returns that. It must succeed.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> Step<String> {
        let shown = typed(program, arguments);
        say(&format!("   $ {shown}"));
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.sample.mountpoint()).kill_on_drop(true).stdin(Stdio::null());
        // The user's own settings, hooks and signing keys have no place in a demo.
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C.UTF-8");
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        let output = self.wait(&shown, command.output()).await?;
        told(&shown, &output)
    }

    /// Whether a program is there.
    pub async fn has(&self, program: &str) -> bool {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.wait(program, command.kill_on_drop(true).status()).await.is_ok_and(|status| status.success())
    }

    /// Runs this very command, as a user would. It is not interrupted halfway, since a mount in the making could not
    /// be cleaned up.
    pub async fn workfs(&self, arguments: &[&str]) -> Step<String> {
        let shown = typed("workfs", arguments);
        say(&format!("   $ {}", shown.replace(" -m ", " \\\n       -m ")));
        let output = self.own_command(arguments).output();
        let output = tokio::time::timeout(STEP, output).await;
        let output = output.map_err(|_| format!("{shown}: not finished after {} s", STEP.as_secs()))?;
        told(&shown, &output.map_err(|error| format!("{shown}: {error}"))?)
    }

    fn own_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // A group of its own: Ctrl-C at the terminal is meant for the demo, which then unmounts in order.
        command.args(arguments).current_dir(self.sample.root()).stdin(Stdio::null()).process_group(0);
        if !self.keep {
            command.env("WORKFS_STATE_DIR", self.sample.state());
        }
        command
    }

    /// Shows the end of the mount's log, where something went wrong.
    pub fn show_log(&self) {
        let Some(log) = self.log() else { return };
        let Ok(text) = std::fs::read_to_string(&log) else { return };
        let lines = text.lines().collect::<Vec<_>>();
        say("   The end of the mount's log:");
        lines[lines.len().saturating_sub(15)..].iter().for_each(|line| say(&format!("   | {line}")));
    }

    fn log(&self) -> Option<PathBuf> {
        let mountpoint = self.sample.mountpoint();
        let name = StateDir::open().ok()?.log(&mountpoint);
        Some(if self.keep { name } else { self.sample.state().join(name.file_name()?) })
    }

    /// Whether something is mounted where the tour mounts; where that cannot be told, it counts as mounted.
    pub fn is_mounted(&self) -> bool {
        !workfs::fs::mounted_at(&self.sample.mountpoint()).is_ok_and(|mount| mount.is_none())
    }

    /// Unmounts, by force if it must be, and takes everything away.
    ///
    /// # Errors
    /// Says what is left, and how to get rid of it.
    pub async fn clean_up(&self) -> Step<()> {
        for lazy in [false, true] {
            if !self.is_mounted() {
                break;
            }
            let arguments: &[&str] = if lazy { &["umount", "--lazy", "work"] } else { &["umount", "work"] };
            let ended = tokio::time::timeout(STEP, self.own_command(arguments).output()).await;
            tracing::debug!("clean up: {ended:?}");
        }
        let left = |error: &dyn std::fmt::Display| {
            let root = self.sample.root().display();
            format!("it left something behind ({error}); `umount -l {root}/work; rm -r {root}` takes it away")
        };
        // Removing a folder with a mount in it would remove what is mounted.
        if self.is_mounted() {
            self.sample.keep();
            return Err(left(&"it cannot be unmounted"));
        }
        if let (true, Some(log)) = (self.keep, self.log()) {
            let _ = std::fs::remove_file(log);
        }
        self.sample.remove().map_err(|error| left(&error))
    }
}

/// A command line as one would type it.
fn typed(program: &str, arguments: &[&str]) -> String {
    let special = |word: &&str| word.contains([' ', '?', '*', '$', '%', '&']);
    arguments.iter().fold(program.to_owned(), |line, word| match special(word) {
        true => format!("{line} '{word}'"),
        false => format!("{line} {word}"),
    })
}

/// Shows what a program printed; refuses where it failed.
fn told(shown: &str, output: &Output) -> Step<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    text.lines().chain(errors.lines()).for_each(|line| say(&format!("   | {line}")));
    if output.status.success() { Ok(text) } else { Err(format!("`{shown}` failed: {}", output.status)) }
}
