//! Removing names and moving them. What loses its last name by that and is still known lives on: a descriptor of it is
//! taken before, and kept until it is forgotten.
//!
//! The locks of directories are held across the system calls that look at a name and remove it, so that no other request
//! puts another file there in between.

use super::core::Core;
use super::host::{self, failed};
use super::identity::{self, Identity};
use super::nodes::Node;
use crate::types::{Caller, ChangeKind, FileKind, Name, NodeId, RenameMode, Result};
use rustix::fs::{AtFlags, RenameFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A known file whose name is about to go, and the descriptor it will live by.
struct Leaving {
    node: Arc<Node>,
    fd: Arc<OwnedFd>,
}

/// One name in one directory.
struct Place<'a> {
    dir: &'a Node,
    fd: BorrowedFd<'a>,
    name: &'a Name,
}

impl Place<'_> {
    fn look(&self) -> Option<(OwnedFd, Identity)> {
        let fd = host::open_child(self.fd, self.name).ok()?;
        let seen = identity::see(fd.as_fd()).ok()?;
        Some((fd, seen.identity))
    }
}

impl Core {
    /// `Volume::unlink`
    pub fn unlink(&self, caller: &Caller, id: NodeId, name: &Name) -> Result<()> {
        self.remove("unlink", caller, id, name, AtFlags::empty())
    }

    /// `Volume::rmdir`
    pub fn rmdir(&self, caller: &Caller, id: NodeId, name: &Name) -> Result<()> {
        self.remove("rmdir", caller, id, name, AtFlags::REMOVEDIR)
    }

    fn remove(&self, operation: &'static str, caller: &Caller, id: NodeId, name: &Name, how: AtFlags) -> Result<()> {
        let (dir, fd) = self.directory(operation, id)?;
        let place = Place { dir: &dir, fd: fd.as_fd(), name };
        let lock = self.directory_locks.lock(&dir);
        let leaving = self.hold(&place);
        let done = rustix::fs::unlinkat(&fd, name.as_bytes(), how);
        self.settle(caller, leaving, done.is_ok());
        drop(lock);
        done.map_err(failed(operation))?;
        self.feed.tell_entry(caller, dir.id, name);
        Ok(())
    }

    /// `Volume::rename`
    pub fn rename(
        &self,
        caller: &Caller,
        (from, name): (NodeId, &Name),
        (to, new_name): (NodeId, &Name),
        mode: RenameMode,
    ) -> Result<()> {
        let (dir, fd) = self.directory("rename", from)?;
        let (new_dir, new_fd) = self.directory("rename", to)?;
        let old = Place { dir: &dir, fd: fd.as_fd(), name };
        let new = Place { dir: &new_dir, fd: new_fd.as_fd(), name: new_name };
        let locks = self.directory_locks.lock_both(&dir, &new_dir);
        let moved = self.known_at(&old);
        let (swapped, leaving) = match mode {
            RenameMode::Exchange => (self.known_at(&new), None),
            RenameMode::Replace => (None, self.hold(&new)),
            RenameMode::NoReplace => (None, None),
        };
        let done = rustix::fs::renameat_with(&fd, name.as_bytes(), &new_fd, new_name.as_bytes(), raw_mode(mode));
        self.settle(caller, leaving, done.is_ok());
        if done.is_ok() {
            self.note_moved(caller, moved, &new);
            self.note_moved(caller, swapped, &old);
        }
        drop(locks);
        done.map_err(failed("rename"))?;
        self.feed.tell_entry(caller, dir.id, name);
        self.feed.tell_entry(caller, new_dir.id, new_name);
        Ok(())
    }

    fn known_at(&self, place: &Place<'_>) -> Option<Arc<Node>> {
        place.look().and_then(|(_, identity)| self.tree.nodes.find(&identity))
    }

    /// Takes a descriptor of the file at `place`, if somebody knows it.
    fn hold(&self, place: &Place<'_>) -> Option<Leaving> {
        let (fd, identity) = place.look()?;
        let node = self.tree.nodes.find(&identity)?;
        let fd = Arc::new(fd);
        node.hold(&fd, || true);
        Some(Leaving { node, fd })
    }

    /// Keeps the descriptor where the file can be found in no other way any more.
    fn settle(&self, caller: &Caller, leaving: Option<Leaving>, done: bool) {
        let Some(Leaving { node, fd }) = leaving else { return };
        let nameless = || host::stat(fd.as_fd()).is_ok_and(|stat| stat.stx_nlink == 0);
        node.hold(&fd, || nameless() || (done && !node.by_handle));
        if done {
            self.descriptors.let_go(&node);
            self.streams.let_go(&node);
            self.tree.let_go(&node);
            self.feed.tell(caller, || ChangeKind::Attr(node.id));
        }
    }

    fn note_moved(&self, caller: &Caller, node: Option<Arc<Node>>, to: &Place<'_>) {
        let Some(node) = node else { return };
        if !node.by_handle || node.kind() == FileKind::Directory {
            self.tree.nodes.moved(&node, (to.dir.id, to.name.clone()));
        }
        self.feed.tell(caller, || ChangeKind::Attr(node.id));
    }
}

fn raw_mode(mode: RenameMode) -> RenameFlags {
    match mode {
        RenameMode::Replace => RenameFlags::empty(),
        RenameMode::NoReplace => RenameFlags::NOREPLACE,
        RenameMode::Exchange => RenameFlags::EXCHANGE,
    }
}
