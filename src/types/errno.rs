//! The error numbers of the operating system.

use std::fmt;

/// An error number of `<errno.h>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($name:ident)*) => {
        #[allow(missing_docs, reason = "the names are those of errno(3)")]
        impl Errno {
            $(pub const $name: Errno = Errno(libc::$name);)*

            /// The name of `<errno.h>`, where workfs gives this number by name.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $(libc::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    E2BIG EACCES EAGAIN EBADF EBUSY EDQUOT EEXIST EFBIG EINTR EINVAL EIO EISDIR ELOOP EMFILE EMLINK
    ENAMETOOLONG ENFILE ENODATA ENODEV ENOENT ENOMEM ENOSPC ENOSYS ENOTCONN ENOTDIR ENOTEMPTY ENXIO EOPNOTSUPP
    EOVERFLOW EPERM ERANGE EROFS ESTALE ETIMEDOUT ETXTBSY EXDEV
}

impl Errno {
    /// From the operating system's number.
    pub fn from_raw(raw: i32) -> Errno {
        Errno(raw)
    }

    /// The operating system's number.
    pub fn raw(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
