//! `AT=VOLUME[?options][:ro]`, as it is written on the command line.

use super::place::Place;
use super::plan::PlannedMount;
use super::volume_url::{KINDS, VolumeUrl};
use crate::mounts::disk::Io;
use crate::types::{Result, TreePath};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Reads one `-m` argument; a relative path is meant from `base`.
///
/// The first `=` ends AT, so a mount at a path with `=` needs a config file. `:rw` at the end says that `:ro` before it
/// belongs to the name.
///
/// # Errors
/// `EINVAL`, naming the argument and saying what would be right.
pub fn parse(argument: &OsStr, base: &Path) -> Result<PlannedMount> {
    let place = Place::Argument(format!("-m {}", argument.to_string_lossy()));
    let bytes = argument.as_bytes();
    let Some(equals) = bytes.iter().position(|byte| *byte == b'=') else {
        return Err(place.refuse("a mount is written AT=VOLUME, for example `/=./project` or `docs=./docs:ro`"));
    };
    let (at, volume) = (&bytes[..equals], &bytes[equals + 1..]);
    if at.is_empty() {
        return Err(place.refuse("the path before `=` is missing; the root of the tree is written `/`"));
    }
    let (volume, read_only) = split_access(volume, &place)?;
    Ok(PlannedMount {
        io: Io::Cached,
        at: tree_path(at, &place)?,
        volume: VolumeUrl::parse(OsStr::from_bytes(volume), base, &place)?,
        label: String::from_utf8_lossy(volume).into_owned(),
        read_only,
        place,
    })
}

/// A place in the tree, or a refusal that says what is wrong with it.
pub(super) fn tree_path(text: &[u8], place: &Place) -> Result<TreePath> {
    TreePath::parse(text).map_err(|error| {
        let text = String::from_utf8_lossy(text);
        if text.split('/').any(|part| part == "..") {
            return place.refuse(format!(
                "`..` in `{text}` could lead out of the tree; write the path from the tree's root, for example `/a/b`"
            ));
        }
        place.refuse(format!("`{text}` is no path in the tree: {error}"))
    })
}

fn split_access<'a>(volume: &'a [u8], place: &Place) -> Result<(&'a [u8], bool)> {
    let (rest, read_only) = match (volume.strip_suffix(b":ro"), volume.strip_suffix(b":rw")) {
        (Some(rest), _) => (rest, true),
        (None, Some(rest)) => (rest, false),
        (None, None) => return Ok((volume, false)),
    };
    if KINDS.iter().any(|kind| kind.as_bytes() == rest) {
        let (kind, volume) = (String::from_utf8_lossy(rest), String::from_utf8_lossy(volume));
        return Err(place.refuse(format!(
            "`{volume}` could be read in two ways; write `{kind}:{}` for that access, or `{volume}:rw` for the name",
            &volume[kind.len()..]
        )));
    }
    Ok((rest, read_only))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(argument: &str) -> Result<PlannedMount> {
        parse(OsStr::new(argument), Path::new("/base"))
    }

    fn refusal(argument: &str) -> String {
        mount(argument).expect_err("refused").to_string()
    }

    #[test]
    fn a_mount_is_a_path_and_a_volume() {
        let docs = mount("docs=./docs:ro").expect("a mount");
        assert_eq!((docs.at.to_string().as_str(), docs.read_only), ("/docs", true));
        assert_eq!((docs.label.as_str(), docs.volume.kind()), ("./docs", "disk"));
        let desk = mount("a/b=sqlite:./desk.db?namespace=agents/a").expect("a mount");
        assert_eq!((desk.at.to_string().as_str(), desk.read_only), ("/a/b", false));
        assert_eq!(desk.label, "sqlite:./desk.db?namespace=agents/a");
        assert_eq!(desk.volume, VolumeUrl::Sqlite("/base/./desk.db".into(), "agents/a".to_owned()));
    }

    #[test]
    fn access_is_said_at_the_end() {
        assert!(mount("s=memory::ro").expect("a mount").read_only);
        assert_eq!(mount("s=memory:ro:rw").expect("a mount").volume, VolumeUrl::Memory(Some("ro".to_owned())));
        assert_eq!(mount("s=./x:ro:rw").expect("a mount").volume, VolumeUrl::Disk("/base/./x:ro".into()));
        let text = refusal("s=memory:ro");
        assert!(text.contains("`memory::ro`") && text.contains("`memory:ro:rw`"), "{text}");
    }

    #[test]
    fn faults_name_the_argument() {
        for (argument, said) in [
            ("docs", "AT=VOLUME"),
            ("=./docs", "before `=` is missing"),
            ("a/../b=./docs", "`..` in `a/../b`"),
            ("docs=", "path is missing"),
        ] {
            let text = refusal(argument);
            assert!(text.contains(&format!("-m {argument}: ")) && text.contains(said), "{text}");
        }
    }
}
