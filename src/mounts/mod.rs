//! Volumes: what holds files, each behind the one contract [`Volume`].

mod broadcast;
pub mod disk;
mod freed_locks;
mod health;
mod local_locks;
pub mod locks;
mod open_file;
mod read_only;
pub mod store;
mod volume;

pub use freed_locks::LockWatch;
pub use health::{CacheUse, Health};
pub use open_file::OpenFile;
pub use read_only::ReadOnly;
pub use volume::{Capabilities, DirEntry, Freshness, Listing, OpenStyle, Volume};
