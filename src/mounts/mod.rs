//! Volumes: what holds files, each behind the one contract [`Volume`].

mod broadcast;
pub mod disk;
mod health;
mod open_file;
mod read_only;
pub mod store;
mod volume;

pub use health::{CacheUse, Health};
pub use open_file::OpenFile;
pub use read_only::ReadOnly;
pub use volume::{Capabilities, DirEntry, Freshness, Listing, OpenStyle, Volume};
