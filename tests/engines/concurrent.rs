//! Many at once: nothing is lost, nothing happens twice, and one member's fault is no other's.

use super::*;
use std::collections::HashSet;

each_engine! {
    sixteen_that_add_lose_nothing
    of_many_that_expect_one_revision_one_wins
    creates_in_one_directory_do_not_conflict
    a_refused_commit_harms_no_other
    patches_of_one_block_lose_nothing
    a_read_of_many_keys_is_of_one_moment
    a_caller_that_goes_away_stops_nobody
    two_openings_exclude_each_other
}

const MANY: u64 = 16;

/// Runs `work` for each number on its own task.
async fn all<T: Send + 'static, F: Future<Output = T> + Send + 'static>(work: impl Fn(u64) -> F) -> Vec<T> {
    let tasks: Vec<_> = (0..MANY).map(|number| tokio::spawn(work(number))).collect();
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.expect("no task panics"));
    }
    done
}

async fn sixteen_that_add_lose_nothing(place: Arc<Place>) {
    let stores = [place.open().await, place.open().await];
    committed(&*stores[0], put([(Key::Stats(NodeId(1)), empty())])).await;
    let revisions = all(|number| {
        let store = stores[number as usize % 2].clone();
        async move {
            let mut mine = Vec::new();
            for _ in 0..25 {
                let fields = vec![
                    change(1, Field::Entries, FieldOp::Add(1)),
                    change(1, Field::Links, FieldOp::Add(-1)),
                    change(1, Field::Mtime, FieldOp::Max(number as i64)),
                ];
                mine.push(committed(&*store, Batch { fields, ..Batch::default() }).await);
            }
            assert!(mine.is_sorted());
            mine
        }
    });
    let revisions: HashSet<Revision> = revisions.await.into_iter().flatten().collect();
    assert_eq!(revisions.len() as u64, MANY * 25, "each commit has its own revision");
    let found = stats(&*stores[0], 1).await;
    assert_eq!((found.entries, found.links as i64), (MANY * 25, -(MANY as i64) * 25));
    assert_eq!(found.mtime, Timestamp(MANY as i64 - 1));
}

async fn of_many_that_expect_one_revision_one_wins(place: Arc<Place>) {
    let stores = [place.open().await, place.open().await];
    let key = Key::Inode(NodeId(1));
    let mut last = committed(&*stores[0], put([(key.clone(), inode(0))])).await;
    for _ in 0..20 {
        let outcomes = all(|number| {
            let (store, key) = (stores[number as usize % 2].clone(), key.clone());
            let batch = Batch { put: vec![(key.clone(), inode(number as u32))], ..expect(key, Expect::At(last)) };
            async move { store.commit(batch).await.expect("the commit is answered") }
        })
        .await;
        let won: Vec<(usize, Revision)> = outcomes
            .iter()
            .enumerate()
            .filter_map(|(number, outcome)| match outcome {
                Outcome::Committed(revision) => Some((number, *revision)),
                refused => {
                    assert_eq!(*refused, Outcome::Conflict);
                    None
                }
            })
            .collect();
        let [(number, revision)] = won[..] else { panic!("one wins: {outcomes:?}") };
        let right = Stored { record: inode(number as u32), revision };
        assert_eq!(get(&*stores[1], key.clone()).await, Some(right));
        last = revision;
    }
}

/// A commit like that of a volume that makes a file.
fn create(number: u64, dir: Revision) -> Batch {
    let entry = dentry(1, format!("file {number}"), number, number);
    Batch {
        expect: vec![(Key::Inode(NodeId(1)), Expect::At(dir)), (entry.0.clone(), Expect::Absent)],
        put: vec![entry, (Key::Inode(NodeId(number)), inode(1)), (Key::Stats(NodeId(number)), empty())],
        fields: vec![change(1, Field::Entries, FieldOp::Add(1)), change(1, Field::Mtime, FieldOp::Max(number as i64))],
        ..Batch::default()
    }
}

async fn creates_in_one_directory_do_not_conflict(place: Arc<Place>) {
    let stores = [place.open().await, place.open().await];
    let dir = put([(Key::Inode(NodeId(1)), inode(1)), (Key::Stats(NodeId(1)), empty())]);
    let dir = committed(&*stores[0], dir).await;
    all(|number| {
        let store = stores[number as usize % 2].clone();
        async move {
            for round in 0..20 {
                committed(&*store, create(100 + number * 20 + round, dir)).await;
            }
        }
    })
    .await;
    assert_eq!(stats(&*stores[1], 1).await.entries, MANY * 20);
    assert_eq!(stats(&*stores[1], 1).await.mtime, Timestamp(100 + 20 * MANY as i64 - 1));
    let prefix = workfs::mounts::store::record::Prefix::Entries(NodeId(1));
    let listed = stores[0].scan(&prefix, None, usize::MAX).await.expect("it is listed");
    assert_eq!(listed.len() as u64, MANY * 20);
}

