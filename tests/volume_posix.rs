//! The contract of volumes on the store volume.

use crate::conformance;
use std::sync::Arc;
use workfs::mounts::Volume;
use workfs::mounts::store::StoreVolume;
use workfs::mounts::store::memory::MemoryStore;
use workfs::mounts::store::sqlite::SqliteStore;

async fn open(store: &Arc<MemoryStore>) -> Arc<StoreVolume> {
    StoreVolume::open(store.clone()).await.expect("opens")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_volume_alone_conforms() {
    let volume = open(&MemoryStore::new()).await;
    conformance::run(volume.clone()).await;
    volume.close().await.expect("closes");
}

/// With a second session nothing is removed at once, and every change is somebody else's too.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_volume_beside_another_conforms() {
    let store = MemoryStore::new();
    let other = open(&store).await;
    let volume = open(&store).await;
    conformance::run(volume.clone()).await;
    volume.close().await.expect("closes");
    other.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_volume_over_sqlite_conforms() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(&folder.path().join("desk.db"), "main").await.expect("opens");
    let volume = StoreVolume::open(store).await.expect("opens");
    conformance::run(volume.clone()).await;
    volume.close().await.expect("closes");
}

/// As two processes have it: each with a database of its own, which hears of the other through the file.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_volume_over_sqlite_beside_another_conforms() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let other = StoreVolume::open(SqliteStore::open(&path, "main").await.expect("opens")).await.expect("opens");
    let volume = StoreVolume::open(SqliteStore::open(&path, "main").await.expect("opens")).await.expect("opens");
    conformance::run(volume.clone()).await;
    volume.close().await.expect("closes");
    other.close().await.expect("closes");
}
