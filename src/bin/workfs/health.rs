//! How the volumes are, asked of themselves, with a deadline for each.

use crate::report::{MountReport, SizeReport};
use std::time::Duration;
use workfs::mounts::Health;
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
    let failed = |error: String| (None, error, Vec::new());
    let (size, health, caches) = match answer {
        Ok(Ok(Ok((Health { caches, warnings }, size)))) => (Some(size_report(&size)), words(&warnings), caches),
        Ok(Ok(Err(error))) => failed(error.to_string()),
        Ok(Err(error)) => failed(error.to_string()),
        Err(_) => failed(format!("no answer within {} s", ANSWER.as_secs())),
    };
    MountReport {
        at: mount.at.to_string(),
        kind: mount.kind.to_owned(),
        label: mount.label.clone(),
        read_only: mount.read_only,
        io: if mount.volume.capabilities().passthrough { "passthrough" } else { "cached" }.to_owned(),
        size,
        health,
        caches,
    }
}

fn words(warnings: &[String]) -> String {
    if warnings.is_empty() { "ok".to_owned() } else { warnings.join("; ") }
}

async fn ask(mount: Mount) -> Result<(Health, StatFs)> {
    let health = mount.volume.health().await?;
    let root = mount.volume.root().await?.attr.node;
    Ok((health, mount.volume.statfs(root).await?))
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
