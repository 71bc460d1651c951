//! What `status` tells of a view.

use super::counters::Requests;
use super::session::Session;
use crate::types::TreePath;
use crate::workspace::Mount;
use serde::Serialize;
use std::path::PathBuf;

/// A mounted workspace.
#[derive(Clone, Debug, Serialize)]
pub struct ViewStatus {
    /// Where it is mounted.
    pub directory: PathBuf,
    /// `nested`: a session for each mount; `single`: one for all.
    pub nesting: &'static str,
    /// Why it is the one or the other.
    pub reason: &'static str,
    /// What is mounted where in the tree.
    pub mounts: Vec<MountStatus>,
    /// The sessions with the kernel, the outer ones first.
    pub sessions: Vec<SessionStatus>,
}

/// A volume in the tree.
#[derive(Clone, Debug, Serialize)]
pub struct MountStatus {
    /// Its path in the tree.
    pub at: String,
    /// Its kind, such as `disk`.
    pub kind: &'static str,
    /// The volume as the user named it.
    pub label: String,
    /// Whether changes are refused.
    pub read_only: bool,
}

impl MountStatus {
    pub(super) fn new(mount: &Mount) -> MountStatus {
        MountStatus {
            at: mount.at.to_string(),
            kind: mount.kind,
            label: mount.label.clone(),
            read_only: mount.read_only || mount.volume.capabilities().read_only,
        }
    }
}

/// A session with the kernel.
#[derive(Clone, Debug, Serialize)]
pub struct SessionStatus {
    /// Its path in the tree.
    pub at: String,
    /// Where it is mounted.
    pub path: PathBuf,
    /// The kind of its volume; `tree` where it serves no volume of its own, or all of them.
    pub kind: &'static str,
    /// Whether it is in the mount table.
    pub mounted: bool,
    /// How often it was lost and mounted again.
    pub lost: u64,
    /// Files open through handles. Volumes whose opens are not told have none but files just created.
    pub open_files: usize,
    /// Files that the kernel remembers.
    pub known_files: usize,
    /// What it was asked.
    pub requests: Requests,
}

impl SessionStatus {
    pub(super) fn new(at: &TreePath, mount: Option<&Mount>, session: &Session, lost: u64) -> SessionStatus {
        let (open_files, known_files) = session.holds();
        SessionStatus {
            at: at.to_string(),
            path: session.path().to_owned(),
            kind: mount.map_or("tree", |mount| mount.kind),
            mounted: true,
            lost,
            open_files,
            known_files,
            requests: session.requests(),
        }
    }
}
