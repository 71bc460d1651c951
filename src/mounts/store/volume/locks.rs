//! Locks of files, which hold between all sessions of the store.
//!
//! All locks of a file are one record, changed only as it was read. Before a lock is given back, or becomes weaker, what
//! was written in this session is committed; and one that was taken is told only when the changes of all commits before
//! it were taken in. So whoever gets a lock reads what its last holder wrote.
//!
//! A session that is alone asks no store (`lockers`).
//!
//! Locks (async): a stripe of `lockers`, before `writing_back` and the `order` of a file.

use super::super::record::LockHolder;
use super::commit::{Txn, locks_of, redo};
use super::core::Core;
use super::data;
use super::intake;
use super::lockers::{InStore, OwnLocks, of_all, with_session};
use super::peers;
use crate::mounts::locks::{HeldLock, LockTable};
use crate::types::{Errno, LockInTheWay, LockKind, LockOwner, LockRange, LockRequest, NodeId, Result};

/// [`crate::mounts::OpenFile::lock`]
pub async fn lock(core: &Core, node: NodeId, request: &LockRequest) -> Result<()> {
    core.check_alive()?;
    let wanted = HeldLock::wanted(request);
    while is_alone(core) {
        let mut stripe = core.lockers.of(node).await;
        if is_alone(core) {
            take_here(stripe.entry(node).or_default(), wanted)?;
            core.freed_locks.tell(node);
            return Ok(());
        }
    }
    peers::are_told(core).await?;
    if request.kind == LockKind::Read {
        // It may take the place of one for writing.
        commit_written(core).await;
    }
    take(core, node, wanted).await?;
    core.freed_locks.tell(node);
    if let Err(error) = intake::take_in_own_commits(core).await {
        unlock(core, node, request.owner, request.range).await?;
        return Err(error);
    }
    Ok(())
}

fn is_alone(core: &Core) -> bool {
    core.company.alone().is_some() && !core.deaf.load(std::sync::atomic::Ordering::Relaxed)
}

fn take_here(own: &mut OwnLocks, wanted: HeldLock<LockOwner>) -> Result<()> {
    if let Some(held) = own.table.in_the_way(&wanted) {
        return Err(held.refusal());
    }
    own.table.take(wanted);
    own.changed_here();
    Ok(())
}

/// Takes a lock in the store.
async fn take(core: &Core, node: NodeId, wanted: HeldLock<LockOwner>) -> Result<()> {
    let mut stripe = core.lockers.of(node).await;
    let own = stripe.entry(node).or_default();
    let taken = take_there(core, node, &own.table, &wanted).await;
    match &taken {
        Ok(()) => {
            own.table.take(wanted);
            own.store = InStore::Same;
        }
        Err(error) if error.errno() == Errno::EAGAIN => {}
        Err(_) => own.store = InStore::Unlike,
    }
    if own.is_idle() {
        stripe.remove(&node);
    }
    taken
}

async fn take_there(core: &Core, node: NodeId, own: &LockTable<LockOwner>, wanted: &HeldLock<LockOwner>) -> Result<()> {
    let wanted = with_session(wanted, core.session);
    redo!(core, "lock", None, |txn| build_take(&mut txn, node, own, wanted));
    Ok(())
}

async fn build_take(
    txn: &mut Txn<'_>,
    node: NodeId,
    own: &LockTable<LockOwner>,
    wanted: HeldLock<LockHolder>,
) -> Result<()> {
    let found = locks_of(txn, node).await?;
    let mut table = of_all(&found.record, own, txn.core.session);
    if let Some(held) = first_in_the_way(txn.core, &mut table, &wanted).await? {
        return Err(held.refusal());
    }
    table.take(wanted);
    found.replace(txn, table);
    Ok(())
}

