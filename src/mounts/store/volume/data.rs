//! The bytes of files: read, written, appended, committed.

use super::super::engine::{Field, FieldOp};
use super::super::record::{Key, Prefix, Record};
use super::commit::{At, Txn, redo};
use super::core::Core;
use super::dirty::Ranges;
use super::file::File;
use super::privileges;
use super::view::{records, stale};
use crate::types::{AllocateMode, Caller, Errno, Error, NodeId, Origin, Privileges, Result, Seek, Timestamp, end_of};
use bytes::Bytes;
use std::ops::Range;
use tokio::sync::MutexGuard;

/// A commit of a file's bytes under way. Where it is given up, they are dirty again.
pub struct Save<'a> {
    file: &'a File,
    ranges: Ranges,
    written: Option<Timestamp>,
    _order: MutexGuard<'a, ()>,
    done: bool,
}

impl<'a> Save<'a> {
    /// Takes all that is dirty, after the commits before it.
    pub async fn begin(file: &'a File) -> Save<'a> {
        let order = file.order.lock().await;
        let (ranges, written) = file.save();
        Save { file, ranges, written, _order: order, done: false }
    }

    /// Adds the bytes to a try.
    pub fn add_to(&self, txn: &mut Txn<'_>) {
        self.add_below(txn, u64::MAX);
    }

    /// Adds those of the bytes that lie before `limit` to a try, and that they were written.
    ///
    /// Whatever sets a modification time commits what was written before with it, so this one is the later. The change
    /// time may be of something since (a `chmod(2)`).
    pub fn add_below(&self, txn: &mut Txn<'_>, limit: u64) {
        let node = self.file.node;
        if let Some(written) = self.written {
            let mut ranges = self.ranges.clone();
            ranges.remove(limit, u64::MAX);
            txn.patch(node, &ranges);
            txn.field(node, Field::Size, FieldOp::Max(ranges.end() as i64));
            txn.field(node, Field::Mtime, FieldOp::Set(written.0));
            txn.field(node, Field::Ctime, FieldOp::Max(written.0));
        }
    }

    /// The bytes are committed.
    pub fn done(mut self) {
        self.done = true;
        self.file.saved();
    }
}

impl Drop for Save<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.file.not_saved();
        }
    }
}

/// Commits what was written to a file, and makes it durable where that is asked.
pub async fn flush(core: &Core, file: &File, durable: bool) -> Result<()> {
    if file.is_clean() && !durable {
        return Ok(());
    }
    let save = Save::begin(file).await;
    redo!(core, "flush", None, |txn| build_flush(&mut txn, &save, durable));
    save.done();
    Ok(())
}

async fn build_flush(txn: &mut Txn<'_>, save: &Save<'_>, durable: bool) -> Result<()> {
    let node = save.file.node;
    txn.batch.durable = durable;
    if save.written.is_some() {
        let inode = txn.inode(node).await?.ok_or_else(|| stale("flush", node))?;
        txn.expect(Key::Inode(node), inode.revision);
        save.add_to(txn);
    }
    Ok(())
}

/// Reads up to `len` bytes from `offset` on.
pub async fn read(core: &Core, file: &File, offset: u64, len: u32) -> Result<Bytes> {
    let wanted = offset.saturating_add(u64::from(len));
    // Taken before the blocks are read: what is committed in between is seen twice, and nothing is missed.
    let overlay = file.overlay(offset, wanted);
    let pending = file.pending();
    let (_, stats) = records(core, file.node).await?;
    let size = stats.size.max(pending.map_or(0, |pending| pending.end));
    let end = wanted.min(size);
    if offset >= end {
        return Ok(Bytes::new());
    }
    let committed = end.min(stats.size);
    let blocks = match offset < committed {
        true => core.read_blocks(file.node, offset / core.block_size..=(committed - 1) / core.block_size).await?,
        false => Vec::new(),
    };
    Ok(assemble(&blocks, core.block_size, offset, (end - offset) as usize, &overlay))
}

/// `len` bytes from `offset` on, out of blocks that begin with the one `offset` lies in, and what lies over them.
fn assemble(blocks: &[Bytes], block_size: u64, offset: u64, len: usize, overlay: &[Ranges; 2]) -> Bytes {
    let skip = (offset % block_size) as usize;
    if let [block] = blocks
        && overlay.iter().all(Ranges::is_empty)
        && skip + len <= block.len()
    {
        return block.slice(skip..skip + len);
    }
    let mut buffer = vec![0; len];
    for (at, block) in blocks.iter().enumerate() {
        let first = (at as u64 * block_size) as usize;
        let from = skip.max(first);
        let to = (skip + len).min(first + block.len());
        if from < to {
            buffer[from - skip..to - skip].copy_from_slice(&block[from - first..to - first]);
        }
    }
    overlay.iter().for_each(|ranges| ranges.overlay(offset, &mut buffer));
    buffer.into()
}

