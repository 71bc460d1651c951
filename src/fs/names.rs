//! Requests about names and directories.

use super::convert;
use super::core::Core;
use super::counters::Operation;
use super::known::FOREVER;
use super::notice::Notice;
use super::recent::Stamp;
use crate::mounts::{DirEntry, Listing};
use crate::types::{Caller, Cookie, Entry, Errno, FileKind, Mode, Name, NodeId, RenameMode, Result, Validity};
use fuser::{INodeNo, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry};
use std::sync::Arc;

impl Core {
    /// A name that is not there is told as an entry of no node, which the kernel remembers like any other.
    pub(super) fn lookup(self: &Arc<Core>, caller: Caller, dir: NodeId, name: Result<Name>, reply: ReplyEntry) {
        let (core, asked) = (self.clone(), self.now());
        let work = async move {
            let name = name?;
            let found = match core.volume.lookup(&caller, dir, &name).await {
                Err(error) if error.errno() == Errno::ENOENT => None,
                found => Some(found?),
            };
            Ok((core, name, found))
        };
        self.dispatcher.serve(Operation::Lookup, reply, work, move |(core, name, found), reply| match (found, reply) {
            (Some(entry), reply) => core.reply_entry(asked, dir, &name, &entry, reply),
            (None, Some(reply)) => {
                let life = core.known.tell_missing(asked, dir, &name);
                reply.entry_with_ttls(&life, &life, &convert::no_file(), fuser::Generation(0));
                core.relieve();
            }
            (None, None) => {}
        });
    }

    pub(super) fn mkdir(
        self: &Arc<Core>,
        caller: Caller,
        dir: NodeId,
        name: Result<Name>,
        mode: u32,
        reply: ReplyEntry,
    ) {
        let core = self.clone();
        self.serve_entry(Operation::MkDir, dir, reply, async move {
            let name = name?;
            let entry = core.volume.mkdir(&caller, dir, &name, Mode::new(mode)).await?;
            Ok((name, entry))
        });
    }

    pub(super) fn mknod(
        self: &Arc<Core>,
        caller: Caller,
        dir: NodeId,
        name: Result<Name>,
        st_mode: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let core = self.clone();
        self.serve_entry(Operation::MkNod, dir, reply, async move {
            // A mode without a kind means a regular file (mknod(2)).
            let (name, kind) = (name?, FileKind::from_st_mode(st_mode).unwrap_or(FileKind::Regular));
            let entry = core.volume.mknod(&caller, dir, &name, kind, Mode::new(st_mode), rdev).await?;
            Ok((name, entry))
        });
    }

    pub(super) fn symlink(
        self: &Arc<Core>,
        caller: Caller,
        dir: NodeId,
        name: Result<Name>,
        target: Vec<u8>,
        reply: ReplyEntry,
    ) {
        let core = self.clone();
        self.serve_entry(Operation::Symlink, dir, reply, async move {
            let name = name?;
            let entry = core.volume.symlink(&caller, dir, &name, &target).await?;
            Ok((name, entry))
        });
    }

    pub(super) fn link(
        self: &Arc<Core>,
        caller: Caller,
        node: NodeId,
        dir: NodeId,
        name: Result<Name>,
        reply: ReplyEntry,
    ) {
        let core = self.clone();
        self.serve_entry(Operation::Link, dir, reply, async move {
            let name = name?;
            let entry = core.volume.link(&caller, node, dir, &name).await?;
            Ok((name, entry))
        });
    }

    /// Takes a name away: `rmdir` for a directory, `unlink` for anything else.
    pub(super) fn remove(
        self: &Arc<Core>,
        caller: Caller,
        dir: NodeId,
        name: Result<Name>,
        operation: Operation,
        reply: ReplyEmpty,
    ) {
        let core = self.clone();
        let work = async move {
            let name = name?;
            match operation {
                Operation::RmDir => core.volume.rmdir(&caller, dir, &name).await?,
                _ => core.volume.unlink(&caller, dir, &name).await?,
            }
            core.known.gone(dir, &name);
            Ok(())
        };
        self.dispatcher.serve(operation, reply, work, |(), reply| ok(reply));
    }

    pub(super) fn rename(
        self: &Arc<Core>,
        caller: Caller,
        from: (NodeId, Result<Name>),
        to: (NodeId, Result<Name>),
        flags: u32,
        reply: ReplyEmpty,
    ) {
        let core = self.clone();
        let work = async move {
            let (dir, name, new_dir, new_name) = (from.0, from.1?, to.0, to.1?);
            let mode = RenameMode::from_raw(flags)?;
            core.volume.rename(&caller, dir, &name, new_dir, &new_name, mode).await?;
            match mode {
                RenameMode::Exchange => core.known.swapped(dir, &name, new_dir, &new_name),
                _ => core.known.moved(dir, &name, new_dir, &new_name),
            }
            Ok(())
        };
        self.dispatcher.serve(Operation::Rename, reply, work, |(), reply| ok(reply));
    }

