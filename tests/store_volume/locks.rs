//! Locks between sessions of one store: when they are in it, and what becomes of those of a session that dies.

use super::probe::Probe;
use super::*;
use workfs::mounts::store::memory::MemoryStore;
use workfs::types::{LockKind, LockOwner, LockRange, LockRequest};

const OWNER: LockOwner = LockOwner { origin: Origin(77), number: 5 };

fn request(kind: LockKind) -> LockRequest {
    LockRequest { owner: OWNER, kind, range: LockRange::WHOLE, pid: 4 }
}

async fn lock(file: &dyn OpenFile, kind: LockKind) -> Result<()> {
    file.lock(&request(kind)).await
}

async fn unlock(file: &dyn OpenFile) {
    file.unlock(OWNER, LockRange::WHOLE).await.expect("unlock");
}

async fn opened(volume: &dyn Volume, text: &str) -> Arc<dyn OpenFile> {
    until("the file shows", async || volume.lookup(&CALLER, ROOT, &name(text)).await.is_ok()).await;
    let entry = volume.lookup(&CALLER, ROOT, &name(text)).await.expect("lookup");
    volume.open(&CALLER, entry.attr.node, RW).await.expect("open")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_alone_locks_without_a_commit_until_another_comes() {
    let probe = Probe::new();
    let a = open(probe.clone()).await;
    let (entry, file) = create(&*a, "f").await;
    probe.committed();
    lock(&*file, LockKind::Read).await.expect("free");
    unlock(&*file).await;
    lock(&*file, LockKind::Write).await.expect("free");
    assert_eq!(probe.committed(), [], "nobody else could see it");
    let b = open(probe.clone()).await;
    let other = opened(&*b, "f").await;
    assert_eq!(errno(lock(&*other, LockKind::Read).await), Errno::EAGAIN, "what was taken before it came");
    let found = other.lock_in_the_way(&request(LockKind::Read)).await.expect("asked").expect("one");
    assert_eq!((found.kind, found.range, found.pid), (LockKind::Write, LockRange::WHOLE, 0));
    unlock(&*file).await;
    lock(&*other, LockKind::Write).await.expect("free");
    assert_eq!(errno(lock(&*file, LockKind::Read).await), Errno::EAGAIN, "and what was taken since");
    unlock(&*other).await;
    assert!(!is_there(&*probe, Key::Locks(entry.attr.node)).await, "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_before_an_unlock_is_read_after_a_lock() {
    let store = MemoryStore::new();
    let a = open(store.clone()).await;
    let ((_, guard), (_, file)) = (create(&*a, "guard").await, create(&*a, "f").await);
    lock(&*guard, LockKind::Write).await.expect("free");
    write(&*file, 0, b"alone").await;
    unlock(&*guard).await;
    let b = open(store.clone()).await;
    let (other_guard, other) = (opened(&*b, "guard").await, opened(&*b, "f").await);
    lock(&*other_guard, LockKind::Read).await.expect("free");
    assert_eq!(read(&*other).await, b"alone", "though it was written when nobody could see it");
    unlock(&*other_guard).await;
    for round in 0..50 {
        let bytes = format!("round {round}");
        let (from, to) = if round % 2 == 0 {
            ((&guard, &file), (&other_guard, &other))
        } else {
            ((&other_guard, &other), (&guard, &file))
        };
        lock(&**from.0, LockKind::Write).await.expect("free");
        write(&**from.1, 0, bytes.as_bytes()).await;
        // A lock that becomes weaker lets readers in.
        lock(&**from.0, LockKind::Read).await.expect("its own");
        lock(&**to.0, LockKind::Read).await.expect("shared");
        assert_eq!(read(&**to.1).await, bytes.as_bytes());
        unlock(&**from.0).await;
        unlock(&**to.0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_told_when_another_session_gives_back() {
    let store = MemoryStore::new();
    let (a, b) = (open(store.clone()).await, open(store.clone()).await);
    let (_, file) = create(&*a, "f").await;
    let other = opened(&*b, "f").await;
    lock(&*file, LockKind::Write).await.expect("free");
    let mut watch = other.watch_locks();
    assert_eq!(errno(lock(&*other, LockKind::Write).await), Errno::EAGAIN);
    let waiting = tokio::spawn(async move {
        loop {
            watch.freed().await;
            match lock(&*other, LockKind::Write).await {
                Err(error) if error.errno() == Errno::EAGAIN => {}
                settled => return settled,
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    unlock(&*file).await;
    let told = tokio::time::timeout(Duration::from_secs(1), waiting).await;
    told.expect("at once").expect("no panic").expect("free");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_locks_of_a_session_that_is_not_heard_of_end_with_its_lease() {
    let store = MemoryStore::new();
    let (frozen, probe) = (Probe::over(store.clone()), Probe::over(store.clone()));
    let (a, b) = (open(frozen.clone()).await, open(probe.clone()).await);
    let (entry, file) = create(&*a, "f").await;
    let other = opened(&*b, "f").await;
    lock(&*file, LockKind::Write).await.expect("free");
    assert_eq!(errno(lock(&*other, LockKind::Write).await), Errno::EAGAIN);
    frozen.fail(Some(Errno::EIO)); // no heartbeat comes any more
    probe.pass(40);
    until("the lease is over", async || lock(&*other, LockKind::Write).await.is_ok()).await;
    frozen.fail(None);
    write(&*file, 0, b"too late").await;
    assert_eq!(errno(file.flush().await), Errno::EIO, "it was given up, and changes nothing");
    assert_eq!(errno(lock(&*file, LockKind::Read).await), Errno::EIO);
    unlock(&*other).await;
    assert!(!is_there(&*store, Key::Locks(entry.attr.node)).await, "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_leaves_no_locks() {
    let store = MemoryStore::new();
    let (a, b) = (open(store.clone()).await, open(store.clone()).await);
    let (_, file) = create(&*a, "f").await;
    let other = opened(&*b, "f").await;
    lock(&*file, LockKind::Write).await.expect("free");
    assert_eq!(errno(lock(&*other, LockKind::Write).await), Errno::EAGAIN);
    a.close().await.expect("close");
    assert!(store.scan(&Prefix::Locks, None, 9).await.expect("scan").is_empty());
    lock(&*other, LockKind::Write).await.expect("free");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_which_nobody_knows_whether_it_was_taken_is_given_back() {
    let store = MemoryStore::new();
    let probe = Probe::over(store.clone());
    let (a, b) = (open(probe.clone()).await, open(store.clone()).await);
    let (entry, file) = create(&*a, "f").await;
    let other = opened(&*b, "f").await;
    lock(&*file, LockKind::Read).await.expect("free");
    for errno_of_loss in [Errno::EIO, Errno::ETIMEDOUT] {
        probe.fail(Some(errno_of_loss));
        assert_eq!(errno(lock(&*file, LockKind::Write).await), errno_of_loss);
        assert_eq!(errno(file.unlock(OWNER, LockRange::WHOLE).await), errno_of_loss, "it is told");
        probe.fail(None);
        unlock(&*file).await;
        assert!(!is_there(&*store, Key::Locks(entry.attr.node)).await, "and mended by the next");
        lock(&*other, LockKind::Write).await.expect("free");
        unlock(&*other).await;
        lock(&*file, LockKind::Read).await.expect("free");
    }
}
