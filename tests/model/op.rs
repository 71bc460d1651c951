//! Operations, chosen at random with an eye on the state, and what the reference makes of them.

use super::contents::Contents;
use super::names::At;
use super::reference::{Body, Id, Model, Verdict, Who, refused};
use std::collections::BTreeMap;
use workfs::types::{AllocateMode, Errno, FileKind, Mode, OpenFlags, RenameMode, Seek, SetAttr, XattrMode};

/// One operation. Files are named by the model's numbers, open files by their slot.
#[derive(Clone, Debug)]
pub enum Op {
    Lookup(At),
    Stat(Id),
    Set {
        node: Id,
        set: SetAttr,
        who: Who,
    },
    Mkdir {
        at: At,
        mode: Mode,
        who: Who,
    },
    Mknod {
        at: At,
        kind: FileKind,
        mode: Mode,
        who: Who,
    },
    Symlink {
        at: At,
        target: Vec<u8>,
        who: Who,
    },
    ReadLink(Id),
    Link {
        node: Id,
        at: At,
    },
    Unlink(At),
    Rmdir(At),
    Rename {
        from: At,
        to: At,
        mode: RenameMode,
    },
    Create {
        at: At,
        mode: Mode,
        flags: OpenFlags,
        slot: usize,
        who: Who,
    },
    Open {
        node: Id,
        flags: OpenFlags,
        slot: usize,
        who: Who,
    },
    Close {
        slot: usize,
        flush: bool,
    },
    Write {
        slot: usize,
        offset: u64,
        data: Vec<u8>,
        who: Who,
    },
    Read {
        slot: usize,
        offset: u64,
        len: u32,
    },
    Truncate {
        slot: usize,
        size: u64,
        who: Who,
    },
    Allocate {
        slot: usize,
        offset: u64,
        len: u64,
        mode: AllocateMode,
        who: Who,
    },
    Seek {
        slot: usize,
        offset: u64,
        whence: Seek,
    },
    Flush {
        slot: usize,
        durable: bool,
    },
    SetXattr {
        node: Id,
        name: &'static str,
        value: Vec<u8>,
        mode: XattrMode,
    },
    GetXattr {
        node: Id,
        name: &'static str,
    },
    RemoveXattr {
        node: Id,
        name: &'static str,
    },
    ListXattr(Id),
    List {
        dir: Id,
        page: usize,
        plus: bool,
    },
    Forget(Id),
    SyncAll,
    /// A while in which what goes on beside the calls goes on.
    Pause,
}

/// What an operation gives that succeeds.
#[derive(Debug)]
pub enum Reply {
    Done,
    /// A file, whose attributes may be compared.
    File(Id),
    Bytes(Vec<u8>),
    Names(BTreeMap<String, FileKind>),
    Xattrs(Vec<String>),
    /// A place in a file: of data, or of a hole.
    Place {
        node: Id,
        offset: u64,
        whence: Seek,
    },
}

impl Op {
    /// The files whose attributes it may change.
    pub fn subjects(&self, model: &Model) -> Vec<Id> {
        let here = |at: &At| model.child(*at).into_iter().chain([at.dir]).collect::<Vec<_>>();
        match self {
            Op::Stat(node) | Op::Set { node, .. } | Op::SetXattr { node, .. } | Op::RemoveXattr { node, .. } => {
                vec![*node]
            }
            Op::Link { node, at } => vec![*node, at.dir],
            Op::Lookup(at) | Op::Mkdir { at, .. } | Op::Mknod { at, .. } | Op::Symlink { at, .. } => here(at),
            Op::Create { at, .. } | Op::Unlink(at) | Op::Rmdir(at) => here(at),
            Op::Rename { from, to, .. } => [here(from), here(to)].concat(),
            Op::Open { node, .. } => vec![*node],
            Op::Write { slot, .. } | Op::Truncate { slot, .. } | Op::Allocate { slot, .. } | Op::Flush { slot, .. } => {
                vec![model.handle(*slot).node]
            }
            _ => Vec::new(),
        }
    }

