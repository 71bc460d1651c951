//! The tree: which volume is mounted where, and what one session sees of it.
//!
//! [`Workspace`] is the mount table. A [`Subtree`] of it is itself a [`crate::mounts::Volume`], so a face serves one
//! volume and knows of no mounts.

mod backing;
mod changes;
mod ids;
mod pinned;
mod placed;
mod skeleton;
mod subtree;
mod table;

pub use subtree::Subtree;
pub use table::{Crossing, Mount, Workspace};
