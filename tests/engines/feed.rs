//! The feed of changes: every commit, in order, after it can be read, to every opening.

use super::*;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::collections::BTreeSet;
use workfs::mounts::store::engine::StoreChange;

each_engine! {
    own_commits_are_told_with_all_they_touched
    commits_of_another_opening_are_told
    commits_of_several_openings_come_in_order
    what_is_told_can_be_read
    the_feed_ends_with_the_store
}

/// How long a change of another opening may take to come.
const SOON: Duration = Duration::from_secs(2);

async fn next(feed: &mut BoxStream<'static, StoreChange>) -> StoreChange {
    tokio::time::timeout(SOON, feed.next()).await.expect("a change comes soon").expect("the feed goes on")
}

fn revision(change: &StoreChange) -> Revision {
    match change {
        StoreChange::Commit { revision, .. } => *revision,
        StoreChange::Lost => panic!("nothing may be lost"),
    }
}

/// A batch that touches a bit of everything, and what must be told of it.
fn everything(size: u64) -> (Batch, BTreeSet<Key>, Vec<(NodeId, u64, u64)>) {
    let (entry, record) = dentry(1, b"\xff\"", 2, 9);
    let batch = Batch {
        session: Some(SessionId(4)),
        delete: vec![Key::Orphan(NodeId(8)), Key::Xattr(NodeId(1), Bytes::from_static(b"user.\xff"))],
        put: vec![(Key::Inode(NodeId(2)), inode(2)), (entry.clone(), record)],
        fields: vec![change(1, Field::Entries, FieldOp::Add(1))],
        blocks: vec![
            BlockChange::Patch { node: NodeId(5), index: 3, offset: 7, bytes: Bytes::from_static(b"abc") },
            BlockChange::Discard { node: NodeId(6), start: 5, end: u64::MAX },
        ],
        ..Batch::default()
    };
    let keys = [Key::Inode(NodeId(2)), entry, Key::Stats(NodeId(1)), Key::Stats(NodeId(5)), Key::Stats(NodeId(6))];
    let data = vec![(NodeId(5), 3 * size + 7, 3 * size + 10), (NodeId(6), 5, u64::MAX)];
    (batch.clone(), batch.delete.into_iter().chain(keys).collect(), data)
}

async fn with_session(store: &dyn Store) {
    committed(store, put([(Key::Session(SessionId(4)), session(0, 1))])).await;
}

fn check(told: StoreChange, at: Revision, right: (BTreeSet<Key>, Vec<(NodeId, u64, u64)>)) {
    let StoreChange::Commit { revision, session, keys, data } = told else { panic!("nothing may be lost") };
    assert_eq!((revision, session), (at, Some(SessionId(4))));
    assert_eq!((keys.into_iter().collect::<BTreeSet<Key>>(), data), right);
}

async fn own_commits_are_told_with_all_they_touched(place: Arc<Place>) {
    let store = place.open().await;
    with_session(&*store).await;
    let mut feed = store.changes();
    let (batch, keys, data) = everything(u64::from(store.block_size()));
    let at = committed(&*store, batch).await;
    // It is there by now: whoever was answered need not wait for what it did itself.
    let told = futures::FutureExt::now_or_never(feed.next()).expect("told already").expect("the feed goes on");
    check(told, at, (keys, data));
    let refused = expect(Key::Inode(NodeId(99)), Expect::At(Revision(1)));
    assert_eq!(store.commit(refused).await.expect("answered"), Outcome::Conflict);
    let after = committed(&*store, Batch::default()).await;
    assert_eq!(revision(&next(&mut feed).await), after, "a refused commit is not told");
}

async fn commits_of_another_opening_are_told(place: Arc<Place>) {
    let (one, other) = (place.open().await, place.open().await);
    with_session(&*one).await;
    let mut feed = other.changes();
    let (batch, keys, data) = everything(u64::from(one.block_size()));
    let at = committed(&*one, batch).await;
    // Commits from before may be told too.
    let mut told = next(&mut feed).await;
    while revision(&told) < at {
        told = next(&mut feed).await;
    }
    check(told, at, (keys, data));
}

async fn commits_of_several_openings_come_in_order(place: Arc<Place>) {
    let stores = [place.open().await, place.open().await, place.open().await];
    let mut feeds: Vec<_> = stores.iter().map(|store| store.changes()).collect();
    let writers = stores.iter().cloned().enumerate().map(|(number, store)| {
        tokio::spawn(async move {
            let mut mine = Vec::new();
            for round in 0..40 {
                mine.push(committed(&*store, put([(Key::Inode(NodeId(number as u64)), inode(round))])).await);
                if round % 8 == number as u32 {
                    tokio::time::sleep(Duration::from_millis(3)).await;
                }
            }
            mine
        })
    });
    let mut all = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        all.extend(writer.await.expect("a writer"));
    }
    all.sort_unstable();
    for feed in &mut feeds {
        let mut told = Vec::new();
        while told.len() < all.len() {
            told.push(revision(&next(feed).await));
        }
        assert_eq!(told, all);
    }
}

async fn what_is_told_can_be_read(place: Arc<Place>) {
    let (one, other) = (place.open().await, place.open().await);
    for (writer, reader) in [(&one, &one), (&one, &other)] {
        let mut feed = reader.changes();
        let committer = writer.clone();
        let work = tokio::spawn(async move {
            for seed in 0..100 {
                committed(&*committer, put([(Key::Inode(NodeId(1)), inode(seed))])).await;
            }
            committed(&*committer, put([(Key::Inode(NodeId(2)), inode(0))])).await
        });
        loop {
            let told = next(&mut feed).await;
            let stored = get(&**reader, Key::Inode(NodeId(1))).await;
            let StoreChange::Commit { revision, keys, .. } = told else { panic!("nothing may be lost") };
            if keys.contains(&Key::Inode(NodeId(2))) {
                break;
            }
            assert!(stored.expect("it was told").revision >= revision);
        }
        work.await.expect("the writer");
        committed(&**writer, delete([Key::Inode(NodeId(2))])).await;
    }
}

async fn the_feed_ends_with_the_store(place: Arc<Place>) {
    let store = place.open().await;
    let mut feed = store.changes();
    store.close().await.expect("it closes");
    store.close().await.expect("closing again does nothing");
    if matches!(*place, Place::Memory(_)) {
        // It lives on for its other holders.
        return;
    }
    let rest = tokio::time::timeout(SOON, feed.next()).await.expect("the feed ends");
    assert_eq!(rest, None);
    assert!(store.commit(Batch::default()).await.is_err());
    assert!(store.get(&[Key::Inode(NodeId(1))]).await.is_err());
}
