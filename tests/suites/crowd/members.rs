//! Who is in the crowd and what they do. Whatever an operation may answer while others work beside it is named with it;
//! anything else ends the test.

use super::sealed;
use crate::harness::sys;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{File, create_dir, hard_link, read_dir, remove_dir, remove_file, rename, symlink_metadata};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The directories that stay for the whole time.
pub const DIRS: usize = 6;
/// So many names are fought for in each.
const NAMES: usize = 12;
/// A file in each directory that is never touched.
pub const ANCHOR: &str = "anchor";
/// The file that all writers append to.
pub const LOG: &str = "log";

/// One of the crowd.
pub struct Member {
    /// Where all work.
    pub place: PathBuf,
    /// Different from all others'.
    pub number: usize,
    /// Its choices.
    pub random: fastrand::Rng,
    /// When it stops.
    pub end: Instant,
}

/// The answer of an operation, where the answers in `allowed` are as good as success.
#[track_caller]
fn fine<T>(what: &str, path: &Path, result: std::io::Result<T>, allowed: &[Errno]) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let errno = Errno::from_io_error(&error);
            let allowed = errno.is_some_and(|errno| allowed.contains(&errno));
            assert!(allowed, "{what} {}: {error}", path.display());
            None
        }
    }
}

impl Member {
    /// Does `act` until the time is up, and tells how often.
    pub fn keep_on(mut self, act: fn(&mut Self, usize)) -> usize {
        let mut round = 0;
        while Instant::now() < self.end {
            act(&mut self, round);
            round += 1;
        }
        round
    }

    fn dir(&mut self) -> PathBuf {
        self.place.join(format!("d{}", self.random.usize(..DIRS)))
    }

    /// A name of a file that others want too.
    fn shared(&mut self) -> PathBuf {
        let name = format!("f{}", self.random.usize(..NAMES));
        self.dir().join(name)
    }

    /// A directory that comes, goes and moves.
    fn moving(&mut self) -> PathBuf {
        let name = format!("s{}", self.random.usize(..3));
        self.dir().join(name)
    }

    /// Writes a new file and renames it over one that others read, links it, removes it, makes and removes directories,
    /// and appends to the log of all.
    pub fn write(&mut self, round: usize) {
        match self.random.u8(..20) {
            0..8 => self.replace(round),
            8..10 => {
                let (from, to) = (self.shared(), self.shared());
                fine("link", &to, hard_link(&from, &to), &[Errno::NOENT, Errno::EXIST]);
            }
            10..13 => {
                let path = self.shared();
                fine("unlink", &path, remove_file(&path), &[Errno::NOENT]);
            }
            13..15 => {
                let dir = self.moving();
                fine("mkdir", &dir, create_dir(&dir), &[Errno::EXIST]);
                let inner = dir.join(format!("w{}", self.number));
                fine("create", &inner, std::fs::write(&inner, sealed::bytes(round as u64)), &[Errno::NOENT]);
            }
            15..17 => self.clear(),
            _ => self.append(),
        }
    }

    fn replace(&mut self, round: usize) {
        let fresh = self.dir().join(format!(".w{}", self.number));
        let bytes = sealed::bytes((self.number as u64) << 32 | round as u64);
        let mut file = File::create(&fresh).unwrap_or_else(|error| panic!("create {}: {error}", fresh.display()));
        for piece in bytes.chunks(20_000) {
            file.write_all(piece).expect("write");
        }
        if round.is_multiple_of(16) {
            file.sync_all().expect("fsync");
        }
        sys::close(file).expect("close");
        let to = self.shared();
        rename(&fresh, &to).unwrap_or_else(|error| panic!("rename over {}: {error}", to.display()));
    }

    /// Empties a directory that moves, and removes it.
    fn clear(&mut self) {
        let dir = self.moving();
        for entry in fine("list", &dir, read_dir(&dir), &[Errno::NOENT]).into_iter().flatten() {
            let Some(entry) = fine("list", &dir, entry, &[Errno::NOENT]) else { break };
            fine("unlink", &entry.path(), remove_file(entry.path()), &[Errno::NOENT]);
        }
        fine("rmdir", &dir, remove_dir(&dir), &[Errno::NOENT, Errno::NOTEMPTY]);
    }

    fn append(&mut self) {
        let path = self.place.join(LOG);
        let mut log = File::options().append(true).open(&path).expect("the log can be opened");
        log.write_all(&sealed::record(self.random.u64(..))).expect("append");
        sys::close(log).expect("close");
    }

    /// Reads a file whole: whatever is there was written whole.
    pub fn read(&mut self, _: usize) {
        let path = self.shared();
        let Some(mut file) = fine("open", &path, File::open(&path), &[Errno::NOENT]) else { return };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
        sealed::check(&path, &bytes);
        assert_eq!(file.metadata().expect("fstat").len(), bytes.len() as u64, "{}", path.display());
    }

    /// Moves files and directories about, in every way in which it can be done.
    pub fn rename(&mut self, _: usize) {
        let (from, to, flags) = match self.random.u8(..8) {
            0..3 => (self.shared(), self.shared(), RenameFlags::empty()),
            3 => (self.shared(), self.shared(), RenameFlags::NOREPLACE),
            4 => (self.shared(), self.shared(), RenameFlags::EXCHANGE),
            5 => (self.moving(), self.moving(), RenameFlags::EXCHANGE),
            _ => (self.moving(), self.moving(), RenameFlags::empty()),
        };
        let allowed = [Errno::NOENT, Errno::EXIST, Errno::NOTEMPTY];
        let result = renameat_with(CWD, &from, CWD, &to, flags).map_err(Into::into);
        fine("rename", &from, result, &allowed);
    }

    /// Walks through everything: what stays in a directory is told once, whatever comes and goes.
    pub fn walk(&mut self, _: usize) {
        for number in 0..DIRS {
            let dir = self.place.join(format!("d{number}"));
            let mut seen = BTreeSet::new();
            for entry in read_dir(&dir).expect("a directory that stays can be listed") {
                let path = entry.expect("an entry").path();
                let told = fine("stat", &path, symlink_metadata(&path), &[Errno::NOENT]);
                if told.is_some_and(|told| told.is_dir()) {
                    let inner = fine("list", &path, read_dir(&path), &[Errno::NOENT]);
                    inner.into_iter().flatten().for_each(|entry| drop(fine("list", &path, entry, &[Errno::NOENT])));
                }
                let name = path.file_name().expect("it has a name").to_owned();
                // A name that comes again under another file may be told again; what stays may not.
                assert!(seen.insert(name.clone()) || name != ANCHOR, "{}: told twice", path.display());
            }
            assert!(seen.contains(std::ffi::OsStr::new(ANCHOR)), "{}: what stays was not told", dir.display());
        }
    }
}
