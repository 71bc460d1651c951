//! Extended attributes. `user.`, `trusted.` and `security.` are kept as they come; there are no access control lists.

use super::super::record::{Key, Prefix, Record, Stored};
use super::commit::{Txn, redo};
use super::core::Core;
use super::view::{records, stale};
use crate::types::{Caller, Errno, Error, NodeId, Result, XattrMode};
use bytes::Bytes;

const NAME: usize = 255;
const VALUE: usize = 64 << 10;

fn check(operation: &'static str, name: &[u8]) -> Result<()> {
    if name.len() > NAME {
        return Err(Error::new(operation, Errno::ERANGE).context("the longest name is 255 bytes"));
    }
    let kept = [&b"user."[..], b"trusted.", b"security."];
    match kept.iter().any(|prefix| name.len() > prefix.len() && name.starts_with(prefix)) {
        true => Ok(()),
        false => Err(Error::new(operation, Errno::EOPNOTSUPP)
            .context(format!("no attributes such as {:?}", String::from_utf8_lossy(name)))),
    }
}

fn key(node: NodeId, name: &[u8]) -> Key {
    Key::Xattr(node, Bytes::copy_from_slice(name))
}

fn none(operation: &'static str) -> Error {
    Error::new(operation, Errno::ENODATA)
}

/// An attribute's value.
pub async fn get(core: &Core, node: NodeId, name: &[u8]) -> Result<Bytes> {
    check("getxattr", name)?;
    let (mut found, _) = core.get(&[key(node, name)]).await?;
    match found.pop().flatten() {
        Some(Stored { record: Record::Xattr(value), .. }) => Ok(value),
        _ => {
            records(core, node).await?;
            Err(none("getxattr"))
        }
    }
}

/// All names.
pub async fn list(core: &Core, node: NodeId) -> Result<Vec<Bytes>> {
    records(core, node).await?;
    let found = core.store.scan(&Prefix::Xattrs(node), None, usize::MAX).await?;
    let name = |key| match key {
        Key::Xattr(_, name) => Some(name),
        _ => None,
    };
    Ok(found.into_iter().filter_map(|(key, _)| name(key)).collect())
}

/// Sets a value.
pub async fn set(core: &Core, caller: &Caller, node: NodeId, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
    check("setxattr", name)?;
    if value.len() > VALUE {
        return Err(Error::new("setxattr", Errno::E2BIG).context("the largest value is 64 KiB"));
    }
    redo!(core, "setxattr", Some(caller.origin), |txn| build_set(&mut txn, node, name, value, mode));
    Ok(())
}

async fn build_set(txn: &mut Txn<'_>, node: NodeId, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
    let key = key(node, name);
    let [inode, old] = txn.get([Key::Inode(node), key.clone()]).await?;
    let inode = inode.ok_or_else(|| stale("setxattr", node))?;
    match (&old, mode) {
        (Some(_), XattrMode::Create) => return Err(Error::new("setxattr", Errno::EEXIST)),
        (None, XattrMode::Replace) => return Err(none("setxattr")),
        (Some(old), _) => txn.expect(key.clone(), old.revision),
        (None, _) => {
            txn.expect_absent(key.clone());
            // A further record of the file: who removes the file at this moment must come to know of it.
            txn.put(Key::Inode(node), inode.record);
        }
    }
    txn.expect(Key::Inode(node), inode.revision);
    txn.put(key, Record::Xattr(Bytes::copy_from_slice(value)));
    txn.touch(node);
    Ok(())
}

/// Removes an attribute.
pub async fn remove(core: &Core, caller: &Caller, node: NodeId, name: &[u8]) -> Result<()> {
    check("removexattr", name)?;
    redo!(core, "removexattr", Some(caller.origin), |txn| build_remove(&mut txn, node, name));
    Ok(())
}

async fn build_remove(txn: &mut Txn<'_>, node: NodeId, name: &[u8]) -> Result<()> {
    let key = key(node, name);
    let [inode, old] = txn.get([Key::Inode(node), key.clone()]).await?;
    inode.ok_or_else(|| stale("removexattr", node))?;
    let old = old.ok_or_else(|| none("removexattr"))?;
    txn.expect(key.clone(), old.revision);
    txn.delete(key);
    txn.touch(node);
    Ok(())
}
