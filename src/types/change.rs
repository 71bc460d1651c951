//! What a volume tells of changes, so that whoever remembers something can forget it.

use super::{Name, NodeId, Origin};
use futures::stream::BoxStream;

/// A change that has happened; what is asked from now on sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Who made it.
    pub origin: Origin,
    /// What it was.
    pub kind: ChangeKind,
}

/// What may be remembered no longer.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum ChangeKind {
    /// The name `name` in the directory `parent` (it came, went, or means another file).
    Entry {
        /// The directory.
        parent: NodeId,
        /// The name in it.
        name: Name,
    },
    /// The attributes of a file; for a directory, its listing too.
    Attr(NodeId),
    /// The bytes of a file from `offset` on, `len` of them (`u64::MAX`: to its end), and its attributes.
    Data {
        /// The file.
        node: NodeId,
        /// The first byte.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Anything: the channel that tells changes was interrupted.
    Everything,
}

/// The changes of a volume, from the moment it is asked for.
pub type ChangeStream = BoxStream<'static, Change>;