/// Appends at the end that the file has inside the commit. `offset` is where the caller believes the end to be.
pub async fn append(
    core: &Core,
    file: &File,
    caller: &Caller,
    offset: u64,
    data: &Bytes,
    privileges: Privileges,
) -> Result<()> {
    let save = Save::begin(file).await;
    redo!(core, "write", Some(caller.origin), |txn| build_append(&mut txn, &save, offset, data, privileges));
    save.done();
    Ok(())
}

async fn build_append(
    txn: &mut Txn<'_>,
    save: &Save<'_>,
    offset: u64,
    data: &Bytes,
    privileges: Privileges,
) -> Result<()> {
    let node = save.file.node;
    let (inode, stats) = txn.file(node).await?.ok_or_else(|| stale("write", node))?;
    let at = stats.size.max(save.ranges.end());
    let end = end_of("write", at, data.len() as u64)?;
    if at != offset {
        // The kernel that wrote took the bytes to be elsewhere, so it must be told too.
        txn.origin = Some(Origin::OUTSIDE);
    }
    save.add_to(txn);
    txn.guard(node, Field::Size, stats.size);
    let mut appended = Ranges::default();
    appended.write(at, data.clone());
    txn.patch(node, &appended);
    txn.field(node, Field::Size, FieldOp::Max(end as i64));
    txn.touch_contents(node);
    keep_or_drop(txn, node, inode, privileges).await
}

/// Demands that the file is alive, and drops its privileges if told so.
async fn keep_or_drop(
    txn: &mut Txn<'_>,
    node: NodeId,
    inode: At<super::super::record::Inode>,
    privileges: Privileges,
) -> Result<()> {
    let mut new = inode.record.clone();
    if privileges == Privileges::Drop {
        privileges::strip(txn, node, &mut new).await?;
    }
    privileges::replace(txn, node, inode, new);
    Ok(())
}

/// Reserves, clears or empties a range. Nothing is really set aside: a store's room is shared.
pub async fn allocate(
    core: &Core,
    file: &File,
    caller: &Caller,
    offset: u64,
    len: u64,
    mode: AllocateMode,
    privileges: Privileges,
) -> Result<()> {
    if len == 0 {
        return Err(Error::new("fallocate", Errno::EINVAL).context("a range of no bytes"));
    }
    let end = end_of("fallocate", offset, len)?;
    let save = Save::begin(file).await;
    redo!(core, "fallocate", Some(caller.origin), |txn| build_allocate(&mut txn, &save, offset..end, mode, privileges));
    save.done();
    Ok(())
}

async fn build_allocate(
    txn: &mut Txn<'_>,
    save: &Save<'_>,
    Range { start, end }: Range<u64>,
    mode: AllocateMode,
    privileges: Privileges,
) -> Result<()> {
    let node = save.file.node;
    let inode = txn.inode(node).await?.ok_or_else(|| stale("fallocate", node))?;
    save.add_to(txn);
    if matches!(mode, AllocateMode::PunchHole | AllocateMode::Zero | AllocateMode::ZeroKeepSize) {
        txn.discard(node, start, end);
    }
    if matches!(mode, AllocateMode::Extend | AllocateMode::Zero) {
        txn.field(node, Field::Size, FieldOp::Max(end as i64));
    }
    txn.touch_contents(node);
    keep_or_drop(txn, node, inode, privileges).await
}

/// Where data or a hole begins, at or after `offset`. What is written counts when it is committed, so it is now.
pub async fn seek(core: &Core, file: &File, offset: u64, whence: Seek) -> Result<u64> {
    flush(core, file, false).await?;
    let (_, stats) = records(core, file.node).await?;
    let past = || Error::new("lseek", Errno::ENXIO);
    if offset >= stats.size {
        return Err(past());
    }
    let mut at = offset;
    let mut after = (offset / core.block_size).checked_sub(1);
    loop {
        let extents = core.store.scan(&Prefix::Extents(file.node), after, 256).await?;
        for (key, stored) in &extents {
            let (Key::Block(_, index), Record::Extent(bytes)) = (key, &stored.record) else { continue };
            let (start, end) = (index * core.block_size, index * core.block_size + u64::from(*bytes));
            match whence {
                Seek::Data if at < end => return Some(at.max(start)).filter(|at| *at < stats.size).ok_or_else(past),
                Seek::Hole if at < start => return Ok(at),
                Seek::Hole => at = at.max(end),
                Seek::Data => {}
            }
            after = Some(*index);
        }
        if extents.is_empty() {
            return if whence == Seek::Hole { Ok(at.min(stats.size)) } else { Err(past()) };
        }
    }
}
