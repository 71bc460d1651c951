//! A volume that only reads another.

use super::{Capabilities, Health, Listing, LockWatch, OpenFile, Volume};
use crate::types::{
    Access, AllocateMode, Attr, Caller, ChangeStream, Cookie, Entry, Errno, Error, FileKind, LockInTheWay, LockOwner,
    LockRange, LockRequest, Mode, Name, NodeId, OpenFlags, Privileges, RenameMode, Result, Seek, SetAttr, StatFs,
    XattrMode,
};
use async_trait::async_trait;
use bytes::Bytes;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Passes on what reads, and answers `EROFS` to what changes.
pub struct ReadOnly {
    inner: Arc<dyn Volume>,
}

impl ReadOnly {
    /// Over `inner`, which others may go on changing.
    pub fn new(inner: Arc<dyn Volume>) -> Arc<ReadOnly> {
        Arc::new(ReadOnly { inner })
    }
}

fn refused<T>(operation: &'static str) -> Result<T> {
    Err(Error::new(operation, Errno::EROFS).context("the volume is mounted read-only"))
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Volume for ReadOnly {
    fn capabilities(&self) -> Capabilities {
        Capabilities { read_only: true, passthrough: false, ..self.inner.capabilities() }
    }

    fn changes(&self) -> ChangeStream {
        self.inner.changes()
    }

    async fn root(&self) -> Result<Entry> {
        self.inner.root().await
    }

    async fn lookup(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<Entry> {
        self.inner.lookup(caller, dir, name).await
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.inner.forget(node, count);
    }

    async fn getattr(&self, node: NodeId) -> Result<Attr> {
        self.inner.getattr(node).await
    }

    async fn setattr(&self, _: &Caller, _: NodeId, _: &SetAttr) -> Result<Attr> {
        refused("setattr")
    }

    async fn readdir(&self, dir: NodeId, after: Cookie, limit: usize, plus: bool) -> Result<Listing> {
        self.inner.readdir(dir, after, limit, plus).await
    }

    async fn readlink(&self, node: NodeId) -> Result<Bytes> {
        self.inner.readlink(node).await
    }

    /// Opens a file that exists, for reading; what would have to be made or written is refused.
    async fn create(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        _: Mode,
        flags: OpenFlags,
    ) -> Result<(Entry, Arc<dyn OpenFile>)> {
        let entry = match self.inner.lookup(caller, dir, name).await {
            Err(error) if error.errno() == Errno::ENOENT => return refused("create"),
            found => found?,
        };
        let opened = match entry.attr.kind {
            _ if flags.exclusive => Err(Error::new("create", Errno::EEXIST)),
            FileKind::Directory => Err(Error::new("create", Errno::EISDIR)),
            FileKind::Symlink => Err(Error::new("create", Errno::ELOOP)),
            _ => self.open(caller, entry.attr.node, flags).await,
        };
        match opened {
            Ok(file) => Ok((entry, file)),
            Err(error) => {
                self.inner.forget(entry.attr.node, 1);
                Err(error)
            }
        }
    }

    async fn mkdir(&self, _: &Caller, _: NodeId, _: &Name, _: Mode) -> Result<Entry> {
        refused("mkdir")
    }

    async fn mknod(&self, _: &Caller, _: NodeId, _: &Name, _: FileKind, _: Mode, _: u32) -> Result<Entry> {
        refused("mknod")
    }

    async fn symlink(&self, _: &Caller, _: NodeId, _: &Name, _: &[u8]) -> Result<Entry> {
        refused("symlink")
    }

    async fn link(&self, _: &Caller, _: NodeId, _: NodeId, _: &Name) -> Result<Entry> {
        refused("link")
    }

    async fn unlink(&self, _: &Caller, _: NodeId, _: &Name) -> Result<()> {
        refused("unlink")
    }

    async fn rmdir(&self, _: &Caller, _: NodeId, _: &Name) -> Result<()> {
        refused("rmdir")
    }

    async fn rename(&self, _: &Caller, _: NodeId, _: &Name, _: NodeId, _: &Name, _: RenameMode) -> Result<()> {
        refused("rename")
    }

    async fn open(&self, caller: &Caller, node: NodeId, flags: OpenFlags) -> Result<Arc<dyn OpenFile>> {
        if flags.access.writes() || flags.truncate {
            return refused("open");
        }
        let flags = OpenFlags { access: Access::Read, append: false, ..flags };
        Ok(Arc::new(ReadOnlyFile(self.inner.open(caller, node, flags).await?)))
    }

    async fn getxattr(&self, node: NodeId, name: &[u8]) -> Result<Bytes> {
        self.inner.getxattr(node, name).await
    }

    async fn listxattr(&self, node: NodeId) -> Result<Vec<Bytes>> {
        self.inner.listxattr(node).await
    }

    async fn setxattr(&self, _: &Caller, _: NodeId, _: &[u8], _: &[u8], _: XattrMode) -> Result<()> {
        refused("setxattr")
    }

    async fn removexattr(&self, _: &Caller, _: NodeId, _: &[u8]) -> Result<()> {
        refused("removexattr")
    }

    async fn statfs(&self, node: NodeId) -> Result<StatFs> {
        self.inner.statfs(node).await
    }

    async fn health(&self) -> Result<Health> {
        self.inner.health().await
    }

    async fn sync(&self) -> Result<()> {
        self.inner.sync().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

/// A file of a read-only volume.
///
/// It has no [`OpenFile::backing_fd`]: a stateless volume may have opened the host's file for writing too, and the
/// kernel would write past us.
struct ReadOnlyFile(Arc<dyn OpenFile>);

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl OpenFile for ReadOnlyFile {
    async fn read_at(&self, offset: u64, len: u32) -> Result<Bytes> {
        self.0.read_at(offset, len).await
    }

    async fn write_at(&self, _: &Caller, _: u64, _: Bytes, _: Privileges) -> Result<()> {
        refused("write")
    }

    async fn truncate(&self, _: &Caller, _: u64, _: Privileges) -> Result<()> {
        refused("ftruncate")
    }

    async fn allocate(&self, _: &Caller, _: u64, _: u64, _: AllocateMode, _: Privileges) -> Result<()> {
        refused("fallocate")
    }

    async fn seek(&self, offset: u64, whence: Seek) -> Result<u64> {
        self.0.seek(offset, whence).await
    }

    /// Nothing was written through this file, so there is nothing to commit.
    async fn flush(&self) -> Result<()> {
        Ok(())
    }

    async fn sync(&self, data_only: bool) -> Result<()> {
        self.0.sync(data_only).await
    }

    async fn attr(&self) -> Result<Attr> {
        self.0.attr().await
    }

    async fn lock(&self, request: &LockRequest) -> Result<()> {
        self.0.lock(request).await
    }

    async fn unlock(&self, owner: LockOwner, range: LockRange) -> Result<()> {
        self.0.unlock(owner, range).await
    }

    async fn lock_in_the_way(&self, request: &LockRequest) -> Result<Option<LockInTheWay>> {
        self.0.lock_in_the_way(request).await
    }

    fn watch_locks(&self) -> LockWatch {
        self.0.watch_locks()
    }

    fn backing_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
