//! From a config file or a command line to a workspace. This room alone names concrete volumes.
//!
//! It goes in two steps. A [`Plan`] is what was written, with every fault that can be seen told before anything is
//! opened ([`read_config`], [`read_argument`], [`check`]). Then [`open`] makes the volumes and puts them together.

mod check;
mod config;
mod open;
mod place;
mod plan;
mod spec;
mod suggest;
mod vars;
mod volume_url;

pub use check::{canonical, check};
pub use config::read as read_config;
pub use open::open;
pub use place::{CONFIGURATION, Place};
pub use plan::{LogSettings, Plan, PlannedMount, View};
pub use spec::parse as read_argument;
pub use volume_url::VolumeUrl;
