//! System calls that no library gives in a safe form. Every unsafe line of the tests is here or in `dir_stream.rs`.

use std::ffi::{CStr, CString};
use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Closes a descriptor and says what the filesystem answered: an error of `close(2)` means that data was lost.
pub fn close(fd: impl Into<OwnedFd>) -> Result<()> {
    // SAFETY: the descriptor was ours alone and is given up here.
    match unsafe { libc::close(fd.into().into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Makes the kernel send `signal` to the child when the thread that starts it ends, however it ends.
pub fn die_with_parent(command: &mut Command, signal: i32) {
    // SAFETY: between fork and exec only prctl is called, which is a plain system call.
    unsafe {
        command.pre_exec(move || match libc::prctl(libc::PR_SET_PDEATHSIG, signal) {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        });
    }
}

/// Sets the size of a file by its name (`truncate(2)`), which opens nothing.
pub fn truncate(path: &Path, size: u64) -> Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let size = libc::off_t::try_from(size).map_err(|_| Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: the path ends with NUL and outlives the call.
    match unsafe { libc::truncate(path.as_ptr(), size) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// The size of an extended attribute's value, asked for with an empty buffer (`getxattr(2)`).
pub fn xattr_size(path: &Path, name: &CStr) -> Result<usize> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: both texts end with NUL, and nothing is written to a buffer of no bytes.
    size(unsafe { libc::lgetxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) })
}

/// The size of the list of extended attributes, asked for with an empty buffer (`listxattr(2)`).
pub fn xattr_list_size(path: &Path) -> Result<usize> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with NUL, and nothing is written to a buffer of no bytes.
    size(unsafe { libc::llistxattr(path.as_ptr(), std::ptr::null_mut(), 0) })
}

fn size(answer: isize) -> Result<usize> {
    usize::try_from(answer).map_err(|_| Error::last_os_error())
}

/// Whose a lock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// The process's (`F_SETLK`).
    Process,
    /// The open file's (`F_OFD_SETLK`).
    OpenFile,
}

/// A byte-range lock or its opposite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
    /// None.
    Unlock,
}

fn request(lock: Lock, start: i64, len: i64) -> libc::flock {
    let kind = match lock {
        Lock::Read => libc::F_RDLCK,
        Lock::Write => libc::F_WRLCK,
        Lock::Unlock => libc::F_UNLCK,
    };
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: start, l_len: len, l_pid: 0 }
}

/// Sets a byte-range lock without waiting (`fcntl(2)`).
pub fn lock_range(file: impl AsFd, owner: Owner, lock: Lock, start: i64, len: i64) -> Result<()> {
    let operation = if owner == Owner::Process { libc::F_SETLK } else { libc::F_OFD_SETLK };
    control(file, operation, &mut request(lock, start, len))
}

/// Sets a byte-range lock of this process, and waits for it.
pub fn wait_for_range(file: impl AsFd, lock: Lock, start: i64, len: i64) -> Result<()> {
    control(file, libc::F_SETLKW, &mut request(lock, start, len))
}

/// The lock of another process that stands in the way of this one: whether it is exclusive, its start, length and pid.
pub fn conflicting_lock(file: impl AsFd, lock: Lock, start: i64, len: i64) -> Result<Option<(Lock, i64, i64, i32)>> {
    let mut request = request(lock, start, len);
    control(file, libc::F_GETLK, &mut request)?;
    Ok(match i32::from(request.l_type) {
        libc::F_UNLCK => None,
        libc::F_RDLCK => Some((Lock::Read, request.l_start, request.l_len, request.l_pid)),
        _ => Some((Lock::Write, request.l_start, request.l_len, request.l_pid)),
    })
}

fn control(file: impl AsFd, operation: i32, request: &mut libc::flock) -> Result<()> {
    // SAFETY: the descriptor is borrowed and the structure is one of fcntl(2)'s, valid for the call.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), operation, request) } {
        -1 => Err(Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A file mapped into memory.
pub struct Mapping {
    at: *mut u8,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes from the start of `file`, shared or private.
    pub fn new(file: impl AsFd, len: usize, shared: bool, writable: bool) -> Result<Mapping> {
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let kind = if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        // SAFETY: the kernel chooses the address, so nothing that is in use is replaced.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, kind, file.as_fd().as_raw_fd(), 0) };
        if at == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(Mapping { at: at.cast(), len }) }
    }

    /// A copy of `len` bytes from `offset` on.
    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.len);
        // SAFETY: the range is inside the mapping; bytes are read one by one as others may change them meanwhile.
        (offset..offset + len).map(|index| unsafe { self.at.add(index).read_volatile() }).collect()
    }

    /// Writes `bytes` at `offset`.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len);
        for (index, &byte) in bytes.iter().enumerate() {
            // SAFETY: the range is inside the mapping, which was made writable by whoever writes.
            unsafe { self.at.add(offset + index).write_volatile(byte) };
        }
    }

    /// Writes what was changed to the file, and waits for it (`msync(2)`).
    pub fn sync(&self) -> Result<()> {
        // SAFETY: the range is the mapping.
        match unsafe { libc::msync(self.at.cast(), self.len, libc::MS_SYNC) } {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}
