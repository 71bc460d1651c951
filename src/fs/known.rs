//! What the kernel has been told and may still remember, so that it can be told otherwise.
//!
//! The kernel counts how often it was told of a node and gives the counts back (FORGET). A name needs no count: it
//! lives no longer in the kernel than its directory. With these two, everything can be withdrawn when the feed of
//! changes was interrupted, and every count can be given back when a session ends without FORGETs.
//!
//! Locks: one shard at a time, never while replying.

use super::recent::{Recent, Stamp};
use crate::mounts::Freshness;
use crate::types::{Entry, FileKind, Name, NodeId, Validity};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// As good as for ever: the kernel asks again only if it is told to.
pub(super) const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// What holds where others may change files unseen.
pub(super) const BRIEFLY: Duration = Duration::from_secs(1);

/// More names than this are not kept; then all are withdrawn and the count starts anew.
const NAMES_MAX: usize = 1 << 20;
const SHARDS: usize = 64;

/// How long the kernel may remember an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lifetimes {
    /// The name.
    pub entry: Duration,
    /// The attributes.
    pub attr: Duration,
}

/// A node that the kernel holds.
#[derive(Default)]
struct Node {
    lookups: u64,
    directory: bool,
    /// When the file was last opened here, and when others last changed its bytes.
    opened: Stamp,
    changed: Stamp,
    /// When the kernel was last told of it.
    told: Option<Instant>,
    /// The names in this directory that were told for longer than [`BRIEFLY`], those of no file included.
    names: HashSet<Name>,
}

/// A node and what it takes to withdraw it.
pub(super) struct Told {
    pub node: NodeId,
    pub names: HashSet<Name>,
}

/// What the kernel knows of one session.
pub(super) struct Known {
    shards: [Mutex<HashMap<NodeId, Node>>; SHARDS],
    names: AtomicUsize,
    pub(super) recent: Recent,
    pushed: bool,
    /// The feed of changes is up.
    fed: AtomicBool,
    ended: AtomicBool,
}

impl Known {
    /// Nothing is known but the root.
    pub(super) fn new(freshness: Freshness) -> Known {
        Known {
            shards: std::array::from_fn(|_| Mutex::default()),
            names: AtomicUsize::new(0),
            recent: Recent::default(),
            pushed: freshness == Freshness::Pushed,
            fed: AtomicBool::new(true),
            ended: AtomicBool::new(false),
        }
    }

