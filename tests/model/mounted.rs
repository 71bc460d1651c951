//! The operations through the kernel, on a mount or a native directory.

use super::names::At;
use super::op::Op;
use super::reference::{Id, Model, SLOTS};
use super::world::{Answer, World};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, OFlags, RenameFlags, SeekFrom, Timespec, Timestamps, Uid,
};
use rustix::fs::{UTIME_NOW, UTIME_OMIT, XattrFlags};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, Metadata};
use std::io::{Error, Result};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use workfs::types::{
    Access, AllocateMode, Attr, Errno, FileKind, Mode, NodeId, OpenFlags, RenameMode, Seek, SetAttr, SetTime,
    Timestamp, XattrMode,
};

/// A directory, and what is open below it.
pub struct Mounted {
    root: PathBuf,
    files: [Option<File>; SLOTS],
    /// Numbers of files that are alive, so that none is given twice.
    numbers: HashMap<u64, Id>,
}

fn attr_of(meta: &Metadata) -> Attr {
    let time = |seconds, nanos: i64| Timestamp::from_parts(seconds, nanos as u32);
    Attr {
        node: NodeId(meta.ino()),
        kind: FileKind::from_st_mode(meta.mode()).expect("a kind"),
        mode: Mode::new(meta.mode()),
        uid: meta.uid(),
        gid: meta.gid(),
        links: meta.nlink() as u32,
        rdev: meta.rdev() as u32,
        size: meta.len(),
        blocks: meta.blocks(),
        block_size: meta.blksize() as u32,
        atime: time(meta.atime(), meta.atime_nsec()),
        mtime: time(meta.mtime(), meta.mtime_nsec()),
        ctime: time(meta.ctime(), meta.ctime_nsec()),
    }
}

fn raw_mode(mode: Mode) -> rustix::fs::Mode {
    rustix::fs::Mode::from_raw_mode(mode.bits())
}

fn raw_flags(flags: OpenFlags) -> OFlags {
    let mut raw = match flags.access {
        Access::Read => OFlags::RDONLY,
        Access::Write => OFlags::WRONLY,
        Access::ReadWrite => OFlags::RDWR,
    } | OFlags::CLOEXEC
        | OFlags::NOFOLLOW;
    raw.set(OFlags::APPEND, flags.append);
    raw.set(OFlags::TRUNC, flags.truncate);
    raw.set(OFlags::EXCL, flags.exclusive);
    raw.set(OFlags::DSYNC, flags.sync);
    raw
}

