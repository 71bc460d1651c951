//! Scans: each prefix in its order, in parts, and only its own.

use super::*;
use workfs::mounts::store::record::{Orphan, Prefix};

each_engine! {
    entries_come_by_their_cookies
    a_scan_goes_on_where_it_ended_whatever_comes_and_goes
    extents_orphans_and_locks_are_scanned_in_parts
    xattrs_claims_and_sessions_are_answered_whole
}

async fn scan(store: &dyn Store, prefix: Prefix, after: Option<u64>, limit: usize) -> Vec<Key> {
    let found = store.scan(&prefix, after, limit).await.expect("it is scanned");
    for (key, stored) in &found {
        if !matches!(key, Key::Block(..)) {
            assert_eq!(get(store, key.clone()).await.as_ref(), Some(stored), "{key:?} is what a read tells");
        }
    }
    found.into_iter().map(|(key, _)| key).collect()
}

async fn entries_come_by_their_cookies(place: Arc<Place>) {
    let store = place.open().await;
    // The order of the names is another.
    let cookies = [i64::MAX as u64 - 1, 1, 77, 1 << 40, 3];
    let entry = |cookie: u64| dentry(1, format!("{:020}", u64::MAX - cookie), cookie, cookie);
    committed(&*store, put(cookies.map(entry))).await;
    committed(&*store, put([dentry(2, "elsewhere", 1, 2), dentry(0, "before", 1, 2)])).await;
    let mut sorted = cookies;
    sorted.sort_unstable();
    let keys: Vec<Key> = sorted.map(|cookie| entry(cookie).0).into();
    let entries = || Prefix::Entries(NodeId(1));
    assert_eq!(scan(&*store, entries(), None, 100).await, keys);
    assert_eq!(scan(&*store, entries(), None, 2).await, keys[..2]);
    assert_eq!(scan(&*store, entries(), None, 0).await, []);
    for (place, cookie) in sorted.into_iter().enumerate() {
        assert_eq!(scan(&*store, entries(), Some(cookie), 2).await, keys[place + 1..keys.len().min(place + 3)]);
    }
    assert_eq!(scan(&*store, entries(), Some(u64::MAX), 9).await, []);
    assert_eq!(scan(&*store, entries(), Some(2), 1).await, keys[1..2]);
}

async fn a_scan_goes_on_where_it_ended_whatever_comes_and_goes(place: Arc<Place>) {
    let store = place.open().await;
    committed(&*store, put((1..=100).map(|n| dentry(1, format!("stays {n}"), n, n * 10)))).await;
    let (mut seen, mut after, mut round) = (Vec::new(), None, 1);
    loop {
        let part = store.scan(&Prefix::Entries(NodeId(1)), after, 7).await.expect("it is scanned");
        let Some((_, Stored { record: Record::Dentry(last), .. })) = part.last() else { break };
        after = Some(last.cookie);
        // The last one seen goes, and one comes before and one after the place.
        let last_key = part.last().expect("not empty").0.clone();
        let come = [dentry(1, format!("new {round}"), 1, round), dentry(1, format!("far {round}"), 1, 5000 + round)];
        committed(&*store, Batch { delete: vec![last_key], ..put(come) }).await;
        seen.extend(part.into_iter().map(|(key, _)| key));
        round += 2;
        assert!(round < 10_000, "the scan ends");
        if round > 60 {
            break;
        }
    }
    let stays: Vec<Key> = (1..=100).map(|n| dentry(1, format!("stays {n}"), 0, 1).0).collect();
    for key in &stays {
        assert_eq!(seen.iter().filter(|other| *other == key).count(), 1, "{key:?} is seen once");
    }
}

async fn extents_orphans_and_locks_are_scanned_in_parts(place: Arc<Place>) {
    let store = place.open().await;
    let indexes = [0, 1, 5, 9];
    for index in indexes {
        committed(&*store, patch(3, index, 0, "x")).await;
        committed(&*store, patch(4, index + 1, 0, "x")).await;
    }
    let orphan = |n: u64| (Key::Orphan(NodeId(n)), Record::Orphan(Orphan { since: Timestamp(n as i64) }));
    committed(&*store, put(indexes.map(|n| orphan(n + 1)))).await;
    let extents = indexes.map(|n| Key::Block(NodeId(3), n));
    let orphans = indexes.map(|n| Key::Orphan(NodeId(n + 1)));
    let held = indexes.map(|n| Key::Locks(NodeId(n + 1)));
    committed(&*store, put(held.clone().map(|key| (key, locks(1))))).await;
    let parts = [(Prefix::Extents(NodeId(3)), extents, 0), (Prefix::Orphans, orphans, 1), (Prefix::Locks, held, 1)];
    for (prefix, keys, step) in parts {
        assert_eq!(scan(&*store, prefix.clone(), None, 9).await, keys);
        assert_eq!(scan(&*store, prefix.clone(), None, 1).await, keys[..1]);
        assert_eq!(scan(&*store, prefix.clone(), Some(1 + step), 1).await, keys[2..3]);
        assert_eq!(scan(&*store, prefix.clone(), Some(4 + step), 9).await, keys[2..]);
        assert_eq!(scan(&*store, prefix, Some(9 + step), 9).await, []);
    }
}

async fn xattrs_claims_and_sessions_are_answered_whole(place: Arc<Place>) {
    let store = place.open().await;
    let names: [&[u8]; 4] = [b"security.x", b"user.a", b"user.a\0", b"user.\xff"];
    let xattr = |node, name: &[u8]| Key::Xattr(NodeId(node), Bytes::copy_from_slice(name));
    let value = || Record::Xattr(Bytes::from_static(b"v"));
    let session = |n: u64| (Key::Session(SessionId(n)), super::session(1, 1));
    committed(&*store, put(names.iter().rev().map(|name| (xattr(5, name), value())))).await;
    committed(&*store, put([(xattr(4, b"user.z"), value()), (xattr(6, b"a"), value()), session(2), session(1)])).await;
    let claims = [(5, 1), (5, 300), (4, 2), (6, 0)].map(|(n, s)| (Key::Claim(NodeId(n), SessionId(s)), Record::Claim));
    committed(&*store, put(claims)).await;
    let right: Vec<Key> = names.iter().map(|name| xattr(5, name)).collect();
    assert_eq!(scan(&*store, Prefix::Xattrs(NodeId(5)), None, 1).await, right);
    let right = [1, 300].map(|s| Key::Claim(NodeId(5), SessionId(s)));
    assert_eq!(scan(&*store, Prefix::Claims(NodeId(5)), None, 1).await, right);
    assert_eq!(scan(&*store, Prefix::Sessions, None, 1).await, [1, 2].map(|n| session(n).0));
}
