//! The same random calls on a mount and on a plain directory: each gives the same answer on both, and the trees stay equal.
//!
//! Names are few, so that they collide; files are kept open, so that they are written after they were unlinked, renamed
//! and replaced.

use crate::harness::{Kind, Scene, each_kind, full, random, tree};
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, RenameFlags, Timespec, Timestamps, XattrFlags};
use std::fs::File;
use std::io::Result;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// So many files are kept open at most.
const HANDLES: usize = 6;

/// One call. Paths are relative to either tree; handles are places in the list of open files.
#[derive(Clone, Debug)]
enum Call {
    Open { path: String, create: bool, truncate: bool, append: bool },
    Close { handle: usize },
    WriteAt { handle: usize, offset: u64, seed: u64, len: usize },
    ReadAt { handle: usize, offset: u64, len: usize },
    SetLen { handle: usize, len: u64 },
    Allocate { handle: usize, punch: bool, offset: u64, len: u64 },
    Fstat { handle: usize },
    Fsync { handle: usize },
    Replace { path: String, seed: u64, len: usize },
    Mkdir { path: String },
    Rmdir { path: String },
    Unlink { path: String },
    Rename { from: String, to: String, mode: u8 },
    Link { from: String, to: String },
    Symlink { path: String, target: String },
    Mknod { path: String },
    Chmod { path: String, mode: u32 },
    Utimes { path: String, seconds: i64, nanos: i64 },
    SetXattr { path: String, name: String, len: usize, mode: u8 },
    RemoveXattr { path: String, name: String },
    Stat { path: String },
    Read { path: String },
    List { path: String },
}

/// A path of one to three names out of four.
fn path(random: &mut fastrand::Rng) -> String {
    let depth = *random.choice(&[1, 1, 2, 2, 3]).expect("there are some");
    let names: Vec<&str> = (0..depth).map(|_| *random.choice(&["a", "b", "c", "d"]).expect("there are some")).collect();
    names.join("/")
}

/// Around the borders of pages and blocks, more often than not.
fn place(random: &mut fastrand::Rng) -> u64 {
    let border = *random.choice(&[0, 0, 4096, 65_536, 131_072, 262_144, 400_000]).expect("there are some");
    (border + random.u64(..6_000)).saturating_sub(3_000)
}

impl Call {
    fn any(random: &mut fastrand::Rng) -> Call {
        let handle = random.usize(..HANDLES);
        let (one, two) = (path(random), path(random));
        let length = if random.u8(..8) == 0 { random.usize(..300_000) } else { random.usize(..5_000) };
        match random.u8(..46) {
            0..4 => Call::Open {
                path: one,
                create: random.bool(),
                truncate: random.u8(..4) == 0,
                append: random.u8(..4) == 0,
            },
            4..6 => Call::Close { handle },
            6..11 => Call::WriteAt { handle, offset: place(random), seed: random.u64(..), len: length },
            11..13 => Call::ReadAt { handle, offset: place(random), len: length },
            13..15 => Call::SetLen { handle, len: place(random) },
            15 => Call::Allocate { handle, punch: random.bool(), offset: place(random), len: 1 + place(random) },
            16..18 => Call::Fstat { handle },
            18 => Call::Fsync { handle },
            19..22 => Call::Replace { path: one, seed: random.u64(..), len: length },
            22..25 => Call::Mkdir { path: one },
            25 => Call::Rmdir { path: one },
            26..28 => Call::Unlink { path: one },
            28..32 => Call::Rename { from: one, to: two, mode: random.u8(..5) },
            32..34 => Call::Link { from: one, to: two },
            34 => Call::Symlink { path: one, target: two },
            35 => Call::Mknod { path: one },
            36 => Call::Chmod { path: one, mode: random.u32(..0o10000) },
            37 => {
                Call::Utimes { path: one, seconds: random.i64(-1 << 31..1 << 33), nanos: random.i64(..1_000_000_000) }
            }
            38 => Call::SetXattr {
                path: one,
                name: format!("user.{}", random.u8(..3)),
                len: random.usize(..200),
                mode: random.u8(..3),
            },
            39 => Call::RemoveXattr { path: one, name: format!("user.{}", random.u8(..3)) },
            40..42 => Call::Stat { path: one },
            42..44 => Call::Read { path: one },
            _ => Call::List { path: if random.bool() { one } else { ".".to_owned() } },
        }
    }
}

/// One of the two trees, with its open files.
struct Side {
    root: PathBuf,
    handles: [Option<File>; HANDLES],
}

