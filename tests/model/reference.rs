//! The reference: a filesystem in plain maps, written from POSIX and from what docs/SEMANTICS.md promises, and not from
//! the code that it judges.
//!
//! Where several refusals apply, which of them is told is not promised, so a refused operation gives all of them. A time
//! that an operation sets is known only to lie between the operation's start and its end, until it is seen.

use super::contents::Contents;
use std::collections::BTreeMap;
use workfs::types::{Access, Errno, FILE_MAX, FileKind, Mode, OpenFlags, SetAttr, SetTime, Timestamp};

/// A file of the model.
pub type Id = u64;

pub const ROOT: Id = 1;

/// How many files may be open.
pub const SLOTS: usize = 6;

/// A point in time that lies between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct When {
    pub earliest: i64,
    pub latest: i64,
}

impl When {
    pub fn exactly(time: i64) -> When {
        When { earliest: time, latest: time }
    }

    /// Whether it may be `seen`; from then on it is.
    pub fn admits(&mut self, seen: Timestamp) -> bool {
        let admits = (self.earliest..=self.latest).contains(&seen.0);
        if admits {
            *self = When::exactly(seen.0);
        }
        admits
    }
}

#[derive(Clone)]
pub enum Body {
    File(Contents),
    Dir { entries: BTreeMap<&'static str, Id>, parent: Id },
    Symlink(Vec<u8>),
    Other(FileKind),
}

/// A file's bytes as they were before something that is not committed for certain.
#[derive(Clone)]
pub struct Version {
    pub contents: Contents,
    pub mtime: When,
    pub ctime: When,
}

#[derive(Clone)]
pub struct Inode {
    pub body: Body,
    pub mode: Mode,
    pub uid: u32,
    pub gid: u32,
    /// Names that it has; a directory has one.
    pub names: u32,
    pub xattrs: BTreeMap<&'static str, Vec<u8>>,
    pub atime: When,
    pub mtime: When,
    pub ctime: When,
    /// What a crash may leave instead, oldest first.
    pub earlier: Vec<Version>,
}

impl Inode {
    pub fn kind(&self) -> FileKind {
        match &self.body {
            Body::File(_) => FileKind::Regular,
            Body::Dir { .. } => FileKind::Directory,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Other(kind) => *kind,
        }
    }

    pub fn is_dir(&self) -> bool {
        matches!(self.body, Body::Dir { .. })
    }

    fn drop_privileges(&mut self) {
        if !self.is_dir() {
            self.mode = self.mode.without_privileges();
        }
    }

    /// All that was written is committed.
    pub fn commit(&mut self) {
        self.earlier.clear();
    }
}

/// An open file.
#[derive(Clone, Copy)]
pub struct Handle {
    pub node: Id,
    pub flags: OpenFlags,
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    Root,
    Other,
}

impl Who {
    pub fn id(self) -> (u32, u32) {
        match self {
            Who::Root => (0, 0),
            Who::Other => (1234, 2345),
        }
    }
}

/// What an operation gives, or the refusals that apply.
pub type Verdict<T> = Result<T, Vec<Errno>>;

pub fn refused<T>(errno: Errno) -> Verdict<T> {
    Err(vec![errno])
}

pub struct Model {
    pub nodes: BTreeMap<Id, Inode>,
    pub slots: [Option<Handle>; SLOTS],
    /// When the operation at hand happens.
    pub now: When,
    /// The number of the next file to be made.
    pub next: Id,
}

impl Model {
    /// An empty tree, whose root has these attributes.
    pub fn new(mode: Mode, uid: u32, gid: u32) -> Model {
        let any = When { earliest: i64::MIN, latest: i64::MAX };
        let mut model = Model { nodes: BTreeMap::new(), slots: [None; SLOTS], now: any, next: ROOT };
        model.add(Body::Dir { entries: BTreeMap::new(), parent: ROOT }, mode, uid, gid);
        model.inode_mut(ROOT).names = 1;
        model
    }

    pub fn inode(&self, id: Id) -> &Inode {
        &self.nodes[&id]
    }

    pub fn inode_mut(&mut self, id: Id) -> &mut Inode {
        self.nodes.get_mut(&id).expect("the file is in the model")
    }

    pub fn contents(&self, id: Id) -> &Contents {
        match &self.inode(id).body {
            Body::File(contents) => contents,
            _ => panic!("only regular files are opened"),
        }
    }

    /// The link count: names; of a directory two, and one for each directory in it, or none when it is removed.
    pub fn links(&self, id: Id) -> u32 {
        let inode = self.inode(id);
        match &inode.body {
            Body::Dir { entries, .. } if inode.names > 0 => {
                2 + entries.values().filter(|child| self.inode(**child).is_dir()).count() as u32
            }
            _ => inode.names,
        }
    }

