//! The contract of an open file.

use super::LockWatch;
use crate::types::{
    AllocateMode, Attr, Caller, LockInTheWay, LockOwner, LockRange, LockRequest, Privileges, Result, Seek,
};
use async_trait::async_trait;
use bytes::Bytes;
use std::os::fd::BorrowedFd;

/// A regular file, opened. Dropping it closes it; what a close must tell is told by [`OpenFile::flush`] before.
///
/// # Errors of every method
/// `EIO` where the volume cannot be reached; `EBADF` where the access it was opened with does not allow the call.
#[async_trait]
pub trait OpenFile: Send + Sync + 'static {
    /// Up to `len` bytes from `offset` on; fewer only at the end of the file. Holes are zeros.
    async fn read_at(&self, offset: u64, len: u32) -> Result<Bytes>;

    /// Writes all of `data` at `offset`, growing the file where it must, and drops the file's privileges if told so.
    /// On a file opened to append, `offset` is passed over and the end of the file is meant.
    ///
    /// Local readers see it at once. No bytes change nothing: neither size nor times nor privileges (`write(2)`).
    /// Errors: `EFBIG`, `ENOSPC`, `EDQUOT`; then nothing was written.
    async fn write_at(&self, caller: &Caller, offset: u64, data: Bytes, privileges: Privileges) -> Result<()>;

    /// Cuts the file to `size`, or fills it up with zeros, through this handle (`ftruncate(2)`).
    ///
    /// Privileges go as `privileges` says. Errors: `EFBIG`, `ENOSPC`.
    async fn truncate(&self, caller: &Caller, size: u64, privileges: Privileges) -> Result<()>;

    /// Reserves, clears or empties a range (`fallocate(2)`), and drops the file's privileges if told so, as a write
    /// does.
    ///
    /// Errors: `EOPNOTSUPP` for a mode the volume does not have; `EINVAL` for no bytes; `EFBIG`, `ENOSPC`.
    async fn allocate(
        &self,
        caller: &Caller,
        offset: u64,
        len: u64,
        mode: AllocateMode,
        privileges: Privileges,
    ) -> Result<()>;

    /// The first place at or after `offset` that is data, or a hole; the end of the file counts as a hole.
    ///
    /// Errors: `ENXIO` at or after the end of the file, or where no data follows.
    async fn seek(&self, offset: u64, whence: Seek) -> Result<u64>;

    /// What was written is committed: it survives the end of this process, and others can see it. Each `close(2)`
    /// of a descriptor calls it.
    async fn flush(&self) -> Result<()>;

    /// What was written survives a loss of power, as far as the volume can make it (`fsync(2)`); its attributes too
    /// unless `data_only`.
    async fn sync(&self, data_only: bool) -> Result<()>;

    /// The file's attributes.
    async fn attr(&self) -> Result<Attr>;

    /// Takes a lock of the file, in place of what its owner holds of the range; it waits for nobody (`fcntl(2)`).
    ///
    /// The lock is the file's and not the handle's: it lasts until its owner gives it back, through any handle. Whoever
    /// has got it reads what was written before the last holder gave it back. Errors: `EAGAIN` where the lock of another
    /// owner is in the way.
    async fn lock(&self, request: &LockRequest) -> Result<()>;

    /// Gives back what `owner` holds of the range; to hold nothing there is no error. What was written before is
    /// committed first. After an error the locks are gone all the same, as far as that can be said.
    async fn unlock(&self, owner: LockOwner, range: LockRange) -> Result<()>;

    /// A lock that is in the way of this one, which is not taken; `None` where none is.
    async fn lock_in_the_way(&self, request: &LockRequest) -> Result<Option<LockInTheWay>>;

    /// Tells of locks of this file that are given back from now on.
    fn watch_locks(&self) -> LockWatch;

    /// A descriptor of the host's file that holds just these bytes, for the kernel to use past us; `None` where there
    /// is none. It names the file and no more: the kernel opens it anew as each opener asked, and so must whoever else
    /// takes it.
    fn backing_fd(&self) -> Option<BorrowedFd<'_>>;
}
