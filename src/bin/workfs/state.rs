//! What is noted of each mount, so that other commands find it: `ID.json`, the control socket `ID.sock`, the log
//! `ID.log`, and `ID.lock`, which the serving process holds locked as long as it lives.

use crate::process;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use workfs::types::{Errno, Error, Result};

/// How long a lock is waited for that nobody holds in earnest.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is noted of a mount.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The process that serves it.
    pub pid: u32,
    /// When that process started, in clock ticks since boot, since pids come again.
    pub process_start: u64,
    /// Where it is mounted; canonical.
    pub mountpoint: PathBuf,
    /// Its log; `None` where it goes to a terminal.
    pub log: Option<PathBuf>,
    /// When it was mounted, in seconds since 1970.
    pub started: u64,
    /// The version of workfs that serves it.
    pub version: String,
}

impl Entry {
    /// Whether the process still is there. It says nothing of whether it answers.
    pub fn is_alive(&self) -> bool {
        process::started(self.pid) == Some(self.process_start)
    }
}

/// The directory with the notes of one user's mounts.
#[derive(Clone)]
pub struct StateDir(PathBuf);

/// Held locked while a process serves, or is about to serve, a mountpoint.
pub struct Lock {
    _file: File,
    path: PathBuf,
}

impl StateDir {
    /// The user's directory, made when it is missing, open to nobody else.
    ///
    /// # Errors
    /// `EACCES` where somebody else owns it; what `mkdir(2)` says.
    pub fn open() -> Result<StateDir> {
        let path = locate().ok_or_else(|| {
            Error::new("state directory", Errno::ENOENT)
                .context("neither XDG_RUNTIME_DIR nor HOME is set; set WORKFS_STATE_DIR to a directory of yours")
        })?;
        let way_out = "set WORKFS_STATE_DIR to a directory of yours";
        let failed =
            |error| Error::from_io("state directory", error).context(format!("{} ({way_out} instead)", path.display()));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?;
        let owner = std::fs::metadata(&path).map_err(failed)?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            return Err(Error::new("state directory", Errno::EACCES)
                .context(format!("{} belongs to user {owner}; {way_out}", path.display())));
        }
        Ok(StateDir(path))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The log of the mount at `mountpoint`, where the config names no other.
    pub fn log(&self, mountpoint: &Path) -> PathBuf {
        self.file(mountpoint, "log")
    }

    /// The control socket of the mount at `mountpoint`.
    pub fn socket(&self, mountpoint: &Path) -> PathBuf {
        self.file(mountpoint, "sock")
    }

    fn file(&self, mountpoint: &Path, kind: &str) -> PathBuf {
        self.0.join(format!("{:016x}.{kind}", id(mountpoint)))
    }

    /// What is noted of `mountpoint`.
    pub fn entry(&self, mountpoint: &Path) -> Option<Entry> {
        read_entry(&self.file(mountpoint, "json"))
    }

    /// All that is noted, ordered by mountpoint.
    pub fn entries(&self) -> Vec<Entry> {
        let Ok(files) = std::fs::read_dir(&self.0) else { return Vec::new() };
        let files = files.filter_map(|file| Some(file.ok()?.path()));
        let json = files.filter(|path| path.extension().is_some_and(|kind| kind == "json"));
        let mut entries = json.filter_map(|path| read_entry(&path)).collect::<Vec<_>>();
        entries.sort_by(|a, b| a.mountpoint.cmp(&b.mountpoint));
        entries
    }

