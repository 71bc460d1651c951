//! From a number of the session to the file of a volume that answers for it.

use super::ids::{Ids, Inner};
use super::skeleton::{Pin, Place, Skeleton};
use crate::mounts::Volume;
use crate::types::{Caller, Errno, Error, FileKind, Mode, Name, NodeId, Origin, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A volume of the session.
struct Served {
    volume: Arc<dyn Volume>,
    /// Whose changes through this mount are. Each mount has an origin of its own: where one volume is mounted twice, a
    /// change through one place is news to the other.
    origin: Origin,
    root: OnceCell<NodeId>,
}

/// What a session's numbers stand for.
pub(super) enum Target {
    /// A pinned node.
    Pin(Pin),
    /// A file of a volume.
    File(Inner),
}

/// The volumes below a session, and the way to them.
pub(super) struct Backing {
    pub(super) skeleton: Skeleton,
    pub(super) ids: Ids,
    served: Vec<Served>,
    /// The directory that each pinned node was found backed by last, so that its changes can be told.
    last: Mutex<Vec<Option<NodeId>>>,
}

/// A file of a volume for the time of one operation; its lookup, if it cost one, is taken back at the end.
pub(super) struct Held<'a> {
    pub(super) volume: &'a Arc<dyn Volume>,
    pub(super) index: usize,
    pub(super) node: NodeId,
    pub(super) origin: Origin,
    counted: bool,
}

impl Held<'_> {
    /// The caller, as one that comes through this mount.
    pub(super) fn caller(&self, caller: &Caller) -> Caller {
        Caller { origin: self.origin, ..*caller }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.volume.forget(self.node, 1);
        }
    }
}

impl Backing {
    pub(super) fn new(skeleton: Skeleton, ids: Ids, volumes: Vec<Arc<dyn Volume>>) -> Backing {
        let served =
            volumes.into_iter().map(|volume| Served { volume, origin: Origin::new(), root: OnceCell::new() }).collect();
        Backing { skeleton, ids, served, last: Mutex::default() }
    }

    pub(super) fn volumes(&self) -> impl Iterator<Item = &Arc<dyn Volume>> {
        self.served.iter().map(|served| &served.volume)
    }

    /// The origin of what is changed through the mount of a volume.
    pub(super) fn origin(&self, index: usize) -> Origin {
        self.served[index].origin
    }

    pub(super) fn volume(&self, index: usize) -> &Arc<dyn Volume> {
        &self.served[index].volume
    }

    /// What `id` stands for.
    pub(super) fn target(&self, operation: &'static str, id: NodeId) -> Result<Target> {
        if let Some(pin) = self.skeleton.find(id) {
            return Ok(Target::Pin(pin));
        }
        let known = self.ids.inner(id).filter(|inner| inner.volume < self.served.len());
        known.map(Target::File).ok_or_else(|| Error::new(operation, Errno::ESTALE).context(format!("node {id}")))
    }

    /// The session's number for a file of a volume, counting `lookups` of it.
    pub(super) fn outer(&self, inner: Inner, lookups: u64) -> NodeId {
        let is_root = self.served[inner.volume].root.get() == Some(&inner.node);
        match self.skeleton.root_of(inner.volume).filter(|_| is_root) {
            Some(pin) => Skeleton::id(pin),
            None => self.ids.outer(inner, lookups),
        }
    }

    /// The pinned nodes that were last found backed by `inner`.
    pub(super) fn pins_on(&self, inner: Inner) -> Vec<Pin> {
        let last = self.last.lock();
        let on = |pin: &Pin| {
            last[*pin] == Some(inner.node)
                && self.skeleton.get(*pin).place.as_ref().is_some_and(|place| place.volume == inner.volume)
        };
        (0..last.len()).filter(on).collect()
    }

    /// The file behind `id`; `None` for a pinned directory that no volume has.
    ///
    /// # Errors
    /// `EIO` for a sealed node, and what the volume says.
    pub(super) async fn held(&self, operation: &'static str, id: NodeId) -> Result<Option<Held<'_>>> {
        match self.target(operation, id)? {
            Target::File(Inner { volume, node }) => Ok(Some(self.hold(volume, node, false))),
            Target::Pin(pin) => self.held_pin(operation, pin).await,
        }
    }

    /// Whether another session belongs over `id`. Such a node tells no more than that it holds nothing (`fusermount3`
    /// asks that before it mounts there).
    pub(super) fn is_sealed(&self, id: NodeId) -> bool {
        self.skeleton.find(id).is_some_and(|pin| self.skeleton.get(pin).sealed)
    }

    /// Refuses, as `taken`, a name in the directory `id` that a mount needs.
    pub(super) fn unpinned(&self, operation: &'static str, id: NodeId, name: &Name, taken: Errno) -> Result<()> {
        match self.skeleton.child(id, name) {
            Some(_) => Err(Error::new(operation, taken).context(format!("{name}: a mount is there, or below it"))),
            None => Ok(()),
        }
    }

    /// The directory behind `id`, to put the entry `name` into it; a pinned directory that its volume lacks is made.
    ///
    /// # Errors
    /// `taken` where `name` is pinned there; `EROFS` where no volume is behind `id`; else as [`Backing::held`].
    pub(super) async fn changing(
        &self,
        operation: &'static str,
        caller: &Caller,
        id: NodeId,
        name: &Name,
        taken: Errno,
    ) -> Result<Held<'_>> {
        self.unpinned(operation, id, name, taken)?;
        self.held_or_made(operation, caller, id).await
    }

