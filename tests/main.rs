//! Everything that is tested through the outside of workfs.

mod config;
