//! `VOLUME`, as it is written in a config file and on the command line.

use super::place::Place;
use super::suggest::known_are;
use crate::types::Result;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kinds of volume that there are.
pub const KINDS: [&str; 3] = ["disk", "memory", "sqlite"];

/// The namespace of a store file where none is named.
const DEFAULT_NAMESPACE: &str = "default";

/// Which volume is meant.
///
/// Written as a path, `disk:PATH`, `sqlite:PATH?namespace=NAME`, `memory:` or `memory:NAME`. A word before a colon is
/// a kind only if no `/` or `.` comes before that colon, so `./a:b` is a folder.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum VolumeUrl {
    /// A folder of this machine.
    Disk(PathBuf),
    /// A namespace of an SQLite file.
    Sqlite(PathBuf, String),
    /// A store in memory; two of one name are one store.
    Memory(Option<String>),
}

impl VolumeUrl {
    /// Reads `text`, written at `place`; a relative path is meant from `base`.
    ///
    /// # Errors
    /// `EINVAL`, saying what would be right, for an unknown kind or option, and for a path or name that is missing.
    pub fn parse(text: &OsStr, base: &Path, place: &Place) -> Result<VolumeUrl> {
        let bytes = text.as_bytes();
        let Some((kind, rest)) = split_kind(bytes) else {
            return disk(bytes, base, place);
        };
        match kind {
            b"disk" => disk(rest, base, place),
            b"sqlite" => sqlite(rest, base, place),
            b"memory" => memory(rest, place),
            _ => {
                let kind = String::from_utf8_lossy(kind);
                Err(place.refuse(format!(
                    "`{kind}` is no kind of volume{}. A folder of this name is written `./{}`",
                    known_are(&kind, &KINDS),
                    text.to_string_lossy()
                )))
            }
        }
    }

    /// The kind's name.
    pub fn kind(&self) -> &'static str {
        match self {
            VolumeUrl::Disk(_) => "disk",
            VolumeUrl::Sqlite(..) => "sqlite",
            VolumeUrl::Memory(_) => "memory",
        }
    }
}

/// Splits at the first colon, if what stands before it looks like a kind and not like a path.
fn split_kind(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = text.iter().position(|byte| *byte == b':')?;
    let (kind, rest) = (&text[..colon], &text[colon + 1..]);
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+');
    (!kind.is_empty() && kind.iter().all(word)).then_some((kind, rest))
}

fn disk(path: &[u8], base: &Path, place: &Place) -> Result<VolumeUrl> {
    Ok(VolumeUrl::Disk(path_from(path, base, place)?))
}

fn sqlite(rest: &[u8], base: &Path, place: &Place) -> Result<VolumeUrl> {
    let (path, options) = match rest.iter().rposition(|byte| *byte == b'?') {
        Some(mark) => (&rest[..mark], &rest[mark + 1..]),
        None => (rest, &[][..]),
    };
    let mut namespace = None;
    for (key, value) in options_from(options, place)? {
        match key.as_str() {
            "namespace" if namespace.is_some() => return Err(place.refuse("the option `namespace` stands twice")),
            "namespace" if value.is_empty() => {
                return Err(place.refuse("the option `namespace` is empty; write `namespace=NAME`, or leave it out"));
            }
            "namespace" => namespace = Some(value),
            _ => {
                let known = known_are(&key, &["namespace"]);
                return Err(place.refuse(format!("an SQLite volume has no option `{key}`{known}")));
            }
        }
    }
    let namespace = namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    Ok(VolumeUrl::Sqlite(path_from(path, base, place)?, namespace))
}

fn memory(rest: &[u8], place: &Place) -> Result<VolumeUrl> {
    let name = std::str::from_utf8(rest).map_err(|_| place.refuse("the name of a memory volume must be UTF-8"))?;
    if let Some((_, options)) = name.split_once('?') {
        return Err(place.refuse(format!("a memory volume has no options, but `{options}` follows its `?`")));
    }
    Ok(VolumeUrl::Memory((!name.is_empty()).then(|| name.to_owned())))
}

fn path_from(path: &[u8], base: &Path, place: &Place) -> Result<PathBuf> {
    if path.is_empty() {
        return Err(place.refuse("the volume's path is missing; write for example `./project` or `sqlite:./desk.db`"));
    }
    if path.contains(&0) {
        return Err(place.refuse("a path cannot have a NUL in it"));
    }
    Ok(base.join(OsStr::from_bytes(path)))
}

/// `key=value&key=value`.
fn options_from(text: &[u8], place: &Place) -> Result<Vec<(String, String)>> {
    let text = std::str::from_utf8(text).map_err(|_| place.refuse("a volume's options must be UTF-8"))?;
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| match part.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(place.refuse(format!("the option `{part}` has no value; options are `?key=value&key=value`"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<VolumeUrl> {
        VolumeUrl::parse(OsStr::new(text), Path::new("/base"), &Place::Argument("-m x".to_owned()))
    }

    fn refusal(text: &str) -> String {
        parse(text).expect_err("refused").to_string()
    }

    #[test]
    fn what_looks_like_a_path_is_a_folder() {
        for (text, path) in [
            ("project", "/base/project"),
            ("./a:b", "/base/./a:b"),
            ("../up", "/base/../up"),
            ("/abs", "/abs"),
            ("disk:x:y", "/base/x:y"),
            ("my.dir:x", "/base/my.dir:x"),
            ("./what?", "/base/./what?"),
        ] {
            assert_eq!(parse(text).expect("a volume"), VolumeUrl::Disk(PathBuf::from(path)), "{text}");
        }
    }

    #[test]
    fn stores_have_their_options() {
        let sqlite = |path: &str, name: &str| VolumeUrl::Sqlite(PathBuf::from(path), name.to_owned());
        assert_eq!(parse("sqlite:a.db").expect("a volume"), sqlite("/base/a.db", DEFAULT_NAMESPACE));
        assert_eq!(parse("sqlite:/a.db?namespace=agents/a").expect("a volume"), sqlite("/a.db", "agents/a"));
        assert_eq!(parse("memory:").expect("a volume"), VolumeUrl::Memory(None));
        assert_eq!(parse("memory:desk").expect("a volume"), VolumeUrl::Memory(Some("desk".to_owned())));
    }

    #[test]
    fn faults_say_what_would_be_right() {
        assert!(refusal("sqllite:a.db").contains("did you mean `sqlite`?"));
        assert!(refusal("redis:host").contains("known are: `disk`, `memory`, `sqlite`"));
        assert!(refusal("redis:host").contains("`./redis:host`"));
        assert!(refusal("sqlite:a.db?namspace=x").contains("did you mean `namespace`?"));
        assert!(refusal("sqlite:a.db?namespace").contains("has no value"));
        assert!(refusal("sqlite:a.db?namespace=").contains("is empty"));
        assert!(refusal("memory:x?a=b").contains("no options"));
        for text in ["", "disk:", "sqlite:", "sqlite:?namespace=x"] {
            assert!(refusal(text).contains("path is missing"), "{text}");
        }
    }
}
