//! One session's part of the tree, as a volume.

use super::backing::{Backing, Held, Target};
use super::changes;
use super::ids::{Ids, Inner};
use super::pinned::{EMPTY, made_up, moved, unmoved};
use super::placed::Placed;
use super::skeleton::{Pin, Skeleton};
use super::table::{Crossing, Workspace};
use crate::mounts::{Capabilities, DirEntry, Freshness, Health, Listing, OpenFile, OpenStyle, Volume};
use crate::types::{
    Attr, Caller, ChangeStream, Cookie, Entry, Errno, Error, FileKind, Generation, Mode, Name, NodeId, OpenFlags,
    RenameMode, Result, SetAttr, StatFs, TreePath, Validity, XattrMode,
};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// A part of the workspace's tree, served by one session: a volume in numbers of the session's own, with the pinned
/// nodes of the mount table in it.
pub struct Subtree {
    backing: Arc<Backing>,
    crossing: Crossing,
    /// What pinned nodes look like when their volume cannot tell: as it was told last, or as made up at the start.
    looks: Mutex<HashMap<Pin, Attr>>,
    made: Attr,
}

impl Workspace {
    /// What a session at `at` serves: the mount there, or, at the root of a tree without a root mount, a read-only
    /// directory that holds the mounts and nothing else.
    ///
    /// # Errors
    /// `ENOENT` where nothing is mounted at `at`, unless it is the root.
    pub fn subtree(&self, at: &TreePath, crossing: Crossing) -> Result<Arc<Subtree>> {
        if !at.is_root() && !self.mounts().iter().any(|mount| mount.at == *at) {
            return Err(Error::new("subtree", Errno::ENOENT).context(format!("nothing is mounted at {at}")));
        }
        Ok(Arc::new(Subtree::new(self, at, crossing)))
    }
}

impl Subtree {
    fn new(workspace: &Workspace, at: &TreePath, crossing: Crossing) -> Subtree {
        let (skeleton, served) = Skeleton::new(workspace, at, crossing);
        let volumes: Vec<_> = served.iter().map(|mount| workspace.mounts()[*mount].volume.clone()).collect();
        let backing = Backing::new(skeleton, Ids::new(crossing == Crossing::Cross), volumes);
        Subtree { backing: Arc::new(backing), crossing, looks: Mutex::default(), made: made_up() }
    }

    /// What a pinned node looks like, without asking its volume.
    fn look(&self, pin: Pin) -> Attr {
        let attr = self.looks.lock().get(&pin).copied().unwrap_or(self.made);
        self.pinned_attr(pin, attr)
    }

    /// A volume's attributes of the directory behind a pinned node, as the node's own. The link count is 1, which
    /// tells programs not to count on it: directories that come from the mount table are not in it.
    fn pinned_attr(&self, pin: Pin, attr: Attr) -> Attr {
        let links = if self.backing.skeleton.get(pin).children.is_empty() { attr.links } else { 1 };
        Attr { node: Skeleton::id(pin), links, ..attr }
    }

    fn pinned_entry(&self, pin: Pin) -> Entry {
        Entry { attr: self.look(pin), generation: Generation::default(), validity: Validity::Pinned }
    }

    /// Keeps what the volume told of a pinned node.
    fn told(&self, id: NodeId, attr: Attr) -> Attr {
        match self.backing.skeleton.find(id) {
            Some(pin) => {
                self.looks.lock().insert(pin, attr);
                self.pinned_attr(pin, attr)
            }
            None => Attr { node: id, ..attr },
        }
    }

    /// An entry of a volume in the session's numbers; it counts as one lookup.
    fn entry(&self, volume: usize, entry: Entry) -> Entry {
        let node = self.backing.outer(Inner { volume, node: entry.attr.node }, 1);
        Entry { attr: Attr { node, ..entry.attr }, ..entry }
    }

    fn file(&self, id: NodeId, held: &Held<'_>, inner: NodeId, file: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
        let alone = self.crossing == Crossing::Stop && id == inner;
        if alone { file } else { Arc::new(Placed { file, node: id, origin: held.origin }) }
    }

