//! What goes on beside the calls: changes are taken in, files committed, the session kept alive.

use super::core::Core;
use super::data;
use super::feed::Found;
use super::file::File;
use super::intake;
use super::locks;
use super::orphans;
use super::session;
use crate::types::{Errno, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long written bytes may wait for others before they are committed.
const FLUSH_DELAY: Duration = Duration::from_millis(5);
/// How long to wait before a commit that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// How often a session tells that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// The least time between two looks at the orphans.
const SWEEP_DELAY: Duration = Duration::from_millis(50);
/// How long after a file lost its name it can still be opened by who found it before.
const GRACE: Duration = Duration::from_millis(500);

/// The tasks of a volume. They end when this is dropped.
pub struct Tasks(Vec<JoinHandle<()>>);

impl Tasks {
    pub fn start(core: &Arc<Core>) -> Tasks {
        let runtime = &core.runtime;
        Tasks(vec![
            runtime.spawn(listen(core.clone())),
            runtime.spawn(write_back(core.clone())),
            runtime.spawn(keep(core.clone())),
        ])
    }

    /// Ends them, and returns when they have.
    pub async fn stop(mut self) {
        for task in std::mem::take(&mut self.0) {
            task.abort();
            let _ = task.await;
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Takes in what is committed, by whomever, as it comes.
async fn listen(core: Arc<Core>) {
    std::future::poll_fn(|context| {
        core.feed.listen(context.waker());
        match intake::catch_up(&core) {
            Found::Nothing => Poll::Pending,
            Found::End => Poll::Ready(()),
        }
    })
    .await;
    core.deaf.store(true, Ordering::Relaxed);
    core.forget_everything();
}

/// Commits what was written and nobody committed.
async fn write_back(core: Arc<Core>) {
    loop {
        core.queued.notified().await;
        tokio::time::sleep(FLUSH_DELAY).await;
        let busy = core.writing_back.lock().await;
        let files = std::mem::take(&mut *core.queue.lock());
        let mut failed = false;
        for file in files {
            failed |= !write_file(&core, &file).await;
        }
        drop(busy);
        if failed {
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

/// Commits one file; false where it must be tried again.
async fn write_file(core: &Core, file: &Arc<File>) -> bool {
    file.unqueue();
    match data::flush(core, file, false).await {
        Ok(()) => core.nodes.tidy(file.node),
        Err(error) if error.errno() == Errno::ESTALE && !core.nodes.is_open(file.node) => {
            tracing::warn!(node = %file.node, "what was written to it is lost: somebody else removed it");
            file.discard();
            core.nodes.tidy(file.node);
        }
        Err(error) => {
            tracing::warn!(%error, node = %file.node, "what was written could not be committed yet");
            if file.requeue() {
                core.enqueue(file.clone());
            }
            return false;
        }
    }
    true
}

/// Keeps the session alive, and the store tidy.
async fn keep(core: Arc<Core>) {
    let mut beat = tokio::time::interval(HEARTBEAT);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !core.is_fenced() {
        let done = tokio::select! {
            _ = beat.tick() => tell(&core).await,
            () = core.asked.notified() => tell(&core).await,
            () = core.freed.notified() => Ok(()),
        };
        let done = match done {
            Ok(()) => orphans::sweep(&core).await,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "the store could not be kept in order");
        }
        tokio::time::sleep(SWEEP_DELAY).await;
    }
}

/// Claims the orphans that are open here, puts what locks are held into the store, and tells, after a while, that this
/// was done.
///
/// The while is for callers that have found a file by its name and are about to open it: they get it, although it was
/// replaced in between.
async fn tell(core: &Core) -> Result<()> {
    let applied = session::claim_all(core).await?;
    locks::publish(core).await?;
    tokio::time::sleep(GRACE).await;
    session::heartbeat(core, applied).await
}
