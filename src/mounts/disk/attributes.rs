//! Changing attributes.

use super::core::Core;
use super::host::{self, failed};
use super::tree::PathFd;
use crate::types::{Attr, Caller, ChangeKind, Errno, Error, FileKind, Mode, NodeId, Result, SetAttr, SetTime};
use rustix::fs::{AtFlags, Gid, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use std::os::fd::AsFd;

impl Core {
    /// `Volume::setattr`
    pub fn setattr(&self, caller: &Caller, id: NodeId, set: &SetAttr) -> Result<Attr> {
        let node = self.tree.nodes.get("setattr", id)?;
        check_kind(node.kind(), set)?;
        let fd = self.tree.path_fd("setattr", &node)?;
        let before = self.attr("setattr", &node, &fd)?;
        if set.is_empty() {
            return Ok(before);
        }
        // In an order in which whatever may be refused comes before what cannot be taken back.
        let result = set_owner(&fd, set)
            .and_then(|()| set_mode(&fd, set.mode))
            .and_then(|()| set_size(&fd, set, caller, &before))
            .and_then(|()| set_times(&fd, set));
        if let Err(error) = result {
            put_back(&fd, set, &before);
            return Err(error);
        }
        let after = self.attr("setattr", &node, &fd)?;
        self.feed.tell(caller, || match set.size {
            Some(size) => ChangeKind::Data { node: id, offset: size.min(before.size), len: u64::MAX },
            None => ChangeKind::Attr(id),
        });
        Ok(after)
    }
}

fn check_kind(kind: FileKind, set: &SetAttr) -> Result<()> {
    let errno = match (kind, set.size, set.mode) {
        (FileKind::Directory, Some(_), _) => Errno::EISDIR,
        (FileKind::Regular, Some(_), _) | (_, None, None) => return Ok(()),
        (_, Some(_), _) => Errno::EINVAL,
        // Linux keeps no mode for them.
        (FileKind::Symlink, None, Some(_)) => Errno::EOPNOTSUPP,
        (_, None, Some(_)) => return Ok(()),
    };
    Err(Error::new("setattr", errno))
}

/// The host takes set-user-id and set-group-id away with it, whoever asks.
fn set_owner(fd: &PathFd<'_>, set: &SetAttr) -> Result<()> {
    if set.uid.is_none() && set.gid.is_none() {
        return Ok(());
    }
    let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
    rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(failed("chown"))
}

fn set_mode(fd: &PathFd<'_>, mode: Option<Mode>) -> Result<()> {
    let Some(mode) = mode else { return Ok(()) };
    rustix::fs::chmod(host::proc_path(fd.as_fd()), host::raw_mode(mode)).map_err(failed("chmod"))
}

/// A size marks the times for update also where it was that before (`open(2)` with `O_TRUNC`), which `truncate(2)` of the
/// host does not do.
fn set_size(fd: &PathFd<'_>, set: &SetAttr, caller: &Caller, before: &Attr) -> Result<()> {
    let Some(size) = set.size else { return Ok(()) };
    let size = i64::try_from(size).map_err(|_| Error::new("truncate", Errno::EFBIG))?;
    super::sys::truncate(fd.as_fd(), size).map_err(failed("truncate"))?;
    if size as u64 == before.size {
        set_times(fd, &SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() })?;
    }
    // The host does so itself only for ordinary users, which root is not.
    let mode = before.mode;
    if caller.uid != 0 && set.mode.is_none() && mode.without_privileges() != mode {
        return set_mode(fd, Some(mode.without_privileges()));
    }
    Ok(())
}

fn set_times(fd: &PathFd<'_>, set: &SetAttr) -> Result<()> {
    if set.atime.is_none() && set.mtime.is_none() {
        return Ok(());
    }
    let times = Timestamps { last_access: raw_time(set.atime), last_modification: raw_time(set.mtime) };
    rustix::fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH).map_err(failed("utimensat"))
}

fn raw_time(time: Option<SetTime>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(SetTime::Now) => (0, UTIME_NOW),
        Some(SetTime::At(time)) => (time.seconds(), time.nanos().into()),
    };
    Timespec { tv_sec, tv_nsec }
}

/// After a refusal: owner, mode and times as they were. What was refused last has not changed anything, and only a size
/// could not be put back, after which nothing but times are set.
fn put_back(fd: &PathFd<'_>, set: &SetAttr, before: &Attr) {
    let owner = SetAttr { uid: set.uid.map(|_| before.uid), gid: set.gid.map(|_| before.gid), ..SetAttr::default() };
    let touched = set.uid.is_some() || set.gid.is_some() || set.mode.is_some();
    let mode = (touched && before.kind != FileKind::Symlink).then_some(before.mode);
    let done = set_owner(fd, &owner).and_then(|()| set_mode(fd, mode));
    if let Err(error) = done {
        tracing::debug!(%error, node = %before.node, "attributes could not be put back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Timestamp;

    #[test]
    fn times_before_1970_go_down_as_they_are() {
        let time = raw_time(Some(SetTime::At(Timestamp::from_parts(-2, 250_000_000))));
        assert_eq!((time.tv_sec, time.tv_nsec), (-2, 250_000_000));
    }
}
