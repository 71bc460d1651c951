//! The kernel's mount table, and the ways to get rid of what is in it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, Debug)]
pub struct MountEntry {
    /// The minor device number: for a FUSE mount, the number of its connection.
    pub minor: u32,
    /// Where it is.
    pub at: PathBuf,
    /// Its own options, such as `ro`.
    pub options: String,
    /// Its type, such as `fuse.workfs`.
    pub filesystem: String,
}

impl MountEntry {
    /// Whether a process serves it.
    pub fn is_fuse(&self) -> bool {
        self.filesystem == "fuse" || self.filesystem.starts_with("fuse.")
    }
}

/// The mounts at `dir` and below, in the order in which they were made.
pub fn below(dir: &Path) -> Vec<MountEntry> {
    let table = std::fs::read("/proc/self/mountinfo").expect("the kernel's mount table is readable");
    let lines = table.split(|&byte| byte == b'\n').filter_map(parse);
    lines.filter(|entry| entry.at.starts_with(dir)).collect()
}

/// Fields: id, parent, major:minor, root, mountpoint, options, optional fields, "-", type, source, super options.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = String::from_utf8_lossy(fields.nth(2)?).into_owned();
    let at = unescape(fields.nth(1)?);
    let options = String::from_utf8_lossy(fields.next()?).into_owned();
    fields.find(|&field| field == b"-")?;
    let filesystem = String::from_utf8_lossy(fields.next()?).into_owned();
    let minor = device.split_once(':')?.1.parse().ok()?;
    Some(MountEntry { minor, at, options, filesystem })
}

/// Blanks and the like stand as three octal digits after a backslash.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Ends every FUSE connection at `dir` and below: whoever waits for an answer gets an error.
pub fn abort_connections(dir: &Path) {
    for entry in below(dir).iter().filter(|entry| entry.is_fuse()) {
        // Where the control filesystem is not mounted, the end of the server's process does the same.
        let _ = std::fs::write(format!("/sys/fs/fuse/connections/{}/abort", entry.minor), "1");
    }
}

/// Takes every mount at `dir` and below out of the tree, deepest first, whoever still uses it.
pub fn detach(dir: &Path) {
    for _ in 0..16 {
        let mut mounts = below(dir);
        if mounts.is_empty() {
            return;
        }
        mounts.sort_by_key(|entry| std::cmp::Reverse(entry.at.as_os_str().as_bytes().len()));
        for entry in mounts {
            if rustix::mount::unmount(&entry.at, rustix::mount::UnmountFlags::DETACH).is_err() && entry.is_fuse() {
                let _ = std::process::Command::new("fusermount3").arg("-uz").arg(&entry.at).status();
            }
        }
    }
}

#[test]
fn escapes_of_the_mount_table_are_undone() {
    let line = br"40 1 0:53 / /tmp/a\040b\134c rw,nosuid shared:3 - fuse.workfs desk rw,user_id=0";
    let entry = parse(line).expect("a well-formed line");
    assert_eq!(entry.at, Path::new(r"/tmp/a b\c"));
    assert_eq!((entry.minor, entry.options.as_str(), entry.is_fuse()), (53, "rw,nosuid", true));
}
