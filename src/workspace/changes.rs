//! The changes of a session's volumes, in the session's numbers.

use super::backing::Backing;
use super::ids::Inner;
use super::skeleton::Skeleton;
use crate::types::{Change, ChangeKind, ChangeStream, Name, NodeId};
use futures::StreamExt;
use std::sync::Arc;

/// The changes of the session's volumes that were not made through the session itself. A pinned name is never told as
/// [`ChangeKind::Entry`]: that would make the kernel drop what is mounted there.
pub(super) fn stream(backing: &Arc<Backing>) -> ChangeStream {
    let streams = backing.volumes().enumerate().map(|(volume, served)| {
        let backing = backing.clone();
        served.changes().flat_map(move |change| futures::stream::iter(translate(&backing, volume, change))).boxed()
    });
    futures::stream::select_all(streams).boxed()
}

fn translate(backing: &Backing, volume: usize, change: Change) -> Vec<Change> {
    let Change { origin, kind } = change;
    if origin == backing.origin(volume) {
        return Vec::new();
    }
    let kinds = match kind {
        ChangeKind::Everything => vec![ChangeKind::Everything],
        ChangeKind::Attr(node) => numbers(backing, volume, node).into_iter().map(ChangeKind::Attr).collect(),
        ChangeKind::Data { node, offset, len } => {
            numbers(backing, volume, node).into_iter().map(|node| ChangeKind::Data { node, offset, len }).collect()
        }
        ChangeKind::Entry { parent, name } => {
            numbers(backing, volume, parent).into_iter().map(|parent| entry(backing, parent, &name)).collect()
        }
    };
    kinds.into_iter().map(|kind| Change { origin, kind }).collect()
}

/// Every number under which the kernel may know a file: as a file of its volume, and as a pinned node.
fn numbers(backing: &Backing, volume: usize, node: NodeId) -> Vec<NodeId> {
    let inner = Inner { volume, node };
    let mut numbers: Vec<NodeId> = backing.pins_on(inner).into_iter().map(Skeleton::id).collect();
    let own = backing.outer(inner, 0);
    if !numbers.contains(&own) {
        numbers.push(own);
    }
    numbers
}

fn entry(backing: &Backing, parent: NodeId, name: &Name) -> ChangeKind {
    match backing.skeleton.child(parent, name) {
        Some(child) => ChangeKind::Attr(Skeleton::id(child)),
        None => ChangeKind::Entry { parent, name: name.clone() },
    }
}
