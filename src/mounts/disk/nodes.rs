//! The table of known nodes: numbers on one side, files of the host on the other.
//!
//! A node's number is its file's inode number where that is free, so that `st_ino` is what the host shows. A file on
//! another device or mount, and one whose number is still held by an earlier file, get one from a range of their own.
//!
//! Lock order: the table before a node's state. No system call is made under the table's lock, and under a node's
//! only a `stat` of an open descriptor.

use super::identity::{Identity, Key};
use crate::types::{Errno, Error, FileKind, Generation, Name, NodeId, Result};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Where numbers of their own begin; they have 53 bits, so that programs which keep numbers as doubles do not mix
/// them up.
const OWN_NUMBERS: u64 = 1 << 52;

/// Where a file was found last: a name in a directory.
pub type Place = (NodeId, Name);

/// A file that somebody knows.
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// A number that no other node ever has: what is remembered under it can never be taken for a later file's.
    pub serial: u64,
    /// Which of the host's files it is.
    pub identity: Identity,
    /// Whether it can be opened by its handle. Others are found by a descriptor or by their place.
    pub by_handle: bool,
    generation: Generation,
    lookups: AtomicU64,
    /// How many nodes have their place in this one and need it to be found.
    pins: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    place: Option<Place>,
    held: Option<Arc<OwnedFd>>,
}

impl Node {
    /// Its kind.
    pub fn kind(&self) -> FileKind {
        self.identity.kind
    }

    /// Tells it from earlier files of its number.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether its place is noted. By handle a file is found without one; a directory's is kept to tell its `..`.
    pub fn needs_place(&self) -> bool {
        !self.by_handle || self.kind() == FileKind::Directory
    }

    /// Where it was found last.
    pub fn place(&self) -> Option<Place> {
        self.state.lock().place.clone()
    }

    /// The descriptor that keeps a file alive whose name was removed through us.
    pub fn held(&self) -> Option<Arc<OwnedFd>> {
        self.state.lock().held.clone()
    }

    /// Keeps the file alive by what `choose` gives, which is handed what keeps it alive now; nobody else changes that
    /// meanwhile.
    pub fn hold(&self, choose: impl FnOnce(Option<&Arc<OwnedFd>>) -> Option<Arc<OwnedFd>>) -> Option<Arc<OwnedFd>> {
        let mut state = self.state.lock();
        let chosen = choose(state.held.as_ref());
        std::mem::replace(&mut state.held, chosen)
    }

    fn is_known(&self) -> bool {
        self.lookups.load(SeqCst) > 0
    }

    fn is_free(&self) -> bool {
        !self.is_known() && self.pins.load(SeqCst) == 0
    }
}

/// All nodes that are known, or needed to find one that is.
pub struct Nodes {
    root: Key,
    tables: RwLock<Tables>,
}

struct Tables {
    root: Key,
    next_serial: u64,
    by_id: HashMap<NodeId, Arc<Node>>,
    /// The latest file of each key; an earlier one may still be in `by_id`.
    by_key: HashMap<Key, Arc<Node>>,
}

impl Nodes {
    /// A table with only the root in it, which stays for ever.
    pub fn new(root: Identity, by_handle: bool) -> (Nodes, Arc<Node>) {
        let tables = Tables { root: root.key, next_serial: 0, by_id: HashMap::new(), by_key: HashMap::new() };
        let nodes = Nodes { root: root.key, tables: RwLock::new(tables) };
        let node = nodes.remember(root, by_handle, None);
        (nodes, node)
    }

    /// The node of that number.
    ///
    /// Errors: `ESTALE` where nobody knows it.
    pub fn get(&self, operation: &'static str, id: NodeId) -> Result<Arc<Node>> {
        let node = self.tables.read().by_id.get(&id).filter(|node| node.is_known()).cloned();
        node.ok_or_else(|| Error::new(operation, Errno::ESTALE).context(format!("node {id} is not known")))
    }

    /// The node of that number, also where it only serves to find others.
    pub fn get_pinned(&self, id: NodeId) -> Option<Arc<Node>> {
        self.tables.read().by_id.get(&id).cloned()
    }

    /// The node of this file, if somebody knows it.
    pub fn find(&self, identity: &Identity) -> Option<Arc<Node>> {
        self.tables.read().by_key.get(&identity.key).filter(|node| node.identity == *identity).cloned()
    }

    /// The node that holds this key, be it of this file or of an earlier one.
    pub fn find_key(&self, key: Key) -> Option<Arc<Node>> {
        self.tables.read().by_key.get(&key).cloned()
    }

    /// Counts a lookup of a file that was found at `place`, and gives its node.
    pub fn remember(&self, identity: Identity, by_handle: bool, place: Option<Place>) -> Arc<Node> {
        let mut tables = self.tables.write();
        let known = tables.by_key.get(&identity.key).filter(|node| node.identity == identity).cloned();
        let node = known.unwrap_or_else(|| tables.insert(identity, by_handle));
        node.lookups.fetch_add(1, SeqCst);
        let unneeded = tables.put_at(&node, place);
        drop(tables);
        drop(unneeded);
        node
    }

