//! What one disk volume consists of, and what all its operations share.

use super::credentials::Daemon;
use super::descriptors::{Backing, Descriptors};
use super::feed::Feed;
use super::file::DiskFile;
use super::host::{self, failed};
use super::locks::DirectoryLocks;
use super::nodes::Node;
use super::streams::Streams;
use super::tree::{PathFd, Tree};
use crate::mounts::local_locks::LocalLocks;
use crate::mounts::{Health, OpenFile};
use crate::types::{
    Access, Attr, Caller, Entry, Errno, Error, FileKind, Name, NodeId, OpenFlags, Result, SetAttr, StatFs,
};
use rustix::fs::OFlags;
use std::collections::{HashMap, hash_map};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// A disk volume's parts. Its operations are in the files beside this one; each runs to its end in one go.
pub struct Core {
    /// The files.
    pub tree: Tree,
    /// Descriptors of files in use.
    pub descriptors: Arc<Descriptors>,
    /// Directories being listed.
    pub streams: Streams,
    /// Directories from which a name is being removed.
    pub directory_locks: DirectoryLocks,
    /// Locks of files, where the kernel asks for them.
    pub file_locks: Arc<LocalLocks>,
    /// Changes made here.
    pub feed: Arc<Feed>,
    /// Who we are.
    pub daemon: Daemon,
}

impl Core {
    /// Opens the directory `root`.
    pub fn open(root: &Path) -> Result<Core> {
        Ok(Core {
            tree: Tree::open(root)?,
            descriptors: Descriptors::new(),
            streams: Streams::new(),
            directory_locks: DirectoryLocks::new(),
            file_locks: Arc::default(),
            feed: Arc::new(Feed::new()),
            daemon: Daemon::new(),
        })
    }

    /// The node of a directory, and a descriptor of it.
    ///
    /// Errors: `ESTALE`, `ENOTDIR`.
    pub fn directory(&self, operation: &'static str, dir: NodeId) -> Result<(Arc<Node>, PathFd<'_>)> {
        let node = self.tree.nodes.get(operation, dir)?;
        if node.kind() != FileKind::Directory {
            return Err(Error::new(operation, Errno::ENOTDIR).context(format!("node {dir}")));
        }
        let fd = self.tree.path_fd(operation, &node)?;
        Ok((node, fd))
    }

    /// The attributes of a node's file, read through `fd`.
    ///
    /// Errors: `ESTALE` where its last name was removed beside the volume.
    pub fn attr(&self, operation: &'static str, node: &Node, fd: &PathFd<'_>) -> Result<Attr> {
        let stat = host::stat(fd.as_fd()).map_err(failed(operation))?;
        let is_root = node.id == self.tree.root().id;
        if stat.stx_nlink == 0 && !is_root && node.held().is_none() {
            return Err(Error::new(operation, Errno::ESTALE).context(format!("node {} was removed", node.id)));
        }
        Ok(host::attr(&stat, node.id))
    }

    /// `Volume::lookup`
    pub fn lookup(&self, dir: NodeId, name: &Name) -> Result<Entry> {
        let (dir, fd) = self.directory("lookup", dir)?;
        self.tree.look_up(&dir, fd.as_fd(), name).map_err(failed("lookup"))
    }

    /// `Volume::getattr`
    pub fn getattr(&self, id: NodeId) -> Result<Attr> {
        let node = self.tree.nodes.get("getattr", id)?;
        let fd = self.tree.path_fd("getattr", &node)?;
        self.attr("getattr", &node, &fd)
    }

    /// `Volume::open`. Where opens are stateless, with a descriptor that others may use too.
    pub fn open_file(&self, caller: &Caller, id: NodeId, flags: OpenFlags) -> Result<Arc<dyn OpenFile>> {
        let node = self.tree.nodes.get("open", id)?;
        expect_regular("open", node.kind())?;
        if flags.truncate {
            self.setattr(caller, id, &SetAttr::size(0))?;
        }
        let open = |flags: OFlags| self.tree.open_node("open", &node, flags);
        let backing = match self.tree.by_handle() {
            true => self.descriptors.get(&node, flags.access, open)?,
            false => Arc::new(Backing::new(open(raw_access(flags.access))?, flags.access)),
        };
        Ok(self.file(&node, backing, flags))
    }

