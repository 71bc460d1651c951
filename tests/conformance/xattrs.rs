//! Extended attributes.

use super::cases;
use super::scene::{Scene, errno};
use workfs::types::{Errno, NodeId, XattrMode};

cases! {
    a_value_is_kept
    modes_are_kept_to
    bounds_are_kept_to
    other_namespaces_are_refused
    they_go_with_the_file
}

async fn set(at: &Scene, node: NodeId, name: &str, value: &[u8], mode: XattrMode) -> workfs::types::Result<()> {
    at.volume.setxattr(&at.root, node, name.as_bytes(), value, mode).await
}

async fn names(at: &Scene, node: NodeId) -> Vec<String> {
    let listed = at.volume.listxattr(node).await.expect("listxattr");
    let mut names: Vec<String> = listed.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    // What lies below may keep labels of its own.
    names.retain(|name| name.starts_with("user."));
    names.sort();
    names
}

async fn a_value_is_kept(at: &Scene) {
    let node = at.file("f", "").await.attr.node;
    assert_eq!(errno(at.volume.getxattr(node, b"user.a").await), Errno::ENODATA);
    set(at, node, "user.a", b"1\0\xff", XattrMode::Set).await.expect("setxattr");
    set(at, node, "user.b", b"", XattrMode::Set).await.expect("setxattr");
    assert_eq!(&at.volume.getxattr(node, b"user.a").await.expect("getxattr")[..], b"1\0\xff");
    assert_eq!(&at.volume.getxattr(node, b"user.b").await.expect("getxattr")[..], b"");
    assert_eq!(names(at, node).await, ["user.a", "user.b"]);
    at.volume.removexattr(&at.root, node, b"user.a").await.expect("removexattr");
    assert_eq!(errno(at.volume.removexattr(&at.root, node, b"user.a").await), Errno::ENODATA);
    assert_eq!(errno(at.volume.getxattr(node, b"user.a").await), Errno::ENODATA);
    assert_eq!(names(at, node).await, ["user.b"]);
    let dir = at.mkdir("d").await.attr.node;
    set(at, dir, "user.d", b"x", XattrMode::Set).await.expect("a directory has them too");
}

async fn modes_are_kept_to(at: &Scene) {
    let node = at.file("f", "").await.attr.node;
    assert_eq!(errno(set(at, node, "user.a", b"1", XattrMode::Replace).await), Errno::ENODATA);
    set(at, node, "user.a", b"1", XattrMode::Create).await.expect("setxattr");
    assert_eq!(errno(set(at, node, "user.a", b"2", XattrMode::Create).await), Errno::EEXIST);
    set(at, node, "user.a", b"3", XattrMode::Replace).await.expect("setxattr");
    set(at, node, "user.a", b"4", XattrMode::Set).await.expect("setxattr");
    assert_eq!(&at.volume.getxattr(node, b"user.a").await.expect("getxattr")[..], b"4");
}

async fn bounds_are_kept_to(at: &Scene) {
    let node = at.file("f", "").await.attr.node;
    assert_eq!(errno(set(at, node, "user.a", &[0; 65_537], XattrMode::Set).await), Errno::E2BIG);
    let long = format!("user.{}", "x".repeat(251));
    assert_eq!(errno(set(at, node, &long, b"", XattrMode::Set).await), Errno::ERANGE);
    set(at, node, &long[..255], b"x", XattrMode::Set).await.expect("255 bytes are a name");
}

async fn other_namespaces_are_refused(at: &Scene) {
    let node = at.file("f", "").await.attr.node;
    assert_eq!(errno(set(at, node, "nonsense.a", b"", XattrMode::Set).await), Errno::EOPNOTSUPP);
}

async fn they_go_with_the_file(at: &Scene) {
    let node = at.file("f", "").await.attr.node;
    set(at, node, "user.a", b"1", XattrMode::Set).await.expect("setxattr");
    at.unlink("f").await.expect("unlink");
    let again = at.file("f", "").await.attr.node;
    assert_ne!(node, again, "a number that is known is not given again");
    assert_eq!(names(at, again).await, [""; 0]);
}
