//! A store that stops before each call of a client that is being stepped, and lets everybody else through.
//!
//! A client is stepped by polling its operation. The first poll runs to the first call of the store and stops before it;
//! each later one makes that call, and runs to the next. So the order of the polls is the order of the store's calls.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;
use workfs::mounts::store::engine::{Batch, Outcome, Store, StoreChange, Usage};
use workfs::mounts::store::record::{Key, Prefix, Stored};
use workfs::types::{NodeId, Result, Timestamp};

/// What a client is about to ask of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// Nothing changes by it.
    Read,
    /// A commit.
    Commit,
}

thread_local! {
    static STEPPING: Cell<bool> = const { Cell::new(false) };
    static STOPPED: Cell<Option<Call>> = const { Cell::new(None) };
}

/// Steps a client by `poll`; tells what it answered, and before which call it stopped.
pub fn step<T>(poll: impl FnOnce() -> Poll<T>) -> (Poll<T>, Option<Call>) {
    STEPPING.set(true);
    STOPPED.set(None);
    let polled = poll();
    STEPPING.set(false);
    (polled, STOPPED.get())
}

pub struct Gate {
    pub inner: Arc<dyn Store>,
}

impl Gate {
    async fn stop(&self, call: Call) {
        if !STEPPING.get() {
            return;
        }
        let mut stopped = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut stopped, true) {
                return Poll::Ready(());
            }
            STOPPED.set(Some(call));
            Poll::Pending
        })
        .await;
    }
}

#[async_trait]
impl Store for Gate {
    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Stored>>> {
        self.stop(Call::Read).await;
        self.inner.get(keys).await
    }

    async fn scan(&self, prefix: &Prefix, after: Option<u64>, limit: usize) -> Result<Vec<(Key, Stored)>> {
        self.stop(Call::Read).await;
        self.inner.scan(prefix, after, limit).await
    }

    async fn blocks(&self, node: NodeId, range: Range<u64>) -> Result<Vec<(u64, Bytes)>> {
        self.stop(Call::Read).await;
        self.inner.blocks(node, range).await
    }

    async fn commit(&self, batch: Batch) -> Result<Outcome> {
        self.stop(Call::Commit).await;
        self.inner.commit(batch).await
    }

    fn changes(&self) -> BoxStream<'static, StoreChange> {
        self.inner.changes()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.inner.now().await
    }

    async fn usage(&self) -> Result<Usage> {
        self.inner.usage().await
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
