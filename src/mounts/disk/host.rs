//! Calls to the host's filesystem, all relative to a descriptor; none follows a symbolic link.

use crate::types::{Attr, Errno, Error, FileKind, Mode, Name, NodeId, Timestamp};
use rustix::fs::{AtFlags, OFlags, Statx, StatxFlags, StatxTimestamp};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// The error of an operation that the host refused; its errno is kept.
pub fn failed(operation: &'static str) -> impl Fn(rustix::io::Errno) -> Error + Copy {
    move |errno| Error::new(operation, Errno::from_raw(errno.raw_os_error()))
}

/// A descriptor that only says which file is meant; a symbolic link's own.
pub const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What every opening of a file's bytes asks for: no terminal, no waiting, no descriptor left to a child.
pub const OPEN: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY).union(OFlags::NONBLOCK).union(OFlags::LARGEFILE);

/// A descriptor that says which file `name` is in `dir`; a symbolic link's own.
pub fn open_child(dir: BorrowedFd<'_>, name: &Name) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(dir, name.as_bytes(), PATH, rustix::fs::Mode::empty())
}

/// The path under which the kernel itself leads to the file of `fd`. It jumps there and resolves nothing, so it ends
/// at a symbolic link itself, and finds a file that has no name any more.
pub fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// A descriptor that only says which file `fd` is open on.
pub fn path_of(fd: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    // Not `NOFOLLOW`: the last step is the jump itself.
    rustix::fs::open(proc_path(fd), OFlags::PATH | OFlags::CLOEXEC, rustix::fs::Mode::empty())
}

/// Opens the file of `fd` once more, with other flags.
pub fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(proc_path(fd), flags | OPEN, rustix::fs::Mode::empty())
}

/// What is asked about a file.
const ALL: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME).union(StatxFlags::MNT_ID);

/// Everything `stat` tells of the file of `fd`, and of where it is mounted.
pub fn stat(fd: BorrowedFd<'_>) -> rustix::io::Result<Statx> {
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, ALL)
}

/// As [`stat`], of the file that `name` is in `dir`; a symbolic link's own.
pub fn stat_child(dir: BorrowedFd<'_>, name: &Name) -> rustix::io::Result<Statx> {
    let how = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(dir, name.as_bytes(), how, ALL)
}

/// The kind of file; a kind that Linux does not have counts as a regular file.
pub fn kind(stat: &Statx) -> FileKind {
    FileKind::from_st_mode(u32::from(stat.stx_mode)).unwrap_or(FileKind::Regular)
}

/// The attributes of the file, under its number here.
pub fn attr(stat: &Statx, node: NodeId) -> Attr {
    Attr {
        node,
        kind: kind(stat),
        mode: Mode::new(u32::from(stat.stx_mode)),
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        links: stat.stx_nlink,
        rdev: pack_device(stat.stx_rdev_major, stat.stx_rdev_minor),
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        block_size: stat.stx_blksize,
        atime: time(stat.stx_atime),
        mtime: time(stat.stx_mtime),
        ctime: time(stat.stx_ctime),
    }
}

fn time(time: StatxTimestamp) -> Timestamp {
    Timestamp::from_parts(time.tv_sec, time.tv_nsec)
}

/// A device number as Linux packs it into 32 bits (`new_encode_dev`).
fn pack_device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The device number that 32 bits of [`pack_device`] stand for, as system calls take it.
pub fn unpack_device(packed: u32) -> u64 {
    let (major, minor) = ((packed >> 8) & 0xfff, (packed & 0xff) | ((packed >> 12) & !0xff));
    rustix::fs::makedev(major, minor)
}

/// A mode as system calls take it.
pub fn raw_mode(mode: Mode) -> rustix::fs::Mode {
    rustix::fs::Mode::from_raw_mode(mode.bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_keep_twelve_and_twenty_bits() {
        for (major, minor) in [(0, 0), (1, 3), (8, 255), (259, 256), (0xfff, 0xf_ffff)] {
            let whole = unpack_device(pack_device(major, minor));
            assert_eq!((rustix::fs::major(whole), rustix::fs::minor(whole)), (major, minor));
        }
    }
}
