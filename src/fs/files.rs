//! Requests about a file's attributes, bytes and extended attributes.

use super::convert;
use super::core::Core;
use super::counters::Operation;
use super::handles::Opened;
use super::names::ok;
use super::progress::PATIENCE;
use crate::mounts::OpenFile;
use crate::types::{
    Access, AllocateMode, Caller, Entry, Errno, Error, LockOwner, LockRange, Mode, Name, NodeId, OpenFlags, Privileges,
    Result, Seek, SetAttr,
};
use bytes::Bytes;
use fuser::{
    BackingId, FileHandle, FopenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyLseek, ReplyOpen,
    ReplyWrite, WriteFlags,
};
use std::sync::Arc;

/// How a WRITE came.
#[derive(Clone, Copy)]
pub(super) struct Written {
    /// The flags that a file without a handle is opened with.
    pub flags: OpenFlags,
    /// It writes back a mapping: its place counts, whatever the file was opened for.
    pub from_mapping: bool,
    /// What becomes of the file's privileges.
    pub privileges: Privileges,
}

impl Written {
    /// What the kernel writes back from a mapping carries no flags of an open.
    pub(super) fn new(write: WriteFlags, opened: OpenFlags) -> Written {
        let from_mapping = write.contains(WriteFlags::FUSE_WRITE_CACHE);
        let kill = write.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let append = opened.append && !from_mapping;
        Written {
            flags: OpenFlags { append, sync: opened.sync, ..OpenFlags::access(Access::Write) },
            from_mapping,
            privileges: if kill { Privileges::Drop } else { Privileges::Keep },
        }
    }
}

/// The most that one copy moves: enough to be worth a request, little enough to end well before its deadline.
const COPY_MAX: u64 = 8 << 20;
const COPY_PIECE: u32 = 1 << 20;

impl Core {
    /// The open file behind a handle, or, for the handle that stands for no open at all, the node's file.
    pub(super) async fn file(
        &self,
        caller: &Caller,
        node: NodeId,
        handle: FileHandle,
        flags: OpenFlags,
    ) -> Result<Arc<dyn OpenFile>> {
        if handle.0 == 0 {
            return self.volume.open(caller, node, OpenFlags { truncate: false, ..flags }).await;
        }
        let opened = self.handles.get(handle.0);
        opened
            .map(|opened| opened.file)
            .ok_or_else(|| Error::new("handle", Errno::EBADF).context(format!("handle {} is not open", handle.0)))
    }

    /// The open file to write to. The kernel writes a mapping back through whichever handle it finds; one that was
    /// opened to append would put the bytes at the end of the file.
    async fn written(
        &self,
        caller: &Caller,
        node: NodeId,
        handle: FileHandle,
        how: Written,
    ) -> Result<Arc<dyn OpenFile>> {
        let appends = || self.handles.get(handle.0).is_some_and(|opened| opened.append);
        let handle = if how.from_mapping && appends() { FileHandle(0) } else { handle };
        self.file(caller, node, handle, how.flags).await
    }

    pub(super) fn getattr(self: &Arc<Core>, node: NodeId, handle: Option<FileHandle>, reply: ReplyAttr) {
        let core = self.clone();
        self.serve_attr(Operation::GetAttr, reply, async move {
            match handle.and_then(|handle| core.handles.get(handle.0)) {
                Some(opened) => opened.file.attr().await,
                None => core.volume.getattr(node).await,
            }
        });
    }

    /// A size goes through the handle where there is one, so that it needs no permission that the open had already.
    pub(super) fn setattr(
        self: &Arc<Core>,
        caller: Caller,
        node: NodeId,
        set: SetAttr,
        handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let core = self.clone();
        self.serve_attr(Operation::SetAttr, reply, async move {
            let opened = handle.and_then(|handle| core.handles.get(handle.0));
            let (Some(size), Some(Opened { file, .. })) = (set.size, opened) else {
                return core.volume.setattr(&caller, node, &set).await;
            };
            file.truncate(&caller, size, Privileges::of(&caller)).await?;
            match (SetAttr { size: None, ..set }) {
                rest if rest.is_empty() => file.attr().await,
                rest => core.volume.setattr(&caller, node, &rest).await,
            }
        });
    }

    pub(super) fn readlink(self: &Arc<Core>, node: NodeId, reply: ReplyData) {
        let core = self.clone();
        let work = async move { core.volume.readlink(node).await };
        self.dispatcher.serve(Operation::ReadLink, reply, work, |target: Bytes, reply| {
            if let Some(reply) = reply {
                reply.data(&target);
            }
        });
    }

