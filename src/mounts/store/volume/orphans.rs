//! Orphans: files without a name that somebody has open, in whatever session.
//!
//! An open costs no commit, so nobody but a session knows what it has open. When an orphan appears, each session that
//! has the file open claims it; a session's record tells up to which commit it has done so. An orphan goes when each
//! live session has told of a time after it became one, and none claims it. What a session claimed that is no more does
//! not count.

use super::super::engine::{Batch, BlockChange, Expect, Outcome};
use super::super::record::{Key, Prefix, Record, Revision, Session, SessionId, Stats, Stored};
use super::commit::{Txn, inode_of, redo, stats_of};
use super::core::Core;
use super::nodes::Removal;
use super::peers;
use super::removal::STEP;
use crate::types::{NodeId, Result};

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

/// Gives up sessions that are not heard of, and removes the orphans that nobody holds any more, many in one commit.
pub async fn sweep(core: &Core) -> Result<()> {
    let others = peers::live(core).await?;
    let mut harvest = Vec::new();
    let mut after = None;
    loop {
        let page = core.store.scan(&Prefix::Orphans, after, PAGE).await?;
        for (key, stored) in &page {
            let Key::Orphan(node) = key else { continue };
            after = Some(node.0);
            harvest.extend(consider(core, *node, stored.revision, &others).await?);
            if harvest.iter().map(|ripe: &Ripe<'_>| ripe.bytes).sum::<u64>() > STEP || harvest.len() >= PAGE {
                gather(core, std::mem::take(&mut harvest)).await?;
            }
        }
        if page.len() < PAGE {
            return gather(core, harvest).await;
        }
    }
}

/// An orphan that nobody holds, and the commit that removes it. Opens of our own wait while this is there.
struct Ripe<'a> {
    node: NodeId,
    bytes: u64,
    batch: Batch,
    _removal: Removal<'a>,
}

/// Looks whether anybody holds an orphan.
async fn consider<'a>(
    core: &'a Core,
    node: NodeId,
    since: Revision,
    others: &[(SessionId, Session)],
) -> Result<Option<Ripe<'a>>> {
    if core.nodes.needs_claim(node) {
        claim(core, node).await?;
        return Ok(None);
    }
    let Some(removal) = core.nodes.remove(node) else { return Ok(None) };
    if others.iter().any(|(_, session)| session.acknowledged < since) {
        return Ok(None);
    }
    let claims: Vec<Key> =
        core.store.scan(&Prefix::Claims(node), None, usize::MAX).await?.into_iter().map(|(key, _)| key).collect();
    if others.iter().any(|(id, _)| claims.contains(&Key::Claim(node, *id))) {
        let_go(core, node, &claims).await?;
        return Ok(None);
    }
    pick(core, node, since, others, claims, removal).await
}

/// Takes back our own claim.
async fn let_go(core: &Core, node: NodeId, claims: &[Key]) -> Result<()> {
    let own = Key::Claim(node, core.session);
    if claims.contains(&own) {
        core.commit(Batch { delete: vec![own], ..Batch::default() }, None).await?;
    }
    Ok(())
}

/// Builds the commit that removes an orphan. A large one loses its identity first, so that nobody opens it any more, and
/// then its bytes in steps, before it is ripe; where that was cut short it goes on where it stopped.
async fn pick<'a>(
    core: &'a Core,
    node: NodeId,
    since: Revision,
    others: &[(SessionId, Session)],
    claims: Vec<Key>,
    removal: Removal<'a>,
) -> Result<Option<Ripe<'a>>> {
    let orphaned = (Key::Orphan(node), Expect::At(since));
    let found = core.store.get(&[Key::Inode(node), Key::Stats(node)]).await?;
    let [inode, stats] = <[Option<Stored>; 2]>::try_from(found).unwrap_or_default();
    let stats = stats.map(stats_of).transpose()?.map_or_else(Stats::default, |stats| stats.record);
    let inode = inode.map(inode_of).transpose()?;
    let mut batch = Batch { expect: vec![orphaned.clone()], ..Batch::default() };
    batch.expect.extend(others.iter().map(|(id, _)| (Key::Claim(node, *id), Expect::Absent)));
    if let Some(inode) = &inode {
        batch.expect.push((Key::Inode(node), Expect::At(inode.revision)));
        batch.delete.push(Key::Inode(node));
        let xattrs = core.store.scan(&Prefix::Xattrs(node), None, usize::MAX).await?;
        batch.delete.extend(xattrs.into_iter().map(|(key, _)| key));
    }
    if stats.allocated > STEP {
        if !committed(core, batch).await? || !remove_bytes(core, node, since).await? {
            return Ok(None);
        }
        batch = Batch { expect: vec![orphaned], ..Batch::default() };
    }
    batch.delete.extend([Key::Stats(node), Key::Orphan(node)]);
    batch.delete.extend(claims);
    batch.blocks.push(BlockChange::Discard { node, start: 0, end: u64::MAX });
    Ok(Some(Ripe { node, bytes: stats.allocated, batch, _removal: removal }))
}

/// Removes orphans in one commit; where that conflicts each in its own, and what conflicts then is left for the next
/// sweep.
async fn gather(core: &Core, harvest: Vec<Ripe<'_>>) -> Result<()> {
    let mut all = Batch::default();
    for Ripe { batch, .. } in &harvest {
        all.expect.extend(batch.expect.iter().cloned());
        all.delete.extend(batch.delete.iter().cloned());
        all.blocks.extend(batch.blocks.iter().cloned());
    }
    let together = harvest.is_empty() || committed(core, all).await?;
    for ripe in harvest {
        if together || committed(core, ripe.batch.clone()).await? {
            core.nodes.drop_unsaved(ripe.node);
        }
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
