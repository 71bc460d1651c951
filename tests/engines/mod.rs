//! What every engine of the store must do, sentence by sentence of its contract, on each of them.
//!
//! A new engine is one constructor of [`Place`] and one line of `each_engine`.

mod blocks;
mod concurrent;
mod crash;
mod demands;
mod feed;
mod order;
mod random;
mod scans;
mod sqlite_file;

use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use workfs::mounts::locks::HeldLock;
use workfs::mounts::store::engine::{Batch, BlockChange, Expect, Field, FieldChange, FieldOp, Outcome, Store};
use workfs::mounts::store::memory::MemoryStore;
use workfs::mounts::store::record::{
    Dentry, Inode, Key, LockHolder, Record, Revision, Session, SessionId, Stats, Stored,
};
use workfs::mounts::store::sqlite::SqliteStore;
use workfs::types::{FileKind, LockKind, LockOwner, LockRange, Mode, Name, NodeId, Origin, Timestamp};

/// How long a case may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs each case on each engine.
macro_rules! each_engine {
    ($($case:ident)*) => {
        each_engine!(@ memory [$($case)*]);
        each_engine!(@ sqlite [$($case)*]);
    };
    (@ $engine:ident [$($case:ident)*]) => {
        mod $engine {
            $(#[test]
            fn $case() {
                crate::engines::run(crate::engines::Place::$engine(), |place| Box::pin(super::$case(place)));
            })*
        }
    };
}
pub(crate) use each_engine;

/// Where a namespace lies. It can be opened several times at once.
pub enum Place {
    /// In this process.
    Memory(Arc<MemoryStore>),
    /// In a database file.
    Sqlite(TempDir),
}

impl Place {
    /// An empty one in memory.
    pub fn memory() -> Place {
        Place::Memory(MemoryStore::new())
    }

    /// An empty one in a file.
    pub fn sqlite() -> Place {
        Place::Sqlite(tempfile::tempdir().expect("a temporary directory"))
    }

    /// Opens it, also beside other openings.
    pub async fn open(&self) -> Arc<dyn Store> {
        match self {
            Place::Memory(store) => store.clone(),
            Place::Sqlite(dir) => {
                SqliteStore::open(&dir.path().join("store.db"), "test").await.expect("the store opens")
            }
        }
    }
}

/// Runs one case, within its time, on a runtime of its own.
pub fn run(place: Place, case: impl FnOnce(Arc<Place>) -> BoxFuture<'static, ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let done = runtime.block_on(async { tokio::time::timeout(LIMIT, case(Arc::new(place))).await });
    done.expect("the case ends in time");
}

/// A batch that is committed, and its revision.
pub async fn committed(store: &dyn Store, batch: Batch) -> Revision {
    match store.commit(batch).await.expect("the commit is answered") {
        Outcome::Committed(revision) => revision,
        refused => panic!("{refused:?}"),
    }
}

/// What is under one key.
pub async fn get(store: &dyn Store, key: Key) -> Option<Stored> {
    store.get(&[key]).await.expect("it is read").remove(0)
}

/// A file's statistics.
pub async fn stats(store: &dyn Store, node: u64) -> Stats {
    match get(store, Key::Stats(NodeId(node))).await {
        Some(Stored { record: Record::Stats(stats), .. }) => stats,
        other => panic!("no statistics: {other:?}"),
    }
}

/// Only puts.
pub fn put(records: impl IntoIterator<Item = (Key, Record)>) -> Batch {
    Batch { put: records.into_iter().collect(), ..Batch::default() }
}

/// Only deletes.
pub fn delete(keys: impl IntoIterator<Item = Key>) -> Batch {
    Batch { delete: keys.into_iter().collect(), ..Batch::default() }
}

/// A demand on one key.
pub fn expect(key: Key, expect: Expect) -> Batch {
    Batch { expect: vec![(key, expect)], ..Batch::default() }
}

/// A change of one field.
pub fn change(node: u64, field: Field, op: FieldOp) -> FieldChange {
    FieldChange { node: NodeId(node), field, op }
}

/// Only a patch.
pub fn patch(node: u64, index: u64, offset: u32, bytes: impl Into<Bytes>) -> Batch {
    let patch = BlockChange::Patch { node: NodeId(node), index, offset, bytes: bytes.into() };
    Batch { blocks: vec![patch], ..Batch::default() }
}

/// Only a discard.
pub fn discard(node: u64, start: u64, end: u64) -> Batch {
    Batch { blocks: vec![BlockChange::Discard { node: NodeId(node), start, end }], ..Batch::default() }
}

/// An identity that `seed` tells from others.
pub fn inode(seed: u32) -> Record {
    Record::Inode(Inode {
        kind: FileKind::Symlink,
        mode: Mode::new(0o4750),
        uid: seed,
        gid: u32::MAX,
        rdev: 0x0801,
        parent: Some(NodeId(u64::from(seed) + 7)),
        target: Bytes::from_static(b"../\xff\0x"),
        born: Timestamp(-5),
    })
}

/// Statistics of an empty file.
pub fn empty() -> Record {
    Record::Stats(Stats::default())
}

/// A session's record.
pub fn session(seen: i64, pid: u32) -> Record {
    let (seen, acknowledged) = (Timestamp(seen), Revision(1 << 41));
    Record::Session(Session { seen, acknowledged, pid, started: u64::MAX, place: u64::MAX - 1 })
}

/// Locks of a file: one of one byte, and one of all that follow.
pub fn locks(seed: u32) -> Record {
    let lock = |kind, start, end| {
        let owner = LockOwner { origin: Origin(u64::MAX), number: u64::MAX - u64::from(seed) };
        let range = LockRange::new(start, end).expect("a range");
        HeldLock { range, owner: LockHolder { session: SessionId(3), owner }, kind, pid: seed }
    };
    Record::Locks(vec![lock(LockKind::Write, 7, 7), lock(LockKind::Read, 8, LockRange::LAST)])
}

/// A name.
pub fn name(text: impl AsRef<[u8]>) -> Name {
    Name::new(text.as_ref()).expect("a name")
}

/// An entry.
pub fn dentry(dir: u64, text: impl AsRef<[u8]>, node: u64, cookie: u64) -> (Key, Record) {
    let entry = Dentry { node: NodeId(node), kind: FileKind::Regular, cookie };
    (Key::Dentry(NodeId(dir), name(text)), Record::Dentry(entry))
}

/// The whole of a file's bytes that are not zeros at the end, from its blocks.
pub async fn content(store: &dyn Store, node: u64) -> Vec<u8> {
    let size = store.block_size() as usize;
    let mut bytes = Vec::new();
    for (index, block) in store.blocks(NodeId(node), 0..u64::MAX).await.expect("the blocks are read") {
        assert!(block.len() <= size, "a block of {} bytes", block.len());
        bytes.resize(index as usize * size, 0);
        bytes.extend_from_slice(&block);
    }
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(used);
    bytes
}

/// The lengths of a file's blocks, by the scan of its extents.
pub async fn extents(store: &dyn Store, node: u64) -> Vec<(u64, u32)> {
    let found = store.scan(&workfs::mounts::store::record::Prefix::Extents(NodeId(node)), None, usize::MAX).await;
    let extent = |(key, stored): (Key, Stored)| match (key, stored.record) {
        (Key::Block(of, index), Record::Extent(len)) if of == NodeId(node) => (index, len),
        other => panic!("no extent: {other:?}"),
    };
    found.expect("the extents are read").into_iter().map(extent).collect()
}