    /// The file of `node`, opened just now.
    pub fn file(&self, node: &Node, backing: Arc<Backing>, flags: OpenFlags) -> Arc<dyn OpenFile> {
        Arc::new(DiskFile::new(node.id, backing, flags, Arc::clone(&self.feed), Arc::clone(&self.file_locks)))
    }

    /// Forgets everything about nodes that nobody knows any more.
    pub fn forget(&self, id: NodeId, count: u64) {
        for node in self.tree.forget(id, count) {
            self.descriptors.let_go(&node);
            self.streams.let_go(&node);
        }
    }

    /// `Volume::statfs`
    pub fn statfs(&self, id: NodeId) -> Result<StatFs> {
        let node = self.tree.nodes.get("statfs", id)?;
        let fd = self.tree.path_fd("statfs", &node)?;
        let stat = rustix::fs::fstatvfs(&fd).map_err(failed("statfs"))?;
        Ok(StatFs {
            block_size: u32::try_from(stat.f_frsize).unwrap_or(u32::MAX),
            blocks: stat.f_blocks,
            free: stat.f_bfree,
            available: stat.f_bavail,
            files: stat.f_files,
            files_free: stat.f_ffree,
            name_max: u32::try_from(stat.f_namemax).unwrap_or(u32::MAX),
        })
    }

    /// `Volume::health`
    pub fn health(&self) -> Result<Health> {
        let root = self.tree.root();
        let stat = host::stat(self.tree.path_fd("health", root)?.as_fd()).map_err(failed("health"))?;
        if stat.stx_nlink == 0 {
            let way_out = "the volume's directory was removed beside the mount; unmount, and mount one that is there";
            return Err(Error::new("health", Errno::ENOENT).context(way_out));
        }
        Ok(Health { caches: vec![self.tree.usage(), self.descriptors.usage()], warnings: Vec::new() })
    }

    /// Gives up all descriptors that are only kept to save time.
    pub fn close(&self) {
        self.descriptors.let_go_of_all();
        self.streams.let_go_of_all();
        self.tree.let_go_of_all();
    }

    /// `Volume::sync`: writes back each filesystem that known files lie on, even if another one failed.
    pub fn sync(&self) -> Result<()> {
        let written =
            self.one_of_each_filesystem().into_iter().map(|fd| rustix::fs::syncfs(fd).map_err(failed("syncfs")));
        written.fold(Ok(()), Result::and)
    }

    /// A descriptor on each filesystem that `syncfs(2)` takes, so not one of a symbolic link, which has only `O_PATH`.
    /// To open a fifo or a device would do something; its directory is on the same filesystem.
    fn one_of_each_filesystem(&self) -> Vec<OwnedFd> {
        let mut opened = HashMap::new();
        for node in self.tree.nodes.openable() {
            if let hash_map::Entry::Vacant(filesystem) = opened.entry(node.identity.key.filesystem()) {
                match self.tree.open_node("syncfs", &node, OFlags::RDONLY) {
                    Ok(fd) => drop(filesystem.insert(fd)),
                    // What is gone or closed to us cannot have been written by us.
                    Err(error) => tracing::debug!(%error, "not opened to sync its filesystem"),
                }
            }
        }
        opened.into_values().collect()
    }
}

/// `O_RDONLY` and so on.
pub fn raw_access(access: Access) -> OFlags {
    match access {
        Access::Read => OFlags::RDONLY,
        Access::Write => OFlags::WRONLY,
        Access::ReadWrite => OFlags::RDWR,
    }
}

/// Refuses to open what has no bytes, with the errno of `open(2)`.
pub fn expect_regular(operation: &'static str, kind: FileKind) -> Result<()> {
    let errno = match kind {
        FileKind::Regular => return Ok(()),
        FileKind::Directory => Errno::EISDIR,
        FileKind::Symlink => Errno::ELOOP,
        FileKind::Fifo | FileKind::Socket | FileKind::CharDevice | FileKind::BlockDevice => Errno::ENXIO,
    };
    Err(Error::new(operation, errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Origin;

    #[test]
    fn a_filesystem_is_synced_whatever_is_known_of_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let core = Core::open(dir.path()).expect("opens");
        let caller = Caller { uid: 0, gid: 0, tid: 0, origin: Origin::OUTSIDE };
        for index in 0..200 {
            let name = Name::try_from(format!("link{index}").as_str()).expect("a name");
            core.symlink(&caller, core.tree.root().id, &name, b"nowhere").expect("made");
        }
        assert_eq!(core.one_of_each_filesystem().len(), 1);
        core.sync().expect("synced");
    }
}
