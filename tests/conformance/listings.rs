//! Listings.

use super::cases;
use super::scene::{Scene, errno};
use std::collections::{BTreeMap, BTreeSet};
use workfs::types::RenameMode::Replace;
use workfs::types::{Cookie, Errno, FileKind, NodeId};

cases! {
    each_entry_is_listed_once
    a_listing_names_kinds_and_parents
    entries_that_stay_are_listed_once_while_others_come_and_go
    a_replaced_name_is_listed_once
    with_attributes_it_counts_as_a_lookup
    what_is_no_directory_is_not_listed
    a_removed_directory_is_empty
}

/// All names from a place on, in pages.
async fn names(at: &Scene, from: Cookie, limit: usize) -> Vec<(String, Cookie)> {
    let mut names = Vec::new();
    let mut after = from;
    loop {
        let page = at.volume.readdir(at.dir, after, limit, false).await.expect("readdir").entries;
        assert!(page.len() <= limit);
        let Some(last) = page.last() else { return names };
        after = last.cookie;
        names.extend(page.iter().map(|entry| (entry.name.to_string(), entry.cookie)));
    }
}

fn once(listed: &[(String, Cookie)]) -> BTreeSet<String> {
    let set: BTreeSet<String> = listed.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(set.len(), listed.len(), "no name twice: {listed:?}");
    set
}

async fn each_entry_is_listed_once(at: &Scene) {
    let mut made = BTreeSet::new();
    for n in 0..200 {
        at.file(&format!("f{n}"), "").await;
        made.insert(format!("f{n}"));
    }
    for limit in [1, 7, 1000] {
        assert_eq!(once(&names(at, Cookie::START, limit).await), made);
    }
    let all = names(at, Cookie::START, 1000).await;
    let cookies: BTreeSet<Cookie> = all.iter().map(|(_, cookie)| *cookie).collect();
    assert!(cookies.len() == 200 && cookies.iter().all(|cookie| cookie.0 > 0 && cookie.0 <= i64::MAX as u64));
    assert_eq!(names(at, all[99].1, 50).await, all[100..], "a cookie is the place just after its entry");
}

async fn a_listing_names_kinds_and_parents(at: &Scene) {
    let below = at.at(&at.mkdir("d").await);
    at.symlink("l", b"t").await.expect("symlink");
    at.file("f", "").await;
    let listing = at.volume.readdir(at.dir, Cookie::START, 10, false).await.expect("readdir");
    let kinds: BTreeMap<String, FileKind> =
        listing.entries.iter().map(|entry| (entry.name.to_string(), entry.kind)).collect();
    let expected = [("d", FileKind::Directory), ("f", FileKind::Regular), ("l", FileKind::Symlink)];
    assert_eq!(kinds, expected.map(|(name, kind)| (name.to_string(), kind)).into());
    assert!(listing.entries.iter().all(|entry| entry.entry.is_none()));
    let listing = at.volume.readdir(below.dir, Cookie::START, 10, false).await.expect("readdir");
    assert_eq!((listing.parent, listing.entries.len()), (at.dir, 0));
    let root = at.volume.root().await.expect("root").attr.node;
    assert_eq!(at.volume.readdir(root, Cookie::START, 1, false).await.expect("readdir").parent, root);
}

async fn entries_that_stay_are_listed_once_while_others_come_and_go(at: &Scene) {
    for n in 0..300 {
        at.file(&format!("f{n}"), "").await;
    }
    let mut seen = Vec::new();
    let mut after = Cookie::START;
    let mut round = 0;
    loop {
        let page = at.volume.readdir(at.dir, after, 20, false).await.expect("readdir").entries;
        let Some(last) = page.last() else { break };
        after = last.cookie;
        // What was listed goes, and others come: those with even numbers stay.
        for entry in &page {
            let name = entry.name.to_string();
            if name.starts_with('f') && !name.ends_with(['0', '2', '4', '6', '8']) {
                at.unlink(&name).await.expect("unlink");
            }
            seen.push((name, entry.cookie));
        }
        if round < 10 {
            at.file(&format!("new{round}"), "").await;
        }
        round += 1;
    }
    let listed = once(&seen);
    for n in (0..300).step_by(2) {
        assert!(listed.contains(&format!("f{n}")), "f{n} stayed and must be listed");
    }
}

async fn a_replaced_name_is_listed_once(at: &Scene) {
    for n in 0..20 {
        at.file(&format!("f{n}"), "old").await;
    }
    let first = at.volume.readdir(at.dir, Cookie::START, 10, false).await.expect("readdir").entries;
    let elsewhere = at.mkdir("z").await;
    let other = at.at(&elsewhere);
    for entry in &first {
        other.file("new", "new").await;
        let replaced = entry.name.to_string();
        if replaced.starts_with('f') {
            other.rename_to("new", at.dir, &replaced, Replace).await.expect("rename");
        }
    }
    let mut all: Vec<(String, Cookie)> = first.iter().map(|entry| (entry.name.to_string(), entry.cookie)).collect();
    all.extend(names(at, first.last().expect("an entry").cookie, 10).await);
    // A volume over a directory of the host keeps to what that does.
    if at.volume.capabilities().opens == workfs::mounts::OpenStyle::PerHandle {
        assert!(once(&all).len() >= 20);
    }
}

async fn with_attributes_it_counts_as_a_lookup(at: &Scene) {
    let made = at.file("f", "abc").await;
    at.volume.forget(made.attr.node, 1);
    let listing = at.volume.readdir(at.dir, Cookie::START, 10, true).await.expect("readdir");
    let entry = listing.entries[0].entry.expect("attributes");
    assert_eq!((entry.attr.node, entry.attr.size, entry.attr.links), (made.attr.node, 3, 1));
    at.unlink("f").await.expect("unlink");
    let attr = at.volume.getattr(made.attr.node).await.expect("known by the listing");
    assert_eq!(attr.links, 0);
    at.volume.forget(made.attr.node, 1);
}

async fn what_is_no_directory_is_not_listed(at: &Scene) {
    let f = at.file("f", "").await.attr.node;
    assert_eq!(errno(at.volume.readdir(f, Cookie::START, 10, false).await), Errno::ENOTDIR);
    let unknown = NodeId(u64::MAX / 3);
    assert_eq!(errno(at.volume.readdir(unknown, Cookie::START, 10, false).await), Errno::ESTALE);
}

async fn a_removed_directory_is_empty(at: &Scene) {
    let d = at.mkdir("d").await.attr.node;
    at.rmdir("d").await.expect("rmdir");
    // The system's own answer for one that a process still stands in.
    match at.volume.readdir(d, Cookie::START, 10, false).await {
        Ok(listing) => assert!(listing.entries.is_empty()),
        Err(error) => assert_eq!(error.errno(), Errno::ENOENT),
    }
}
