//! Which file a descriptor is open on, so that it is known again, and never taken for another.

use super::host;
use super::sys::Handle;
use crate::types::{FileKind, Generation};
use rustix::fs::Statx;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::BorrowedFd;

/// Where a file lies. Two files have one key only if the number was given again after the first was gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// The mount, as `statx(2)` numbers it. One directory that is mounted at two places is two here, since a
    /// directory may have one parent only.
    pub mount: u64,
    /// The device; a mount may have several (subvolumes).
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

impl Key {
    /// The key of the file that `stat` is about.
    pub fn of(stat: &Statx) -> Key {
        let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
        Key { mount: stat.stx_mnt_id, device, inode: stat.stx_ino }
    }

    /// The filesystem that the file lies on, as far as it is mounted at one place.
    pub fn filesystem(self) -> (u64, u64) {
        (self.mount, self.device)
    }

    /// The key of another file in the same filesystem.
    pub fn beside(self, inode: u64) -> Key {
        Key { inode, ..self }
    }
}

/// Which file it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Where it lies.
    pub key: Key,
    /// Its kind, which never changes.
    pub kind: FileKind,
    /// Its handle, where its filesystem has any.
    pub handle: Option<Handle>,
    /// When it was made, where there is no handle to tell it from an earlier file of its number.
    birth: Option<(i64, u32)>,
}

impl Identity {
    /// Tells the file from others that had its number at other times.
    pub fn generation(&self) -> Generation {
        let mut hasher = DefaultHasher::new();
        self.handle.hash(&mut hasher);
        self.birth.hash(&mut hasher);
        Generation(hasher.finish())
    }
}

/// A file as it was when a descriptor was looked at.
pub struct Seen {
    /// Which file it is.
    pub identity: Identity,
    /// Its attributes.
    pub stat: Statx,
}

/// Looks at the file that `fd` is open on, `O_PATH` or not.
pub fn see(fd: BorrowedFd<'_>) -> rustix::io::Result<Seen> {
    let stat = host::stat(fd)?;
    let handle = Handle::of(fd)?;
    let birth = match handle {
        None if !is_overlay(fd)? => Some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
        _ => None,
    };
    Ok(Seen { identity: Identity { key: Key::of(&stat), kind: host::kind(&stat), handle, birth }, stat })
}

/// On an overlay a file is born anew when it is first written to (it is copied up), and yet stays the same.
fn is_overlay(fd: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    const OVERLAYFS: u64 = 0x794c_7630;
    Ok(rustix::fs::fstatfs(fd)?.f_type as u64 & 0xffff_ffff == OVERLAYFS)
}
