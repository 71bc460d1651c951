//! Removing names and moving them. What loses its last name by that and is still known lives on: a descriptor of it is
//! taken before, and kept until it is forgotten.
//!
//! The locks of directories are held across the system calls that look at a name and remove it, so that no other
//! request puts another file there in between.

use super::core::Core;
use super::host::{self, failed};
use super::identity::{self, Identity};
use super::nodes::Node;
use crate::types::{Caller, ChangeKind, Name, NodeId, RenameMode, Result};
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno as Host;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A known file whose name is about to go, the descriptor it will live by, and the one it lived by till now.
struct Leaving {
    node: Arc<Node>,
    fd: Arc<OwnedFd>,
    before: Option<Arc<OwnedFd>>,
}

/// One name in one directory.
struct Place<'a> {
    dir: &'a Node,
    fd: BorrowedFd<'a>,
    name: &'a Name,
}

impl Place<'_> {
    /// The file there; `None` where there is none, which whoever changes the name is told by the host.
    ///
    /// Errors: `EMFILE` and the like, since without a descriptor an open file could not live on.
    fn look(&self, operation: &'static str) -> Result<Option<(OwnedFd, Identity)>> {
        let found = host::open_child(self.fd, self.name).and_then(|fd| {
            let identity = identity::see(fd.as_fd())?.identity;
            Ok((fd, identity))
        });
        match found {
            Ok(found) => Ok(Some(found)),
            Err(errno @ (Host::MFILE | Host::NFILE | Host::NOMEM)) => Err(failed(operation)(errno)),
            Err(_) => Ok(None),
        }
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
        let leaving = self.hold(operation, &place)?;
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
        let moved = self.known_at(&old)?;
        let (swapped, leaving) = match mode {
            RenameMode::Exchange => (self.known_at(&new)?, None),
            RenameMode::Replace => (None, self.hold("rename", &new)?),
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

    fn known_at(&self, place: &Place<'_>) -> Result<Option<Arc<Node>>> {
        Ok(place.look("rename")?.and_then(|(_, identity)| self.tree.nodes.find(&identity)))
    }

    /// Takes a descriptor of the file at `place`, if somebody knows it.
    fn hold(&self, operation: &'static str, place: &Place<'_>) -> Result<Option<Leaving>> {
        let Some((fd, identity)) = place.look(operation)? else { return Ok(None) };
        let Some(node) = self.tree.nodes.find(&identity) else { return Ok(None) };
        let fd = Arc::new(fd);
        let before = node.hold(|_| Some(Arc::clone(&fd)));
        Ok(Some(Leaving { node, fd, before }))
    }

    /// Keeps the descriptor where the file can be found in no other way any more: it has no name left, or it was found
    /// by the one that went.
    fn settle(&self, caller: &Caller, leaving: Option<Leaving>, done: bool) {
        let Some(Leaving { node, fd, before }) = leaving else { return };
        let replaced = node.hold(|_| match host::stat(fd.as_fd()) {
            Ok(stat) if stat.stx_nlink == 0 => Some(fd),
            _ if done && !node.by_handle => Some(fd),
            _ if node.by_handle => None,
            _ => before,
        });
        drop(replaced);
        if done {
            self.descriptors.let_go(&node);
            self.streams.let_go(&node);
            self.tree.let_go(&node);
            self.feed.tell(caller, || ChangeKind::Attr(node.id));
        }
    }

    fn note_moved(&self, caller: &Caller, node: Option<Arc<Node>>, to: &Place<'_>) {
        let Some(node) = node else { return };
        if node.needs_place() {
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
