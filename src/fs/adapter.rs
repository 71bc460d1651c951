//! What the kernel asks, as fuser gives it: unpacked and passed on.

use super::convert;
use super::core::Core;
use super::counters::Operation;
use super::files::Written;
use super::flags::Granted;
use super::locks::Wanted;
use crate::types::{Mode, Name, NodeId, OpenFlags, SetAttr};
use bytes::Bytes;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo, IoctlFlags,
    KernelConfig, LockOwner, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// One session's requests.
pub(super) struct Adapter {
    pub(super) core: Arc<Core>,
    granted: Granted,
}

impl Adapter {
    pub(super) fn new(core: Arc<Core>) -> Adapter {
        Adapter { core, granted: Granted::default() }
    }
}

fn node(number: INodeNo) -> NodeId {
    NodeId(number.0)
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.granted = Granted::negotiate(&self.core.capabilities, config);
        if self.granted.passthrough {
            self.core.backings.grant();
        }
        Ok(())
    }

    fn destroy(&mut self) {
        self.core.end();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.core.lookup(self.core.caller(request), node(parent), Name::try_from(name), reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.core.counters.asked(Operation::Forget);
        self.core.known.forget(node(number), lookups);
        self.core.volume.forget(node(number), lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        self.core.getattr(node(number), handle, reply);
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (atime, mtime) = (atime.map(convert::set_time), mtime.map(convert::set_time));
        let set = SetAttr { mode: mode.map(Mode::new), uid, gid, size, atime, mtime };
        self.core.setattr(self.core.caller(request), node(number), set, handle, reply);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        self.core.readlink(node(number), reply);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.core.mknod(self.core.caller(request), node(parent), Name::try_from(name), mode, rdev, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        self.core.mkdir(self.core.caller(request), node(parent), Name::try_from(name), mode, reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.core.remove(self.core.caller(request), node(parent), Name::try_from(name), Operation::Unlink, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.core.remove(self.core.caller(request), node(parent), Name::try_from(name), Operation::RmDir, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes().to_vec();
        self.core.symlink(self.core.caller(request), node(parent), Name::try_from(name), target, reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((node(parent), Name::try_from(name)), (node(new_parent), Name::try_from(new_name)));
        self.core.rename(self.core.caller(request), from, to, flags.bits(), reply);
    }

    fn link(&self, request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.core.link(self.core.caller(request), node(number), node(parent), Name::try_from(name), reply);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: fuser::OpenFlags, reply: ReplyOpen) {
        if self.granted.no_open {
            self.core.counters.asked(Operation::Open);
            return reply.error(Errno::ENOSYS);
        }
        let flags = OpenFlags::from_raw(flags.0);
        self.core.open(self.core.caller(request), node(number), flags, reply);
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: fuser::OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.core.read(self.core.caller(request), node(number), handle, offset, size, reply);
    }

    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: fuser::OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (caller, data) = (self.core.caller(request), Bytes::copy_from_slice(data));
        let how = Written::new(write_flags, OpenFlags::from_raw(flags.0));
        self.core.write(caller, (node(number), handle), offset, data, how, reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        if self.core.stateless() {
            self.core.counters.asked(Operation::Flush);
            return reply.error(Errno::ENOSYS);
        }
        self.core.flush(handle, self.core.locker(owner), reply);
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        _flags: fuser::OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.core.release(node(number), handle, reply);
    }

    fn fsync(&self, request: &Request, number: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.core.fsync(self.core.caller(request), node(number), handle, data_only, reply);
    }

    /// Directories are read by node and cookie, so their opens mean nothing: where the kernel need not tell of them,
    /// it also keeps their listings.
    fn opendir(&self, _: &Request, _: INodeNo, _: fuser::OpenFlags, reply: ReplyOpen) {
        self.core.counters.asked(Operation::OpenDir);
        match self.granted.no_opendir {
            true => reply.error(Errno::ENOSYS),
            false => reply.opened(FileHandle(0), FopenFlags::empty()),
        }
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.core.readdir(node(number), offset, reply);
    }

    fn readdirplus(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        self.core.readdirplus(node(number), offset, reply);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, _: FileHandle, _: fuser::OpenFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.core.fsyncdir(reply);
    }

    fn statfs(&self, _: &Request, number: INodeNo, reply: ReplyStatfs) {
        self.core.statfs(node(number), reply);
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let pair = (name.as_bytes().to_vec(), value.to_vec());
        self.core.setxattr(self.core.caller(request), node(number), pair, flags, reply);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.core.getxattr(node(number), name.as_bytes().to_vec(), size, reply);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        self.core.listxattr(request.uid(), node(number), size, reply);
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.core.removexattr(self.core.caller(request), node(number), name.as_bytes().to_vec(), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (caller, flags) = (self.core.caller(request), OpenFlags::from_raw(flags));
        self.core.create(caller, node(parent), Name::try_from(name), (mode, flags), !self.granted.no_open, reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.core.fallocate(self.core.caller(request), node(number), handle, (offset, length, mode), reply);
    }

    fn lseek(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.core.lseek(self.core.caller(request), node(number), handle, (offset, whence), reply);
    }

    fn copy_file_range(
        &self,
        request: &Request,
        source: INodeNo,
        source_handle: FileHandle,
        source_offset: u64,
        target: INodeNo,
        target_handle: FileHandle,
        target_offset: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let from = (node(source), source_handle, source_offset);
        let to = (node(target), target_handle, target_offset);
        self.core.copy(self.core.caller(request), from, to, len, reply);
    }

    fn getlk(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        self.core.find_lock(handle, Wanted { owner: self.core.locker(owner), start, end, kind, pid }, reply);
    }

    fn setlk(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        wait: bool,
        reply: ReplyEmpty,
    ) {
        let wanted = Wanted { owner: self.core.locker(owner), start, end, kind, pid };
        self.core.set_lock(handle, wanted, wait.then(|| request.pid()), reply);
    }

    // What follows is refused for ever, without fuser's log line. Permission is checked by the kernel
    // (default_permissions), and no file here has controls or can be waited for.

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(Errno::ENOSYS);
    }
}
