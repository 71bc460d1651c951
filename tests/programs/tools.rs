//! Programs that no Debian package brings: `scripts/check` puts them below `target/tools`.

use crate::harness::program;
use std::path::{Path, PathBuf};

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tools");

#[track_caller]
fn tool(relative: &str) -> PathBuf {
    let path = Path::new(TOOLS).join(relative);
    assert!(path.exists(), "missing here: {} (scripts/check installs it)", path.display());
    path
}

/// A python that has `module`.
#[track_caller]
pub fn python_with(module: &str) -> PathBuf {
    let python = tool("python/bin/python");
    let found = std::process::Command::new(&python).args(["-c", &format!("import {module}")]).output();
    assert!(found.is_ok_and(|found| found.status.success()), "missing here: {module} (scripts/check installs it)");
    python
}

/// The package manager pnpm.
#[track_caller]
pub fn pnpm() -> PathBuf {
    tool("node/node_modules/.bin/pnpm")
}

/// Fails the test where PostgreSQL's server is missing.
#[track_caller]
pub fn need_postgres() {
    program::need(&["psql", "setpriv"]);
    let mut versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.any(|version| version.path().join("bin/initdb").exists());
    assert!(found, "missing here: install postgresql (scripts/check does so)");
}
