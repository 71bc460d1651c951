//! Requests about extended attributes, and about the volume as a whole.

use super::core::Core;
use super::counters::Operation;
use super::dispatch::Reply;
use super::names::ok;
use crate::types::{Caller, Errno, NodeId, StatFs, XattrMode};
use bytes::Bytes;
use fuser::{ReplyEmpty, ReplyStatfs, ReplyXattr};
use std::sync::Arc;

impl Core {
    pub(super) fn getxattr(self: &Arc<Core>, node: NodeId, name: Vec<u8>, room: u32, reply: ReplyXattr) {
        let core = self.clone();
        let work = async move { core.volume.getxattr(node, &name).await };
        self.dispatcher.serve(Operation::GetXattr, reply, work, move |value, reply| value_reply(&value, room, reply));
    }

    pub(super) fn listxattr(self: &Arc<Core>, uid: u32, node: NodeId, room: u32, reply: ReplyXattr) {
        let core = self.clone();
        let work = async move { Ok(joined(&core.volume.listxattr(node).await?, uid)) };
        self.dispatcher.serve(Operation::ListXattr, reply, work, move |names, reply| value_reply(&names, room, reply));
    }

    pub(super) fn setxattr(
        self: &Arc<Core>,
        caller: Caller,
        node: NodeId,
        (name, value): (Vec<u8>, Vec<u8>),
        flags: i32,
        reply: ReplyEmpty,
    ) {
        let core = self.clone();
        let work = async move {
            let mode = XattrMode::from_raw(flags)?;
            core.volume.setxattr(&caller, node, &name, &value, mode).await
        };
        self.dispatcher.serve(Operation::SetXattr, reply, work, |(), reply| ok(reply));
    }

    pub(super) fn removexattr(self: &Arc<Core>, caller: Caller, node: NodeId, name: Vec<u8>, reply: ReplyEmpty) {
        let core = self.clone();
        let work = async move { core.volume.removexattr(&caller, node, &name).await };
        self.dispatcher.serve(Operation::RemoveXattr, reply, work, |(), reply| ok(reply));
    }

    pub(super) fn statfs(self: &Arc<Core>, node: NodeId, reply: ReplyStatfs) {
        let core = self.clone();
        let work = async move { core.volume.statfs(node).await };
        self.dispatcher.serve(Operation::StatFs, reply, work, |statfs: StatFs, reply| {
            let StatFs { block_size, blocks, free, available, files, files_free, name_max } = statfs;
            if let Some(reply) = reply {
                reply.statfs(blocks, free, available, files, files_free, block_size, name_max, block_size);
            }
        });
    }

    /// A directory has no descriptor of its own in a volume, so all that was written goes down.
    pub(super) fn fsyncdir(self: &Arc<Core>, reply: ReplyEmpty) {
        let core = self.clone();
        let work = async move { core.volume.sync().await };
        self.dispatcher.serve(Operation::FsyncDir, reply, work, |(), reply| ok(reply));
    }
}

/// All names that the caller may see, each ended by a NUL byte (listxattr(2)). The names of `trusted.` are for root
/// (xattr(7)); the kernel leaves that to the filesystem.
fn joined(names: &[Bytes], uid: u32) -> Vec<u8> {
    let shown = names.iter().filter(|name| uid == 0 || !name.starts_with(b"trusted."));
    shown.flat_map(|name| name.iter().copied().chain([0])).collect()
}

/// A caller without room asks for the length; one with too little is refused (getxattr(2)).
fn value_reply(value: &[u8], room: u32, reply: Option<ReplyXattr>) {
    let Some(reply) = reply else { return };
    match room as usize {
        0 => reply.size(value.len() as u32),
        room if room < value.len() => reply.refuse(Errno::ERANGE),
        _ => reply.data(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_names_are_ended_by_nul_and_trusted_ones_are_for_root() {
        let names = [&b"user.a"[..], b"trusted.t", b"user.b"].map(Bytes::from_static);
        assert_eq!(joined(&names, 0), b"user.a\0trusted.t\0user.b\0");
        assert_eq!(joined(&names, 1000), b"user.a\0user.b\0");
        assert_eq!(joined(&[], 0), b"");
    }
}
