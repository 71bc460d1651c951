//! Names: found, given, taken away.

use super::super::record::{Dentry, Inode, Key, Record, Stats};
use super::commit::{At, Txn, dentry_of, inode_of, redo, stats_of};
use super::core::{Core, random};
use super::numbers;
use super::removal::{Loss, lose_directory, lose_name};
use super::view::{entry, no_directory, pending};
use crate::types::{Caller, Entry, Errno, Error, FileKind, Mode, Name, NodeId, Result};
use bytes::Bytes;

/// The most names that a file may have: what a 32-bit link count can tell.
const LINKS: u64 = i32::MAX as u64;

/// The longest target of a symbolic link, in bytes.
const TARGET: usize = 4095;

/// What a new file is to be.
pub struct NewFile<'a> {
    pub operation: &'static str,
    pub kind: FileKind,
    pub mode: Mode,
    pub rdev: u32,
    pub target: &'a [u8],
}

/// A place for an entry in its directory's listing: any but the first and the last number.
pub fn new_cookie() -> u64 {
    1 + random() % (i64::MAX as u64 - 1)
}

/// Finds a name.
pub async fn lookup(core: &Core, dir: NodeId, name: &Name) -> Result<Entry> {
    let key = Key::Dentry(dir, name.clone());
    for _ in 0..2 {
        let (mut found, _) = core.get(std::slice::from_ref(&key)).await?;
        let Some(stored) = found.pop().flatten() else { return Err(no_name(core, "lookup", dir, name).await) };
        let node = dentry_of(stored)?.record.node;
        let unsaved = pending(core, node);
        let (found, _) = core.get(&[Key::Inode(node), Key::Stats(node)]).await?;
        if let [Some(inode), Some(stats)] = &found[..] {
            let (inode, stats) = (inode_of(inode.clone())?.record, stats_of(stats.clone())?.record);
            return Ok(entry(core, node, &inode, &stats, unsaved));
        }
        // The file went between the two reads, or what is remembered of the name is old.
        core.records.drop(&key);
    }
    Err(no_name(core, "lookup", dir, name).await)
}

/// That there is no such name: or no such directory, or it is none.
async fn no_name(core: &Core, operation: &'static str, dir: NodeId, name: &Name) -> Error {
    match core.get(&[Key::Inode(dir)]).await {
        Ok((found, _)) => match found.into_iter().next().flatten() {
            Some(stored) => match inode_of(stored) {
                Ok(inode) if inode.record.kind == FileKind::Directory => {
                    Error::new(operation, Errno::ENOENT).context(format!("{name} in directory {dir}"))
                }
                Ok(_) => not_directory(operation, dir),
                Err(error) => error,
            },
            None => no_directory(core, operation, dir),
        },
        Err(error) => error,
    }
}

fn not_directory(operation: &'static str, dir: NodeId) -> Error {
    Error::new(operation, Errno::ENOTDIR).context(format!("file {dir}"))
}

/// A directory and what a name in it means.
pub async fn place(
    txn: &mut Txn<'_>,
    operation: &'static str,
    dir: NodeId,
    name: &Name,
) -> Result<(At<Inode>, Option<At<Dentry>>)> {
    let [parent, found] = txn.get([Key::Inode(dir), Key::Dentry(dir, name.clone())]).await?;
    let parent = parent.map(inode_of).transpose()?.ok_or_else(|| no_directory(txn.core, operation, dir))?;
    if parent.record.kind != FileKind::Directory {
        return Err(not_directory(operation, dir));
    }
    Ok((parent, found.map(dentry_of).transpose()?))
}

/// A name that must be there.
pub async fn existing(txn: &mut Txn<'_>, operation: &'static str, dir: NodeId, name: &Name) -> Result<At<Dentry>> {
    let (_, found) = place(txn, operation, dir, name).await?;
    found.ok_or_else(|| Error::new(operation, Errno::ENOENT).context(format!("{name} in directory {dir}")))
}

fn exists(operation: &'static str, name: &Name) -> Error {
    Error::new(operation, Errno::EEXIST).context(name.to_string())
}

/// Makes a file and its first name.
pub async fn make(core: &Core, caller: &Caller, dir: NodeId, name: &Name, new: &NewFile<'_>) -> Result<Entry> {
    if new.target.len() > TARGET {
        return Err(Error::new(new.operation, Errno::ENAMETOOLONG).context("the target of the link"));
    }
    let node = numbers::next(core).await?;
    let (inode, stats) =
        redo!(core, new.operation, Some(caller.origin), |txn| build_new(&mut txn, caller, dir, name, node, new));
    Ok(entry(core, node, &inode, &stats, None))
}

/// Adds a new file to a try.
pub async fn build_new(
    txn: &mut Txn<'_>,
    caller: &Caller,
    dir: NodeId,
    name: &Name,
    node: NodeId,
    new: &NewFile<'_>,
) -> Result<(Inode, Stats)> {
    let (parent, found) = place(txn, new.operation, dir, name).await?;
    if found.is_some() {
        return Err(exists(new.operation, name));
    }
    let is_dir = new.kind == FileKind::Directory;
    let inode = newborn(txn, caller, dir, &parent.record, new);
    let stats = Stats {
        size: new.target.len() as u64,
        links: if is_dir { 2 } else { 1 },
        atime: txn.now,
        mtime: txn.now,
        ctime: txn.now,
        ..Stats::default()
    };
    add_name(txn, dir, &parent, name, Dentry { node, kind: new.kind, cookie: new_cookie() });
    txn.put(Key::Inode(node), Record::Inode(inode.clone()));
    txn.put(Key::Stats(node), Record::Stats(stats));
    txn.count_entry(dir, 1);
    txn.count_links(dir, i64::from(is_dir));
    Ok((inode, stats))
}

