//! The session: how a namespace is opened, how others know that this process is alive, and how it ends.

use super::super::engine::{Batch, Expect, Outcome, Store};
use super::super::record::{Counter, Inode, Key, Record, Revision, Session, SessionId, Stats, Stored};
use super::core::Core;
use super::feed::Feed;
use super::process::Process;
use crate::types::{Errno, Error, FileKind, Mode, NodeId, Result, Timestamp};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The root directory's number.
pub const ROOT: NodeId = NodeId(1);

const TRIES: u32 = 100;

/// Opens a namespace, and makes its root where it is new.
pub async fn start(store: Arc<dyn Store>) -> Result<Core> {
    // Before anything is read, so that no change of what is read is missed.
    let feed = Feed::new(store.changes());
    format(&*store).await?;
    let session = register(&*store).await?;
    let core = Core::new(store, feed, session, tokio::runtime::Handle::current());
    heartbeat(&core, core.began).await?;
    Ok(core)
}

async fn format(store: &dyn Store) -> Result<()> {
    for _ in 0..TRIES {
        if store.get(&[Key::Inode(ROOT)]).await?.pop().flatten().is_some() {
            return Ok(());
        }
        store.commit(first_batch()).await?;
    }
    Err(Error::new("open", Errno::EIO).context("the namespace has no root, and none could be made"))
}

fn first_batch() -> Batch {
    let now = Timestamp::now();
    let root = Inode {
        kind: FileKind::Directory,
        mode: Mode::new(0o755),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        parent: Some(ROOT),
        target: Bytes::new(),
        born: now,
    };
    let stats = Stats { links: 2, atime: now, mtime: now, ctime: now, ..Stats::default() };
    let put = vec![
        (Key::Inode(ROOT), Record::Inode(root)),
        (Key::Stats(ROOT), Record::Stats(stats)),
        (Key::Counter(Counter::NextInode), Record::Counter(ROOT.0 + 1)),
        (Key::Counter(Counter::NextSession), Record::Counter(1)),
    ];
    let expect = put.iter().map(|(key, _)| (key.clone(), Expect::Absent)).collect();
    Batch { expect, put, ..Batch::default() }
}

async fn register(store: &dyn Store) -> Result<(SessionId, Revision)> {
    let key = Key::Counter(Counter::NextSession);
    for _ in 0..TRIES {
        let found = store.get(std::slice::from_ref(&key)).await?.pop().flatten();
        let Some(Stored { record: Record::Counter(next), revision }) = found else {
            return Err(Error::new("open", Errno::EIO).context("the store has no counter of sessions"));
        };
        let session = own_record(store.now().await?, Revision::FIRST);
        let batch = Batch {
            expect: vec![(key.clone(), Expect::At(revision))],
            put: vec![
                (key.clone(), Record::Counter(next + 1)),
                (Key::Session(SessionId(next)), Record::Session(session)),
            ],
            ..Batch::default()
        };
        if let Outcome::Committed(revision) = store.commit(batch).await? {
            return Ok((SessionId(next), revision));
        }
    }
    Err(Error::new("open", Errno::EIO).context("other sessions begin all the time"))
}

fn own_record(seen: Timestamp, acknowledged: Revision) -> Session {
    let Process { pid, started, place } = Process::own();
    Session { seen, acknowledged, pid, started, place }
}

/// Claims the orphans that are open here and were not claimed yet; tells up to which commit that is done.
pub async fn claim_all(core: &Core) -> Result<Revision> {
    // In this order: an orphan that is noted after the look is of a later commit.
    let applied = Revision(core.applied.load(Ordering::Acquire));
    let unclaimed: Vec<NodeId> = core.unclaimed.lock().iter().copied().collect();
    for node in unclaimed {
        super::orphans::claim(core, node).await?;
        core.unclaimed.lock().remove(&node);
    }
    Ok(applied)
}

/// Tells that this session is alive, and up to which commit it has claimed what it has open.
pub async fn heartbeat(core: &Core, acknowledged: Revision) -> Result<()> {
    let session = own_record(core.store.now().await?, acknowledged);
    let put = vec![(Key::Session(core.session), Record::Session(session))];
    core.commit(Batch { put, ..Batch::default() }, None).await?;
    Ok(())
}

/// Asks the store itself whether the namespace and this session are still in it.
///
/// Errors: `EIO`.
pub async fn check(core: &Core) -> Result<()> {
    let found = core.store.get(&[Key::Inode(ROOT), Key::Session(core.session)]).await?;
    let missing = match &found[..] {
        [Some(_), Some(_)] => return Ok(()),
        [None, _] => "the namespace has no root any more: the store was emptied beside the mount",
        _ => "this session was given up by the others, so nothing can be written any more",
    };
    Err(Error::new("health", Errno::EIO).context(missing).context("unmount, and mount again"))
}

/// Ends the session: from now on others need not wait for it, and its locks are gone.
pub async fn end(core: &Core) -> Result<()> {
    super::peers::drop_locks(core, core.session).await?;
    core.commit(Batch { delete: vec![Key::Session(core.session)], ..Batch::default() }, None).await?;
    Ok(())
}
