//! The kernel's mount table. Reading it asks no filesystem anything, so it never hangs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount, as `/proc/self/mountinfo` has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounted {
    /// Where.
    pub path: PathBuf,
    /// The filesystem's type, such as `fuse.workfs`.
    pub kind: String,
}

impl Mounted {
    /// Whether it is a FUSE mount, of whatever program.
    pub fn is_fuse(&self) -> bool {
        self.kind == "fuse" || self.kind.starts_with("fuse.")
    }

    /// Whether it is one of ours.
    pub fn is_workfs(&self) -> bool {
        self.kind == "fuse.workfs"
    }
}

/// The topmost mount at exactly `path`.
pub fn at(path: &Path) -> Option<Mounted> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    // What was mounted later is listed later and covers what was there before.
    parse(&table).into_iter().rfind(|mount| mount.path == path)
}

fn parse(table: &[u8]) -> Vec<Mounted> {
    table.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = unescape(fields.nth(4)?);
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mounted { path, kind: String::from_utf8_lossy(kind).into_owned() })
}

/// Space, tab, newline and backslash come as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                out.push(escaped);
                rest = &after[3..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(out).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_escapes() {
        let table = b"36 35 0:40 / /mnt/a\\040b\\134c rw,nosuid shared:1 master:2 - fuse.workfs workfs rw,user_id=0\n\
                      37 35 8:1 / / rw - ext4 /dev/sda rw\n";
        let mounts = parse(table);
        assert_eq!(mounts[0].path, PathBuf::from("/mnt/a b\\c"));
        assert!(mounts[0].is_workfs() && mounts[0].is_fuse());
        assert_eq!((mounts[1].path.as_path(), mounts[1].is_fuse()), (Path::new("/"), false));
        assert_eq!(mounts.len(), 2);
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(at(Path::new("/")).is_some());
        assert!(at(Path::new("/no/such/mount")).is_none());
    }
}