fn newborn(txn: &Txn<'_>, caller: &Caller, dir: NodeId, parent: &Inode, new: &NewFile<'_>) -> Inode {
    const SETGID: u32 = 0o2000;
    let is_dir = new.kind == FileKind::Directory;
    let inherited = parent.mode.bits() & SETGID;
    Inode {
        kind: new.kind,
        mode: if is_dir { Mode::new(new.mode.bits() | inherited) } else { new.mode },
        uid: caller.uid,
        gid: if inherited != 0 { parent.gid } else { caller.gid },
        rdev: new.rdev,
        parent: is_dir.then_some(dir),
        target: Bytes::copy_from_slice(new.target),
        born: txn.now,
    }
}

/// Gives a name that is free, in a directory that is alive and stays so.
fn add_name(txn: &mut Txn<'_>, dir: NodeId, parent: &At<Inode>, name: &Name, dentry: Dentry) {
    txn.expect(Key::Inode(dir), parent.revision);
    txn.expect_absent(Key::Dentry(dir, name.clone()));
    txn.put(Key::Dentry(dir, name.clone()), Record::Dentry(dentry));
}

/// Gives a file a further name.
pub async fn link(core: &Core, caller: &Caller, node: NodeId, dir: NodeId, name: &Name) -> Result<Entry> {
    let unsaved = pending(core, node);
    let (inode, stats) = redo!(core, "link", Some(caller.origin), |txn| build_link(&mut txn, node, dir, name));
    Ok(entry(core, node, &inode, &stats, unsaved))
}

async fn build_link(txn: &mut Txn<'_>, node: NodeId, dir: NodeId, name: &Name) -> Result<(Inode, Stats)> {
    let (parent, found) = place(txn, "link", dir, name).await?;
    let Some((inode, mut stats)) = txn.file(node).await? else {
        return Err(no_directory(txn.core, "link", node));
    };
    let refusal = match inode.record.kind {
        FileKind::Directory => Some(Errno::EPERM),
        _ if stats.links == 0 => Some(Errno::ENOENT),
        _ if found.is_some() => Some(Errno::EEXIST),
        _ if stats.links >= LINKS => Some(Errno::EMLINK),
        _ => None,
    };
    if let Some(errno) = refusal {
        return Err(Error::new("link", errno).context(name.to_string()));
    }
    let dentry = Dentry { node, kind: inode.record.kind, cookie: new_cookie() };
    add_name(txn, dir, &parent, name, dentry);
    // Somebody who takes the last name away at the same moment changes this count.
    txn.guard(node, super::super::engine::Field::Links, stats.links);
    txn.count_links(node, 1);
    txn.touch(node);
    txn.count_entry(dir, 1);
    stats.links += 1;
    stats.ctime = txn.now;
    Ok((inode.record, stats))
}

/// Takes a name away that is no directory.
pub async fn unlink(core: &Core, caller: &Caller, dir: NodeId, name: &Name) -> Result<()> {
    let loss = redo!(core, "unlink", Some(caller.origin), |txn| build_unlink(&mut txn, dir, name));
    loss.done(core);
    Ok(())
}

async fn build_unlink<'a>(txn: &mut Txn<'a>, dir: NodeId, name: &Name) -> Result<Loss<'a>> {
    let dentry = existing(txn, "unlink", dir, name).await?;
    if dentry.record.kind == FileKind::Directory {
        return Err(Error::new("unlink", Errno::EISDIR).context(name.to_string()));
    }
    take_name(txn, dir, name, &dentry);
    lose_name(txn, dentry.record.node).await
}

/// Removes an empty directory.
pub async fn rmdir(core: &Core, caller: &Caller, dir: NodeId, name: &Name) -> Result<()> {
    let loss = redo!(core, "rmdir", Some(caller.origin), |txn| build_rmdir(&mut txn, dir, name));
    loss.done(core);
    Ok(())
}

async fn build_rmdir<'a>(txn: &mut Txn<'a>, dir: NodeId, name: &Name) -> Result<Loss<'a>> {
    let dentry = existing(txn, "rmdir", dir, name).await?;
    if dentry.record.kind != FileKind::Directory {
        return Err(Error::new("rmdir", Errno::ENOTDIR).context(name.to_string()));
    }
    take_name(txn, dir, name, &dentry);
    txn.count_links(dir, -1);
    lose_directory(txn, "rmdir", dentry.record.node).await
}

fn take_name(txn: &mut Txn<'_>, dir: NodeId, name: &Name, dentry: &At<Dentry>) {
    let key = Key::Dentry(dir, name.clone());
    txn.expect(key.clone(), dentry.revision);
    txn.delete(key);
    txn.count_entry(dir, -1);
}

/// The target of a symbolic link.
pub async fn readlink(core: &Core, node: NodeId) -> Result<Bytes> {
    let (inode, _) = super::view::records(core, node).await?;
    match inode.kind {
        FileKind::Symlink => Ok(inode.target),
        _ => Err(Error::new("readlink", Errno::EINVAL).context("no symbolic link")),
    }
}
