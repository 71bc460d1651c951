//! What a serving process tells of itself, over its control socket.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use workfs::fs::SessionStatus;
use workfs::mounts::CacheUse;

/// A mounted view, as the process that serves it sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The serving process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// Its log; `None`: standard error of the foreground.
    pub log: Option<PathBuf>,
    /// When it was mounted, in seconds since 1970.
    pub started: u64,
    /// `nested` or `single`.
    pub mode: String,
    /// Why it is that.
    pub why: String,
    /// The volumes, outermost first.
    pub mounts: Vec<MountReport>,
    /// The FUSE sessions.
    pub sessions: Vec<SessionReport>,
}

/// A volume of a view.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountReport {
    /// Where in the tree.
    pub at: String,
    /// `disk`, `sqlite` or `memory`.
    pub kind: String,
    /// The volume as the user wrote it.
    pub label: String,
    /// Whether changes are refused.
    pub read_only: bool,
    /// `cached`, or `passthrough` where the kernel reads and writes the host's files itself.
    pub io: String,
    /// How large it is; `None` where it did not say.
    pub size: Option<SizeReport>,
    /// `ok`, or what is wrong.
    pub health: String,
    /// What it remembers.
    pub caches: Vec<CacheUse>,
}

/// How large a volume is, in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SizeReport {
    /// In all.
    pub total: u64,
    /// Taken.
    pub used: u64,
    /// Free to ordinary users.
    pub available: u64,
    /// Files there may be; 0: as many as fit.
    pub files: u64,
    /// Files that may still be made.
    pub files_free: u64,
}

/// A FUSE session of a view.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionReport {
    /// Where in the tree it is mounted.
    pub at: String,
    /// The kind of its volume; `tree` where it serves several.
    pub kind: String,
    /// Whether the kernel's mount table has it.
    pub mounted: bool,
    /// How often it was lost and mounted again.
    pub lost: u64,
    /// Files open through handles.
    pub open_files: usize,
    /// Files that the kernel remembers: the cache that has to be kept right.
    pub known_files: usize,
    /// What the kernel has asked it, in all.
    pub requests: u64,
    /// The same, by operation.
    pub by_operation: BTreeMap<String, u64>,
    /// Requests answered with an error (a name that does not exist is none).
    pub failed: u64,
    /// Requests that were not ready at once.
    pub waited: u64,
    /// Requests given up at their deadline.
    pub timed_out: u64,
    /// Changes by others that the kernel was told.
    pub notified: u64,
}

impl From<SessionStatus> for SessionReport {
    fn from(session: SessionStatus) -> SessionReport {
        let requests = session.requests;
        SessionReport {
            at: session.at,
            kind: session.kind.to_owned(),
            mounted: session.mounted,
            lost: session.lost,
            open_files: session.open_files,
            known_files: session.known_files,
            requests: requests.by_operation.values().sum(),
            by_operation: requests.by_operation.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            failed: requests.failed,
            waited: requests.waited,
            timed_out: requests.timed_out,
            notified: requests.notified,
        }
    }
}
