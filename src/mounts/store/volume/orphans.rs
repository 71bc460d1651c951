//! Orphans: files without a name that somebody has open, in whatever session.
//!
//! An open costs no commit, so nobody but a session knows what it has open. When an orphan appears, each session that
//! has the file open claims it; a session's record tells up to which commit it has done so. An orphan goes when each
//! live session has told of a time after it became one, and none claims it. What a session claimed that is no more does
//! not count.

use super::super::engine::{Batch, BlockChange, Expect, Outcome};
use super::super::record::{Counter, Inode, Key, Prefix, Record, Revision, Session, SessionId, Stats, Stored};
use super::commit::{Txn, inode_of, redo, stats_of};
use super::core::Core;
use super::removal::STEP;
use crate::types::{NodeId, Result, Timestamp};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A session that is not heard of for so long is given up.
pub const LEASE: Duration = Duration::from_secs(30);

const PAGE: usize = 256;

/// Tells that this session has an orphan open. False where it is gone.
pub async fn claim(core: &Core, node: NodeId) -> Result<bool> {
    let claimed = redo!(core, "open", None, |txn| build_claim(&mut txn, node));
    if claimed && !core.nodes.claimed(node) {
        core.freed.notify_one();
    }
    Ok(claimed)
}

async fn build_claim(txn: &mut Txn<'_>, node: NodeId) -> Result<bool> {
    let [orphan, inode] = txn.get([Key::Orphan(node), Key::Inode(node)]).await?;
    let (Some(orphan), Some(inode)) = (orphan, inode) else { return Ok(false) };
    txn.expect(Key::Orphan(node), orphan.revision);
    txn.expect(Key::Inode(node), inode.revision);
    txn.put(Key::Claim(node, txn.core.session), Record::Claim);
    Ok(true)
}

