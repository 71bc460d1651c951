//! The behaviour tests, in one binary: one file for each behaviour.

mod conformance;
mod disk;
mod disk_callers;
mod disk_contained;
mod disk_nodes;
mod interleavings;
mod nesting;
mod volume_posix;
