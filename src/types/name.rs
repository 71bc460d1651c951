//! One component of a path.

use super::{Errno, Error, Result};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The longest name, in bytes (`NAME_MAX` of `<limits.h>`).
pub const NAME_MAX: usize = 255;

/// A directory entry's name: 1 to [`NAME_MAX`] bytes of any value but `/` and NUL, and neither `.` nor `..`.
///
/// Names are bytes, not text: whatever a local filesystem would take, a `Name` takes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Checks `bytes` and keeps them.
    ///
    /// # Errors
    /// `ENAMETOOLONG` above [`NAME_MAX`] bytes; `EINVAL` for an empty name, `.`, `..`, or one with `/` or NUL.
    pub fn new(bytes: &[u8]) -> Result<Name> {
        if bytes.len() > NAME_MAX {
            return Err(Error::new("name", Errno::ENAMETOOLONG)
                .context(format!("a name of {} bytes; the most is {NAME_MAX}", bytes.len())));
        }
        if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.iter().any(|b| matches!(b, b'/' | 0)) {
            return Err(Error::new("name", Errno::EINVAL)
                .context(format!("{:?} cannot be a name", String::from_utf8_lossy(bytes))));
        }
        Ok(Name(bytes.into()))
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as the operating system takes it.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl TryFrom<&OsStr> for Name {
    type Error = Error;
    fn try_from(name: &OsStr) -> Result<Name> {
        Name::new(name.as_bytes())
    }
}

impl TryFrom<&str> for Name {
    type Error = Error;
    fn try_from(name: &str) -> Result<Name> {
        Name::new(name.as_bytes())
    }
}

impl From<Name> for OsString {
    fn from(name: Name) -> OsString {
        OsString::from_vec(name.0.into_vec())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_os_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_but_slash_and_nul_are_a_name() {
        for ok in [&b"a"[..], b"...", b"a..b", b"[...slug]", b"\xff\xfe", b" ", b"-", b"\n", &[b'x'; 255]] {
            assert_eq!(Name::new(ok).expect("a name").as_bytes(), ok);
        }
    }

    #[test]
    fn what_cannot_be_a_name_is_refused_with_its_errno() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
            assert_eq!(Name::new(bad).expect_err("no name").errno(), Errno::EINVAL);
        }
        assert_eq!(Name::new(&[b'x'; 256]).expect_err("too long").errno(), Errno::ENAMETOOLONG);
    }
}
