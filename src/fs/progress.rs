//! How far the kernel has been told of the changes that have reached this process.
//!
//! Whoever makes a change wakes the thread that tells it. That moment is counted here, in the maker's own thread, so
//! that an OPEN afterwards can see whether there is something to wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Wake;
use std::thread::Thread;
use std::time::Duration;
use tokio::sync::watch;

/// How long an OPEN waits at most. The thread that tells may itself wait for a read of a store that hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Counts of wakes: those that came, and those after which everything was told.
pub(super) struct Progress {
    arrived: AtomicU64,
    told: watch::Sender<u64>,
}

impl Default for Progress {
    /// The first look at the feed counts as an arrival: what came before it woke nobody.
    fn default() -> Progress {
        Progress { arrived: AtomicU64::new(1), told: watch::Sender::new(0) }
    }
}

impl Progress {
    /// Returns when the kernel has been told of all that has arrived by now, or, with false, after `patience`.
    pub(super) async fn caught_up(&self, patience: Duration) -> bool {
        let arrived = self.arrived();
        if *self.told.borrow() >= arrived {
            return true;
        }
        let mut told = self.told.subscribe();
        tokio::time::timeout(patience, told.wait_for(|told| *told >= arrived)).await.is_ok()
    }

    /// The wakes until now. Taken before the feed is emptied.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(SeqCst)
    }

    /// All that was there at the wake `arrived` has been told.
    pub(super) fn told(&self, arrived: u64) {
        self.told.send_replace(arrived);
    }

    /// Nothing will be told any more, and nobody need wait for it.
    pub(super) fn end(&self) {
        self.told(u64::MAX);
    }
}

/// Wakes the thread that tells, and counts it.
pub(super) struct Bell {
    progress: Arc<Progress>,
    thread: Thread,
}

impl Bell {
    /// For the current thread.
    pub(super) fn new(progress: Arc<Progress>) -> Arc<Bell> {
        Arc::new(Bell { progress, thread: std::thread::current() })
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Bell>) {
        self.progress.arrived.fetch_add(1, SeqCst);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::task::Waker;

    #[test]
    fn one_waits_for_what_has_arrived_and_for_nothing_later() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _context = runtime.enter();
        let progress = Arc::new(Progress::default());
        let bell = Waker::from(Bell::new(progress.clone()));
        progress.told(progress.arrived());
        assert!(progress.caught_up(PATIENCE).now_or_never().is_some(), "nothing has arrived");
        bell.wake_by_ref();
        let mut waiting = Box::pin(progress.caught_up(PATIENCE));
        assert!(waiting.as_mut().now_or_never().is_none());
        let arrived = progress.arrived();
        bell.wake_by_ref();
        progress.told(arrived);
        assert!(waiting.now_or_never().is_some(), "what came later is not waited for");
        progress.end();
        assert!(progress.caught_up(PATIENCE).now_or_never().is_some(), "nor is what nobody tells");
    }
}
