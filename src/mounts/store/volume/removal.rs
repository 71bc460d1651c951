//! What becomes of a file that loses a name.
//!
//! With its last name a file that nobody knows or has open goes at once, in the same commit. Otherwise it becomes an
//! orphan, and goes when its last holder lets it go (see `orphans`). Who knows a file may be about to open it: the kernel
//! looks a name up and opens the file after that, and between the two the name may come to mean another file.

use super::super::engine::{Field, FieldOp};
use super::super::record::{Counter, Inode, Key, Orphan, Prefix, Record, Stats};
use super::commit::Txn;
use super::core::Core;
use super::nodes::Removal;
use crate::types::{Errno, Error, FileKind, NodeId, Result};

/// Bytes that one commit removes at most; what is larger goes in steps.
pub const STEP: u64 = 8 << 20;

/// A name's loss, in a try. To be told when the try was committed.
pub struct Loss<'a> {
    node: NodeId,
    fate: Fate<'a>,
}

enum Fate<'a> {
    /// It has other names.
    Lives,
    /// Its records are gone. Opens are kept out until this is dropped.
    Gone { inode: Inode, stats: Stats, _removal: Option<Removal<'a>> },
    /// It waits for its last close.
    Orphan { inode: Inode, stats: Stats, claimed: bool },
}

impl Loss<'_> {
    /// The try was committed.
    pub fn done(self, core: &Core) {
        match self.fate {
            Fate::Lives => {}
            Fate::Gone { inode, stats, _removal } => {
                core.nodes.set_gone(self.node, inode, nameless(stats));
                core.nodes.drop_unsaved(self.node);
            }
            Fate::Orphan { inode, stats, claimed } => {
                core.nodes.set_gone(self.node, inode, nameless(stats));
                if !core.nodes.orphaned(self.node, claimed) {
                    core.freed.notify_one();
                }
            }
        }
    }
}

/// Statistics of a file that has no name any more.
fn nameless(stats: Stats) -> Stats {
    Stats { links: 0, entries: 0, ..stats }
}

/// Takes one name from a file that is no directory.
pub async fn lose_name<'a>(txn: &mut Txn<'a>, node: NodeId) -> Result<Loss<'a>> {
    let (inode, stats) = txn.file(node).await?.ok_or_else(|| missing(node))?;
    txn.guard(node, Field::Links, stats.links);
    if stats.links > 1 {
        txn.field(node, Field::Links, FieldOp::Add(-1));
        txn.touch(node);
        return Ok(Loss { node, fate: Fate::Lives });
    }
    txn.expect(Key::Inode(node), inode.revision);
    let alone = txn.core.company.alone();
    let removal = alone.filter(|_| stats.allocated <= STEP).and_then(|at| Some((at, txn.core.nodes.remove(node)?)));
    let Some((at, removal)) = removal else {
        let claimed = orphan(txn, node);
        return Ok(Loss { node, fate: Fate::Orphan { inode: inode.record, stats, claimed } });
    };
    // A session that comes meanwhile counts itself, and then this conflicts.
    txn.expect(Key::Counter(Counter::NextSession), at);
    delete_file(txn, node, inode.record.kind).await?;
    Ok(Loss { node, fate: Fate::Gone { inode: inode.record, stats, _removal: Some(removal) } })
}

/// Makes a file an orphan; tells whether this session claims it.
fn orphan(txn: &mut Txn<'_>, node: NodeId) -> bool {
    txn.field(node, Field::Links, FieldOp::Add(-1));
    txn.touch(node);
    let since = txn.core.store_now();
    txn.put(Key::Orphan(node), Record::Orphan(Orphan { since }));
    let claimed = txn.core.nodes.is_open(node);
    if claimed {
        txn.put(Key::Claim(node, txn.core.session), Record::Claim);
    }
    claimed
}

/// Removes a directory, which must be empty and stay so until the commit.
pub async fn lose_directory<'a>(txn: &mut Txn<'a>, operation: &'static str, node: NodeId) -> Result<Loss<'a>> {
    let (inode, stats) = txn.file(node).await?.ok_or_else(|| missing(node))?;
    if stats.entries > 0 {
        return Err(Error::new(operation, Errno::ENOTEMPTY).context(format!("{} entries in it", stats.entries)));
    }
    txn.guard(node, Field::Entries, 0);
    txn.expect(Key::Inode(node), inode.revision);
    delete_file(txn, node, FileKind::Directory).await?;
    Ok(Loss { node, fate: Fate::Gone { inode: inode.record, stats, _removal: None } })
}

/// Deletes a file's records and bytes. Whoever adds a further record to a file writes its identity anew, so a caller
/// that expects the identity misses none.
pub async fn delete_file(txn: &mut Txn<'_>, node: NodeId, kind: FileKind) -> Result<()> {
    for (key, _) in txn.core.store.scan(&Prefix::Xattrs(node), None, usize::MAX).await? {
        txn.delete(key);
    }
    txn.delete(Key::Inode(node));
    txn.delete(Key::Stats(node));
    if kind == FileKind::Regular {
        txn.discard(node, 0, u64::MAX);
    }
    Ok(())
}

/// A name leads to a file that is not there: somebody removed both between two reads, which the redo will see.
fn missing(node: NodeId) -> Error {
    Error::new("read", Errno::EIO).context(format!("a name leads to file {node}, which is not in the store"))
}
