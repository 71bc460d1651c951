//! workfs: several volumes put together as one tree and mounted through FUSE.
//!
//! The rooms stand on floors, and a room imports only from floors below it:
//! [`types`] is the ground, then [`mounts`] (volumes and stores), [`workspace`] (the tree of mounts),
//! [`fs`] (the kernel's face) and [`assemble`], which alone names concrete volumes.
//! A request walks one straight line: kernel → `fs` → `workspace` → volume → store, and back.

pub mod assemble;
pub mod fs;
pub mod mounts;
pub mod types;
pub mod workspace;
