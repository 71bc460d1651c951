//! What the memory store holds, and what a commit does to it.

use super::super::engine::{Batch, BlockChange, Expect, Field, FieldChange, FieldOp, Guard, Outcome};
use super::super::record::{Dentry, Key, Prefix, Record, Revision, SessionId, Stats, Stored};
use super::blocks::{BLOCK_SIZE, Blocks};
use crate::types::{Errno, Error, Name, NodeId, Result, Timestamp};
use std::collections::{BTreeMap, HashMap};

/// All records of a namespace.
pub struct Tables {
    pub revision: Revision,
    pub blocks: Blocks,
    /// Files: the number of [`Key::Inode`].
    pub files: u64,
    records: BTreeMap<Key, Stored>,
    /// The entries of directories in the order of their cookies.
    cookies: BTreeMap<(NodeId, u64), Name>,
}

impl Tables {
    pub fn new() -> Tables {
        Tables {
            revision: Revision::FIRST,
            blocks: Blocks::default(),
            files: 0,
            records: BTreeMap::new(),
            cookies: BTreeMap::new(),
        }
    }

    /// Records, blocks not among them.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn get(&self, key: &Key) -> Option<Stored> {
        match key {
            Key::Block(node, index) => self
                .blocks
                .get(*node, *index)
                .map(|block| Stored { record: Record::Extent(block.bytes.len() as u32), revision: block.revision }),
            _ => self.records.get(key).cloned(),
        }
    }

    pub fn scan(&self, prefix: &Prefix, after: Option<u64>, limit: usize) -> Vec<(Key, Stored)> {
        let from = after.map_or(0, |last| last.saturating_add(1));
        match prefix {
            Prefix::Entries(dir) => self
                .cookies
                .range((*dir, from)..=(*dir, u64::MAX))
                .take(limit)
                .filter_map(|(_, name)| self.pair(Key::Dentry(*dir, name.clone())))
                .collect(),
            Prefix::Extents(node) => self
                .blocks
                .range(*node, from..u64::MAX)
                .take(limit)
                .filter_map(|(index, _)| self.pair(Key::Block(*node, index)))
                .collect(),
            Prefix::Orphans => self.run(Key::Orphan(NodeId(from)), |key| matches!(key, Key::Orphan(_)), limit),
            Prefix::Xattrs(node) => {
                let mine = |key: &Key| matches!(key, Key::Xattr(of, _) if of == node);
                self.run(Key::Xattr(*node, bytes::Bytes::new()), mine, usize::MAX)
            }
            Prefix::Claims(node) => {
                let mine = |key: &Key| matches!(key, Key::Claim(of, _) if of == node);
                self.run(Key::Claim(*node, SessionId(0)), mine, usize::MAX)
            }
            Prefix::Locks => self.run(Key::Locks(NodeId(from)), |key| matches!(key, Key::Locks(_)), limit),
            Prefix::Sessions => self.run(Key::Session(SessionId(0)), |key| matches!(key, Key::Session(_)), usize::MAX),
        }
    }

    fn pair(&self, key: Key) -> Option<(Key, Stored)> {
        self.get(&key).map(|stored| (key, stored))
    }

    /// The records from `first` on, as long as they are `mine`.
    fn run(&self, first: Key, mine: impl Fn(&Key) -> bool, limit: usize) -> Vec<(Key, Stored)> {
        let run = self.records.range(first..).take_while(|(key, _)| mine(key)).take(limit);
        run.map(|(key, stored)| (key.clone(), stored.clone())).collect()
    }

    /// What would become of the batch now; `Committed` tells the revision it would have.
    ///
    /// # Errors
    /// `EINVAL` for a batch that no engine could do.
    pub fn check(&self, batch: &Batch) -> Result<Outcome> {
        well_formed(batch)?;
        if batch.session.is_some_and(|id| !self.records.contains_key(&Key::Session(id))) {
            return Ok(Outcome::Fenced);
        }
        let holds = batch.expect.iter().all(|(key, expect)| self.expected(key, *expect))
            && batch.guard.iter().all(|guard| self.guarded(guard))
            && self.cookies_free(batch);
        Ok(if holds { Outcome::Committed(Revision(self.revision.0 + 1)) } else { Outcome::Conflict })
    }

    fn expected(&self, key: &Key, expect: Expect) -> bool {
        match (expect, self.get(key)) {
            (Expect::Absent, found) => found.is_none(),
            (Expect::At(revision), found) => found.is_some_and(|stored| stored.revision == revision),
        }
    }

    fn guarded(&self, guard: &Guard) -> bool {
        self.stats(guard.node).is_some_and(|stats| read_field(stats, guard.field) == guard.value)
    }

    fn stats(&self, node: NodeId) -> Option<&Stats> {
        match self.records.get(&Key::Stats(node)) {
            Some(Stored { record: Record::Stats(stats), .. }) => Some(stats),
            _ => None,
        }
    }

    /// Whether, after the batch's deletes, no dentry it puts has the cookie of another.
    fn cookies_free(&self, batch: &Batch) -> bool {
        let mut taken: HashMap<(NodeId, u64), &Name> = HashMap::new();
        batch.put.iter().all(|(key, record)| {
            let (Key::Dentry(dir, name), Record::Dentry(dentry)) = (key, record) else {
                return true;
            };
            let place = (*dir, dentry.cookie);
            let free = match self.cookies.get(&place) {
                Some(holder) if holder != name => batch.delete.contains(&Key::Dentry(*dir, holder.clone())),
                _ => true,
            };
            free && taken.insert(place, name).is_none_or(|other| other == name)
        })
    }

    /// Does what `check` allowed.
    pub fn apply(&mut self, batch: &Batch, revision: Revision) {
        self.revision = revision;
        for key in &batch.delete {
            self.remove(key);
        }
        for (key, record) in &batch.put {
            self.put(key, record, revision);
        }
        for change in &batch.fields {
            self.change_field(change);
        }
        for change in &batch.blocks {
            self.change_block(change, revision);
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(old) = self.records.remove(key) else { return };
        match (key, old.record) {
            (Key::Dentry(dir, _), Record::Dentry(dentry)) => drop(self.cookies.remove(&(*dir, dentry.cookie))),
            (Key::Inode(_), _) => self.files -= 1,
            _ => {}
        }
    }

    fn put(&mut self, key: &Key, record: &Record, revision: Revision) {
        self.remove(key);
        match (key, record) {
            (Key::Dentry(dir, name), Record::Dentry(Dentry { cookie, .. })) => {
                self.cookies.insert((*dir, *cookie), name.clone());
            }
            (Key::Inode(_), _) => self.files += 1,
            _ => {}
        }
        let mut record = record.clone();
        if let (Key::Stats(node), Record::Stats(stats)) = (key, &mut record) {
            // Whoever puts statistics need not know what is there.
            stats.allocated = self.blocks.range(*node, 0..u64::MAX).map(|(_, block)| block.bytes.len() as u64).sum();
        }
        self.records.insert(key.clone(), Stored { record, revision });
    }

    /// The record keeps its revision: who expects statistics expects the last `put`.
    fn change_field(&mut self, change: &FieldChange) {
        if let Some(Stored { record: Record::Stats(stats), .. }) = self.records.get_mut(&Key::Stats(change.node)) {
            let old = read_field(stats, change.field);
            let new = match change.op {
                FieldOp::Add(by) => old.saturating_add(by),
                FieldOp::Max(to) => old.max(to),
                FieldOp::Set(to) => to,
            };
            write_field(stats, change.field, new);
        }
    }

    fn change_block(&mut self, change: &BlockChange, revision: Revision) {
        let (node, grown) = match change {
            BlockChange::Patch { node, index, offset, bytes } => {
                (*node, self.blocks.patch(*node, *index, *offset as usize, bytes, revision))
            }
            BlockChange::Discard { node, start, end } => {
                (*node, self.blocks.discard(*node, *start, *end, u64::from(BLOCK_SIZE), revision))
            }
        };
        if let Some(Stored { record: Record::Stats(stats), .. }) = self.records.get_mut(&Key::Stats(node)) {
            stats.allocated = stats.allocated.saturating_add_signed(grown);
        }
    }
}

