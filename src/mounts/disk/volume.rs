//! The disk volume behind the contract: each method unpacks and calls. Every operation runs to its end at the first
//! poll, since a local filesystem is asked with system calls that return.

use super::core::Core;
use super::host::failed;
use crate::mounts::{Capabilities, Freshness, Health, Listing, OpenFile, OpenStyle, Volume};
use crate::types::{
    Attr, Caller, ChangeStream, Cookie, Entry, Errno, Error, FileKind, Mode, Name, NodeId, OpenFlags, RenameMode,
    Result, SetAttr, StatFs, XattrMode,
};
use async_trait::async_trait;
use bytes::Bytes;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

/// How the kernel reads and writes a disk volume's files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Io {
    /// Through its page cache, asking us for what is not in it. Opens and closes cost nothing.
    #[default]
    Cached,
    /// Past us, from the host's file (kernel passthrough): faster in bulk, and each open and close is told.
    Passthrough,
}

/// A directory of the host, with everything below it.
pub struct DiskVolume {
    core: Core,
    io: Io,
}

impl DiskVolume {
    /// Opens the directory `root`, which is made, with the directories above it, where it does not exist. Call it in
    /// the process that will serve the volume: it may start a thread.
    ///
    /// # Errors
    /// Those of `mkdir(2)` and `open(2)`; `ENOTDIR` where `root` is no directory. The context names it.
    pub fn open(root: &Path) -> Result<Arc<DiskVolume>> {
        DiskVolume::open_with(root, Io::Cached)
    }

    /// The same, with a choice of how the kernel gets at its files.
    ///
    /// # Errors
    /// As [`DiskVolume::open`].
    pub fn open_with(root: &Path, io: Io) -> Result<Arc<DiskVolume>> {
        std::fs::create_dir_all(root).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::new("open", Errno::ENOTDIR)
                .context(format!("the volume's root {} is no directory; name another one", root.display())),
            _ => Error::from_io("mkdir", error).context(format!("the volume's root {}", root.display())),
        })?;
        Ok(Arc::new(DiskVolume { core: Core::open(root)?, io }))
    }
}

impl Drop for DiskVolume {
    fn drop(&mut self) {
        self.core.descriptors.end();
    }
}

#[async_trait]
impl Volume for DiskVolume {
    fn capabilities(&self) -> Capabilities {
        // Without handles an open file can be found again only by the descriptor that its open made.
        let passthrough = self.io == Io::Passthrough;
        let stateless = self.core.tree.by_handle() && !passthrough;
        Capabilities {
            opens: if stateless { OpenStyle::Stateless } else { OpenStyle::PerHandle },
            freshness: Freshness::Timed,
            read_only: false,
            passthrough,
            own_locks: false,
        }
    }

    fn changes(&self) -> ChangeStream {
        self.core.feed.listen()
    }

    async fn root(&self) -> Result<Entry> {
        let root = self.core.tree.root();
        let fd = self.core.tree.path_fd("root", root)?;
        let stat = super::host::stat(fd.as_fd()).map_err(failed("root"))?;
        Ok(self.core.tree.entry(root, &stat))
    }

    async fn lookup(&self, _caller: &Caller, dir: NodeId, name: &Name) -> Result<Entry> {
        self.core.lookup(dir, name)
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.core.forget(node, count);
    }

    async fn getattr(&self, node: NodeId) -> Result<Attr> {
        self.core.getattr(node)
    }

    async fn setattr(&self, caller: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr> {
        self.core.setattr(caller, node, set)
    }

    async fn readdir(&self, dir: NodeId, after: Cookie, limit: usize, plus: bool) -> Result<Listing> {
        self.core.readdir(dir, after, limit, plus)
    }

    async fn readlink(&self, node: NodeId) -> Result<Bytes> {
        self.core.readlink(node)
    }

    async fn create(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        mode: Mode,
        flags: OpenFlags,
    ) -> Result<(Entry, Arc<dyn OpenFile>)> {
        self.core.create(caller, dir, name, mode, flags)
    }

    async fn mkdir(&self, caller: &Caller, dir: NodeId, name: &Name, mode: Mode) -> Result<Entry> {
        self.core.mkdir(caller, dir, name, mode)
    }

    async fn mknod(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        kind: FileKind,
        mode: Mode,
        rdev: u32,
    ) -> Result<Entry> {
        self.core.mknod(caller, dir, name, kind, mode, rdev)
    }

    async fn symlink(&self, caller: &Caller, dir: NodeId, name: &Name, target: &[u8]) -> Result<Entry> {
        self.core.symlink(caller, dir, name, target)
    }

    async fn link(&self, caller: &Caller, node: NodeId, dir: NodeId, name: &Name) -> Result<Entry> {
        self.core.link(caller, node, dir, name)
    }

    async fn unlink(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<()> {
        self.core.unlink(caller, dir, name)
    }

    async fn rmdir(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<()> {
        self.core.rmdir(caller, dir, name)
    }

    async fn rename(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        new_dir: NodeId,
        new_name: &Name,
        mode: RenameMode,
    ) -> Result<()> {
        self.core.rename(caller, (dir, name), (new_dir, new_name), mode)
    }

    async fn open(&self, caller: &Caller, node: NodeId, flags: OpenFlags) -> Result<Arc<dyn OpenFile>> {
        self.core.open_file(caller, node, flags)
    }

    async fn getxattr(&self, node: NodeId, name: &[u8]) -> Result<Bytes> {
        self.core.getxattr(node, name)
    }

    async fn listxattr(&self, node: NodeId) -> Result<Vec<Bytes>> {
        self.core.listxattr(node)
    }

    async fn setxattr(&self, caller: &Caller, node: NodeId, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.core.setxattr(caller, node, name, value, mode)
    }

    async fn removexattr(&self, caller: &Caller, node: NodeId, name: &[u8]) -> Result<()> {
        self.core.removexattr(caller, node, name)
    }

    async fn statfs(&self, node: NodeId) -> Result<StatFs> {
        self.core.statfs(node)
    }

    async fn health(&self) -> Result<Health> {
        self.core.health()
    }

    async fn sync(&self) -> Result<()> {
        self.core.sync()
    }

    async fn close(&self) -> Result<()> {
        self.core.close();
        Ok(())
    }
}
