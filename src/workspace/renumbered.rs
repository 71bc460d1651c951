//! An open file whose session shows it under another number than its volume does.

use crate::mounts::OpenFile;
use crate::types::{AllocateMode, Attr, Caller, NodeId, Privileges, Result, Seek};
use async_trait::async_trait;
use bytes::Bytes;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Passes everything on, and tells its attributes under `node`.
pub(super) struct Renumbered {
    pub(super) file: Arc<dyn OpenFile>,
    pub(super) node: NodeId,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl OpenFile for Renumbered {
    async fn read_at(&self, offset: u64, len: u32) -> Result<Bytes> {
        self.file.read_at(offset, len).await
    }

    async fn write_at(&self, caller: &Caller, offset: u64, data: Bytes, privileges: Privileges) -> Result<()> {
        self.file.write_at(caller, offset, data, privileges).await
    }

    async fn truncate(&self, caller: &Caller, size: u64, privileges: Privileges) -> Result<()> {
        self.file.truncate(caller, size, privileges).await
    }

    async fn allocate(
        &self,
        caller: &Caller,
        offset: u64,
        len: u64,
        mode: AllocateMode,
        privileges: Privileges,
    ) -> Result<()> {
        self.file.allocate(caller, offset, len, mode, privileges).await
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

    fn backing_fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.backing_fd()
    }
}
