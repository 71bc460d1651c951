//! A mount that lives on in the background.
//!
//! `workfs mount` starts itself anew, with the same arguments, in a session of its own: a fork of a process with
//! threads would not do. The new process tells over its standard output, as one line of JSON, that the mount answers
//! or why there is none; then it lets go of it. Its standard error is the log from the start, so nothing is lost.

use crate::failure::Failure;
use crate::process;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long a mount may take until it answers; opening a large store may have to recover it first.
const START: Duration = Duration::from_secs(120);
/// How long a process that was told to end may take.
const END: Duration = Duration::from_secs(10);
/// A log that is longer than this is put aside when its mount starts again.
const LOG: u64 = 8 << 20;

/// The first argument of a process that is started so.
pub const MARK: &str = "--daemon";

/// What a started process tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Started {
    /// The mount answers.
    Ready {
        /// Where.
        mountpoint: PathBuf,
        /// What a person should know.
        notes: Vec<String>,
    },
    /// There is none.
    Failed(Failure),
}

/// Starts this very command in the background, logging to `log`; returns what it told, once it did.
///
/// # Errors
/// Its own failure; exit code 1 where it ended or took too long without telling one.
pub fn start(log: &Path) -> Result<(PathBuf, Vec<String>), Failure> {
    let file = open_log(log).map_err(|error| Failure::new(format!("the log {}: {error}", log.display())))?;
    let mut child =
        spawn(file).map_err(|error| Failure::new(format!("cannot start the background process: {error}")))?;
    match listen(&mut child) {
        Ok(Started::Ready { mountpoint, notes }) => Ok((mountpoint, notes)),
        Ok(Started::Failed(failure)) => Err(failure),
        Err(why) => {
            end(&mut child);
            Err(Failure::new(format!("the background process {why}; its log is {}", log.display())))
        }
    }
}

fn open_log(log: &Path) -> io::Result<File> {
    if std::fs::metadata(log).is_ok_and(|found| found.is_file() && found.len() > LOG) {
        let mut aside = log.as_os_str().to_owned();
        aside.push(".1");
        std::fs::rename(log, aside)?;
    }
    File::options().create(true).append(true).mode(0o600).open(log)
}

fn spawn(log: File) -> io::Result<Child> {
    // The executable may have been replaced since; then only the kernel's own link still leads to it.
    let program = std::env::current_exe().ok().filter(|path| path.exists());
    let mut command = Command::new(program.unwrap_or_else(|| "/proc/self/exe".into()));
    let mut arguments = std::env::args_os();
    command.arg0(arguments.next().unwrap_or_else(|| "workfs".into()));
    command.arg(MARK).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()
}

fn listen(child: &mut Child) -> Result<Started, String> {
    let Some(mut pipe) = child.stdout.take() else { return Err("has no pipe".to_owned()) };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut told = Vec::new();
        let result = pipe.read_to_end(&mut told).map(|_| told);
        let _ = sender.send(result);
    });
    match receiver.recv_timeout(START) {
        Ok(Ok(told)) if told.is_empty() => Err(match exit_status(child) {
            Some(status) => format!("ended before the mount answered ({status})"),
            None => "let go of its starter before the mount answered, and was ended".to_owned(),
        }),
        Ok(Ok(told)) => serde_json::from_slice(&told).map_err(|error| format!("told what is not understood: {error}")),
        Ok(Err(error)) => Err(format!("cannot be heard: {error}")),
        Err(_) => Err(format!("did not mount within {} s and was ended", START.as_secs())),
    }
}

/// How a process that has closed its pipe ended, if it does so soon.
fn exit_status(child: &mut Child) -> Option<ExitStatus> {
    let start = process::started(child.id()).unwrap_or_default();
    process::wait_gone(child.id(), start, END);
    child.try_wait().ok().flatten()
}

/// Ends a process that was started but is not wanted: first kindly, so that it unmounts.
fn end(child: &mut Child) {
    if let Some(start) = process::started(child.id()) {
        process::signal(child.id(), Signal::TERM);
        if !process::wait_gone(child.id(), start, END) {
            process::signal(child.id(), Signal::KILL);
            process::wait_gone(child.id(), start, END);
        }
    }
    let _ = child.try_wait();
}

/// In the started process: leaves the terminal's session, so that its signals and its end do not reach it.
pub fn detach_from_terminal() {
    // It fails only for the leader of a process group, which a freshly spawned child is not.
    let _ = rustix::process::setsid();
}

/// In the started process: tells the starter, and lets go of it.
///
/// # Errors
/// Where the starter is gone: whoever asked for the mount gave up.
pub fn tell(started: &Started) -> io::Result<()> {
    let mut pipe = io::stdout().lock();
    serde_json::to_writer(&mut pipe, started)?;
    pipe.write_all(b"\n")?;
    pipe.flush()?;
    let nowhere = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(())
}