    pub(super) fn add(&mut self, body: Body, mode: Mode, uid: u32, gid: u32) -> Id {
        let (id, now) = (self.next, self.now);
        self.next += 1;
        let (names, xattrs, earlier) = (0, BTreeMap::new(), Vec::new());
        let inode = Inode { body, mode, uid, gid, names, xattrs, atime: now, mtime: now, ctime: now, earlier };
        self.nodes.insert(id, inode);
        id
    }

    /// Something about the file changed now, whatever of its bytes is committed.
    pub fn touch(&mut self, id: Id) {
        let now = self.now;
        let inode = self.inode_mut(id);
        inode.ctime = now;
        inode.earlier.iter_mut().for_each(|version| version.ctime = now);
    }

    pub fn touch_contents(&mut self, id: Id) {
        self.inode_mut(id).mtime = self.now;
        self.touch(id);
    }

    /// Changes a regular file's bytes, which is committed at once with all before it where `commits`.
    pub fn change(&mut self, id: Id, who: Who, commits: bool, change: impl FnOnce(&mut Contents)) {
        let now = self.now;
        let inode = self.inode_mut(id);
        let before = inode.mode;
        if who != Who::Root {
            inode.drop_privileges();
        }
        if inode.mode != before {
            // It is committed before the bytes are.
            self.touch(id);
        }
        let inode = self.inode_mut(id);
        let Body::File(contents) = &mut inode.body else { panic!("only regular files are written") };
        inode.earlier.push(Version { contents: contents.clone(), mtime: inode.mtime, ctime: inode.ctime });
        change(contents);
        (inode.mtime, inode.ctime) = (now, now);
        if commits {
            inode.commit();
        }
    }

    /// Changes attributes (`chmod`, `chown`, `truncate`, `utimensat`).
    pub fn set(&mut self, id: Id, set: &SetAttr, who: Who) -> Verdict<()> {
        match (set.size, self.inode(id).kind()) {
            (None, _) | (_, FileKind::Regular) => {}
            (_, FileKind::Directory) => return refused(Errno::EISDIR),
            _ => return refused(Errno::EINVAL),
        }
        if set.is_empty() {
            return Ok(());
        }
        if let Some(size) = set.size {
            self.change(id, who, true, |contents| contents.resize(size));
        }
        self.touch(id);
        let now = self.now;
        let meant = |time: SetTime| if let SetTime::At(time) = time { When::exactly(time.0) } else { now };
        let inode = self.inode_mut(id);
        if set.uid.is_some() || set.gid.is_some() {
            inode.drop_privileges();
        }
        inode.mode = set.mode.unwrap_or(inode.mode);
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.atime = set.atime.map_or(inode.atime, meant);
        if let Some(mtime) = set.mtime {
            inode.mtime = meant(mtime);
            inode.commit();
        }
        Ok(())
    }

    /// Opens a file that is there.
    pub fn open(&mut self, id: Id, flags: OpenFlags, slot: usize, who: Who) -> Verdict<()> {
        match self.inode(id).kind() {
            FileKind::Regular => {}
            FileKind::Directory => return refused(Errno::EISDIR),
            FileKind::Symlink => return refused(Errno::ELOOP),
            _ => return refused(Errno::ENXIO),
        }
        if flags.truncate {
            self.set(id, &SetAttr::size(0), who)?;
        }
        self.slots[slot] = Some(Handle { node: id, flags });
        Ok(())
    }

    pub fn handle(&self, slot: usize) -> Handle {
        self.slots[slot].expect("the file is open")
    }

    /// Whether an append would pass the largest file.
    pub fn appends_too_far(&self, slot: usize, len: usize) -> bool {
        let handle = self.handle(slot);
        handle.flags.append && self.contents(handle.node).size + len as u64 > FILE_MAX
    }

    pub fn may_write(&self, slot: usize) -> bool {
        self.slots[slot].is_some_and(|handle| handle.flags.access.writes())
    }

    pub fn may_read(&self, slot: usize) -> bool {
        self.slots[slot].is_some_and(|handle| handle.flags.access != Access::Write)
    }

    pub fn is_open(&self, id: Id) -> bool {
        self.slots.iter().flatten().any(|handle| handle.node == id)
    }

    /// Files that have no name go when nobody holds them.
    pub fn retire(&mut self, known: impl Fn(Id) -> bool) {
        let nameless = self.nodes.iter().filter(|(_, inode)| inode.names == 0);
        let gone: Vec<Id> = nameless.map(|(id, _)| *id).filter(|id| !known(*id) && !self.is_open(*id)).collect();
        gone.iter().for_each(|id| drop(self.nodes.remove(id)));
    }

    /// Nobody has anything open or knows anything.
    pub fn let_go(&mut self) {
        self.slots = [None; SLOTS];
        self.retire(|_| false);
    }
}
