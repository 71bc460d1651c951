//! Attributes.

use super::cases;
use super::scene::{Scene, errno, name};
use workfs::types::{Caller, Errno, FileKind, Mode, NodeId, SetAttr, SetTime, Timestamp};

cases! {
    each_attribute_is_set_alone
    all_are_set_at_once_and_returned
    times_are_kept_to_the_nanosecond
    now_is_the_moment_of_the_call
    a_size_cuts_and_fills_with_zeros
    what_has_no_size_refuses_one
    too_large_a_size_is_efbig
    somebody_elses_new_size_drops_privileges
    a_new_owner_drops_privileges
    changes_are_dated
    nobody_knows_an_unknown_node
    the_volume_has_a_size
}

async fn set(at: &Scene, caller: &Caller, node: NodeId, set: SetAttr) -> workfs::types::Attr {
    let told = at.volume.setattr(caller, node, &set).await.expect("setattr");
    assert_eq!(told, at.volume.getattr(node).await.expect("getattr"), "it returns what is");
    told
}

fn mode(bits: u32) -> SetAttr {
    SetAttr { mode: Some(Mode::new(bits)), ..SetAttr::default() }
}

async fn each_attribute_is_set_alone(at: &Scene) {
    let f = at.file("f", "abc").await.attr;
    let changed = set(at, &at.root, f.node, mode(0o4751)).await;
    assert_eq!((changed.mode, changed.uid, changed.size), (Mode::new(0o4751), f.uid, 3));
    let changed = set(at, &at.root, f.node, SetAttr { uid: Some(7), ..SetAttr::default() }).await;
    assert_eq!((changed.uid, changed.gid), (7, f.gid));
    let changed = set(at, &at.root, f.node, SetAttr { gid: Some(8), ..SetAttr::default() }).await;
    assert_eq!((changed.uid, changed.gid), (7, 8));
    assert_eq!(set(at, &at.root, f.node, SetAttr::default()).await, changed, "nothing is nothing");
}

async fn all_are_set_at_once_and_returned(at: &Scene) {
    let node = at.file("f", "abc").await.attr.node;
    let time = |seconds| SetTime::At(Timestamp::from_parts(seconds, 5));
    let all = SetAttr {
        mode: Some(Mode::new(0o600)),
        uid: Some(7),
        gid: Some(8),
        size: Some(1),
        atime: Some(time(1)),
        mtime: Some(time(2)),
    };
    let attr = set(at, &at.root, node, all).await;
    assert_eq!((attr.mode, attr.uid, attr.gid, attr.size), (Mode::new(0o600), 7, 8, 1));
    assert_eq!((attr.atime, attr.mtime), (Timestamp::from_parts(1, 5), Timestamp::from_parts(2, 5)));
}

async fn times_are_kept_to_the_nanosecond(at: &Scene) {
    let node = at.mkdir("d").await.attr.node;
    for (seconds, nanos) in [(0, 0), (1_600_000_000, 123_456_789), (4_000_000_000, 1)] {
        let time = Timestamp::from_parts(seconds, nanos);
        let both = SetAttr { atime: Some(SetTime::At(time)), mtime: Some(SetTime::At(time)), ..SetAttr::default() };
        let attr = set(at, &at.root, node, both).await;
        assert_eq!((attr.atime, attr.mtime), (time, time));
    }
}

async fn now_is_the_moment_of_the_call(at: &Scene) {
    let node = at.file("f", "").await.attr.node;
    let past = SetTime::At(Timestamp(5));
    set(at, &at.root, node, SetAttr { atime: Some(past), mtime: Some(past), ..SetAttr::default() }).await;
    let attr = set(at, &at.root, node, SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() }).await;
    let now = Timestamp::now().0;
    assert!(now - attr.mtime.0 < 10_000_000_000 && attr.mtime.0 <= now + 10_000_000);
    assert_eq!(attr.atime, Timestamp(5), "the other stays");
}

async fn a_size_cuts_and_fills_with_zeros(at: &Scene) {
    let node = at.file("f", "abcdef").await.attr.node;
    assert_eq!(set(at, &at.root, node, SetAttr::size(3)).await.size, 3);
    assert_eq!(set(at, &at.root, node, SetAttr::size(5)).await.size, 5);
    assert_eq!(at.read("f").await, "abc\0\0");
    assert_eq!(set(at, &at.root, node, SetAttr::size(0)).await.size, 0);
    assert_eq!(at.read("f").await, "");
    let far = 300_000;
    assert_eq!(set(at, &at.root, node, SetAttr::size(far)).await.size, far);
    assert_eq!(at.read("f").await, "\0".repeat(far as usize));
}

