//! The contract of a volume.

use super::{Health, OpenFile};
use crate::types::{
    Attr, Caller, ChangeStream, Cookie, Entry, FileKind, Mode, Name, NodeId, OpenFlags, RenameMode, Result, SetAttr,
    StatFs, XattrMode,
};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;

/// How a volume's files are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenStyle {
    /// An open costs nothing and means nothing: whoever knows the node reads and writes it, and the kernel need not
    /// tell us of opens, closes and flushes.
    Stateless,
    /// Each open is told: a close commits, and an open file outlives its last name.
    PerHandle,
}

/// How soon a change made by others shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// `changes()` tells every change, so what was learnt may be kept until then.
    Pushed,
    /// Others may change files unseen: what was learnt is good for one second.
    Timed,
}

/// What a volume is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// How files are opened.
    pub opens: OpenStyle,
    /// How soon changes show.
    pub freshness: Freshness,
    /// Nothing in it can be changed: every changing operation answers `EROFS`.
    pub read_only: bool,
    /// Files may be read and written by the kernel past us, through [`OpenFile::backing_fd`]. Such a volume wants to be
    /// told of opens.
    pub passthrough: bool,
    /// Locks of its files mean something beyond one session of the kernel, so the kernel is to ask for each. Where this is
    /// not so they are better left to the kernel, and the volume's own hold in this process.
    pub own_locks: bool,
}

/// One entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// Its name.
    pub name: Name,
    /// The place just after it.
    pub cookie: Cookie,
    /// The file it names.
    pub node: NodeId,
    /// What kind of file that is.
    pub kind: FileKind,
    /// The file's attributes, where they were asked for and the file still was there. Such an entry counts as a
    /// lookup of its node.
    pub entry: Option<Entry>,
}

/// Part of a directory's entries, in the order of their cookies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// The directory's parent, for `..`; at the root, the root itself.
    pub parent: NodeId,
    /// The entries, without `.` and `..`. Empty: there are no more.
    pub entries: Vec<DirEntry>,
}

