//! When written bytes are committed, and what becomes of them when they cannot be.

use super::probe::Probe;
use super::*;
use std::sync::atomic::Ordering;
use workfs::mounts::store::engine::{Batch, BlockChange};
use workfs::mounts::store::memory::MemoryStore;
use workfs::types::{SetTime, Timestamp};

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_flushes_is_committed_within_milliseconds() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (entry, file) = create(&*volume, "f").await;
    write(&*file, 5, b"abc").await;
    let node = entry.attr.node;
    until("the bytes are in the store", async || !probe.blocks(node, 0..9).await.expect("blocks").is_empty()).await;
    write(&*file, 0, b"x").await;
    drop(file);
    let other = open(probe.clone()).await;
    until("others see them after the close", async || contents(&*other, "f").await.expect("there") == b"x\0\0\0\0abc")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_when_too_much_is_dirty() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (_, file) = create(&*volume, "f").await;
    probe.fail(Some(Errno::ENOSPC));
    let mut accepted = 0;
    let refused = loop {
        let data = Bytes::from(vec![1; 1 << 20]);
        match file.write_at(&CALLER, accepted << 20, data, Privileges::Keep).await {
            Ok(()) => accepted += 1,
            Err(error) => break error.errno(),
        }
        assert!(accepted < 64, "memory is bounded");
    };
    assert_eq!(refused, Errno::ENOSPC);
    assert_eq!(file.attr().await.expect("attr").size, accepted << 20, "the refused write is not there");
    probe.fail(None);
    file.flush().await.expect("there is room again");
    assert_eq!(contents(&*volume, "f").await.expect("there").len(), 1 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_committed_is_told_at_the_flush_and_kept() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (_, file) = create(&*volume, "f").await;
    probe.fail(Some(Errno::EIO));
    write(&*file, 0, b"abc").await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(read(&*file).await, b"abc", "still read");
    assert_eq!(errno(file.flush().await), Errno::EIO);
    assert_eq!(errno(file.sync(false).await), Errno::EIO);
    assert_eq!(read(&*file).await, b"abc", "and kept while it is open");
    probe.fail(None);
    file.flush().await.expect("the store is back");
    drop(file);
    assert_eq!(contents(&*volume, "f").await.expect("there"), b"abc");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_at_the_last_close_is_gone() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (entry, file) = create(&*volume, "f").await;
    write(&*file, 0, b"old").await;
    file.flush().await.expect("flush");
    probe.fail(Some(Errno::ENOSPC));
    write(&*file, 0, b"new and longer").await;
    assert_eq!(errno(file.flush().await), Errno::ENOSPC);
    drop(file);
    assert_eq!(volume.getattr(entry.attr.node).await.expect("getattr").size, 3);
    assert_eq!(contents(&*volume, "f").await.expect("there"), b"old");
    probe.fail(None);
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(contents(&*volume, "f").await.expect("there"), b"old", "it does not come back later");
}

#[tokio::test]
async fn an_fsync_makes_something_durable_also_when_all_was_committed() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (_, file) = create(&*volume, "f").await;
    write(&*file, 0, b"abc").await;
    file.flush().await.expect("flush");
    assert!(probe.committed().iter().all(|batch| !batch.durable));
    file.sync(true).await.expect("sync");
    assert!(probe.committed().iter().any(|batch| batch.durable));
    volume.sync().await.expect("syncfs");
    assert!(probe.committed().iter().any(|batch| batch.durable));
    let flags = OpenFlags { sync: true, ..RW };
    let (_, file) = volume.create(&CALLER, ROOT, &name("g"), Mode::new(0o644), flags).await.expect("create");
    probe.committed();
    write(&*file, 0, b"abc").await;
    assert!(probe.committed().iter().any(|batch| batch.durable && !batch.blocks.is_empty()), "O_SYNC");
}

#[tokio::test]
async fn one_file_that_cannot_be_written_back_keeps_no_other_from_being_durable() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (entry, bad) = create(&*volume, "bad").await;
    let (_, good) = create(&*volume, "good").await;
    *probe.bad.lock() = Some(entry.attr.node);
    write(&*bad, 0, b"abc").await;
    write(&*good, 0, b"abc").await;
    probe.committed();
    assert_eq!(errno(volume.sync().await), Errno::EIO);
    let committed = probe.committed();
    assert!(committed.iter().any(|batch| !batch.blocks.is_empty()) && committed.iter().any(|batch| batch.durable));
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_no_stale_file() {
    let probe = Probe::new();
    let link = open(probe.clone()).await.symlink(&CALLER, ROOT, &name("l"), b"target").await.expect("symlink");
    // Another session, which remembers nothing.
    let volume = open(probe.clone()).await;
    let found = volume.lookup(&CALLER, ROOT, &name("l")).await.expect("lookup").attr.node;
    assert_eq!(found, link.attr.node);
    probe.lose();
    until("what was remembered is forgotten", async || {
        probe.unreadable.store(true, Ordering::SeqCst);
        let answer = volume.readlink(found).await;
        probe.unreadable.store(false, Ordering::SeqCst);
        answer.is_err_and(|error| error.errno() == Errno::EIO)
    })
    .await;
}