async fn a_refused_commit_harms_no_other(place: Arc<Place>) {
    let store = place.open().await;
    for round in 0..10 {
        let outcomes = all(|number| {
            let store = store.clone();
            let key = Key::Inode(NodeId(1000 * (round + 1) + number));
            let batch = match number % 4 {
                0 => expect(key, Expect::At(Revision(1))),
                // The cookie is taken by another of them.
                1 => put([dentry(round + 1, format!("name {number}"), 1, 5)]),
                2 => put([(key, Record::Claim)]),
                _ => put([(key, inode(3))]),
            };
            async move { store.commit(batch).await }
        })
        .await;
        let happened = |number: usize| matches!(outcomes[number], Ok(Outcome::Committed(_)));
        for (number, outcome) in outcomes.iter().enumerate() {
            match number % 4 {
                0 => assert_eq!(*outcome.as_ref().expect("answered"), Outcome::Conflict),
                1 => assert!(outcome.is_ok()),
                2 => assert!(outcome.is_err()),
                _ => assert!(happened(number), "{outcome:?}"),
            }
            let key = Key::Inode(NodeId(1000 * (round + 1) + number as u64));
            assert_eq!(get(&*store, key).await.is_some(), number % 4 == 3);
        }
        assert_eq!((1..16).step_by(4).filter(|number| happened(*number)).count(), 1, "one has the cookie");
    }
}

async fn patches_of_one_block_lose_nothing(place: Arc<Place>) {
    let stores = [place.open().await, place.open().await];
    let record = (Key::Stats(NodeId(1)), empty());
    committed(&*stores[0], put([record])).await;
    let step = stores[0].block_size() / MANY as u32;
    all(|number| {
        let store = stores[number as usize % 2].clone();
        async move {
            for round in 0..20 {
                let offset = number as u32 * step + round * 50;
                committed(&*store, patch(1, 0, offset, vec![number as u8 + 1; 50])).await;
            }
        }
    })
    .await;
    let bytes = content(&*stores[1], 1).await;
    for (place, byte) in bytes.iter().enumerate() {
        let (number, inside) = (place as u32 / step, place as u32 % step);
        let right = if inside < 1000 { number as u8 + 1 } else { 0 };
        assert_eq!(*byte, right, "byte {place}");
    }
    let sum: u64 = extents(&*stores[0], 1).await.iter().map(|(_, len)| u64::from(*len)).sum();
    assert_eq!(stats(&*stores[0], 1).await.allocated, sum);
}

async fn a_read_of_many_keys_is_of_one_moment(place: Arc<Place>) {
    let (one, other) = (place.open().await, place.open().await);
    let keys = [Key::Inode(NodeId(1)), Key::Orphan(NodeId(1)), Key::Inode(NodeId(2)), dentry(1, "n", 0, 1).0];
    let records = |seed: u32| {
        let orphan = workfs::mounts::store::record::Orphan { since: Timestamp(i64::from(seed)) };
        let entry = dentry(1, "n", u64::from(seed), 1).1;
        [inode(seed), Record::Orphan(orphan), inode(seed + 1), entry]
    };
    committed(&*one, put(keys.iter().cloned().zip(records(0)))).await;
    let writer = tokio::spawn({
        let (one, keys) = (one.clone(), keys.clone());
        async move {
            for seed in 1..300 {
                committed(&*one, put(keys.iter().cloned().zip(records(seed)))).await;
            }
        }
    });
    while !writer.is_finished() {
        for store in [&one, &other] {
            let found = store.get(&keys).await.expect("they are read");
            let revisions: HashSet<Revision> = found.iter().flatten().map(|stored| stored.revision).collect();
            assert_eq!((found.iter().flatten().count(), revisions.len()), (4, 1), "{found:?}");
        }
    }
    writer.await.expect("the writer");
}

async fn a_caller_that_goes_away_stops_nobody(place: Arc<Place>) {
    let store = place.open().await;
    committed(&*store, put([(Key::Stats(NodeId(1)), empty())])).await;
    let add = || Batch { fields: vec![change(1, Field::Entries, FieldOp::Add(1))], ..Batch::default() };
    let counted = all(|number| {
        let store = store.clone();
        async move {
            let mut certain = 0;
            for round in 0..40 {
                // Polled once, or for a moment, and dropped.
                match (number + round) % 3 {
                    0 => drop(futures::FutureExt::now_or_never(store.commit(add()))),
                    1 => drop(tokio::time::timeout(Duration::from_micros(30), store.commit(add())).await),
                    _ => {
                        committed(&*store, add()).await;
                        certain += 1;
                    }
                }
            }
            certain
        }
    })
    .await;
    let certain: u64 = counted.into_iter().sum();
    committed(&*store, Batch::default()).await;
    let entries = stats(&*store, 1).await.entries;
    assert!((certain..=MANY * 40).contains(&entries), "{certain} were answered, {entries} are there");
}

async fn two_openings_exclude_each_other(place: Arc<Place>) {
    let stores = [place.open().await, place.open().await];
    let key = Key::Counter(workfs::mounts::store::record::Counter::NextInode);
    committed(&*stores[0], put([(key.clone(), Record::Counter(0))])).await;
    // Each reads the counter, and puts one more where nobody else did meanwhile.
    all(|number| {
        let (store, key) = (stores[number as usize % 2].clone(), key.clone());
        async move {
            for _ in 0..5 {
                loop {
                    let Some(Stored { record: Record::Counter(value), revision }) = get(&*store, key.clone()).await
                    else {
                        panic!("the counter is there")
                    };
                    let put = vec![(key.clone(), Record::Counter(value + 1))];
                    let batch = Batch { put, ..expect(key.clone(), Expect::At(revision)) };
                    if store.commit(batch).await.expect("answered") != Outcome::Conflict {
                        break;
                    }
                }
            }
        }
    })
    .await;
    assert_eq!(get(&*stores[1], key).await.expect("it is there").record, Record::Counter(MANY * 5));
}
