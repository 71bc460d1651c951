//! Telling changes made through the volume to whoever listens.

use crate::mounts::broadcast::Broadcast;
use crate::types::{Caller, Change, ChangeKind, ChangeStream, Name, NodeId, Origin};

/// How many changes a listener may lag behind before it is told to forget everything.
const BACKLOG: usize = 16 * 1024;

/// The changes of one volume.
pub struct Feed(Broadcast<Change>);

impl Feed {
    /// Nobody listens yet.
    pub fn new() -> Feed {
        Feed(Broadcast::new(BACKLOG, Change { origin: Origin::OUTSIDE, kind: ChangeKind::Everything }))
    }

    /// The changes from now on.
    pub fn listen(&self) -> ChangeStream {
        self.0.listen()
    }

    /// Tells what `caller` did.
    pub fn tell(&self, caller: &Caller, kind: impl FnOnce() -> ChangeKind) {
        self.0.tell(|| Change { origin: caller.origin, kind: kind() });
    }

    /// Tells that `name` in `dir` came, went or means another file, by which the directory changed.
    pub fn tell_entry(&self, caller: &Caller, dir: NodeId, name: &Name) {
        self.tell(caller, || ChangeKind::Entry { parent: dir, name: name.clone() });
        self.tell(caller, || ChangeKind::Attr(dir));
    }
}
