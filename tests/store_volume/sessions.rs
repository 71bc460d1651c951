//! Sessions: open files without a name, processes that die, and fencing.

use super::probe::Probe;
use super::*;
use workfs::mounts::store::memory::MemoryStore;
use workfs::mounts::store::record::SessionId;

async fn sessions(store: &dyn Store) -> Vec<SessionId> {
    let found = store.scan(&Prefix::Sessions, None, 100).await.expect("scan");
    found.iter().filter_map(|(key, _)| if let Key::Session(id) = key { Some(*id) } else { None }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_replica_unlinks_lives_until_its_last_close() {
    let store = MemoryStore::new();
    let (a, b) = (open(store.clone()).await, open(store.clone()).await);
    let (entry, file) = create(&*a, "f").await;
    write(&*file, 0, b"abc").await;
    file.flush().await.expect("flush");
    b.unlink(&CALLER, ROOT, &name("f")).await.expect("unlink");
    until("a claims it", async || {
        !store.scan(&Prefix::Claims(entry.attr.node), None, 10).await.expect("scan").is_empty()
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(read(&*file).await, b"abc");
    write(&*file, 3, b"def").await;
    file.sync(false).await.expect("sync");
    assert_eq!(read(&*file).await, b"abcdef");
    assert_eq!(file.attr().await.expect("attr").links, 0);
    drop(file);
    a.forget(entry.attr.node, 1);
    until("it goes with its last close", async || !is_there(&*store, Key::Stats(entry.attr.node)).await).await;
    assert_eq!(orphans(&*store).await, 0);
    assert!(store.blocks(entry.attr.node, 0..9).await.expect("blocks").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_that_nobody_has_open_goes_when_all_have_told() {
    let store = MemoryStore::new();
    let (a, b) = (open(store.clone()).await, open(store.clone()).await);
    let (entry, file) = create(&*a, "f").await;
    drop(file);
    assert!(contents(&*b, "f").await.is_some());
    a.unlink(&CALLER, ROOT, &name("f")).await.expect("unlink");
    a.forget(entry.attr.node, 1);
    b.forget(entry.attr.node, 1);
    until("it goes", async || !is_there(&*store, Key::Inode(entry.attr.node)).await).await;
    until("and nothing is left", async || orphans(&*store).await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_session_had_open_is_cleaned_up_after_its_lease() {
    let store = MemoryStore::new();
    let probe = Probe::over(store.clone());
    let dead = open(probe.clone()).await;
    let (entry, file) = create(&*dead, "f").await;
    write(&*file, 0, b"abc").await;
    file.flush().await.expect("flush");
    dead.unlink(&CALLER, ROOT, &name("f")).await.expect("unlink");
    let before = sessions(&*store).await;
    // As kill -9 leaves it: nothing is closed.
    std::mem::forget(file);
    drop(dead);
    let early = open(probe.clone()).await;
    assert!(is_there(&*store, Key::Inode(entry.attr.node)).await, "not before the lease is over");
    early.close().await.expect("closes");
    probe.pass(31);
    let volume = open(probe.clone()).await;
    assert!(!is_there(&*store, Key::Inode(entry.attr.node)).await && orphans(&*store).await == 0);
    assert!(sessions(&*store).await.iter().all(|id| !before.contains(id)));
    volume.close().await.expect("closes");
    assert!(sessions(&*store).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_given_up_writes_nothing_any_more() {
    let store = MemoryStore::new();
    let frozen = open(store.clone()).await;
    let (_, file) = create(&*frozen, "f").await;
    write(&*file, 0, b"abc").await;
    file.flush().await.expect("flush");
    // To others thirty-one seconds pass, in which this one says nothing.
    let later = Probe::over(store.clone());
    later.pass(31);
    let other = open(later).await;
    let f = other.lookup(&CALLER, ROOT, &name("f")).await.expect("lookup").attr.node;
    let held = other.open(&CALLER, f, RW).await.expect("open");
    write(&*held, 0, b"xyz").await;
    held.flush().await.expect("flush");
    write(&*file, 0, b"ABC").await;
    assert_eq!(errno(file.flush().await), Errno::EIO);
    let refused = file.write_at(&CALLER, 0, Bytes::from_static(b"A"), Privileges::Keep).await;
    assert_eq!(errno(refused), Errno::EIO, "from then on at once");
    assert_eq!(errno(frozen.mkdir(&CALLER, ROOT, &name("d"), Mode::new(0o755)).await), Errno::EIO);
    assert_eq!(contents(&*other, "f").await.expect("there"), b"xyz");
}

#[tokio::test(flavor = "multi_thread")]
async fn opens_and_removals_of_one_file_at_once_never_lose_an_open_file() {
    let store = MemoryStore::new();
    let volume = open(store.clone()).await;
    for round in 0..300u32 {
        let (entry, file) = create(&*volume, "f").await;
        write(&*file, 0, &round.to_le_bytes()).await;
        file.flush().await.expect("flush");
        drop(file);
        let node = entry.attr.node;
        let forgotten = round % 2 == 0;
        if forgotten {
            volume.forget(node, 1);
        }
        let opener = {
            let volume = volume.clone();
            tokio::spawn(async move { volume.open(&CALLER, node, RW).await })
        };
        volume.unlink(&CALLER, ROOT, &name("f")).await.expect("unlink");
        match opener.await.expect("joins") {
            Ok(file) => assert_eq!(read(&*file).await, round.to_le_bytes(), "who has it open reads it"),
            Err(error) => assert!(forgotten && error.errno() == Errno::ESTALE, "who knows it can open it: {error}"),
        }
        if !forgotten {
            volume.forget(node, 1);
        }
    }
    until("no orphan is left", async || orphans(&*store).await == 0).await;
    assert_eq!(store.usage().await.expect("usage").files, 1, "the root");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_alone_again_removes_at_once() {
    let store = Probe::new();
    let a = open(store.clone()).await;
    let b = open(store.clone()).await;
    b.close().await.expect("closes");
    until("a knows that it is alone", async || {
        let (entry, file) = create(&*a, "f").await;
        drop(file);
        a.forget(entry.attr.node, 1);
        store.committed();
        a.unlink(&CALLER, ROOT, &name("f")).await.expect("unlink");
        let at_once = !is_there(&*store, Key::Inode(entry.attr.node)).await && store.committed().len() == 1;
        until("it goes anyway", async || !is_there(&*store, Key::Inode(entry.attr.node)).await).await;
        at_once
    })
    .await;
}
