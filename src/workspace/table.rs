//! The mount table.

use crate::mounts::{ReadOnly, Volume};
use crate::types::{Errno, Error, Result, TreePath};
use std::sync::Arc;

/// A volume at a path of the tree.
#[derive(Clone)]
pub struct Mount {
    /// Where it is.
    pub at: TreePath,
    /// What is there.
    pub volume: Arc<dyn Volume>,
    /// The volume as the user named it, such as `sqlite:./desk.db`.
    pub label: String,
    /// The kind of volume, such as `disk`.
    pub kind: &'static str,
    /// Whether changes through this mount are refused.
    pub read_only: bool,
}

/// What a session does where another volume is mounted below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crossing {
    /// It stops: another session is mounted there, and this one answers nothing inside (`EIO`).
    Stop,
    /// It goes on into that volume.
    Cross,
}

/// Several volumes as one tree: of the mounts whose path leads to a place, the deepest holds it.
pub struct Workspace {
    mounts: Vec<Mount>,
}

impl Workspace {
    /// Puts `mounts` together. A read-only mount's volume is wrapped, so that it refuses changes by itself.
    ///
    /// # Errors
    /// `EINVAL` for two mounts at one path, and for none at all.
    pub fn new(mut mounts: Vec<Mount>) -> Result<Workspace> {
        if mounts.is_empty() {
            return Err(Error::new("workspace", Errno::EINVAL).context("no mounts; give at least one, such as /=."));
        }
        // Sorted paths put every mount behind those that contain it.
        mounts.sort_by(|a, b| a.at.cmp(&b.at));
        if let Some(pair) = mounts.windows(2).find(|pair| pair[0].at == pair[1].at) {
            return Err(Error::new("workspace", Errno::EINVAL).context(format!(
                "two mounts at {}: {} and {}; give each a path of its own",
                pair[0].at, pair[0].label, pair[1].label
            )));
        }
        for mount in &mut mounts {
            if mount.read_only && !mount.volume.capabilities().read_only {
                mount.volume = ReadOnly::new(mount.volume.clone());
            }
        }
        Ok(Workspace { mounts })
    }

    /// The mounts, each behind those that contain it.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// Closes every volume: commits what is pending and ends their work. All are tried; the first error is told.
    pub async fn close(&self) -> Result<()> {
        let mut result = Ok(());
        for mount in &self.mounts {
            let closed = mount.volume.close().await;
            result = result.and(closed);
        }
        result
    }

    /// The place in [`Workspace::mounts`] of the deepest mount at or above `path`.
    pub(super) fn holder(&self, path: &TreePath) -> Option<usize> {
        self.mounts.iter().rposition(|mount| path.below(&mount.at).is_some())
    }
}
