//! Attributes, changed.

use super::super::engine::{Field, FieldOp};
use super::commit::{Txn, redo};
use super::core::Core;
use super::data::Save;
use super::privileges::{replace, strip};
use super::view::{attr, stale};
use crate::types::{Attr, Caller, Errno, Error, FileKind, NodeId, Privileges, Result, SetAttr, end_of};

/// Changes attributes. A new size drops the file's privileges as `privileges` says; a new owner always does.
pub async fn set(core: &Core, caller: &Caller, node: NodeId, set: &SetAttr, privileges: Privileges) -> Result<Attr> {
    end_of("truncate", set.size.unwrap_or(0), 0)?;
    // A size and times come after what was written before, so that is committed with them.
    let file = core.nodes.file(node).filter(|_| set.size.is_some() || set.mtime.is_some());
    let save = match &file {
        Some(file) => Some(Save::begin(file).await),
        None => None,
    };
    redo!(core, "setattr", Some(caller.origin), |txn| build(&mut txn, node, set, privileges, save.as_ref()));
    if let Some(save) = save {
        save.done();
    }
    attr(core, node).await
}

async fn build(
    txn: &mut Txn<'_>,
    node: NodeId,
    set: &SetAttr,
    privileges: Privileges,
    save: Option<&Save<'_>>,
) -> Result<()> {
    let inode = txn.inode(node).await?.ok_or_else(|| stale("setattr", node))?;
    check_size(inode.record.kind, set.size)?;
    let mut new = inode.record.clone();
    let owned = set.uid.is_some() || set.gid.is_some();
    if owned || (set.size.is_some() && privileges == Privileges::Drop) {
        strip(txn, node, &mut new).await?;
    }
    new.mode = set.mode.unwrap_or(new.mode);
    new.uid = set.uid.unwrap_or(new.uid);
    new.gid = set.gid.unwrap_or(new.gid);
    replace(txn, node, inode, new);
    if let Some(save) = save {
        // What a new size cuts off need not find room first.
        save.add_below(txn, set.size.unwrap_or(u64::MAX));
    }
    set_fields(txn, node, set);
    Ok(())
}

fn check_size(kind: FileKind, size: Option<u64>) -> Result<()> {
    let errno = match (size, kind) {
        (None, _) | (_, FileKind::Regular) => return Ok(()),
        (_, FileKind::Directory) => Errno::EISDIR,
        _ => Errno::EINVAL,
    };
    Err(Error::new("truncate", errno).context("only a regular file has a size to set"))
}

fn set_fields(txn: &mut Txn<'_>, node: NodeId, set: &SetAttr) {
    if set.is_empty() {
        return;
    }
    if let Some(size) = set.size {
        txn.discard(node, size, u64::MAX);
        txn.field(node, Field::Size, FieldOp::Set(size as i64));
        txn.field(node, Field::Mtime, FieldOp::Set(txn.now.0));
    }
    if let Some(atime) = set.atime {
        txn.field(node, Field::Atime, FieldOp::Set(atime.resolve(txn.now).0));
    }
    if let Some(mtime) = set.mtime {
        txn.field(node, Field::Mtime, FieldOp::Set(mtime.resolve(txn.now).0));
    }
    txn.touch(node);
}
