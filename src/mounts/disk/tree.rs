//! From a node to its file: by handle, by a descriptor that was kept, or by walking to it once more.
//!
//! As root on a filesystem with handles no descriptor is kept for a file, since `open_by_handle_at(2)` finds it; what lies
//! on another filesystem, mounted below the root, is walked to by the names that led to it, since a descriptor would
//! keep that mounted. An ordinary user keeps an `O_PATH` descriptor of each, up to a bound, and walks beyond it. If what
//! is found at the end of a walk is another file, the answer is `ESTALE`.

use super::fd_cache::FdCache;
use super::host::{self, failed};
use super::identity::{self, Key, Seen};
use super::nodes::{Node, Nodes};
use super::sys::Handle;
use crate::mounts::CacheUse;
use crate::types::{Entry, Errno, Error, FileKind, Name, NodeId, Result, Validity};
use rustix::fs::{OFlags, ResolveFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// The most descriptors kept for directories where everything else is found by handle.
const KEPT_BESIDE_HANDLES: usize = 512;

/// The most descriptors kept where nothing is found by handle.
const KEPT_WITHOUT_HANDLES: usize = 4096;

/// The most names that lead to one file; a longer way is a circle of old names.
const DEEPEST: usize = 8192;

/// The bytes of names in one walk; a path has at most 4,096.
const WALK: usize = 3800;

/// How often a walk is tried that a rename disturbed.
const WALKS: usize = 64;

/// The files below the root.
pub struct Tree {
    root: OwnedFd,
    root_node: Arc<Node>,
    by_handle: bool,
    /// The nodes that are known.
    pub nodes: Nodes,
    /// By [`Node::serial`].
    kept: FdCache<Arc<OwnedFd>>,
}

/// A descriptor of a node's file, good for everything but reading and writing.
pub enum PathFd<'a> {
    /// The root's.
    Root(BorrowedFd<'a>),
    /// One that others use too.
    Kept(Arc<OwnedFd>),
    /// One for this operation only.
    Fresh(OwnedFd),
}

impl AsFd for PathFd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            PathFd::Root(fd) => *fd,
            PathFd::Kept(fd) => fd.as_fd(),
            PathFd::Fresh(fd) => fd.as_fd(),
        }
    }
}

impl Tree {
    /// Opens the directory `root`, and finds out whether its files can be opened by handle.
    pub fn open(root: &Path) -> Result<Tree> {
        let refused = |errno| failed("open")(errno).context(format!("the volume's root {}", root.display()));
        let directory = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let none = rustix::fs::Mode::empty();
        let readable = rustix::fs::open(root, directory | OFlags::RDONLY, none);
        // A directory that we may not read may still be walked through.
        let fd = readable.or_else(|_| rustix::fs::open(root, directory | OFlags::PATH, none)).map_err(refused)?;
        let Seen { identity, .. } = identity::see(fd.as_fd()).map_err(refused)?;
        let opened = identity.handle.as_ref().map(|handle| handle.open(fd.as_fd(), host::PATH));
        let by_handle = matches!(opened, Some(Ok(_)));
        let (nodes, root_node) = Nodes::new(identity, by_handle);
        let kept = FdCache::new(if by_handle { KEPT_BESIDE_HANDLES } else { KEPT_WITHOUT_HANDLES });
        Ok(Tree { root: fd, root_node, by_handle, nodes, kept })
    }

    /// Whether files of the root's filesystem are found by handle.
    pub fn by_handle(&self) -> bool {
        self.by_handle
    }

    /// How its descriptors that only name a file are used.
    pub fn usage(&self) -> CacheUse {
        CacheUse::of("paths", false, &self.kept)
    }

    /// The root directory's node.
    pub fn root(&self) -> &Arc<Node> {
        &self.root_node
    }

