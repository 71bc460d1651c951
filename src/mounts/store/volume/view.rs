//! How records show: attributes and entries.

use super::super::record::{Inode, Key, Stats};
use super::commit::{inode_of, stats_of};
use super::core::Core;
use super::file::Pending;
use crate::types::{Attr, Entry, Errno, Error, FileKind, Generation, NodeId, Result, Validity};

/// What a directory's size is said to be. The entries it holds have none of their own.
const DIRECTORY_SIZE: u64 = 4096;

/// What of a file is not committed. To be asked before its records are read: what is committed in between then shows
/// twice, which is no harm, and never not at all.
pub fn pending(core: &Core, node: NodeId) -> Option<Pending> {
    core.nodes.file(node).and_then(|file| file.pending())
}

/// The attributes of a file. What is written and not committed shows in them.
pub fn show(core: &Core, node: NodeId, inode: &Inode, stats: &Stats, pending: Option<Pending>) -> Attr {
    let size = match inode.kind {
        FileKind::Directory => DIRECTORY_SIZE,
        _ => stats.size.max(pending.map_or(0, |pending| pending.end)),
    };
    // New bytes may lie over old ones; until the store has counted them, they are taken to fill what was empty.
    let allocated = stats.allocated.max(pending.map_or(0, |pending| size.min(stats.allocated + pending.bytes)));
    Attr {
        node,
        kind: inode.kind,
        mode: inode.mode,
        uid: inode.uid,
        gid: inode.gid,
        links: u32::try_from(stats.links).unwrap_or(u32::MAX),
        rdev: inode.rdev,
        size,
        blocks: allocated.div_ceil(512),
        block_size: core.block_size as u32,
        atime: stats.atime,
        mtime: pending.map_or(stats.mtime, |pending| pending.written),
        ctime: stats.ctime.max(pending.map_or(stats.ctime, |pending| pending.written)),
    }
}

/// An entry, which counts as a lookup of its file.
pub fn entry(core: &Core, node: NodeId, inode: &Inode, stats: &Stats, pending: Option<Pending>) -> Entry {
    core.nodes.know(node);
    uncounted(show(core, node, inode, stats, pending))
}

/// An entry of a file that is known without being counted.
pub fn uncounted(attr: Attr) -> Entry {
    // Numbers are never used again, so no two files need telling apart.
    Entry { attr, generation: Generation(0), validity: Validity::Volume }
}

/// A file's records, also of one that was removed and is still known.
///
/// # Errors
/// `ESTALE` where there is no such file.
pub async fn records(core: &Core, node: NodeId) -> Result<(Inode, Stats)> {
    let (found, _) = core.get(&[Key::Inode(node), Key::Stats(node)]).await?;
    if let [Some(inode), Some(stats)] = &found[..] {
        return Ok((inode_of(inode.clone())?.record, stats_of(stats.clone())?.record));
    }
    core.nodes.gone(node).map(|gone| (gone.inode, gone.stats)).ok_or_else(|| stale("getattr", node))
}

/// A file's attributes.
pub async fn attr(core: &Core, node: NodeId) -> Result<Attr> {
    let pending = pending(core, node);
    let (inode, stats) = records(core, node).await?;
    Ok(show(core, node, &inode, &stats, pending))
}

/// That there is no such file any more.
pub fn stale(operation: &'static str, node: NodeId) -> Error {
    Error::new(operation, Errno::ESTALE).context(format!("file {node} is gone"))
}

/// That a directory is not there: removed while its caller still knows it, or never known.
pub fn no_directory(core: &Core, operation: &'static str, dir: NodeId) -> Error {
    match core.nodes.is_known(dir) {
        true => Error::new(operation, Errno::ENOENT).context(format!("directory {dir} was removed")),
        false => stale(operation, dir),
    }
}
