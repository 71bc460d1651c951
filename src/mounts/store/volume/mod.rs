//! The store volume: POSIX, written once over any [`Store`].
//!
//! Every changing operation reads the records it relies on (most are remembered, `cache`), checks, and commits one batch
//! that demands what it relied on (`commit`). Bytes are kept as the ranges that were written until a close, an fsync or
//! a few milliseconds commit them (`file`, `data`). Reading does not change a file's access time: it is set when the
//! file is made and by `utimensat(2)`, as under `noatime`.
//!
//! What has reached this machine of others' changes is taken in before a file is opened or a name looked up (`intake`).
//!
//! The floors, each using only those before it: `dirty`, `cache`, `feed`, `file`, `nodes`, `lockers`, `company`,
//! `process`; `core`;
//! `commit`, `intake`; `view`, `numbers`, `privileges`, `removal`, `peers`; `data`, `orphans`, `names`, `list`, `xattrs`;
//! `attrs`, `rename`, `locks`, `session`; `handle`, `tasks`; and this file, which unpacks and calls.

mod attrs;
mod cache;
mod commit;
mod company;
mod core;
mod data;
mod dirty;
mod feed;
mod file;
mod handle;
mod intake;
mod list;
mod lockers;
mod locks;
mod names;
mod nodes;
mod numbers;
mod orphans;
mod peers;
mod privileges;
mod process;
mod removal;
mod rename;
mod session;
mod tasks;
mod view;
mod xattrs;

