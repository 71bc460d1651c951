//! What a store keeps: typed records under typed keys.
//!
//! An inode is two records. Its identity ([`Inode`]) is expected by whoever builds on it and rarely written. Its
//! statistics ([`Stats`]) are touched by many at once, only by operations that commute (`add`, `max`, `set`), and
//! never expected: two creates in one directory do not conflict.

use crate::mounts::locks::HeldLock;
use crate::types::{FileKind, LockOwner, Mode, Name, NodeId, Timestamp};
use bytes::Bytes;

/// The number a store gives each commit. Later commits have greater revisions. Starts at `Revision::FIRST`, so that
/// every revision has the same width in a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision before the first commit.
    pub const FIRST: Revision = Revision(1 << 40);
}

/// One opening of a store by one process. It lives while its record does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct SessionId(pub u64);

/// The namespace-wide counters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Counter {
    /// The next inode number that no session has reserved.
    NextInode,
    /// The next session's id.
    NextSession,
}

/// What a record is found by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Key {
    /// A file's identity.
    Inode(NodeId),
    /// A file's statistics.
    Stats(NodeId),
    /// A name in a directory.
    Dentry(NodeId, Name),
    /// An extended attribute, by its whole name.
    Xattr(NodeId, Bytes),
    /// A piece of a file's bytes, by its index. Only scanned (as [`Record::Extent`]); its bytes are read by
    /// `Store::blocks` and written by [`super::engine::BlockChange`].
    Block(NodeId, u64),
    /// A file without a name that waits for its last close.
    Orphan(NodeId),
    /// A session that has an orphan open.
    Claim(NodeId, SessionId),
    /// A session.
    Session(SessionId),
    /// A counter.
    Counter(Counter),
    /// The locks of a file.
    Locks(NodeId),
}

/// What a key leads to; always of the key's own kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// A file's identity.
    Inode(Inode),
    /// A file's statistics.
    Stats(Stats),
    /// A directory entry.
    Dentry(Dentry),
    /// An extended attribute's value.
    Xattr(Bytes),
    /// How many bytes of a block are there; what follows in it is zeros.
    Extent(u32),
    /// An orphan.
    Orphan(Orphan),
    /// A claim.
    Claim,
    /// A session.
    Session(Session),
    /// A counter's value.
    Counter(u64),
    /// The locks that are held of a file: never none, and none that conflict. Those of a session that is no more do not
    /// count.
    Locks(Vec<HeldLock<LockHolder>>),
}

impl Record {
    /// Whether it is of the kind that `key` leads to, and may be put there.
    pub fn belongs_to(&self, key: &Key) -> bool {
        if let (Key::Locks(_), Record::Locks(held)) = (key, self) {
            return !held.is_empty();
        }
        matches!(
            (key, self),
            (Key::Inode(_), Record::Inode(_))
                | (Key::Stats(_), Record::Stats(_))
                | (Key::Dentry(..), Record::Dentry(_))
                | (Key::Xattr(..), Record::Xattr(_))
                | (Key::Orphan(_), Record::Orphan(_))
                | (Key::Claim(..), Record::Claim)
                | (Key::Session(_), Record::Session(_))
                | (Key::Counter(_), Record::Counter(_))
        )
    }
}

/// A file's identity. It exists while the file is alive: removing a directory deletes it, so that who expected it
/// conflicts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// What kind of file it is. Never changes.
    pub kind: FileKind,
    /// Its permission bits.
    pub mode: Mode,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// A device's number; 0 otherwise.
    pub rdev: u32,
    /// The directory that a directory lies in (the root lies in itself); `None` for other kinds, which may lie in
    /// many.
    pub parent: Option<NodeId>,
    /// A symbolic link's target; empty otherwise.
    pub target: Bytes,
    /// When it was made.
    pub born: Timestamp,
}

/// A file's statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Size in bytes (regular files, and the length of a symbolic link's target).
    pub size: u64,
    /// Bytes that its blocks occupy. The engine keeps this, inside the commits that change blocks.
    pub allocated: u64,
    /// Link count: names; for a directory 2 and one for each directory in it.
    pub links: u64,
    /// Entries of a directory.
    pub entries: u64,
    /// When it was last read.
    pub atime: Timestamp,
    /// When its bytes last changed.
    pub mtime: Timestamp,
    /// When anything of it last changed.
    pub ctime: Timestamp,
}

/// A name's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dentry {
    /// The file.
    pub node: NodeId,
    /// Its kind, so that a listing need not read the file.
    pub kind: FileKind,
    /// The entry's place in its directory: random, from 1 to `i64::MAX - 1`, unique there.
    pub cookie: u64,
}

/// A file whose last name is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Orphan {
    /// When it lost its name, by the store's clock.
    pub since: Timestamp,
}

/// Who holds a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LockHolder {
    /// The session.
    pub session: SessionId,
    /// The owner, as that session knows it.
    pub owner: LockOwner,
}

/// A session's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Session {
    /// When it was last heard of, by the store's clock.
    pub seen: Timestamp,
    /// The newest revision of which it has told (by claims) what it has open.
    pub acknowledged: Revision,
    /// Its process.
    pub pid: u32,
    /// When that process began, as its machine counts; it tells it from a later one of the same number.
    pub started: u64,
    /// The machine since it was last started, and the process's namespace there; 0 where that is not known.
    pub place: u64,
}

/// A record as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The record.
    pub record: Record,
    /// The commit that last wrote it.
    pub revision: Revision,
}

/// A range of keys that can be scanned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prefix {
    /// A directory's entries, ordered by cookie. Scanned on with the last [`Dentry::cookie`].
    Entries(NodeId),
    /// A file's extended attributes, ordered by name.
    Xattrs(NodeId),
    /// A file's blocks, ordered by index. Scanned on with the last index.
    Extents(NodeId),
    /// All orphans, ordered by number. Scanned on with the last number.
    Orphans,
    /// The claims of an orphan.
    Claims(NodeId),
    /// All sessions.
    Sessions,
    /// The locks of all files, ordered by number. Scanned on with the last number.
    Locks,
}
