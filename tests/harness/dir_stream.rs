//! A directory as `opendir(3)` and its family read it: the standard library has no `telldir` and no `seekdir`.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io::{Error, Result};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// An open directory with a position.
pub struct DirStream(*mut libc::DIR);

impl DirStream {
    /// Opens `dir`.
    pub fn open(dir: &Path) -> Result<DirStream> {
        let path = CString::new(dir.as_os_str().as_bytes())?;
        // SAFETY: the path ends with NUL and lives through the call.
        let stream = unsafe { libc::opendir(path.as_ptr()) };
        if stream.is_null() { Err(Error::last_os_error()) } else { Ok(DirStream(stream)) }
    }

    /// The next name and its type (`DT_REG` and so on), `.` and `..` included; `None` at the end.
    pub fn entry(&mut self) -> Option<(OsString, u8)> {
        // SAFETY: the stream is open and used by one thread only.
        let entry = unsafe { libc::readdir(self.0) };
        if entry.is_null() {
            return None;
        }
        // SAFETY: readdir gave an entry whose name ends with NUL and lives until the next call.
        let (name, kind) = unsafe { (CStr::from_ptr((*entry).d_name.as_ptr()), (*entry).d_type) };
        Some((OsString::from_vec(name.to_bytes().to_vec()), kind))
    }

    /// The next name but `.` and `..`.
    pub fn name(&mut self) -> Option<OsString> {
        loop {
            let (name, _) = self.entry()?;
            if name != OsStr::new(".") && name != OsStr::new("..") {
                return Some(name);
            }
        }
    }

    /// The place before the next entry.
    pub fn tell(&self) -> i64 {
        // SAFETY: the stream is open.
        unsafe { libc::telldir(self.0) }
    }

    /// Goes to a place that `tell` gave.
    pub fn seek(&mut self, place: i64) {
        // SAFETY: the stream is open.
        unsafe { libc::seekdir(self.0, place) }
    }

    /// Goes back to the start and reads anew.
    pub fn rewind(&mut self) {
        // SAFETY: the stream is open.
        unsafe { libc::rewinddir(self.0) }
    }
}

impl Drop for DirStream {
    fn drop(&mut self) {
        // SAFETY: the stream is open, and never used again.
        unsafe { libc::closedir(self.0) };
    }
}
