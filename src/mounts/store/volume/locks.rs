//! Locks of files, which hold between all sessions of the store.
//!
//! All locks of a file are one record, changed only as it was read. Before a lock is given back, or becomes weaker, what
//! was written in this session is committed; and one that was taken is told only when the changes of all commits before
//! it were taken in. So whoever gets a lock reads what its last holder wrote.

use super::super::record::{LockHolder, SessionId};
use super::commit::{Txn, locks_of, redo};
use super::core::Core;
use super::data;
use super::intake;
use super::peers;
use crate::mounts::locks::{HeldLock, LockTable};
use crate::types::{Errno, Error, LockInTheWay, LockKind, LockOwner, LockRange, LockRequest, NodeId, Result};
use std::collections::HashSet;

/// [`crate::mounts::OpenFile::lock`]
pub async fn lock(core: &Core, node: NodeId, request: &LockRequest) -> Result<()> {
    let wanted = held(core, request);
    if request.kind == LockKind::Read {
        // It may take the place of one for writing.
        commit_written(core).await;
    }
    let mut lockers = core.lockers.of(node).lock().await;
    let taken = take(core, node, &wanted).await;
    if taken.as_ref().map_or_else(|error| error.errno() != Errno::EAGAIN, |()| true) {
        // Where the answer was lost it may have been taken, and must be given back.
        lockers.insert((node, request.owner));
    }
    drop(lockers);
    taken?;
    core.freed_locks.tell(node);
    if let Err(error) = intake::take_in_own_commits(core).await {
        unlock(core, node, request.owner, request.range).await?;
        return Err(error);
    }
    Ok(())
}

fn held(core: &Core, request: &LockRequest) -> HeldLock<LockHolder> {
    let owner = LockHolder { session: core.session, owner: request.owner };
    HeldLock { range: request.range, owner, kind: request.kind, pid: request.pid }
}

async fn take(core: &Core, node: NodeId, wanted: &HeldLock<LockHolder>) -> Result<()> {
    redo!(core, "lock", None, |txn| build_take(&mut txn, node, wanted));
    Ok(())
}

async fn build_take(txn: &mut Txn<'_>, node: NodeId, wanted: &HeldLock<LockHolder>) -> Result<()> {
    let found = locks_of(txn, node).await?;
    let mut table = found.record.clone();
    if let Some(held) = first_in_the_way(txn.core, &mut table, wanted).await? {
        let HeldLock { owner: LockHolder { session, .. }, range, kind, pid } = held;
        let who = format!("process {pid} of session {} has a {kind:?} lock of {range:?}", session.0);
        return Err(Error::new("lock", Errno::EAGAIN).context(who));
    }
    table.take(*wanted);
    found.replace(txn, table);
    Ok(())
}

/// The first lock in the way of `wanted` that counts: those of sessions that have ended are taken out of the table.
async fn first_in_the_way(
    core: &Core,
    table: &mut LockTable<LockHolder>,
    wanted: &HeldLock<LockHolder>,
) -> Result<Option<HeldLock<LockHolder>>> {
    let mut live: HashSet<SessionId> = HashSet::from([core.session]);
    while let Some(held) = table.in_the_way(wanted).copied() {
        let session = held.owner.session;
        if live.contains(&session) || !peers::has_ended(core, session).await? {
            return Ok(Some(held));
        }
        table.drop_owners(|holder| holder.session == session);
        live.remove(&session);
    }
    Ok(None)
}

/// [`crate::mounts::OpenFile::unlock`]
pub async fn unlock(core: &Core, node: NodeId, owner: LockOwner, range: LockRange) -> Result<()> {
    let mut lockers = core.lockers.of(node).lock().await;
    if !lockers.contains(&(node, owner)) {
        return Ok(());
    }
    commit_written(core).await;
    let holder = LockHolder { session: core.session, owner };
    let holds_more = redo!(core, "unlock", None, |txn| build_unlock(&mut txn, node, holder, range));
    if !holds_more {
        lockers.remove(&(node, owner));
    }
    drop(lockers);
    core.freed_locks.tell(node);
    Ok(())
}

/// Tells whether the holder has other locks of the file.
async fn build_unlock(txn: &mut Txn<'_>, node: NodeId, holder: LockHolder, range: LockRange) -> Result<bool> {
    let found = locks_of(txn, node).await?;
    let mut table = found.record.clone();
    let changed = table.give_back(holder, range);
    let holds_more = table.holds(holder);
    if changed {
        found.replace(txn, table);
    }
    Ok(holds_more)
}

/// [`crate::mounts::OpenFile::lock_in_the_way`]
pub async fn in_the_way(core: &Core, node: NodeId, request: &LockRequest) -> Result<Option<LockInTheWay>> {
    let mut txn = Txn::new(core, None);
    let mut table = locks_of(&mut txn, node).await?.record;
    let found = first_in_the_way(core, &mut table, &held(core, request)).await?;
    // A process of another session may be one of another machine.
    Ok(found.map(|HeldLock { range, owner, kind, pid }| LockInTheWay {
        kind,
        range,
        pid: if owner.session == core.session { pid } else { 0 },
    }))
}

/// Commits what was written in this session, to whatever file: a lock may guard others than its own. A failure is told
/// to whoever closes the file that could not be committed.
async fn commit_written(core: &Core) {
    let files = core.queue.lock().clone();
    for file in files {
        if let Err(error) = data::flush(core, &file, false).await {
            tracing::warn!(%error, node = %file.node, "what was written could not be committed before a lock was given back");
        }
    }
    // What the background task is about to commit is not in the queue any more.
    drop(core.writing_back.lock().await);
}
