//! What `status` tells of a view.

use super::counters::Requests;
use super::session::Session;
use crate::types::TreePath;
use crate::workspace::Mount;
use serde::{Deserialize, Serialize};

/// A mounted workspace.
#[derive(Clone, Debug)]
pub struct ViewStatus {
    /// `nested`: a session for each mount; `single`: one for all.
    pub nesting: &'static str,
    /// Why it is the one or the other.
    pub reason: &'static str,
    /// The sessions with the kernel, the outer ones first.
    pub sessions: Vec<SessionStatus>,
}

/// A session with the kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Its path in the tree.
    pub at: String,
    /// The kind of its volume; `tree` where it serves no volume of its own, or all of them.
    pub kind: String,
    /// Whether it is in the mount table.
    pub mounted: bool,
    /// How often it was lost and mounted again.
    pub lost: u64,
    /// Files open through handles. Volumes whose opens are not told have none but files just created.
    pub open_files: usize,
    /// Files that the kernel remembers: the cache that has to be kept right.
    pub known_files: usize,
    /// What it was asked.
    #[serde(flatten)]
    pub requests: Requests,
}

impl SessionStatus {
    pub(super) fn new(
        at: &TreePath,
        mount: Option<&Mount>,
        session: &Session,
        mounted: bool,
        lost: u64,
    ) -> SessionStatus {
        let (open_files, known_files) = session.holds();
        SessionStatus {
            at: at.to_string(),
            kind: mount.map_or("tree", |mount| mount.kind).to_owned(),
            mounted,
            lost,
            open_files,
            known_files,
            requests: session.requests(),
        }
    }
}
