//! Two volumes over one store are replicas: each learns of the other's changes.

use super::probe::Probe;
use super::*;
use futures::StreamExt;
use workfs::mounts::store::memory::MemoryStore;
use workfs::types::{Change, ChangeKind, RenameMode};

async fn node(volume: &dyn Volume, text: &str) -> NodeId {
    volume.lookup(&CALLER, ROOT, &name(text)).await.expect("lookup").attr.node
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_pushed_and_what_was_remembered_goes() {
    let store = MemoryStore::new();
    let (a, b) = (open(store.clone()).await, open(store.clone()).await);
    assert!(b.lookup(&CALLER, ROOT, &name("f")).await.is_err(), "b remembers that there is none");
    let mut told = b.changes();
    let (entry, file) = create(&*a, "f").await;
    let change = told.next().await.expect("a change");
    assert_eq!(change.origin, Origin::OUTSIDE);
    // What was told is true by then.
    until("the entry is told", async || b.lookup(&CALLER, ROOT, &name("f")).await.is_ok()).await;
    assert_eq!(contents(&*b, "f").await.expect("there"), b"");
    write(&*file, 2, b"abc").await;
    file.flush().await.expect("flush");
    loop {
        let Change { kind, .. } = told.next().await.expect("a change");
        if let ChangeKind::Data { node, offset, len } = kind {
            assert_eq!((node, offset, len), (entry.attr.node, 2, 3));
            break;
        }
    }
    assert_eq!(contents(&*b, "f").await.expect("there"), b"\0\0abc", "at once, when it was told");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_change_reaches_the_other() {
    let store = MemoryStore::new();
    let (a, b) = (open(store.clone()).await, open(store.clone()).await);
    let (entry, file) = create(&*a, "f").await;
    write(&*file, 0, b"abcdef").await;
    file.flush().await.expect("flush");
    let f = entry.attr.node;
    until("the file", async || contents(&*b, "f").await.is_some_and(|bytes| bytes == b"abcdef")).await;
    a.setattr(&CALLER, f, &SetAttr { mode: Some(Mode::new(0o600)), ..SetAttr::default() }).await.expect("chmod");
    until("the mode", async || b.getattr(f).await.expect("getattr").mode == Mode::new(0o600)).await;
    a.setattr(&CALLER, f, &SetAttr::size(2)).await.expect("truncate");
    until("the size", async || contents(&*b, "f").await.is_some_and(|bytes| bytes == b"ab")).await;
    a.setxattr(&CALLER, f, b"user.a", b"1", workfs::types::XattrMode::Set).await.expect("setxattr");
    until("the attribute", async || b.getxattr(f, b"user.a").await.is_ok()).await;
    a.rename(&CALLER, ROOT, &name("f"), ROOT, &name("g"), RenameMode::Replace).await.expect("rename");
    until("the new name", async || b.lookup(&CALLER, ROOT, &name("g")).await.is_ok()).await;
    until("the old name", async || b.lookup(&CALLER, ROOT, &name("f")).await.is_err()).await;
    a.unlink(&CALLER, ROOT, &name("g")).await.expect("unlink");
    drop(file);
    until("the removal", async || b.lookup(&CALLER, ROOT, &name("g")).await.is_err()).await;
    drop(create(&*a, "g").await);
    until("the new file", async || b.lookup(&CALLER, ROOT, &name("g")).await.is_ok()).await;
    assert_ne!(node(&*b, "g").await, f);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_remembered_wrongly_never_commits_wrongly() {
    let store = MemoryStore::new();
    let a = open(store.clone()).await;
    // This one is never told of anything.
    let deaf = Probe::over(store.clone());
    deaf.silent.store(true, std::sync::atomic::Ordering::SeqCst);
    let b = open(deaf).await;
    a.mkdir(&CALLER, ROOT, &name("d"), Mode::new(0o755)).await.expect("mkdir");
    let d = node(&*b, "d").await;
    assert!(b.lookup(&CALLER, d, &name("f")).await.is_err());
    a.mknod(&CALLER, d, &name("f"), workfs::types::FileKind::Regular, Mode::new(0o644), 0).await.expect("mknod");
    assert_eq!(errno(b.rmdir(&CALLER, ROOT, &name("d")).await), Errno::ENOTEMPTY);
    assert_eq!(errno(b.mkdir(&CALLER, d, &name("f"), Mode::new(0o755)).await), Errno::EEXIST);
    a.unlink(&CALLER, d, &name("f")).await.expect("unlink");
    b.mkdir(&CALLER, d, &name("f"), Mode::new(0o755)).await.expect("the name is free, whatever it remembers");
    a.rmdir(&CALLER, d, &name("f")).await.expect("rmdir");
    a.rmdir(&CALLER, ROOT, &name("d")).await.expect("rmdir");
    assert_eq!(errno(b.mkdir(&CALLER, d, &name("x"), Mode::new(0o755)).await), Errno::ENOENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_channel_is_lost_everything_is_forgotten() {
    let store = MemoryStore::new();
    let a = open(store.clone()).await;
    let deaf = Probe::over(store.clone());
    deaf.silent.store(true, std::sync::atomic::Ordering::SeqCst);
    let b = open(deaf.clone()).await;
    let (_, file) = create(&*a, "f").await;
    write(&*file, 0, b"old").await;
    file.flush().await.expect("flush");
    assert_eq!(contents(&*b, "f").await.expect("there"), b"old");
    write(&*file, 0, b"new").await;
    file.flush().await.expect("flush");
    assert_eq!(contents(&*b, "f").await.expect("there"), b"old", "it was not told");
    let mut told = b.changes();
    deaf.lose();
    assert_eq!(told.next().await.expect("a change").kind, ChangeKind::Everything);
    assert_eq!(contents(&*b, "f").await.expect("there"), b"new");
}

#[tokio::test(flavor = "multi_thread")]
async fn dirty_bytes_lie_over_what_others_commit() {
    let store = MemoryStore::new();
    let (a, b) = (open(store.clone()).await, open(store.clone()).await);
    let (_, file_a) = create(&*a, "f").await;
    write(&*file_a, 0, &[b'.'; 12]).await;
    file_a.flush().await.expect("flush");
    let f = b.lookup(&CALLER, ROOT, &name("f")).await.expect("lookup").attr.node;
    let file_b = b.open(&CALLER, f, RW).await.expect("open");
    write(&*file_a, 0, b"aaaa").await;
    write(&*file_b, 8, b"bbbb").await;
    file_b.flush().await.expect("flush");
    file_a.flush().await.expect("flush");
    until("both see both", async || read(&*file_a).await == b"aaaa....bbbb" && read(&*file_b).await == b"aaaa....bbbb")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_disjoint_ranges_on_two_replicas_lose_nothing() {
    let store = MemoryStore::new();
    let volumes = [open(store.clone()).await, open(store.clone()).await];
    drop(create(&*volumes[0], "f").await);
    let tasks: Vec<_> = (0..2u64)
        .map(|writer| {
            let volume = volumes[writer as usize].clone();
            tokio::spawn(async move {
                let f = volume.lookup(&CALLER, ROOT, &name("f")).await.expect("lookup").attr.node;
                let file = volume.open(&CALLER, f, RW).await.expect("open");
                for n in 0..300u64 {
                    write(&*file, (n * 2 + writer) * 700, &[b'a' + writer as u8; 700]).await;
                    if n % 3 == 0 {
                        file.flush().await.expect("flush");
                    }
                }
                file.flush().await.expect("flush");
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a writer");
    }
    let bytes = contents(&*open(store.clone()).await, "f").await.expect("there");
    assert_eq!(bytes.len(), 600 * 700);
    assert!(bytes.chunks(700).enumerate().all(|(n, chunk)| chunk.iter().all(|byte| *byte == b'a' + (n % 2) as u8)));
}
