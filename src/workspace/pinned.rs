//! What pinned directories look like by themselves, and where their entries lie.

use super::skeleton::Skeleton;
use crate::types::{Attr, Cookie, FileKind, Mode, StatFs, Timestamp};

/// Cookies of a pinned directory's own entries lie below this; those of its volume are moved up by as much.
const OWN_COOKIES: u64 = 1 << 16;

/// What a directory that no volume has looks like: made now, by whoever runs this process.
pub(super) fn made_up() -> Attr {
    let now = Timestamp::now();
    Attr {
        node: Skeleton::id(0),
        kind: FileKind::Directory,
        mode: Mode::new(0o755),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        links: 1,
        rdev: 0,
        size: 0,
        blocks: 0,
        block_size: 4096,
        atime: now,
        mtime: now,
        ctime: now,
    }
}

/// A tree of mounts and nothing else holds nothing.
pub(super) const EMPTY: StatFs =
    StatFs { block_size: 4096, blocks: 0, free: 0, available: 0, files: 0, files_free: 0, name_max: 255 };

/// A volume's cookie, behind the pinned entries.
pub(super) fn moved(cookie: Cookie) -> Cookie {
    Cookie(cookie.0.saturating_add(OWN_COOKIES).min(i64::MAX as u64))
}

/// Undoes [`moved`]. A volume's last possible cookie, `i64::MAX`, is where ext4 ends a directory, so it stays.
pub(super) fn unmoved(cookie: Cookie) -> Cookie {
    if cookie.0 == i64::MAX as u64 { cookie } else { Cookie(cookie.0.saturating_sub(OWN_COOKIES)) }
}
