//! How the volumes are, asked of themselves, with a deadline for each.

use crate::report::{MountReport, SizeReport};
use std::time::Duration;
use workfs::types::{Result, StatFs};
use workfs::workspace::{Mount, Workspace};

/// How long a volume may take to say how it is.
const ANSWER: Duration = Duration::from_secs(1);

/// All volumes, outermost first; they are asked at once.
pub async fn of(workspace: &Workspace) -> Vec<MountReport> {
    futures::future::join_all(workspace.mounts().iter().map(report)).await
}

async fn report(mount: &Mount) -> MountReport {
    // A task of its own, since a volume that hangs in a system call would hold up whoever waits here.
    let answer = tokio::time::timeout(ANSWER, tokio::spawn(ask(mount.clone()))).await;
    let (size, health) = match answer {
        Ok(Ok(Ok(size))) => (Some(size_report(&size)), "ok".to_owned()),
        Ok(Ok(Err(error))) => (None, error.to_string()),
        Ok(Err(error)) => (None, error.to_string()),
        Err(_) => (None, format!("no answer within {} s", ANSWER.as_secs())),
    };
    MountReport {
        at: mount.at.to_string(),
        kind: mount.kind.to_owned(),
        label: mount.label.clone(),
        read_only: mount.read_only,
        size,
        health,
    }
}

/// The root's attributes say whether its records can be read, the rest how full it is.
async fn ask(mount: Mount) -> Result<StatFs> {
    let root = mount.volume.root().await?.attr.node;
    mount.volume.getattr(root).await?;
    mount.volume.statfs(root).await
}

fn size_report(size: &StatFs) -> SizeReport {
    let bytes = |blocks: u64| blocks.saturating_mul(u64::from(size.block_size));
    SizeReport {
        total: bytes(size.blocks),
        used: bytes(size.blocks.saturating_sub(size.free)),
        available: bytes(size.available),
        files: size.files,
        files_free: size.files_free,
    }
}
