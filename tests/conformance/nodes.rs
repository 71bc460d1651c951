//! Files that are known or open without a name, and what is told of changes.

use super::cases;
use super::scene::{RW, Scene, errno};
use futures::{FutureExt, StreamExt};
use std::time::Duration;
use workfs::types::{Change, ChangeKind, Errno, NodeId, Origin, Privileges, RenameMode, SetAttr};

cases! {
    an_unlinked_open_file_lives
    a_known_file_is_answered_for_after_its_last_name
    a_known_directory_is_answered_for_after_its_removal
    a_number_is_not_given_twice
    changes_are_told_with_their_maker
}

async fn an_unlinked_open_file_lives(at: &Scene) {
    let (entry, file) = at.open("f").await;
    at.write(&*file, 0, b"abc").await;
    at.unlink("f").await.expect("unlink");
    assert!(!at.exists("f").await);
    assert_eq!(&file.read_at(0, 9).await.expect("read")[..], b"abc");
    at.write(&*file, 3, b"def").await;
    file.flush().await.expect("flush");
    file.truncate(&at.root, 5, Privileges::Keep).await.expect("truncate");
    file.sync(false).await.expect("sync");
    assert_eq!(&file.read_at(0, 9).await.expect("read")[..], b"abcde");
    let attr = file.attr().await.expect("attr");
    assert_eq!((attr.node, attr.links, attr.size), (entry.attr.node, 0, 5));
    let second = at.volume.open(&at.root, entry.attr.node, RW).await.expect("it is opened again by its number");
    drop(file);
    assert_eq!(&second.read_at(0, 9).await.expect("read")[..], b"abcde");
    let mode = SetAttr { mode: Some(workfs::types::Mode::new(0o600)), ..SetAttr::default() };
    at.volume.setattr(&at.root, entry.attr.node, &mode).await.expect("chmod");
}

async fn a_known_file_is_answered_for_after_its_last_name(at: &Scene) {
    let f = at.file("f", "abc").await.attr;
    at.unlink("f").await.expect("unlink");
    let attr = at.volume.getattr(f.node).await.expect("it is known");
    assert_eq!((attr.node, attr.links, attr.kind), (f.node, 0, f.kind));
}

async fn a_known_directory_is_answered_for_after_its_removal(at: &Scene) {
    let d = at.mkdir("d").await.attr;
    at.rmdir("d").await.expect("rmdir");
    let attr = at.volume.getattr(d.node).await.expect("it is known");
    assert_eq!((attr.node, attr.kind), (d.node, d.kind));
    at.volume.forget(d.node, 1);
    if at.volume.capabilities().opens == workfs::mounts::OpenStyle::PerHandle {
        assert_eq!(errno(at.volume.getattr(d.node).await), Errno::ESTALE, "until it is forgotten");
    }
}

async fn a_number_is_not_given_twice(at: &Scene) {
    let mut seen = std::collections::HashSet::new();
    for _ in 0..50 {
        let entry = at.file("f", "").await;
        assert!(seen.insert((entry.attr.node, entry.generation)), "{:?}", entry.attr.node);
        at.unlink("f").await.expect("unlink");
    }
}

/// What is told until nothing comes any more.
async fn told(stream: &mut workfs::types::ChangeStream, origin: Origin) -> Vec<ChangeKind> {
    let mut kinds = Vec::new();
    while let Ok(Some(change)) = tokio::time::timeout(Duration::from_millis(200), stream.next()).await {
        let Change { origin: maker, kind } = change;
        assert!(maker == origin || maker == Origin::OUTSIDE, "{kind:?} by {maker:?}");
        kinds.push(kind);
    }
    kinds
}

fn names_entry(kinds: &[ChangeKind], dir: NodeId, text: &str) -> bool {
    kinds
        .iter()
        .any(|kind| matches!(kind, ChangeKind::Entry { parent, name } if *parent == dir && name.to_string() == text))
}

fn touches(kinds: &[ChangeKind], of: NodeId) -> bool {
    kinds.iter().any(|kind| match kind {
        ChangeKind::Attr(node) | ChangeKind::Data { node, .. } => *node == of,
        ChangeKind::Everything => true,
        ChangeKind::Entry { .. } => false,
    })
}

async fn changes_are_told_with_their_maker(at: &Scene) {
    let mut stream = at.volume.changes();
    let origin = at.root.origin;
    assert!(stream.next().now_or_never().is_none(), "from now on, not from before");
    let (entry, file) = at.open("f").await;
    let kinds = told(&mut stream, origin).await;
    assert!(names_entry(&kinds, at.dir, "f"), "{kinds:?}");
    at.write(&*file, 10, b"abc").await;
    file.flush().await.expect("flush");
    let kinds = told(&mut stream, origin).await;
    assert!(touches(&kinds, entry.attr.node), "{kinds:?}");
    at.volume.setattr(&at.root, entry.attr.node, &SetAttr::size(1)).await.expect("truncate");
    let kinds = told(&mut stream, origin).await;
    assert!(touches(&kinds, entry.attr.node), "{kinds:?}");
    at.rename("f", "g", RenameMode::Replace).await.expect("rename");
    let kinds = told(&mut stream, origin).await;
    assert!(names_entry(&kinds, at.dir, "f") && names_entry(&kinds, at.dir, "g"), "{kinds:?}");
    at.unlink("g").await.expect("unlink");
    let kinds = told(&mut stream, origin).await;
    assert!(names_entry(&kinds, at.dir, "g"), "{kinds:?}");
}
