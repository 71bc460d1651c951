//! The operations in process, on a volume.

use super::names::At;
use super::op::Op;
use super::reference::{Id, Model, ROOT, SLOTS, Who};
use super::world::{Answer, World};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use workfs::mounts::{OpenFile, Volume};
use workfs::types::{Access, Attr, Caller, Cookie, Entry, Name, NodeId, OpenFlags, Origin, Privileges, Result};

/// A volume, what is known of it and what is open in it.
pub struct Inside {
    pub volume: Arc<dyn Volume>,
    origin: Origin,
    /// The number of each file that is known, and how often it was counted.
    known: HashMap<Id, (NodeId, u64)>,
    /// Numbers of files that are alive, so that none is given twice.
    numbers: HashMap<NodeId, Id>,
    files: [Option<Arc<dyn OpenFile>>; SLOTS],
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

impl Inside {
    pub async fn new(volume: Arc<dyn Volume>) -> Inside {
        let root = volume.root().await.expect("the root").attr.node;
        let (known, numbers) = (HashMap::from([(ROOT, (root, 0))]), HashMap::from([(root, ROOT)]));
        Inside { volume, origin: Origin::new(), known, numbers, files: Default::default() }
    }

    fn caller(&self, who: Who) -> Caller {
        let (uid, gid) = who.id();
        Caller { uid, gid, tid: 0, origin: self.origin }
    }

    /// Closes all files, as a crash does: without a flush.
    pub fn close_files(&mut self) {
        self.files = Default::default();
    }

    /// Closes all files and forgets all.
    pub fn let_go(&mut self) {
        self.close_files();
        let known: Vec<Id> = self.known.keys().copied().collect();
        known.into_iter().for_each(|id| self.forget(id));
        self.numbers.retain(|_, id| *id == ROOT);
    }

    fn forget(&mut self, id: Id) {
        if let Some((node, count)) = self.known.get(&id).copied().filter(|_| id != ROOT) {
            self.volume.forget(node, count);
            self.known.remove(&id);
        }
    }

    /// Counts what an operation returned, which must be the number that the file has.
    fn meet(&mut self, id: Id, entry: &Entry) -> NodeId {
        let node = entry.attr.node;
        let owner = *self.numbers.entry(node).or_insert(id);
        assert_eq!(owner, id, "number {node} is that of another file, which is alive");
        let known = self.known.entry(id).or_insert((node, 0));
        assert_eq!(known.0, node, "file {id} changed its number");
        known.1 += 1;
        node
    }

    /// The number of a file, looked up by its names where it is not known.
    async fn node(&mut self, model: &Model, id: Id) -> NodeId {
        if let Some((node, _)) = self.known.get(&id) {
            return *node;
        }
        let path = model.path(id).unwrap_or_else(|| panic!("file {id} is neither known nor has it a name"));
        let (mut dir, mut node) = (ROOT, self.known[&ROOT].0);
        for text in path {
            let child = model.child(At { dir, name: text }).expect("the path is of the model");
            let caller = self.caller(Who::Root);
            let entry = self.volume.lookup(&caller, node, &name(text)).await.expect("a name of the model");
            (dir, node) = (child, self.meet(child, &entry));
        }
        node
    }

    fn file(&self, slot: usize) -> Arc<dyn OpenFile> {
        self.files[slot].clone().expect("the file is open")
    }

    async fn entry(&mut self, model: &Model, at: At, result: Result<Entry>) -> Result<Answer> {
        let entry = result?;
        let id = model.child(at).unwrap_or(model.next);
        self.meet(id, &entry);
        Ok(Answer::Attr(Box::new(entry.attr)))
    }

    async fn make(&mut self, model: &Model, op: &Op) -> Result<Answer> {
        let at = match op {
            Op::Lookup(at) | Op::Link { at, .. } => *at,
            Op::Mkdir { at, .. } | Op::Mknod { at, .. } | Op::Symlink { at, .. } => *at,
            other => unreachable!("{other:?}"),
        };
        let (dir, text) = (self.node(model, at.dir).await, name(at.name));
        let volume = self.volume.clone();
        let made = match op {
            Op::Mkdir { mode, who, .. } => volume.mkdir(&self.caller(*who), dir, &text, *mode).await,
            Op::Mknod { kind, mode, who, .. } => volume.mknod(&self.caller(*who), dir, &text, *kind, *mode, 0).await,
            Op::Symlink { target, who, .. } => volume.symlink(&self.caller(*who), dir, &text, target).await,
            Op::Link { node, .. } => {
                let linked = self.node(model, *node).await;
                let entry = volume.link(&self.caller(Who::Root), linked, dir, &text).await?;
                self.meet(*node, &entry);
                return Ok(Answer::Attr(Box::new(entry.attr)));
            }
            _ => volume.lookup(&self.caller(Who::Root), dir, &text).await,
        };
        self.entry(model, at, made).await
    }