    pub(super) fn readdir(self: &Arc<Core>, dir: NodeId, offset: u64, reply: ReplyDirectory) {
        let core = self.clone();
        let work = async move {
            let listing = core.listing(dir, offset, false).await?;
            Ok((core, listing))
        };
        self.dispatcher.serve(Operation::ReadDir, reply, work, move |(core, listing), reply| {
            let Some(mut reply) = reply else { return };
            for (node, after, name) in dots(dir, listing.parent, offset) {
                let _ = reply.add(INodeNo(node.0), after, fuser::FileType::Directory, name);
            }
            let mut add = |entry: &DirEntry| {
                let (name, kind) = (entry.name.as_os_str(), convert::file_type(entry.kind));
                !reply.add(INodeNo(entry.node.0), convert::offset(entry.cookie), kind, name)
            };
            let fitted = listing.entries.iter().take_while(|entry| add(entry)).count();
            core.page[0].learn(listing.entries.len(), fitted);
            reply.ok();
        });
    }

    pub(super) fn readdirplus(self: &Arc<Core>, dir: NodeId, offset: u64, reply: ReplyDirectoryPlus) {
        let (core, asked) = (self.clone(), self.now());
        let work = async move {
            let listing = core.listing(dir, offset, true).await?;
            Ok((core, listing))
        };
        self.dispatcher.serve(Operation::ReadDirPlus, reply, work, move |(core, listing), reply| {
            let Some(mut reply) = reply else {
                return listing.entries.iter().filter_map(|entry| entry.entry.as_ref()).for_each(|e| core.give_back(e));
            };
            let life = FOREVER;
            for (node, after, name) in dots(dir, listing.parent, offset) {
                reply.add(INodeNo(node.0), after, name, &life, &convert::bare_directory(node), fuser::Generation(0));
            }
            let mut fitted = 0;
            let mut entries = listing.entries.iter().filter_map(|listed| Some((listed, listed.entry.as_ref()?)));
            for (listed, entry) in entries.by_ref() {
                if !core.list(asked, dir, listed, entry, &mut reply) {
                    break;
                }
                fitted += 1;
            }
            entries.for_each(|(_, entry)| core.give_back(entry));
            core.page[1].learn(listing.entries.len(), fitted);
            reply.ok();
        });
    }

    /// Adds an entry to a listing; false where it does not fit (it is given back then).
    fn list(
        &self,
        asked: Stamp,
        dir: NodeId,
        listed: &DirEntry,
        entry: &Entry,
        reply: &mut ReplyDirectoryPlus,
    ) -> bool {
        let Some(lives) = self.known.tell(asked, dir, &listed.name, entry) else {
            self.give_back(entry);
            return false;
        };
        // fuser has one time for name and attributes. A pinned name must last; its attributes, where they may not, are
        // withdrawn after the reply.
        let life = match entry.validity {
            Validity::Pinned => lives.entry,
            Validity::Volume => lives.entry.min(lives.attr),
        };
        let (node, generation) = (INodeNo(entry.attr.node.0), fuser::Generation(entry.generation.0));
        let (after, attr) = (convert::offset(listed.cookie), convert::file_attr(&entry.attr));
        if reply.add(node, after, listed.name.as_os_str(), &life, &attr, generation) {
            self.known.forget(entry.attr.node, 1);
            self.give_back(entry);
            return false;
        }
        if lives.attr < life {
            self.notice(Notice::Attributes(entry.attr.node));
        }
        true
    }

    /// The part of a directory after `offset`. With attributes, files that vanished meanwhile are left out; a part in
    /// which all did is not the end.
    async fn listing(&self, dir: NodeId, offset: u64, plus: bool) -> Result<Listing> {
        let limit = self.page[usize::from(plus)].ask();
        let mut after = if offset < convert::AFTER_DOTS { Cookie::START } else { convert::cookie(offset) };
        loop {
            let mut listing = self.volume.readdir(dir, after, limit, plus).await?;
            let Some(last) = listing.entries.last() else { return Ok(listing) };
            after = last.cookie;
            if plus {
                listing.entries.retain(|entry| entry.entry.is_some());
            }
            if !listing.entries.is_empty() {
                return Ok(listing);
            }
        }
    }
}

/// `.` and `..`, as far as `offset` has not passed them: node, the offset after it, name.
fn dots(dir: NodeId, parent: NodeId, offset: u64) -> impl Iterator<Item = (NodeId, u64, &'static str)> {
    [(dir, convert::AFTER_DOT, "."), (parent, convert::AFTER_DOTS, "..")]
        .into_iter()
        .filter(move |(_, after, _)| *after > offset)
}

pub(super) fn ok(reply: Option<ReplyEmpty>) {
    if let Some(reply) = reply {
        reply.ok();
    }
}
