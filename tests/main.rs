//! The behaviour tests, in one binary: one file for each behaviour.

mod disk;
mod disk_attributes;
mod disk_callers;
mod disk_contained;
mod disk_listing;
mod disk_nodes;
mod nesting;
mod read_only;
