//! Open files.

use super::super::record::Key;
use super::attrs;
use super::commit::{FULL_TRIES, await_room, dentry_of, redo};
use super::core::Core;
use super::data;
use super::file::File;
use super::locks;
use super::names::{NewFile, build_new};
use super::nodes::Closed;
use super::numbers;
use super::orphans;
use super::privileges;
use super::view::{attr, entry, pending, records};
use crate::mounts::{LockWatch, OpenFile};
use crate::types::{
    Access, AllocateMode, Attr, Caller, Entry, Errno, Error, FileKind, LockInTheWay, LockOwner, LockRange, LockRequest,
    Mode, Name, NodeId, OpenFlags, Origin, Privileges, Result, Seek, SetAttr, Timestamp, end_of,
};
use async_trait::async_trait;
use bytes::Bytes;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What a create finds may vanish before it is opened, and what it does not find may come: so often and no more.
const TRIES: u32 = 32;

struct Handle {
    core: Arc<Core>,
    file: Arc<File>,
    flags: OpenFlags,
}

impl Handle {
    async fn new(core: &Arc<Core>, node: NodeId, flags: OpenFlags) -> Handle {
        Handle { core: core.clone(), file: core.nodes.open(node).await, flags }
    }

    fn may_read(&self, operation: &'static str) -> Result<()> {
        match self.flags.access {
            Access::Write => Err(Error::new(operation, Errno::EBADF).context("opened only to write")),
            _ => Ok(()),
        }
    }

    fn may_write(&self, operation: &'static str) -> Result<()> {
        match self.flags.access {
            Access::Read => Err(Error::new(operation, Errno::EBADF).context("opened only to read")),
            _ => self.core.check_alive(),
        }
    }

    /// Commits what was written. An error is the writer's: it was told, so what it wrote goes with its last close.
    async fn commit(&self, durable: bool) -> Result<()> {
        let mut result = data::flush(&self.core, &self.file, durable).await;
        for _ in 0..FULL_TRIES {
            if !matches!(&result, Err(error) if error.errno() == Errno::ENOSPC) {
                break;
            }
            await_room(&self.core).await;
            result = data::flush(&self.core, &self.file, durable).await;
        }
        if result.is_err() && !self.file.is_clean() {
            self.file.tell();
        }
        result
    }
}

/// Opens a regular file. Costs no commit unless it cuts the file, or the file lost its last name.
pub async fn open(core: &Arc<Core>, caller: &Caller, node: NodeId, flags: OpenFlags) -> Result<Arc<dyn OpenFile>> {
    // Counted before anything is read: whoever removes the file's last name from now on learns that it is open.
    let handle = Handle::new(core, node, flags).await;
    let (inode, stats) = records(core, node).await?;
    match inode.kind {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Error::new("open", Errno::EISDIR)),
        FileKind::Symlink => return Err(Error::new("open", Errno::ELOOP)),
        _ => return Err(Error::new("open", Errno::ENXIO).context("no regular file")),
    }
    if stats.links == 0 && !orphans::claim(core, node).await? {
        return Err(super::view::stale("open", node));
    }
    // Also where it is opened only to read: the kernel has asked for the right to write (open(2)).
    if flags.truncate {
        attrs::set(core, caller, node, &SetAttr::size(0), Privileges::of(caller)).await?;
    }
    Ok(Arc::new(handle))
}

/// Opens the file that a name means, and makes it where there is none.
pub async fn create(
    core: &Arc<Core>,
    caller: &Caller,
    dir: NodeId,
    name: &Name,
    mode: Mode,
    flags: OpenFlags,
) -> Result<(Entry, Arc<dyn OpenFile>)> {
    let key = Key::Dentry(dir, name.clone());
    for _ in 0..TRIES {
        let found = if flags.exclusive { None } else { core.get(std::slice::from_ref(&key)).await?.0.pop().flatten() };
        let (result, retry) = match found {
            Some(stored) => (open_known(core, caller, dentry_of(stored)?.record.node, flags).await, Errno::ESTALE),
            None => (make_open(core, caller, dir, name, mode, flags).await, Errno::EEXIST),
        };
        match result {
            Err(error) if error.errno() == retry && !flags.exclusive => core.records.drop(&key),
            settled => return settled,
        }
    }
    Err(Error::new("create", Errno::EIO).context(format!("{name} came and went {TRIES} times")))
}

