//! An open file of the disk volume.

use super::descriptors::Backing;
use super::feed::Feed;
use super::host::{self, failed};
use crate::mounts::local_locks::LocalLocks;
use crate::mounts::{LockWatch, OpenFile};
use crate::types::{
    Access, AllocateMode, Attr, Caller, ChangeKind, Errno, Error, FILE_MAX, LockInTheWay, LockOwner, LockRange,
    LockRequest, Mode, NodeId, OpenFlags, Privileges, Result, Seek, end_of,
};
use async_trait::async_trait;
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::ReadWriteFlags;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// A regular file, opened. Where opens are stateless its descriptor is shared with other openers, so what is special
/// to this one (its access, append, sync) is kept here and not in the descriptor.
pub struct DiskFile {
    node: NodeId,
    backing: Arc<Backing>,
    flags: OpenFlags,
    feed: Arc<Feed>,
    locks: Arc<LocalLocks>,
}

impl DiskFile {
    /// The file `node` through `backing`, used as `flags` say.
    pub fn new(
        node: NodeId,
        backing: Arc<Backing>,
        flags: OpenFlags,
        feed: Arc<Feed>,
        locks: Arc<LocalLocks>,
    ) -> DiskFile {
        DiskFile { node, backing, flags, feed, locks }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.backing.fd.as_fd()
    }

    fn writable(&self, operation: &'static str) -> Result<()> {
        match self.flags.access.writes() {
            true => Ok(()),
            false => Err(Error::new(operation, Errno::EBADF).context("the file was opened for reading")),
        }
    }

    /// Takes set-user-id and set-group-id away from a file that somebody else changes (`write(2)`). The host does so by
    /// itself only for ordinary users, which root is not; `security.capability` it removes whoever writes.
    fn drop_privileges(&self, operation: &'static str, privileges: Privileges) -> Result<()> {
        if privileges == Privileges::Keep {
            return Ok(());
        }
        let stat = host::stat(self.fd()).map_err(failed(operation))?;
        let mode = Mode::new(u32::from(stat.stx_mode));
        if mode.without_privileges() == mode {
            return Ok(());
        }
        rustix::fs::fchmod(self.fd(), host::raw_mode(mode.without_privileges())).map_err(failed(operation))
    }

    /// Tells what was written. An append says from where on only as "anywhere".
    fn tell_written(&self, caller: &Caller, offset: u64, len: u64) {
        let (offset, len) = if self.flags.append { (0, u64::MAX) } else { (offset, len) };
        self.feed.tell(caller, || ChangeKind::Data { node: self.node, offset, len });
    }
}

