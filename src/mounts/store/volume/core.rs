//! What all of the volume's parts work on: the store, the caches, the session, and the files that are held.

use super::super::engine::{Batch, BlockChange, Outcome, Store};
use super::super::record::{Key, Record, Revision, SessionId, Stored};
use super::cache::{Blocks, Records, Stamp};
use super::company::Company;
use super::feed::Feed;
use super::file::File;
use super::lockers::Lockers;
use super::nodes::Nodes;
use crate::mounts::freed_locks::FreedLocks;
use crate::types::{Change, ChangeKind, Errno, Error, NodeId, Origin, Result, Timestamp};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use tokio::sync::{Notify, broadcast};

/// Changes that a receiver may fall behind before it is told [`ChangeKind::Everything`].
const CHANGES_KEPT: usize = 1024;

/// An open namespace.
pub struct Core {
    pub store: Arc<dyn Store>,
    pub feed: Feed,
    pub session: SessionId,
    /// The commit with which the session began; all that it reads is of later.
    pub began: Revision,
    pub block_size: u64,
    pub runtime: tokio::runtime::Handle,
    pub records: Records,
    pub blocks: Blocks,
    pub nodes: Nodes,
    /// Inode numbers that this session reserved and has not used.
    pub numbers: Mutex<std::ops::Range<u64>>,
    /// Whether others have the store open.
    pub company: Company,
    /// All that were there before this session know of it.
    pub known_to_all: AtomicBool,
    /// The newest commit whose change was taken in.
    pub applied: AtomicU64,
    /// The newest commit of this session, and a bell that rings when changes were taken in.
    pub committed: AtomicU64,
    pub taken_in: Notify,
    /// What the store's clock is ahead of this machine's, in nanoseconds.
    pub clock_offset: AtomicI64,
    /// Files that the background task is to commit, and its bell.
    pub queue: Mutex<Vec<Arc<File>>>,
    pub queued: Notify,
    /// Held while the background task commits what it took from the queue.
    pub writing_back: tokio::sync::Mutex<()>,
    /// Who holds locks here.
    pub lockers: Lockers,
    /// Tells those who wait for locks.
    pub freed_locks: FreedLocks,
    /// Rings where an orphan may have become free.
    pub freed: Notify,
    /// Rings where others wait for this session to tell what it has open.
    pub asked: Notify,
    /// Orphans that this session has open and could not claim yet; until it has, it tells nothing of later commits.
    pub unclaimed: Mutex<HashSet<NodeId>>,
    /// The volume was closed.
    pub closed: AtomicBool,
    /// Changes of others are not told any more, so nothing is remembered.
    pub deaf: AtomicBool,
    changes: broadcast::Sender<Change>,
    fenced: AtomicBool,
    /// The answer of some commit was never seen, so own commits are taken in as those of others are.
    lost_answer: AtomicBool,
}

impl Core {
    pub fn new(
        store: Arc<dyn Store>,
        feed: Feed,
        (session, began): (SessionId, Revision),
        runtime: tokio::runtime::Handle,
    ) -> Core {
        Core {
            session,
            began,
            block_size: u64::from(store.block_size()),
            store,
            feed,
            runtime,
            records: Records::new(),
            blocks: Blocks::new(),
            nodes: Nodes::default(),
            numbers: Mutex::new(0..0),
            company: Company::default(),
            known_to_all: AtomicBool::new(false),
            // What became an orphan before this session began cannot be open in it.
            applied: AtomicU64::new(began.0),
            committed: AtomicU64::new(began.0),
            taken_in: Notify::new(),
            clock_offset: AtomicI64::new(0),
            queue: Mutex::new(Vec::new()),
            queued: Notify::new(),
            writing_back: tokio::sync::Mutex::new(()),
            lockers: Lockers::default(),
            freed_locks: FreedLocks::default(),
            freed: Notify::new(),
            asked: Notify::new(),
            unclaimed: Mutex::default(),
            closed: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            changes: broadcast::channel(CHANGES_KEPT).0,
            fenced: AtomicBool::new(false),
            lost_answer: AtomicBool::new(false),
        }
    }

    /// The store's clock, as far as it is known without asking.
    pub fn store_now(&self) -> Timestamp {
        Timestamp(Timestamp::now().0.saturating_add(self.clock_offset.load(Ordering::Relaxed)))
    }

