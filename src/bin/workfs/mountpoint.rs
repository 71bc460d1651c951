//! The directory at which to mount: found, made, and freed of a dead mount, without ever waiting for one.

use crate::mountinfo;
use rustix::mount::UnmountFlags;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use workfs::assemble::Place;
use workfs::types::{Errno, Error, Result};

/// How long a mount may take to answer before it counts as silent.
const ANSWER: Duration = Duration::from_secs(3);

/// How long a mount may outlive the lock of its process, which the kernel takes apart piece by piece.
const DYING: Duration = Duration::from_secs(2);

/// What lies at a path.
#[derive(Debug)]
pub enum Found {
    /// A directory, and whether it is empty.
    Directory(bool),
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

/// The canonical path of `dir`, whose last part need not exist. What is mounted there is not asked, since it may be
/// dead.
///
/// # Errors
/// What `realpath(3)` says of the folder it lies in; `EINVAL` for the root.
pub fn resolve(dir: &Path) -> Result<PathBuf> {
    let failed = |error| Error::from_io("mountpoint", error).context(dir.display().to_string());
    let mut path = std::path::absolute(dir).map_err(failed)?;
    // Forty links are as many as the kernel follows.
    for _ in 0..40 {
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

/// Looks at `path` from a thread of its own, so that a mount that does not answer holds nobody up.
pub fn probe(path: &Path) -> Found {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || sender.send(look(&path)));
    receiver.recv_timeout(ANSWER).unwrap_or(Found::Silent)
}

fn look(path: &Path) -> Found {
    let found = workfs::fs::ask(path)
        .and_then(|()| std::fs::symlink_metadata(path))
        .and_then(|found| if found.is_dir() { std::fs::read_dir(path).map(Some) } else { Ok(None) });
    match found {
        Ok(Some(mut entries)) => Found::Directory(entries.next().is_none()),
        Ok(None) => Found::NoDirectory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
        // A request that was under way when the process died is broken off; later ones find no connection.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)) => Found::Dead,
        Err(error) => Found::Failed(error),
    }
}

/// Makes `mountpoint` ready: cleans a dead mount away, makes the directory where only its last part is missing. Returns
/// what a person should know of it. `place` is where the mountpoint was written.
///
/// The caller holds the mountpoint's lock, so no living process of this user serves it.
///
/// # Errors
/// `EINVAL` where it is no directory; `EBUSY` where another FUSE filesystem is mounted; what `mkdir(2)` says.
pub fn prepare(mountpoint: &Path, place: &Place) -> Result<Prepared> {
    let mut prepared = Prepared { made: None, notes: Vec::new() };
    if clear(mountpoint)? {
        prepared.notes.push(format!("a dead mount at {} was cleaned away", mountpoint.display()));
    }
    prepared.settle(probe(mountpoint), mountpoint, place)?;
    Ok(prepared)
}

/// Detaches the dead mounts at `mountpoint`, of which one may cover another; tells whether there were any. The caller
/// holds the mountpoint's lock: a mount of ours that still answers is about to die with a process that was killed.
///
/// # Errors
/// What `umount2(2)` or `fusermount3` says.
pub fn clear(mountpoint: &Path) -> Result<bool> {
    let end = Instant::now() + DYING;
    let mut cleared = false;
    while mountinfo::at(mountpoint).is_some_and(|mount| mount.is_fuse()) && Instant::now() < end {
        match probe(mountpoint) {
            Found::Dead => {
                detach(mountpoint)?;
                cleared = true;
            }
            Found::Directory(_) if mountinfo::at(mountpoint).is_some_and(|mount| mount.is_workfs()) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => break,
        }
    }
    Ok(cleared)
}

/// What was done for a mountpoint.
pub struct Prepared {
    /// The directory, where it was made.
    pub made: Option<PathBuf>,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl Prepared {
    fn settle(&mut self, found: Found, mountpoint: &Path, place: &Place) -> Result<()> {
        let shown = mountpoint.display();
        match found {
            Found::Directory(_) | Found::Silent if mountinfo::at(mountpoint).is_some_and(|mount| mount.is_fuse()) => {
                let way = format!("a FUSE filesystem is mounted there already; `workfs umount {shown}` first");
                return Err(busy(mountpoint, &way));
            }
            Found::Directory(true) => {}
            Found::Directory(false) => {
                self.notes
                    .push(format!("{shown} is not empty; what it holds is hidden while the workspace is mounted"));
            }
            Found::Nothing => {
                let made = std::fs::DirBuilder::new().mode(0o755).create(mountpoint);
                made.map_err(|error| Error::from_io("make the mountpoint", error).context(shown.to_string()))?;
                self.made = Some(mountpoint.to_owned());
                self.notes.push(format!("{shown} did not exist and was made"));
            }
            Found::NoDirectory => {
                return Err(place.refuse(format!("{shown} is no directory; name one, or a path where one can be made")));
            }
            Found::Silent => return Err(busy(mountpoint, "what is mounted there does not answer")),
            Found::Dead => return Err(busy(mountpoint, "a dead mount is there")),
            Found::Failed(error) => return Err(Error::from_io("mountpoint", error).context(shown.to_string())),
        }
        Ok(())
    }
}

fn busy(mountpoint: &Path, why: &str) -> Error {
    Error::new("mount", Errno::EBUSY).context(format!("{}: {why}", mountpoint.display()))
}

/// Detaches what is mounted at `mountpoint`, and all below it, even if it is in use.
///
/// # Errors
/// What `umount2(2)` or `fusermount3` says.
pub fn detach(mountpoint: &Path) -> Result<()> {
    unmount(mountpoint, UnmountFlags::DETACH, &["-u", "-z"])
}

/// Unmounts what is mounted at `mountpoint`.
///
/// # Errors
/// `EBUSY` where it is in use; what `umount2(2)` or `fusermount3` says.
pub fn unmount_plainly(mountpoint: &Path) -> Result<()> {
    unmount(mountpoint, UnmountFlags::empty(), &["-u"])
}

fn unmount(mountpoint: &Path, flags: UnmountFlags, arguments: &[&str]) -> Result<()> {
    let shown = mountpoint.display();
    if rustix::process::geteuid().is_root() {
        return rustix::mount::unmount(mountpoint, flags | UnmountFlags::NOFOLLOW)
            .map_err(|errno| Error::from_io("unmount", errno.into()).context(shown.to_string()));
    }
    let failed = |error| Error::from_io("run fusermount3", error).context("it is in Debian's package fuse3");
    let mut command = Command::new("fusermount3");
    let output = command.args(arguments).arg("--").arg(mountpoint).stdin(Stdio::null()).output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let errno = if said.contains("busy") { Errno::EBUSY } else { Errno::EPERM };
    Err(Error::new("unmount", errno).context(format!("{shown}: {said}")))
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

    #[test]
    fn what_is_missing_is_made_and_what_is_there_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::Argument("x".to_owned());
        let new = folder.path().join("new");
        let prepared = prepare(&new, &place).expect("made");
        assert_eq!(prepared.made.as_deref(), Some(new.as_path()));
        assert!(prepare(&new, &place).expect("there").notes.is_empty());
        assert!(prepare(folder.path(), &place).expect("there").notes[0].contains("is not empty"));
        std::fs::write(new.join("file"), "").expect("written");
        assert!(
            prepare(&new.join("file"), &place).err().expect("no directory").to_string().contains("is no directory")
        );
    }
}