fn set(path: &Path, set: &SetAttr, kind: FileKind) -> Result<()> {
    // What may be refused comes first, since several calls stand for one.
    match (set.size, kind) {
        (Some(_), FileKind::Symlink) => return Err(Error::from_raw_os_error(libc::EINVAL)),
        (Some(size), _) => crate::harness::sys::truncate(path, size)?,
        (None, _) => {}
    }
    if set.uid.is_some() || set.gid.is_some() {
        let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
        rustix::fs::chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if let Some(mode) = set.mode {
        rustix::fs::chmod(path, raw_mode(mode))?;
    }
    if set.atime.is_some() || set.mtime.is_some() {
        let times = Timestamps { last_access: raw_time(set.atime), last_modification: raw_time(set.mtime) };
        rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn raw_time(time: Option<SetTime>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(SetTime::Now) => (0, UTIME_NOW),
        Some(SetTime::At(time)) => (time.seconds(), time.nanos().into()),
    };
    Timespec { tv_sec, tv_nsec }
}

impl Mounted {
    pub fn new(root: &Path) -> Mounted {
        Mounted { root: root.to_owned(), files: Default::default(), numbers: HashMap::new() }
    }

    /// Closes all files, whatever that answers.
    pub fn close_files(&mut self) {
        self.files = Default::default();
    }

    fn path(&self, model: &Model, id: Id) -> PathBuf {
        model.path(id).expect("it has a name").iter().fold(self.root.clone(), |path, name| path.join(name))
    }

    fn at(&self, model: &Model, at: At) -> PathBuf {
        self.path(model, at.dir).join(at.name)
    }

    fn file(&self, slot: usize) -> &File {
        self.files[slot].as_ref().expect("the file is open")
    }

    fn meet(&mut self, id: Id, meta: &Metadata) -> Answer {
        let owner = *self.numbers.entry(meta.ino()).or_insert(id);
        assert_eq!(owner, id, "number {} is that of another file, which is alive", meta.ino());
        Answer::Attr(Box::new(attr_of(meta)))
    }

    fn see(&mut self, model: &Model, id: Id) -> Result<Answer> {
        let slot = model.slots.iter().position(|handle| handle.is_some_and(|handle| handle.node == id));
        let meta = match slot.filter(|_| model.path(id).is_none()) {
            Some(slot) => self.file(slot).metadata()?,
            None => self.path(model, id).symlink_metadata()?,
        };
        Ok(self.meet(id, &meta))
    }

    fn see_at(&mut self, model: &Model, at: At) -> Result<Answer> {
        let meta = self.at(model, at).symlink_metadata()?;
        Ok(self.meet(model.child(at).unwrap_or(model.next), &meta))
    }

    fn of_names(&mut self, model: &Model, op: &Op) -> Result<Answer> {
        match op {
            Op::Mkdir { at, mode, .. } => rustix::fs::mkdir(self.at(model, *at), raw_mode(*mode))?,
            Op::Mknod { at, kind, mode, .. } => {
                let kind = FileType::from_raw_mode(kind.st_mode());
                rustix::fs::mknodat(CWD, self.at(model, *at), kind, raw_mode(*mode), 0)?;
            }
            Op::Symlink { at, target, .. } => rustix::fs::symlink(&target[..], self.at(model, *at))?,
            Op::Link { node, at } => {
                rustix::fs::link(self.path(model, *node), self.at(model, *at))?;
                let meta = self.at(model, *at).symlink_metadata()?;
                return Ok(self.meet(*node, &meta));
            }
            Op::Unlink(at) => return std::fs::remove_file(self.at(model, *at)).map(|()| Answer::Done),
            Op::Rmdir(at) => return std::fs::remove_dir(self.at(model, *at)).map(|()| Answer::Done),
            Op::Rename { from, to, mode } => {
                let flags = match mode {
                    RenameMode::Replace => RenameFlags::empty(),
                    RenameMode::NoReplace => RenameFlags::NOREPLACE,
                    RenameMode::Exchange => RenameFlags::EXCHANGE,
                };
                rustix::fs::renameat_with(CWD, self.at(model, *from), CWD, self.at(model, *to), flags)?;
                return Ok(Answer::Done);
            }
            Op::Lookup(_) => {}
            other => unreachable!("{other:?}"),
        }
        match op {
            Op::Mkdir { at, .. } | Op::Mknod { at, .. } | Op::Symlink { at, .. } | Op::Lookup(at) => {
                self.see_at(model, *at)
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn open(&mut self, path: &Path, flags: OFlags, mode: Mode, (slot, id): (usize, Id)) -> Result<Answer> {
        let file = File::from(rustix::fs::open(path, flags, raw_mode(mode))?);
        let meta = file.metadata()?;
        self.files[slot] = Some(file);
        Ok(self.meet(id, &meta))
    }

    fn of_handle(&mut self, op: &Op) -> Result<Answer> {
        match op {
            Op::Close { slot, .. } => {
                crate::harness::sys::close(self.files[*slot].take().expect("the file is open"))?;
            }
            Op::Write { slot, offset, data, .. } => self.file(*slot).write_all_at(data, *offset)?,
            Op::Read { slot, offset, len } => {
                return Ok(Answer::Bytes(read(self.file(*slot), *offset, u64::from(*len))?));
            }
            Op::Truncate { slot, size, .. } => self.file(*slot).set_len(*size)?,
            Op::Allocate { slot, offset, len, mode, .. } => {
                let how = match mode {
                    AllocateMode::Extend => FallocateFlags::empty(),
                    AllocateMode::KeepSize => FallocateFlags::KEEP_SIZE,
                    AllocateMode::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    AllocateMode::Zero => FallocateFlags::ZERO_RANGE,
                    AllocateMode::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                };
                rustix::fs::fallocate(self.file(*slot), how, *offset, *len)?;
            }
            Op::Seek { slot, offset, whence } => {
                let from = if *whence == Seek::Data { SeekFrom::Data(*offset) } else { SeekFrom::Hole(*offset) };
                return Ok(Answer::Place(rustix::fs::seek(self.file(*slot), from)?));
            }
            Op::Flush { slot, durable: true } => self.file(*slot).sync_all()?,
            Op::Flush { slot, durable: false } => crate::harness::sys::close(self.file(*slot).try_clone()?)?,
            other => unreachable!("{other:?}"),
        }
        Ok(Answer::Done)
    }

    fn of_xattrs(&mut self, model: &Model, op: &Op) -> Result<Answer> {
        let mut buffer = vec![0; 65_536];
        match op {
            Op::SetXattr { node, name, value, mode } => {
                let flags = match mode {
                    XattrMode::Set => XattrFlags::empty(),
                    XattrMode::Create => XattrFlags::CREATE,
                    XattrMode::Replace => XattrFlags::REPLACE,
                };
                rustix::fs::lsetxattr(self.path(model, *node), *name, value, flags)?;
                Ok(Answer::Done)
            }
            Op::GetXattr { node, name } => {
                let len = rustix::fs::lgetxattr(self.path(model, *node), *name, &mut buffer)?;
                Ok(Answer::Bytes(buffer[..len].to_vec()))
            }
            Op::RemoveXattr { node, name } => {
                rustix::fs::lremovexattr(self.path(model, *node), *name)?;
                Ok(Answer::Done)
            }
            Op::ListXattr(node) => {
                let len = rustix::fs::llistxattr(self.path(model, *node), &mut buffer)?;
                let names = buffer[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
                Ok(Answer::Xattrs(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()))
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn answer(&mut self, op: &Op, model: &Model) -> Result<Answer> {
        match op {
            Op::Stat(id) => self.see(model, *id),
            Op::Set { node, set: what, .. } => {
                set(&self.path(model, *node), what, model.inode(*node).kind())?;
                self.see(model, *node)
            }
            Op::Create { at, mode, flags, slot, .. } => {
                let id = model.child(*at).unwrap_or(model.next);
                self.open(&self.at(model, *at), raw_flags(*flags) | OFlags::CREATE, *mode, (*slot, id))
            }
            Op::Open { node, flags, slot, .. } => {
                self.open(&self.path(model, *node), raw_flags(*flags), Mode::new(0), (*slot, *node))
            }
            Op::ReadLink(node) => {
                let target = rustix::fs::readlink(self.path(model, *node), Vec::new())?;
                Ok(Answer::Bytes(target.into_bytes()))
            }
            Op::List { dir, .. } => self.list(&self.path(model, *dir)),
            Op::SetXattr { .. } | Op::GetXattr { .. } | Op::RemoveXattr { .. } | Op::ListXattr(_) => {
                self.of_xattrs(model, op)
            }
            Op::SyncAll => {
                rustix::fs::syncfs(File::open(&self.root)?)?;
                Ok(Answer::Done)
            }
            Op::Pause => {
                std::thread::sleep(std::time::Duration::from_millis(15));
                Ok(Answer::Done)
            }
            Op::Close { .. } | Op::Write { .. } | Op::Read { .. } | Op::Truncate { .. } => self.of_handle(op),
            Op::Allocate { .. } | Op::Seek { .. } | Op::Flush { .. } => self.of_handle(op),
            _ => self.of_names(model, op),
        }
    }

    fn list(&self, dir: &Path) -> Result<Answer> {
        let mut names = BTreeMap::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let kind = FileKind::from_st_mode(entry.path().symlink_metadata()?.mode()).expect("a kind");
            let name = entry.file_name().into_string().expect("text");
            assert!(names.insert(name, kind).is_none(), "{entry:?} is listed twice");
        }
        Ok(Answer::Names(names))
    }
}

fn read(file: &File, offset: u64, len: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64)? {
            0 => break,
            more => done += more,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

impl World for Mounted {
    async fn perform(&mut self, op: &Op, model: &Model) -> Answer {
        let refused = |error: Error| Errno::from_raw(error.raw_os_error().expect("an errno"));
        self.answer(op, model).unwrap_or_else(|error| Answer::Refused(refused(error)))
    }

    async fn bytes(&mut self, model: &Model, id: Id, range: Range<u64>) -> Vec<u8> {
        let file = File::open(self.path(model, id)).expect("open");
        read(&file, range.start, range.end - range.start).expect("read")
    }

    async fn attr(&mut self, model: &Model, id: Id) -> Attr {
        attr_of(&self.path(model, id).symlink_metadata().expect("stat"))
    }

    fn knows(&self, _: Id) -> bool {
        false
    }

    fn retired(&mut self, model: &Model) {
        self.numbers.retain(|_, id| model.nodes.contains_key(id));
    }
}
