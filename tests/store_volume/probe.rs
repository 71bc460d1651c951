//! A store that counts what is asked of it, fails when told, and whose clock can be set forward.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use tokio::sync::mpsc;
use workfs::mounts::store::engine::{Batch, BlockChange, Outcome, Store, StoreChange, Usage};
use workfs::mounts::store::memory::MemoryStore;
use workfs::mounts::store::record::{Key, Prefix, Stored};
use workfs::types::{Errno, Error, NodeId, Result, Timestamp};

pub struct Probe {
    pub inner: Arc<dyn Store>,
    pub reads: AtomicUsize,
    /// Batches that were committed, heartbeats not among them.
    pub commits: Mutex<Vec<Batch>>,
    /// Commits fail with this.
    pub failure: Mutex<Option<Errno>>,
    /// Commits that change this file's bytes fail.
    pub bad: Mutex<Option<NodeId>>,
    /// Records cannot be read.
    pub unreadable: AtomicBool,
    /// Changes are kept back.
    pub silent: AtomicBool,
    clock: AtomicI64,
    lost: Mutex<Vec<mpsc::UnboundedSender<StoreChange>>>,
}

impl Probe {
    pub fn new() -> Arc<Probe> {
        Probe::over(MemoryStore::new())
    }

    pub fn over(inner: Arc<dyn Store>) -> Arc<Probe> {
        Arc::new(Probe {
            inner,
            reads: AtomicUsize::new(0),
            commits: Mutex::default(),
            failure: Mutex::default(),
            bad: Mutex::default(),
            unreadable: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            clock: AtomicI64::new(0),
            lost: Mutex::default(),
        })
    }

    /// Sets the clock forward.
    pub fn pass(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
    }

    pub fn fail(&self, errno: Option<Errno>) {
        *self.failure.lock() = errno;
    }

    /// Tells that the channel of changes was interrupted.
    pub fn lose(&self) {
        self.lost.lock().iter().for_each(|sender| sender.send(StoreChange::Lost).expect("somebody listens"));
    }

    /// The commits since the last call.
    pub fn committed(&self) -> Vec<Batch> {
        std::mem::take(&mut self.commits.lock())
    }
}

fn is_heartbeat(batch: &Batch) -> bool {
    matches!(batch.put.as_slice(), [(Key::Session(_), _)])
}

fn node_of(change: &BlockChange) -> NodeId {
    match change {
        BlockChange::Patch { node, .. } | BlockChange::Discard { node, .. } => *node,
    }
}

/// The bytes that a commit takes away, as far as it says.
pub fn discarded(batch: &Batch) -> u64 {
    let bytes = |change: &BlockChange| match change {
        BlockChange::Discard { start, end, .. } => end - start,
        BlockChange::Patch { .. } => 0,
    };
    batch.blocks.iter().map(bytes).sum()
}

#[async_trait]
impl Store for Probe {
    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Stored>>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.unreadable.load(Ordering::SeqCst) {
            return Err(Error::new("get", Errno::EIO).context("the probe was told to fail"));
        }
        self.inner.get(keys).await
    }

    async fn scan(&self, prefix: &Prefix, after: Option<u64>, limit: usize) -> Result<Vec<(Key, Stored)>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.scan(prefix, after, limit).await
    }

    async fn blocks(&self, node: NodeId, range: Range<u64>) -> Result<Vec<(u64, Bytes)>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.blocks(node, range).await
    }

    async fn commit(&self, batch: Batch) -> Result<Outcome> {
        let bad = *self.bad.lock();
        let failure = self
            .failure
            .lock()
            .or_else(|| batch.blocks.iter().find(|change| bad == Some(node_of(change))).map(|_| Errno::EIO));
        if let Some(errno) = failure {
            return Err(Error::new("commit", errno).context("the probe was told to fail"));
        }
        let copy = batch.clone();
        let outcome = self.inner.commit(batch).await?;
        if matches!(outcome, Outcome::Committed(_)) && !is_heartbeat(&copy) {
            self.commits.lock().push(copy);
        }
        Ok(outcome)
    }

    fn changes(&self) -> BoxStream<'static, StoreChange> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.lost.lock().push(sender);
        let lost = futures::stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
        if self.silent.load(Ordering::SeqCst) {
            return lost.boxed();
        }
        futures::stream::select(self.inner.changes(), lost).boxed()
    }

    async fn now(&self) -> Result<Timestamp> {
        let now = self.inner.now().await?;
        Ok(Timestamp(now.0 + self.clock.load(Ordering::SeqCst)))
    }

    async fn usage(&self) -> Result<Usage> {
        self.inner.usage().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
