//! The flags of the calls, as types.

use super::{Caller, Errno, Error, Result};

/// How an open file may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Access {
    /// `O_RDONLY`
    Read,
    /// `O_WRONLY`
    Write,
    /// `O_RDWR`
    ReadWrite,
}

impl Access {
    /// Whether bytes may be written.
    pub fn writes(self) -> bool {
        self != Access::Read
    }
}

/// The flags of `open(2)` that a volume looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFlags {
    /// How the file will be used.
    pub access: Access,
    /// `O_APPEND`: every write goes to the end of the file.
    pub append: bool,
    /// `O_TRUNC`: cut to nothing as it is opened.
    pub truncate: bool,
    /// `O_EXCL` on a create: fail where the name exists.
    pub exclusive: bool,
    /// `O_SYNC` or `O_DSYNC`: a write returns when it is durable.
    pub sync: bool,
    /// `O_DIRECT`: past the kernel's page cache.
    pub direct: bool,
}

impl OpenFlags {
    /// Only this access, no other flag.
    pub const fn access(access: Access) -> OpenFlags {
        OpenFlags { access, append: false, truncate: false, exclusive: false, sync: false, direct: false }
    }

    /// From the flags of `open(2)`.
    pub fn from_raw(raw: i32) -> OpenFlags {
        OpenFlags {
            access: match raw & libc::O_ACCMODE {
                libc::O_RDONLY => Access::Read,
                libc::O_WRONLY => Access::Write,
                _ => Access::ReadWrite,
            },
            append: raw & libc::O_APPEND != 0,
            truncate: raw & libc::O_TRUNC != 0,
            exclusive: raw & libc::O_EXCL != 0,
            sync: raw & libc::O_DSYNC != 0,
            direct: raw & libc::O_DIRECT != 0,
        }
    }
}

/// What becomes of set-user-id, set-group-id and `security.capability` when bytes change (`write(2)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Privileges {
    /// They stay: the caller may keep them.
    Keep,
    /// They go.
    Drop,
}

impl Privileges {
    /// When `caller` changes bytes: the kernel asks for `CAP_FSETID`, which nobody tells us of, so only root keeps them.
    pub fn of(caller: &Caller) -> Privileges {
        if caller.uid == 0 { Privileges::Keep } else { Privileges::Drop }
    }
}

/// What `renameat2(2)` does about an existing target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// Replace it.
    Replace,
    /// `RENAME_NOREPLACE`: fail with `EEXIST`.
    NoReplace,
    /// `RENAME_EXCHANGE`: both swap places.
    Exchange,
}

impl RenameMode {
    /// From the flags of `renameat2(2)`.
    ///
    /// # Errors
    /// `EINVAL` for `RENAME_WHITEOUT` and for flags that contradict each other or are unknown.
    pub fn from_raw(raw: u32) -> Result<RenameMode> {
        match raw {
            0 => Ok(RenameMode::Replace),
            libc::RENAME_NOREPLACE => Ok(RenameMode::NoReplace),
            libc::RENAME_EXCHANGE => Ok(RenameMode::Exchange),
            _ => Err(Error::new("rename", Errno::EINVAL).context(format!("flags {raw:#x}"))),
        }
    }
}

/// What `setxattr(2)` does about an existing attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrMode {
    /// Make or replace it.
    Set,
    /// `XATTR_CREATE`: fail with `EEXIST` where it exists.
    Create,
    /// `XATTR_REPLACE`: fail with `ENODATA` where it does not.
    Replace,
}

impl XattrMode {
    /// From the flags of `setxattr(2)`.
    ///
    /// # Errors
    /// `EINVAL` for both flags at once and for unknown ones.
    pub fn from_raw(raw: i32) -> Result<XattrMode> {
        match raw {
            0 => Ok(XattrMode::Set),
            libc::XATTR_CREATE => Ok(XattrMode::Create),
            libc::XATTR_REPLACE => Ok(XattrMode::Replace),
            _ => Err(Error::new("setxattr", Errno::EINVAL).context(format!("flags {raw:#x}"))),
        }
    }
}

/// What `fallocate(2)` does with a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocateMode {
    /// Reserve it, and grow the file to its end.
    Extend,
    /// Reserve it, and keep the size.
    KeepSize,
    /// Make it a hole, and keep the size.
    PunchHole,
    /// Make it zeros, and grow the file to its end.
    Zero,
    /// Make it zeros, and keep the size.
    ZeroKeepSize,
}

impl AllocateMode {
    /// From the mode of `fallocate(2)`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for the modes that workfs does not have (collapse, insert, unshare).
    pub fn from_raw(raw: i32) -> Result<AllocateMode> {
        const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
        const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
        const ZERO_KEEP: i32 = ZERO | KEEP;
        match raw {
            0 => Ok(AllocateMode::Extend),
            KEEP => Ok(AllocateMode::KeepSize),
            PUNCH => Ok(AllocateMode::PunchHole),
            ZERO => Ok(AllocateMode::Zero),
            ZERO_KEEP => Ok(AllocateMode::ZeroKeepSize),
            _ => Err(Error::new("fallocate", Errno::EOPNOTSUPP).context(format!("mode {raw:#x}"))),
        }
    }
}

/// What `lseek(2)` looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// `SEEK_DATA`
    Data,
    /// `SEEK_HOLE`
    Hole,
}

impl Seek {
    /// From the `whence` of `lseek(2)`; the kernel resolves the other kinds itself.
    ///
    /// # Errors
    /// `EINVAL` for any other kind.
    pub fn from_raw(raw: i32) -> Result<Seek> {
        match raw {
            libc::SEEK_DATA => Ok(Seek::Data),
            libc::SEEK_HOLE => Ok(Seek::Hole),
            _ => Err(Error::new("lseek", Errno::EINVAL).context(format!("whence {raw}"))),
        }
    }
}