    /// A descriptor that says which file the node is; the kernel takes it for everything but reading and writing.
    ///
    /// Errors: `ESTALE` where the file is gone, or cannot be found any more.
    pub fn path_fd(&self, operation: &'static str, node: &Node) -> Result<PathFd<'_>> {
        if node.id == self.root_node.id {
            return Ok(PathFd::Root(self.root.as_fd()));
        }
        if let Some(fd) = node.held() {
            return Ok(PathFd::Kept(fd));
        }
        match (&node.identity.handle, node.by_handle, node.kind()) {
            (Some(handle), true, kind) if kind != FileKind::Directory => {
                let fd = handle.open(self.root.as_fd(), host::PATH).map_err(failed(operation))?;
                Ok(PathFd::Fresh(fd))
            }
            _ if self.is_in_a_mount(node.by_handle) => self.walk_to(operation, node).map(PathFd::Fresh),
            _ => self.kept_fd(operation, node).map(PathFd::Kept),
        }
    }

    /// Whether a node lies on a filesystem that is mounted inside the root's: a descriptor that is kept there would keep
    /// it from being unmounted.
    fn is_in_a_mount(&self, by_handle: bool) -> bool {
        self.by_handle && !by_handle
    }

    fn kept_fd(&self, operation: &'static str, node: &Node) -> Result<Arc<OwnedFd>> {
        if let Some(fd) = self.kept.get(&node.serial) {
            return Ok(fd);
        }
        let fd = match &node.identity.handle {
            Some(handle) if node.by_handle => handle.open(self.root.as_fd(), host::PATH).map_err(failed(operation))?,
            _ => self.walk_to(operation, node)?,
        };
        let fd = Arc::new(fd);
        self.kept.insert(node.serial, Arc::clone(&fd));
        Ok(fd)
    }

    /// Opens the node's regular file or directory for reading or writing, as `flags` say.
    pub fn open_node(&self, operation: &'static str, node: &Node, flags: OFlags) -> Result<OwnedFd> {
        match &node.identity.handle {
            Some(handle) if node.by_handle && node.held().is_none() => {
                handle.open(self.root.as_fd(), flags | host::OPEN | OFlags::NOFOLLOW).map_err(failed(operation))
            }
            _ => {
                let path = self.path_fd(operation, node)?;
                host::reopen(path.as_fd(), flags).map_err(failed(operation))
            }
        }
    }

    /// Looks `name` up in `dir`, whose descriptor is `fd`, and counts that.
    pub fn look_up(&self, dir: &Node, fd: BorrowedFd<'_>, name: &Name) -> rustix::io::Result<Entry> {
        let stat = host::stat_child(fd, name)?;
        if let Some(node) = self.nodes.find_key(Key::of(&stat))
            && node.kind() == host::kind(&stat)
            && node.identity.handle.is_some()
            && node.identity.handle == Handle::at(fd, name)?
            && self.nodes.count_again(&node, node.needs_place().then(|| (dir.id, name.clone())).as_ref())
        {
            return Ok(self.entry(&node, &stat));
        }
        // Not known, or the two looks above saw two files: one descriptor for all.
        let (_, entry) = self.enter(dir, name, host::open_child(fd, name)?)?;
        Ok(entry)
    }

    /// Counts a lookup of the file of `fd`, which was just found as `name` in `dir`.
    pub fn enter(&self, dir: &Node, name: &Name, fd: OwnedFd) -> rustix::io::Result<(Arc<Node>, Entry)> {
        let seen = identity::see(fd.as_fd())?;
        Ok(self.enter_seen(dir, name, seen, Some(fd)))
    }

    /// As [`Tree::enter`], of a file that was looked at already. `keep` may be left out where it is found by handle.
    pub fn enter_seen(&self, dir: &Node, name: &Name, seen: Seen, keep: Option<OwnedFd>) -> (Arc<Node>, Entry) {
        let by_handle = self.by_handle && seen.identity.key.mount == self.root_node.identity.key.mount;
        let needs_place = seen.identity.kind == FileKind::Directory || !by_handle;
        let node = self.nodes.remember(seen.identity, by_handle, needs_place.then(|| (dir.id, name.clone())));
        let may_keep = needs_place && !self.is_in_a_mount(by_handle) && !self.kept.contains_key(&node.serial);
        if let Some(fd) = keep.filter(|_| may_keep) {
            self.kept.insert(node.serial, Arc::new(fd));
        }
        let entry = self.entry(&node, &seen.stat);
        (node, entry)
    }

    /// What a lookup tells of the node.
    pub fn entry(&self, node: &Node, stat: &rustix::fs::Statx) -> Entry {
        Entry { attr: host::attr(stat, node.id), generation: node.generation(), validity: Validity::Volume }
    }

    /// Takes lookups back. Gives the nodes that are gone by that; dropping one may close the last descriptor of a
    /// removed file, which takes its time.
    pub fn forget(&self, id: NodeId, count: u64) -> Vec<Arc<Node>> {
        let gone = self.nodes.forget(id, count);
        gone.iter().for_each(|node| self.let_go(node));
        gone
    }

    /// Gives up the descriptor kept for this node.
    pub fn let_go(&self, node: &Node) {
        self.kept.remove(&node.serial);
    }

    /// Gives up every descriptor that is only kept to save time.
    pub fn let_go_of_all(&self) {
        self.kept.clear();
    }

    /// Walks to the node from the nearest directory above it that needs no walk, by the names that led to it.
    fn walk_to(&self, operation: &'static str, node: &Node) -> Result<OwnedFd> {
        let lost = |why: &str| Error::new(operation, Errno::ESTALE).context(format!("node {}: {why}", node.id));
        let mut names: Vec<Name> = Vec::new();
        let mut place = node.place();
        let start = loop {
            let Some((dir, name)) = place else { return Err(lost("it has no place")) };
            names.push(name);
            let Some(dir) = self.nodes.get_pinned(dir) else { return Err(lost("its directory is not known")) };
            if names.len() > DEEPEST {
                return Err(lost("the names that led to it go in a circle"));
            }
            if let Some(fd) = self.start_of_walk(operation, &dir)? {
                break fd;
            }
            place = dir.place();
        };
        let found = walk(start.as_fd(), &names).map_err(|errno| match errno {
            rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOMEM => failed(operation)(errno),
            _ => lost("it is not where it was"),
        })?;
        let seen = identity::see(found.as_fd()).map_err(failed(operation))?;
        if seen.identity != node.identity {
            return Err(lost("another file is where it was"));
        }
        Ok(found)
    }

    fn start_of_walk(&self, operation: &'static str, dir: &Node) -> Result<Option<PathFd<'_>>> {
        if dir.id == self.root_node.id || dir.by_handle || dir.held().is_some() {
            return self.path_fd(operation, dir).map(Some);
        }
        Ok(self.kept.get(&dir.serial).map(PathFd::Kept))
    }
}

/// Opens the file that `names` (the last one first) lead to from `start`, never above it and through no symbolic link.
fn walk(start: BorrowedFd<'_>, names: &[Name]) -> rustix::io::Result<OwnedFd> {
    let mut rest = names;
    let mut from: Option<OwnedFd> = None;
    loop {
        let mut path = Vec::new();
        while let Some((name, before)) = rest.split_last().filter(|_| path.len() < WALK) {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            rest = before;
        }
        let fd = walk_once(from.as_ref().map_or(start, AsFd::as_fd), &path)?;
        if rest.is_empty() {
            return Ok(fd);
        }
        from = Some(fd);
    }
}

fn walk_once(start: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let confined = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        let found = rustix::fs::openat2(start, path, host::PATH, rustix::fs::Mode::empty(), confined);
        tries += 1;
        // The kernel cannot tell whether the walk stayed below when something was renamed meanwhile.
        if found.as_ref().err() != Some(&rustix::io::Errno::AGAIN) || tries == WALKS {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::try_from(text).expect("a name")
    }

    #[test]
    fn a_walk_leads_down_and_nowhere_else() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("in/a")).expect("made");
        std::fs::write(dir.path().join("secret"), "s").expect("written");
        std::os::unix::fs::symlink("..", dir.path().join("in/up")).expect("linked");
        std::os::unix::fs::symlink("a", dir.path().join("in/link")).expect("linked");
        let start = rustix::fs::open(dir.path().join("in"), host::PATH, rustix::fs::Mode::empty());
        let start = start.expect("opens");
        assert!(walk(start.as_fd(), &[name("a")]).is_ok());
        for names in [vec![name("secret"), name("up")], vec![name("x"), name("link")]] {
            walk(start.as_fd(), &names).expect_err("through a symbolic link");
        }
    }

    #[test]
    fn a_walk_may_be_longer_than_a_path() {
        let dir = tempfile::tempdir().expect("a folder");
        let long = name(&"d".repeat(200));
        let start = rustix::fs::open(dir.path(), host::PATH, rustix::fs::Mode::empty()).expect("opens");
        let mut at = start.try_clone().expect("copied");
        for _ in 0..50 {
            rustix::fs::mkdirat(&at, long.as_bytes(), rustix::fs::Mode::RWXU).expect("made");
            at = host::open_child(at.as_fd(), &long).expect("opens");
        }
        let found = walk(start.as_fd(), &vec![long; 50]).expect("found");
        assert_eq!(host::stat(found.as_fd()).expect("stat").stx_ino, host::stat(at.as_fd()).expect("stat").stx_ino);
    }
}
