//! One try of an operation, and when to try again.
//!
//! An operation reads records (most are remembered), checks, and builds one batch that demands what it relied on. Where
//! a demand does not hold the operation is redone on fresh records. A refusal (`ENOENT`, `EEXIST` …) has no commit that
//! would check it, so it is believed only when all that was read is found unchanged at one moment.

use super::super::engine::{Batch, BlockChange, Expect, Field, FieldChange, FieldOp, Guard, Outcome};
use super::super::record::{Counter, Dentry, Inode, Key, LockHolder, Record, Revision, Stats, Stored};
use super::core::{Core, random};
use super::dirty::Ranges;
use crate::mounts::locks::LockTable;
use crate::types::{Errno, Error, NodeId, Origin, Result, Timestamp};
use std::collections::HashSet;
use std::time::Duration;

/// Redone so often and no more; with the pauses between, that is some ten seconds.
const TRIES: u32 = 400;

/// How often a full store is given a moment to free what was removed.
pub const FULL_TRIES: u32 = 2;

/// A record of one kind with the revision it was read at.
pub struct At<T> {
    pub record: T,
    pub revision: Revision,
}

/// One try: what it read, and what it would commit.
pub struct Txn<'a> {
    pub core: &'a Core,
    pub batch: Batch,
    /// Whose change it is; `None` where it was told before.
    pub origin: Option<Origin>,
    /// The time of the operation.
    pub now: Timestamp,
    read: Vec<(Key, Option<Stored>)>,
    moments: u32,
}

