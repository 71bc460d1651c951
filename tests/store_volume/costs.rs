//! What operations cost.

use super::probe::{Probe, discarded};
use super::*;
use futures::FutureExt;
use std::sync::atomic::Ordering;
use workfs::mounts::store::memory::MemoryStore;
use workfs::types::{Cookie, RenameMode, XattrMode};

/// What is asked of a volume in memory is answered at the first poll.
fn now<T>(answer: impl Future<Output = Result<T>>) -> T {
    answer.now_or_never().expect("answered at the first poll").expect("done")
}

#[tokio::test]
async fn in_memory_every_operation_is_answered_at_the_first_poll() {
    let volume = open(MemoryStore::new()).await;
    let v: &dyn Volume = &*volume;
    now(v.root());
    let d = now(v.mkdir(&CALLER, ROOT, &name("d"), Mode::new(0o755))).attr.node;
    let (entry, file) = now(v.create(&CALLER, d, &name("f"), Mode::new(0o644), RW));
    now(file.write_at(&CALLER, 0, Bytes::from_static(b"abc"), Privileges::Drop));
    assert_eq!(&now(file.read_at(0, 9))[..], b"abc");
    now(file.flush());
    now(file.sync(true));
    now(file.truncate(&CALLER, 1, Privileges::Keep));
    now(file.attr());
    now(v.getattr(entry.attr.node));
    now(v.setattr(&CALLER, entry.attr.node, &SetAttr::size(2)));
    now(v.lookup(&CALLER, d, &name("f")));
    now(v.link(&CALLER, entry.attr.node, ROOT, &name("l")));
    now(v.symlink(&CALLER, ROOT, &name("s"), b"t"));
    now(v.rename(&CALLER, ROOT, &name("l"), d, &name("m"), RenameMode::Replace));
    now(v.readdir(d, Cookie::START, 10, true));
    now(v.setxattr(&CALLER, d, b"user.a", b"1", XattrMode::Set));
    now(v.getxattr(d, b"user.a"));
    now(v.listxattr(d));
    now(v.unlink(&CALLER, d, &name("m")));
    now(v.unlink(&CALLER, d, &name("f")));
    drop(file);
    now(v.rmdir(&CALLER, ROOT, &name("d")));
    now(v.statfs(ROOT));
    now(v.sync());
}

#[tokio::test]
async fn an_open_costs_no_commit_and_a_warm_read_asks_nothing() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (entry, file) = create(&*volume, "f").await;
    write(&*file, 0, b"abc").await;
    file.flush().await.expect("flush");
    drop(file);
    contents(&*volume, "f").await;
    probe.committed();
    let reads = probe.reads.load(Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(contents(&*volume, "f").await.expect("there"), b"abc");
        volume.getattr(entry.attr.node).await.expect("getattr");
        assert!(volume.lookup(&CALLER, ROOT, &name("no")).await.is_err());
    }
    assert!(probe.committed().is_empty());
    assert_eq!(probe.reads.load(Ordering::SeqCst) - reads, 1, "the missing name, once");
}

#[tokio::test]
async fn making_and_removing_a_file_are_one_commit_each_when_nobody_knows_it() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    drop(create(&*volume, "first").await);
    probe.committed();
    let node = create(&*volume, "f").await.0.attr.node;
    assert_eq!(probe.committed().len(), 1);
    volume.forget(node, 1);
    volume.unlink(&CALLER, ROOT, &name("f")).await.expect("unlink");
    assert_eq!(probe.committed().len(), 1);
    let left = (is_there(&*probe, Key::Inode(node)).await, orphans(&*probe).await);
    assert_eq!(left, (false, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_known_go_when_they_are_forgotten_many_in_one_commit() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let mut nodes = Vec::new();
    for n in 0..100 {
        nodes.push(create(&*volume, &format!("f{n}")).await.0.attr.node);
    }
    probe.committed();
    for n in 0..100 {
        volume.unlink(&CALLER, ROOT, &name(&format!("f{n}"))).await.expect("unlink");
    }
    assert_eq!(orphans(&*probe).await, 100, "whoever knows one may be about to open it");
    assert_eq!(probe.committed().len(), 100);
    for node in nodes {
        volume.getattr(node).await.expect("it is known");
        volume.forget(node, 1);
    }
    until("they go", async || orphans(&*probe).await == 0).await;
    assert!(probe.committed().len() < 20);
    assert_eq!(probe.usage().await.expect("usage").files, 1, "the root");
}

#[tokio::test]
async fn a_flush_is_one_commit_whatever_was_written() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (_, file) = create(&*volume, "f").await;
    probe.committed();
    for n in 0..50 {
        write(&*file, n * 1000, &[1; 1000]).await;
    }
    file.flush().await.expect("flush");
    let commits = probe.committed();
    assert_eq!(commits.len(), 1);
    assert_eq!(commits[0].blocks.len(), 1, "what touches in one block is one patch");
    file.flush().await.expect("flush");
    assert!(probe.committed().is_empty(), "nothing to commit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_big_file_is_removed_in_bounded_steps() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (entry, file) = create(&*volume, "f").await;
    for n in 0..40 {
        write(&*file, n << 20, &vec![7; 1 << 20]).await;
    }
    file.flush().await.expect("flush");
    drop(file);
    let node = entry.attr.node;
    assert_eq!(volume.getattr(node).await.expect("getattr").blocks, (40 << 20) / 512);
    probe.committed();
    volume.unlink(&CALLER, ROOT, &name("f")).await.expect("unlink");
    volume.forget(node, 1);
    until("the file goes", async || !is_there(&*probe, Key::Stats(node)).await).await;
    let largest = probe.committed().iter().filter(|batch| batch.delete.is_empty()).map(discarded).max();
    assert_eq!(largest, Some(8 << 20));
    assert_eq!(orphans(&*probe).await, 0);
    assert!(probe.scan(&Prefix::Extents(node), None, 10).await.expect("scan").is_empty());
    assert_eq!(errno(volume.getattr(node).await), Errno::ESTALE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_volume_leaves_nothing_running() {
    let store = MemoryStore::new();
    let volume = open(store.clone()).await;
    let (_, file) = create(&*volume, "f").await;
    write(&*file, 0, b"abc").await;
    drop(file);
    drop(volume);
    until("nobody holds the store", async || Arc::strong_count(&store) == 1).await;
    let volume = open(store.clone()).await;
    volume.close().await.expect("closes");
    volume.close().await.expect("again does nothing");
    assert!(store.scan(&Prefix::Sessions, None, 10).await.expect("scan").len() <= 1, "the closed one is gone");
    drop(volume);
    until("nobody holds the store", async || Arc::strong_count(&store) == 1).await;
}
