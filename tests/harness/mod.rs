//! What every test stands on: a place of each kind, programs run in it, and the certainty that nothing stays behind.
//!
//! A place is served by a process of its own, never by the test process: whoever serves a mount must not use it (a page
//! fault, an exit or a fork would wait for itself). Everything is RAII, and a test that hangs is ended by its deadline.

pub mod actor;
pub mod deadline;
pub mod dir_stream;
pub mod expect;
pub mod kind;
pub mod mount_table;
pub mod program;
pub mod random;
pub mod scene;
pub mod server;
pub mod sys;
pub mod tree;

pub use expect::{Failed, changed_within, drop_caches, put, slurp};
pub use kind::{Kind, Sessions};
pub(crate) use kind::{each_kind, each_stored_kind, each_stored_kind_in_full};
pub use program::Program;
pub use scene::{MountSpec, Scene};

/// Whether the long tests run too (`scripts/check --full`).
pub fn full() -> bool {
    std::env::var_os("WORKFS_FULL").is_some_and(|value| value == "1")
}
