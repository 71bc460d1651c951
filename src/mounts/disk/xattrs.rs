//! Extended attributes, and the targets of symbolic links.

use super::core::Core;
use super::host::{self, failed};
use crate::types::{Caller, ChangeKind, Errno, Error, FileKind, NodeId, Result, XattrMode};
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::XattrFlags;
use std::os::fd::AsFd;

/// Enough for nearly every attribute, so that one call does.
const USUAL: usize = 1024;

/// The largest value, and the largest list, that Linux has, in bytes.
const LARGEST: usize = 64 * 1024;

/// Access lists decide about permission, which the kernel decides for this volume by the mode alone; so they are not
/// shown, and none can be set.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

impl Core {
    /// `Volume::getxattr`
    pub fn getxattr(&self, id: NodeId, name: &[u8]) -> Result<Bytes> {
        self.with_attribute("getxattr", id, name, |path| read(|buffer| rustix::fs::getxattr(path, name, buffer)))
    }

    /// `Volume::listxattr`
    pub fn listxattr(&self, id: NodeId) -> Result<Vec<Bytes>> {
        let node = self.tree.nodes.get("listxattr", id)?;
        let fd = self.tree.path_fd("listxattr", &node)?;
        let path = host::proc_path(fd.as_fd());
        let all = match read_names(&path) {
            Err(rustix::io::Errno::OPNOTSUPP) => return Ok(Vec::new()),
            names => names.map_err(failed("listxattr"))?,
        };
        let names = all.split(|byte| *byte == 0).filter(|name| !name.is_empty() && !name.starts_with(ACCESS_LISTS));
        Ok(names.map(Bytes::copy_from_slice).collect())
    }

    /// `Volume::setxattr`
    pub fn setxattr(&self, caller: &Caller, id: NodeId, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let flags = match mode {
            XattrMode::Set => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        self.with_attribute("setxattr", id, name, |path| rustix::fs::setxattr(path, name, value, flags))?;
        self.feed.tell(caller, || ChangeKind::Attr(id));
        Ok(())
    }

    /// `Volume::removexattr`
    pub fn removexattr(&self, caller: &Caller, id: NodeId, name: &[u8]) -> Result<()> {
        self.with_attribute("removexattr", id, name, |path| rustix::fs::removexattr(path, name))?;
        self.feed.tell(caller, || ChangeKind::Attr(id));
        Ok(())
    }

    /// Runs `call` on a path that leads to the node's file itself, whatever kind it is.
    fn with_attribute<T>(
        &self,
        operation: &'static str,
        id: NodeId,
        name: &[u8],
        call: impl FnOnce(&str) -> rustix::io::Result<T>,
    ) -> Result<T> {
        let node = self.tree.nodes.get(operation, id)?;
        if name.starts_with(ACCESS_LISTS) {
            return Err(Error::new(operation, Errno::EOPNOTSUPP).context("access lists are not kept"));
        }
        let fd = self.tree.path_fd(operation, &node)?;
        call(&host::proc_path(fd.as_fd())).map_err(failed(operation))
    }

    /// `Volume::readlink`
    pub fn readlink(&self, id: NodeId) -> Result<Bytes> {
        let node = self.tree.nodes.get("readlink", id)?;
        if node.kind() != FileKind::Symlink {
            return Err(Error::new("readlink", Errno::EINVAL).context("no symbolic link"));
        }
        let fd = self.tree.path_fd("readlink", &node)?;
        let target = rustix::fs::readlinkat(&fd, c"", Vec::with_capacity(256)).map_err(failed("readlink"))?;
        Ok(Bytes::from(target.into_bytes()))
    }
}

type Spare<'a> = rustix::buffer::SpareCapacity<'a, u8>;

/// Reads into a small buffer, and into the largest if that was too small.
fn read(call: impl Fn(Spare<'_>) -> rustix::io::Result<usize>) -> rustix::io::Result<Bytes> {
    let mut value = Vec::with_capacity(USUAL);
    match call(spare_capacity(&mut value)) {
        Err(rustix::io::Errno::RANGE) => {
            value.reserve_exact(LARGEST);
            call(spare_capacity(&mut value))?;
        }
        done => drop(done?),
    }
    Ok(value.into())
}

fn read_names(path: &str) -> rustix::io::Result<Bytes> {
    read(|buffer| rustix::fs::listxattr(path, buffer))
}
