//! An open file of a volume, at its place in a session that serves several.
//!
//! One volume may be mounted twice there: what is changed through one place is news to the other, so each is an origin of
//! its own.

use crate::mounts::{LockWatch, OpenFile};
use crate::types::{
    AllocateMode, Attr, Caller, LockInTheWay, LockOwner, LockRange, LockRequest, NodeId, Origin, Privileges, Result,
    Seek,
};
use async_trait::async_trait;
use bytes::Bytes;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Passes everything on, as of this place, and tells its attributes under `node`.
pub(super) struct Placed {
    pub(super) file: Arc<dyn OpenFile>,
    pub(super) node: NodeId,
    pub(super) origin: Origin,
}

impl Placed {
    fn caller(&self, caller: &Caller) -> Caller {
        Caller { origin: self.origin, ..*caller }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl OpenFile for Placed {
    async fn read_at(&self, offset: u64, len: u32) -> Result<Bytes> {
        self.file.read_at(offset, len).await
    }

    async fn write_at(&self, caller: &Caller, offset: u64, data: Bytes, privileges: Privileges) -> Result<()> {
        self.file.write_at(&self.caller(caller), offset, data, privileges).await
    }

    async fn truncate(&self, caller: &Caller, size: u64, privileges: Privileges) -> Result<()> {
        self.file.truncate(&self.caller(caller), size, privileges).await
    }

    async fn allocate(
        &self,
        caller: &Caller,
        offset: u64,
        len: u64,
        mode: AllocateMode,
        privileges: Privileges,
    ) -> Result<()> {
        self.file.allocate(&self.caller(caller), offset, len, mode, privileges).await
    }

    async fn seek(&self, offset: u64, whence: Seek) -> Result<u64> {
        self.file.seek(offset, whence).await
    }

    async fn flush(&self) -> Result<()> {
        self.file.flush().await
    }

    async fn sync(&self, data_only: bool) -> Result<()> {
        self.file.sync(data_only).await
    }

    async fn attr(&self) -> Result<Attr> {
        Ok(Attr { node: self.node, ..self.file.attr().await? })
    }

    async fn lock(&self, request: &LockRequest) -> Result<()> {
        self.file.lock(request).await
    }

    async fn unlock(&self, owner: LockOwner, range: LockRange) -> Result<()> {
        self.file.unlock(owner, range).await
    }

    async fn lock_in_the_way(&self, request: &LockRequest) -> Result<Option<LockInTheWay>> {
        self.file.lock_in_the_way(request).await
    }

    fn watch_locks(&self) -> LockWatch {
        self.file.watch_locks()
    }

    fn backing_fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.backing_fd()
    }
}
