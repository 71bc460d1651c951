//! What the kernel remembers, and that it forgets what others change.

use super::tree::{Parts, Tree, soon};
use bytes::Bytes;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::sleep;
use std::time::Duration;
use workfs::fs::MountOptions;
use workfs::mounts::Volume;
use workfs::types::*;

/// Somebody who changes the volume without the kernel.
const BESIDE: Caller = Caller { uid: 0, gid: 0, tid: 0, origin: Origin::OUTSIDE };

struct Beside<'a> {
    tree: &'a Tree,
    volume: Arc<dyn Volume>,
}

impl Beside<'_> {
    fn root(&self) -> NodeId {
        self.tree.runtime.block_on(self.volume.root()).expect("a root").attr.node
    }

    fn write(&self, name: &str, text: &str) {
        let (root, name) = (self.root(), Name::try_from(name).expect("a name"));
        let flags = OpenFlags { truncate: true, ..OpenFlags::access(Access::ReadWrite) };
        self.tree.runtime.block_on(async {
            let made = self.volume.create(&BESIDE, root, &name, Mode::new(0o644), flags).await;
            let (entry, file) = made.expect("created");
            file.write_at(&BESIDE, 0, Bytes::copy_from_slice(text.as_bytes()), Privileges::Keep)
                .await
                .expect("written");
            file.flush().await.expect("flushed");
            self.volume.forget(entry.attr.node, 1);
        });
    }

    fn rename(&self, from: &str, to: &str) {
        let (root, from, to) =
            (self.root(), Name::try_from(from).expect("a name"), Name::try_from(to).expect("a name"));
        let renamed = self.volume.rename(&BESIDE, root, &from, root, &to, RenameMode::Replace);
        self.tree.runtime.block_on(renamed).expect("renamed");
    }

    fn chmod(&self, name: &str, mode: u32) {
        let (root, name) = (self.root(), Name::try_from(name).expect("a name"));
        self.tree.runtime.block_on(async {
            let node = self.volume.lookup(&BESIDE, root, &name).await.expect("there").attr.node;
            let set = SetAttr { mode: Some(Mode::new(mode)), ..SetAttr::default() };
            self.volume.setattr(&BESIDE, node, &set).await.expect("set");
            self.volume.forget(node, 1);
        });
    }
}

fn listed(tree: &Tree) -> Vec<String> {
    let entries = fs::read_dir(&tree.dir).expect("listed").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Makes the kernel remember whatever it can, once the commits of what was written last have been told.
fn settle(tree: &Tree) {
    look(tree);
    sleep(Duration::from_millis(200));
    look(tree);
}

/// What the kernel says.
fn look(tree: &Tree) -> (Vec<String>, bool, String, u32) {
    let text = fs::read_to_string(tree.at("file")).expect("read");
    let mode = fs::metadata(tree.at("file")).expect("stat").mode() & 0o7777;
    (listed(tree), tree.at("missing").exists(), text, mode)
}

#[test]
fn what_is_remembered_is_not_asked_again() {
    let mut parts = Parts::new();
    parts.memory("/");
    let tree = parts.mount(&MountOptions::default());
    fs::write(tree.at("file"), "text").expect("written");
    settle(&tree);
    let before = ["lookup", "getattr", "read", "readdir", "readdirplus"].map(|operation| tree.asked("/", operation));
    for _ in 0..50 {
        look(&tree);
    }
    let after = ["lookup", "getattr", "read", "readdir", "readdirplus"].map(|operation| tree.asked("/", operation));
    assert_eq!(before, after);
}

#[test]
fn changes_beside_the_kernel_are_told_to_it() {
    let mut parts = Parts::new();
    let volume = parts.memory("/");
    let tree = parts.mount(&MountOptions::default());
    let beside = Beside { tree: &tree, volume };
    for round in 0..20 {
        fs::write(tree.at("file"), "before").expect("written");
        fs::set_permissions(tree.at("file"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("set");
        let old = (vec!["file".to_owned()], false, "before".to_owned(), 0o600);
        assert_eq!(look(&tree), old, "round {round}");
        beside.write("file", "after, and longer");
        soon("new bytes", || fs::read_to_string(tree.at("file")).is_ok_and(|text| text == "after, and longer"));
        beside.chmod("file", 0o640);
        soon("new mode", || fs::metadata(tree.at("file")).is_ok_and(|stat| stat.mode() & 0o7777 == 0o640));
        beside.write("missing", "");
        soon("a name that was missing", || tree.at("missing").exists());
        assert_eq!(listed(&tree), ["file", "missing"]);
        beside.rename("missing", "moved");
        soon("a name that is gone", || !tree.at("missing").exists());
        assert_eq!(listed(&tree), ["file", "moved"]);
        fs::remove_file(tree.at("moved")).expect("removed");
    }
}

#[test]
fn the_loss_of_the_feed_drops_all_that_is_remembered() {
    let mut parts = Parts::new();
    let volume = parts.memory("/");
    let tree = parts.mount(&MountOptions::default());
    let beside = Beside { tree: &tree, volume: volume.clone() };
    fs::write(tree.at("file"), "before").expect("written");
    let old = (vec!["file".to_owned()], false, "before".to_owned(), 0o644);
    settle(&tree);
    assert_eq!(look(&tree), old);
    volume.mute.store(true, SeqCst);
    beside.write("file", "after!");
    beside.write("missing", "");
    beside.chmod("file", 0o640);
    sleep(Duration::from_millis(100));
    assert_eq!(look(&tree), old, "nobody told of the changes, so this test can fail");
    volume.tell(ChangeKind::Everything);
    let new = (vec!["file".to_owned(), "missing".to_owned()], true, "after!".to_owned(), 0o640);
    soon("all is asked again", || look(&tree) == new);
}

#[test]
fn a_volume_without_opens_is_told_of_none() {
    let mut parts = Parts::new();
    parts.disk("/", "outer", false);
    let tree = parts.mount(&MountOptions::default());
    fs::create_dir(tree.at("d")).expect("made");
    for number in 0..50 {
        fs::write(tree.at(format!("d/{number}")), "x").expect("written");
        assert_eq!(fs::read_to_string(tree.at(format!("d/{number}"))).expect("read"), "x");
        assert_eq!(fs::read_dir(tree.at("d")).expect("listed").count(), number + 1);
    }
    // Each is asked until the first answer says that it need not be; two threads may ask at once.
    for operation in ["open", "flush", "opendir"] {
        assert!(tree.asked("/", operation) <= 2, "{operation}: {}", tree.asked("/", operation));
    }
    // The kernel asks for capabilities when it has learnt a file's attributes anew, and not for each write.
    let (file, asked) = (File::options().write(true).open(tree.at("d/7")).expect("open"), tree.asked("/", "getxattr"));
    (0..50).for_each(|place| file.write_all_at(b"again", place).expect("written"));
    assert!(tree.asked("/", "getxattr") <= asked + 1);
    drop(file);
    assert_eq!(tree.view.status().sessions[0].open_files, 0);
}
