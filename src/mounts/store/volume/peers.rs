//! The other sessions of the store: who lives, and how one that does not is ended.

use super::super::engine::{Batch, Expect, Outcome};
use super::super::record::{Counter, Key, Prefix, Record, Session, SessionId, Stored};
use super::commit::{Txn, locks_of, pause, redo};
use super::core::Core;
use super::process;
use crate::types::{Errno, Error, NodeId, Result, Timestamp};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A session that is not heard of for so long is given up.
const LEASE: Duration = Duration::from_secs(30);

/// One that lives has this much longer to tell that it knows of another.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often one looks whether it has.
const LOOK: Duration = Duration::from_millis(20);

const PAGE: usize = 256;

/// The other sessions that live; those that do not are ended. Notes whether there are any.
pub async fn live(core: &Core) -> Result<Vec<(SessionId, Session)>> {
    let stamp = core.company.stamp();
    let counter = Key::Counter(Counter::NextSession);
    let counted = core.store.get(std::slice::from_ref(&counter)).await?.pop().flatten();
    let now = core.store.now().await?;
    core.clock_offset.store(now.0.saturating_sub(Timestamp::now().0), Ordering::Relaxed);
    let mut live = Vec::new();
    for (key, stored) in core.store.scan(&Prefix::Sessions, None, usize::MAX).await? {
        let (Key::Session(id), Record::Session(session)) = (&key, &stored.record) else { continue };
        if *id != core.session && !(is_over(session, now) && end(core, *id, &stored).await?) {
            live.push((*id, *session));
        }
    }
    core.company.looked(&stamp, counted.filter(|_| live.is_empty()).map(|stored| stored.revision));
    Ok(live)
}

/// Returns when all other sessions know of this one: until then they may hold locks that no store knows of.
///
/// Errors: `EIO` where one does not tell, though it lives.
pub async fn are_told(core: &Core) -> Result<()> {
    let start = Instant::now();
    while !core.known_to_all.load(Ordering::Relaxed) {
        if live(core).await?.iter().all(|(_, session)| session.acknowledged >= core.began) {
            core.known_to_all.store(true, Ordering::Relaxed);
        } else if start.elapsed() > LEASE + PATIENCE {
            return Err(Error::new("lock", Errno::EIO).context("another session of the store does not tell its locks"));
        } else {
            pause(core, LOOK).await;
        }
    }
    Ok(())
}

/// Whether a session has ended, by itself or because it does not live any more; then it is ended.
pub async fn has_ended(core: &Core, id: SessionId) -> Result<bool> {
    let found = core.store.get(&[Key::Session(id)]).await?.pop().flatten();
    let Some(stored) = found else { return Ok(true) };
    let Record::Session(session) = &stored.record else { return Ok(false) };
    Ok(is_over(session, core.store_now()) && end(core, id, &stored).await?)
}

fn is_over(session: &Session, now: Timestamp) -> bool {
    now.0.saturating_sub(session.seen.0) > LEASE.as_nanos() as i64 || process::is_gone(session)
}

/// Ends a session for good, unless it is heard of after all.
async fn end(core: &Core, id: SessionId, stored: &Stored) -> Result<bool> {
    let key = Key::Session(id);
    let expect = vec![(key.clone(), Expect::At(stored.revision))];
    let batch = Batch { expect, delete: vec![key], ..Batch::default() };
    let ended = matches!(core.commit(batch, None).await?, Outcome::Committed(_));
    if ended {
        tracing::warn!(session = id.0, "a session does not live any more; what it had not committed is lost");
        drop_locks(core, id).await?;
        core.freed_locks.tell_all();
    }
    Ok(ended)
}

/// Takes the locks of a session away.
pub async fn drop_locks(core: &Core, id: SessionId) -> Result<()> {
    let mut after = None;
    loop {
        let page = core.store.scan(&Prefix::Locks, after, PAGE).await?;
        for (key, stored) in &page {
            let (Key::Locks(node), Record::Locks(held)) = (key, &stored.record) else { continue };
            after = Some(node.0);
            if held.iter().any(|lock| lock.owner.session == id) {
                redo!(core, "unlock", None, |txn| build_drop(&mut txn, *node, id));
            }
        }
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

async fn build_drop(txn: &mut Txn<'_>, node: NodeId, id: SessionId) -> Result<()> {
    let found = locks_of(txn, node).await?;
    let mut table = found.record.clone();
    if table.drop_owners(|holder| holder.session == id) {
        found.replace(txn, table);
    }
    Ok(())
}