/// Gives up sessions that are not heard of, and removes the orphans that nobody holds any more.
pub async fn sweep(core: &Core) -> Result<()> {
    let others = live_sessions(core).await?;
    let mut after = None;
    loop {
        let page = core.store.scan(&Prefix::Orphans, after, PAGE).await?;
        for (key, stored) in &page {
            let Key::Orphan(node) = key else { continue };
            after = Some(node.0);
            consider(core, *node, stored.revision, &others).await?;
        }
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

/// The other sessions that are heard of; those that are not are ended. Notes whether there are any.
async fn live_sessions(core: &Core) -> Result<Vec<(SessionId, Session)>> {
    let counter = Key::Counter(Counter::NextSession);
    let counted = core.store.get(std::slice::from_ref(&counter)).await?.pop().flatten();
    let now = core.store.now().await?;
    core.clock_offset.store(now.0.saturating_sub(Timestamp::now().0), Ordering::Relaxed);
    let mut live = Vec::new();
    for (key, stored) in core.store.scan(&Prefix::Sessions, None, usize::MAX).await? {
        let (Key::Session(id), Record::Session(session)) = (&key, &stored.record) else { continue };
        if *id == core.session {
            continue;
        }
        let silent = now.0.saturating_sub(session.seen.0);
        if silent <= LEASE.as_nanos() as i64 || !end_session(core, &key, stored.revision).await? {
            live.push((*id, *session));
        }
    }
    *core.alone.lock() = counted.filter(|_| live.is_empty()).map(|stored| stored.revision);
    Ok(live)
}

/// Ends a session for good, unless it is heard of after all.
async fn end_session(core: &Core, key: &Key, revision: Revision) -> Result<bool> {
    let batch =
        Batch { expect: vec![(key.clone(), Expect::At(revision))], delete: vec![key.clone()], ..Batch::default() };
    let ended = matches!(core.commit(batch, None).await?, Outcome::Committed(_));
    if ended {
        tracing::warn!(?key, "a session was not heard of and is given up; what it had not committed is lost");
    }
    Ok(ended)
}

/// Removes one orphan, if nobody holds it.
async fn consider(core: &Core, node: NodeId, since: Revision, others: &[(SessionId, Session)]) -> Result<()> {
    if core.nodes.needs_claim(node) {
        claim(core, node).await?;
        return Ok(());
    }
    // Opens of our own wait while this is held.
    let Some(_removal) = core.nodes.remove(node) else { return Ok(()) };
    if others.iter().any(|(_, session)| session.acknowledged < since) {
        return Ok(());
    }
    let claims: Vec<Key> =
        core.store.scan(&Prefix::Claims(node), None, usize::MAX).await?.into_iter().map(|(key, _)| key).collect();
    let held = others.iter().any(|(id, _)| claims.contains(&Key::Claim(node, *id)));
    if held {
        return let_go(core, node, &claims).await;
    }
    remove(core, node, since, others, claims).await
}

/// Takes back our own claim.
async fn let_go(core: &Core, node: NodeId, claims: &[Key]) -> Result<()> {
    let own = Key::Claim(node, core.session);
    if claims.contains(&own) {
        core.commit(Batch { delete: vec![own], ..Batch::default() }, None).await?;
    }
    Ok(())
}

/// Removes an orphan: first its identity, so that nobody opens it any more, then its bytes in steps, then the rest.
/// A removal that was cut short goes on where it stopped. What conflicts is left for the next sweep.
async fn remove(
    core: &Core,
    node: NodeId,
    since: Revision,
    others: &[(SessionId, Session)],
    claims: Vec<Key>,
) -> Result<()> {
    let found = core.store.get(&[Key::Inode(node), Key::Stats(node)]).await?;
    let [inode, stats] = &found[..] else { return Ok(()) };
    let stats = stats.clone().map(stats_of).transpose()?.map_or_else(Stats::default, |stats| stats.record);
    let mut first = Batch { expect: vec![(Key::Orphan(node), Expect::At(since))], ..Batch::default() };
    first.expect.extend(others.iter().map(|(id, _)| (Key::Claim(node, *id), Expect::Absent)));
    if let Some(inode) = inode {
        first.expect.push((Key::Inode(node), Expect::At(inode.revision)));
        first.delete.push(Key::Inode(node));
        let xattrs = core.store.scan(&Prefix::Xattrs(node), None, usize::MAX).await?;
        first.delete.extend(xattrs.into_iter().map(|(key, _)| key));
    }
    if stats.allocated > STEP {
        if !committed(core, first).await? || !remove_bytes(core, node, since).await? {
            return Ok(());
        }
        first = Batch { expect: vec![(Key::Orphan(node), Expect::At(since))], ..Batch::default() };
    }
    first.delete.extend([Key::Stats(node), Key::Orphan(node)]);
    first.delete.extend(claims);
    first.blocks.push(BlockChange::Discard { node, start: 0, end: u64::MAX });
    if committed(core, first).await? {
        keep_view(core, node, inode.clone(), stats)?;
    }
    Ok(())
}

async fn committed(core: &Core, batch: Batch) -> Result<bool> {
    Ok(matches!(core.commit(batch, None).await?, Outcome::Committed(_)))
}

/// Removes a file's bytes from the end of what is there, a step at a time.
async fn remove_bytes(core: &Core, node: NodeId, since: Revision) -> Result<bool> {
    let blocks = (STEP / core.block_size).max(1) as usize;
    loop {
        let step = core.store.scan(&Prefix::Extents(node), None, blocks).await?;
        let index = |found: Option<&(Key, Stored)>| match found {
            Some((Key::Block(_, index), _)) => Some(*index),
            _ => None,
        };
        let (Some(first), Some(last)) = (index(step.first()), index(step.last())) else { return Ok(true) };
        let (start, end) = (first * core.block_size, (last + 1) * core.block_size);
        let batch = Batch {
            expect: vec![(Key::Orphan(node), Expect::At(since))],
            blocks: vec![BlockChange::Discard { node, start, end }],
            ..Batch::default()
        };
        if !committed(core, batch).await? {
            return Ok(false);
        }
    }
}

/// Those who still know the file see its attributes as they were.
fn keep_view(core: &Core, node: NodeId, inode: Option<Stored>, stats: Stats) -> Result<()> {
    if let Some(inode) = inode {
        let inode: Inode = inode_of(inode)?.record;
        core.nodes.set_gone(node, inode, stats);
    }
    Ok(())
}
