//! The nodes of a session that come from the mount table and not from a volume: the session's root, every mountpoint
//! below it, and the directories that lead to one.
//!
//! The kernel silently unmounts what is nested below a directory that a lookup finds gone or that is invalidated. So
//! these nodes are pinned: they have fixed ids, they are answered without asking a volume, and they last as long as
//! the session.

use super::table::{Crossing, Workspace};
use crate::types::{Name, NodeId, TreePath};
use std::collections::BTreeMap;

/// A pinned node's place in the skeleton. 0 is the session's root.
pub(super) type Pin = usize;

/// The session's root in the kernel's eyes (`FUSE_ROOT_ID`).
const ROOT: NodeId = NodeId(1);

/// The ids of the other pinned nodes start here, far above what volumes number.
const BASE: u64 = 1 << 60;

/// Where a pinned directory's own entries come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The volume, by its place in the session's list.
    pub volume: usize,
    /// The way from that volume's root.
    pub path: Vec<Name>,
}

/// One pinned node.
pub(super) struct Pinned {
    /// The pinned directory that it lies in; the root lies in itself.
    pub parent: Pin,
    /// The pinned nodes in it, by name.
    pub children: BTreeMap<Name, Pin>,
    /// What else is in it: the entries of this place, or nothing.
    pub place: Option<Place>,
    /// Another session is mounted over it: nothing in it is answered.
    pub sealed: bool,
}

/// All pinned nodes of a session.
pub(super) struct Skeleton {
    nodes: Vec<Pinned>,
}

impl Skeleton {
    /// The skeleton of the session at `at`, and the mounts it serves (by their place in the workspace's table), in
    /// the order of [`Place::volume`].
    pub(super) fn new(workspace: &Workspace, at: &TreePath, crossing: Crossing) -> (Skeleton, Vec<usize>) {
        let mut build = Builder { workspace, at, crossing, served: Vec::new(), nodes: Vec::new() };
        build.add(at, 0);
        for mount in workspace.mounts() {
            if let Some(below) = mount.at.below(at) {
                build.lead_to(below);
            }
        }
        (Skeleton { nodes: build.nodes }, build.served)
    }

    /// The pinned node at `pin`.
    pub(super) fn get(&self, pin: Pin) -> &Pinned {
        &self.nodes[pin]
    }

    /// The pinned node that bears `id`.
    pub(super) fn find(&self, id: NodeId) -> Option<Pin> {
        let pin = match id {
            ROOT => 0,
            NodeId(id) => usize::try_from(id.checked_sub(BASE)?).ok()?,
        };
        (pin < self.nodes.len()).then_some(pin)
    }

    /// The pinned node `name` in the pinned directory that bears `id`.
    pub(super) fn child(&self, id: NodeId, name: &Name) -> Option<Pin> {
        self.get(self.find(id)?).children.get(name).copied()
    }

    /// The id of a pinned node.
    pub(super) fn id(pin: Pin) -> NodeId {
        if pin == 0 { ROOT } else { NodeId(BASE + pin as u64) }
    }

    /// The pinned node that is the root of the session's volume `volume`.
    pub(super) fn root_of(&self, volume: usize) -> Option<Pin> {
        let is_root = |place: &Place| place.volume == volume && place.path.is_empty();
        self.nodes.iter().position(|node| node.place.as_ref().is_some_and(is_root))
    }

    /// Whether a volume may not use this number, since a pinned node bears it or may bear it.
    pub(super) fn reserves(id: NodeId) -> bool {
        id == ROOT || id.0 >= BASE
    }
}

struct Builder<'a> {
    workspace: &'a Workspace,
    at: &'a TreePath,
    crossing: Crossing,
    served: Vec<usize>,
    nodes: Vec<Pinned>,
}

impl Builder<'_> {
    /// Makes sure that every node on the way to a mount is there, as far as this session goes.
    fn lead_to(&mut self, below: &[Name]) {
        let (mut pin, mut path) = (0, self.at.clone());
        for name in below {
            if self.nodes[pin].sealed {
                return;
            }
            path = path.join(name);
            pin = match self.nodes[pin].children.get(name) {
                Some(child) => *child,
                None => {
                    let child = self.add(&path, pin);
                    self.nodes[pin].children.insert(name.clone(), child);
                    child
                }
            };
        }
    }

    fn add(&mut self, path: &TreePath, parent: Pin) -> Pin {
        let is_mount = self.workspace.mounts().iter().any(|mount| mount.at == *path);
        let sealed = is_mount && path != self.at && self.crossing == Crossing::Stop;
        let place = if sealed { None } else { self.place(path) };
        self.nodes.push(Pinned { parent, children: BTreeMap::new(), place, sealed });
        self.nodes.len() - 1
    }

    fn place(&mut self, path: &TreePath) -> Option<Place> {
        let mount = self.workspace.holder(path)?;
        let path = path.below(&self.workspace.mounts()[mount].at)?.to_vec();
        let volume = self.served.iter().position(|served| *served == mount).unwrap_or_else(|| {
            self.served.push(mount);
            self.served.len() - 1
        });
        Some(Place { volume, path })
    }
}
