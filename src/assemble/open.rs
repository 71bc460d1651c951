//! From a plan to a workspace: here the concrete volumes are made.

use super::plan::{Plan, PlannedMount};
use super::volume_url::VolumeUrl;
use crate::mounts::Volume;
use crate::mounts::disk::DiskVolume;
use crate::mounts::store::memory::MemoryStore;
use crate::mounts::store::sqlite::SqliteStore;
use crate::mounts::store::{StoreVolume, engine::Store};
use crate::types::{Error, Result};
use crate::workspace::{Mount, Workspace};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Opens every volume of `plan`, and puts them together. Where one cannot be opened, those that were are closed again.
///
/// # Errors
/// What the volume says, with where it was written.
pub async fn open(plan: &Plan) -> Result<Workspace> {
    let mut mounts = Vec::with_capacity(plan.mounts.len());
    for planned in &plan.mounts {
        match open_volume(&planned.volume).await {
            Ok(volume) => mounts.push(mount(planned, volume)),
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

async fn open_volume(url: &VolumeUrl) -> Result<Arc<dyn Volume>> {
    let store: Arc<dyn Store> = match url {
        VolumeUrl::Disk(path) => return Ok(DiskVolume::open(path)?),
        VolumeUrl::Sqlite(path, namespace) => SqliteStore::open(path, namespace).await?,
        VolumeUrl::Memory(None) => MemoryStore::new(),
        VolumeUrl::Memory(Some(name)) => named_memory(name),
    };
    Ok(StoreVolume::open(store).await?)
}

/// The store of this name: the one that somebody in this process uses, else a new one.
fn named_memory(name: &str) -> Arc<MemoryStore> {
    static NAMED: Mutex<Option<HashMap<String, Weak<MemoryStore>>>> = Mutex::new(None);
    let mut named = NAMED.lock();
    let named = named.get_or_insert_default();
    named.retain(|_, store| store.strong_count() > 0);
    if let Some(store) = named.get(name).and_then(Weak::upgrade) {
        return store;
    }
    let store = MemoryStore::new();
    named.insert(name.to_owned(), Arc::downgrade(&store));
    store
}
