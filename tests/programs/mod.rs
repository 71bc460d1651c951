//! Real programs doing their usual work on a mount: each on a plain directory, on a disk mount and on an SQLite mount.

mod archives;
mod build;
mod cargo;
mod databases;
mod files;
mod git;
mod node;
mod overlay;
mod python;
mod search;
mod sqlite;
mod tools;
mod watch;