/// The first lock in the way of `wanted` that counts: those of sessions that have ended are taken out of the table.
async fn first_in_the_way(
    core: &Core,
    table: &mut LockTable<LockHolder>,
    wanted: &HeldLock<LockHolder>,
) -> Result<Option<HeldLock<LockHolder>>> {
    while let Some(held) = table.in_the_way(wanted).copied() {
        let session = held.owner.session;
        if session == core.session || !peers::has_ended(core, session).await? {
            return Ok(Some(held));
        }
        table.drop_owners(|holder| holder.session == session);
    }
    Ok(None)
}

/// [`crate::mounts::OpenFile::unlock`]
pub async fn unlock(core: &Core, node: NodeId, owner: LockOwner, range: LockRange) -> Result<()> {
    let mut stripe = core.lockers.of(node).await;
    let Some(own) = stripe.get_mut(&node) else { return Ok(()) };
    let changed = own.table.give_back(owner, range);
    if !changed && own.store != InStore::Unlike {
        return Ok(());
    }
    own.changed_here();
    let told = match is_alone(core) {
        true => Ok(()),
        false => {
            commit_written(core).await;
            tell_store(core, node, own).await
        }
    };
    if own.is_idle() {
        stripe.remove(&node);
    }
    drop(stripe);
    core.freed_locks.tell(node);
    told
}

/// Makes the store hold what is held here of a file.
async fn tell_store(core: &Core, node: NodeId, own: &mut OwnLocks) -> Result<()> {
    own.store = InStore::Unlike;
    redo!(core, "unlock", None, |txn| build_tell(&mut txn, node, &own.table));
    own.store = if own.table.is_empty() { InStore::Nothing } else { InStore::Same };
    Ok(())
}

async fn build_tell(txn: &mut Txn<'_>, node: NodeId, own: &LockTable<LockOwner>) -> Result<()> {
    let found = locks_of(txn, node).await?;
    let table = of_all(&found.record, own, txn.core.session);
    found.replace(txn, table);
    Ok(())
}

/// Puts into the store what is held here and it does not know, and commits what was written under locks that were given
/// back. A session that is alone need not.
pub async fn publish(core: &Core) -> Result<()> {
    if is_alone(core) {
        return Ok(());
    }
    for stripe in core.lockers.stripes() {
        let mut stripe = stripe.lock().await;
        for (node, own) in stripe.iter_mut().filter(|(_, own)| own.is_to_be_told()) {
            tell_store(core, *node, own).await?;
        }
        stripe.retain(|_, own| !own.is_idle());
    }
    commit_written(core).await;
    Ok(())
}

/// [`crate::mounts::OpenFile::lock_in_the_way`]
pub async fn find(core: &Core, node: NodeId, request: &LockRequest) -> Result<Option<LockInTheWay>> {
    let stripe = core.lockers.of(node).await;
    let own = stripe.get(&node).map(|own| own.table.clone()).unwrap_or_default();
    if is_alone(core) {
        return Ok(own.in_the_way(&HeldLock::wanted(request)).map(HeldLock::told));
    }
    drop(stripe);
    peers::are_told(core).await?;
    let mut txn = Txn::new(core, None);
    let mut table = of_all(&locks_of(&mut txn, node).await?.record, &own, core.session);
    let wanted = with_session(&HeldLock::wanted(request), core.session);
    let found = first_in_the_way(core, &mut table, &wanted).await?;
    // A process of another session may be one of another machine.
    let pid_of = |held: &HeldLock<LockHolder>| if held.owner.session == core.session { held.pid } else { 0 };
    Ok(found.map(|held| LockInTheWay { pid: pid_of(&held), ..held.told() }))
}

/// Commits what was written in this session, to whatever file: a lock may guard others than its own. A failure is told
/// to whoever closes the file that could not be committed.
async fn commit_written(core: &Core) {
    let files = core.queue.lock().clone();
    for file in files {
        if let Err(error) = data::flush(core, &file, false).await {
            tracing::warn!(%error, node = %file.node, "not committed before a lock was given back");
        }
    }
    // What the background task is about to commit is not in the queue any more.
    drop(core.writing_back.lock().await);
}
