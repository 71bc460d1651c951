//! What must not be mounted, because it would serve itself or nothing: told before anything is opened.
//!
//! A daemon that reaches into its own mount waits for itself, so nothing that it reads or writes may lie there.

use super::place::Place;
use super::plan::{Plan, PlannedMount};
use super::volume_url::VolumeUrl;
use crate::types::Result;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Checks `plan` against the place where it is to be mounted. `mountpoint` must be canonical; `place` is where it was
/// written.
///
/// # Errors
/// `EINVAL` for no mounts; for a mountpoint inside a disk volume, and a disk volume, an SQLite file or the log inside
/// the mountpoint; for volumes that cannot be opened for what lies at their path. Each says what would be right.
pub fn check(plan: &Plan, mountpoint: &Path, place: &Place) -> Result<()> {
    if plan.mounts.is_empty() {
        return Err(Place::Argument("-m".to_owned())
            .refuse("nothing to mount: give at least one AT=VOLUME, for example `-m /=./project`, or a config file"));
    }
    for mount in &plan.mounts {
        match &mount.volume {
            VolumeUrl::Disk(path) => check_disk(mount, path, mountpoint, place)?,
            VolumeUrl::Sqlite(path, _) => check_file(mount, path, mountpoint)?,
            VolumeUrl::Memory(_) => {}
        }
    }
    if let Some((file, place)) = &plan.log.file
        && canonical(file).starts_with(mountpoint)
    {
        return Err(place.refuse(format!(
            "the log {} lies inside the mountpoint {}, so that logging would wait for itself; put it elsewhere",
            file.display(),
            mountpoint.display()
        )));
    }
    Ok(())
}

fn check_disk(mount: &PlannedMount, path: &Path, mountpoint: &Path, place: &Place) -> Result<()> {
    let root = canonical(path);
    if mountpoint.starts_with(&root) {
        return Err(place.refuse(format!(
            "the mountpoint {} lies inside the volume `{}` that is mounted there ({}), so the tree would contain \
             itself; mount at a directory outside {}",
            mountpoint.display(),
            mount.label,
            mount.place,
            root.display()
        )));
    }
    if root.starts_with(mountpoint) {
        return Err(inside(mount, &root, mountpoint));
    }
    match std::fs::metadata(&root) {
        Ok(found) if !found.is_dir() => Err(mount.place.refuse(format!(
            "{} is a file, and a disk volume is a folder; an SQLite store is written `sqlite:{}`",
            root.display(),
            mount.label
        ))),
        Err(_) if mount.read_only => Err(mount.place.refuse(format!(
            "there is no folder {}, and it is not made for a read-only mount; correct the path or make it first",
            root.display()
        ))),
        _ => Ok(()),
    }
}

fn check_file(mount: &PlannedMount, path: &Path, mountpoint: &Path) -> Result<()> {
    let file = canonical(path);
    if file.starts_with(mountpoint) {
        return Err(inside(mount, &file, mountpoint));
    }
    if file.is_dir() {
        return Err(mount.place.refuse(format!(
            "{} is a folder, and an SQLite store is a file; write for example `sqlite:{}/store.db`",
            file.display(),
            path.display()
        )));
    }
    match file.parent() {
        Some(folder) if !folder.is_dir() => Err(mount.place.refuse(format!(
            "the store's folder {} does not exist; make it first, or correct the path",
            folder.display()
        ))),
        _ if mount.read_only && !file.exists() => Err(mount.place.refuse(format!(
            "there is no file {}, and it is not made for a read-only mount; correct the path, or mount it writable first",
            file.display()
        ))),
        _ => Ok(()),
    }
}

fn inside(mount: &PlannedMount, path: &Path, mountpoint: &Path) -> crate::types::Error {
    mount.place.refuse(format!(
        "the volume `{}` ({}) lies inside the mountpoint {}, which would cover it; keep it outside",
        mount.label,
        path.display(),
        mountpoint.display()
    ))
}

/// The canonical path of `path`, whose last parts need not exist.
pub fn canonical(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let parts = absolute.components().collect::<Vec<_>>();
    for kept in (0..=parts.len()).rev() {
        let Ok(found) = parts[..kept].iter().collect::<PathBuf>().canonicalize() else { continue };
        return parts[kept..].iter().fold(found, |mut path, part| {
            match part {
                Component::ParentDir => drop(path.pop()),
                part => path.push(AsRef::<OsStr>::as_ref(part)),
            }
            path
        });
    }
    absolute
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_canonical_as_far_as_it_exists() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it exists");
        std::fs::create_dir(root.join("real")).expect("made");
        std::os::unix::fs::symlink("real", root.join("link")).expect("made");
        assert_eq!(canonical(&root.join("link/new/deep")), root.join("real/new/deep"));
        assert_eq!(canonical(&root.join("new/../other")), root.join("other"));
        assert_eq!(canonical(&root.join("link/..")), root);
    }
}
