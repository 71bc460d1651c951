//! Listing directories.

use super::core::Core;
use super::host::{self, failed};
use super::identity::{self, Key};
use super::nodes::Node;
use super::streams::{Found, Stream};
use super::sys::Handle;
use crate::mounts::{DirEntry, Listing};
use crate::types::{Cookie, FileKind, NodeId, Result};
use std::os::fd::{AsFd, BorrowedFd};

impl Core {
    /// `Volume::readdir`
    pub fn readdir(&self, id: NodeId, after: Cookie, limit: usize, plus: bool) -> Result<Listing> {
        let (dir, fd) = self.directory("readdir", id)?;
        let mut stream = match self.streams.take(&dir, after.0) {
            Some(stream) => stream,
            None => Stream::open(fd.as_fd()).map_err(failed("opendir"))?,
        };
        stream.seek(after.0).map_err(failed("readdir"))?;
        let mut entries = Vec::new();
        while entries.len() < limit {
            match stream.next() {
                Ok(Some(found)) => entries.push(self.dir_entry(&dir, fd.as_fd(), found, plus)),
                Ok(None) => break,
                // What was listed has been counted, so it goes out; the next page meets the error again.
                Err(_) if !entries.is_empty() => break,
                Err(errno) => return Err(failed("readdir")(errno)),
            }
        }
        if !entries.is_empty() {
            self.streams.put(&dir, stream);
        }
        let parent = dir.place().map_or(self.tree.root().id, |place| place.0);
        Ok(Listing { parent, entries })
    }

    fn dir_entry(&self, dir: &Node, fd: BorrowedFd<'_>, found: Found, plus: bool) -> DirEntry {
        let cookie = Cookie(found.cookie);
        if plus && let Ok(entry) = self.tree.look_up(dir, fd, &found.name) {
            let (node, kind) = (entry.attr.node, entry.attr.kind);
            return DirEntry { name: found.name, cookie, node, kind, entry: Some(entry) };
        }
        let known = self.number_without_looking(dir, fd, &found).zip(found.kind);
        let (node, kind) = known.unwrap_or_else(|| self.number_by_looking(fd, &found));
        DirEntry { name: found.name, cookie, node, kind, entry: None }
    }

    /// The number that a lookup of this entry would give, where the directory itself tells enough.
    fn number_without_looking(&self, dir: &Node, fd: BorrowedFd<'_>, found: &Found) -> Option<NodeId> {
        let key = dir.identity.key.beside(found.inode);
        // A directory may be a mountpoint, and then it is listed by the number of what is covered.
        if found.kind == Some(FileKind::Directory) && Key::of(&host::stat_child(fd, &found.name).ok()?) != key {
            return None;
        }
        let Some(node) = self.tree.nodes.find_key(key) else {
            return self.tree.nodes.is_plain(key).then_some(NodeId(found.inode));
        };
        // The number may have come back for another file; the handle tells.
        let handle = Handle::at(fd, &found.name).ok().flatten()?;
        (node.identity.handle == Some(handle)).then_some(node.id)
    }

    fn number_by_looking(&self, fd: BorrowedFd<'_>, found: &Found) -> (NodeId, FileKind) {
        let seen = host::open_child(fd, &found.name).and_then(|child| identity::see(child.as_fd()));
        match seen {
            Ok(seen) => (self.tree.nodes.number(&seen.identity), seen.identity.kind),
            // It is gone by now. Node 0 would end the listing.
            Err(_) => (NodeId(found.inode.max(1)), found.kind.unwrap_or(FileKind::Regular)),
        }
    }
}
