//! What the operations mean, one after another: a small filesystem in plain maps, written from POSIX and not from the
//! code that it judges.

use std::collections::{BTreeMap, BTreeSet};
use workfs::types::Errno;

/// A file of the first tree, by its place in this list, or a new one.
pub type Id = u32;

pub const ROOT: Id = 0;
pub const A: Id = 1;
pub const SUB: Id = 2;
pub const F: Id = 3;
pub const B: Id = 4;
pub const G: Id = 5;
pub const C: Id = 6;
pub const D: Id = 7;
/// Ids from here on are files that an operation made.
pub const NEW: Id = 100;

/// An operation on the tree. Directories are named by their id, since whoever works in one has found it before.
#[derive(Clone, Debug)]
pub enum Op {
    Create { dir: Id, name: &'static str, exclusive: bool },
    Mkdir { dir: Id, name: &'static str },
    Link { file: Id, dir: Id, name: &'static str },
    Unlink { dir: Id, name: &'static str },
    Rmdir { dir: Id, name: &'static str },
    Rename { from: (Id, &'static str), to: (Id, &'static str), how: How },
    Write { file: Id, offset: u64, bytes: &'static str },
    Append { file: Id, bytes: &'static str },
    Truncate { file: Id, size: u64 },
    Xattr { file: Id, name: &'static str },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    Replace,
    NoReplace,
    Exchange,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    File { bytes: Vec<u8>, xattrs: BTreeSet<&'static str> },
    Dir(BTreeMap<String, Id>),
}

#[derive(Clone, Debug)]
pub struct Model {
    pub nodes: BTreeMap<Id, Body>,
    made: u32,
}

type Outcome = Result<(), Errno>;

impl Model {
    /// The tree that every check begins with.
    pub fn first() -> Model {
        let file = |text: &str| Body::File { bytes: text.into(), xattrs: BTreeSet::new() };
        let dir =
            |entries: &[(&str, Id)]| Body::Dir(entries.iter().map(|(name, id)| (name.to_string(), *id)).collect());
        let nodes = [
            (ROOT, dir(&[("a", A), ("b", B), ("c", C), ("d", D)])),
            (A, dir(&[("sub", SUB), ("f", F)])),
            (SUB, dir(&[])),
            (F, file("ffff")),
            (B, dir(&[("g", G), ("h", F)])),
            (G, file("gggg")),
            (C, dir(&[])),
            (D, dir(&[])),
        ];
        Model { nodes: nodes.into(), made: 0 }
    }

    pub fn entries(&self, dir: Id) -> Result<&BTreeMap<String, Id>, Errno> {
        match self.nodes.get(&dir) {
            Some(Body::Dir(entries)) => Ok(entries),
            Some(_) => Err(Errno::ENOTDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn entries_mut(&mut self, dir: Id) -> &mut BTreeMap<String, Id> {
        match self.nodes.get_mut(&dir) {
            Some(Body::Dir(entries)) => entries,
            other => panic!("checked before: {other:?}"),
        }
    }

    fn is_dir(&self, id: Id) -> bool {
        matches!(self.nodes.get(&id), Some(Body::Dir(_)))
    }

    /// A file's link count: its names; a directory's: two, and one for each directory in it.
    pub fn links(&self, id: Id) -> usize {
        match &self.nodes[&id] {
            Body::Dir(entries) => 2 + entries.values().filter(|id| self.is_dir(**id)).count(),
            Body::File { .. } => self.names(id),
        }
    }

    fn names(&self, id: Id) -> usize {
        self.nodes
            .values()
            .filter_map(|body| if let Body::Dir(e) = body { Some(e) } else { None })
            .fold(0, |sum, e| sum + e.values().filter(|named| **named == id).count())
    }

    fn bytes(&mut self, file: Id) -> Result<&mut Vec<u8>, Errno> {
        match self.nodes.get_mut(&file) {
            Some(Body::File { bytes, .. }) => Ok(bytes),
            Some(Body::Dir(_)) => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }

    /// Does one operation.
    pub fn apply(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Create { dir, name, exclusive } => self.create(*dir, name, *exclusive),
            Op::Mkdir { dir, name } => self.add(*dir, name, Body::Dir(BTreeMap::new())),
            Op::Link { file, dir, name } => self.link(*file, *dir, name),
            Op::Unlink { dir, name } => self.unlink(*dir, name),
            Op::Rmdir { dir, name } => self.rmdir(*dir, name),
            Op::Rename { from, to, how } => self.rename(*from, *to, *how),
            Op::Write { file, offset, bytes } => self.write(*file, *offset as usize, bytes.as_bytes()),
            Op::Append { file, bytes } => {
                let end = self.bytes(*file)?.len();
                self.write(*file, end, bytes.as_bytes())
            }
            Op::Truncate { file, size } => {
                self.bytes(*file)?.resize(*size as usize, 0);
                Ok(())
            }
            Op::Xattr { file, name } => match self.nodes.get_mut(file) {
                Some(Body::File { xattrs, .. }) => {
                    xattrs.insert(name);
                    Ok(())
                }
                _ => Err(Errno::ENOENT),
            },
        }
    }

    fn create(&mut self, dir: Id, name: &str, exclusive: bool) -> Outcome {
        match self.entries(dir)?.get(name) {
            Some(_) if exclusive => Err(Errno::EEXIST),
            Some(found) if self.is_dir(*found) => Err(Errno::EISDIR),
            Some(_) => Ok(()),
            None => self.add(dir, name, Body::File { bytes: Vec::new(), xattrs: BTreeSet::new() }),
        }
    }

    fn add(&mut self, dir: Id, name: &str, body: Body) -> Outcome {
        if self.entries(dir)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let id = NEW + self.made;
        self.made += 1;
        self.nodes.insert(id, body);
        self.entries_mut(dir).insert(name.into(), id);
        Ok(())
    }

    fn link(&mut self, file: Id, dir: Id, name: &str) -> Outcome {
        let taken = self.entries(dir)?.contains_key(name);
        match self.nodes.get(&file) {
            None => Err(Errno::ENOENT),
            Some(Body::Dir(_)) => Err(Errno::EPERM),
            Some(_) if taken => Err(Errno::EEXIST),
            Some(_) => {
                self.entries_mut(dir).insert(name.into(), file);
                Ok(())
            }
        }
    }

    fn find(&self, dir: Id, name: &str) -> Result<Id, Errno> {
        self.entries(dir)?.get(name).copied().ok_or(Errno::ENOENT)
    }

    fn unlink(&mut self, dir: Id, name: &str) -> Outcome {
        let found = self.find(dir, name)?;
        if self.is_dir(found) {
            return Err(Errno::EISDIR);
        }
        self.entries_mut(dir).remove(name);
        self.drop_nameless(found);
        Ok(())
    }

    fn drop_nameless(&mut self, id: Id) {
        if self.names(id) == 0 {
            self.nodes.remove(&id);
        }
    }

    fn rmdir(&mut self, dir: Id, name: &str) -> Outcome {
        let found = self.find(dir, name)?;
        if !self.entries(found)?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.entries_mut(dir).remove(name);
        self.nodes.remove(&found);
        Ok(())
    }

    /// Whether `id` lies at or below `top`.
    fn below(&self, id: Id, top: Id) -> bool {
        id == top || self.entries(top).is_ok_and(|entries| entries.values().any(|child| self.below(id, *child)))
    }

    fn rename(&mut self, from: (Id, &str), to: (Id, &str), how: How) -> Outcome {
        let source = self.find(from.0, from.1)?;
        let target = self.entries(to.0)?.get(to.1).copied();
        match (how, target) {
            (How::NoReplace, Some(_)) => return Err(Errno::EEXIST),
            (How::Exchange, None) => return Err(Errno::ENOENT),
            (_, Some(target)) if target == source => return Ok(()),
            _ => {}
        }
        let loops = |moved: Id, into: Id| self.is_dir(moved) && self.below(into, moved);
        if loops(source, to.0) || (how == How::Exchange && target.is_some_and(|target| loops(target, from.0))) {
            return Err(Errno::EINVAL);
        }
        if how == How::Replace
            && let Some(target) = target
        {
            match (self.is_dir(source), self.is_dir(target)) {
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                (true, true) if !self.entries(target)?.is_empty() => return Err(Errno::ENOTEMPTY),
                _ => {}
            }
        }
        self.entries_mut(from.0).remove(from.1);
        self.entries_mut(to.0).insert(to.1.into(), source);
        match target {
            Some(target) if how == How::Exchange => drop(self.entries_mut(from.0).insert(from.1.into(), target)),
            Some(target) => self.drop_nameless(target),
            None => {}
        }
        Ok(())
    }

    fn write(&mut self, file: Id, offset: usize, data: &[u8]) -> Outcome {
        let bytes = self.bytes(file)?;
        if bytes.len() < offset + data.len() {
            bytes.resize(offset + data.len(), 0);
        }
        bytes[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }

    /// The whole tree by path. Files that an operation made are all called [`NEW`].
    pub fn picture(&self) -> BTreeMap<String, Seen> {
        let mut picture = BTreeMap::new();
        self.draw(ROOT, "", &mut picture);
        picture
    }

    fn draw(&self, id: Id, path: &str, picture: &mut BTreeMap<String, Seen>) {
        let (bytes, xattrs) = match &self.nodes[&id] {
            Body::File { bytes, xattrs } => (Some(bytes.clone()), xattrs.iter().map(|name| name.to_string()).collect()),
            Body::Dir(entries) => {
                entries.iter().for_each(|(name, child)| self.draw(*child, &format!("{path}/{name}"), picture));
                (None, Vec::new())
            }
        };
        picture.insert(path.into(), Seen { id: id.min(NEW), links: self.links(id) as u64, bytes, xattrs });
    }
}

/// What is found at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub id: Id,
    pub links: u64,
    /// A file's bytes; `None` for a directory.
    pub bytes: Option<Vec<u8>>,
    pub xattrs: Vec<String>,
}
