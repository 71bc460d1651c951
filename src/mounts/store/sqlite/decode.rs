//! Rows to records. Each kind of record has one list of columns, which leads with a tag that says the kind.

use super::held;
use crate::mounts::locks::HeldLock;
use crate::mounts::store::record::{
    Counter, Dentry, Inode, Key, LockHolder, Orphan, Record, Revision, Session, SessionId, Stats, Stored,
};
use crate::types::{Errno, Error, FileKind, Mode, Name, NodeId, Result, Timestamp};
use bytes::Bytes;
use sqlx::sqlite::{Sqlite, SqliteRow};
use sqlx::{Decode, Row, Type};

/// A kind of row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A file: its identity, its statistics, or both.
    Inode,
    /// A directory entry.
    Dentry,
    /// An extended attribute.
    Xattr,
    /// A block, without its bytes.
    Block,
    /// An orphan.
    Orphan,
    /// A claim.
    Claim,
    /// A session.
    Session,
    /// A counter.
    Counter,
    /// The locks of a file.
    Locks,
}

impl Kind {
    /// The kind of row that a key's record is in.
    pub fn of(key: &Key) -> Kind {
        match key {
            Key::Inode(_) | Key::Stats(_) => Kind::Inode,
            Key::Dentry(..) => Kind::Dentry,
            Key::Xattr(..) => Kind::Xattr,
            Key::Block(..) => Kind::Block,
            Key::Orphan(_) => Kind::Orphan,
            Key::Claim(..) => Kind::Claim,
            Key::Session(_) => Kind::Session,
            Key::Counter(_) => Kind::Counter,
            Key::Locks(_) => Kind::Locks,
        }
    }

    /// The columns of the table `t` that [`records`] reads, and how many they are.
    pub fn columns(self) -> (&'static str, usize) {
        match self {
            Kind::Inode => (
                "0, t.ino, t.revision, t.kind, t.mode, t.uid, t.gid, t.rdev, t.parent, t.target, t.born, \
                 t.stats_revision, t.size, t.allocated, t.links, t.entries, t.atime, t.mtime, t.ctime",
                19,
            ),
            Kind::Dentry => ("1, t.dir, t.revision, t.name, t.ino, t.kind, t.cookie", 7),
            Kind::Xattr => ("2, t.ino, t.revision, t.name, t.value", 5),
            Kind::Block => ("3, t.ino, t.revision, t.idx, t.size", 5),
            Kind::Orphan => ("4, t.ino, t.revision, t.since", 4),
            Kind::Claim => ("5, t.ino, t.revision, t.session", 4),
            Kind::Session => ("6, t.id, t.revision, t.seen, t.acknowledged, t.pid, t.started, t.place", 8),
            Kind::Counter => ("7, t.name, t.revision, t.value", 4),
            Kind::Locks => ("8, t.ino, t.revision, t.held", 4),
        }
    }

    /// The table.
    pub fn table(self) -> &'static str {
        match self {
            Kind::Inode => "inodes",
            Kind::Dentry => "dentries",
            Kind::Xattr => "xattrs",
            Kind::Block => "blocks",
            Kind::Orphan => "orphans",
            Kind::Claim => "claims",
            Kind::Session => "sessions",
            Kind::Counter => "counters",
            Kind::Locks => "locks",
        }
    }

    /// The columns of a key, besides the namespace, in the order in which [`super::script::Script::key`] binds them.
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            Kind::Inode | Kind::Orphan | Kind::Locks => &["ino"],
            Kind::Dentry => &["dir", "name"],
            Kind::Xattr => &["ino", "name"],
            Kind::Block => &["ino", "idx"],
            Kind::Claim => &["ino", "session"],
            Kind::Session => &["id"],
            Kind::Counter => &["name"],
        }
    }
}

/// The column of a file's kind.
pub fn kind_text(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "regular",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character",
        FileKind::BlockDevice => "block",
    }
}

fn file_kind(text: &str) -> Result<FileKind> {
    Ok(match text {
        "regular" => FileKind::Regular,
        "directory" => FileKind::Directory,
        "symlink" => FileKind::Symlink,
        "fifo" => FileKind::Fifo,
        "socket" => FileKind::Socket,
        "character" => FileKind::CharDevice,
        "block" => FileKind::BlockDevice,
        _ => return Err(damaged(format!("{text:?} is no kind of file"))),
    })
}

/// The column of a counter's name.
pub fn counter_text(counter: Counter) -> &'static str {
    match counter {
        Counter::NextInode => "next_inode",
        Counter::NextSession => "next_session",
    }
}

fn counter(text: &str) -> Result<Counter> {
    match text {
        "next_inode" => Ok(Counter::NextInode),
        "next_session" => Ok(Counter::NextSession),
        _ => Err(damaged(format!("{text:?} is no counter"))),
    }
}

