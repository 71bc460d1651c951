//! The kernel's face: a workspace, mounted through FUSE.
//!
//! [`mount`] makes a view: one session with the kernel for each mount of the workspace, nested in one another, or one
//! for all. A session serves one [`crate::mounts::Volume`] and thinks nothing: a request is unpacked (`adapter`),
//! served (`dispatch`) and answered, and what others change is told to the kernel (`notify`). What keeps the nested
//! mounts in place is `watch`, and the pinned directories of [`crate::workspace::Subtree`].

mod adapter;
mod busy;
mod convert;
mod core;
mod counters;
mod dispatch;
mod files;
mod flags;
mod handles;
mod known;
mod locks;
mod mountinfo;
mod mountpoint;
mod names;
mod nesting;
mod notice;
mod notify;
mod passthrough;
mod probe;
mod process;
mod progress;
mod recent;
mod session;
mod signals;
mod status;
mod view;
mod watch;
mod xattrs;

pub use counters::Requests;
pub use mountinfo::{Mounted, mounted_at};
pub use mountpoint::{Unmount, unmount_top};
pub use nesting::Nesting;
pub use probe::{Found, clear_dead, probe, resolve};
pub use process::prepare_process;
pub use status::{SessionStatus, ViewStatus};
pub use view::{MountOptions, MountedView, mount};