    /// Does it to the model.
    pub fn apply(&self, model: &mut Model) -> Verdict<Reply> {
        match self {
            Op::Lookup(at) => model.find(*at).map(Reply::File),
            Op::Stat(node) => Ok(Reply::File(*node)),
            Op::Set { node, set, who } => model.set(*node, set, *who).map(|()| Reply::File(*node)),
            Op::Mkdir { at, mode, who } => {
                let body = Body::Dir { entries: BTreeMap::new(), parent: at.dir };
                model.make(*at, body, *mode, *who).map(Reply::File)
            }
            Op::Mknod { at, kind, mode, who } => {
                let body = match kind {
                    FileKind::Regular => Body::File(Contents::default()),
                    other => Body::Other(*other),
                };
                model.make(*at, body, *mode, *who).map(Reply::File)
            }
            Op::Symlink { at, target, who } => {
                model.make(*at, Body::Symlink(target.clone()), Mode::new(0o777), *who).map(Reply::File)
            }
            Op::ReadLink(node) => match &model.inode(*node).body {
                Body::Symlink(target) => Ok(Reply::Bytes(target.clone())),
                _ => refused(Errno::EINVAL),
            },
            Op::Link { node, at } => model.link(*node, *at).map(Reply::File),
            Op::Unlink(at) => model.unlink(*at).map(|()| Reply::Done),
            Op::Rmdir(at) => model.rmdir(*at).map(|()| Reply::Done),
            Op::Rename { from, to, mode } => model.rename(*from, *to, *mode).map(|()| Reply::Done),
            Op::Create { at, mode, flags, slot, who } => model.create(*at, *mode, *flags, *slot, *who).map(Reply::File),
            Op::Open { node, flags, slot, who } => model.open(*node, *flags, *slot, *who).map(|()| Reply::File(*node)),
            Op::List { dir, .. } => model.list(*dir).map(Reply::Names),
            Op::SetXattr { .. } | Op::GetXattr { .. } | Op::RemoveXattr { .. } | Op::ListXattr(_) => {
                self.apply_to_xattrs(model)
            }
            Op::Forget(_) | Op::Pause => Ok(Reply::Done),
            Op::SyncAll => {
                model.nodes.values_mut().for_each(super::reference::Inode::commit);
                Ok(Reply::Done)
            }
            _ => self.apply_to_handle(model),
        }
    }

    fn apply_to_handle(&self, model: &mut Model) -> Verdict<Reply> {
        match self {
            Op::Close { slot, flush } => {
                let node = model.handle(*slot).node;
                if *flush {
                    model.inode_mut(node).commit();
                }
                model.slots[*slot] = None;
            }
            Op::Write { data, .. } if data.is_empty() => {}
            Op::Write { slot, data, .. } if model.appends_too_far(*slot, data.len()) => return refused(Errno::EFBIG),
            Op::Write { slot, offset, data, who } => {
                let handle = model.handle(*slot);
                let append = handle.flags.append;
                let commits = append || handle.flags.sync;
                model.change(handle.node, *who, commits, |contents| {
                    let offset = if append { contents.size } else { *offset };
                    contents.write(offset, data);
                });
            }
            Op::Read { slot, offset, len } => {
                let contents = model.contents(model.handle(*slot).node);
                return Ok(Reply::Bytes(contents.read(*offset, u64::from(*len))));
            }
            Op::Truncate { slot, size, who } => {
                model.change(model.handle(*slot).node, *who, true, |contents| contents.resize(*size));
            }
            Op::Allocate { slot, offset, len, mode, who } => {
                let end = offset + len;
                model.change(model.handle(*slot).node, *who, true, |contents| match mode {
                    AllocateMode::KeepSize => {}
                    AllocateMode::Extend => contents.size = contents.size.max(end),
                    AllocateMode::PunchHole | AllocateMode::ZeroKeepSize => contents.clear(*offset..end),
                    AllocateMode::Zero => {
                        contents.clear(*offset..end);
                        contents.size = contents.size.max(end);
                    }
                });
            }
            Op::Seek { slot, offset, whence } => {
                let node = model.handle(*slot).node;
                model.inode_mut(node).commit();
                let contents = model.contents(node);
                if *offset >= contents.size {
                    return refused(Errno::ENXIO);
                }
                return Ok(Reply::Place { node, offset: *offset, whence: *whence });
            }
            Op::Flush { slot, .. } => model.inode_mut(model.handle(*slot).node).commit(),
            other => unreachable!("{other:?} is of no open file"),
        }
        Ok(Reply::Done)
    }

    fn apply_to_xattrs(&self, model: &mut Model) -> Verdict<Reply> {
        match self {
            Op::SetXattr { node, name, value, mode } => {
                let there = model.inode(*node).xattrs.contains_key(name);
                match mode {
                    XattrMode::Create if there => return refused(Errno::EEXIST),
                    XattrMode::Replace if !there => return refused(Errno::ENODATA),
                    _ => {}
                }
                model.inode_mut(*node).xattrs.insert(name, value.clone());
                model.touch(*node);
                Ok(Reply::Done)
            }
            Op::GetXattr { node, name } => {
                let value = model.inode(*node).xattrs.get(name).cloned();
                value.map(Reply::Bytes).ok_or_else(|| vec![Errno::ENODATA])
            }
            Op::RemoveXattr { node, name } => {
                model.inode_mut(*node).xattrs.remove(name).ok_or_else(|| vec![Errno::ENODATA])?;
                model.touch(*node);
                Ok(Reply::Done)
            }
            Op::ListXattr(node) => {
                Ok(Reply::Xattrs(model.inode(*node).xattrs.keys().map(|name| name.to_string()).collect()))
            }
            other => unreachable!("{other:?} is of no attribute"),
        }
    }
}
