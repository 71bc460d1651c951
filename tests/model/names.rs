//! The reference's names: found, given, moved, taken away.

use super::contents::Contents;
use super::reference::{Body, Handle, Id, Model, ROOT, Verdict, Who, refused};
use std::collections::BTreeMap;
use workfs::types::{Errno, FileKind, Mode, OpenFlags, RenameMode};

const SETGID: u32 = 0o2000;

/// A name in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    pub dir: Id,
    pub name: &'static str,
}

impl Model {
    /// A directory's entries.
    pub fn entries(&self, dir: Id) -> Verdict<&BTreeMap<&'static str, Id>> {
        match &self.inode(dir).body {
            Body::Dir { entries, .. } => Ok(entries),
            _ => refused(Errno::ENOTDIR),
        }
    }

    /// The entries of a directory that has not been removed.
    fn living(&self, dir: Id) -> Verdict<&BTreeMap<&'static str, Id>> {
        let entries = self.entries(dir)?;
        if self.inode(dir).names == 0 { refused(Errno::ENOENT) } else { Ok(entries) }
    }

    pub fn find(&self, at: At) -> Verdict<Id> {
        self.living(at.dir)?.get(at.name).copied().ok_or_else(|| vec![Errno::ENOENT])
    }

    pub fn child(&self, at: At) -> Option<Id> {
        self.find(at).ok()
    }

    /// The names that lead to a file from the root, where there are any.
    pub fn path(&self, id: Id) -> Option<Vec<&'static str>> {
        if id == ROOT {
            return Some(Vec::new());
        }
        self.nodes.iter().find_map(|(dir, inode)| {
            let Body::Dir { entries, .. } = &inode.body else { return None };
            let (name, _) = entries.iter().find(|(_, child)| **child == id)?;
            let mut path = self.path(*dir)?;
            path.push(name);
            Some(path)
        })
    }

    fn put(&mut self, at: At, id: Id) {
        let Body::Dir { entries, .. } = &mut self.inode_mut(at.dir).body else { panic!("checked before") };
        entries.insert(at.name, id);
        let child = self.inode_mut(id);
        child.names += 1;
        if let Body::Dir { parent, .. } = &mut child.body {
            *parent = at.dir;
        }
    }

    fn take(&mut self, at: At) -> Id {
        let Body::Dir { entries, .. } = &mut self.inode_mut(at.dir).body else { panic!("checked before") };
        let id = entries.remove(at.name).expect("checked before");
        self.inode_mut(id).names -= 1;
        id
    }

    /// Makes a file of its own kind.
    pub fn make(&mut self, at: At, body: Body, mode: Mode, who: Who) -> Verdict<Id> {
        if self.living(at.dir)?.contains_key(at.name) {
            return refused(Errno::EEXIST);
        }
        let dir = self.inode(at.dir);
        let inherits = dir.mode.bits() & SETGID != 0;
        let (uid, own) = who.id();
        let gid = if inherits { dir.gid } else { own };
        let mode = match &body {
            Body::Dir { .. } if inherits => Mode::new(mode.bits() | SETGID),
            Body::Symlink(_) => Mode::new(0o777),
            _ => mode,
        };
        let id = self.add(body, mode, uid, gid);
        self.put(at, id);
        self.touch_contents(at.dir);
        Ok(id)
    }

    /// `open(2)` with `O_CREAT`.
    pub fn create(&mut self, at: At, mode: Mode, flags: OpenFlags, slot: usize, who: Who) -> Verdict<Id> {
        match self.living(at.dir)?.get(at.name).copied() {
            Some(_) if flags.exclusive => refused(Errno::EEXIST),
            Some(found) => self.open(found, flags, slot, who).map(|()| found),
            None => {
                let node = self.make(at, Body::File(Contents::default()), mode, who)?;
                self.slots[slot] = Some(Handle { node, flags });
                Ok(node)
            }
        }
    }

    pub fn link(&mut self, id: Id, at: At) -> Verdict<Id> {
        let mut refusals = Vec::new();
        match self.living(at.dir) {
            Ok(entries) if entries.contains_key(at.name) => refusals.push(Errno::EEXIST),
            Ok(_) => {}
            Err(refusal) => refusals.extend(refusal),
        }
        if self.inode(id).is_dir() {
            refusals.push(Errno::EPERM);
        }
        if self.inode(id).names == 0 {
            refusals.push(Errno::ENOENT);
        }
        if !refusals.is_empty() {
            return Err(refusals);
        }
        self.put(at, id);
        self.touch(id);
        self.touch_contents(at.dir);
        Ok(id)
    }

    pub fn unlink(&mut self, at: At) -> Verdict<()> {
        if self.inode(self.find(at)?).is_dir() {
            return refused(Errno::EISDIR);
        }
        let id = self.take(at);
        self.touch(id);
        self.touch_contents(at.dir);
        Ok(())
    }

    pub fn rmdir(&mut self, at: At) -> Verdict<()> {
        let found = self.find(at)?;
        if !self.entries(found)?.is_empty() {
            return refused(Errno::ENOTEMPTY);
        }
        self.take(at);
        self.touch_contents(at.dir);
        Ok(())
    }

    /// Whether `id` is `top` or lies below it.
    fn is_below(&self, id: Id, top: Id) -> bool {
        match &self.inode(id).body {
            _ if id == top => true,
            Body::Dir { parent, .. } if id != ROOT => self.is_below(*parent, top),
            _ => false,
        }
    }

    /// `renameat2(2)`
    pub fn rename(&mut self, from: At, to: At, mode: RenameMode) -> Verdict<()> {
        self.living(to.dir)?;
        let (source, target) = (self.find(from)?, self.child(to));
        if target == Some(source) && mode != RenameMode::NoReplace {
            return Ok(());
        }
        let refusals = self.refusals(from, to, source, target, mode);
        if !refusals.is_empty() {
            return Err(refusals);
        }
        self.take(from);
        if let Some(target) = target {
            self.take(to);
            self.touch(target);
            if mode == RenameMode::Exchange {
                self.put(from, target);
            }
        }
        self.put(to, source);
        self.touch(source);
        self.touch_contents(from.dir);
        self.touch_contents(to.dir);
        Ok(())
    }

    fn refusals(&self, from: At, to: At, source: Id, target: Option<Id>, mode: RenameMode) -> Vec<Errno> {
        let is_dir = |id: Id| self.inode(id).is_dir();
        let mut refusals = Vec::new();
        if is_dir(source) && self.is_below(to.dir, source) {
            refusals.push(Errno::EINVAL);
        }
        let Some(target) = target else {
            refusals.extend((mode == RenameMode::Exchange).then_some(Errno::ENOENT));
            return refusals;
        };
        match mode {
            RenameMode::NoReplace => refusals.push(Errno::EEXIST),
            RenameMode::Exchange if is_dir(target) && self.is_below(from.dir, target) => refusals.push(Errno::EINVAL),
            RenameMode::Exchange => {}
            RenameMode::Replace => {
                match (is_dir(source), is_dir(target)) {
                    (true, false) => refusals.push(Errno::ENOTDIR),
                    (false, true) => refusals.push(Errno::EISDIR),
                    _ => {}
                }
                if self.entries(target).is_ok_and(|entries| !entries.is_empty()) {
                    refusals.push(Errno::ENOTEMPTY);
                }
            }
        }
        refusals
    }

    /// The kinds of a directory's entries.
    pub fn list(&self, dir: Id) -> Verdict<BTreeMap<String, FileKind>> {
        let entries = self.entries(dir)?;
        Ok(entries.iter().map(|(name, id)| (name.to_string(), self.inode(*id).kind())).collect())
    }
}