    /// Counts a lookup of a node that was found again at `place`. Gives `false` where it was forgotten or moved
    /// meanwhile, and counts nothing.
    pub fn count_again(&self, node: &Arc<Node>, place: Option<&Place>) -> bool {
        let tables = self.tables.read();
        let counts = tables.by_key.get(&node.identity.key).is_some_and(|latest| Arc::ptr_eq(latest, node))
            && node.state.lock().place.as_ref() == place;
        if counts {
            node.lookups.fetch_add(1, SeqCst);
        }
        counts
    }

    /// Notes that the node's file is at `place` now.
    pub fn moved(&self, node: &Arc<Node>, place: Place) {
        let mut tables = self.tables.write();
        let unneeded = match tables.by_id.contains_key(&node.id) {
            true => tables.put_at(node, Some(place)),
            false => Vec::new(),
        };
        drop(tables);
        drop(unneeded);
    }

    /// Takes back `count` lookups. Gives the nodes that nobody needs any more, to be dropped where no lock is held.
    pub fn forget(&self, id: NodeId, count: u64) -> Vec<Arc<Node>> {
        {
            let tables = self.tables.read();
            let Some(node) = tables.by_id.get(&id).filter(|node| node.identity.key != self.root) else {
                return Vec::new();
            };
            let before = node.lookups.fetch_update(SeqCst, SeqCst, |lookups| Some(lookups.saturating_sub(count)));
            if before.is_ok_and(|lookups| lookups > count) || !node.is_free() {
                return Vec::new();
            }
        }
        self.tables.write().remove_free(id)
    }

    /// The number that a listing shows for a file that `identity` was just seen to be: its node's, or the one that it
    /// would be given now.
    pub fn number(&self, identity: &Identity) -> NodeId {
        let tables = self.tables.read();
        match tables.by_key.get(&identity.key) {
            Some(node) if node.identity == *identity => node.id,
            _ => tables.free_number(identity),
        }
    }

    /// Whether a file of this key would bear its inode number.
    pub fn is_plain(&self, key: Key) -> bool {
        self.tables.read().is_plain(key)
    }

    /// The directories and regular files that are known, directories first.
    pub fn openable(&self) -> Vec<Arc<Node>> {
        let of = |kind| move |node: &&Arc<Node>| node.kind() == kind;
        let tables = self.tables.read();
        let directories = tables.by_id.values().filter(of(FileKind::Directory));
        directories.chain(tables.by_id.values().filter(of(FileKind::Regular))).cloned().collect()
    }
}

impl Tables {
    fn insert(&mut self, identity: Identity, by_handle: bool) -> Arc<Node> {
        let id = self.free_number(&identity);
        self.next_serial += 1;
        let node = Arc::new(Node {
            id,
            serial: self.next_serial,
            by_handle,
            generation: identity.generation(),
            lookups: AtomicU64::new(0),
            pins: AtomicU64::new(0),
            state: Mutex::default(),
            identity,
        });
        self.by_id.insert(id, Arc::clone(&node));
        self.by_key.insert(node.identity.key, Arc::clone(&node));
        node
    }

    /// Whether the inode number is the root's filesystem's, and nobody has it.
    fn is_plain(&self, key: Key) -> bool {
        self.root.beside(key.inode) == key && key.inode != 0 && !self.by_id.contains_key(&NodeId(key.inode))
    }

    /// The inode number if it can be that, else one that follows from the file, so that it is the same in a listing
    /// and in the lookup after it.
    fn free_number(&self, identity: &Identity) -> NodeId {
        let key = identity.key;
        if self.is_plain(key) {
            return NodeId(key.inode);
        }
        let mut numbers = (0_u64..).map(|attempt| {
            let mut hasher = DefaultHasher::new();
            (key.device, key.inode, identity.generation(), attempt).hash(&mut hasher);
            NodeId(OWN_NUMBERS | (hasher.finish() & (OWN_NUMBERS - 1)))
        });
        numbers.find(|id| !self.by_id.contains_key(id)).unwrap_or(NodeId(u64::MAX))
    }

    /// Moves the node to `place`. A node that is found by its place keeps the directory of it in the table; gives the
    /// nodes that are needed no longer.
    fn put_at(&mut self, node: &Arc<Node>, place: Option<Place>) -> Vec<Arc<Node>> {
        let new = place.as_ref().map(|place| place.0);
        let old = std::mem::replace(&mut node.state.lock().place, place).map(|place| place.0);
        if node.by_handle || old == new {
            return Vec::new();
        }
        if let Some(parent) = new.and_then(|id| self.by_id.get(&id)) {
            parent.pins.fetch_add(1, SeqCst);
        }
        let Some(parent) = old.and_then(|id| self.by_id.get(&id)) else { return Vec::new() };
        parent.pins.fetch_sub(1, SeqCst);
        let id = parent.id;
        self.remove_free(id)
    }

    /// Removes the node if nobody needs it, and with it each directory that was kept only because of it.
    fn remove_free(&mut self, id: NodeId) -> Vec<Arc<Node>> {
        let Some(node) = self.by_id.get(&id).filter(|node| node.is_free() && node.identity.key != self.root) else {
            return Vec::new();
        };
        let node = Arc::clone(node);
        self.by_id.remove(&node.id);
        if self.by_key.get(&node.identity.key).is_some_and(|latest| Arc::ptr_eq(latest, &node)) {
            self.by_key.remove(&node.identity.key);
        }
        let mut removed = self.put_at(&node, None);
        removed.push(node);
        removed
    }
}
