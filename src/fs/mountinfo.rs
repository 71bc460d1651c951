//! The kernel's mount table, as this process sees it.

use crate::types::{Error, Result};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A device number, as `st_dev` shows it: each FUSE session has its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(super) struct Device {
    pub major: u32,
    pub minor: u32,
}

/// The type that a session's mount has in the table.
pub(super) const FS_TYPE: &str = "fuse.workfs";

/// A mount, as one line of `/proc/self/mountinfo` has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounted {
    pub(super) id: u64,
    pub(super) device: Device,
    pub(super) mount_point: PathBuf,
    pub(super) fs_type: String,
}

impl Mounted {
    /// Whether it is a FUSE mount, of whatever program.
    pub fn is_fuse(&self) -> bool {
        self.fs_type == "fuse" || self.fs_type.starts_with("fuse.")
    }

    /// Whether it is one of ours.
    pub fn is_workfs(&self) -> bool {
        self.fs_type == FS_TYPE
    }
}

/// The mount on top at exactly `path`, which is canonical.
///
/// # Errors
/// What reading `/proc/self/mountinfo` says.
pub fn mounted_at(path: &Path) -> Result<Option<Mounted>> {
    Ok(MountTable::read()?.at(path).cloned())
}

/// The table, in the order in which the mounts were made: of several at one path the last is on top.
pub(super) struct MountTable(Vec<Mounted>);

impl MountTable {
    /// Reads the table. This touches no mount, so it cannot hang on a dead one.
    pub(super) fn read() -> Result<MountTable> {
        let text = std::fs::read("/proc/self/mountinfo").map_err(|e| {
            Error::from_io("mountinfo", e).context("the table of mounts cannot be read; is /proc mounted?")
        })?;
        Ok(MountTable(text.split(|b| *b == b'\n').filter_map(parse).collect()))
    }

    /// The mount that is on top at `path`.
    pub(super) fn at(&self, path: &Path) -> Option<&Mounted> {
        self.0.iter().rfind(|line| line.mount_point == path)
    }

    /// Where something is mounted below `path`: of several the last.
    pub(super) fn inside(&self, path: &Path) -> Option<PathBuf> {
        let inside = |line: &&Mounted| line.mount_point != path && line.mount_point.starts_with(path);
        self.0.iter().rev().find(inside).map(|line| line.mount_point.clone())
    }

    /// The mount of `device` at `path`, whatever is on top.
    pub(super) fn find(&self, path: &Path, device: Device) -> Option<&Mounted> {
        self.0.iter().find(|line| line.mount_point == path && line.device == device)
    }
}

fn parse(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|b| *b == b' ');
    let id = text(fields.next()?)?.parse().ok()?;
    let device = text(fields.nth(1)?)?;
    let (major, minor) = device.split_once(':')?;
    let mount_point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let fs_type = text(fields.skip_while(|field| *field != b"-").nth(1)?)?.to_owned();
    Some(Mounted {
        id,
        device: Device { major: major.parse().ok()?, minor: minor.parse().ok()? },
        mount_point,
        fs_type,
    })
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Undoes the kernel's `\ooo` for blanks and the like.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let escaped = match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        plain.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &rest[4..] } else { tail };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_optional_fields_and_escapes() {
        let line = parse(b"36 35 98:0 / /mnt/a\\040b\\134c rw,noatime shared:1 master:2 - fuse.workfs disk:x rw");
        let line = line.expect("a line");
        assert_eq!((line.id, line.device), (36, Device { major: 98, minor: 0 }));
        assert_eq!(line.mount_point, Path::new("/mnt/a b\\c"));
        assert!(line.is_workfs() && line.is_fuse());
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn the_root_of_this_machine_is_in_its_table() {
        assert!(mounted_at(Path::new("/")).expect("a table").is_some());
        assert_eq!(mounted_at(Path::new("/no/such/mount")).expect("a table"), None);
    }
}
