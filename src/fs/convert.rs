//! Between the kernel's words, as fuser gives them, and ours.

use crate::types::{Attr, Caller, Cookie, Errno, FileKind, NodeId, Origin, SetTime, Timestamp};
use fuser::{FileAttr, FileType, INodeNo, Request, TimeOrNow};
use std::time::{SystemTime, UNIX_EPOCH};

/// Who asks, as the kernel tells it.
pub(super) fn caller(request: &Request, origin: Origin) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), tid: request.pid(), origin }
}

/// An error number for the kernel. One that fuser does not know how to carry (0) becomes `EIO`.
pub(super) fn errno(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw())
}

/// Attributes for the kernel.
pub(super) fn file_attr(attr: &Attr) -> FileAttr {
    let ctime = SystemTime::from(attr.ctime);
    FileAttr {
        ino: INodeNo(attr.node.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime.into(),
        mtime: attr.mtime.into(),
        ctime,
        crtime: ctime,
        kind: file_type(attr.kind),
        perm: attr.mode.bits() as u16,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: attr.block_size,
        flags: 0,
    }
}

/// What the kernel reads as "no such name, and remember that": an entry of node 0.
pub(super) fn no_file() -> FileAttr {
    FileAttr { ino: INodeNo(0), ..bare_directory(NodeId(0)) }
}

/// What is told of `.` and `..` in a listing with attributes; the kernel looks at nothing but the number and the kind.
pub(super) fn bare_directory(node: NodeId) -> FileAttr {
    FileAttr {
        ino: INodeNo(node.0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::Directory,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// A kind of file for the kernel.
pub(super) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// A time that a program sets.
pub(super) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(received(time)),
    }
}

/// A time that fuser read from a request. Before 1970 it has gone wrong there: the kernel's whole seconds (negative)
/// and its nanoseconds (after them) were both counted backwards. So they are found again, exactly, as the whole and
/// the fraction of the distance.
fn received(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp::from_parts(i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(before) => {
            let distance = before.duration();
            let seconds = i64::try_from(distance.as_secs()).map_or(i64::MIN, |seconds| -seconds);
            Timestamp::from_parts(seconds, distance.subsec_nanos())
        }
    }
}

/// The kernel's offset just after `.`.
pub(super) const AFTER_DOT: u64 = 1;
/// The kernel's offset just after `..`.
pub(super) const AFTER_DOTS: u64 = 2;
/// The greatest offset there is.
const END: u64 = i64::MAX as u64;

/// The kernel's offset for a place in a directory. The last possible cookie, where ext4 ends its directories, stays
/// itself, and so do the two before it: an offset must fit into an `off_t`.
pub(super) fn offset(cookie: Cookie) -> u64 {
    cookie.0.saturating_add(AFTER_DOTS).min(END)
}

/// The place that an offset of at least [`AFTER_DOTS`] means; anything below is the start.
pub(super) fn cookie(offset: u64) -> Cookie {
    if offset >= END { Cookie(END) } else { Cookie(offset.saturating_sub(AFTER_DOTS)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// What fuser makes of the seconds and nanoseconds in a request.
    fn as_fuser_reads(seconds: i64, nanos: u32) -> SystemTime {
        match u64::try_from(seconds) {
            Ok(seconds) => UNIX_EPOCH + Duration::new(seconds, nanos),
            Err(_) => UNIX_EPOCH - Duration::new(seconds.unsigned_abs(), nanos),
        }
    }

    #[test]
    fn times_before_1970_are_found_again() {
        for (seconds, nanos) in [(-1, 0), (-1, 999_999_999), (-2, 1), (-86_400, 500_000_000), (0, 0), (0, 1), (7, 9)] {
            let time = received(as_fuser_reads(seconds, nanos));
            assert_eq!((time.seconds(), time.nanos()), (seconds, nanos));
        }
    }

    #[test]
    fn times_out_of_range_are_clamped() {
        assert_eq!(received(as_fuser_reads(i64::MIN, 0)), Timestamp(i64::MIN));
        assert_eq!(received(as_fuser_reads(i64::MAX, 0)), Timestamp(i64::MAX));
    }

    #[test]
    fn offsets_lead_back_to_their_cookies() {
        for place in [0, 1, 2, 77, 1 << 62, END - 3, END] {
            assert_eq!(cookie(offset(Cookie(place))), Cookie(place));
        }
        assert!(offset(Cookie(END - 1)) <= END);
    }
}