    /// Reads records: from the cache where they are remembered, the others in one round trip. Tells whether any came
    /// from the cache, and whether any did not.
    pub async fn get(&self, keys: &[Key]) -> Result<(Vec<Option<Stored>>, Sources)> {
        let mut found: Vec<Option<Option<Stored>>> = keys.iter().map(|key| self.records.get(key)).collect();
        let missing: Vec<Key> = keys.iter().zip(&found).filter(|(_, f)| f.is_none()).map(|(k, _)| k.clone()).collect();
        let sources = Sources { cache: missing.len() < keys.len(), store: !missing.is_empty() };
        if !missing.is_empty() {
            let mut fetched = self.fetch(&missing).await?.into_iter();
            found.iter_mut().filter(|slot| slot.is_none()).for_each(|slot| *slot = fetched.next());
        }
        Ok((found.into_iter().map(Option::flatten).collect(), sources))
    }

    /// Reads records from the store, at one moment, and remembers them.
    pub async fn fetch(&self, keys: &[Key]) -> Result<Vec<Option<Stored>>> {
        let stamps: Vec<Stamp> = keys.iter().map(|key| self.records.stamp(key)).collect();
        let fetched = self.store.get(keys).await?;
        let deaf = self.deaf.load(Ordering::Relaxed);
        for ((key, stamp), stored) in keys.iter().zip(stamps).zip(&fetched) {
            if remembered(key) && !deaf {
                self.records.fill(key, stamp, stored.clone());
            }
        }
        Ok(fetched)
    }

    /// Blocks of a file, one for each index; a hole is empty.
    pub async fn read_blocks(&self, node: NodeId, range: RangeInclusive<u64>) -> Result<Vec<Bytes>> {
        let mut blocks: Vec<Option<Bytes>> = range.clone().map(|index| self.blocks.get(node, index)).collect();
        let first = blocks.iter().position(Option::is_none);
        if let (Some(first), Some(last)) = (first, blocks.iter().rposition(Option::is_none)) {
            let base = *range.start();
            let stamp = self.blocks.stamp(node);
            let mut read = vec![Bytes::new(); last - first + 1];
            let wanted = base + first as u64..base + last as u64 + 1;
            for (index, bytes) in self.store.blocks(node, wanted).await? {
                read[(index - base) as usize - first] = bytes;
            }
            for (at, bytes) in (first..).zip(read) {
                if !self.deaf.load(Ordering::Relaxed) {
                    self.blocks.fill(node, stamp, base + at as u64, bytes.clone());
                }
                blocks[at] = Some(bytes);
            }
        }
        Ok(blocks.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// Does a batch, as this session; what is remembered follows, and then the change is told as `origin`'s (`None`: it
    /// was told before).
    ///
    /// # Errors
    /// `EIO` where the session was given up.
    pub async fn commit(&self, mut batch: Batch, origin: Option<Origin>) -> Result<Outcome> {
        self.check_alive()?;
        batch.session = Some(self.session);
        let effects = Effects::new(self, &batch);
        let mut answer = Answer { core: self, effects: &effects, seen: false };
        let outcome = self.store.commit(batch).await;
        answer.seen = outcome.as_ref().map_or_else(|error| is_refusal(error.errno()), |_| true);
        let outcome = outcome?;
        match outcome {
            Outcome::Committed(revision) => {
                self.committed.fetch_max(revision.0, Ordering::AcqRel);
                effects.apply(self, revision);
                if let Some(origin) = origin {
                    self.tell(origin, &effects.keys(), &effects.data);
                }
            }
            Outcome::Conflict => {}
            Outcome::Fenced => {
                if !self.fenced.swap(true, Ordering::Relaxed) {
                    tracing::error!(session = self.session.0, "this session was given up; nothing is written any more");
                }
                return Err(fenced());
            }
        }
        Ok(outcome)
    }

    /// Whether anything can still be committed.
    ///
    /// # Errors
    /// `EIO` where the session was given up or closed.
    pub fn check_alive(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::new("commit", Errno::EIO).context("the volume was closed"));
        }
        if self.is_fenced() { Err(fenced()) } else { Ok(()) }
    }

    /// Whether the session was given up.
    pub fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Relaxed)
    }

    /// Whether an own commit's change, as the store tells it, was taken in when it was made.
    pub fn knows_own_commits(&self) -> bool {
        !self.lost_answer.load(Ordering::Relaxed)
    }

    /// Forgets the blocks of a range of bytes.
    pub fn drop_bytes(&self, node: NodeId, start: u64, end: u64) {
        if start < end {
            self.blocks.drop(node, start / self.block_size, (end - 1) / self.block_size);
        }
    }

    /// Forgets all that was read.
    pub fn forget_everything(&self) {
        self.records.clear();
        self.blocks.clear();
        self.company.may_have_come();
        self.send(Origin::OUTSIDE, ChangeKind::Everything);
    }

    /// Tells whoever listens of records and bytes that changed.
    pub fn tell(&self, origin: Origin, keys: &[Key], data: &[(NodeId, u64, u64)]) {
        if self.changes.receiver_count() == 0 {
            return;
        }
        let mut told = HashSet::new();
        for (node, start, end) in data {
            told.insert(*node);
            let len = if *end == u64::MAX { u64::MAX } else { end - start };
            self.send(origin, ChangeKind::Data { node: *node, offset: *start, len });
        }
        for key in keys {
            match key {
                Key::Dentry(parent, name) => {
                    self.send(origin, ChangeKind::Entry { parent: *parent, name: name.clone() });
                }
                Key::Inode(node) | Key::Stats(node) | Key::Xattr(node, _) if told.insert(*node) => {
                    self.send(origin, ChangeKind::Attr(*node));
                }
                _ => {}
            }
        }
    }

    fn send(&self, origin: Origin, kind: ChangeKind) {
        // Nobody listening is no fault.
        let _ = self.changes.send(Change { origin, kind });
    }

    pub fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Has the background task commit a file soon.
    pub fn enqueue(&self, file: Arc<File>) {
        self.queue.lock().push(file);
        self.queued.notify_one();
    }
}

