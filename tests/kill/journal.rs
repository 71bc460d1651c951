//! What a writer wrote down outside the mount: each step before it began and after it was done.

use super::load::XATTR;
use crate::harness::{random, tree};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a file holds and bears; its bytes are had again from the seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Content {
    /// Of its bytes, and the value of its extended attribute.
    pub seed: u64,
    /// Its size.
    pub length: usize,
    /// Its mode.
    pub mode: u32,
    /// Its modification time.
    pub mtime: (i64, u32),
}

/// One step of a writer. Paths are relative to the place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Step {
    /// A directory was made.
    Directory { path: String },
    /// A new file was written and closed.
    File { path: String, content: Content },
    /// A new file was written, closed, and renamed over an older one.
    Replace { path: String, content: Content },
    /// A file was opened with truncation, written and closed.
    Rewrite { path: String, content: Content },
    /// A file got a further name.
    Link { of: String, path: String },
    /// A file got another name.
    Rename { path: String, to: String },
    /// A name was removed.
    Remove { path: String },
    /// A symlink was made.
    Symlink { path: String, target: String },
}

impl Step {
    /// The path that the step is about.
    pub fn path(&self) -> &str {
        match self {
            Step::Directory { path } | Step::File { path, .. } | Step::Replace { path, .. } => path,
            Step::Rewrite { path, .. } | Step::Link { path, .. } | Step::Rename { path, .. } => path,
            Step::Remove { path } | Step::Symlink { path, .. } => path,
        }
    }
}

#[derive(Serialize, Deserialize)]
enum Line {
    Begin(Step),
    Done,
}

/// The journal that a writer keeps.
pub struct Journal(File);

impl Journal {
    /// Goes on with the journal of writer `number` in the folder `home`.
    pub fn open(home: &Path, number: u64) -> Journal {
        let file = File::options().append(true).create(true).open(path(home, number));
        Journal(file.expect("the journal can be written"))
    }

    /// A step begins now.
    pub fn begin(&mut self, step: &Step) {
        self.write(&Line::Begin(step.clone()));
    }

    /// The step that was begun is done.
    pub fn done(&mut self) {
        self.write(&Line::Done);
    }

    fn write(&mut self, line: &Line) {
        let mut text = serde_json::to_string(line).expect("a line is JSON");
        text.push('\n');
        self.0.write_all(text.as_bytes()).expect("the journal can be written");
    }
}

fn path(home: &Path, number: u64) -> PathBuf {
    home.join(format!("journal-{number}"))
}

/// What must be there, by the journals.
#[derive(Default)]
pub struct Expected {
    files: BTreeMap<String, usize>,
    contents: Vec<Content>,
    symlinks: BTreeMap<String, String>,
}