    /// The same, to put something there that lies in `volume`.
    ///
    /// # Errors
    /// `EXDEV` where another volume is behind `id`; nothing is made then. Else as [`Backing::changing`].
    pub(super) async fn receiving(
        &self,
        operation: &'static str,
        caller: &Caller,
        (id, name): (NodeId, &Name),
        taken: Errno,
        volume: usize,
    ) -> Result<Held<'_>> {
        self.unpinned(operation, id, name, taken)?;
        let receiver = match self.target(operation, id)? {
            Target::File(inner) => Some(inner.volume),
            Target::Pin(pin) => self.place(operation, pin)?.map(|place| place.volume),
        };
        match receiver {
            Some(receiver) if receiver != volume => {
                Err(Error::new(operation, Errno::EXDEV).context("the two places lie in different volumes"))
            }
            _ => self.held_or_made(operation, caller, id).await,
        }
    }

    async fn held_or_made(&self, operation: &'static str, caller: &Caller, id: NodeId) -> Result<Held<'_>> {
        let pin = match self.target(operation, id)? {
            Target::File(Inner { volume, node }) => return Ok(self.hold(volume, node, false)),
            Target::Pin(pin) => pin,
        };
        match self.held_pin(operation, pin).await? {
            Some(held) => Ok(held),
            None => self.make(operation, caller, pin).await,
        }
    }

    pub(super) async fn held_pin(&self, operation: &'static str, pin: Pin) -> Result<Option<Held<'_>>> {
        let Some(Place { volume, path }) = self.place(operation, pin)? else { return Ok(None) };
        let mut held = self.root(*volume).await?;
        for name in path {
            let found = held.volume.lookup(&NOBODY, held.node, name).await;
            held = match found {
                Ok(entry) => self.hold(*volume, entry.attr.node, true),
                Err(error) if error.errno() == Errno::ENOENT => return Ok(None),
                Err(error) => return Err(error),
            };
            if self.kind(&held).await? != FileKind::Directory {
                return Ok(None);
            }
        }
        self.remember(pin, held.node);
        Ok(Some(held))
    }

    /// Makes the directories that lead to a pinned node in its volume, with mode 0755 and the caller as owner.
    async fn make(&self, operation: &'static str, caller: &Caller, pin: Pin) -> Result<Held<'_>> {
        let Some(Place { volume, path }) = self.place(operation, pin)? else {
            return Err(Error::new(operation, Errno::EROFS).context("nothing is mounted here; only mounts are"));
        };
        let mut held = self.root(*volume).await?;
        for name in path {
            let entry = match held.volume.mkdir(&held.caller(caller), held.node, name, Mode::new(0o755)).await {
                Err(error) if error.errno() == Errno::EEXIST => held.volume.lookup(caller, held.node, name).await,
                made => made,
            }?;
            held = self.hold(*volume, entry.attr.node, true);
        }
        self.remember(pin, held.node);
        Ok(held)
    }

    fn place(&self, operation: &'static str, pin: Pin) -> Result<Option<&Place>> {
        let node = self.skeleton.get(pin);
        if node.sealed {
            return Err(Error::new(operation, Errno::EIO).context("another volume belongs here, and is not mounted"));
        }
        Ok(node.place.as_ref())
    }

    async fn root(&self, volume: usize) -> Result<Held<'_>> {
        let served = &self.served[volume];
        let root = served.root.get_or_try_init(|| async { Ok(served.volume.root().await?.attr.node) }).await?;
        Ok(self.hold(volume, *root, false))
    }

    async fn kind(&self, held: &Held<'_>) -> Result<FileKind> {
        Ok(held.volume.getattr(held.node).await?.kind)
    }

    fn hold(&self, index: usize, node: NodeId, counted: bool) -> Held<'_> {
        let Served { volume, origin, .. } = &self.served[index];
        Held { volume, index, node, origin: *origin, counted }
    }

    fn remember(&self, pin: Pin, node: NodeId) {
        let mut last = self.last.lock();
        if last.len() <= pin {
            last.resize(pin + 1, None);
        }
        last[pin] = Some(node);
    }
}

/// Looks for a pinned directory on nobody's behalf: permission to go there was checked on the pinned node.
const NOBODY: Caller = Caller { uid: 0, gid: 0, tid: 0, origin: Origin::OUTSIDE };