#[async_trait]
impl OpenFile for DiskFile {
    async fn read_at(&self, offset: u64, len: u32) -> Result<Bytes> {
        if self.flags.access == Access::Write {
            return Err(Error::new("read", Errno::EBADF).context("the file was opened for writing"));
        }
        // Nothing lies past the largest file, where the host would refuse to look.
        let len = u64::from(len).min(FILE_MAX.saturating_sub(offset)) as usize;
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(self.fd(), spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(failed("read")(errno)),
            }
        }
        bytes.truncate(len);
        Ok(bytes.into())
    }

    async fn write_at(&self, caller: &Caller, offset: u64, data: Bytes, privileges: Privileges) -> Result<()> {
        self.writable("write")?;
        if data.is_empty() {
            return Ok(());
        }
        // The host passes over the place of an append, but not over one that is none.
        let offset = if self.flags.append { 0 } else { offset };
        let start = if self.flags.append { host::stat(self.fd()).map_err(failed("write"))?.stx_size } else { offset };
        end_of("write", start, data.len() as u64)?;
        self.drop_privileges("write", privileges)?;
        let mut how = ReadWriteFlags::empty();
        how.set(ReadWriteFlags::APPEND, self.flags.append);
        how.set(ReadWriteFlags::DSYNC, self.flags.sync);
        let mut done = 0;
        // The host writes less than all only when it runs full; what did fit stays then, as after any `write(2)`.
        while done < data.len() {
            let at = offset + done as u64;
            match write_once(self.fd(), &data[done..], at, how) {
                Ok(0) => return Err(Error::new("write", Errno::EIO).context("the host writes nothing")),
                Ok(written) => done += written,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(failed("write")(errno)),
            }
        }
        self.tell_written(caller, offset, data.len() as u64);
        Ok(())
    }

    async fn truncate(&self, caller: &Caller, size: u64, privileges: Privileges) -> Result<()> {
        self.writable("ftruncate")?;
        end_of("ftruncate", size, 0)?;
        rustix::fs::ftruncate(self.fd(), size).map_err(failed("ftruncate"))?;
        self.drop_privileges("ftruncate", privileges)?;
        self.feed.tell(caller, || ChangeKind::Data { node: self.node, offset: size, len: u64::MAX });
        Ok(())
    }

    async fn allocate(
        &self,
        caller: &Caller,
        offset: u64,
        len: u64,
        mode: AllocateMode,
        privileges: Privileges,
    ) -> Result<()> {
        self.writable("fallocate")?;
        end_of("fallocate", offset, len)?;
        let how = match mode {
            AllocateMode::Extend => FallocateFlags::empty(),
            AllocateMode::KeepSize => FallocateFlags::KEEP_SIZE,
            AllocateMode::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            AllocateMode::Zero => FallocateFlags::ZERO_RANGE,
            AllocateMode::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        };
        // Not every host has every mode, and what is refused changes nothing.
        rustix::fs::fallocate(self.fd(), how, offset, len).map_err(failed("fallocate"))?;
        self.drop_privileges("fallocate", privileges)?;
        self.feed.tell(caller, || ChangeKind::Data { node: self.node, offset, len });
        Ok(())
    }

    async fn seek(&self, offset: u64, whence: Seek) -> Result<u64> {
        end_of("lseek", offset, 0).map_err(|_| Error::new("lseek", Errno::ENXIO))?;
        let from = match whence {
            Seek::Data => SeekFrom::Data(offset),
            Seek::Hole => SeekFrom::Hole(offset),
        };
        // This moves the position of a descriptor that others use too, but nobody reads or writes at its position.
        rustix::fs::seek(self.fd(), from).map_err(failed("lseek"))
    }

    async fn flush(&self) -> Result<()> {
        super::sys::close_a_copy(self.fd()).map_err(failed("close"))
    }

    async fn sync(&self, data_only: bool) -> Result<()> {
        let done = if data_only { rustix::fs::fdatasync(self.fd()) } else { rustix::fs::fsync(self.fd()) };
        done.map_err(failed("fsync"))
    }

    async fn attr(&self) -> Result<Attr> {
        let stat = host::stat(self.fd()).map_err(failed("fstat"))?;
        Ok(host::attr(&stat, self.node))
    }

    async fn lock(&self, request: &LockRequest) -> Result<()> {
        self.locks.lock(self.node, request)
    }

    async fn unlock(&self, owner: LockOwner, range: LockRange) -> Result<()> {
        self.locks.unlock(self.node, owner, range);
        Ok(())
    }

    async fn lock_in_the_way(&self, request: &LockRequest) -> Result<Option<LockInTheWay>> {
        Ok(self.locks.in_the_way(self.node, request))
    }

    fn watch_locks(&self) -> LockWatch {
        self.locks.watch(self.node)
    }

    fn backing_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd())
    }
}

fn write_once(fd: BorrowedFd<'_>, data: &[u8], at: u64, how: ReadWriteFlags) -> rustix::io::Result<usize> {
    match how.is_empty() {
        true => rustix::io::pwrite(fd, data, at),
        false => rustix::io::pwritev2(fd, &[IoSlice::new(data)], at, how),
    }
}
