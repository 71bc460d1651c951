//! What a batch does, in its order: deletes, puts, fields, blocks; and that revisions only go up.

use super::*;

each_engine! {
    deletes_come_before_puts_and_puts_before_fields
    the_last_of_several_counts
    fields_change_in_the_order_given
    a_file_without_statistics_is_passed_over
    revisions_go_up_by_every_commit
    a_cookie_is_one_entrys
    an_entry_moves_with_its_cookie
    files_are_counted
}

async fn deletes_come_before_puts_and_puts_before_fields(place: Arc<Place>) {
    let store = place.open().await;
    let key = Key::Stats(NodeId(1));
    let batch = Batch {
        delete: vec![key.clone()],
        put: vec![(key.clone(), Record::Stats(Stats { links: 5, ..Stats::default() }))],
        fields: vec![change(1, Field::Links, FieldOp::Add(2)), change(1, Field::Size, FieldOp::Max(11))],
        blocks: vec![BlockChange::Patch { node: NodeId(1), index: 0, offset: 1, bytes: Bytes::from_static(b"ab") }],
        ..Batch::default()
    };
    committed(&*store, batch.clone()).await;
    let right = Stats { links: 7, size: 11, allocated: 3, ..Stats::default() };
    assert_eq!(stats(&*store, 1).await, right);
    committed(&*store, Batch { blocks: Vec::new(), ..batch }).await;
    assert_eq!(stats(&*store, 1).await.links, 7);
}

async fn the_last_of_several_counts(place: Arc<Place>) {
    let store = place.open().await;
    let (inode_key, stats_key) = (Key::Inode(NodeId(1)), Key::Stats(NodeId(1)));
    let second = Record::Stats(Stats { links: 3, ..Stats::default() });
    let batch = put([
        (inode_key.clone(), inode(1)),
        (stats_key.clone(), empty()),
        (stats_key, second),
        (inode_key.clone(), inode(2)),
        dentry(1, "name", 4, 10),
        dentry(1, "name", 5, 11),
    ]);
    let revision = committed(&*store, batch).await;
    assert_eq!(get(&*store, inode_key).await, Some(Stored { record: inode(2), revision }));
    assert_eq!(stats(&*store, 1).await.links, 3);
    let (key, record) = dentry(1, "name", 5, 11);
    assert_eq!(get(&*store, key).await, Some(Stored { record, revision }));
}

async fn fields_change_in_the_order_given(place: Arc<Place>) {
    let store = place.open().await;
    committed(&*store, put((1..=20).map(|node| (Key::Stats(NodeId(node)), empty())))).await;
    let fields = vec![
        change(1, Field::Size, FieldOp::Set(10)),
        change(1, Field::Size, FieldOp::Add(-3)),
        change(1, Field::Size, FieldOp::Max(9)),
        change(1, Field::Size, FieldOp::Add(1)),
        change(1, Field::Mtime, FieldOp::Max(-4)),
        change(1, Field::Atime, FieldOp::Set(-4)),
        change(1, Field::Ctime, FieldOp::Add(5)),
        change(1, Field::Ctime, FieldOp::Max(4)),
        change(2, Field::Entries, FieldOp::Add(1)),
        change(2, Field::Entries, FieldOp::Add(1)),
    ];
    let others = (3..=20).map(|node| change(node, Field::Links, FieldOp::Add(node as i64)));
    committed(&*store, Batch { fields: fields.into_iter().chain(others).collect(), ..Batch::default() }).await;
    let first = stats(&*store, 1).await;
    assert_eq!((first.size, first.mtime, first.atime, first.ctime), (10, Timestamp(0), Timestamp(-4), Timestamp(5)));
    assert_eq!(stats(&*store, 2).await.entries, 2);
    for node in 3..=20 {
        assert_eq!(stats(&*store, node).await, Stats { links: node, ..Stats::default() });
    }
}

async fn a_file_without_statistics_is_passed_over(place: Arc<Place>) {
    let store = place.open().await;
    committed(&*store, put([(Key::Inode(NodeId(1)), inode(1)), (Key::Stats(NodeId(3)), empty())])).await;
    let fields = (1..=3).map(|node| change(node, Field::Links, FieldOp::Add(1))).collect();
    committed(&*store, Batch { fields, ..Batch::default() }).await;
    assert_eq!(get(&*store, Key::Stats(NodeId(1))).await, None);
    assert_eq!(get(&*store, Key::Stats(NodeId(2))).await, None);
    assert_eq!(stats(&*store, 3).await.links, 1);
}

async fn revisions_go_up_by_every_commit(place: Arc<Place>) {
    let (one, other) = (place.open().await, place.open().await);
    let mut last = Revision::FIRST;
    for number in 0..20 {
        let store = if number % 2 == 0 { &one } else { &other };
        let durable = number % 3 == 0;
        let revision = committed(&**store, Batch { durable, ..Batch::default() }).await;
        assert!(revision > last, "{revision:?} after {last:?}");
        last = revision;
    }
}

async fn a_cookie_is_one_entrys(place: Arc<Place>) {
    let store = place.open().await;
    committed(&*store, put([dentry(1, "a", 10, 5)])).await;
    let conflicts = [put([dentry(1, "b", 11, 5)]), put([dentry(1, "b", 11, 6), dentry(1, "c", 12, 6)])];
    for batch in conflicts {
        assert_eq!(store.commit(batch.clone()).await.expect("answered"), Outcome::Conflict, "{batch:?}");
    }
    assert_eq!(get(&*store, dentry(1, "b", 0, 1).0).await, None);
    // In another directory, or as the same entry, it is free.
    committed(&*store, put([dentry(2, "b", 11, 5)])).await;
    committed(&*store, put([dentry(1, "a", 13, 5)])).await;
    let (key, record) = dentry(1, "a", 13, 5);
    assert_eq!(get(&*store, key).await.map(|stored| stored.record), Some(record));
}

async fn an_entry_moves_with_its_cookie(place: Arc<Place>) {
    let store = place.open().await;
    committed(&*store, put([dentry(1, "a", 10, 5)])).await;
    let rename = Batch { delete: vec![dentry(1, "a", 0, 1).0], ..put([dentry(1, "b", 10, 5)]) };
    committed(&*store, rename).await;
    assert_eq!(get(&*store, dentry(1, "a", 0, 1).0).await, None);
    assert!(get(&*store, dentry(1, "b", 0, 1).0).await.is_some());
    // The cookie that it left is free, and one that it takes anew is taken.
    committed(&*store, put([dentry(1, "b", 10, 6)])).await;
    committed(&*store, put([dentry(1, "c", 11, 5)])).await;
    let conflict = put([dentry(1, "d", 12, 6)]);
    assert_eq!(store.commit(conflict).await.expect("answered"), Outcome::Conflict);
}

async fn files_are_counted(place: Arc<Place>) {
    let (one, other) = (place.open().await, place.open().await);
    let files = async |store: &Arc<dyn Store>| store.usage().await.expect("the usage").files;
    committed(&*one, put((1..=3).map(|node| (Key::Inode(NodeId(node)), inode(1))))).await;
    committed(&*one, put([(Key::Inode(NodeId(3)), inode(2)), (Key::Stats(NodeId(4)), empty())])).await;
    assert_eq!((files(&one).await, files(&other).await), (3, 3));
    committed(&*other, delete([Key::Inode(NodeId(1)), Key::Inode(NodeId(9)), Key::Stats(NodeId(4))])).await;
    assert_eq!((files(&one).await, files(&other).await), (2, 2));
    let usage = one.usage().await.expect("the usage");
    assert!(usage.used > 0 && usage.free > 0, "{usage:?}");
}
