//! The behaviour tests: one binary, so that they are built and linked once.

mod disk;
mod disk_callers;
mod disk_contained;
mod disk_nodes;
