//! The load under which the daemon is killed: a process outside that writes down what it has done, and only then.

use super::journal::{Content, Journal, Step};
use crate::harness::actor::Part;
use crate::harness::{random, sys};
use rustix::fs::{XattrFlags, fsetxattr};
use std::fs::{File, Permissions};
use std::io::{Error, Result, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// The extended attribute that every file bears.
pub const XATTR: &str = "user.seed";

/// So many names a writer keeps; beyond them it removes.
const KEPT: usize = 250;

/// A child's role: works in the scene whose folder is `path`, as writer `numbers[0]` with the seed `numbers[1]`, until
/// the mount is gone.
pub fn keep_writing(part: &Part) {
    let mut writer = Writer::new(&part.path, part.numbers[0], part.numbers[1]);
    let error = loop {
        if let Err(error) = writer.step() {
            break error;
        }
    };
    // What a request in flight, one after it, and one that needs a page are told when the server dies.
    let end = [libc::ECONNABORTED, libc::ENOTCONN, libc::EIO].contains(&error.raw_os_error().unwrap_or(0));
    assert!(end, "the writer failed otherwise than by the end of its mount: {error}");
}

struct Writer {
    place: PathBuf,
    journal: Journal,
    random: fastrand::Rng,
    dir: String,
    names: Vec<String>,
    next: u64,
}

impl Writer {
    fn new(home: &Path, number: u64, seed: u64) -> Writer {
        let dir = format!("w{number}-{seed:x}");
        let random = fastrand::Rng::with_seed(seed);
        Writer {
            place: home.join("mnt/place"),
            journal: Journal::open(home, number),
            random,
            dir,
            names: Vec::new(),
            next: 0,
        }
    }

    fn step(&mut self) -> Result<()> {
        if self.next == 0 {
            self.done(Step::Directory { path: self.dir.clone() }, |writer, step| {
                std::fs::create_dir(writer.at(step.path()))
            })?;
        }
        match self.random.u8(..100) {
            _ if self.names.len() > KEPT => self.remove(),
            0..50 => self.create(),
            50..70 if !self.names.is_empty() => self.replace(),
            70..80 if !self.names.is_empty() => self.link(),
            80..88 if !self.names.is_empty() => self.rename(),
            88..94 if !self.names.is_empty() => self.remove(),
            94..97 => self.symlink(),
            _ => self.rewrite(),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.join(path)
    }

    fn new_path(&mut self) -> String {
        self.next += 1;
        format!("{}/f{}", self.dir, self.next)
    }

    fn some_path(&mut self) -> usize {
        self.random.usize(..self.names.len())
    }

    /// Writes down what is begun, does it, and writes down that it is done.
    fn done(&mut self, step: Step, act: impl FnOnce(&Writer, &Step) -> Result<()>) -> Result<()> {
        self.journal.begin(&step);
        act(self, &step)?;
        self.next += 1;
        self.journal.done();
        Ok(())
    }

    /// Mostly small, sometimes some megabytes.
    fn content(&mut self) -> Content {
        let length = match self.random.u8(..20) {
            0 => self.random.usize(..2 << 20),
            1..5 => self.random.usize(..200_000),
            _ => self.random.usize(..5_000),
        };
        let mode = if self.random.bool() { 0o640 } else { 0o755 };
        let mtime = (self.random.u32(..) as i64, self.random.u32(..1_000_000_000));
        Content { seed: self.random.u64(..), length, mode, mtime }
    }

    fn create(&mut self) -> Result<()> {
        let (path, content) = (self.new_path(), self.content());
        self.done(Step::File { path: path.clone(), content }, |writer, step| {
            write_and_close(&writer.at(step.path()), content)
        })?;
        self.names.push(path);
        Ok(())
    }

    fn replace(&mut self) -> Result<()> {
        let (index, content) = (self.some_path(), self.content());
        let path = self.names[index].clone();
        self.done(Step::Replace { path, content }, |writer, step| {
            let fresh = writer.at(&format!("{}.new", step.path()));
            write_and_close(&fresh, content)?;
            std::fs::rename(fresh, writer.at(step.path()))
        })
    }

    /// Written again in place: until it is closed, nothing is promised of it.
    fn rewrite(&mut self) -> Result<()> {
        if self.names.is_empty() {
            return Ok(());
        }
        let (index, content) = (self.some_path(), self.content());
        let path = self.names[index].clone();
        self.done(Step::Rewrite { path, content }, |writer, step| write_and_close(&writer.at(step.path()), content))
    }

    fn link(&mut self) -> Result<()> {
        let (index, path) = (self.some_path(), self.new_path());
        let of = self.names[index].clone();
        let step = Step::Link { of: of.clone(), path: path.clone() };
        self.done(step, |writer, step| std::fs::hard_link(writer.at(&of), writer.at(step.path())))?;
        self.names.push(path);
        Ok(())
    }

    fn rename(&mut self) -> Result<()> {
        let (index, to) = (self.some_path(), self.new_path());
        let path = std::mem::replace(&mut self.names[index], to.clone());
        self.done(Step::Rename { path, to: to.clone() }, |writer, step| {
            std::fs::rename(writer.at(step.path()), writer.at(&to))
        })
    }

    fn remove(&mut self) -> Result<()> {
        let index = self.some_path();
        let path = self.names.swap_remove(index);
        self.done(Step::Remove { path }, |writer, step| std::fs::remove_file(writer.at(step.path())))
    }

    fn symlink(&mut self) -> Result<()> {
        let (path, target) = (self.new_path(), format!("to-{}", self.next));
        let step = Step::Symlink { path, target: target.clone() };
        self.done(step, |writer, step| symlink(&target, writer.at(step.path())))
    }
}

/// Writes a file with all that belongs to it, and returns when its close has succeeded.
fn write_and_close(path: &Path, content: Content) -> Result<()> {
    let mut file = File::create(path)?;
    let bytes = random::bytes(content.seed, content.length);
    for piece in bytes.chunks(70_000) {
        file.write_all(piece)?;
    }
    file.set_permissions(Permissions::from_mode(content.mode))?;
    fsetxattr(&file, XATTR, &content.seed.to_le_bytes(), XattrFlags::empty()).map_err(Error::from)?;
    file.set_modified(UNIX_EPOCH + Duration::new(content.mtime.0 as u64, content.mtime.1))?;
    sys::close(file)
}