impl<'a> Txn<'a> {
    pub fn new(core: &'a Core, origin: Option<Origin>) -> Txn<'a> {
        Txn { core, batch: Batch::default(), origin, now: Timestamp::now(), read: Vec::new(), moments: 0 }
    }

    /// Reads records, and keeps in mind that the operation relies on them.
    pub async fn get<const N: usize>(&mut self, keys: [Key; N]) -> Result<[Option<Stored>; N]> {
        let (found, sources) = self.core.get(&keys).await?;
        // What comes from the cache may be of any moment, so it counts as more than one.
        self.moments += 2 * u32::from(sources.cache) + u32::from(sources.store);
        self.read.extend(keys.into_iter().zip(found.iter().cloned()));
        let mut found = found.into_iter();
        Ok(std::array::from_fn(|_| found.next().flatten()))
    }

    /// A file's identity, or `None` where the file is gone.
    pub async fn inode(&mut self, node: NodeId) -> Result<Option<At<Inode>>> {
        let [found] = self.get([Key::Inode(node)]).await?;
        found.map(inode_of).transpose()
    }

    /// A file's identity and statistics, or `None` where the file is gone.
    pub async fn file(&mut self, node: NodeId) -> Result<Option<(At<Inode>, Stats)>> {
        let [inode, stats] = self.get([Key::Inode(node), Key::Stats(node)]).await?;
        match (inode, stats) {
            (Some(inode), Some(stats)) => Ok(Some((inode_of(inode)?, stats_of(stats)?.record))),
            _ => Ok(None),
        }
    }

    pub fn expect(&mut self, key: Key, revision: Revision) {
        self.batch.expect.push((key, Expect::At(revision)));
    }

    pub fn expect_absent(&mut self, key: Key) {
        self.batch.expect.push((key, Expect::Absent));
    }

    pub fn guard(&mut self, node: NodeId, field: Field, value: u64) {
        self.batch.guard.push(Guard { node, field, value: value as i64 });
    }

    pub fn put(&mut self, key: Key, record: Record) {
        self.batch.put.push((key, record));
    }

    pub fn delete(&mut self, key: Key) {
        self.batch.delete.push(key);
    }

    pub fn field(&mut self, node: NodeId, field: Field, op: FieldOp) {
        self.batch.fields.push(FieldChange { node, field, op });
    }

    /// Something about the file changed now. Of several at once the last that commits sets the time, also where it was
    /// ahead: a time that only rose would stay in the future that somebody had set.
    pub fn touch(&mut self, node: NodeId) {
        self.field(node, Field::Ctime, FieldOp::Set(self.now.0));
    }

    /// The file's bytes, or the directory's entries, changed now.
    pub fn touch_contents(&mut self, node: NodeId) {
        self.field(node, Field::Mtime, FieldOp::Set(self.now.0));
        self.touch(node);
    }

    /// A name came (1) or went (-1) in a directory.
    pub fn count_entry(&mut self, dir: NodeId, by: i64) {
        if by != 0 {
            self.field(dir, Field::Entries, FieldOp::Add(by));
        }
        self.touch_contents(dir);
    }

    /// Links came or went.
    pub fn count_links(&mut self, node: NodeId, by: i64) {
        if by != 0 {
            self.field(node, Field::Links, FieldOp::Add(by));
        }
    }

    /// Writes ranges of a file's bytes.
    pub fn patch(&mut self, node: NodeId, ranges: &Ranges) {
        let patches = ranges.patches(self.core.block_size).into_iter();
        self.batch.blocks.extend(patches.map(|patch| BlockChange::Patch {
            node,
            index: patch.index,
            offset: patch.offset,
            bytes: patch.bytes,
        }));
    }

    /// Makes a range of a file's bytes zeros.
    pub fn discard(&mut self, node: NodeId, start: u64, end: u64) {
        self.batch.blocks.push(BlockChange::Discard { node, start, end });
    }

    fn is_empty(&self) -> bool {
        let Batch { delete, put, fields, blocks, durable, .. } = &self.batch;
        delete.is_empty() && put.is_empty() && fields.is_empty() && blocks.is_empty() && !durable
    }

    /// Whether all that was read is still so, at one moment.
    async fn holds(&self) -> Result<bool> {
        if self.moments <= 1 {
            return Ok(true);
        }
        let keys: Vec<Key> = self.read.iter().map(|(key, _)| key.clone()).collect();
        let now = self.core.fetch(&keys).await?;
        let unchanged = self.read.iter().zip(&now).all(|((_, then), now)| then == now);
        if !unchanged {
            // A read that raced with another may not have been remembered; the redo must not use what was there before.
            self.forget();
        }
        Ok(unchanged)
    }

    /// The batch, with no demand twice.
    fn take_batch(&mut self) -> Batch {
        let mut batch = std::mem::take(&mut self.batch);
        let mut seen = HashSet::new();
        batch.expect.retain(|(key, _)| seen.insert(key.clone()));
        batch
    }

    /// Drops what was read from the cache, so that it is read again.
    fn forget(&self) {
        self.read.iter().for_each(|(key, _)| self.core.records.drop(key));
    }
}

/// The tries of one operation.
pub struct Tries {
    operation: &'static str,
    made: u32,
    /// Those that found the store full.
    full: u32,
}

impl Tries {
    pub fn new(operation: &'static str) -> Tries {
        Tries { operation, made: 0, full: 0 }
    }

    /// Commits a try. `Ok(None)`: it must be redone.
    pub async fn settle<T>(&mut self, mut txn: Txn<'_>, built: Result<T>) -> Result<Option<T>> {
        if built.is_err() || txn.is_empty() {
            if txn.holds().await? {
                return built.map(Some);
            }
            return self.again(txn.core).await;
        }
        let Txn { core, origin, .. } = txn;
        let batch = txn.take_batch();
        let alone = batch.expect.iter().any(|(key, _)| *key == Key::Counter(Counter::NextSession));
        let outcome = match core.commit(batch, origin).await {
            // What is only written back is tried again by whoever does that.
            Err(error) if error.errno() == Errno::ENOSPC && origin.is_some() && self.full < FULL_TRIES => {
                drop(built);
                self.full += 1;
                await_room(core).await;
                return Ok(None);
            }
            outcome => outcome?,
        };
        match outcome {
            Outcome::Committed(_) => built.map(Some),
            _ => {
                // What it holds (opens wait for it) must not be held through the pause.
                drop(built);
                txn.forget();
                if alone {
                    // Somebody else may have come; the background task looks.
                    core.company.may_have_come();
                    core.freed.notify_one();
                }
                self.again(core).await
            }
        }
    }

