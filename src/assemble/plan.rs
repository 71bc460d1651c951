//! What somebody wants mounted: read and checked, but nothing opened yet.

use super::place::Place;
use super::suggest::known_are;
use super::volume_url::VolumeUrl;
use crate::mounts::disk::Io;
use crate::types::{Result, TreePath};
use std::path::{Path, PathBuf};

/// A volume that is to be mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedMount {
    /// Where in the tree.
    pub at: TreePath,
    /// Which volume.
    pub volume: VolumeUrl,
    /// The volume as the user wrote it.
    pub label: String,
    /// Whether changes through the mount are refused.
    pub read_only: bool,
    /// How the kernel reads and writes its files, on a disk volume.
    pub io: Io,
    /// Where this was written.
    pub place: Place,
}

/// A view that a config file describes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// Its name.
    pub name: String,
    /// The directory at which it is mounted; absolute.
    pub mountpoint: PathBuf,
    /// Where the mountpoint was written.
    pub place: Place,
}

/// What a config file says of the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogSettings {
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`.
    pub level: Option<String>,
    /// The file, absolute, and where it was written.
    pub file: Option<(PathBuf, Place)>,
}

/// Everything that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The mounts, in the order in which they were written; no two at one path.
    pub mounts: Vec<PlannedMount>,
    /// The views, ordered by name.
    pub views: Vec<View>,
    /// The log.
    pub log: LogSettings,
}

impl Plan {
    /// Adds a mount.
    ///
    /// # Errors
    /// `EINVAL` where another mount is at this path already.
    pub fn add(&mut self, mount: PlannedMount) -> Result<()> {
        if let Some(other) = self.mounts.iter().find(|other| other.at == mount.at) {
            return Err(mount.place.refuse(format!(
                "a second mount at {}: `{}`, where `{}` ({}) is already; give each a path of its own",
                mount.at, mount.label, other.label, other.place
            )));
        }
        self.mounts.push(mount);
        Ok(())
    }

    /// Where to mount: `dir` if it is given, else the mountpoint of the view `view`, else that of the only view.
    ///
    /// # Errors
    /// `EINVAL` for a view that there is not, and where nothing says which directory is meant.
    pub fn mountpoint(&self, dir: Option<&Path>, view: Option<&str>) -> Result<(PathBuf, Place)> {
        let names = self.views.iter().map(|view| view.name.as_str()).collect::<Vec<_>>();
        let chosen = match view {
            Some(name) => Some(self.views.iter().find(|view| view.name == name).ok_or_else(|| {
                let place = Place::Argument(format!("--view {name}"));
                place.refuse(format!("there is no view `{name}`{}", known_are(name, &names)))
            })?),
            None => None,
        };
        if let Some(dir) = dir {
            return Ok((dir.to_owned(), Place::Argument(dir.display().to_string())));
        }
        match (chosen, &self.views[..]) {
            (Some(view), _) | (None, [view]) => Ok((view.mountpoint.clone(), view.place.clone())),
            (None, []) => Err(Place::Argument("DIR".to_owned()).refuse(
                "is missing: name the directory to mount at, or give the config a `[view.NAME]` with `mountpoint`",
            )),
            (None, _) => Err(Place::Argument("--view".to_owned())
                .refuse(format!("is missing: the config has several views ({}); name one", names.join(", ")))),
        }
    }
}
