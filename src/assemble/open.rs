//! From a plan to a workspace: here the concrete volumes are made.

use super::check::canonical;
use super::plan::{Plan, PlannedMount};
use super::volume_url::VolumeUrl;
use crate::mounts::Volume;
use crate::mounts::disk::{DiskVolume, Io};
use crate::mounts::store::memory::MemoryStore;
use crate::mounts::store::sqlite::SqliteStore;
use crate::mounts::store::{StoreVolume, engine::Store};
use crate::types::{Error, Result};
use crate::workspace::{Mount, Workspace};
use std::collections::HashMap;
use std::sync::Arc;

/// Opens every volume of `plan`, and puts them together. Where one cannot be opened, those that were are closed again.
///
/// # Errors
/// What the volume says, with where it was written.
pub async fn open(plan: &Plan) -> Result<Workspace> {
    let mut mounts = Vec::with_capacity(plan.mounts.len());
    let mut opened: HashMap<(VolumeUrl, Io), Arc<dyn Volume>> = HashMap::new();
    for planned in &plan.mounts {
        let key = same(&planned.volume).map(|url| (url, planned.io));
        if let Some(volume) = key.as_ref().and_then(|key| opened.get(key)) {
            mounts.push(mount(planned, volume.clone()));
            continue;
        }
        match open_volume(planned).await {
            Ok(volume) => {
                opened.extend(key.map(|key| (key, volume.clone())));
                mounts.push(mount(planned, volume));
            }
            Err(error) => {
                close(&mounts).await;
                let text = format!("{}: the volume `{}` cannot be opened", planned.place, planned.label);
                return Err(Error::new("open the volume", error.errno()).context(text).source(error));
            }
        }
    }
    Workspace::new(mounts)
}

async fn close(mounts: &[Mount]) {
    for mount in mounts {
        if let Err(error) = mount.volume.close().await {
            tracing::warn!("close {}: {error}", mount.label);
        }
    }
}

fn mount(planned: &PlannedMount, volume: Arc<dyn Volume>) -> Mount {
    Mount {
        at: planned.at.clone(),
        volume,
        label: planned.label.clone(),
        kind: planned.volume.kind(),
        read_only: planned.read_only,
    }
}

async fn open_volume(planned: &PlannedMount) -> Result<Arc<dyn Volume>> {
    let store: Arc<dyn Store> = match &planned.volume {
        VolumeUrl::Disk(path) => return Ok(DiskVolume::open_with(path, planned.io)?),
        VolumeUrl::Sqlite(path, namespace) => SqliteStore::open(path, namespace).await?,
        VolumeUrl::Memory(_) => MemoryStore::new(),
    };
    Ok(StoreVolume::open(store).await?)
}

/// Which mounts are of one volume; `None` for a volume that is always another. One that is mounted at several places is
/// opened once, so that what is done at one shows at the others at once.
fn same(url: &VolumeUrl) -> Option<VolumeUrl> {
    Some(match url {
        VolumeUrl::Disk(path) => VolumeUrl::Disk(canonical(path)),
        VolumeUrl::Sqlite(path, namespace) => VolumeUrl::Sqlite(canonical(path), namespace.clone()),
        VolumeUrl::Memory(name) => VolumeUrl::Memory(Some(name.clone()?)),
    })
}
