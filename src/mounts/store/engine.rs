//! The contract of a store: a transactional record engine that knows nothing of files.
//!
//! One store is one namespace: two that are opened by different names share nothing, though they may share a server.
//! A new engine is one file that implements [`Store`].

use super::record::{Key, Prefix, Record, Revision, SessionId, Stored};
use crate::types::{NodeId, Result, Timestamp};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::ops::Range;

/// What a commit demands of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// There is no record.
    Absent,
    /// There is one, last written by this commit. Changes of its fields through [`FieldChange`] do not count.
    At(Revision),
}

/// A field of a file's [`super::record::Stats`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Field {
    /// `size`
    Size,
    /// `links`
    Links,
    /// `entries`
    Entries,
    /// `atime`
    Atime,
    /// `mtime`
    Mtime,
    /// `ctime`
    Ctime,
}

/// A demand on a field: it equals `value`. A file without statistics fails it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guard {
    /// The file.
    pub node: NodeId,
    /// The field.
    pub field: Field,
    /// What it must be.
    pub value: i64,
}

/// How a field changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldOp {
    /// By this much, up or down.
    Add(i64),
    /// To this, if that is more.
    Max(i64),
    /// To this.
    Set(i64),
}

/// A change of one field. It commutes with what others do to other fields, so it needs no expectation. A file without
/// statistics is passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldChange {
    /// The file.
    pub node: NodeId,
    /// The field.
    pub field: Field,
    /// The change.
    pub op: FieldOp,
}

/// A change of a file's bytes, made inside the commit, so that changes of disjoint ranges never conflict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockChange {
    /// `bytes` from `offset` on in block `index`; they end inside that block.
    Patch {
        /// The file.
        node: NodeId,
        /// The block.
        index: u64,
        /// The first byte in the block.
        offset: u32,
        /// The new bytes.
        bytes: Bytes,
    },
    /// Every byte of the file from `start` to before `end` reads as zero: whole blocks go, partial ones are cleared.
    /// `end` may be `u64::MAX`.
    Discard {
        /// The file.
        node: NodeId,
        /// The first byte.
        start: u64,
        /// The byte after the last.
        end: u64,
    },
}

/// A commit: all of it happens, or nothing.
///
/// The demands are checked first (`session`, `expect`, `guard`); then `delete`, `put`, `fields` and `blocks` happen in
/// this order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// Demands that this session's record exists: a session that was given up can commit nothing any more.
    pub session: Option<SessionId>,
    /// Demands on keys.
    pub expect: Vec<(Key, Expect)>,
    /// Demands on fields.
    pub guard: Vec<Guard>,
    /// Records to remove; one that is not there is passed over.
    pub delete: Vec<Key>,
    /// Records to make or replace. A [`Record::Dentry`] whose cookie another entry of its directory has makes the
    /// commit a conflict.
    pub put: Vec<(Key, Record)>,
    /// Fields to change.
    pub fields: Vec<FieldChange>,
    /// Bytes to change.
    pub blocks: Vec<BlockChange>,
    /// Ask for the durability of `fsync(2)`, for this commit and all before it.
    pub durable: bool,
}

/// What became of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It happened, as this revision.
    Committed(Revision),
    /// A demand on a key or a field did not hold; nothing happened. Read again, and build it anew.
    Conflict,
    /// The session's record is gone; nothing happened, and nothing of this session ever will.
    Fenced,
}

/// A commit, as told to whoever remembers records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreChange {
    /// These records and bytes are not what they were.
    Commit {
        /// The commit.
        revision: Revision,
        /// Who made it; `None` where that is not known.
        session: Option<SessionId>,
        /// The records, fields included (as [`Key::Stats`]).
        keys: Vec<Key>,
        /// The bytes: file, first byte, byte after the last.
        data: Vec<(NodeId, u64, u64)>,
    },
    /// Anything may have changed: the channel was interrupted.
    Lost,
}

/// What a store occupies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Bytes it holds, bookkeeping included.
    pub used: u64,
    /// Bytes that it could still take.
    pub free: u64,
    /// Files in the namespace.
    pub files: u64,
}

/// A transactional record engine.
///
/// # Errors of every method
/// `EIO` where it cannot be reached or its data is damaged (the source says which), `ENOSPC` where it is full,
/// `ETIMEDOUT` past its deadline. After an error of `commit` nothing happened, or, where an answer was lost, the error
/// says that this is not known.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The size of a full block in bytes: a power of two, the same as long as the namespace lives.
    fn block_size(&self) -> u32;

    /// The records under `keys`, one answer for each, all of one moment.
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Stored>>>;

    /// At most `limit` records of `prefix` after the position `after` (`None`: from the first), in the prefix's
    /// order. Prefixes without a number to scan on with are answered whole.
    async fn scan(&self, prefix: &Prefix, after: Option<u64>, limit: usize) -> Result<Vec<(Key, Stored)>>;

    /// The blocks of a file in a range of indexes, those that are there, in order. A block shorter than the block
    /// size ends in zeros.
    async fn blocks(&self, node: NodeId, range: Range<u64>) -> Result<Vec<(u64, Bytes)>>;

    /// Does the batch, atomically. One round trip.
    async fn commit(&self, batch: Batch) -> Result<Outcome>;

    /// Commits from now on, those of this process too, in the order of their revisions. A change is told after a
    /// read would see it.
    fn changes(&self) -> BoxStream<'static, StoreChange>;

    /// The store's clock, by which sessions measure each other.
    async fn now(&self) -> Result<Timestamp>;

    /// What it occupies.
    async fn usage(&self) -> Result<Usage>;

    /// Finishes what is under way and closes. Calling it again does nothing.
    async fn close(&self) -> Result<()>;
}
