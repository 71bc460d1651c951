//! What must be true of a store's records at any time, whatever is open.

use std::collections::{BTreeMap, HashSet};
use workfs::mounts::store::engine::Store;
use workfs::mounts::store::record::{Counter, Dentry, Inode, Key, Prefix, Record, Stats};
use workfs::types::{FileKind, NodeId};

const ROOT: NodeId = NodeId(1);

/// What was found.
pub struct Found {
    /// Files that have a name.
    pub named: usize,
    /// Files that have none and wait for their last close.
    pub orphans: usize,
}

/// Walks through all records, and panics where one contradicts another.
pub async fn fsck(store: &dyn Store) -> Found {
    let mut walk = Walk { store, names: BTreeMap::new() };
    walk.names.insert(ROOT, 1);
    walk.directory(ROOT, ROOT).await;
    for (node, names) in &walk.names {
        let (inode, stats) = walk.file(*node).await;
        let is_dir = inode.kind == FileKind::Directory;
        assert!(if is_dir { *names == 1 } else { stats.links == *names }, "{node}: {names} names, {stats:?}");
        walk.bytes(*node, &inode, &stats).await;
    }
    let orphans = store.scan(&Prefix::Orphans, None, usize::MAX).await.expect("scan");
    for (key, _) in &orphans {
        let Key::Orphan(node) = key else { panic!("{key:?} is no orphan") };
        let (inode, stats) = walk.file(*node).await;
        assert!(!walk.names.contains_key(node) && stats.links == 0, "orphan {node} has names: {stats:?}");
        walk.bytes(*node, &inode, &stats).await;
    }
    let found = Found { named: walk.names.len(), orphans: orphans.len() };
    let files = store.usage().await.expect("usage").files;
    assert_eq!(files, (found.named + found.orphans) as u64, "every file has a name or is an orphan");
    let next = store.get(&[Key::Counter(Counter::NextInode)]).await.expect("get").remove(0).expect("a counter");
    let last = walk.names.keys().last().expect("the root").0;
    assert!(matches!(next.record, Record::Counter(next) if next > last), "numbers are not given twice");
    found
}

struct Walk<'a> {
    store: &'a dyn Store,
    /// How many names each file has.
    names: BTreeMap<NodeId, u64>,
}

impl Walk<'_> {
    async fn file(&self, node: NodeId) -> (Inode, Stats) {
        let found = self.store.get(&[Key::Inode(node), Key::Stats(node)]).await.expect("get");
        let found: Vec<_> = found.into_iter().map(|stored| stored.map(|stored| stored.record)).collect();
        match &found[..] {
            [Some(Record::Inode(inode)), Some(Record::Stats(stats))] => (inode.clone(), *stats),
            other => panic!("file {node}: {other:?}"),
        }
    }

    async fn directory(&mut self, dir: NodeId, parent: NodeId) {
        let (inode, stats) = self.file(dir).await;
        assert_eq!(inode.parent, Some(parent), "{dir}: where it lies");
        let entries = self.store.scan(&Prefix::Entries(dir), None, usize::MAX).await.expect("scan");
        assert_eq!(stats.entries, entries.len() as u64, "{dir}: entries");
        let (mut directories, mut cookies) = (0, HashSet::new());
        for (key, stored) in entries {
            let Record::Dentry(Dentry { node, kind, cookie }) = stored.record else { panic!("{key:?} is no entry") };
            assert!((1..i64::MAX as u64).contains(&cookie) && cookies.insert(cookie), "{key:?}: its place");
            assert_eq!(self.file(node).await.0.kind, kind, "{key:?}: its kind");
            *self.names.entry(node).or_default() += 1;
            if kind == FileKind::Directory {
                directories += 1;
                Box::pin(self.directory(node, dir)).await;
            }
        }
        assert_eq!(stats.links, 2 + directories, "{dir}: links");
    }

    /// What is allocated is what is there, and past the end of the file there are only zeros: an engine may make room.
    async fn bytes(&self, node: NodeId, inode: &Inode, stats: &Stats) {
        let block = u64::from(self.store.block_size());
        let mut allocated = 0;
        for (key, stored) in self.store.scan(&Prefix::Extents(node), None, usize::MAX).await.expect("scan") {
            let (Key::Block(_, index), Record::Extent(bytes)) = (&key, &stored.record) else { panic!("{key:?}") };
            let bytes = u64::from(*bytes);
            assert!(0 < bytes && bytes <= block, "{key:?}: {bytes}");
            if index * block + bytes > stats.size {
                let past = stats.size.saturating_sub(index * block) as usize;
                let read = self.store.blocks(node, *index..index + 1).await.expect("blocks");
                assert!(read[0].1[past..].iter().all(|byte| *byte == 0), "{key:?}: bytes past the end, {stats:?}");
            }
            allocated += bytes;
        }
        assert_eq!(stats.allocated, allocated, "{node}: st_blocks");
        assert!(allocated == 0 || inode.kind == FileKind::Regular, "{node} has bytes");
        let target = inode.target.len() as u64;
        assert_eq!(target > 0, inode.kind == FileKind::Symlink, "{node}: its target");
        assert!(target == 0 || stats.size == target, "{node}: the length of its target");
    }
}