impl Expected {
    /// Reads the journal of a writer from its start. Gives the step that was begun and not done, if there is one.
    pub fn replay(&mut self, home: &Path, number: u64) -> Option<Step> {
        let text = std::fs::read_to_string(path(home, number)).unwrap_or_default();
        let mut begun = None;
        for line in text.lines() {
            match serde_json::from_str(line).expect("a line of the journal") {
                Line::Begin(step) => begun = Some(step),
                Line::Done => self.apply(begun.take().expect("what is done was begun")),
            }
        }
        begun
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Directory { .. } => {}
            Step::File { path, content } | Step::Replace { path, content } => {
                self.contents.push(content);
                self.files.insert(path, self.contents.len() - 1);
            }
            Step::Rewrite { path, content } => {
                let file = self.files[&path];
                self.contents[file] = content;
            }
            Step::Link { of, path } => drop(self.files.insert(path, self.files[&of])),
            Step::Rename { path, to } => {
                let file = self.files.remove(&path).expect("what is renamed is there");
                self.files.insert(to, file);
            }
            Step::Remove { path } => drop(self.files.remove(&path)),
            Step::Symlink { path, target } => drop(self.symlinks.insert(path, target)),
        }
    }

    /// Shows that all that was done is there below `place`, byte for byte and with all that belongs to it, and that of
    /// each pending step either nothing or all has happened.
    pub fn check(&self, place: &Path, pending: &[Step]) -> usize {
        let mut unsure = Vec::new();
        for step in pending {
            self.check_pending(place, step, &mut unsure);
        }
        for (path, &file) in self.files.iter().filter(|(path, file)| {
            !unsure.contains(&path.as_str()) && !unsure.contains(&self.any_name(**file, &unsure))
        }) {
            let links = self.files.values().filter(|&&other| other == file).count() as u64;
            let linked_now = pending.iter().any(|step| self.changes_links(step, file));
            self.check_file(place, path, self.contents[file], (!linked_now).then_some(links));
        }
        for (path, target) in &self.symlinks {
            assert_eq!(std::fs::read_link(place.join(path)).expect("a symlink is there"), Path::new(target));
        }
        self.files.len()
    }

    /// A name of `file` that is not sure, or an empty text.
    fn any_name<'a>(&self, file: usize, unsure: &[&'a str]) -> &'a str {
        unsure.iter().find(|path| self.files.get(**path) == Some(&file)).copied().unwrap_or_default()
    }

    fn changes_links(&self, step: &Step, file: usize) -> bool {
        let name = match step {
            Step::Link { of, .. } => of,
            Step::Remove { path } | Step::Replace { path, .. } => path,
            _ => return false,
        };
        self.files.get(name) == Some(&file)
    }

    fn check_pending<'a>(&self, place: &Path, step: &'a Step, unsure: &mut Vec<&'a str>) {
        let there = |path: &str| std::fs::symlink_metadata(place.join(path)).is_ok();
        match step {
            Step::Replace { path, content } => {
                let old = self.contents[self.files[path]];
                let now = xattr_of(&place.join(path));
                let whole = if now == Some(old.seed) { old } else { *content };
                self.check_file(place, path, whole, None);
                unsure.push(path);
            }
            Step::Rename { path, to } => {
                assert!(there(path) != there(to), "{path} was moved to {to} by halves");
                let now = if there(path) { path } else { to };
                self.check_file(place, now, self.contents[self.files[path]], None);
                unsure.push(path);
            }
            Step::Link { of, path } if there(path) => {
                self.check_file(place, path, self.contents[self.files[of]], None);
            }
            // Until the first close, the file is as it was at some commit; its bytes may be those of both or of neither.
            Step::Rewrite { path, .. } => {
                assert!(there(path), "{path} was rewritten in place and is gone");
                unsure.push(path);
            }
            Step::Remove { path } => unsure.push(path),
            Step::Symlink { path, target } if there(path) => {
                assert_eq!(std::fs::read_link(place.join(path)).expect("readlink"), Path::new(target));
            }
            _ => {}
        }
    }

    fn check_file(&self, place: &Path, path: &str, content: Content, links: Option<u64>) {
        let told = tree::tell(&place.join(path));
        let right = random::bytes(content.seed, content.length);
        assert!(
            told.bytes == right,
            "{path}: {} bytes of {}, the first wrong one at {:?}",
            told.bytes.len(),
            right.len(),
            told.bytes.iter().zip(&right).position(|(is, should)| is != should)
        );
        assert_eq!(told.mode & 0o7777, content.mode, "{path}: mode");
        assert_eq!(told.mtime, (content.mtime.0, i64::from(content.mtime.1)), "{path}: modification time");
        assert_eq!(
            told.xattrs.get(XATTR.as_bytes()).map(Vec::as_slice),
            Some(&content.seed.to_le_bytes()[..]),
            "{path}: xattr"
        );
        if let Some(links) = links {
            assert_eq!(told.links, links, "{path}: links");
        }
    }
}

fn xattr_of(path: &Path) -> Option<u64> {
    let value = tree::xattr(path, XATTR.as_bytes()).ok()?;
    Some(u64::from_le_bytes(value.try_into().ok()?))
}
