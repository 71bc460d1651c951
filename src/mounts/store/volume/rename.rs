//! Names moved.
//!
//! A directory that comes into another one must not come below itself, also when two are moved at the same moment. So
//! the identity of each directory above the destination is expected, and a moved directory's identity is put with its
//! new parent: of two moves that would make a loop together, the second conflicts.

use super::super::record::{Dentry, Inode, Key, Record};
use super::commit::{At, Txn, redo};
use super::core::Core;
use super::names::{existing, new_cookie, place};
use super::removal::{Loss, lose_directory, lose_name};
use super::view::no_directory;
use crate::types::{Caller, Errno, Error, FileKind, Name, NodeId, RenameMode, Result};

/// Directories above one another at most: a guard against damaged data.
const DEPTH: usize = 100_000;

/// A place in the tree.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub dir: NodeId,
    pub name: &'a Name,
}

impl Place<'_> {
    fn key(&self) -> Key {
        Key::Dentry(self.dir, self.name.clone())
    }
}

/// Moves a name.
pub async fn rename(core: &Core, caller: &Caller, from: Place<'_>, to: Place<'_>, mode: RenameMode) -> Result<()> {
    let loss = redo!(core, "rename", Some(caller.origin), |txn| build(&mut txn, from, to, mode));
    if let Some(loss) = loss {
        loss.done(core);
    }
    Ok(())
}

async fn build<'a>(txn: &mut Txn<'a>, from: Place<'_>, to: Place<'_>, mode: RenameMode) -> Result<Option<Loss<'a>>> {
    let source = existing(txn, "rename", from.dir, from.name).await?;
    let (parent, target) = place(txn, "rename", to.dir, to.name).await?;
    match (mode, target) {
        (RenameMode::NoReplace, Some(_)) => Err(refused(Errno::EEXIST, to.name)),
        (RenameMode::Exchange, None) => Err(refused(Errno::ENOENT, to.name)),
        (_, Some(target)) if target.record.node == source.record.node => Ok(None),
        (RenameMode::Exchange, Some(target)) => exchange(txn, from, to, source, target).await.map(|()| None),
        (_, target) => replace(txn, from, to, source, target, parent).await,
    }
}

fn refused(errno: Errno, name: &Name) -> Error {
    Error::new("rename", errno).context(name.to_string())
}

async fn replace<'a>(
    txn: &mut Txn<'a>,
    from: Place<'_>,
    to: Place<'_>,
    source: At<Dentry>,
    target: Option<At<Dentry>>,
    parent: At<Inode>,
) -> Result<Option<Loss<'a>>> {
    let is_dir = source.record.kind == FileKind::Directory;
    if is_dir && from.dir != to.dir {
        adopt(txn, source.record.node, to.dir).await?;
    }
    let loss = match &target {
        Some(target) => Some(displace(txn, is_dir, target, to).await?),
        None => None,
    };
    let displaced_dir = target.as_ref().is_some_and(|target| target.record.kind == FileKind::Directory);
    txn.expect(Key::Inode(to.dir), parent.revision);
    txn.expect(from.key(), source.revision);
    txn.delete(from.key());
    match &target {
        Some(target) => txn.expect(to.key(), target.revision),
        None => txn.expect_absent(to.key()),
    }
    // A name that stays in its directory keeps its place, so that a listing under way shows it once.
    let cookie = target.as_ref().map_or_else(new_cookie, |target| target.record.cookie);
    txn.put(to.key(), Record::Dentry(Dentry { cookie, ..source.record }));
    txn.touch(source.record.node);
    txn.count_entry(from.dir, -1);
    txn.count_entry(to.dir, i64::from(target.is_none()));
    txn.count_links(from.dir, -i64::from(is_dir));
    txn.count_links(to.dir, i64::from(is_dir) - i64::from(displaced_dir));
    Ok(loss)
}

/// Takes away what lies at the destination, which must be of the kind that comes there.
async fn displace<'a>(txn: &mut Txn<'a>, is_dir: bool, target: &At<Dentry>, to: Place<'_>) -> Result<Loss<'a>> {
    match (is_dir, target.record.kind == FileKind::Directory) {
        (true, true) => lose_directory(txn, "rename", target.record.node).await,
        (true, false) => Err(refused(Errno::ENOTDIR, to.name)),
        (false, true) => Err(refused(Errno::EISDIR, to.name)),
        (false, false) => lose_name(txn, target.record.node).await,
    }
}

/// Swaps two names' files; each name keeps its place in its directory.
async fn exchange(
    txn: &mut Txn<'_>,
    from: Place<'_>,
    to: Place<'_>,
    source: At<Dentry>,
    target: At<Dentry>,
) -> Result<()> {
    let is_dir = |dentry: &At<Dentry>| dentry.record.kind == FileKind::Directory;
    let crossing = from.dir != to.dir;
    if crossing && is_dir(&source) {
        adopt(txn, source.record.node, to.dir).await?;
    }
    if crossing && is_dir(&target) {
        adopt(txn, target.record.node, from.dir).await?;
    }
    txn.expect(from.key(), source.revision);
    txn.expect(to.key(), target.revision);
    txn.put(from.key(), Record::Dentry(Dentry { cookie: source.record.cookie, ..target.record }));
    txn.put(to.key(), Record::Dentry(Dentry { cookie: target.record.cookie, ..source.record }));
    txn.touch(source.record.node);
    txn.touch(target.record.node);
    txn.count_entry(from.dir, 0);
    txn.count_entry(to.dir, 0);
    let links = i64::from(is_dir(&target)) - i64::from(is_dir(&source));
    txn.count_links(from.dir, links);
    txn.count_links(to.dir, -links);
    Ok(())
}

/// Gives directory `moved` the parent `parent`, which must not lie at or below it, now and until the commit.
async fn adopt(txn: &mut Txn<'_>, moved: NodeId, parent: NodeId) -> Result<()> {
    let mut dir = parent;
    for _ in 0..DEPTH {
        if dir == moved {
            return Err(Error::new("rename", Errno::EINVAL).context("a directory would come below itself"));
        }
        let above = txn.inode(dir).await?.ok_or_else(|| no_directory(txn.core, "rename", dir))?;
        txn.expect(Key::Inode(dir), above.revision);
        match above.record.parent {
            Some(next) if next != dir => dir = next,
            _ => return put_parent(txn, moved, parent).await,
        }
    }
    Err(Error::new("rename", Errno::EIO).context("the directories above never end"))
}

async fn put_parent(txn: &mut Txn<'_>, moved: NodeId, parent: NodeId) -> Result<()> {
    let inode = txn.inode(moved).await?.ok_or_else(|| no_directory(txn.core, "rename", moved))?;
    txn.expect(Key::Inode(moved), inode.revision);
    txn.put(Key::Inode(moved), Record::Inode(Inode { parent: Some(parent), ..inode.record }));
    Ok(())
}