use self::core::Core;
use super::engine::{Batch, Store};
use crate::mounts::{Capabilities, Freshness, Health, Listing, OpenFile, OpenStyle, Volume};
use crate::types::{
    Attr, Caller, Change, ChangeKind, ChangeStream, Cookie, Entry, Errno, Error, FileKind, Mode, NAME_MAX, Name,
    NodeId, OpenFlags, Origin, Privileges, RenameMode, Result, SetAttr, StatFs, XattrMode,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use names::NewFile;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tasks::Tasks;
use tokio::sync::broadcast::error::RecvError;

/// The unit in which `statfs` counts, in bytes.
const STATFS_UNIT: u64 = 4096;

/// The room, in bytes, by which `statfs` judges how many files may still be made: nothing else bounds them, and an empty
/// file takes less.
const FILE_ROOM: u64 = 1024;

/// A filesystem in a store.
pub struct StoreVolume {
    core: Arc<Core>,
    tasks: Mutex<Option<Tasks>>,
}

impl StoreVolume {
    /// Opens the namespace of `store`, as a new session, and makes an empty filesystem where there is none. Must be
    /// called inside a tokio runtime, in which the volume's tasks then run; [`Volume::close`] closes the store too.
    ///
    /// # Errors
    /// `EIO` where the store cannot be reached or its data is damaged.
    pub async fn open(store: Arc<dyn Store>) -> Result<Arc<StoreVolume>> {
        let core = Arc::new(session::start(store).await?);
        orphans::sweep(&core).await?;
        let tasks = Tasks::start(&core);
        Ok(Arc::new(StoreVolume { core, tasks: Mutex::new(Some(tasks)) }))
    }

    /// Commits everything that was written.
    async fn flush_all(&self) -> Result<()> {
        let mut result = Ok(());
        for file in self.core.nodes.unsaved() {
            let flushed = data::flush(&self.core, &file, false).await;
            result = result.and(flushed);
        }
        result
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Volume for StoreVolume {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            opens: OpenStyle::PerHandle,
            freshness: Freshness::Pushed,
            read_only: false,
            passthrough: false,
            own_locks: true,
        }
    }

    fn changes(&self) -> ChangeStream {
        let receiver = self.core.subscribe();
        stream::unfold(receiver, |mut receiver| async {
            match receiver.recv().await {
                Ok(change) => Some((change, receiver)),
                Err(RecvError::Lagged(_)) => {
                    Some((Change { origin: Origin::OUTSIDE, kind: ChangeKind::Everything }, receiver))
                }
                Err(RecvError::Closed) => None,
            }
        })
        .boxed()
    }

    async fn root(&self) -> Result<Entry> {
        let (inode, stats) = view::records(&self.core, session::ROOT).await?;
        Ok(view::uncounted(view::show(&self.core, session::ROOT, &inode, &stats, None)))
    }

    async fn lookup(&self, _caller: &Caller, dir: NodeId, name: &Name) -> Result<Entry> {
        intake::catch_up(&self.core);
        names::lookup(&self.core, dir, name).await
    }

    fn forget(&self, node: NodeId, count: u64) {
        if self.core.nodes.forget(node, count) {
            self.core.freed.notify_one();
        }
    }

    async fn getattr(&self, node: NodeId) -> Result<Attr> {
        view::attr(&self.core, node).await
    }

    async fn setattr(&self, caller: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr> {
        attrs::set(&self.core, caller, node, set, Privileges::of(caller)).await
    }

    async fn readdir(&self, dir: NodeId, after: Cookie, limit: usize, plus: bool) -> Result<Listing> {
        list::readdir(&self.core, dir, after, limit, plus).await
    }

    async fn readlink(&self, node: NodeId) -> Result<Bytes> {
        names::readlink(&self.core, node).await
    }

    async fn create(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        mode: Mode,
        flags: OpenFlags,
    ) -> Result<(Entry, Arc<dyn OpenFile>)> {
        intake::catch_up(&self.core);
        handle::create(&self.core, caller, dir, name, mode, flags).await
    }

    async fn mkdir(&self, caller: &Caller, dir: NodeId, name: &Name, mode: Mode) -> Result<Entry> {
        let new = NewFile { operation: "mkdir", kind: FileKind::Directory, mode, rdev: 0, target: b"" };
        names::make(&self.core, caller, dir, name, &new).await
    }

    async fn mknod(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        kind: FileKind,
        mode: Mode,
        rdev: u32,
    ) -> Result<Entry> {
        let rdev = match kind {
            FileKind::CharDevice | FileKind::BlockDevice => rdev,
            FileKind::Regular | FileKind::Fifo | FileKind::Socket => 0,
            FileKind::Directory | FileKind::Symlink => return Err(Error::new("mknod", Errno::EPERM)),
        };
        names::make(&self.core, caller, dir, name, &NewFile { operation: "mknod", kind, mode, rdev, target: b"" }).await
    }

    async fn symlink(&self, caller: &Caller, dir: NodeId, name: &Name, target: &[u8]) -> Result<Entry> {
        let mode = Mode::new(0o777);
        let new = NewFile { operation: "symlink", kind: FileKind::Symlink, mode, rdev: 0, target };
        names::make(&self.core, caller, dir, name, &new).await
    }

    async fn link(&self, caller: &Caller, node: NodeId, dir: NodeId, name: &Name) -> Result<Entry> {
        names::link(&self.core, caller, node, dir, name).await
    }

    async fn unlink(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<()> {
        names::unlink(&self.core, caller, dir, name).await
    }

    async fn rmdir(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<()> {
        names::rmdir(&self.core, caller, dir, name).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        new_dir: NodeId,
        new_name: &Name,
        mode: RenameMode,
    ) -> Result<()> {
        let (from, to) = (rename::Place { dir, name }, rename::Place { dir: new_dir, name: new_name });
        rename::rename(&self.core, caller, from, to, mode).await
    }

    async fn open(&self, caller: &Caller, node: NodeId, flags: OpenFlags) -> Result<Arc<dyn OpenFile>> {
        intake::catch_up(&self.core);
        handle::open(&self.core, caller, node, flags).await
    }

    async fn getxattr(&self, node: NodeId, name: &[u8]) -> Result<Bytes> {
        xattrs::get(&self.core, node, name).await
    }

    async fn listxattr(&self, node: NodeId) -> Result<Vec<Bytes>> {
        xattrs::list(&self.core, node).await
    }

    async fn setxattr(&self, caller: &Caller, node: NodeId, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        xattrs::set(&self.core, caller, node, name, value, mode).await
    }

    async fn removexattr(&self, caller: &Caller, node: NodeId, name: &[u8]) -> Result<()> {
        xattrs::remove(&self.core, caller, node, name).await
    }

    async fn statfs(&self, _node: NodeId) -> Result<StatFs> {
        let usage = self.core.store.usage().await?;
        Ok(StatFs {
            block_size: STATFS_UNIT as u32,
            blocks: usage.used.saturating_add(usage.free) / STATFS_UNIT,
            free: usage.free / STATFS_UNIT,
            available: usage.free / STATFS_UNIT,
            files: usage.files.saturating_add(usage.free / FILE_ROOM),
            files_free: usage.free / FILE_ROOM,
            name_max: NAME_MAX as u32,
        })
    }

    async fn health(&self) -> Result<Health> {
        session::check(&self.core).await?;
        let deaf = self.core.deaf.load(Ordering::Relaxed);
        let warning =
            "changes by others are not told any more, so nothing is remembered and every question goes to the store";
        Ok(Health {
            caches: vec![self.core.records.usage(), self.core.blocks.usage()],
            warnings: deaf.then(|| warning.to_owned()).into_iter().collect(),
        })
    }

    async fn sync(&self) -> Result<()> {
        let flushed = self.flush_all().await;
        // A file that cannot be written back keeps no other from becoming durable.
        self.core.commit(Batch { durable: true, ..Batch::default() }, None).await?;
        flushed
    }

    async fn close(&self) -> Result<()> {
        let Some(tasks) = self.tasks.lock().take() else { return Ok(()) };
        tasks.stop().await;
        let flushed = self.flush_all().await;
        self.core.nodes.close_all();
        let swept = orphans::sweep(&self.core).await;
        if let Err(error) = swept.and(session::end(&self.core).await) {
            // Nothing is lost by it: the session lapses, and the others do what it has left.
            tracing::warn!(%error, "the session could not be ended in the store");
        }
        self.core.closed.store(true, Ordering::Relaxed);
        let closed = self.core.store.close().await;
        flushed.and(closed)
    }
}