    /// The file behind `id`, where a pinned node that no volume has answers `missing`.
    async fn held(&self, operation: &'static str, id: NodeId, missing: Errno) -> Result<Held<'_>> {
        let held = self.backing.held(operation, id).await?;
        held.ok_or_else(|| Error::new(operation, missing).context("only mounts are here"))
    }

    /// The directory behind `dir`, to take the entry `name` away from it.
    async fn leaving(&self, operation: &'static str, dir: NodeId, name: &Name) -> Result<Held<'_>> {
        self.backing.unpinned(operation, dir, name, Errno::EBUSY)?;
        self.held(operation, dir, Errno::ENOENT).await
    }

    /// The pinned entries of a pinned directory after `after`.
    fn pinned_entries(&self, pin: Pin, after: Cookie, limit: usize, plus: bool) -> Vec<DirEntry> {
        let children =
            (1..).zip(&self.backing.skeleton.get(pin).children).map(|(cookie, child)| (Cookie(cookie), child));
        let listed = |(cookie, (name, child)): (Cookie, (&Name, &Pin))| DirEntry {
            name: name.clone(),
            cookie,
            node: Skeleton::id(*child),
            kind: FileKind::Directory,
            entry: plus.then(|| self.pinned_entry(*child)),
        };
        children.skip_while(|(cookie, _)| *cookie <= after).take(limit).map(listed).collect()
    }

    /// A part of a pinned directory's listing: first the pinned entries, then what its volume has besides.
    async fn list_pinned(&self, pin: Pin, after: Cookie, limit: usize, plus: bool) -> Result<Listing> {
        let parent = Skeleton::id(self.backing.skeleton.get(pin).parent);
        let own = self.pinned_entries(pin, after, limit, plus);
        if !own.is_empty() {
            return Ok(Listing { parent, entries: own });
        }
        let Some(held) = self.backing.held_pin("readdir", pin).await? else {
            return Ok(Listing { parent, entries: Vec::new() });
        };
        let mut after = unmoved(after);
        loop {
            let listed = held.volume.readdir(held.node, after, limit, plus).await?.entries;
            let Some(last) = listed.last() else { return Ok(Listing { parent, entries: Vec::new() }) };
            after = last.cookie;
            let entries: Vec<DirEntry> = listed
                .into_iter()
                .filter_map(|entry| self.listed(&held, entry, Some(pin)))
                .map(|entry| DirEntry { cookie: moved(entry.cookie), ..entry })
                .collect();
            // A part in which every entry was shadowed is not the end of the directory.
            if !entries.is_empty() {
                return Ok(Listing { parent, entries });
            }
        }
    }

    /// A volume's entry in the session's numbers, or nothing where a pinned one shadows it.
    fn listed(&self, held: &Held<'_>, listed: DirEntry, pin: Option<Pin>) -> Option<DirEntry> {
        if pin.is_some_and(|pin| self.backing.skeleton.get(pin).children.contains_key(&listed.name)) {
            if let Some(entry) = listed.entry {
                held.volume.forget(entry.attr.node, 1);
            }
            return None;
        }
        let entry = listed.entry.map(|entry| self.entry(held.index, entry));
        let node = match entry {
            Some(entry) => entry.attr.node,
            None => self.backing.outer(Inner { volume: held.index, node: listed.node }, 0),
        };
        Some(DirEntry { node, entry, ..listed })
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Volume for Subtree {
    fn capabilities(&self) -> Capabilities {
        let all: Vec<Capabilities> = self.backing.volumes().map(|volume| volume.capabilities()).collect();
        let stateless = self.crossing == Crossing::Stop && all.iter().all(|c| c.opens == OpenStyle::Stateless);
        let timed = all.iter().any(|c| c.freshness == Freshness::Timed);
        Capabilities {
            opens: if stateless { OpenStyle::Stateless } else { OpenStyle::PerHandle },
            freshness: if timed { Freshness::Timed } else { Freshness::Pushed },
            read_only: all.iter().all(|c| c.read_only),
            passthrough: all.iter().any(|c| c.passthrough),
            own_locks: all.iter().any(|c| c.own_locks),
        }
    }

    fn changes(&self) -> ChangeStream {
        changes::stream(&self.backing)
    }

    async fn root(&self) -> Result<Entry> {
        let attr = self.getattr(Skeleton::id(0)).await?;
        Ok(Entry { attr, generation: Generation::default(), validity: Validity::Pinned })
    }

    async fn lookup(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<Entry> {
        if let Some(child) = self.backing.skeleton.child(dir, name) {
            return Ok(self.pinned_entry(child));
        }
        let held = self.held("lookup", dir, Errno::ENOENT).await?;
        Ok(self.entry(held.index, held.volume.lookup(caller, held.node, name).await?))
    }

    fn forget(&self, node: NodeId, count: u64) {
        if let Ok(Target::File(inner)) = self.backing.target("forget", node) {
            self.backing.ids.forget(node, count);
            self.backing.volume(inner.volume).forget(inner.node, count);
        }
    }

    async fn getattr(&self, node: NodeId) -> Result<Attr> {
        let pin = match self.backing.target("getattr", node)? {
            Target::File(Inner { volume, node: inner }) => {
                let attr = self.backing.volume(volume).getattr(inner).await?;
                return Ok(Attr { node, ..attr });
            }
            Target::Pin(pin) => pin,
        };
        if self.backing.skeleton.get(pin).sealed {
            return Ok(self.look(pin));
        }
        match self.backing.held_pin("getattr", pin).await {
            Ok(Some(held)) => Ok(self.told(node, held.volume.getattr(held.node).await?)),
            Ok(None) => Ok(self.look(pin)),
            // The session's root tells what its volume tells. A directory on the way to a mount stays what it was:
            // the mounts below it must be reached though the volume above them fails.
            Err(error) if pin == 0 => Err(error),
            Err(error) => {
                tracing::warn!(%error, "a directory that leads to a mount shows what it was last");
                Ok(self.look(pin))
            }
        }
    }

    async fn setattr(&self, caller: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr> {
        let held = self.held("setattr", node, Errno::EROFS).await?;
        Ok(self.told(node, held.volume.setattr(&held.caller(caller), held.node, set).await?))
    }

    async fn readdir(&self, dir: NodeId, after: Cookie, limit: usize, plus: bool) -> Result<Listing> {
        let pin = match self.backing.target("readdir", dir)? {
            Target::Pin(pin) => Some(pin),
            Target::File(_) => None,
        };
        if let Some(pin) = pin.filter(|pin| !self.backing.skeleton.get(*pin).children.is_empty()) {
            return self.list_pinned(pin, after, limit, plus).await;
        }
        let held = self.held("readdir", dir, Errno::EIO).await?;
        let listing = held.volume.readdir(held.node, after, limit, plus).await?;
        let entries = listing.entries.into_iter().filter_map(|entry| self.listed(&held, entry, None)).collect();
        let parent = match pin {
            Some(pin) => Skeleton::id(self.backing.skeleton.get(pin).parent),
            None => self.backing.outer(Inner { volume: held.index, node: listing.parent }, 0),
        };
        Ok(Listing { parent, entries })
    }

    async fn readlink(&self, node: NodeId) -> Result<Bytes> {
        let held = self.held("readlink", node, Errno::EINVAL).await?;
        held.volume.readlink(held.node).await
    }

    async fn create(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        mode: Mode,
        flags: OpenFlags,
    ) -> Result<(Entry, Arc<dyn OpenFile>)> {
        let taken = if flags.exclusive { Errno::EEXIST } else { Errno::EISDIR };
        let held = self.backing.changing("create", caller, dir, name, taken).await?;
        let (entry, file) = held.volume.create(&held.caller(caller), held.node, name, mode, flags).await?;
        let shown = self.entry(held.index, entry);
        Ok((shown, self.file(shown.attr.node, &held, entry.attr.node, file)))
    }

    async fn mkdir(&self, caller: &Caller, dir: NodeId, name: &Name, mode: Mode) -> Result<Entry> {
        let held = self.backing.changing("mkdir", caller, dir, name, Errno::EEXIST).await?;
        Ok(self.entry(held.index, held.volume.mkdir(&held.caller(caller), held.node, name, mode).await?))
    }

    async fn mknod(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        kind: FileKind,
        mode: Mode,
        rdev: u32,
    ) -> Result<Entry> {
        let held = self.backing.changing("mknod", caller, dir, name, Errno::EEXIST).await?;
        Ok(self.entry(held.index, held.volume.mknod(&held.caller(caller), held.node, name, kind, mode, rdev).await?))
    }

    async fn symlink(&self, caller: &Caller, dir: NodeId, name: &Name, target: &[u8]) -> Result<Entry> {
        let held = self.backing.changing("symlink", caller, dir, name, Errno::EEXIST).await?;
        Ok(self.entry(held.index, held.volume.symlink(&held.caller(caller), held.node, name, target).await?))
    }

    async fn link(&self, caller: &Caller, node: NodeId, dir: NodeId, name: &Name) -> Result<Entry> {
        let Target::File(file) = self.backing.target("link", node)? else {
            return Err(Error::new("link", Errno::EPERM).context("a directory"));
        };
        let held = self.backing.receiving("link", caller, (dir, name), Errno::EEXIST, file.volume).await?;
        Ok(self.entry(held.index, held.volume.link(&held.caller(caller), file.node, held.node, name).await?))
    }

    async fn unlink(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<()> {
        let held = self.leaving("unlink", dir, name).await?;
        held.volume.unlink(&held.caller(caller), held.node, name).await
    }

    async fn rmdir(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<()> {
        let held = self.leaving("rmdir", dir, name).await?;
        held.volume.rmdir(&held.caller(caller), held.node, name).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        new_dir: NodeId,
        new_name: &Name,
        mode: RenameMode,
    ) -> Result<()> {
        let taken = if mode == RenameMode::NoReplace { Errno::EEXIST } else { Errno::EBUSY };
        let from = self.leaving("rename", dir, name).await?;
        let to = self.backing.receiving("rename", caller, (new_dir, new_name), taken, from.index).await?;
        from.volume.rename(&from.caller(caller), from.node, name, to.node, new_name, mode).await
    }

    async fn open(&self, caller: &Caller, node: NodeId, flags: OpenFlags) -> Result<Arc<dyn OpenFile>> {
        let held = self.held("open", node, Errno::EISDIR).await?;
        let file = held.volume.open(&held.caller(caller), held.node, flags).await?;
        Ok(self.file(node, &held, held.node, file))
    }

    async fn getxattr(&self, node: NodeId, name: &[u8]) -> Result<Bytes> {
        let held = self.held("getxattr", node, Errno::ENODATA).await?;
        held.volume.getxattr(held.node, name).await
    }

    async fn listxattr(&self, node: NodeId) -> Result<Vec<Bytes>> {
        match self.backing.held("listxattr", node).await? {
            Some(held) => held.volume.listxattr(held.node).await,
            None => Ok(Vec::new()),
        }
    }

    async fn setxattr(&self, caller: &Caller, node: NodeId, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let held = self.held("setxattr", node, Errno::EROFS).await?;
        held.volume.setxattr(&held.caller(caller), held.node, name, value, mode).await
    }

    async fn removexattr(&self, caller: &Caller, node: NodeId, name: &[u8]) -> Result<()> {
        let held = self.held("removexattr", node, Errno::ENODATA).await?;
        held.volume.removexattr(&held.caller(caller), held.node, name).await
    }

    async fn statfs(&self, node: NodeId) -> Result<StatFs> {
        let held = if self.backing.is_sealed(node) { None } else { self.backing.held("statfs", node).await? };
        match held {
            Some(held) => held.volume.statfs(held.node).await,
            None => Ok(EMPTY),
        }
    }

    async fn health(&self) -> Result<Health> {
        let mut all = Health::default();
        for volume in self.backing.volumes() {
            let Health { caches, warnings } = volume.health().await?;
            all.caches.extend(caches);
            all.warnings.extend(warnings);
        }
        Ok(all)
    }

    /// All are tried; the first error is told.
    async fn sync(&self) -> Result<()> {
        let mut result = Ok(());
        for volume in self.backing.volumes() {
            let synced = volume.sync().await;
            result = result.and(synced);
        }
        result
    }

    /// Commits what is pending. The volumes stay open: other sessions may serve them too, and the workspace closes
    /// them.
    async fn close(&self) -> Result<()> {
        self.sync().await
    }
}