async fn what_has_no_size_refuses_one(at: &Scene) {
    let dir = at.mkdir("d").await.attr.node;
    assert_eq!(errno(at.volume.setattr(&at.root, dir, &SetAttr::size(0)).await), Errno::EISDIR);
    let made = at.volume.mknod(&at.root, at.dir, &name("p"), FileKind::Fifo, Mode::new(0o644), 0).await;
    let fifo = made.expect("mknod").attr.node;
    assert_eq!(errno(at.volume.setattr(&at.root, fifo, &SetAttr::size(0)).await), Errno::EINVAL);
}

async fn too_large_a_size_is_efbig(at: &Scene) {
    let node = at.file("f", "abc").await.attr.node;
    let refused = errno(at.volume.setattr(&at.root, node, &SetAttr::size(u64::MAX)).await);
    // What cannot be said to the system below at all, it calls invalid.
    assert!(matches!(refused, Errno::EFBIG | Errno::EINVAL), "{refused}");
    assert_eq!(at.read("f").await, "abc");
}

async fn somebody_elses_new_size_drops_privileges(at: &Scene) {
    let other = at.other();
    let node = at.file("f", "abc").await.attr.node;
    set(at, &at.root, node, SetAttr { uid: Some(other.uid), gid: Some(other.gid), ..SetAttr::default() }).await;
    set(at, &at.root, node, mode(0o6777)).await;
    assert_eq!(set(at, &at.root, node, SetAttr::size(2)).await.mode, Mode::new(0o6777), "root keeps them");
    assert_eq!(set(at, &other, node, SetAttr::size(1)).await.mode, Mode::new(0o777));
    set(at, &at.root, node, mode(0o2767)).await;
    assert_eq!(set(at, &other, node, SetAttr::size(0)).await.mode, Mode::new(0o2767).without_privileges());
}

async fn a_new_owner_drops_privileges(at: &Scene) {
    let node = at.file("f", "abc").await.attr.node;
    set(at, &at.root, node, mode(0o6777)).await;
    let owned = set(at, &at.root, node, SetAttr { uid: Some(9), ..SetAttr::default() }).await;
    assert_eq!(owned.mode, Mode::new(0o777), "also when root gives it away");
    let dir = at.mkdir("d").await.attr.node;
    set(at, &at.root, dir, mode(0o2777)).await;
    let owned = set(at, &at.root, dir, SetAttr { gid: Some(9), ..SetAttr::default() }).await;
    assert_eq!(owned.mode, Mode::new(0o2777), "a directory's bit means something else");
}

async fn changes_are_dated(at: &Scene) {
    let past = SetTime::At(Timestamp(5));
    let f = at.file("f", "").await.attr.node;
    let back = SetAttr { mtime: Some(past), ..SetAttr::default() };
    set(at, &at.root, at.dir, back).await;
    at.file("g", "").await;
    assert!(at.volume.getattr(at.dir).await.expect("getattr").mtime > Timestamp(5), "a name came");
    set(at, &at.root, at.dir, back).await;
    at.unlink("g").await.expect("unlink");
    assert!(at.volume.getattr(at.dir).await.expect("getattr").mtime > Timestamp(5), "a name went");
    let before = set(at, &at.root, f, back).await.ctime;
    tokio::time::sleep(std::time::Duration::from_millis(15)).await;
    at.link(f, "h").await.expect("link");
    let after = at.volume.getattr(f).await.expect("getattr");
    assert!(after.ctime > before && after.mtime == Timestamp(5), "a link changes the file, not its bytes");
}

async fn nobody_knows_an_unknown_node(at: &Scene) {
    let unknown = NodeId(u64::MAX / 3);
    assert_eq!(errno(at.volume.getattr(unknown).await), Errno::ESTALE);
    assert_eq!(errno(at.volume.setattr(&at.root, unknown, &mode(0o600)).await), Errno::ESTALE);
    at.volume.forget(unknown, 3);
}

async fn the_volume_has_a_size(at: &Scene) {
    let size = at.volume.statfs(at.dir).await.expect("statfs");
    assert!(size.block_size.is_power_of_two() && size.name_max == 255);
    assert!(size.available <= size.free && size.free <= size.blocks);
    at.volume.sync().await.expect("sync");
}
