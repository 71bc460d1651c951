//! Demands: what a commit asks for first, and what becomes of it where that does not hold.

use super::*;
use workfs::mounts::store::engine::Guard;
use workfs::mounts::store::record::{Counter, Orphan};

each_engine! {
    an_absent_key_is_expected_absent
    a_revision_is_expected
    the_revision_of_statistics_is_that_of_their_last_put
    fields_are_guarded
    a_session_that_is_gone_commits_nothing
    a_refused_commit_changes_nothing_at_all
    a_demand_sees_the_state_before_the_batch
    every_kind_of_record_is_kept_as_it_was_put
    many_keys_are_read_at_once
    what_no_engine_could_do_is_refused
}

fn every_kind() -> Vec<(Key, Record)> {
    vec![
        (Key::Inode(NodeId(1)), inode(3)),
        (Key::Inode(NodeId(5)), inode(4)),
        (Key::Stats(NodeId(6)), empty()),
        dentry(1, b"\xff\n'\"%", 2, i64::MAX as u64 - 1),
        dentry(1, [b'x'; 255], 3, 1),
        (Key::Xattr(NodeId(1), Bytes::from_static(b"user.\xfe")), Record::Xattr(Bytes::from(vec![0; 65536]))),
        (Key::Xattr(NodeId(1), Bytes::from_static(b"user.empty")), Record::Xattr(Bytes::new())),
        (Key::Orphan(NodeId(2)), Record::Orphan(Orphan { since: Timestamp(i64::MIN) })),
        (Key::Claim(NodeId(2), SessionId(9)), Record::Claim),
        (Key::Session(SessionId(9)), session(i64::MAX, u32::MAX)),
        (Key::Locks(NodeId(2)), locks(9)),
        (Key::Counter(Counter::NextInode), Record::Counter(i64::MAX as u64)),
        (Key::Counter(Counter::NextSession), Record::Counter(0)),
    ]
}

async fn outcome(store: &dyn Store, batch: Batch) -> Outcome {
    store.commit(batch).await.expect("the commit is answered")
}

async fn an_absent_key_is_expected_absent(place: Arc<Place>) {
    let store = place.open().await;
    for (key, record) in every_kind() {
        let make = Batch { put: vec![(key.clone(), record)], ..expect(key.clone(), Expect::Absent) };
        committed(&*store, make.clone()).await;
        assert_eq!(outcome(&*store, make.clone()).await, Outcome::Conflict, "{key:?}");
        committed(&*store, delete([key])).await;
        committed(&*store, make).await;
    }
}

async fn a_revision_is_expected(place: Arc<Place>) {
    let store = place.open().await;
    for (key, record) in every_kind() {
        let put = put([(key.clone(), record)]);
        assert_eq!(outcome(&*store, expect(key.clone(), Expect::At(Revision::FIRST))).await, Outcome::Conflict);
        let first = committed(&*store, put.clone()).await;
        committed(&*store, expect(key.clone(), Expect::At(first))).await;
        let second = committed(&*store, put).await;
        assert_eq!(outcome(&*store, expect(key.clone(), Expect::At(first))).await, Outcome::Conflict, "{key:?}");
        assert_eq!(get(&*store, key.clone()).await.expect("it is there").revision, second);
        committed(&*store, expect(key, Expect::At(second))).await;
    }
}

async fn the_revision_of_statistics_is_that_of_their_last_put(place: Arc<Place>) {
    let store = place.open().await;
    let key = Key::Stats(NodeId(1));
    let first = committed(&*store, put([(key.clone(), empty()), (Key::Inode(NodeId(1)), inode(1))])).await;
    committed(&*store, Batch { fields: vec![change(1, Field::Links, FieldOp::Add(2))], ..Batch::default() }).await;
    committed(&*store, patch(1, 0, 0, "bytes")).await;
    committed(&*store, expect(key.clone(), Expect::At(first))).await;
    // The two records of a file are two: putting one does not touch the other.
    let second = committed(&*store, put([(key.clone(), empty())])).await;
    committed(&*store, expect(Key::Inode(NodeId(1)), Expect::At(first))).await;
    committed(&*store, expect(key.clone(), Expect::At(second))).await;
    committed(&*store, put([(Key::Inode(NodeId(1)), inode(2))])).await;
    committed(&*store, expect(key.clone(), Expect::At(second))).await;
    committed(&*store, delete([Key::Inode(NodeId(1))])).await;
    committed(&*store, expect(key, Expect::At(second))).await;
}

