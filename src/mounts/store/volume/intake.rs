//! Changes taken in: what is remembered and not true any more is forgotten, then the change is told on, and orphans that
//! are open here are noted, to be claimed.

use super::super::engine::StoreChange;
use super::super::record::{Counter, Key};
use super::core::Core;
use super::feed::Found;
use crate::types::{Errno, Error, Origin, Result};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the changes of commits that happened may take to come. A heartbeat comes meanwhile, if they were lost.
const PATIENCE: Duration = Duration::from_secs(15);

/// Takes in all that has reached this machine.
pub fn catch_up(core: &Core) -> Found {
    core.feed.drain(|change| take_in(core, change))
}

fn take_in(core: &Core, change: StoreChange) {
    let StoreChange::Commit { revision, session, keys, data } = change else {
        core.forget_everything();
        core.freed_locks.tell_all();
        core.unclaimed.lock().extend(core.nodes.unclaimed());
        core.asked.notify_one();
        return;
    };
    if revision <= core.began {
        return;
    }
    let own = session == Some(core.session) && core.knows_own_commits();
    keys.iter().for_each(|key| core.records.changed(key, revision, own));
    if !own {
        data.iter().for_each(|(node, start, end)| core.drop_bytes(*node, *start, *end));
        watch_sessions(core, &keys);
        core.tell(Origin::OUTSIDE, &keys, &data);
    }
    note_orphans(core, &keys, own);
    if keys.iter().any(|key| matches!(key, Key::Locks(_) | Key::Session(_))) {
        tell_waiters(core, &keys);
    }
    core.applied.fetch_max(revision.0, Ordering::Release);
    core.taken_in.notify_waiters();
}

/// Locks were given back, perhaps, or went with their session.
fn tell_waiters(core: &Core, keys: &[Key]) {
    for key in keys {
        match key {
            Key::Locks(node) => core.freed_locks.tell(*node),
            Key::Session(_) => core.freed_locks.tell_all(),
            _ => {}
        }
    }
}

/// Returns when the changes of all commits up to the newest one of this session were taken in.
///
/// Errors: `EIO` where they do not come.
pub async fn take_in_own_commits(core: &Core) -> Result<()> {
    let newest = core.committed.load(Ordering::Acquire);
    let all = async {
        loop {
            let mut more = pin!(core.taken_in.notified());
            more.as_mut().enable();
            let ended = matches!(catch_up(core), Found::End);
            if ended || core.applied.load(Ordering::Acquire) >= newest {
                return;
            }
            more.await;
        }
    };
    let waiting = {
        let _runtime = core.runtime.enter();
        tokio::time::timeout(PATIENCE, all)
    };
    let late = |_| Error::new("lock", Errno::EIO).context("the store does not tell what others changed");
    waiting.await.map_err(late)
}

/// A session came, went, or told of what it has open: orphans may have become free.
fn watch_sessions(core: &Core, keys: &[Key]) {
    if keys.contains(&Key::Counter(Counter::NextSession)) {
        core.company.may_have_come();
        // It waits for us to tell that we know of it, and of our locks.
        core.asked.notify_one();
    }
    if keys.iter().any(|key| matches!(key, Key::Session(_))) {
        core.freed.notify_one();
    }
}

/// Others wait for this session to say whether it has a new orphan open.
fn note_orphans(core: &Core, keys: &[Key], own: bool) {
    for key in keys {
        let Key::Orphan(node) = key else { continue };
        core.nodes.note_orphan(*node);
        if core.nodes.needs_claim(*node) && !keys.contains(&Key::Claim(*node, core.session)) {
            core.unclaimed.lock().insert(*node);
            core.asked.notify_one();
        } else if !own {
            core.asked.notify_one();
        }
    }
}