    pub(super) fn open(self: &Arc<Core>, caller: Caller, node: NodeId, flags: OpenFlags, reply: ReplyOpen) {
        let core = self.clone();
        let work = async move {
            // Close-to-open: what others have changed by now is neither remembered nor read.
            if !core.progress.caught_up(PATIENCE).await {
                tracing::debug!("a file is opened before all changes by others were told");
            }
            let file = core.volume.open(&caller, node, flags).await?;
            Ok((core, file))
        };
        self.dispatcher.serve(Operation::Open, reply, work, move |(core, file), reply| {
            let Some(reply) = reply else { return };
            let (keep, flushes) = (core.known.open(node), core.capabilities.own_locks);
            match core.backings.of(node, &*file, |fd| reply.open_backing(fd)) {
                Ok(backing) => {
                    let how = open_flags(flags, keep, flushes, backing.is_some());
                    let handle = FileHandle(core.handles.add(opened(file, flags, backing.clone())));
                    match backing {
                        Some(id) => reply.opened_passthrough(handle, how, &id),
                        None => reply.opened(handle, how),
                    }
                }
                Err(error) => reply.error(convert::errno(error.errno())),
            }
        });
    }

    pub(super) fn create(
        self: &Arc<Core>,
        caller: Caller,
        dir: NodeId,
        name: Result<Name>,
        (mode, flags): (u32, OpenFlags),
        keep_open: bool,
        reply: ReplyCreate,
    ) {
        let (core, asked) = (self.clone(), self.now());
        let work = async move {
            let name = name?;
            let (entry, file) = core.volume.create(&caller, dir, &name, Mode::new(mode), flags).await?;
            Ok((core, name, entry, file))
        };
        self.dispatcher.serve(Operation::Create, reply, work, move |(core, name, entry, file), reply| {
            let Some(reply) = reply else { return core.give_back(&entry) };
            let Entry { attr, generation, .. } = entry;
            // A kernel that does not tell of opens does not tell of this file's release either.
            let backing = match core.backings.of(attr.node, &*file, |fd| reply.open_backing(fd)) {
                Ok(backing) => backing,
                Err(error) => {
                    core.give_back(&entry);
                    return reply.error(convert::errno(error.errno()));
                }
            };
            let Some(lives) = core.known.tell(asked, dir, &name, &entry) else { return core.give_back(&entry) };
            let (keep, flushes) = (core.known.open(attr.node), core.capabilities.own_locks);
            let how = open_flags(flags, keep, flushes, backing.is_some());
            let handle = if keep_open { core.handles.add(opened(file, flags, backing.clone())) } else { 0 };
            let (lifetime, attr) = (lives.entry.min(lives.attr), convert::file_attr(&attr));
            let (generation, handle) = (fuser::Generation(generation.0), FileHandle(handle));
            match backing {
                Some(id) => reply.created_passthrough(&lifetime, &attr, generation, handle, how, &id),
                None => reply.created(&lifetime, &attr, generation, handle, how),
            }
            core.relieve();
        });
    }

    pub(super) fn read(
        self: &Arc<Core>,
        caller: Caller,
        node: NodeId,
        handle: FileHandle,
        offset: u64,
        len: u32,
        reply: ReplyData,
    ) {
        let core = self.clone();
        let work = async move {
            let file = core.file(&caller, node, handle, OpenFlags::access(Access::Read)).await?;
            file.read_at(offset, len).await
        };
        self.dispatcher.serve(Operation::Read, reply, work, |bytes: Bytes, reply| {
            if let Some(reply) = reply {
                reply.data(&bytes);
            }
        });
    }

    pub(super) fn write(
        self: &Arc<Core>,
        caller: Caller,
        (node, handle): (NodeId, FileHandle),
        offset: u64,
        data: Bytes,
        how: Written,
        reply: ReplyWrite,
    ) {
        let (core, len) = (self.clone(), data.len() as u32);
        let work = async move {
            let file = core.written(&caller, node, handle, how).await?;
            file.write_at(&caller, offset, data, how.privileges).await
        };
        self.dispatcher.serve(Operation::Write, reply, work, move |(), reply| {
            if let Some(reply) = reply {
                reply.written(len);
            }
        });
    }

    /// A descriptor was closed: what was written is committed, and then the locks of the process are given back.
    pub(super) fn flush(self: &Arc<Core>, handle: FileHandle, closer: LockOwner, reply: ReplyEmpty) {
        let (core, opened) = (self.clone(), self.handles.get(handle.0));
        let work = async move {
            let Opened { file, lockers, .. } = opened.ok_or_else(|| Error::new("flush", Errno::EBADF))?;
            let flushed = file.flush().await;
            if !core.capabilities.own_locks {
                return flushed;
            }
            let left = {
                let mut lockers = lockers.lock();
                lockers.remove(&closer);
                !lockers.is_empty()
            };
            if left {
                core.handles.note_close();
            }
            flushed.and(file.unlock(closer, LockRange::WHOLE).await)
        };
        self.dispatcher.serve(Operation::Flush, reply, work, |(), reply| ok(reply));
    }