async fn fields_are_guarded(place: Arc<Place>) {
    let store = place.open().await;
    let fields = [Field::Size, Field::Links, Field::Entries, Field::Atime, Field::Mtime, Field::Ctime];
    let guard = |field, value| Batch { guard: vec![Guard { node: NodeId(1), field, value }], ..Batch::default() };
    for field in fields {
        assert_eq!(outcome(&*store, guard(field, 0)).await, Outcome::Conflict, "there are no statistics");
    }
    committed(&*store, put([(Key::Stats(NodeId(1)), empty())])).await;
    for field in fields {
        committed(&*store, guard(field, 0)).await;
        let set = Batch { fields: vec![change(1, field, FieldOp::Set(7))], ..guard(field, 0) };
        committed(&*store, set.clone()).await;
        assert_eq!(outcome(&*store, set).await, Outcome::Conflict, "{field:?}");
        committed(&*store, guard(field, 7)).await;
    }
    committed(&*store, delete([Key::Stats(NodeId(1))])).await;
    assert_eq!(outcome(&*store, guard(Field::Links, 7)).await, Outcome::Conflict);
}

async fn a_session_that_is_gone_commits_nothing(place: Arc<Place>) {
    let store = place.open().await;
    let (key, record) = every_kind().remove(9);
    let mine = |batch: Batch| Batch { session: Some(SessionId(9)), ..batch };
    let claim = put([(Key::Claim(NodeId(1), SessionId(9)), Record::Claim)]);
    assert_eq!(outcome(&*store, mine(claim.clone())).await, Outcome::Fenced);
    assert_eq!(outcome(&*store, mine(put([(key.clone(), record.clone())]))).await, Outcome::Fenced, "checked first");
    committed(&*store, put([(key.clone(), record.clone())])).await;
    committed(&*store, mine(claim.clone())).await;
    let conflict = expect(key.clone(), Expect::Absent);
    assert_eq!(outcome(&*store, mine(conflict.clone())).await, Outcome::Conflict);
    committed(&*store, mine(put([(key.clone(), record)]))).await;
    committed(&*store, mine(delete([key.clone()]))).await;
    assert_eq!(outcome(&*store, mine(conflict)).await, Outcome::Fenced);
    let failing = expect(Key::Inode(NodeId(1)), Expect::At(Revision(3)));
    assert_eq!(outcome(&*store, mine(failing)).await, Outcome::Fenced, "fenced before all else");
}

async fn a_refused_commit_changes_nothing_at_all(place: Arc<Place>) {
    let store = place.open().await;
    committed(&*store, put(every_kind())).await;
    committed(&*store, patch(6, 0, 0, "old")).await;
    let before = snapshot(&*store).await;
    let all = Batch {
        expect: vec![(Key::Inode(NodeId(77)), Expect::At(Revision(5)))],
        delete: vec![Key::Inode(NodeId(1)), Key::Orphan(NodeId(2))],
        put: vec![(Key::Inode(NodeId(8)), inode(8)), dentry(1, "new", 8, 50)],
        fields: vec![change(6, Field::Size, FieldOp::Set(9))],
        blocks: vec![BlockChange::Discard { node: NodeId(6), start: 0, end: u64::MAX }],
        ..Batch::default()
    };
    assert_eq!(outcome(&*store, all.clone()).await, Outcome::Conflict);
    assert_eq!(snapshot(&*store).await, before);
    let taken = Batch { expect: Vec::new(), put: vec![dentry(1, "new", 8, 1)], ..all.clone() };
    assert_eq!(outcome(&*store, taken).await, Outcome::Conflict, "the cookie 1 is another entry's");
    assert_eq!(snapshot(&*store).await, before);
    committed(&*store, Batch { expect: Vec::new(), ..all }).await;
    assert_ne!(snapshot(&*store).await, before);
}