    fn shard(&self, node: NodeId) -> &Mutex<HashMap<NodeId, Node>> {
        // Numbers come in sequences; a multiplication spreads them.
        &self.shards[(node.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize]
    }

    /// How long what was learnt of `nodes` since `asked` may be remembered.
    pub(super) fn lifetime(&self, asked: Stamp, nodes: &[NodeId]) -> Duration {
        if self.recent.changed_since(asked, nodes) {
            return Duration::ZERO;
        }
        if self.pushed && self.fed.load(Ordering::SeqCst) { FOREVER } else { BRIEFLY }
    }

    /// Counts an entry that the kernel is about to be told as `name` of `dir`, and says how long it may be
    /// remembered. `None`: the session has ended, and the count is the caller's to give back.
    pub(super) fn tell(&self, asked: Stamp, dir: NodeId, name: &Name, entry: &Entry) -> Option<Lifetimes> {
        let node = entry.attr.node;
        {
            let mut shard = self.shard(node).lock();
            if self.ended.load(Ordering::SeqCst) {
                return None;
            }
            let known = shard.entry(node).or_default();
            known.lookups += 1;
            known.directory = entry.attr.kind == FileKind::Directory;
            known.told = Some(Instant::now());
        }
        if entry.validity == Validity::Pinned {
            // Its name is not kept, so nothing can ever withdraw it.
            return Some(Lifetimes { entry: FOREVER, attr: self.lifetime(asked, &[node]) });
        }
        let kept = self.name(dir, name);
        let lifetime = self.lifetime(asked, &[node, dir]);
        Some(Lifetimes { entry: if kept { lifetime } else { lifetime.min(BRIEFLY) }, attr: lifetime })
    }

    /// How long the kernel may remember that there is no `name` in `dir`.
    pub(super) fn tell_missing(&self, asked: Stamp, dir: NodeId, name: &Name) -> Duration {
        let kept = self.name(dir, name);
        let lifetime = self.lifetime(asked, &[dir]);
        if kept { lifetime } else { lifetime.min(BRIEFLY) }
    }

    /// Keeps a name of a directory that the kernel knows; false where it cannot be kept.
    fn name(&self, dir: NodeId, name: &Name) -> bool {
        if !self.pushed || self.names.load(Ordering::Relaxed) >= NAMES_MAX {
            return false;
        }
        let mut shard = self.shard(dir).lock();
        let known = match dir {
            ROOT => shard.entry(ROOT).or_insert_with(|| Node { directory: true, ..Node::default() }),
            _ => match shard.get_mut(&dir) {
                Some(known) => known,
                None => return false,
            },
        };
        if !known.names.contains(name) {
            known.names.insert(name.clone());
            self.names.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Whether so many names are kept that they must be withdrawn.
    pub(super) fn full(&self) -> bool {
        self.names.load(Ordering::Relaxed) >= NAMES_MAX
    }

    /// A name went, by the kernel's own doing.
    pub(super) fn gone(&self, dir: NodeId, name: &Name) {
        if self.shard(dir).lock().get_mut(&dir).is_some_and(|known| known.names.remove(name)) {
            self.names.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A name moved, by the kernel's own doing, and kept what was told of it.
    pub(super) fn moved(&self, dir: NodeId, name: &Name, new_dir: NodeId, new_name: &Name) {
        self.name(new_dir, new_name);
        self.gone(dir, name);
    }

    /// Two names swapped places.
    pub(super) fn swapped(&self, dir: NodeId, name: &Name, new_dir: NodeId, new_name: &Name) {
        self.name(dir, name);
        self.name(new_dir, new_name);
    }

    /// The kernel gives back `count` of a node's lookups.
    pub(super) fn forget(&self, node: NodeId, count: u64) {
        let mut shard = self.shard(node).lock();
        let Some(known) = shard.get_mut(&node) else { return };
        known.lookups = known.lookups.saturating_sub(count);
        if known.lookups == 0 && node != ROOT {
            let names = shard.remove(&node).map_or(0, |known| known.names.len());
            self.names.fetch_sub(names, Ordering::Relaxed);
        }
    }

    /// A file is about to be opened here: whether the kernel may keep the bytes it has.
    pub(super) fn open(&self, node: NodeId) -> bool {
        let now = self.recent.stamp();
        let mut shard = self.shard(node).lock();
        let Some(known) = shard.get_mut(&node) else { return false };
        let keep = known.changed <= known.opened && !self.recent.swept_since(known.opened);
        known.opened = now;
        keep && self.pushed && self.fed.load(Ordering::SeqCst)
    }

    /// Others changed a file's bytes.
    pub(super) fn changed(&self, node: NodeId) {
        let now = self.recent.stamp();
        if let Some(known) = self.shard(node).lock().get_mut(&node) {
            known.changed = now;
        }
    }

    /// Whether the kernel holds `node`, as a directory.
    pub(super) fn is_directory(&self, node: NodeId) -> bool {
        node == ROOT || self.shard(node).lock().get(&node).is_some_and(|known| known.directory)
    }

    /// Whether the kernel was told of `node` in the last `while_ago`.
    pub(super) fn told_within(&self, node: NodeId, while_ago: Duration) -> bool {
        let told = self.shard(node).lock().get(&node).and_then(|known| known.told);
        told.is_some_and(|told| told.elapsed() < while_ago)
    }

    /// The feed of changes has ended for good.
    pub(super) fn starve(&self) {
        self.fed.store(false, Ordering::SeqCst);
    }

    /// Takes the names that were told, shard by shard; they are no longer kept.
    pub(super) fn take_names(&self) -> impl Iterator<Item = Vec<Told>> + '_ {
        self.shards.iter().map(|shard| {
            let mut shard = shard.lock();
            let told = shard.iter_mut().map(|(node, known)| {
                self.names.fetch_sub(known.names.len(), Ordering::Relaxed);
                Told { node: *node, names: std::mem::take(&mut known.names) }
            });
            told.collect()
        })
    }

    /// The session ends: takes out every node with its count. Nothing is counted any more.
    pub(super) fn end(&self) -> Vec<(NodeId, u64)> {
        self.ended.store(true, Ordering::SeqCst);
        let drain = |shard: &Mutex<HashMap<NodeId, Node>>| {
            let nodes: Vec<_> = shard.lock().drain().map(|(node, known)| (node, known.lookups)).collect();
            nodes
        };
        self.shards.iter().flat_map(drain).filter(|(_, lookups)| *lookups > 0).collect()
    }

    /// How many nodes the kernel holds.
    pub(super) fn nodes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

/// The kernel's number for a session's root, which it knows without being told.
const ROOT: NodeId = NodeId(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Attr, Generation, Mode, Timestamp};

    fn entry(node: u64, kind: FileKind, validity: Validity) -> Entry {
        let time = Timestamp(0);
        let attr = Attr {
            node: NodeId(node),
            kind,
            mode: Mode::new(0o755),
            uid: 0,
            gid: 0,
            links: 1,
            rdev: 0,
            size: 0,
            blocks: 0,
            block_size: 4096,
            atime: time,
            mtime: time,
            ctime: time,
        };
        Entry { attr, generation: Generation(0), validity }
    }

    fn name(text: &str) -> Name {
        Name::try_from(text).expect("a name")
    }

    fn names(known: &Known) -> Vec<String> {
        let mut names: Vec<String> =
            known.take_names().flatten().flat_map(|told| told.names).map(|name| name.to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn names_follow_what_the_kernel_does_and_go_with_their_directory() {
        let known = Known::new(Freshness::Pushed);
        let asked = known.recent.stamp();
        let told = known.tell(asked, ROOT, &name("d"), &entry(2, FileKind::Directory, Validity::Volume));
        assert_eq!(told, Some(Lifetimes { entry: FOREVER, attr: FOREVER }));
        assert_eq!(known.tell_missing(asked, NodeId(2), &name("x")), FOREVER);
        known.moved(NodeId(2), &name("x"), ROOT, &name("y"));
        assert_eq!(known.tell_missing(asked, NodeId(2), &name("z")), FOREVER);
        known.forget(NodeId(2), 1);
        assert_eq!(names(&known), ["d", "y"]);
        assert_eq!(names(&known), [""; 0], "they were taken");
    }

    #[test]
    fn a_pinned_name_lasts_and_is_never_withdrawn() {
        let known = Known::new(Freshness::Timed);
        let told =
            known.tell(known.recent.stamp(), ROOT, &name("docs"), &entry(9, FileKind::Directory, Validity::Pinned));
        assert_eq!(told, Some(Lifetimes { entry: FOREVER, attr: BRIEFLY }));
        assert_eq!(names(&known), [""; 0]);
    }

    #[test]
    fn an_answer_that_a_change_overtook_is_not_remembered() {
        let known = Known::new(Freshness::Pushed);
        let asked = known.recent.stamp();
        known.recent.note(NodeId(5));
        assert_eq!(known.lifetime(asked, &[NodeId(5)]), Duration::ZERO);
        assert_eq!(known.lifetime(asked, &[NodeId(6)]), FOREVER);
        assert_eq!(known.lifetime(known.recent.stamp(), &[NodeId(5)]), FOREVER);
        let asked = known.recent.stamp();
        known.recent.sweep();
        assert_eq!(known.lifetime(asked, &[NodeId(6)]), Duration::ZERO);
    }

    #[test]
    fn the_kernel_keeps_a_files_bytes_until_others_change_them() {
        let known = Known::new(Freshness::Pushed);
        known.tell(known.recent.stamp(), ROOT, &name("f"), &entry(3, FileKind::Regular, Validity::Volume));
        assert!(known.open(NodeId(3)));
        known.recent.note(NodeId(3));
        known.changed(NodeId(3));
        assert!(!known.open(NodeId(3)));
        assert!(known.open(NodeId(3)));
        known.recent.sweep();
        assert!(!known.open(NodeId(3)));
    }

    #[test]
    fn counts_come_back_at_the_end() {
        let known = Known::new(Freshness::Timed);
        let (stamp, file) = (known.recent.stamp(), entry(3, FileKind::Regular, Validity::Volume));
        for _ in 0..3 {
            assert!(known.tell(stamp, ROOT, &name("f"), &file).is_some());
        }
        known.forget(NodeId(3), 1);
        assert_eq!(known.end(), [(NodeId(3), 2)]);
        assert_eq!(known.tell(stamp, ROOT, &name("f"), &file), None);
    }
}
