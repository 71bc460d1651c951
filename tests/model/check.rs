//! The whole of both compared: every name, attribute, byte and extended attribute.

use super::contents::Contents;
use super::op::Op;
use super::reference::{Body, Id, Version};
use super::run::Run;
use super::world::{World, compare};
use workfs::types::{Attr, FileKind};

impl<W: World> Run<W> {
    /// Compares all that has a name.
    pub async fn whole(&mut self) {
        let named = self.model.nodes.iter().filter(|(_, inode)| inode.names > 0);
        let named: Vec<(Id, FileKind)> = named.map(|(id, inode)| (*id, inode.kind())).collect();
        for (id, kind) in named {
            self.act(&Op::Stat(id)).await;
            match kind {
                FileKind::Directory => self.act(&Op::List { dir: id, page: 3, plus: true }).await,
                FileKind::Symlink => self.act(&Op::ReadLink(id)).await,
                FileKind::Regular => self.bytes(id).await,
                _ => {}
            }
            if matches!(kind, FileKind::Directory | FileKind::Regular) {
                self.act(&Op::ListXattr(id)).await;
                for name in super::choose::XATTRS {
                    self.act(&Op::GetXattr { node: id, name }).await;
                }
            }
        }
    }

    async fn bytes(&mut self, id: Id) {
        if !self.holds(id, self.model.contents(id).clone()).await {
            self.fail(&format!("the bytes of file {id} are not what was written"));
        }
    }

    /// Whether the world's file has these bytes, wherever there are any in it or in the reference.
    async fn holds(&mut self, id: Id, contents: Contents) -> bool {
        for place in [contents.places(), self.model.contents(id).places()].concat() {
            let seen = self.world.bytes(&self.model, id, place.clone()).await;
            if seen != contents.read(place.start, place.end - place.start) {
                return false;
            }
        }
        true
    }

    /// After a crash: finds out which of the states that it may have left each file is in.
    pub async fn settle(&mut self) {
        let unsure = self.model.nodes.iter().filter(|(_, inode)| !inode.earlier.is_empty());
        for id in unsure.map(|(id, _)| *id).collect::<Vec<_>>() {
            let attr = self.world.attr(&self.model, id).await;
            let inode = self.model.inode_mut(id);
            let mut versions = std::mem::take(&mut inode.earlier);
            let contents = match &inode.body {
                Body::File(contents) => contents.clone(),
                _ => panic!("only regular files have versions"),
            };
            versions.push(Version { contents, mtime: inode.mtime, ctime: inode.ctime });
            while let Some(version) = versions.pop() {
                if self.is_version(id, &attr, version).await {
                    break;
                }
                if versions.is_empty() {
                    self.fail(&format!("file {id} is in no state that it was ever in: {attr:?}"));
                }
            }
        }
    }

    /// Whether a file is in this state; then the reference is too.
    async fn is_version(&mut self, id: Id, attr: &Attr, version: Version) -> bool {
        if attr.size != version.contents.size || !self.holds(id, version.contents.clone()).await {
            return false;
        }
        let before = self.model.inode(id).clone();
        let inode = self.model.inode_mut(id);
        (inode.body, inode.mtime, inode.ctime) = (Body::File(version.contents), version.mtime, version.ctime);
        let agrees = compare(&mut self.model, id, attr, self.habits).is_ok();
        if !agrees {
            self.model.nodes.insert(id, before);
        }
        agrees
    }
}
