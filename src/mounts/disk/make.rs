//! Making files, directories, links and special files.

use super::core::{Core, expect_regular, raw_access};
use super::descriptors::Backing;
use super::host::{self, failed};
use super::identity;
use super::nodes::Node;
use super::tree::PathFd;
use crate::mounts::OpenFile;
use crate::types::{Access, Caller, ChangeKind, Entry, Errno, Error, FileKind, Mode, Name, NodeId, OpenFlags, Result};
use rustix::fs::{AtFlags, CWD, OFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How often a create is tried while others make and remove the name.
const CREATES: usize = 16;

impl Core {
    /// `Volume::create`
    pub fn create(
        &self,
        caller: &Caller,
        id: NodeId,
        name: &Name,
        mode: Mode,
        flags: OpenFlags,
    ) -> Result<(Entry, Arc<dyn OpenFile>)> {
        let (dir, fd) = self.directory("create", id)?;
        for _ in 0..CREATES {
            match self.create_new(caller, &fd, name, mode)? {
                Some(made) => {
                    let backing = Arc::new(Backing::new(made, Access::ReadWrite));
                    return self.created(caller, &dir, name, backing, flags);
                }
                None if flags.exclusive => return Err(Error::new("create", Errno::EEXIST)),
                None => {}
            }
            if let Some(backing) = self.open_existing(caller, &fd, name, flags)? {
                return self.opened(caller, &dir, name, backing, flags);
            }
        }
        Err(Error::new("create", Errno::EIO).context(format!("{name} keeps coming and going")))
    }

    /// Makes a new regular file; `None` where the name exists.
    fn create_new(&self, caller: &Caller, dir: &PathFd<'_>, name: &Name, mode: Mode) -> Result<Option<OwnedFd>> {
        let acting = self.daemon.make_as(caller, dir.as_fd(), mode)?;
        // For both, whatever was asked: a new file's opener is not bound by its mode.
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | host::OPEN;
        match rustix::fs::openat(dir, name.as_bytes(), flags, host::raw_mode(mode)) {
            Ok(made) => acting.mend_mode(made.as_fd()).map(|()| Some(made)).map_err(failed("create")),
            Err(rustix::io::Errno::EXIST) => Ok(None),
            Err(errno) => Err(failed("create")(errno)),
        }
    }

    /// Opens a file that was there. The kernel did not know of it when it asked, so it has not checked whether the
    /// caller may: the host does, and it is asked as the caller. `None` where the name has gone meanwhile.
    fn open_existing(
        &self,
        caller: &Caller,
        dir: &PathFd<'_>,
        name: &Name,
        flags: OpenFlags,
    ) -> Result<Option<Backing>> {
        let path = match host::open_child(dir.as_fd(), name) {
            Ok(path) => path,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed("create")(errno)),
        };
        expect_regular("create", host::kind(&host::stat(path.as_fd()).map_err(failed("create"))?))?;
        let _acting = self.daemon.check_as(caller)?;
        let how = raw_access(flags.access) | if flags.truncate { OFlags::TRUNC } else { OFlags::empty() };
        let fd = host::reopen(path.as_fd(), how).map_err(failed("create"))?;
        Ok(Some(Backing::new(fd, flags.access)))
    }

    fn created(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name,
        backing: Arc<Backing>,
        flags: OpenFlags,
    ) -> Result<(Entry, Arc<dyn OpenFile>)> {
        let (node, entry) = self.enter_opened(dir, name, &backing).map_err(failed("create"))?;
        if self.tree.by_handle() {
            self.descriptors.keep(&node, &backing);
        }
        self.feed.tell_entry(caller, dir.id, name);
        Ok((entry, self.file(&node, backing, flags)))
    }

    fn opened(
        &self,
        caller: &Caller,
        dir: &Node,
        name: &Name,
        backing: Backing,
        flags: OpenFlags,
    ) -> Result<(Entry, Arc<dyn OpenFile>)> {
        let (node, entry) = self.enter_opened(dir, name, &backing).map_err(failed("create"))?;
        if flags.truncate {
            self.feed.tell(caller, || ChangeKind::Data { node: node.id, offset: 0, len: u64::MAX });
        }
        Ok((entry, self.file(&node, Arc::new(backing), flags)))
    }

    fn enter_opened(&self, dir: &Node, name: &Name, backing: &Backing) -> rustix::io::Result<(Arc<Node>, Entry)> {
        let seen = identity::see(backing.fd.as_fd())?;
        let keep = if self.tree.by_handle() { None } else { Some(host::path_of(backing.fd.as_fd())?) };
        Ok(self.tree.enter_seen(dir, name, seen, keep))
    }

    /// `Volume::mkdir`
    pub fn mkdir(&self, caller: &Caller, id: NodeId, name: &Name, mode: Mode) -> Result<Entry> {
        self.make("mkdir", caller, id, name, mode, |dir| {
            rustix::fs::mkdirat(dir, name.as_bytes(), host::raw_mode(mode))
        })
    }

    /// `Volume::mknod`
    pub fn mknod(
        &self,
        caller: &Caller,
        id: NodeId,
        name: &Name,
        kind: FileKind,
        mode: Mode,
        rdev: u32,
    ) -> Result<Entry> {
        if matches!(kind, FileKind::Directory | FileKind::Symlink) {
            return Err(Error::new("mknod", Errno::EPERM).context("this kind is made by a call of its own"));
        }
        let (host_kind, device) = (rustix::fs::FileType::from_raw_mode(kind.st_mode()), host::unpack_device(rdev));
        self.make("mknod", caller, id, name, mode, |dir| {
            rustix::fs::mknodat(dir, name.as_bytes(), host_kind, host::raw_mode(mode), device)
        })
    }

    /// `Volume::symlink`
    pub fn symlink(&self, caller: &Caller, id: NodeId, name: &Name, target: &[u8]) -> Result<Entry> {
        self.make("symlink", caller, id, name, Mode::new(0), |dir| rustix::fs::symlinkat(target, dir, name.as_bytes()))
    }

    /// Makes something as the caller, and looks it up.
    fn make(
        &self,
        operation: &'static str,
        caller: &Caller,
        id: NodeId,
        name: &Name,
        mode: Mode,
        make: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<()>,
    ) -> Result<Entry> {
        let (dir, fd) = self.directory(operation, id)?;
        let acting = self.daemon.make_as(caller, fd.as_fd(), mode)?;
        make(fd.as_fd()).map_err(failed(operation))?;
        let made = host::open_child(fd.as_fd(), name).map_err(failed(operation))?;
        acting.mend_mode(made.as_fd()).map_err(failed(operation))?;
        drop(acting);
        let (_, entry) = self.tree.enter(&dir, name, made).map_err(failed(operation))?;
        self.feed.tell_entry(caller, dir.id, name);
        Ok(entry)
    }

    /// `Volume::link`
    pub fn link(&self, caller: &Caller, node: NodeId, id: NodeId, name: &Name) -> Result<Entry> {
        let node = self.tree.nodes.get("link", node)?;
        if node.kind() == FileKind::Directory {
            return Err(Error::new("link", Errno::EPERM).context("a directory has one name"));
        }
        let (dir, fd) = self.directory("link", id)?;
        let path = self.tree.path_fd("link", &node)?;
        // By the descriptor itself it takes a capability; through `/proc` anybody may.
        let done = rustix::fs::linkat(&path, c"", &fd, name.as_bytes(), AtFlags::EMPTY_PATH);
        let done = match done {
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::PERM) if !self.tree.by_handle() => {
                let path = host::proc_path(path.as_fd());
                rustix::fs::linkat(CWD, path, &fd, name.as_bytes(), AtFlags::SYMLINK_FOLLOW)
            }
            done => done,
        };
        done.map_err(failed("link"))?;
        let linked = host::open_child(fd.as_fd(), name).map_err(failed("link"))?;
        let (node, entry) = self.tree.enter(&dir, name, linked).map_err(failed("link"))?;
        self.feed.tell_entry(caller, dir.id, name);
        self.feed.tell(caller, || ChangeKind::Attr(node.id));
        Ok(entry)
    }
}