async fn snapshot(store: &dyn Store) -> (Vec<Option<Stored>>, Vec<u8>, u64) {
    let mut keys: Vec<Key> = every_kind().into_iter().map(|(key, _)| key).collect();
    keys.extend([Key::Inode(NodeId(8)), dentry(1, "new", 0, 1).0]);
    let usage = store.usage().await.expect("the usage");
    (store.get(&keys).await.expect("it is read"), content(store, 6).await, usage.files)
}

async fn a_demand_sees_the_state_before_the_batch(place: Arc<Place>) {
    let store = place.open().await;
    let key = Key::Inode(NodeId(1));
    let first = committed(&*store, put([(key.clone(), inode(1))])).await;
    let replace = Batch {
        delete: vec![key.clone()],
        put: vec![(key.clone(), inode(2))],
        ..expect(key.clone(), Expect::At(first))
    };
    let second = committed(&*store, replace.clone()).await;
    assert_eq!(get(&*store, key.clone()).await, Some(Stored { record: inode(2), revision: second }));
    assert_eq!(outcome(&*store, replace).await, Outcome::Conflict);
}

async fn every_kind_of_record_is_kept_as_it_was_put(place: Arc<Place>) {
    let store = place.open().await;
    let revision = committed(&*store, put(every_kind())).await;
    assert!(revision > Revision::FIRST);
    for (key, record) in every_kind() {
        assert_eq!(get(&*store, key.clone()).await, Some(Stored { record, revision }), "{key:?}");
    }
    for (key, _) in every_kind() {
        committed(&*store, delete([key.clone()])).await;
        assert_eq!(get(&*store, key.clone()).await, None, "{key:?}");
        committed(&*store, delete([key])).await;
    }
}

async fn many_keys_are_read_at_once(place: Arc<Place>) {
    let store = place.open().await;
    let files = (100..400).flat_map(|n| [(Key::Inode(NodeId(n)), inode(n as u32)), (Key::Stats(NodeId(n)), empty())]);
    let entries = (100..400).map(|n| dentry(50, format!("file {n}"), n, n));
    let all: Vec<(Key, Record)> = every_kind().into_iter().chain(files).chain(entries).collect();
    let revision = committed(&*store, put(all.clone())).await;
    let mut keys: Vec<Key> = all.iter().map(|(key, _)| key.clone()).collect();
    keys.extend([Key::Inode(NodeId(9999)), Key::Stats(NodeId(5)), dentry(50, "none", 1, 1).0, keys[0].clone()]);
    let found = store.get(&keys).await.expect("they are read");
    for (place, (key, record)) in all.iter().enumerate() {
        assert_eq!(found[place], Some(Stored { record: record.clone(), revision }), "{key:?}");
    }
    assert_eq!(found[all.len()..], [None, None, None, found[0].clone()]);
    assert_eq!(store.get(&[]).await.expect("nothing is read"), []);
    assert_eq!(store.usage().await.expect("the usage").files, 302);
    committed(&*store, delete(keys.clone())).await;
    assert!(store.get(&keys).await.expect("they are read").iter().all(Option::is_none));
    assert_eq!(store.usage().await.expect("the usage").files, 0);
}

async fn what_no_engine_could_do_is_refused(place: Arc<Place>) {
    let store = place.open().await;
    let size = store.block_size();
    let batches = [
        put([(Key::Inode(NodeId(1)), Record::Claim)]),
        put([(Key::Block(NodeId(1), 0), Record::Extent(1))]),
        patch(1, 0, size, "x"),
        patch(1, 0, size - 1, "xy"),
    ];
    for batch in batches {
        let error = store.commit(batch.clone()).await.expect_err("no engine could do it");
        assert_eq!(error.errno(), workfs::types::Errno::EINVAL, "{batch:?}");
    }
    committed(&*store, put([(Key::Inode(NodeId(1)), inode(1))])).await;
}
