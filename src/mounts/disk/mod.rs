//! The disk volume: a directory of the host.
//!
//! The straight line: `volume` (the contract) → `core` with the operations (`listing`, `attributes`, `make`, `remove`,
//! `xattrs`) → `tree` (from a node to its file) → `nodes` (which nodes there are) → `identity` (which file is which)
//! → `host` and `sys` (system calls). A file is always named by a descriptor and at most one name below it, so nothing
//! outside the root can be reached, whatever is renamed or swapped for a symbolic link meanwhile. (What is moved out of
//! the root beside the volume stays itself to those who know it already, as it would to those who had opened it.)
//!
//! Lock order: directories (`remove`), the node table, a node's state; the caches have locks of their own, under which
//! nothing else is called.

mod attributes;
mod core;
mod credentials;
mod descriptors;
mod fd_cache;
mod feed;
mod file;
mod host;
mod identity;
mod listing;
mod locks;
mod make;
mod nodes;
mod remove;
mod streams;
mod sys;
mod tree;
mod volume;
mod xattrs;

pub use volume::{DiskVolume, Io};
