//! Changes taken in: what is remembered and not true any more is forgotten, then the change is told on, and orphans that
//! are open here are noted, to be claimed.

use super::super::engine::StoreChange;
use super::super::record::{Counter, Key};
use super::core::Core;
use super::feed::Found;
use crate::types::Origin;
use std::sync::atomic::Ordering;

/// Takes in all that has reached this machine.
pub fn catch_up(core: &Core) -> Found {
    core.feed.drain(|change| take_in(core, change))
}

fn take_in(core: &Core, change: StoreChange) {
    let StoreChange::Commit { revision, session, keys, data } = change else {
        core.forget_everything();
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
    core.applied.fetch_max(revision.0, Ordering::Release);
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
