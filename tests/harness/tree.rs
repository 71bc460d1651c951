//! Trees of many files, and all that can be told of one.

use super::random;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Makes `count` files of up to 4 KiB in directories of fifty, some executable, with a symlink in each directory.
pub fn make(root: &Path, count: usize, seed: u64) {
    for index in 0..count {
        let dir = root.join(format!("d{:03}", index / 50)).join(if index % 2 == 0 { "even" } else { "odd" });
        let file = dir.join(format!("file-{index:05}.txt"));
        if index % 50 < 2 {
            std::fs::create_dir_all(&dir).expect("a directory can be made");
            symlink(file.file_name().expect("it has a name"), dir.join("first")).expect("a symlink can be made");
        }
        std::fs::write(&file, random::bytes(seed + index as u64, index * 37 % 4096)).expect("a file can be written");
        if index % 10 == 0 {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("its mode can be set");
        }
    }
}

/// What is told of a file: all but its numbers, its access time, and a directory's size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// Type and mode.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Link count; 0 for a directory, as filesystems count these in two ways.
    pub links: u64,
    /// Modification time, in seconds and nanoseconds.
    pub mtime: (i64, i64),
    /// The bytes of a file, the target of a symlink.
    pub bytes: Vec<u8>,
    /// Extended attributes of users.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All files below `root`, by their path from there.
pub fn told(root: &Path) -> BTreeMap<PathBuf, Told> {
    let mut all = BTreeMap::new();
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(root.join(&dir)).expect("a directory can be listed") {
            let entry = entry.expect("an entry can be read");
            let path = dir.join(entry.file_name());
            if entry.file_type().expect("an entry has a type").is_dir() {
                left.push(path.clone());
            }
            all.insert(path, tell(&entry.path()));
        }
    }
    all
}

/// What is told of the file at `path`.
pub fn tell(path: &Path) -> Told {
    let meta = std::fs::symlink_metadata(path).unwrap_or_else(|error| panic!("stat {}: {error}", path.display()));
    let kind = meta.file_type();
    let bytes = if kind.is_symlink() {
        std::fs::read_link(path).expect("a symlink can be read").into_os_string().into_encoded_bytes()
    } else if kind.is_file() {
        std::fs::read(path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
    } else {
        Vec::new()
    };
    let plain = kind.is_file() || kind.is_dir();
    assert!(plain || kind.is_symlink() || kind.is_fifo() || kind.is_socket() || meta.rdev() != 0);
    Told {
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        links: if kind.is_dir() { 0 } else { meta.nlink() },
        mtime: (meta.mtime(), meta.mtime_nsec()),
        bytes,
        xattrs: if plain { user_xattrs(path) } else { BTreeMap::new() },
    }
}

fn user_xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut buffer = vec![0_u8; 64 << 10];
    let length = rustix::fs::llistxattr(path, &mut buffer[..]).expect("xattrs can be listed");
    let names = buffer[..length].split(|&byte| byte == 0).filter(|name| name.starts_with(b"user."));
    names.map(|name| (name.to_vec(), xattr(path, name).expect("a listed xattr can be read"))).collect()
}

/// The value of an extended attribute.
pub fn xattr(path: &Path, name: &[u8]) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0_u8; 64 << 10];
    let length = rustix::fs::lgetxattr(path, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

/// Fails with the first difference between two trees.
#[track_caller]
pub fn assert_same(left: &BTreeMap<PathBuf, Told>, right: &BTreeMap<PathBuf, Told>) {
    let names = |tree: &BTreeMap<PathBuf, Told>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(left), names(right), "other names");
    for (path, told) in left {
        assert!(told == &right[path], "{} differs:\n{told:?}\n{:?}", path.display(), right[path]);
    }
}