    /// Waits a little longer each time, and at random, so that two that conflict do not meet again.
    async fn again<T>(&mut self, core: &Core) -> Result<Option<T>> {
        self.made += 1;
        if self.made >= TRIES {
            return Err(Error::new(self.operation, Errno::EIO)
                .context(format!("redone {TRIES} times, and each time somebody else changed the same files first")));
        }
        if self.made > 2 {
            let most = 100u64 << self.made.min(9);
            pause(core, Duration::from_micros(random() % most)).await;
        }
        Ok(None)
    }
}

/// Waits a moment for the background task: the bytes of a removed file go by it, after the name has gone.
pub async fn await_room(core: &Core) {
    core.freed.notify_one();
    pause(core, Duration::from_millis(100)).await;
}

/// Waits, also where a session thread polls that is none of the runtime's.
pub async fn pause(core: &Core, time: Duration) {
    let sleep = {
        let _inside = core.runtime.enter();
        tokio::time::sleep(time)
    };
    sleep.await;
}

/// Tries an operation until it is settled.
macro_rules! redo {
    ($core:expr, $operation:expr, $origin:expr, |$txn:ident| $build:expr) => {{
        let mut tries = $crate::mounts::store::volume::commit::Tries::new($operation);
        loop {
            let mut $txn = $crate::mounts::store::volume::commit::Txn::new($core, $origin);
            let built = $build.await;
            if let Some(done) = tries.settle($txn, built).await? {
                break done;
            }
        }
    }};
}
pub(super) use redo;

fn damaged(key: &str) -> Error {
    Error::new("read", Errno::EIO).context(format!("the store answered a record of another kind for {key}"))
}

pub fn inode_of(stored: Stored) -> Result<At<Inode>> {
    match stored.record {
        Record::Inode(record) => Ok(At { record, revision: stored.revision }),
        _ => Err(damaged("an inode")),
    }
}

pub fn stats_of(stored: Stored) -> Result<At<Stats>> {
    match stored.record {
        Record::Stats(record) => Ok(At { record, revision: stored.revision }),
        _ => Err(damaged("statistics")),
    }
}

/// The locks of a file, as they were read.
pub struct Locks {
    pub record: LockTable<LockHolder>,
    node: NodeId,
    revision: Option<Revision>,
}

/// Reads the locks of a file.
pub async fn locks_of(txn: &mut Txn<'_>, node: NodeId) -> Result<Locks> {
    let [found] = txn.get([Key::Locks(node)]).await?;
    let revision = found.as_ref().map(|stored| stored.revision);
    let record = match found.map(|stored| stored.record) {
        None => LockTable::default(),
        Some(Record::Locks(held)) => LockTable::new(held),
        Some(_) => return Err(damaged("locks")),
    };
    Ok(Locks { record, node, revision })
}

impl Locks {
    /// Puts `table` in their place.
    pub fn replace(self, txn: &mut Txn<'_>, table: LockTable<LockHolder>) {
        let key = Key::Locks(self.node);
        if table == self.record {
            return;
        }
        match self.revision {
            Some(revision) => txn.expect(key.clone(), revision),
            None => txn.expect_absent(key.clone()),
        }
        match table.is_empty() {
            true => txn.delete(key),
            false => txn.put(key, Record::Locks(table.into_held())),
        }
    }
}

pub fn dentry_of(stored: Stored) -> Result<At<Dentry>> {
    match stored.record {
        Record::Dentry(record) => Ok(At { record, revision: stored.revision }),
        _ => Err(damaged("a directory entry")),
    }
}
