//! `workfs umount`.

use crate::cli;
use crate::control::{self, Reply, Request};
use crate::failure::Failure;
use crate::mountpoint;
use crate::process;
use crate::state::{Entry, StateDir};
use std::path::Path;
use std::time::Duration;
use workfs::fs::{self, Found, Unmount};
use workfs::types::Errno;

/// How long the process may take to answer at all.
const ANSWER: Duration = Duration::from_secs(5);
/// How long writing everything out may take.
const UNMOUNT: Duration = Duration::from_secs(150);
/// How long the process may take to be gone afterwards.
const END: Duration = Duration::from_secs(10);

/// Unmounts, and returns when the process that served is gone.
///
/// # Errors
/// Exit code 1 where it is in use (who uses it is said), where nothing is mounted, or where something was lost.
pub fn run(arguments: &cli::Umount) -> Result<(), Failure> {
    let mountpoint = fs::resolve(&arguments.dir)?;
    let state = StateDir::open()?;
    match state.entry(&mountpoint) {
        Some(entry) if entry.is_alive() => ask(&state, &entry, arguments.lazy),
        Some(entry) => clean(&state, &entry),
        None => without_entry(&state, &mountpoint, arguments.lazy),
    }
}

fn ask(state: &StateDir, entry: &Entry, lazy: bool) -> Result<(), Failure> {
    let socket = state.socket(&entry.mountpoint);
    // Writing out may take long; that nobody listens is known sooner.
    let heard =
        control::runtime().and_then(|runtime| runtime.block_on(control::ask_status(&socket, entry, ANSWER, END)));
    match heard {
        Ok(Some(_)) => {}
        Ok(None) => return clean(state, entry),
        Err(error) => return silent(entry, lazy, &error),
    }
    match control::ask_and_wait(&socket, Request::Unmount { lazy }, UNMOUNT) {
        Ok(Reply::Done) => {}
        // It still writes out what is pending.
        Ok(Reply::Ending) if process::wait_gone(entry.pid, entry.process_start, UNMOUNT) => return clean(state, entry),
        Ok(Reply::Ending) => {
            return Err(Failure::new(format!("process {} has ended its mount, and is not gone", entry.pid)));
        }
        Ok(Reply::Failed(failure)) if lazy => return Err(failure),
        Ok(Reply::Failed(failure)) => return Err(with_way_out(failure, entry)),
        Ok(Reply::Status(_)) => return Err(Failure::new("the daemon answered something else than it was asked")),
        // It may have ended by itself while it was asked.
        Err(_) if process::wait_gone(entry.pid, entry.process_start, Duration::from_secs(1)) => {
            return clean(state, entry);
        }
        Err(error) => return silent(entry, lazy, &error),
    }
    if process::wait_gone(entry.pid, entry.process_start, END) {
        return Ok(());
    }
    Err(Failure::new(format!("unmounted, but process {} is not gone after {} s", entry.pid, END.as_secs())))
}

fn with_way_out(failure: Failure, entry: &Entry) -> Failure {
    let dir = entry.mountpoint.display();
    let text = format!("{}\n  `workfs umount --lazy {dir}` detaches it now, whoever uses it", failure.text);
    Failure { text, ..failure }
}

fn silent(entry: &Entry, lazy: bool, error: &std::io::Error) -> Result<(), Failure> {
    let (dir, pid) = (entry.mountpoint.display(), entry.pid);
    if !lazy {
        return Err(Failure::new(format!(
            "process {pid}, which serves {dir}, does not answer ({error}); `workfs umount --lazy {dir}` detaches it anyway"
        )));
    }
    fs::unmount_top(&entry.mountpoint, Unmount::Lazily)?;
    eprintln!("workfs: {dir} is detached; process {pid} did not answer ({error}) and may still be there");
    Ok(())
}

/// Cleans up what a process that was killed left behind.
fn clean(state: &StateDir, entry: &Entry) -> Result<(), Failure> {
    let Some(_lock) = state.lock(&entry.mountpoint, || false)? else {
        return Err(Failure::new(format!("{} is just being mounted again", entry.mountpoint.display())));
    };
    if mountpoint::clear(&entry.mountpoint)? {
        eprintln!("workfs: the dead mount at {} is cleaned away", entry.mountpoint.display());
    }
    state.forget(&entry.mountpoint);
    Ok(())
}

/// A mount of which nothing is noted: of another user, or of another state directory.
fn without_entry(state: &StateDir, mountpoint: &Path, lazy: bool) -> Result<(), Failure> {
    let shown = mountpoint.display();
    if !fs::mounted_at(mountpoint)?.is_some_and(|mount| mount.is_workfs()) {
        return Err(Failure::new(format!(
            "nothing of workfs is mounted at {shown}; `workfs status` lists what is, \
             and a mount inside another is unmounted with it"
        )));
    }
    let lazily = lazy || matches!(fs::probe(mountpoint), Found::Dead);
    let unmounted = fs::unmount_top(mountpoint, if lazily { Unmount::Lazily } else { Unmount::Now });
    unmounted.map_err(|error| match error.errno() {
        Errno::EBUSY => Failure::new(format!(
            "{shown} is in use, or holds other mounts, and nothing is noted of it in {}; set WORKFS_STATE_DIR to what \
             it was mounted with, or `workfs umount --lazy {shown}` detaches it with all that is mounted in it",
            state.path().display()
        )),
        _ => error.into(),
    })
}