    async fn of_handle(&mut self, op: &Op) -> Result<Answer> {
        match op {
            Op::Close { slot, flush } => {
                if *flush {
                    self.file(*slot).flush().await?;
                }
                self.files[*slot] = None;
            }
            Op::Write { slot, offset, data, who } => {
                let data = Bytes::copy_from_slice(data);
                self.file(*slot).write_at(&self.caller(*who), *offset, data, privileges(*who)).await?;
            }
            Op::Read { slot, offset, len } => {
                return Ok(Answer::Bytes(self.file(*slot).read_at(*offset, *len).await?.to_vec()));
            }
            Op::Truncate { slot, size, who } => {
                self.file(*slot).truncate(&self.caller(*who), *size, privileges(*who)).await?;
            }
            Op::Allocate { slot, offset, len, mode, who } => {
                let (file, caller) = (self.file(*slot), self.caller(*who));
                file.allocate(&caller, *offset, *len, *mode, privileges(*who)).await?;
            }
            Op::Seek { slot, offset, whence } => {
                return Ok(Answer::Place(self.file(*slot).seek(*offset, *whence).await?));
            }
            Op::Flush { slot, durable: false } => self.file(*slot).flush().await?,
            Op::Flush { slot, durable: true } => self.file(*slot).sync(false).await?,
            other => unreachable!("{other:?}"),
        }
        Ok(Answer::Done)
    }

    async fn of_xattrs(&mut self, model: &Model, op: &Op) -> Result<Answer> {
        let (volume, root) = (self.volume.clone(), self.caller(Who::Root));
        match op {
            Op::SetXattr { node, name, value, mode } => {
                let node = self.node(model, *node).await;
                volume.setxattr(&root, node, name.as_bytes(), value, *mode).await?;
                Ok(Answer::Done)
            }
            Op::GetXattr { node, name } => {
                let node = self.node(model, *node).await;
                Ok(Answer::Bytes(volume.getxattr(node, name.as_bytes()).await?.to_vec()))
            }
            Op::RemoveXattr { node, name } => {
                let node = self.node(model, *node).await;
                volume.removexattr(&root, node, name.as_bytes()).await?;
                Ok(Answer::Done)
            }
            Op::ListXattr(node) => {
                let node = self.node(model, *node).await;
                let names = volume.listxattr(node).await?;
                let text = |name: Bytes| String::from_utf8(name.to_vec()).expect("text");
                Ok(Answer::Xattrs(names.into_iter().map(text).collect()))
            }
            other => unreachable!("{other:?}"),
        }
    }

    /// A whole listing, `page` entries at a time.
    async fn list(&mut self, model: &Model, dir: Id, page: usize, plus: bool) -> Result<Answer> {
        let node = self.node(model, dir).await;
        let (mut names, mut after) = (BTreeMap::new(), Cookie::START);
        loop {
            let listing = self.volume.readdir(node, after, page, plus).await?;
            let Some(last) = listing.entries.last() else { return Ok(Answer::Names(names)) };
            after = last.cookie;
            assert!(listing.entries.len() <= page, "more than were asked for");
            for found in listing.entries {
                if let Some(entry) = found.entry {
                    self.volume.forget(entry.attr.node, 1);
                    assert_eq!((entry.attr.node, entry.attr.kind), (found.node, found.kind));
                }
                let text = String::from_utf8(found.name.as_bytes().to_vec()).expect("text");
                assert!(names.insert(text, found.kind).is_none(), "{} is listed twice", found.name);
            }
        }
    }

    async fn of_names(&mut self, model: &Model, op: &Op) -> Result<Answer> {
        let (volume, root) = (self.volume.clone(), self.caller(Who::Root));
        match op {
            Op::Unlink(at) => {
                let dir = self.node(model, at.dir).await;
                volume.unlink(&root, dir, &name(at.name)).await?;
            }
            Op::Rmdir(at) => {
                let dir = self.node(model, at.dir).await;
                volume.rmdir(&root, dir, &name(at.name)).await?;
            }
            Op::Rename { from, to, mode } => {
                let (dir, new_dir) = (self.node(model, from.dir).await, self.node(model, to.dir).await);
                volume.rename(&root, dir, &name(from.name), new_dir, &name(to.name), *mode).await?;
            }
            other => unreachable!("{other:?}"),
        }
        Ok(Answer::Done)
    }

