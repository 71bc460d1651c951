//! What the kernel is to be told.

use crate::types::{Change, NodeId};

/// What is to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Notice {
    /// A change, by whomever.
    Change(Change),
    /// The attributes of a node were told for longer than they hold.
    Attributes(NodeId),
    /// More names are remembered than we keep.
    Names,
    /// No change will be told any more.
    Starved,
    /// The session is over.
    End,
}
