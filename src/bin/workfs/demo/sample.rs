//! The folders of the demo.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tempfile::TempDir;

/// A word that lies in each of the three volumes, to be searched for.
pub const WORD: &str = "lighthouse";

const README: &str = "# Harbour\n\nA sample project. The lighthouse keeper needs a timetable.\n";
const MAIN: &str = "fn main() {\n    println!(\"the lighthouse is on\");\n}\n";
const IGNORE: &str = "/docs/\n/memories/\n";
const GUIDE: &str = "# Guide\n\nHow a lighthouse works: a lamp, a lens, and somebody who stays awake.\n";
const TABLES: &str = "# Tide tables\n\nHigh water comes fifty minutes later each day.\n";

/// A temporary folder with a project, docs, and a place for a store and for a mount.
pub struct Sample {
    folder: Mutex<Option<TempDir>>,
    root: PathBuf,
}

impl Sample {
    /// Makes it.
    ///
    /// # Errors
    /// What `mkdir(2)` and `write(2)` say.
    pub fn make() -> io::Result<Sample> {
        let folder = tempfile::Builder::new().prefix("workfs-demo-").tempdir()?;
        let root = folder.path().canonicalize()?;
        let sample = Sample { folder: Mutex::new(Some(folder)), root };
        for dir in [sample.project().join("src"), sample.docs(), sample.state(), sample.mountpoint()] {
            std::fs::create_dir_all(dir)?;
        }
        for (path, text) in [
            (sample.project().join("README.md"), README),
            (sample.project().join("src/main.rs"), MAIN),
            (sample.project().join(".gitignore"), IGNORE),
            (sample.docs().join("guide.md"), GUIDE),
            (sample.docs().join("tides.md"), TABLES),
        ] {
            std::fs::write(path, text)?;
        }
        Ok(sample)
    }

    /// The folder that holds all of it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The project: mounted at `/`.
    pub fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// The docs: mounted read-only at `docs`.
    pub fn docs(&self) -> PathBuf {
        self.root.join("docs")
    }

    /// The SQLite file: mounted at `memories`.
    pub fn store(&self) -> PathBuf {
        self.root.join("desk.db")
    }

    /// Where the tree is mounted.
    pub fn mountpoint(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Where the demo's mount is noted, so that nothing stays in the user's own state directory.
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Leaves everything where it is.
    pub fn keep(&self) {
        if let Some(folder) = self.take() {
            let _ = folder.keep();
        }
    }

    /// Takes everything away.
    ///
    /// # Errors
    /// What `unlink(2)` and `rmdir(2)` say.
    pub fn remove(&self) -> io::Result<()> {
        self.take().map_or(Ok(()), TempDir::close)
    }

    fn take(&self) -> Option<TempDir> {
        self.folder.lock().ok()?.take()
    }
}
