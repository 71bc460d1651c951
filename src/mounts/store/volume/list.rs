//! Listings.

use super::super::record::{Dentry, Key, Prefix, Record};
use super::commit::{inode_of, stats_of};
use super::core::Core;
use super::view::{entry, pending, records};
use crate::mounts::{DirEntry, Listing};
use crate::types::{Cookie, Errno, Error, FileKind, Name, NodeId, Result};

/// Entries that are read at once, however many are asked for.
const PAGE: usize = 4096;

/// A part of a directory's entries.
pub async fn readdir(core: &Core, dir: NodeId, after: Cookie, limit: usize, plus: bool) -> Result<Listing> {
    let (inode, _) = records(core, dir).await?;
    if inode.kind != FileKind::Directory {
        return Err(Error::new("readdir", Errno::ENOTDIR));
    }
    let after = Some(after.0).filter(|after| *after > 0);
    let found = core.store.scan(&Prefix::Entries(dir), after, limit.min(PAGE)).await?;
    let found: Vec<(Name, Dentry)> = found
        .into_iter()
        .filter_map(|(key, stored)| match (key, stored.record) {
            (Key::Dentry(_, name), Record::Dentry(dentry)) => Some((name, dentry)),
            _ => None,
        })
        .collect();
    let entries = if plus { with_attributes(core, found).await? } else { found.into_iter().map(plain).collect() };
    Ok(Listing { parent: inode.parent.unwrap_or(dir), entries })
}

fn plain((name, dentry): (Name, Dentry)) -> DirEntry {
    DirEntry { name, cookie: Cookie(dentry.cookie), node: dentry.node, kind: dentry.kind, entry: None }
}

/// All files' records in one round trip.
async fn with_attributes(core: &Core, found: Vec<(Name, Dentry)>) -> Result<Vec<DirEntry>> {
    let keys: Vec<Key> =
        found.iter().flat_map(|(_, dentry)| [Key::Inode(dentry.node), Key::Stats(dentry.node)]).collect();
    let unsaved: Vec<_> = found.iter().map(|(_, dentry)| pending(core, dentry.node)).collect();
    let (records, _) = core.get(&keys).await?;
    let mut entries = Vec::with_capacity(found.len());
    for ((pair, listed), unsaved) in records.chunks(2).zip(found).zip(unsaved) {
        let mut listed = plain(listed);
        if let [Some(inode), Some(stats)] = pair {
            let (inode, stats) = (inode_of(inode.clone())?.record, stats_of(stats.clone())?.record);
            listed.entry = Some(entry(core, listed.node, &inode, &stats, unsaved));
        }
        entries.push(listed);
    }
    Ok(entries)
}