async fn open_known(
    core: &Arc<Core>,
    caller: &Caller,
    node: NodeId,
    flags: OpenFlags,
) -> Result<(Entry, Arc<dyn OpenFile>)> {
    let file = open(core, caller, node, flags).await?;
    let unsaved = pending(core, node);
    let (inode, stats) = records(core, node).await?;
    Ok((entry(core, node, &inode, &stats, unsaved), file))
}

async fn make_open(
    core: &Arc<Core>,
    caller: &Caller,
    dir: NodeId,
    name: &Name,
    mode: Mode,
    flags: OpenFlags,
) -> Result<(Entry, Arc<dyn OpenFile>)> {
    let node = numbers::next(core).await?;
    let handle = Handle::new(core, node, flags).await;
    let new = NewFile { operation: "create", kind: FileKind::Regular, mode, rdev: 0, target: b"" };
    let (inode, stats) =
        redo!(core, "create", Some(caller.origin), |txn| build_new(&mut txn, caller, dir, name, node, &new));
    Ok((entry(core, node, &inode, &stats, None), Arc::new(handle)))
}

#[async_trait]
impl OpenFile for Handle {
    async fn read_at(&self, offset: u64, len: u32) -> Result<Bytes> {
        self.may_read("read")?;
        data::read(&self.core, &self.file, offset, len).await
    }

    async fn write_at(&self, caller: &Caller, offset: u64, data: Bytes, privileges: Privileges) -> Result<()> {
        self.may_write("write")?;
        if data.is_empty() {
            return Ok(());
        }
        if self.flags.append {
            data::append(&self.core, &self.file, caller, offset, &data, privileges).await?;
        } else {
            let end = end_of("write", offset, data.len() as u64)?;
            privileges::drop_before_write(&self.core, caller, self.file.node, privileges).await?;
            if self.file.is_full() {
                self.commit(false).await?;
            }
            if self.file.write(offset, data, Timestamp::now()) {
                self.core.enqueue(self.file.clone());
            }
            self.core.tell(caller.origin, &[], &[(self.file.node, offset, end)]);
        }
        if self.flags.sync { self.commit(true).await } else { Ok(()) }
    }

    async fn truncate(&self, caller: &Caller, size: u64, privileges: Privileges) -> Result<()> {
        self.may_write("truncate")?;
        attrs::set(&self.core, caller, self.file.node, &SetAttr::size(size), privileges).await?;
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
        self.may_write("fallocate")?;
        data::allocate(&self.core, &self.file, caller, offset, len, mode, privileges).await
    }

    async fn seek(&self, offset: u64, whence: Seek) -> Result<u64> {
        data::seek(&self.core, &self.file, offset, whence).await
    }

    async fn flush(&self) -> Result<()> {
        self.commit(false).await
    }

    async fn sync(&self, _data_only: bool) -> Result<()> {
        self.commit(true).await
    }

    async fn attr(&self) -> Result<Attr> {
        attr(&self.core, self.file.node).await
    }

    async fn lock(&self, request: &LockRequest) -> Result<()> {
        locks::lock(&self.core, self.file.node, request).await
    }

    async fn unlock(&self, owner: LockOwner, range: LockRange) -> Result<()> {
        locks::unlock(&self.core, self.file.node, owner, range).await
    }

    async fn lock_in_the_way(&self, request: &LockRequest) -> Result<Option<LockInTheWay>> {
        locks::find(&self.core, self.file.node, request).await
    }

    fn watch_locks(&self) -> LockWatch {
        self.core.freed_locks.watch(self.file.node)
    }

    fn backing_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let node = self.file.node;
        match self.core.nodes.close(node) {
            Closed::StillOpen => return,
            Closed::Free => {
                self.file.discard();
                self.core.freed.notify_one();
            }
            Closed::Last if self.file.is_given_up() => {
                tracing::error!(%node, "what was written to it is lost: it could not be committed, as its close was told");
                self.file.discard();
                self.core.tell(Origin::OUTSIDE, &[], &[(node, 0, u64::MAX)]);
            }
            Closed::Last => {}
        }
        self.core.nodes.tidy(node);
    }
}