/// A filesystem of inodes and names, whatever holds it.
///
/// # Nodes
/// A node becomes known by `root`, by an [`Entry`] that an operation returns, or by a listing with entries; each
/// such return counts one, except that of the root, which is always known. `forget` takes counts back. A volume
/// must answer for a known node also after its last name is gone, until it is forgotten or, if it is open, closed.
///
/// # Errors of every method
/// `ESTALE` for a node that is not known or whose file vanished beside the volume; `EIO` where the volume cannot be
/// reached or its data is damaged; `ENOTDIR` where a directory is meant and another kind is named; `EROFS` from
/// every changing method of a read-only volume. Permission is the caller's business (`default_permissions`), so
/// `EACCES` and `EPERM` come only from what lies below.
///
/// # After an error
/// Nothing changed. Each changing operation is atomic: another caller sees the state before or after it.
///
/// A wrapper implements every method (there are no defaults), so none is lost on the way down.
#[async_trait]
pub trait Volume: Send + Sync + 'static {
    /// What this volume is like; it does not change.
    fn capabilities(&self) -> Capabilities;

    /// Changes from now on, by whomever. A volume that is [`Freshness::Timed`] tells those made through itself.
    fn changes(&self) -> ChangeStream;

    /// The root directory.
    async fn root(&self) -> Result<Entry>;

    /// The file that `name` is in `dir`.
    ///
    /// Errors: `ENOENT`.
    async fn lookup(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<Entry>;

    /// Takes back `count` of a node's lookups. Never fails; an unknown node is passed over.
    fn forget(&self, node: NodeId, count: u64);

    /// A file's attributes. The size is what a read delivers, bytes not yet committed included.
    async fn getattr(&self, node: NodeId) -> Result<Attr>;

    /// Changes attributes, all or none, and returns them all.
    ///
    /// A new size drops set-user-id, set-group-id and `security.capability` unless the caller is root
    /// (`truncate(2)`); a change of owner does so by any caller (`chown(2)`).
    ///
    /// Errors: `EISDIR` or `EINVAL` for a size of what is no regular file; `EFBIG` above the largest size.
    async fn setattr(&self, caller: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr>;

    /// At most `limit` entries of `dir` after the place `after`; with attributes where `plus`.
    ///
    /// An entry that stays in the directory from the first call to the last is listed once, whatever else comes and
    /// goes meanwhile (`readdir(3)`).
    async fn readdir(&self, dir: NodeId, after: Cookie, limit: usize, plus: bool) -> Result<Listing>;

    /// The target of a symbolic link, as it was given.
    ///
    /// Errors: `EINVAL` for what is no symbolic link.
    async fn readlink(&self, node: NodeId) -> Result<Bytes>;

    /// Opens the regular file `name` in `dir`, making it where it does not exist (`open(2)` with `O_CREAT`).
    ///
    /// A new file belongs to the caller (its group to the directory, if that has set-group-id) and has `mode`.
    ///
    /// Errors: `EEXIST` where it exists and `flags.exclusive`; `EISDIR`; `ELOOP` for a symbolic link; `ENOSPC`;
    /// `ENOENT` where `dir` was removed.
    async fn create(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        mode: Mode,
        flags: OpenFlags,
    ) -> Result<(Entry, Arc<dyn OpenFile>)>;

    /// Makes a directory; set-group-id is inherited.
    ///
    /// Errors: `EEXIST`, `EMLINK`, `ENOSPC`, `ENOENT` where `dir` was removed.
    async fn mkdir(&self, caller: &Caller, dir: NodeId, name: &Name, mode: Mode) -> Result<Entry>;

    /// Makes a regular file, fifo, socket or device (`rdev` as in [`Attr::rdev`]).
    ///
    /// Errors: `EEXIST`, `ENOSPC`, `ENOENT` where `dir` was removed, `EPERM` where this kind cannot be made.
    async fn mknod(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        kind: FileKind,
        mode: Mode,
        rdev: u32,
    ) -> Result<Entry>;

    /// Makes a symbolic link to `target`: 1 to 4,095 bytes, kept as they are.
    ///
    /// Errors: `EEXIST`, `ENAMETOOLONG`, `ENOSPC`, `ENOENT` where `dir` was removed.
    async fn symlink(&self, caller: &Caller, dir: NodeId, name: &Name, target: &[u8]) -> Result<Entry>;

    /// Gives `node` the further name `name` in `dir`.
    ///
    /// Errors: `EEXIST`; `EPERM` for a directory; `EMLINK`; `ENOENT` where `dir` was removed or `node` has no name
    /// left.
    async fn link(&self, caller: &Caller, node: NodeId, dir: NodeId, name: &Name) -> Result<Entry>;

    /// Removes a name that is no directory. The file goes with its last name and its last open.
    ///
    /// Errors: `ENOENT`, `EISDIR`.
    async fn unlink(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// Errors: `ENOENT`, `ENOTDIR`, `ENOTEMPTY`.
    async fn rmdir(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<()>;

    /// Moves `name` of `dir` to `new_name` of `new_dir` (`renameat2(2)`).
    ///
    /// Two names of one file: nothing happens, and that is success.
    ///
    /// Errors: `ENOENT`; `EEXIST` with [`RenameMode::NoReplace`]; `EINVAL` where a directory would come below
    /// itself; `ENOTEMPTY`, `EISDIR`, `ENOTDIR` from what is replaced; `EMLINK`.
    async fn rename(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        new_dir: NodeId,
        new_name: &Name,
        mode: RenameMode,
    ) -> Result<()>;

    /// Opens a regular file. On a volume that is [`OpenStyle::Stateless`] this is cheap and may be called for each
    /// read and write; the file may then be shared with other openers.
    ///
    /// Errors: `EISDIR`; `ENXIO` for a fifo, socket or device (the kernel opens these itself).
    async fn open(&self, caller: &Caller, node: NodeId, flags: OpenFlags) -> Result<Arc<dyn OpenFile>>;

    /// An extended attribute's value; `name` with its namespace, such as `user.note`.
    ///
    /// Errors: `ENODATA`; `EOPNOTSUPP` for a namespace that the volume does not have.
    async fn getxattr(&self, node: NodeId, name: &[u8]) -> Result<Bytes>;

    /// The names of all extended attributes.
    async fn listxattr(&self, node: NodeId) -> Result<Vec<Bytes>>;

    /// Sets an extended attribute; a value has at most 64 KiB.
    ///
    /// Errors: `EEXIST` and `ENODATA` as `mode` says; `E2BIG`, `ERANGE` (name above 255 bytes), `ENOSPC`,
    /// `EOPNOTSUPP`.
    async fn setxattr(&self, caller: &Caller, node: NodeId, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;

    /// Removes an extended attribute.
    ///
    /// Errors: `ENODATA`, `EOPNOTSUPP`.
    async fn removexattr(&self, caller: &Caller, node: NodeId, name: &[u8]) -> Result<()>;

    /// How large the volume that holds `node` is, and what is left of it.
    async fn statfs(&self, node: NodeId) -> Result<StatFs>;

    /// How the volume does, asked of what lies below and not of a cache. It changes nothing and may take as long as the
    /// slowest thing below.
    ///
    /// Errors: `ENOENT` where the volume itself was removed beside the mount; `EIO`.
    async fn health(&self) -> Result<Health>;

    /// Returns when all that was written through this volume is as durable as the volume makes it (`syncfs(2)`).
    async fn sync(&self) -> Result<()>;

    /// Ends the volume's work: commits what is pending and gives back what it holds outside the process. Whatever is
    /// asked afterwards may fail. Calling it again does nothing.
    async fn close(&self) -> Result<()>;
}