/// What two stats must agree on: kind, mode, links (not of directories), size and owner.
fn told(meta: &std::fs::Metadata) -> Vec<u8> {
    let (links, size) = if meta.is_dir() { (0, 0) } else { (meta.nlink(), meta.len()) };
    format!("{:o} {links} {size} {}:{}", meta.mode(), meta.uid(), meta.gid()).into_bytes()
}

impl Side {
    fn new(root: &Path) -> Side {
        Side { root: root.to_owned(), handles: Default::default() }
    }

    fn handle(&self, index: usize) -> Result<&File> {
        self.handles[index].as_ref().ok_or_else(|| std::io::Error::from_raw_os_error(libc::EBADF))
    }

    /// Makes the call; gives what it answers, or its errno.
    fn make(&mut self, call: &Call) -> std::result::Result<Vec<u8>, i32> {
        self.answer(call).map_err(|error| error.raw_os_error().unwrap_or(-1))
    }

    fn answer(&mut self, call: &Call) -> Result<Vec<u8>> {
        match call {
            Call::Open { .. } | Call::Close { .. } => self.answer_of_table(call),
            Call::WriteAt { .. }
            | Call::ReadAt { .. }
            | Call::SetLen { .. }
            | Call::Allocate { .. }
            | Call::Fstat { .. }
            | Call::Fsync { .. } => self.answer_of_handle(call),
            Call::Stat { .. } | Call::Read { .. } | Call::List { .. } => self.answer_of_look(call),
            Call::Chmod { .. } | Call::Utimes { .. } | Call::SetXattr { .. } | Call::RemoveXattr { .. } => {
                self.answer_of_attribute(call)
            }
            _ => self.answer_of_name(call),
        }
    }

    fn answer_of_table(&mut self, call: &Call) -> Result<Vec<u8>> {
        match call {
            Call::Open { path, create, truncate, append } => {
                let mut options = File::options();
                options.read(true).write(true).create(*create).truncate(*truncate && !*append).append(*append);
                // Not through symlinks, which may lead in a circle, and not into a fifo, which waits.
                std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
                let file = options.open(self.root.join(path))?;
                let regular = file.metadata()?.is_file();
                if let Some(free) = self.handles.iter().position(Option::is_none).filter(|_| regular) {
                    self.handles[free] = Some(file);
                }
            }
            Call::Close { handle } => {
                if let Some(file) = self.handles[*handle].take() {
                    crate::harness::sys::close(file)?;
                }
            }
            _ => unreachable!("other calls go elsewhere"),
        }
        Ok(Vec::new())
    }

    fn answer_of_handle(&mut self, call: &Call) -> Result<Vec<u8>> {
        match call {
            Call::WriteAt { handle, offset, seed, len } => {
                self.handle(*handle)?.write_all_at(&random::bytes(*seed, *len), *offset)?;
            }
            Call::ReadAt { handle, offset, len } => {
                let mut bytes = vec![0; *len];
                let read = self.handle(*handle)?.read_at(&mut bytes, *offset)?;
                bytes.truncate(read);
                return Ok(bytes);
            }
            Call::SetLen { handle, len } => self.handle(*handle)?.set_len(*len)?,
            Call::Allocate { handle, punch, offset, len } => {
                let punching = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let mode = if *punch { punching } else { FallocateFlags::empty() };
                rustix::fs::fallocate(self.handle(*handle)?, mode, *offset, *len)?;
            }
            Call::Fstat { handle } => return Ok(told(&self.handle(*handle)?.metadata()?)),
            Call::Fsync { handle } => self.handle(*handle)?.sync_all()?,
            _ => unreachable!("other calls go elsewhere"),
        }
        Ok(Vec::new())
    }

