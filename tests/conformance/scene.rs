//! A directory for one case, and short ways to say what it does.

use bytes::Bytes;
use std::sync::Arc;
use workfs::mounts::{OpenFile, Volume};
use workfs::types::{
    Access, Caller, Entry, Errno, Mode, Name, NodeId, OpenFlags, Origin, Privileges, RenameMode, Result,
};

pub const RW: OpenFlags = OpenFlags::access(Access::ReadWrite);
pub const RD: OpenFlags = OpenFlags::access(Access::Read);

/// One case's directory in a volume.
pub struct Scene {
    pub volume: Arc<dyn Volume>,
    pub root: Caller,
    pub dir: NodeId,
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

pub fn errno<T>(result: Result<T>) -> Errno {
    match result {
        Ok(_) => panic!("it should have been refused"),
        Err(error) => error.errno(),
    }
}

impl Scene {
    pub async fn new(volume: Arc<dyn Volume>) -> Scene {
        let root = Caller { uid: 0, gid: 0, tid: 0, origin: Origin::new() };
        let dir = volume.root().await.expect("the root").attr.node;
        Scene { volume, root, dir }
    }

    /// A scene in a new directory, where anybody may write.
    pub async fn fresh(&self, case: &str) -> Scene {
        let dir = self.mkdir(&format!("case-{case}")).await.attr.node;
        let open = workfs::types::SetAttr { mode: Some(Mode::new(0o777)), ..Default::default() };
        self.volume.setattr(&self.root, dir, &open).await.expect("chmod");
        Scene { volume: self.volume.clone(), root: self.root, dir }
    }

    /// The same scene in one of its directories.
    pub fn at(&self, dir: &Entry) -> Scene {
        Scene { volume: self.volume.clone(), root: self.root, dir: dir.attr.node }
    }

    /// A caller that is not root.
    pub fn other(&self) -> Caller {
        Caller { uid: 1234, gid: 2345, ..self.root }
    }

    pub async fn mkdir(&self, text: &str) -> Entry {
        self.volume.mkdir(&self.root, self.dir, &name(text), Mode::new(0o755)).await.expect("mkdir")
    }

    pub async fn try_mkdir(&self, text: &str) -> Result<Entry> {
        self.volume.mkdir(&self.root, self.dir, &name(text), Mode::new(0o755)).await
    }

    /// Opens a new or existing file to read and write.
    pub async fn open(&self, text: &str) -> (Entry, Arc<dyn OpenFile>) {
        self.volume.create(&self.root, self.dir, &name(text), Mode::new(0o644), RW).await.expect("create")
    }

    pub async fn try_create(&self, text: &str, flags: OpenFlags) -> Result<(Entry, Arc<dyn OpenFile>)> {
        self.volume.create(&self.root, self.dir, &name(text), Mode::new(0o644), flags).await
    }

    /// A closed file with these bytes.
    pub async fn file(&self, text: &str, bytes: &str) -> Entry {
        let (entry, file) = self.open(text).await;
        self.write(&*file, 0, bytes.as_bytes()).await;
        file.flush().await.expect("flush");
        entry
    }

    pub async fn write(&self, file: &dyn OpenFile, offset: u64, bytes: &[u8]) {
        let bytes = Bytes::copy_from_slice(bytes);
        file.write_at(&self.root, offset, bytes, Privileges::Keep).await.expect("write");
    }

    /// The bytes of the file that a name means.
    pub async fn read(&self, text: &str) -> String {
        let node = self.lookup(text).await.expect("lookup").attr.node;
        let file = self.volume.open(&self.root, node, RD).await.expect("open");
        String::from_utf8(file.read_at(0, 1 << 20).await.expect("read").to_vec()).expect("text")
    }

    pub async fn symlink(&self, text: &str, target: &[u8]) -> Result<Entry> {
        self.volume.symlink(&self.root, self.dir, &name(text), target).await
    }

    pub async fn lookup(&self, text: &str) -> Result<Entry> {
        self.volume.lookup(&self.root, self.dir, &name(text)).await
    }

    pub async fn exists(&self, text: &str) -> bool {
        match self.lookup(text).await {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.errno(), Errno::ENOENT);
                false
            }
        }
    }

    pub async fn node(&self, text: &str) -> NodeId {
        self.lookup(text).await.expect("lookup").attr.node
    }

    /// The link count of the scene's directory.
    pub async fn dir_links(&self) -> u32 {
        self.volume.getattr(self.dir).await.expect("getattr").links
    }

    pub async fn link(&self, node: NodeId, text: &str) -> Result<Entry> {
        self.volume.link(&self.root, node, self.dir, &name(text)).await
    }

    pub async fn unlink(&self, text: &str) -> Result<()> {
        self.volume.unlink(&self.root, self.dir, &name(text)).await
    }

    pub async fn rmdir(&self, text: &str) -> Result<()> {
        self.volume.rmdir(&self.root, self.dir, &name(text)).await
    }

    pub async fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<()> {
        self.rename_to(from, self.dir, to, mode).await
    }

    pub async fn rename_to(&self, from: &str, dir: NodeId, to: &str, mode: RenameMode) -> Result<()> {
        self.volume.rename(&self.root, self.dir, &name(from), dir, &name(to), mode).await
    }
}
