//! Telling those who wait for a lock that one was given back.

use crate::types::NodeId;
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::watch;

/// Who waits for locks of which file.
#[derive(Default)]
pub struct FreedLocks(Mutex<HashMap<NodeId, watch::Sender<()>>>);

/// Tells of locks that were given back since it was made.
pub struct LockWatch(watch::Receiver<()>);

impl FreedLocks {
    /// Watches a file's locks. To be asked for before a lock is tried, so that what is given back in between is told.
    pub fn watch(&self, node: NodeId) -> LockWatch {
        let mut watched = self.0.lock();
        watched.retain(|_, sender| sender.receiver_count() > 0);
        LockWatch(watched.entry(node).or_default().subscribe())
    }

    /// A lock of `node` was given back, or became weaker.
    pub fn tell(&self, node: NodeId) {
        if let Some(sender) = self.0.lock().get(&node) {
            sender.send_replace(());
        }
    }

    /// Locks of any file may have been given back.
    pub fn tell_all(&self) {
        self.0.lock().values().for_each(|sender| sender.send_replace(()));
    }
}

impl LockWatch {
    /// Returns when a lock was given back since the last call. It may be another than the one that is wanted.
    pub async fn freed(&mut self) {
        if self.0.changed().await.is_err() {
            // The volume is gone, and nothing will be told any more.
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn what_is_given_back_is_told_to_those_who_watched_before() {
        let freed = FreedLocks::default();
        let (mut early, mut other) = (freed.watch(NodeId(1)), freed.watch(NodeId(2)));
        assert!(early.freed().now_or_never().is_none());
        freed.tell(NodeId(1));
        let mut late = freed.watch(NodeId(1));
        assert!(early.freed().now_or_never().is_some() && early.freed().now_or_never().is_none(), "once");
        assert!(late.freed().now_or_never().is_none() && other.freed().now_or_never().is_none());
        freed.tell_all();
        assert!(late.freed().now_or_never().is_some() && other.freed().now_or_never().is_some());
    }
}
