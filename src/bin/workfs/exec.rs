//! `workfs exec`.

use crate::cli;
use crate::control::{self, Reply, Request};
use crate::failure::{CANNOT_RUN, Failure, NOT_EXECUTABLE, NOT_FOUND};
use crate::state::{Entry, StateDir};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use workfs::fs;

/// How long the mount may take to answer before anything is run in it.
const ANSWER: Duration = Duration::from_secs(5);

/// Becomes the command, with the mount as its working directory, so that its exit status, its signals and its terminal
/// are its own.
///
/// # Errors
/// Exit code 125 where nothing is mounted, 126 and 127 as a shell gives them. It returns only with one.
#[expect(clippy::disallowed_methods, reason = "the process becomes the command, and has no other thread")]
pub fn run(arguments: &cli::Exec) -> Result<(), Failure> {
    let dir = fs::resolve(&arguments.dir).map_err(Failure::from).map_err(|failure| failure.exit(CANNOT_RUN))?;
    check_mounted(&dir).map_err(|failure| failure.exit(CANNOT_RUN))?;
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(Failure::new("no command").exit(CANNOT_RUN));
    };
    // Told apart from a program that is missing, which gives the same errno.
    std::env::set_current_dir(&dir)
        .map_err(|error| Failure::new(format!("{}: {error}", dir.display())).exit(CANNOT_RUN))?;
    let error = Command::new(program).args(rest).env("PWD", &dir).exec();
    let exit = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    Err(Failure::new(format!("{}: {error}", program.display())).exit(exit))
}

/// Refuses where `dir` is in no mount, or in one that does not answer: a program would run beside it, or hang.
fn check_mounted(dir: &Path) -> Result<(), Failure> {
    let state = StateDir::open()?;
    let holds = |entry: &Entry| dir.starts_with(&entry.mountpoint);
    // Of mounts in mounts, the innermost is meant.
    let entry = state.entries().into_iter().filter(holds).max_by_key(|entry| entry.mountpoint.components().count());
    let Some(entry) = entry else {
        return Err(Failure::new(format!("{} is in no mount of workfs; `workfs status` lists them", dir.display())));
    };
    let mountpoint = entry.mountpoint.display();
    if !entry.is_alive() {
        return Err(Failure::new(format!(
            "the mount at {mountpoint} is dead; `workfs umount {mountpoint}` cleans it away"
        )));
    }
    let socket = state.socket(&entry.mountpoint);
    match control::ask_and_wait(&socket, Request::Status, ANSWER) {
        Ok(Reply::Status(_)) => Ok(()),
        Ok(_) => Err(Failure::new(format!("process {} answered something else than it was asked", entry.pid))),
        Err(error) => {
            Err(Failure::new(format!("process {}, which serves {mountpoint}, does not answer: {error}", entry.pid)))
        }
    }
}
