//! What no safe library offers: every `unsafe` and `libc` line of the disk volume.

use super::host::proc_path;
use crate::types::{NAME_MAX, Name};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

/// The longest name that system calls take for one file handle, in bytes.
const HANDLE_MAX: usize = libc::MAX_HANDLE_SZ as usize;

/// A file's name for as long as it exists, whatever path it has. It holds the inode's generation, so a number that
/// came back for another file gives another handle.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Handle {
    kind: i32,
    bytes: Box<[u8]>,
}

/// `struct file_handle` with room for its bytes behind it.
#[repr(C)]
struct RawHandle {
    length: libc::c_uint,
    kind: libc::c_int,
    bytes: [u8; HANDLE_MAX],
}

impl Handle {
    /// The handle of the file that `fd` is open on, `O_PATH` or not.
    ///
    /// `None` where the filesystem has no handles.
    pub fn of(fd: BorrowedFd<'_>) -> Result<Option<Handle>, Errno> {
        Handle::named(fd, c"", libc::AT_EMPTY_PATH)
    }

    /// The handle of the file that `name` is in `dir`; a symbolic link's own. `None` as in [`Handle::of`].
    pub fn at(dir: BorrowedFd<'_>, name: &Name) -> Result<Option<Handle>, Errno> {
        let mut text = [0; NAME_MAX + 1];
        text[..name.as_bytes().len()].copy_from_slice(name.as_bytes());
        let text = CStr::from_bytes_until_nul(&text).map_err(|_| Errno::INVAL)?;
        Handle::named(dir, text, 0)
    }

    fn named(dir: BorrowedFd<'_>, name: &CStr, flags: i32) -> Result<Option<Handle>, Errno> {
        let mut raw = RawHandle { length: HANDLE_MAX as libc::c_uint, kind: 0, bytes: [0; HANDLE_MAX] };
        let mut mount = 0;
        // SAFETY: `raw` begins as `struct file_handle` does and has `length` bytes of room behind that; `name` ends
        // in NUL; both outlive the call, and the descriptor is open.
        let done = unsafe {
            libc::name_to_handle_at(dir.as_raw_fd(), name.as_ptr(), (&raw mut raw).cast(), &raw mut mount, flags)
        };
        if done == 0 {
            return Ok(Some(Handle { kind: raw.kind, bytes: raw.bytes[..raw.length as usize].into() }));
        }
        match last_errno() {
            Errno::OPNOTSUPP | Errno::OVERFLOW | Errno::NOSYS => Ok(None),
            error => Err(error),
        }
    }

    /// Opens the file, which lies on the filesystem that `mount` is open on (not as `O_PATH`).
    ///
    /// Errors: `ESTALE` once the file is gone; `EPERM` without `CAP_DAC_READ_SEARCH`; those of `open(2)`.
    pub fn open(&self, mount: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut raw = RawHandle { length: self.bytes.len() as libc::c_uint, kind: self.kind, bytes: [0; HANDLE_MAX] };
        raw.bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
        // SAFETY: `raw` begins as `struct file_handle` does, with `length` bytes behind that, and outlives the call.
        let fd =
            unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut raw).cast(), flags.bits() as libc::c_int) };
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the call just returned this descriptor, so nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// Makes `uid` the user that this thread touches files as. Returns whether it took (it does not where the number has
/// no meaning in our user namespace).
pub fn set_fs_uid(uid: u32) -> bool {
    // SAFETY: the call changes nothing but this thread's credentials; -1 is never a user, so it only asks.
    unsafe {
        libc::setfsuid(uid);
        libc::setfsuid(u32::MAX) as u32 == uid
    }
}

/// Makes `gid` the group that this thread touches files as. Returns whether it took.
pub fn set_fs_gid(gid: u32) -> bool {
    // SAFETY: as for `set_fs_uid`.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsgid(u32::MAX) as u32 == gid
    }
}

/// Gives this thread a umask (and a working directory) of its own.
pub fn unshare_umask() -> Result<(), Errno> {
    // SAFETY: only `CLONE_FS` is asked for, so no thread comes to see a descriptor table that others do not.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FS) }
}

/// Closes a copy of `fd`, to be told what a close tells: a network filesystem reports there what it failed to write.
pub fn close_a_copy(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let copy = rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 0)?.into_raw_fd();
    // SAFETY: the copy was made here and given up by its owner, so it is closed once. It counts as closed whatever
    // the call returns (`close(2)`).
    match unsafe { libc::close(copy) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// Cuts or fills up the file of `fd`, which may be `O_PATH` (`truncate(2)`).
pub fn truncate(fd: BorrowedFd<'_>, size: i64) -> Result<(), Errno> {
    let path = CString::new(proc_path(fd)).map_err(|_| Errno::INVAL)?;
    // SAFETY: the path ends in NUL and outlives the call.
    match unsafe { libc::truncate(path.as_ptr(), size) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, open};

    #[test]
    fn a_handle_finds_its_file_under_its_new_name_and_no_other() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("a folder");
        let mount = open(dir.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("opens");
        std::fs::write(dir.path().join("a"), "first").expect("written");
        let path = open(dir.path().join("a"), OFlags::PATH, Mode::empty()).expect("opens");
        let Some(handle) = Handle::of(path.as_fd()).expect("asked") else { return };
        drop(path);
        std::fs::rename(dir.path().join("a"), dir.path().join("b")).expect("renamed");
        assert_eq!(
            Handle::at(mount.as_fd(), &Name::try_from("b").expect("a name")).expect("asked"),
            Some(handle.clone())
        );
        let found = handle.open(mount.as_fd(), OFlags::RDONLY).expect("found");
        assert_eq!(rustix::fs::fstat(&found).expect("stat").st_size, 5);
        drop(found);
        std::fs::remove_file(dir.path().join("b")).expect("removed");
        std::fs::write(dir.path().join("c"), "another").expect("written");
        assert_eq!(handle.open(mount.as_fd(), OFlags::RDONLY).expect_err("it is gone"), Errno::STALE);
    }

    #[test]
    fn a_umask_of_ones_own_changes_no_other_threads() {
        let own = std::thread::spawn(|| {
            unshare_umask().expect("allowed");
            rustix::process::umask(Mode::from_raw_mode(0o777));
        });
        own.join().expect("ran");
        let dir = tempfile::tempdir().expect("a folder");
        let made = rustix::fs::openat(CWD, dir.path().join("x"), OFlags::CREATE | OFlags::RDWR, Mode::RWXU);
        assert_ne!(rustix::fs::fstat(made.expect("made")).expect("stat").st_mode & 0o700, 0);
    }
}