    pub(super) fn fsync(
        self: &Arc<Core>,
        caller: Caller,
        node: NodeId,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let core = self.clone();
        let work = async move {
            let file = core.file(&caller, node, handle, OpenFlags::access(Access::Read)).await?;
            file.sync(data_only).await
        };
        self.dispatcher.serve(Operation::Fsync, reply, work, |(), reply| ok(reply));
    }

    pub(super) fn fallocate(
        self: &Arc<Core>,
        caller: Caller,
        node: NodeId,
        handle: FileHandle,
        (offset, len, mode): (u64, u64, i32),
        reply: ReplyEmpty,
    ) {
        let core = self.clone();
        let work = async move {
            let mode = AllocateMode::from_raw(mode)?;
            let file = core.file(&caller, node, handle, OpenFlags::access(Access::ReadWrite)).await?;
            // The kernel leaves set-user-id and the like to us (FUSE_HANDLE_KILLPRIV_V2), and FALLOCATE has no flag for it.
            file.allocate(&caller, offset, len, mode, Privileges::of(&caller)).await
        };
        self.dispatcher.serve(Operation::Fallocate, reply, work, |(), reply| ok(reply));
    }

    pub(super) fn lseek(
        self: &Arc<Core>,
        caller: Caller,
        node: NodeId,
        handle: FileHandle,
        (offset, whence): (i64, i32),
        reply: ReplyLseek,
    ) {
        let core = self.clone();
        let work = async move {
            let whence = Seek::from_raw(whence)?;
            // A negative place lies outside every file (lseek(2)).
            let offset = u64::try_from(offset).map_err(|_| Error::new("lseek", Errno::ENXIO))?;
            let file = core.file(&caller, node, handle, OpenFlags::access(Access::Read)).await?;
            file.seek(offset, whence).await
        };
        self.dispatcher.serve(Operation::Lseek, reply, work, |found, reply| {
            if let Some(reply) = reply {
                reply.offset(i64::try_from(found).unwrap_or(i64::MAX));
            }
        });
    }

    /// Copies between two open files of the session. The kernel could do it by reads and writes of its own, but those
    /// go in pieces of 128 KiB and twice through its page cache.
    pub(super) fn copy(
        self: &Arc<Core>,
        caller: Caller,
        from: (NodeId, FileHandle, u64),
        to: (NodeId, FileHandle, u64),
        len: u64,
        reply: ReplyWrite,
    ) {
        let core = self.clone();
        let work = async move {
            let source = core.file(&caller, from.0, from.1, OpenFlags::access(Access::Read)).await?;
            let target = core.file(&caller, to.0, to.1, OpenFlags::access(Access::Write)).await?;
            copy_range(&caller, &*source, from.2, &*target, to.2, len.min(COPY_MAX)).await
        };
        self.dispatcher.serve(Operation::CopyFileRange, reply, work, |copied, reply| {
            if let Some(reply) = reply {
                reply.written(copied as u32);
            }
        });
    }
}

fn opened(file: Arc<dyn OpenFile>, flags: OpenFlags, backing: Option<Arc<BackingId>>) -> Opened {
    Opened { file, append: flags.append, lockers: Arc::default(), backing }
}

/// Copies up to `len` bytes, in pieces. What was copied before an error counts: a short copy, as copy_file_range(2)
/// has it.
async fn copy_range(
    caller: &Caller,
    source: &dyn OpenFile,
    from: u64,
    target: &dyn OpenFile,
    to: u64,
    len: u64,
) -> Result<u64> {
    let mut copied = 0;
    while copied < len {
        let piece = (len - copied).min(u64::from(COPY_PIECE)) as u32;
        let step = async {
            let bytes = source.read_at(from + copied, piece).await?;
            let read = bytes.len() as u64;
            if read > 0 {
                target.write_at(caller, to + copied, bytes, Privileges::of(caller)).await?;
            }
            Ok(read)
        };
        match step.await {
            Ok(0) => break,
            Ok(moved) => copied += moved,
            Err(error) if copied == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(copied)
}

/// How the kernel is to treat an open file.
///
/// Appends go past its page cache: it would split them at page borders, and it would put them where it believes the
/// end to be. One that it reads and writes past us has no such flags. A file opened for reading has nothing to commit, so
/// its close need not be told, unless locks end there (`flushes`).
fn open_flags(flags: OpenFlags, keep: bool, flushes: bool, passthrough: bool) -> FopenFlags {
    let mut open = FopenFlags::empty();
    if passthrough {
        // Neither of the two below goes with it.
    } else if flags.append && flags.access.writes() {
        open |= FopenFlags::FOPEN_DIRECT_IO;
    } else if keep {
        open |= FopenFlags::FOPEN_KEEP_CACHE;
    }
    if !flags.access.writes() && !flushes {
        open |= FopenFlags::FOPEN_NOFLUSH;
    }
    open
}
