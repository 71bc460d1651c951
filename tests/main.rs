//! The one test binary. Every file below `tests` is named here or by a module that is; a test shows that none is forgotten.
#![allow(clippy::disallowed_methods, reason = "tests wait for processes of their own, and read and write plain files")]

mod behaviour_append;
mod behaviour_attributes;
mod behaviour_containment;
mod behaviour_data;
mod behaviour_kinds;
mod behaviour_links;
mod behaviour_listing;
mod behaviour_locks;
mod behaviour_mmap;
mod behaviour_mounts;
mod behaviour_names;
mod behaviour_read_only;
mod behaviour_rename;
mod behaviour_space;
mod behaviour_times;
mod behaviour_unlinked;
mod behaviour_views;
mod behaviour_xattr;
mod config;
mod disk;
mod disk_attributes;
mod disk_callers;
mod disk_contained;
mod disk_listing;
mod disk_nodes;
mod engines;
mod harness;
mod house;
mod kill;
mod many_writers;
mod nesting;
mod programs;
mod read_only;
