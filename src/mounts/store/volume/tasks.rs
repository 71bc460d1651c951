//! What goes on beside the calls: changes are taken in, files committed, the session kept alive.

use super::super::engine::StoreChange;
use super::super::record::{Counter, Key};
use super::core::Core;
use super::data;
use super::file::File;
use super::orphans;
use super::session;
use crate::types::{Errno, NodeId, Origin};
use futures::StreamExt;
use futures::stream::BoxStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long written bytes may wait for others before they are committed.
const FLUSH_DELAY: Duration = Duration::from_millis(5);
/// How long to wait before a commit that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// How often a session tells that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// The least time between two looks at the orphans, and between two heartbeats.
const SWEEP_DELAY: Duration = Duration::from_millis(50);

/// The tasks of a volume. They end when this is dropped.
pub struct Tasks(Vec<JoinHandle<()>>);

impl Tasks {
    pub fn start(core: &Arc<Core>, changes: BoxStream<'static, StoreChange>) -> Tasks {
        let runtime = &core.runtime;
        Tasks(vec![
            runtime.spawn(listen(core.clone(), changes)),
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

/// Takes in what is committed, by whomever.
async fn listen(core: Arc<Core>, mut changes: BoxStream<'static, StoreChange>) {
    while let Some(change) = changes.next().await {
        take_in(&core, change).await;
    }
    core.deaf.store(true, Ordering::Relaxed);
    core.forget_everything();
}

async fn take_in(core: &Core, change: StoreChange) {
    let StoreChange::Commit { revision, session, keys, data } = change else {
        core.forget_everything();
        for node in core.nodes.unclaimed() {
            claim(core, node).await;
        }
        return;
    };
    let own = session == Some(core.session) && core.knows_own_commits();
    keys.iter().for_each(|key| core.records.changed(key, revision, own));
    if !own {
        data.iter().for_each(|(node, start, end)| core.drop_bytes(*node, *start, *end));
        watch_sessions(core, &keys);
        core.tell(Origin::OUTSIDE, &keys, &data);
    }
    for key in &keys {
        if let Key::Orphan(node) = key
            && core.nodes.needs_claim(*node)
            && !keys.contains(&Key::Claim(*node, core.session))
        {
            claim(core, *node).await;
        }
    }
    core.applied.fetch_max(revision.0, Ordering::Release);
    if !own && keys.iter().any(|key| matches!(key, Key::Orphan(_))) {
        core.asked.notify_one();
    }
}

/// A session came, went, or told of what it has open: orphans may have become free.
fn watch_sessions(core: &Core, keys: &[Key]) {
    if keys.contains(&Key::Counter(Counter::NextSession)) {
        *core.alone.lock() = None;
    }
    if keys.iter().any(|key| matches!(key, Key::Session(_))) {
        core.freed.notify_one();
    }
}

/// Claims an orphan that is open here. Where that fails the session does not tell that it has done so, and tries again.
async fn claim(core: &Core, node: NodeId) {
    if let Err(error) = orphans::claim(core, node).await {
        tracing::warn!(%error, %node, "an open file that lost its name could not be claimed yet");
        core.unclaimed.lock().insert(node);
    }
}

/// Commits what was written and nobody committed.
async fn write_back(core: Arc<Core>) {
    loop {
        core.queued.notified().await;
        tokio::time::sleep(FLUSH_DELAY).await;
        let files = std::mem::take(&mut *core.queue.lock());
        let mut failed = false;
        for file in files {
            failed |= !write_file(&core, &file).await;
        }
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
            _ = beat.tick() => session::heartbeat(&core).await,
            () = core.asked.notified() => session::heartbeat(&core).await,
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
