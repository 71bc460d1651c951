//! Names moved.

use super::cases;
use super::scene::{RW, Scene, errno};
use workfs::types::RenameMode::{Exchange, NoReplace, Replace};
use workfs::types::{Errno, NodeId};

cases! {
    a_file_moves_with_its_bytes
    a_directory_moves_with_what_is_in_it
    what_is_replaced_goes
    a_replaced_file_lives_while_it_is_open
    only_its_own_kind_is_replaced
    two_names_of_one_file_stay
    no_replace_refuses
    exchange_swaps
    exchange_counts_directories
    a_directory_never_comes_below_itself
    what_is_missing_is_enoent
    a_name_onto_itself_is_nothing
}

async fn a_file_moves_with_its_bytes(at: &Scene) {
    let d = at.mkdir("d").await;
    let f = at.file("f", "abc").await.attr.node;
    at.rename("f", "g", Replace).await.expect("rename");
    assert!(!at.exists("f").await);
    assert_eq!((at.node("g").await, at.read("g").await), (f, "abc".into()));
    at.rename_to("g", d.attr.node, "h", Replace).await.expect("rename");
    assert!(!at.exists("g").await);
    assert_eq!(at.at(&d).node("h").await, f);
    assert_eq!(at.at(&d).lookup("h").await.expect("lookup").attr.links, 1);
}

async fn a_directory_moves_with_what_is_in_it(at: &Scene) {
    let from = at.at(&at.mkdir("from").await);
    let to = at.at(&at.mkdir("to").await);
    let moved = from.mkdir("d").await;
    at.at(&moved).file("f", "x").await;
    let (links_from, links_to) = (from.dir_links().await, to.dir_links().await);
    from.rename_to("d", to.dir, "e", Replace).await.expect("rename");
    assert_eq!(to.node("e").await, moved.attr.node);
    assert_eq!(at.at(&moved).read("f").await, "x");
    let step = u32::from(links_from != 1);
    assert_eq!((from.dir_links().await, to.dir_links().await), (links_from - step, links_to + step));
    let parent =
        at.volume.readdir(moved.attr.node, workfs::types::Cookie::START, 10, false).await.expect("readdir").parent;
    assert_eq!(parent, to.dir);
    at.rmdir("from").await.expect("it is empty now");
}

async fn what_is_replaced_goes(at: &Scene) {
    let f = at.file("f", "new").await.attr.node;
    let old = at.file("g", "old").await.attr.node;
    at.rename("f", "g", Replace).await.expect("rename");
    assert_eq!((at.node("g").await, at.read("g").await), (f, "new".into()));
    let attr = at.volume.getattr(old).await.expect("still known");
    assert_eq!(attr.links, 0);
    let links = at.dir_links().await;
    let d = at.mkdir("d").await.attr.node;
    at.mkdir("e").await;
    at.rename("d", "e", Replace).await.expect("an empty directory is replaced");
    assert_eq!(at.node("e").await, d);
    assert_eq!(at.dir_links().await, links + u32::from(links != 1));
}

async fn a_replaced_file_lives_while_it_is_open(at: &Scene) {
    let (_, file) = at.open("g").await;
    at.write(&*file, 0, b"old").await;
    at.file("f", "new").await;
    at.rename("f", "g", Replace).await.expect("rename");
    assert_eq!(&file.read_at(0, 9).await.expect("read")[..], b"old");
    file.flush().await.expect("flush");
    assert_eq!(&file.read_at(0, 9).await.expect("read")[..], b"old");
    assert_eq!(at.read("g").await, "new");
}

async fn only_its_own_kind_is_replaced(at: &Scene) {
    at.file("f", "").await;
    at.mkdir("d").await;
    assert_eq!(errno(at.rename("f", "d", Replace).await), Errno::EISDIR);
    assert_eq!(errno(at.rename("d", "f", Replace).await), Errno::ENOTDIR);
    let full = at.at(&at.mkdir("full").await);
    full.file("x", "").await;
    assert_eq!(errno(at.rename("d", "full", Replace).await), Errno::ENOTEMPTY);
    assert!(at.exists("f").await && at.exists("d").await && full.exists("x").await);
}

