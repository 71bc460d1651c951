//! Set-user-id, set-group-id and `security.capability`, which go when somebody else changes a file's bytes.

use super::super::record::{Inode, Key, Record, Stored};
use super::commit::{At, Txn, redo};
use super::core::Core;
use super::view::stale;
use crate::types::{Caller, FileKind, NodeId, Privileges, Result};
use bytes::Bytes;

fn capability(node: NodeId) -> Key {
    Key::Xattr(node, Bytes::from_static(b"security.capability"))
}

/// Takes the privileges from `inode` and adds their end to the try; the caller puts the inode if it is not what it was.
pub async fn strip(txn: &mut Txn<'_>, node: NodeId, inode: &mut Inode) -> Result<()> {
    if inode.kind == FileKind::Directory {
        return Ok(());
    }
    inode.mode = inode.mode.without_privileges();
    let [attribute] = txn.get([capability(node)]).await?;
    if attribute.is_some() {
        txn.delete(capability(node));
    }
    Ok(())
}

/// Demands that the file is as it was read, and puts what it is from now on, if that is different.
pub fn replace(txn: &mut Txn<'_>, node: NodeId, old: At<Inode>, new: Inode) {
    txn.expect(Key::Inode(node), old.revision);
    if old.record != new {
        txn.put(Key::Inode(node), Record::Inode(new));
    }
}

/// Drops a file's privileges before bytes are written to it, if it has any.
pub async fn drop_before_write(core: &Core, caller: &Caller, node: NodeId, privileges: Privileges) -> Result<()> {
    if privileges == Privileges::Drop && has_privileges(core, node).await? {
        redo!(core, "write", Some(caller.origin), |txn| build(&mut txn, node));
    }
    Ok(())
}

/// Whether there is anything to drop, as far as is remembered: asked at each write, so it must not cost one.
async fn has_privileges(core: &Core, node: NodeId) -> Result<bool> {
    let (found, _) = core.get(&[Key::Inode(node), capability(node)]).await?;
    Ok(match &found[..] {
        [Some(Stored { record: Record::Inode(inode), .. }), None] => inode.mode != inode.mode.without_privileges(),
        _ => true,
    })
}

async fn build(txn: &mut Txn<'_>, node: NodeId) -> Result<()> {
    let inode = txn.inode(node).await?.ok_or_else(|| stale("write", node))?;
    let mut new = inode.record.clone();
    strip(txn, node, &mut new).await?;
    if new != inode.record || !txn.batch.delete.is_empty() {
        replace(txn, node, inode, new);
        txn.touch(node);
    }
    Ok(())
}