    /// Notes a mount, whole or not at all.
    ///
    /// # Errors
    /// What `open(2)`, `write(2)` and `rename(2)` say.
    pub fn write(&self, entry: &Entry) -> Result<()> {
        let path = self.file(&entry.mountpoint, "json");
        let failed = |error| Error::from_io("note the mount", error).context(path.display().to_string());
        let mut file = tempfile::NamedTempFile::new_in(&self.0).map_err(failed)?;
        serde_json::to_writer_pretty(&mut file, entry).map_err(|error| failed(error.into()))?;
        file.flush().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Forgets a mount. Its log stays, so that one can read how it ended.
    pub fn forget(&self, mountpoint: &Path) {
        for kind in ["json", "sock"] {
            let _ = std::fs::remove_file(self.file(mountpoint, kind));
        }
    }

    /// Takes the lock of `mountpoint`; `None` where somebody has it and `serves` says that it is in earnest. A process
    /// that is just starting, or was killed and is not quite gone, is waited for.
    ///
    /// # Errors
    /// What `open(2)` and `flock(2)` say.
    pub fn lock(&self, mountpoint: &Path, serves: impl Fn() -> bool) -> Result<Option<Lock>> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(lock) = self.try_lock(mountpoint)? {
                return Ok(Some(lock));
            }
            if Instant::now() > end || serves() {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn try_lock(&self, mountpoint: &Path) -> Result<Option<Lock>> {
        let path = self.file(mountpoint, "lock");
        let failed = |error| Error::from_io("lock the mountpoint", error).context(path.display().to_string());
        loop {
            let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // Who had it before may have removed the file; then this lock holds nobody off.
            let mine = file.metadata().map_err(failed)?.ino();
            if std::fs::metadata(&path).is_ok_and(|now| now.ino() == mine) {
                return Ok(Some(Lock { _file: file, path }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while it is locked, so that nobody can have taken it meanwhile.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The path of a socket, short enough for `sockaddr_un` wherever its directory lies; good while the file is open.
///
/// # Errors
/// What `open(2)` says of the directory.
pub fn short_path(socket: &Path) -> std::io::Result<(PathBuf, File)> {
    let folder = File::open(socket.parent().unwrap_or(Path::new("/")))?;
    let name = socket.file_name().unwrap_or_default();
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok((short, folder))
}

fn read_entry(path: &Path) -> Option<Entry> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn locate() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = variable("WORKFS_STATE_DIR") {
        return std::path::absolute(path).ok();
    }
    if rustix::process::geteuid().is_root() {
        return Some("/run/workfs".into());
    }
    variable("XDG_RUNTIME_DIR")
        .filter(|path| path.is_dir())
        .map(|path| path.join("workfs"))
        .or_else(|| variable("HOME").map(|home| home.join(".local/state/workfs")))
}

/// A number for a mountpoint that is the same in every version of workfs (FNV-1a).
fn id(mountpoint: &Path) -> u64 {
    use std::os::unix::ffi::OsStrExt;
    let bytes = mountpoint.as_os_str().as_bytes().iter();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_keeps_others_off_until_it_is_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir(folder.path().to_owned());
        let lock = state.try_lock(Path::new("/a")).expect("no error").expect("free");
        assert!(state.lock(Path::new("/a"), || true).expect("no error").is_none());
        assert!(state.try_lock(Path::new("/a")).expect("no error").is_none());
        assert!(state.try_lock(Path::new("/b")).expect("no error").is_some());
        drop(lock);
        assert!(state.lock(Path::new("/a"), || false).expect("no error").is_some());
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
    }

    #[test]
    fn what_is_noted_is_found_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir(folder.path().to_owned());
        let pid = std::process::id();
        let mut entry = Entry {
            pid,
            process_start: process::started(pid).expect("we run"),
            mountpoint: "/mnt/b".into(),
            log: None,
            started: 1,
            version: "0".to_owned(),
        };
        state.write(&entry).expect("written");
        assert!(state.entry(Path::new("/mnt/b")).expect("noted").is_alive());
        entry.mountpoint = "/mnt/a".into();
        entry.process_start += 1;
        state.write(&entry).expect("written");
        let found = state.entries();
        assert_eq!(found.iter().map(|entry| entry.is_alive()).collect::<Vec<_>>(), [false, true]);
        state.forget(Path::new("/mnt/b"));
        assert_eq!(state.entries().len(), 1);
    }
}
