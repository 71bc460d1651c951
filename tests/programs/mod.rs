//! Real programs doing their usual work on a mount: each on a plain directory, on a disk mount and on an SQLite mount.

mod cargo;
mod files;
mod git;
mod node;
mod python;
mod search;
mod sqlite;
