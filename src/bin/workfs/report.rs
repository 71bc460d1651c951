//! What a serving process tells of itself, over its control socket.

use crate::state::Entry;
use serde::{Deserialize, Serialize};
use workfs::fs::SessionStatus;
use workfs::mounts::CacheUse;

/// A mounted view, as the process that serves it sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Where, since when, and by which process.
    #[serde(flatten)]
    pub entry: Entry,
    /// `nested` or `single`.
    pub mode: String,
    /// Why it is that.
    pub why: String,
    /// The volumes, outermost first.
    pub mounts: Vec<MountReport>,
    /// The FUSE sessions.
    pub sessions: Vec<SessionStatus>,
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