fn read_field(stats: &Stats, field: Field) -> i64 {
    match field {
        Field::Size => stats.size as i64,
        Field::Links => stats.links as i64,
        Field::Entries => stats.entries as i64,
        Field::Atime => stats.atime.0,
        Field::Mtime => stats.mtime.0,
        Field::Ctime => stats.ctime.0,
    }
}

fn write_field(stats: &mut Stats, field: Field, value: i64) {
    match field {
        Field::Size => stats.size = value as u64,
        Field::Links => stats.links = value as u64,
        Field::Entries => stats.entries = value as u64,
        Field::Atime => stats.atime = Timestamp(value),
        Field::Mtime => stats.mtime = Timestamp(value),
        Field::Ctime => stats.ctime = Timestamp(value),
    }
}

fn well_formed(batch: &Batch) -> Result<()> {
    let kinds = batch.put.iter().all(|(key, record)| record.belongs_to(key));
    let inside = batch.blocks.iter().all(|change| match change {
        BlockChange::Patch { offset, bytes, .. } => *offset as usize + bytes.len() <= BLOCK_SIZE as usize,
        BlockChange::Discard { .. } => true,
    });
    if kinds && inside {
        return Ok(());
    }
    let what = if kinds { "a patch reaches past its block" } else { "a record under a key of another kind" };
    Err(Error::new("commit", Errno::EINVAL).context(what))
}