/// Where records came from.
#[derive(Clone, Copy)]
pub struct Sources {
    pub cache: bool,
    pub store: bool,
}

/// Records that are remembered; the others are for whoever keeps the store in order, who always asks.
fn remembered(key: &Key) -> bool {
    matches!(key, Key::Inode(_) | Key::Stats(_) | Key::Dentry(..) | Key::Xattr(..))
}

/// Errors with which a store says that nothing happened.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::ENOSPC | Errno::EDQUOT | Errno::EINVAL)
}

fn fenced() -> Error {
    Error::new("commit", Errno::EIO)
        .context("the store gave this session up because it was not heard of; mount it again to write")
}

/// A number that nobody can foresee.
pub fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// What a batch does to what is remembered.
struct Effects {
    put: Vec<(Key, Record)>,
    deleted: Vec<Key>,
    fields: Vec<super::super::engine::FieldChange>,
    stamps: Vec<(NodeId, Stamp)>,
    data: Vec<(NodeId, u64, u64)>,
}

impl Effects {
    fn new(core: &Core, batch: &Batch) -> Effects {
        let mut nodes: Vec<NodeId> = batch.fields.iter().map(|change| change.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let data: Vec<_> = batch.blocks.iter().map(|change| bytes_of(change, core.block_size)).collect();
        // Blocks that nobody holds are changed in place by the engines that keep them in memory.
        data.iter().for_each(|(node, start, end)| core.drop_bytes(*node, *start, *end));
        Effects {
            put: batch.put.iter().filter(|(key, _)| remembered(key)).cloned().collect(),
            deleted: batch.delete.iter().filter(|key| remembered(key)).cloned().collect(),
            fields: batch.fields.clone(),
            stamps: nodes.into_iter().map(|node| (node, core.records.stamp(&Key::Stats(node)))).collect(),
            data,
        }
    }

    fn apply(&self, core: &Core, revision: Revision) {
        for key in &self.deleted {
            core.records.wrote(key, None, revision);
        }
        for (key, record) in &self.put {
            core.records.wrote(key, Some(record), revision);
        }
        for (node, stamp) in &self.stamps {
            core.records.adjust(*node, *stamp, &self.fields, revision);
        }
        for (node, start, end) in &self.data {
            core.drop_bytes(*node, *start, *end);
            // The store counts what the blocks occupy.
            core.records.drop(&Key::Stats(*node));
        }
    }

    fn keys(&self) -> Vec<Key> {
        let put = self.put.iter().map(|(key, _)| key.clone());
        let fields = self.stamps.iter().map(|(node, _)| Key::Stats(*node));
        put.chain(self.deleted.iter().cloned()).chain(fields).collect()
    }
}

fn bytes_of(change: &BlockChange, block_size: u64) -> (NodeId, u64, u64) {
    match change {
        BlockChange::Patch { node, index, offset, bytes } => {
            let start = index * block_size + u64::from(*offset);
            (*node, start, start + bytes.len() as u64)
        }
        BlockChange::Discard { node, start, end } => (*node, *start, *end),
    }
}

/// Waits for a commit's answer. Where it never comes (an error, a call given up), nobody knows what happened: what the
/// batch touches is forgotten, and from then on own commits are learnt of as others' are.
struct Answer<'a> {
    core: &'a Core,
    effects: &'a Effects,
    seen: bool,
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if self.seen {
            return;
        }
        self.core.lost_answer.store(true, Ordering::Relaxed);
        let keys = self.effects.keys();
        keys.iter().for_each(|key| self.core.records.drop(key));
        for (node, start, end) in &self.effects.data {
            self.core.drop_bytes(*node, *start, *end);
            self.core.records.drop(&Key::Stats(*node));
        }
        self.core.tell(Origin::OUTSIDE, &keys, &self.effects.data);
    }
}