    fn answer_of_name(&mut self, call: &Call) -> Result<Vec<u8>> {
        let at = |path: &String| self.root.join(path);
        match call {
            Call::Replace { path, seed, len } => {
                let mut options = File::options();
                options.write(true).create(true).truncate(true);
                std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
                let file = options.open(at(path))?;
                file.write_all_at(&random::bytes(*seed, *len), 0)?;
                crate::harness::sys::close(file)?;
            }
            Call::Mkdir { path } => std::fs::create_dir(at(path))?,
            Call::Rmdir { path } => std::fs::remove_dir(at(path))?,
            Call::Unlink { path } => std::fs::remove_file(at(path))?,
            Call::Rename { from, to, mode } => {
                let flags = match mode {
                    0 => RenameFlags::NOREPLACE,
                    1 => RenameFlags::EXCHANGE,
                    _ => RenameFlags::empty(),
                };
                rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags)?;
            }
            Call::Link { from, to } => std::fs::hard_link(at(from), at(to))?,
            Call::Symlink { path, target } => symlink(target, at(path))?,
            Call::Mknod { path } => rustix::fs::mknodat(CWD, at(path), FileType::Fifo, Mode::from_raw_mode(0o640), 0)?,
            _ => unreachable!("other calls go elsewhere"),
        }
        Ok(Vec::new())
    }

    fn answer_of_attribute(&mut self, call: &Call) -> Result<Vec<u8>> {
        let at = |path: &String| self.root.join(path);
        match call {
            Call::Chmod { path, mode } => {
                std::fs::symlink_metadata(at(path)).and_then(|meta| match meta.is_symlink() {
                    true => Ok(()),
                    false => std::fs::set_permissions(at(path), PermissionsExt::from_mode(*mode)),
                })?;
            }
            Call::Utimes { path, seconds, nanos } => {
                let time = Timespec { tv_sec: *seconds, tv_nsec: *nanos };
                let times = Timestamps { last_access: time, last_modification: time };
                rustix::fs::utimensat(CWD, at(path), &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
                let meta = std::fs::symlink_metadata(at(path))?;
                return Ok(format!("{} {}", meta.mtime(), meta.mtime_nsec()).into_bytes());
            }
            Call::SetXattr { path, name, len, mode } => {
                let flags = [XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE][usize::from(*mode)];
                rustix::fs::lsetxattr(at(path), name.as_str(), &random::bytes(*len as u64, *len), flags)?;
            }
            Call::RemoveXattr { path, name } => rustix::fs::lremovexattr(at(path), name.as_str())?,
            _ => unreachable!("other calls go elsewhere"),
        }
        Ok(Vec::new())
    }

    fn answer_of_look(&mut self, call: &Call) -> Result<Vec<u8>> {
        let at = |path: &String| self.root.join(path);
        match call {
            Call::Stat { path } => std::fs::symlink_metadata(at(path)).map(|meta| told(&meta)),
            Call::Read { path } => {
                let meta = std::fs::symlink_metadata(at(path))?;
                match meta.is_file() {
                    true => std::fs::read(at(path)),
                    false => Ok(told(&meta)),
                }
            }
            Call::List { path } => {
                let entries = std::fs::read_dir(at(path))?;
                let mut names: Vec<_> =
                    entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_>>()?;
                names.sort();
                Ok(names.join("/".as_ref()).into_encoded_bytes())
            }
            _ => unreachable!("other calls go elsewhere"),
        }
    }
}

/// The trees are equal, but for the times of what was not set by the test.
fn assert_same_trees(left: &Path, right: &Path) {
    let timeless = |root: &Path| {
        let mut told = tree::told(root);
        told.values_mut().for_each(|told| told.mtime = (0, 0));
        told
    };
    tree::assert_same(&timeless(left), &timeless(right));
}

fn run(scene: &mut Scene, calls: usize) {
    let reference = scene.home().join("reference");
    std::fs::create_dir(&reference).expect("mkdir");
    let seed = random::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sides = [Side::new(&reference), Side::new(scene.path())];
    let mut history: Vec<String> = Vec::new();
    for step in 0..calls {
        let call = Call::any(&mut random);
        let [right, answer] = sides.each_mut().map(|side| side.make(&call));
        let short = |answer: &std::result::Result<Vec<u8>, i32>| match answer {
            Ok(bytes) if bytes.len() > 80 => format!("Ok({} bytes)", bytes.len()),
            Ok(bytes) => format!("Ok({:?})", String::from_utf8_lossy(bytes)),
            Err(errno) => format!("Err({})", std::io::Error::from_raw_os_error(*errno)),
        };
        history.push(format!("{step}: {call:?} = {}", short(&right)));
        let last = history.len().saturating_sub(40);
        assert!(
            answer == right,
            "the mount answered {} to the last of these (WORKFS_SEED={seed}):\n{}",
            short(&answer),
            history[last..].join("\n")
        );
        if step % 500 == 499 {
            assert_same_trees(&reference, scene.path());
        }
        if step % 2000 == 1999 && scene.kind().keeps() {
            sides.iter_mut().for_each(|side| side.handles = Default::default());
            scene.remount();
            assert_same_trees(&reference, scene.path());
        }
    }
}

each_kind! {
    fn random_calls_answer_as_a_plain_directory_does(scene) {
        let calls = if full() { 50_000 } else { 4_000 };
        scene.takes(Duration::from_secs(if full() { 1200 } else { 120 }));
        run(scene, if scene.kind() == Kind::Native { 4_000 } else { calls });
    }
}