fn damaged(what: String) -> Error {
    Error::new("read", Errno::EIO).context(format!("the database is damaged: {what}"))
}

/// A column's value; one of another type is damage.
pub fn column<'r, T: Decode<'r, Sqlite> + Type<Sqlite>>(row: &'r SqliteRow, index: usize) -> Result<T> {
    row.try_get(index).map_err(|error| damaged(format!("column {index}")).source(error))
}

// Numbers are kept bit for bit in 64 signed bits.
fn number(row: &SqliteRow, index: usize) -> Result<u64> {
    Ok(column::<i64>(row, index)? as u64)
}

fn node(row: &SqliteRow, index: usize) -> Result<NodeId> {
    number(row, index).map(NodeId)
}

fn time(row: &SqliteRow, index: usize) -> Result<Timestamp> {
    column(row, index).map(Timestamp)
}

fn bytes(row: &SqliteRow, index: usize) -> Result<Bytes> {
    column::<&[u8]>(row, index).map(Bytes::copy_from_slice)
}

/// The records of a row, one or (of a file) two.
pub fn records(row: &SqliteRow) -> Result<Vec<(Key, Stored)>> {
    let tag: i64 = column(row, 0)?;
    let (key, record) = match tag {
        0 => return file(row),
        1 => dentry(row)?,
        2 => (Key::Xattr(node(row, 1)?, bytes(row, 3)?), Record::Xattr(bytes(row, 4)?)),
        3 => (Key::Block(node(row, 1)?, number(row, 3)?), Record::Extent(column(row, 4)?)),
        4 => (Key::Orphan(node(row, 1)?), Record::Orphan(Orphan { since: time(row, 3)? })),
        5 => (Key::Claim(node(row, 1)?, SessionId(number(row, 3)?)), Record::Claim),
        6 => (Key::Session(SessionId(number(row, 1)?)), Record::Session(session(row)?)),
        7 => (Key::Counter(counter(column(row, 1)?)?), Record::Counter(number(row, 3)?)),
        8 => (Key::Locks(node(row, 1)?), Record::Locks(locks(column(row, 3)?)?)),
        _ => return Err(damaged(format!("tag {tag}"))),
    };
    Ok(vec![(key, Stored { record, revision: Revision(number(row, 2)?) })])
}

fn file(row: &SqliteRow) -> Result<Vec<(Key, Stored)>> {
    let mut found = Vec::with_capacity(2);
    if let Some(revision) = column::<Option<i64>>(row, 2)? {
        let stored = Stored { record: Record::Inode(inode(row)?), revision: Revision(revision as u64) };
        found.push((Key::Inode(node(row, 1)?), stored));
    }
    if let Some(revision) = column::<Option<i64>>(row, 11)? {
        let stored = Stored { record: Record::Stats(stats(row)?), revision: Revision(revision as u64) };
        found.push((Key::Stats(node(row, 1)?), stored));
    }
    Ok(found)
}

fn inode(row: &SqliteRow) -> Result<Inode> {
    Ok(Inode {
        kind: file_kind(column(row, 3)?)?,
        mode: Mode::new(column(row, 4)?),
        uid: column(row, 5)?,
        gid: column(row, 6)?,
        rdev: column(row, 7)?,
        parent: column::<Option<i64>>(row, 8)?.map(|parent| NodeId(parent as u64)),
        target: bytes(row, 9)?,
        born: time(row, 10)?,
    })
}

fn stats(row: &SqliteRow) -> Result<Stats> {
    Ok(Stats {
        size: number(row, 12)?,
        allocated: number(row, 13)?,
        links: number(row, 14)?,
        entries: number(row, 15)?,
        atime: time(row, 16)?,
        mtime: time(row, 17)?,
        ctime: time(row, 18)?,
    })
}

fn dentry(row: &SqliteRow) -> Result<(Key, Record)> {
    let name = Name::new(column(row, 3)?).map_err(|error| damaged("a name".into()).source(error))?;
    let dentry = Dentry { node: node(row, 4)?, kind: file_kind(column(row, 5)?)?, cookie: number(row, 6)? };
    Ok((Key::Dentry(node(row, 1)?, name), Record::Dentry(dentry)))
}

fn session(row: &SqliteRow) -> Result<Session> {
    Ok(Session {
        seen: time(row, 3)?,
        acknowledged: Revision(number(row, 4)?),
        pid: column(row, 5)?,
        started: number(row, 6)?,
        place: number(row, 7)?,
    })
}

fn locks(text: &str) -> Result<Vec<HeldLock<LockHolder>>> {
    held::read(text).ok_or_else(|| damaged(format!("locks: {text}")))
}
