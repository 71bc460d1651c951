//! The contract of volumes on the disk volume.

use crate::conformance;
use crate::disk::{Disk, is_root};
use crate::disk_nodes::on_an_overlay;

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_volume_conforms() {
    if is_root() {
        conformance::run(Disk::new().volume.clone()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_volume_in_memory_conforms() {
    if is_root() {
        conformance::run(Disk::in_memory().volume.clone()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_volume_without_handles_conforms() {
    let parts = tempfile::tempdir().expect("a folder");
    if let Some((disk, _overlay)) = is_root().then(|| on_an_overlay(parts.path())).flatten() {
        conformance::run(disk.volume.clone()).await;
    }
}
