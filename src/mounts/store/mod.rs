//! The store volume: a whole POSIX filesystem, written once, over a small transactional record engine.
//!
//! [`engine`] is the contract of an engine and [`record`] the shapes it keeps; the rest of this room is the volume.

mod announce;
pub mod engine;
pub mod memory;
pub mod record;
pub mod sqlite;
mod volume;

pub use volume::StoreVolume;