    async fn open(&mut self, model: &Model, op: &Op) -> Result<Answer> {
        let volume = self.volume.clone();
        match op {
            Op::Create { at, mode, flags, slot, who } => {
                let dir = self.node(model, at.dir).await;
                let made = volume.create(&self.caller(*who), dir, &name(at.name), *mode, *flags).await;
                let (entry, file) = made?;
                self.files[*slot] = Some(file);
                self.entry(model, *at, Ok(entry)).await
            }
            Op::Open { node, flags, slot, who } => {
                let node = self.node(model, *node).await;
                let file = volume.open(&self.caller(*who), node, *flags).await?;
                let attr = file.attr().await?;
                self.files[*slot] = Some(file);
                Ok(Answer::Attr(Box::new(attr)))
            }
            other => unreachable!("{other:?}"),
        }
    }

    async fn attr_of(&mut self, model: &Model, id: Id) -> Result<Attr> {
        let slot = model.slots.iter().position(|handle| handle.is_some_and(|handle| handle.node == id));
        match slot.and_then(|slot| self.files[slot].clone()) {
            Some(file) if !self.known.contains_key(&id) && model.path(id).is_none() => file.attr().await,
            _ => {
                let node = self.node(model, id).await;
                self.volume.getattr(node).await
            }
        }
    }

    async fn answer(&mut self, op: &Op, model: &Model) -> Result<Answer> {
        match op {
            Op::Lookup(_) | Op::Mkdir { .. } | Op::Mknod { .. } | Op::Symlink { .. } | Op::Link { .. } => {
                self.make(model, op).await
            }
            Op::Create { .. } | Op::Open { .. } => self.open(model, op).await,
            Op::Unlink(_) | Op::Rmdir(_) | Op::Rename { .. } => self.of_names(model, op).await,
            Op::SetXattr { .. } | Op::GetXattr { .. } | Op::RemoveXattr { .. } | Op::ListXattr(_) => {
                self.of_xattrs(model, op).await
            }
            Op::Stat(id) => Ok(Answer::Attr(Box::new(self.attr_of(model, *id).await?))),
            Op::Set { node, set, who } => {
                let (node, caller) = (self.node(model, *node).await, self.caller(*who));
                Ok(Answer::Attr(Box::new(self.volume.setattr(&caller, node, set).await?)))
            }
            Op::ReadLink(node) => {
                let node = self.node(model, *node).await;
                Ok(Answer::Bytes(self.volume.readlink(node).await?.to_vec()))
            }
            Op::List { dir, page, plus } => self.list(model, *dir, *page, *plus).await,
            Op::Forget(id) => {
                self.forget(*id);
                Ok(Answer::Done)
            }
            Op::SyncAll => self.volume.sync().await.map(|()| Answer::Done),
            Op::Pause => {
                tokio::time::sleep(Duration::from_millis(15)).await;
                Ok(Answer::Done)
            }
            _ => self.of_handle(op).await,
        }
    }
}

impl World for Inside {
    async fn perform(&mut self, op: &Op, model: &Model) -> Answer {
        match self.answer(op, model).await {
            Ok(answer) => answer,
            Err(error) => Answer::Refused(error.errno()),
        }
    }

    async fn bytes(&mut self, model: &Model, id: Id, range: Range<u64>) -> Vec<u8> {
        let node = self.node(model, id).await;
        let file =
            self.volume.open(&self.caller(Who::Root), node, OpenFlags::access(Access::Read)).await.expect("open");
        file.read_at(range.start, (range.end - range.start) as u32).await.expect("read").to_vec()
    }

    async fn attr(&mut self, model: &Model, id: Id) -> Attr {
        self.attr_of(model, id).await.expect("getattr")
    }

    fn knows(&self, id: Id) -> bool {
        self.known.contains_key(&id)
    }

    fn retired(&mut self, model: &Model) {
        self.numbers.retain(|_, id| model.nodes.contains_key(id));
    }
}

/// As the kernel's face tells a volume.
fn privileges(who: Who) -> Privileges {
    if who == Who::Root { Privileges::Keep } else { Privileges::Drop }
}
