//! What lies at a path, found without waiting for a mount that is dead or hangs; and dead mounts cleared away.

use super::mountinfo::mounted_at;
use super::mountpoint::{Unmount, unmount_top};
use crate::types::{Errno, Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a live mount may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// More dead mounts than this on top of each other are not ours.
const LAYERS: usize = 16;
/// As many symbolic links as the kernel follows.
const LINKS: usize = 40;

/// What lies at a path.
#[derive(Debug)]
pub enum Found {
    /// A directory.
    Directory {
        /// Whether nothing is in it.
        empty: bool,
    },
    /// Something else.
    NoDirectory,
    /// Nothing.
    Nothing,
    /// A FUSE mount whose process is gone.
    Dead,
    /// No answer came.
    Silent,
    /// The system said no.
    Failed(io::Error),
}

/// Looks at `path` from a thread of its own, since a mount that hangs would take this one with it.
pub fn probe(path: &Path) -> Found {
    let (send, answer) = mpsc::channel();
    let asked = path.to_owned();
    let spawned = thread::Builder::new().name("workfs-probe".into()).spawn(move || send.send(look(&asked)));
    match spawned {
        Ok(_) => answer.recv_timeout(ANSWER).unwrap_or(Found::Silent),
        Err(error) => Found::Failed(error),
    }
}

/// Whoever serves the filesystem is asked first: `statfs(2)` always does, while attributes and listings may come from
/// the kernel's caches, also of a process that is gone.
fn look(path: &Path) -> Found {
    let found = rustix::fs::statfs(path)
        .map_err(io::Error::from)
        .and_then(|_| std::fs::symlink_metadata(path))
        .and_then(|found| if found.is_dir() { std::fs::read_dir(path).map(Some) } else { Ok(None) });
    match found {
        Ok(Some(mut entries)) => Found::Directory { empty: entries.next().is_none() },
        Ok(None) => Found::NoDirectory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
        // A request that was under way when the process died is broken off; later ones find no connection.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)) => Found::Dead,
        Err(error) => Found::Failed(error),
    }
}

/// The canonical path of `dir`, as the mount table has it; its last part need not exist. What is mounted there is not
/// asked, since it may be dead.
///
/// # Errors
/// What `realpath(3)` says of the directory that it lies in; `EINVAL` for the root.
pub fn resolve(dir: &Path) -> Result<PathBuf> {
    let failed = |error| Error::from_io("mountpoint", error).context(dir.display().to_string());
    let mut path = std::path::absolute(dir).map_err(failed)?;
    for _ in 0..LINKS {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            let path = path.canonicalize().map_err(failed)?;
            if path.parent().is_some() {
                return Ok(path);
            }
            return Err(Error::new("mountpoint", Errno::EINVAL).context("nothing is mounted over `/`"));
        };
        let parent = parent.canonicalize().map_err(failed)?;
        let place = parent.join(name);
        match std::fs::read_link(&place) {
            Ok(target) => path = parent.join(target),
            Err(_) => return Ok(place),
        }
    }
    Err(failed(io::Error::from_raw_os_error(Errno::ELOOP.raw())))
}

/// Clears dead FUSE mounts away from `path`, with all that is below them, and tells whether there were any. What is
/// alive stays. `path` is as [`resolve`] gives it.
///
/// # Errors
/// What unmounting says; `EBUSY` where there is no end of them.
pub fn clear_dead(path: &Path) -> Result<bool> {
    for layer in 0..LAYERS {
        let fuse = mounted_at(path)?.is_some_and(|mount| mount.is_fuse());
        if !fuse || !matches!(probe(path), Found::Dead) {
            return Ok(layer > 0);
        }
        tracing::warn!(dir = %path.display(), "a dead mount was left here; it is cleared away");
        unmount_top(path, Unmount::Lazily)?;
    }
    Err(Error::new("mount", Errno::EBUSY).context(format!("too many dead mounts at {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mountpoint_is_found_through_links_and_may_be_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it exists");
        std::fs::create_dir(root.join("real")).expect("made");
        std::os::unix::fs::symlink("real", root.join("link")).expect("made");
        std::os::unix::fs::symlink("loop", root.join("loop")).expect("made");
        assert_eq!(resolve(&root.join("link")).expect("found"), root.join("real"));
        assert_eq!(resolve(&root.join("link/new/")).expect("found"), root.join("real/new"));
        assert_eq!(resolve(&root.join("real/..")).expect("found"), root);
        assert_eq!(resolve(&root.join("a/b")).expect_err("no parent").errno(), Errno::ENOENT);
        assert_eq!(resolve(&root.join("loop")).expect_err("a loop").errno(), Errno::ELOOP);
        assert_eq!(resolve(Path::new("/")).expect_err("the root").errno(), Errno::EINVAL);
    }
}
