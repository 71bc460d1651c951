//! A volume that does as another does, until it is told to fail, to wait, to panic, or to keep its changes to itself. It
//! also counts what its callers hold.

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::Duration;
use workfs::mounts::{Capabilities, Health, Listing, OpenFile, Volume};
use workfs::types::*;

/// See the module.
pub struct Faulty {
    inner: Arc<dyn Volume>,
    /// Whatever is asked answers `EIO`.
    pub fails: AtomicBool,
    /// Whatever is asked panics.
    pub panics: AtomicBool,
    /// The other volume's changes are not told.
    pub mute: Arc<AtomicBool>,
    /// A lookup of a name that begins with `slow` takes so long.
    pub delay: Mutex<Duration>,
    lookups: AtomicI64,
    listeners: Mutex<Vec<UnboundedSender<Change>>>,
}

impl Faulty {
    pub fn new(inner: Arc<dyn Volume>) -> Arc<Faulty> {
        Arc::new(Faulty {
            inner,
            fails: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            mute: Arc::default(),
            delay: Mutex::new(Duration::ZERO),
            lookups: AtomicI64::new(0),
            listeners: Mutex::default(),
        })
    }

    /// Tells a change that nobody made.
    pub fn tell(&self, kind: ChangeKind) {
        for listener in self.listeners.lock().iter() {
            listener.unbounded_send(Change { origin: Origin::OUTSIDE, kind: kind.clone() }).ok();
        }
    }

    /// Lookups that were counted and not given back.
    pub fn lookups(&self) -> i64 {
        self.lookups.load(SeqCst)
    }

    fn asked(&self, operation: &'static str) -> Result<&dyn Volume> {
        assert!(!self.panics.load(SeqCst), "told to panic");
        match self.fails.load(SeqCst) {
            true => Err(Error::new(operation, Errno::EIO).context("told to fail")),
            false => Ok(&*self.inner),
        }
    }

    fn counted(&self, entry: Result<Entry>) -> Result<Entry> {
        if entry.is_ok() {
            self.lookups.fetch_add(1, SeqCst);
        }
        entry
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Volume for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn changes(&self) -> ChangeStream {
        let (send, own) = unbounded();
        self.listeners.lock().push(send);
        let silent = self.mute.clone();
        let others = self.inner.changes().filter(move |_| std::future::ready(!silent.load(SeqCst)));
        futures::stream::select(own, others).boxed()
    }

    async fn root(&self) -> Result<Entry> {
        self.asked("root")?.root().await
    }

    async fn lookup(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<Entry> {
        if name.as_bytes().starts_with(b"slow") {
            let delay = *self.delay.lock();
            tokio::time::sleep(delay).await;
        }
        self.counted(self.asked("lookup")?.lookup(caller, dir, name).await)
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.lookups.fetch_sub(count as i64, SeqCst);
        self.inner.forget(node, count);
    }

    async fn getattr(&self, node: NodeId) -> Result<Attr> {
        self.asked("getattr")?.getattr(node).await
    }

    async fn setattr(&self, caller: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr> {
        self.asked("setattr")?.setattr(caller, node, set).await
    }

    async fn readdir(&self, dir: NodeId, after: Cookie, limit: usize, plus: bool) -> Result<Listing> {
        let listing = self.asked("readdir")?.readdir(dir, after, limit, plus).await?;
        let counted = listing.entries.iter().filter(|entry| entry.entry.is_some()).count();
        self.lookups.fetch_add(counted as i64, SeqCst);
        Ok(listing)
    }

    async fn readlink(&self, node: NodeId) -> Result<Bytes> {
        self.asked("readlink")?.readlink(node).await
    }

    async fn create(
        &self,
        caller: &Caller,
        dir: NodeId,
        name: &Name,
        mode: Mode,
        flags: OpenFlags,
    ) -> Result<(Entry, Arc<dyn OpenFile>)> {
        let (entry, file) = self.asked("create")?.create(caller, dir, name, mode, flags).await?;
        Ok((self.counted(Ok(entry))?, file))
    }

    async fn mkdir(&self, caller: &Caller, dir: NodeId, name: &Name, mode: Mode) -> Result<Entry> {
        self.counted(self.asked("mkdir")?.mkdir(caller, dir, name, mode).await)
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
        self.counted(self.asked("mknod")?.mknod(caller, dir, name, kind, mode, rdev).await)
    }

    async fn symlink(&self, caller: &Caller, dir: NodeId, name: &Name, target: &[u8]) -> Result<Entry> {
        self.counted(self.asked("symlink")?.symlink(caller, dir, name, target).await)
    }

    async fn link(&self, caller: &Caller, node: NodeId, dir: NodeId, name: &Name) -> Result<Entry> {
        self.counted(self.asked("link")?.link(caller, node, dir, name).await)
    }

    async fn unlink(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<()> {
        self.asked("unlink")?.unlink(caller, dir, name).await
    }

    async fn rmdir(&self, caller: &Caller, dir: NodeId, name: &Name) -> Result<()> {
        self.asked("rmdir")?.rmdir(caller, dir, name).await
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
        self.asked("rename")?.rename(caller, dir, name, new_dir, new_name, mode).await
    }

    async fn open(&self, caller: &Caller, node: NodeId, flags: OpenFlags) -> Result<Arc<dyn OpenFile>> {
        self.asked("open")?.open(caller, node, flags).await
    }

    async fn getxattr(&self, node: NodeId, name: &[u8]) -> Result<Bytes> {
        self.asked("getxattr")?.getxattr(node, name).await
    }

    async fn listxattr(&self, node: NodeId) -> Result<Vec<Bytes>> {
        self.asked("listxattr")?.listxattr(node).await
    }

    async fn setxattr(&self, caller: &Caller, node: NodeId, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.asked("setxattr")?.setxattr(caller, node, name, value, mode).await
    }

    async fn removexattr(&self, caller: &Caller, node: NodeId, name: &[u8]) -> Result<()> {
        self.asked("removexattr")?.removexattr(caller, node, name).await
    }

    async fn statfs(&self, node: NodeId) -> Result<StatFs> {
        self.asked("statfs")?.statfs(node).await
    }

    async fn health(&self) -> Result<Health> {
        self.asked("health")?.health().await
    }

    async fn sync(&self) -> Result<()> {
        self.asked("sync")?.sync().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
