//! What a session agrees on with the kernel when it begins.

use crate::mounts::{Capabilities, Freshness, OpenStyle};
use fuser::{InitFlags, KernelConfig};

/// The largest read, write and read-ahead, in bytes: what the kernel allows a request to be.
const REQUEST_MAX: u32 = 1 << 20;
/// How many reads ahead and asynchronous writes the kernel may have under way.
const BACKGROUND: u16 = 64;

/// What was agreed on.
#[derive(Default)]
pub(super) struct Granted {
    /// The kernel need not tell of opens.
    pub(super) no_open: bool,
    /// The kernel need not tell of directories' opens.
    pub(super) no_opendir: bool,
    /// The kernel may read and write files past us.
    pub(super) passthrough: bool,
}

/// What is worth having for every volume. Left out on purpose:
/// - `WRITEBACK_CACHE`: with it the kernel trusts its own sizes and times, which is wrong where others write too.
/// - `SETXATTR_EXT`, `ALLOW_IDMAP`: fuser accepts them and then reads requests wrongly.
/// - `EXPORT_SUPPORT`: nobody looks `.` and `..` up here, so the mount cannot be exported by NFS.
/// - `ATOMIC_O_TRUNC`: a truncation on open comes as SETATTR, which needs no OPEN.
/// - `DONT_MASK`, `POSIX_ACL`: the kernel applies the umask; there are no ACLs.
const WANTED: InitFlags = InitFlags::FUSE_ASYNC_READ
    .union(InitFlags::FUSE_BIG_WRITES)
    .union(InitFlags::FUSE_MAX_PAGES)
    .union(InitFlags::FUSE_PARALLEL_DIROPS)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_CACHE_SYMLINKS)
    .union(InitFlags::FUSE_ASYNC_DIO)
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2)
    .union(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);

impl Granted {
    /// Agrees on the options that suit a volume.
    pub(super) fn negotiate(volume: &Capabilities, config: &mut KernelConfig) -> Granted {
        let offered = config.capabilities();
        let mut wanted = WANTED;
        if volume.freshness == Freshness::Timed {
            // Others may write unseen; what the kernel keeps of a file goes when its time or size is another.
            wanted |= InitFlags::FUSE_AUTO_INVAL_DATA;
        }
        if volume.own_locks {
            wanted |= InitFlags::FUSE_POSIX_LOCKS | InitFlags::FUSE_FLOCK_LOCKS;
        }
        if volume.passthrough {
            wanted |= InitFlags::FUSE_PASSTHROUGH;
            // What the kernel writes past us drops the set-user-id bit only if the kernel sees to it by SETATTR.
            wanted -= InitFlags::FUSE_HANDLE_KILLPRIV_V2;
            // The host's files may not lie on a stack of filesystems themselves, so that one may still be put on top of us.
            config.set_max_stack_depth(1).ok();
        }
        for flag in (wanted & offered).iter() {
            // Only flags that are offered are asked for, so this cannot fail.
            config.add_capabilities(flag).ok();
        }
        // Each refusal names the nearest value that would do; the defaults are no wrong values either.
        config.set_max_write(REQUEST_MAX).ok();
        config.set_max_readahead(REQUEST_MAX).or_else(|most| config.set_max_readahead(most)).ok();
        config.set_max_background(BACKGROUND).ok();
        tracing::debug!(?offered, missing = ?(wanted - offered), "agreed with the kernel");
        Granted {
            passthrough: (wanted & offered).contains(InitFlags::FUSE_PASSTHROUGH),
            no_open: volume.opens == OpenStyle::Stateless && offered.contains(InitFlags::FUSE_NO_OPEN_SUPPORT),
            no_opendir: offered.contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT),
        }
    }
}