async fn two_names_of_one_file_stay(at: &Scene) {
    let f = at.file("f", "").await.attr.node;
    at.link(f, "g").await.expect("link");
    at.rename("f", "g", Replace).await.expect("nothing happens, with success");
    assert_eq!((at.node("f").await, at.node("g").await), (f, f));
    assert_eq!(at.lookup("f").await.expect("lookup").attr.links, 2);
}

async fn no_replace_refuses(at: &Scene) {
    at.file("f", "f").await;
    at.file("g", "g").await;
    assert_eq!(errno(at.rename("f", "g", NoReplace).await), Errno::EEXIST);
    assert_eq!((at.read("f").await, at.read("g").await), ("f".into(), "g".into()));
    at.rename("f", "h", NoReplace).await.expect("rename");
    assert_eq!(at.read("h").await, "f");
    assert_eq!(errno(at.rename("no", "x", NoReplace).await), Errno::ENOENT);
}

async fn exchange_swaps(at: &Scene) {
    let f = at.file("f", "f").await.attr.node;
    let g = at.file("g", "g").await.attr.node;
    at.rename("f", "g", Exchange).await.expect("rename");
    assert_eq!((at.node("f").await, at.node("g").await), (g, f));
    assert_eq!(errno(at.rename("f", "no", Exchange).await), Errno::ENOENT);
    let d = at.mkdir("d").await;
    at.at(&d).file("x", "x").await;
    at.rename("f", "d", Exchange).await.expect("kinds may differ, and directories may be full");
    assert_eq!((at.node("f").await, at.node("d").await), (d.attr.node, g));
}

async fn exchange_counts_directories(at: &Scene) {
    let a = at.at(&at.mkdir("a").await);
    let b = at.at(&at.mkdir("b").await);
    let moved = a.mkdir("d").await;
    b.file("f", "").await;
    let (links_a, links_b) = (a.dir_links().await, b.dir_links().await);
    a.rename_to("d", b.dir, "f", Exchange).await.expect("rename");
    let step = u32::from(links_a != 1);
    assert_eq!((a.dir_links().await, b.dir_links().await), (links_a - step, links_b + step));
    assert_eq!(b.node("f").await, moved.attr.node);
    a.unlink("d").await.expect("a file now");
    at.rmdir("a").await.expect("empty");
    assert_eq!(errno(at.rmdir("b").await), Errno::ENOTEMPTY);
}

async fn a_directory_never_comes_below_itself(at: &Scene) {
    let a = at.at(&at.mkdir("a").await);
    let b = a.at(&a.mkdir("b").await);
    let target = b.dir;
    assert_eq!(errno(at.rename_to("a", a.dir, "x", Replace).await), Errno::EINVAL);
    assert_eq!(errno(at.rename_to("a", target, "x", Replace).await), Errno::EINVAL);
    b.file("f", "").await;
    assert_eq!(errno(at.rename_to("a", target, "f", Exchange).await), Errno::EINVAL);
    assert_eq!(errno(b.rename_to("f", at.dir, "a", Exchange).await), Errno::EINVAL);
    // A directory that is above what would replace it is never empty; Linux says that first.
    let upwards = errno(b.rename_to("f", at.dir, "a", Replace).await);
    assert!(matches!(upwards, Errno::EISDIR | Errno::ENOTEMPTY), "{upwards}");
    assert_eq!(a.node("b").await, target);
}

async fn what_is_missing_is_enoent(at: &Scene) {
    at.file("f", "").await;
    assert_eq!(errno(at.rename("no", "f", Replace).await), Errno::ENOENT);
    assert_eq!(errno(at.rename("no", "x", Replace).await), Errno::ENOENT);
    let unknown = at.rename_to("f", NodeId(u64::MAX / 3), "x", Replace).await;
    assert_eq!(errno(unknown), Errno::ESTALE);
    assert!(at.exists("f").await);
}

async fn a_name_onto_itself_is_nothing(at: &Scene) {
    let (entry, _file) = at.try_create("f", RW).await.expect("create");
    at.rename("f", "f", Replace).await.expect("rename");
    assert_eq!(at.node("f").await, entry.attr.node);
    let d = at.mkdir("d").await.attr.node;
    at.rename("d", "d", Replace).await.expect("rename");
    assert_eq!(at.node("d").await, d);
}
