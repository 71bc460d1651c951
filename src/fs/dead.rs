//! A mount that a killed process left behind.

use super::mountinfo::{Line, MountTable};
use super::mountpoint::{FS_TYPE, Unmount, unmount_top};
use crate::types::{Errno, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a live mount may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// More dead mounts than this on top of each other are not ours.
const LAYERS: usize = 16;

/// Clears dead mounts away from `dir`, with all that is below them. Nothing happens where there are none.
///
/// # Errors
/// `EBUSY` where a live view is mounted at `dir`, or a mount that does not answer.
pub(super) fn clear(dir: &Path) -> Result<()> {
    clear_dead(dir)?;
    let ours = |line: &Line| line.fs_type == FS_TYPE;
    match absolute(dir) {
        Ok(path) if MountTable::read()?.at(&path).is_some_and(ours) => Err(Error::new("mount", Errno::EBUSY)
            .context(format!("a workfs view is mounted at {} already; unmount it first", dir.display()))),
        _ => Ok(()),
    }
}

/// Clears dead mounts away from `dir`; whatever is alive there stays.
pub(super) fn clear_dead(dir: &Path) -> Result<()> {
    for _ in 0..LAYERS {
        if !is_dead(dir)? {
            return Ok(());
        }
        let path = absolute(dir)?;
        tracing::warn!(dir = %path.display(), "a dead mount was left here; it is cleared away");
        unmount_top(&path, Unmount::Lazily)?;
    }
    Err(Error::new("mount", Errno::EBUSY).context(format!("too many dead mounts at {}", dir.display())))
}

/// Asks whoever serves the filesystem at `path`: `statfs(2)` always does, while attributes and listings may come from
/// the kernel's caches, also of a process that is gone.
///
/// # Errors
/// `ENOTCONN` and `ECONNABORTED` where it is gone.
pub fn ask(path: &Path) -> std::io::Result<()> {
    Ok(rustix::fs::statfs(path).map(drop)?)
}

/// Asks from a thread of its own, since a mount that hangs would take this one with it.
fn is_dead(dir: &Path) -> Result<bool> {
    let (send, answer) = mpsc::channel();
    let asked = dir.to_owned();
    let stat = move || send.send(ask(&asked)).ok();
    thread::Builder::new().name("workfs-probe".into()).spawn(stat).map_err(|e| Error::from_io("mount", e))?;
    match answer.recv_timeout(ANSWER) {
        Ok(told) => Ok(told.is_err_and(|e| matches!(e.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)))),
        Err(_) => Err(Error::new("mount", Errno::EBUSY)
            .context(format!("what is mounted at {} does not answer; unmount it with `umount -l`", dir.display()))),
    }
}

/// The path of `dir` as the mount table has it, found without touching what is mounted at `dir` itself.
fn absolute(dir: &Path) -> Result<PathBuf> {
    let fail = |e| Error::from_io("mount", e).context(dir.display().to_string());
    let path = std::path::absolute(dir).map_err(fail)?;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize().map_err(fail)?.join(name)),
        _ => Ok(path),
    }
}
