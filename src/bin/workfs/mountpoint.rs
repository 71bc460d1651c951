//! The directory at which to mount: freed of dead mounts, and made where it is missing.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use workfs::assemble::Place;
use workfs::fs::{Found, clear_dead, mounted_at, probe};
use workfs::types::{Errno, Error, Result};

/// How long a mount may outlive the lock of its process, which the kernel takes apart piece by piece.
const DYING: Duration = Duration::from_secs(2);

/// What was done for a mountpoint.
pub struct Prepared {
    /// The directory, where it was made.
    pub made: Option<PathBuf>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// Makes `mountpoint` ready: cleans a dead mount away, makes the directory where only its last part is missing.
/// `place` is where the mountpoint was written.
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
    loop {
        cleared |= clear_dead(mountpoint)?;
        if !mounted_at(mountpoint)?.is_some_and(|mount| mount.is_workfs()) || Instant::now() > end {
            return Ok(cleared);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Prepared {
    fn settle(&mut self, found: Found, mountpoint: &Path, place: &Place) -> Result<()> {
        let shown = mountpoint.display();
        match found {
            Found::Directory { .. } | Found::Silent if mounted_at(mountpoint)?.is_some_and(|mount| mount.is_fuse()) => {
                let way = format!("a FUSE filesystem is mounted there already; `workfs umount {shown}` first");
                return Err(busy(mountpoint, &way));
            }
            Found::Directory { empty: true } => {}
            Found::Directory { empty: false } => {
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

#[cfg(test)]
mod tests {
    use super::*;

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