#[tokio::test]
async fn a_close_commits_what_is_pending() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (_, file) = create(&*volume, "f").await;
    write(&*file, 0, b"abc").await;
    volume.close().await.expect("closes");
    assert_eq!(errno(file.write_at(&CALLER, 0, Bytes::from_static(b"x"), Privileges::Keep).await), Errno::EIO);
    let again = open(probe.clone()).await;
    assert_eq!(contents(&*again, "f").await.expect("there"), b"abc");
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_of_replicas_lose_nothing_and_split_nothing() {
    let store = Probe::new();
    let volumes = [open(store.clone()).await, open(store.clone()).await];
    drop(create(&*volumes[0], "log").await);
    let flags = OpenFlags { append: true, ..RW };
    let tasks: Vec<_> = (0..4u8)
        .map(|writer| {
            let volume = volumes[writer as usize % 2].clone();
            tokio::spawn(async move {
                let node = volume.lookup(&CALLER, ROOT, &name("log")).await.expect("lookup").attr.node;
                let file = volume.open(&CALLER, node, flags).await.expect("open");
                for n in 0..100u32 {
                    // Of many lengths, and over the borders of blocks.
                    let line = [vec![b'a' + writer; 1 + (n as usize * 97) % 5000], b"\n".to_vec()].concat();
                    write(&*file, 0, &line).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a writer");
    }
    let log = contents(&*open(store.clone()).await, "log").await.expect("there");
    let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 400);
    assert!(lines.iter().all(|line| line.iter().all(|byte| *byte == line[0])), "no line is torn");
    let bytes: usize = (0..100usize).map(|n| 2 + (n * 97) % 5000).sum();
    assert_eq!(log.len(), 4 * bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_sees_what_was_written_before_whatever_is_being_committed() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let volume = open(MemoryStore::new()).await;
    let (_, file) = create(&*volume, "f").await;
    let written = Arc::new(AtomicU64::new(0));
    write(&*file, 0, &0u64.to_le_bytes()).await;
    let last = 4000;
    let reader = {
        let (file, written) = (file.clone(), written.clone());
        tokio::spawn(async move {
            while written.load(Ordering::SeqCst) < last {
                let n = written.load(Ordering::SeqCst);
                let bytes = file.read_at(n * 8, 8).await.expect("read");
                assert_eq!(&bytes[..], n.to_le_bytes(), "number {n} was written");
                assert!(file.attr().await.expect("attr").size >= (n + 1) * 8, "and counts in the size");
                tokio::task::yield_now().await;
            }
        })
    };
    let committer = {
        let (file, written) = (file.clone(), written.clone());
        tokio::spawn(async move {
            while written.load(Ordering::SeqCst) < last {
                file.flush().await.expect("flush");
                tokio::task::yield_now().await;
            }
        })
    };
    for n in 1..=last {
        write(&*file, n * 8, &n.to_le_bytes()).await;
        written.store(n, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    reader.await.expect("the reader");
    committer.await.expect("the committer");
}

fn modified_at(nanos: i64) -> SetAttr {
    SetAttr { mtime: Some(SetTime::At(Timestamp(nanos))), ..SetAttr::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_commit_sets_the_times() {
    let store = MemoryStore::new();
    let (a, b) = (open(store.clone()).await, open(store.clone()).await);
    let (entry, file) = create(&*a, "f").await;
    let node = b.lookup(&CALLER, ROOT, &name("f")).await.expect("lookup").attr.node;
    let future = Timestamp::now().0 + 3_600_000_000_000;
    b.setattr(&CALLER, node, &modified_at(future)).await.expect("utimens");
    write(&*file, 0, b"abc").await;
    file.flush().await.expect("flush");
    let seen = a.getattr(entry.attr.node).await.expect("getattr");
    assert!(seen.mtime.0 < future && seen.mtime > entry.attr.mtime, "the write brings it back: {seen:?}");
    until("b sees it", async || b.getattr(node).await.expect("getattr").mtime == seen.mtime).await;
}

#[tokio::test]
async fn what_was_written_before_does_not_undo_what_was_set_after() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (entry, file) = create(&*volume, "f").await;
    write(&*file, 0, b"abc").await;
    let set = volume.setattr(&CALLER, entry.attr.node, &modified_at(7)).await.expect("utimens");
    assert_eq!(set.mtime, Timestamp(7));
    write(&*file, 3, b"def").await;
    let mode = SetAttr { mode: Some(Mode::new(0o600)), ..SetAttr::default() };
    let changed = volume.setattr(&CALLER, entry.attr.node, &mode).await.expect("chmod");
    file.flush().await.expect("flush");
    let after = file.attr().await.expect("attr");
    assert_eq!((after.mtime, after.ctime), (changed.mtime, changed.ctime), "a close moves no time");
    assert!(after.mtime > Timestamp(7) && after.ctime > after.mtime, "the chmod was after the write");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncation_needs_no_room_for_what_it_cuts_off() {
    let probe = Probe::new();
    let volume = open(probe.clone()).await;
    let (entry, file) = create(&*volume, "f").await;
    write(&*file, 0, b"committed").await;
    file.flush().await.expect("flush");
    probe.fail(Some(Errno::ENOSPC));
    write(&*file, 0, &vec![1; 1 << 20]).await;
    assert_eq!(errno(file.flush().await), Errno::ENOSPC);
    probe.fail(None);
    probe.committed();
    let cut = OpenFlags { truncate: true, ..RW };
    drop(volume.open(&CALLER, entry.attr.node, cut).await.expect("open"));
    let patches = |batch: &Batch| batch.blocks.iter().any(|change| matches!(change, BlockChange::Patch { .. }));
    assert!(!probe.committed().iter().any(patches), "none of the bytes is written first");
    assert_eq!(contents(&*volume, "f").await.expect("there"), b"");
}
