//! What is kept free on the disk below, so that a full store can be emptied.
//!
//! To remove a file is a commit, and a commit is written to the WAL before anything is freed: on a disk that is full to
//! the last byte nothing could be removed, and the store could not even be opened or closed. So commits that add are
//! refused a little earlier than the disk would refuse them, and what they leave is for those that do not.

use super::connect::{Database, PAGE, failure};
use super::decode::column;
use super::group::size;
use crate::mounts::store::engine::Batch;
use crate::mounts::store::record::Key;
use crate::types::{Errno, Error, Result};
use sqlx::Executor;
use sqlx::sqlite::SqliteConnection;
use std::path::Path;

/// Bytes kept free at most.
const RESERVE: u64 = 8 << 20;

/// On a small disk, this part of it.
const PART: u64 = 8;

/// With as much free on the disk nobody asks more exactly.
const PLENTY: u64 = 256 << 20;

/// What a commit writes besides its blocks, in bytes.
const COMMIT: u64 = 8 * PAGE;

/// What there is room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Bytes free on the disk.
    free: u64,
    /// Bytes free inside the database.
    empty: u64,
    reserve: u64,
}

impl Room {
    /// SQLite itself says when the disk is full.
    pub const UNKNOWN: Room = Room { free: u64::MAX / 2, empty: 0, reserve: 0 };

    /// What the disk has, where so much is free inside the database.
    ///
    /// # Errors
    /// As `statvfs(2)`.
    pub fn on_disk(database: &Database, empty: u64) -> Result<Room> {
        let parent = database.path().parent().unwrap_or(Path::new("/"));
        let disk = rustix::fs::statvfs(parent).map_err(|error| Error::from_io("statvfs", error.into()))?;
        let reserve = RESERVE.min(disk.f_blocks * disk.f_frsize / PART);
        Ok(Room { free: disk.f_bavail * disk.f_frsize, empty, reserve })
    }

    /// What is left now.
    pub async fn now(database: &Database, connection: &mut SqliteConnection) -> Room {
        Room::ask(database, connection).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what is free on the disk cannot be found out");
            Room::UNKNOWN
        })
    }

    async fn ask(database: &Database, connection: &mut SqliteConnection) -> Result<Room> {
        let room = Room::on_disk(database, 0)?;
        if room.free >= PLENTY {
            return Ok(room);
        }
        let query =
            "SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count)";
        let row = connection.fetch_one(query).await.map_err(|error| failure("usage", error))?;
        let (pages, empty) = (column::<i64>(&row, 0)? as u64, column::<i64>(&row, 1)? as u64);
        // The database will grow by what the WAL has for it.
        let length = std::fs::metadata(database.path()).map_or(0, |file| file.len());
        let free = room.free.saturating_sub((pages * PAGE).saturating_sub(length));
        Ok(Room { free, empty: empty * PAGE, ..room })
    }

    /// Bytes that can still be added, all in all. What is empty inside can be used only while the WAL has its room.
    pub fn left(&self) -> u64 {
        self.free.checked_sub(self.reserve).map_or(0, |free| free + self.empty)
    }

    /// Takes room for `added` bytes, if there is: they are written to the WAL first, and the database grows by what
    /// does not fit inside it.
    pub fn take(&mut self, added: u64) -> bool {
        let growth = added.saturating_sub(self.empty);
        if self.free < growth + self.reserve.max(added) {
            return false;
        }
        self.free -= growth;
        self.empty -= added - growth;
        true
    }
}

/// Bytes that a commit adds; `None` for one that adds nothing to speak of.
pub fn added(batch: &Batch) -> Option<u64> {
    let bytes = size(batch) as u64;
    let adds = bytes > 0 || batch.put.iter().any(|(key, _)| matches!(key, Key::Stats(_) | Key::Xattr(..)));
    adds.then_some(bytes + COMMIT)
}

/// The refusal of a commit that adds too much.
pub fn refused() -> Error {
    let why = "the disk that the database lies on is full, but for what it takes to remove files";
    Error::new("commit", Errno::ENOSPC).context(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::store::engine::BlockChange;
    use crate::mounts::store::record::{Record, Stats};
    use crate::types::NodeId;
    use bytes::Bytes;

    #[test]
    fn what_makes_and_writes_files_adds_and_what_removes_them_does_not() {
        let node = NodeId(7);
        let patch = BlockChange::Patch { node, index: 0, offset: 0, bytes: Bytes::from_static(b"abc") };
        assert_eq!(added(&Batch { blocks: vec![patch], ..Batch::default() }), Some(3 + COMMIT));
        let made = vec![(Key::Stats(node), Record::Stats(Stats::default()))];
        assert_eq!(added(&Batch { put: made, ..Batch::default() }), Some(COMMIT));
        let discard = BlockChange::Discard { node, start: 0, end: u64::MAX };
        let removal = Batch { delete: vec![Key::Stats(node)], blocks: vec![discard], ..Batch::default() };
        assert_eq!(added(&removal), None);
    }

    #[test]
    fn what_is_kept_is_not_given_away_and_what_is_empty_inside_is_used() {
        let mut room = Room { free: 100, empty: 0, reserve: 30 };
        assert_eq!(room.left(), 70);
        assert!(!room.take(60), "it would not fit into the WAL and the database");
        assert!(room.take(40) && room.take(30) && !room.take(1));
        assert_eq!(Room { free: 29, empty: 50, reserve: 30 }.left(), 0, "nothing can be written to the WAL");
        room.empty = 35;
        assert!(!room.take(31), "the WAL has no room for it");
        assert!(room.take(30) && room.free == 30 && room.empty == 5);
    }
}
