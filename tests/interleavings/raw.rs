//! The tree as the store holds it, read past the volume, and what must be true of it at rest.

use super::model::{Id, NEW, Seen};
use std::collections::{BTreeMap, HashSet};
use workfs::mounts::store::engine::Store;
use workfs::mounts::store::record::{Dentry, Inode, Key, Prefix, Record, Stats};
use workfs::types::{FileKind, NodeId};

const ROOT: NodeId = NodeId(1);

/// Reads the whole tree, and panics where something in it contradicts something else.
pub async fn picture(store: &dyn Store, ids: &BTreeMap<NodeId, Id>) -> BTreeMap<String, Seen> {
    let mut tree = Tree { store, ids, picture: BTreeMap::new(), names: BTreeMap::new(), seen: HashSet::new() };
    tree.draw(ROOT, ROOT, String::new()).await;
    for (node, names) in &tree.names {
        let (inode, stats) = file(store, *node).await;
        assert!(
            inode.kind == FileKind::Directory || stats.links == *names,
            "{node}: links {} names {names}",
            stats.links
        );
        assert!(inode.kind != FileKind::Directory || *names == 1, "a directory with {names} names");
    }
    let files = store.usage().await.expect("usage").files;
    assert_eq!(files, tree.seen.len() as u64, "every file can be reached");
    for node in ids.keys().filter(|node| !tree.seen.contains(node)) {
        assert!(extents(store, *node).await == 0, "the bytes of {node} went with it");
        let left = store.scan(&Prefix::Xattrs(*node), None, usize::MAX).await.expect("scan");
        assert!(left.is_empty(), "the attributes of {node} went with it");
    }
    assert!(store.scan(&Prefix::Orphans, None, 10).await.expect("scan").is_empty(), "no orphan is left");
    assert!(store.scan(&Prefix::Sessions, None, 10).await.expect("scan").is_empty(), "all are closed");
    tree.picture
}

struct Tree<'a> {
    store: &'a dyn Store,
    ids: &'a BTreeMap<NodeId, Id>,
    picture: BTreeMap<String, Seen>,
    names: BTreeMap<NodeId, u64>,
    seen: HashSet<NodeId>,
}

impl Tree<'_> {
    async fn draw(&mut self, node: NodeId, parent: NodeId, path: String) {
        let (inode, stats) = file(self.store, node).await;
        let is_dir = inode.kind == FileKind::Directory;
        assert!(self.seen.insert(node) || !is_dir, "directory {path} is met twice: a loop, or two names");
        *self.names.entry(node).or_default() += 1;
        assert_eq!(extents(self.store, node).await, stats.allocated, "{path}: what is allocated");
        let bytes = if is_dir {
            assert_eq!(inode.parent, Some(parent), "{path}: where it lies");
            self.draw_entries(node, &stats, &path).await;
            None
        } else {
            Some(contents(self.store, node, stats.size).await)
        };
        let id = self.ids.get(&node).copied().unwrap_or(NEW);
        let xattrs = self.store.scan(&Prefix::Xattrs(node), None, usize::MAX).await.expect("scan");
        let name =
            |key| if let Key::Xattr(_, name) = key { String::from_utf8_lossy(&name).into_owned() } else { panic!() };
        let xattrs = xattrs.into_iter().map(|(key, _)| name(key)).collect();
        self.picture.insert(path, Seen { id, links: stats.links, bytes, xattrs });
    }

    async fn draw_entries(&mut self, dir: NodeId, stats: &Stats, path: &str) {
        let entries = self.store.scan(&Prefix::Entries(dir), None, usize::MAX).await.expect("scan");
        assert_eq!(stats.entries, entries.len() as u64, "{path}: entries");
        let mut directories = 0;
        for (key, stored) in entries {
            let (Key::Dentry(_, name), Record::Dentry(Dentry { node, kind, .. })) = (key, stored.record) else {
                panic!()
            };
            directories += u64::from(kind == FileKind::Directory);
            assert_eq!(file(self.store, node).await.0.kind, kind, "{path}/{name}: its kind");
            Box::pin(self.draw(node, dir, format!("{path}/{name}"))).await;
        }
        assert_eq!(stats.links, 2 + directories, "{path}: links");
    }
}

async fn file(store: &dyn Store, node: NodeId) -> (Inode, Stats) {
    let found = store.get(&[Key::Inode(node), Key::Stats(node)]).await.expect("get");
    match found.into_iter().map(|stored| stored.map(|stored| stored.record)).collect::<Vec<_>>().as_slice() {
        [Some(Record::Inode(inode)), Some(Record::Stats(stats))] => (inode.clone(), *stats),
        _ => panic!("a name leads to file {node}, which is not there"),
    }
}

async fn extents(store: &dyn Store, node: NodeId) -> u64 {
    let extents = store.scan(&Prefix::Extents(node), None, usize::MAX).await.expect("scan");
    extents.iter().map(|(_, stored)| if let Record::Extent(bytes) = stored.record { u64::from(bytes) } else { 0 }).sum()
}

async fn contents(store: &dyn Store, node: NodeId, size: u64) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    for (index, block) in store.blocks(node, 0..u64::MAX).await.expect("blocks") {
        let start = (index * u64::from(store.block_size())) as usize;
        // A block may keep room to grow.
        let (held, room) = block.split_at(block.len().min(bytes.len().saturating_sub(start)));
        assert!(room.iter().all(|&byte| byte == 0), "no bytes lie past the end of {node}");
        bytes[start.min(size as usize)..][..held.len()].copy_from_slice(held);
    }
    bytes
}
