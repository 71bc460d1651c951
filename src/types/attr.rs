//! What `stat` tells of a file, and what `setattr` changes.

use super::{Generation, NodeId, SetTime, Timestamp};

/// The kinds of file, as `S_IFMT` has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FileKind {
    /// `S_IFREG`
    Regular,
    /// `S_IFDIR`
    Directory,
    /// `S_IFLNK`
    Symlink,
    /// `S_IFIFO`
    Fifo,
    /// `S_IFSOCK`
    Socket,
    /// `S_IFCHR`
    CharDevice,
    /// `S_IFBLK`
    BlockDevice,
}

impl FileKind {
    /// The kind in the type bits of an `st_mode`, or `None` where they name none.
    pub fn from_st_mode(st_mode: u32) -> Option<FileKind> {
        Some(match st_mode & libc::S_IFMT {
            libc::S_IFREG => FileKind::Regular,
            libc::S_IFDIR => FileKind::Directory,
            libc::S_IFLNK => FileKind::Symlink,
            libc::S_IFIFO => FileKind::Fifo,
            libc::S_IFSOCK => FileKind::Socket,
            libc::S_IFCHR => FileKind::CharDevice,
            libc::S_IFBLK => FileKind::BlockDevice,
            _ => return None,
        })
    }

    /// The type bits of an `st_mode`.
    pub fn st_mode(self) -> u32 {
        match self {
            FileKind::Regular => libc::S_IFREG,
            FileKind::Directory => libc::S_IFDIR,
            FileKind::Symlink => libc::S_IFLNK,
            FileKind::Fifo => libc::S_IFIFO,
            FileKind::Socket => libc::S_IFSOCK,
            FileKind::CharDevice => libc::S_IFCHR,
            FileKind::BlockDevice => libc::S_IFBLK,
        }
    }
}

/// Permission bits, with set-user-id, set-group-id and sticky: the low twelve bits of an `st_mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Mode(u32);

impl Mode {
    /// The low twelve bits of `bits`.
    pub const fn new(bits: u32) -> Mode {
        Mode(bits & 0o7777)
    }

    /// The bits, at most `0o7777`.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// What is left when somebody else's write or truncation takes the privileges away: no set-user-id, and no
    /// set-group-id where the group may execute (`chmod(2)`, `write(2)`).
    #[must_use]
    pub fn without_privileges(self) -> Mode {
        let mut bits = self.0 & !0o4000;
        if bits & 0o010 != 0 {
            bits &= !0o2000;
        }
        Mode(bits)
    }
}

/// A file's attributes, as `struct stat` tells them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    /// The file's number.
    pub node: NodeId,
    /// Its kind.
    pub kind: FileKind,
    /// Its permission bits.
    pub mode: Mode,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its link count; a directory's is 2 and one more for each directory in it, or 1 where the volume does not count.
    pub links: u32,
    /// For a device, its number as `makedev` of Linux packs it into 32 bits; 0 otherwise.
    pub rdev: u32,
    /// Its size in bytes.
    pub size: u64,
    /// What it occupies, in units of 512 bytes.
    pub blocks: u64,
    /// The unit that is best for reading and writing, in bytes.
    pub block_size: u32,
    /// When it was last read.
    pub atime: Timestamp,
    /// When its bytes last changed.
    pub mtime: Timestamp,
    /// When its bytes or attributes last changed.
    pub ctime: Timestamp,
}

/// How long an entry may be remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validity {
    /// For ever, and it is never withdrawn: a mountpoint, or a directory above one.
    Pinned,
    /// As long as the volume's freshness allows, and until a change says otherwise.
    Volume,
}

/// What a lookup finds: a file, its attributes, and how long that may be remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The file's attributes, with its number.
    pub attr: Attr,
    /// Which of the files that bore this number it is.
    pub generation: Generation,
    /// How long it may be remembered.
    pub validity: Validity,
}

/// Which attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// New permission bits.
    pub mode: Option<Mode>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size in bytes: cut, or filled up with zeros.
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<SetTime>,
    /// New modification time.
    pub mtime: Option<SetTime>,
}

impl SetAttr {
    /// Only a new size.
    pub fn size(size: u64) -> SetAttr {
        SetAttr { size: Some(size), ..SetAttr::default() }
    }

    /// Whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        *self == SetAttr::default()
    }
}

/// What `statvfs(3)` tells of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatFs {
    /// The unit of the block counts, in bytes.
    pub block_size: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks free.
    pub free: u64,
    /// Blocks free to ordinary users.
    pub available: u64,
    /// Files that there may be; 0 where nothing bounds them.
    pub files: u64,
    /// Files that may still be made.
    pub files_free: u64,
    /// The longest name, in bytes.
    pub name_max: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_round_trip_through_st_mode() {
        for kind in [
            FileKind::Regular,
            FileKind::Directory,
            FileKind::Symlink,
            FileKind::Fifo,
            FileKind::Socket,
            FileKind::CharDevice,
            FileKind::BlockDevice,
        ] {
            assert_eq!(FileKind::from_st_mode(kind.st_mode() | 0o7777), Some(kind));
        }
        assert_eq!(FileKind::from_st_mode(0o644), None);
    }

    #[test]
    fn privileges_go_as_write_2_says() {
        assert_eq!(Mode::new(0o6755).without_privileges().bits(), 0o755);
        assert_eq!(Mode::new(0o2644).without_privileges().bits(), 0o2644, "mandatory-lock bit stays");
    }
}
