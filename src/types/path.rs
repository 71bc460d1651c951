//! A path inside the tree.

use super::{Errno, Error, Name, Result};
use std::fmt;

/// A path from the root of a workspace's tree: zero or more [`Name`]s. Zero is the root itself.
///
/// There is no `.` and no `..` in it, so two equal places have equal paths.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TreePath(Vec<Name>);

impl TreePath {
    /// The root of the tree.
    pub fn root() -> TreePath {
        TreePath::default()
    }

    /// Reads `text`: `/` between names, a leading `/` and doubled or final slashes mean nothing, `.` is dropped.
    ///
    /// # Errors
    /// `EINVAL` for `..` (it could lead out of the tree) and for what cannot be a [`Name`]; `ENAMETOOLONG`.
    pub fn parse(text: &[u8]) -> Result<TreePath> {
        let mut names = Vec::new();
        for part in text.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    return Err(Error::new("path", Errno::EINVAL)
                        .context(format!("`..` in {:?}", String::from_utf8_lossy(text))));
                }
                _ => names.push(Name::new(part)?),
            }
        }
        Ok(TreePath(names))
    }

    /// The names from the root down.
    pub fn names(&self) -> &[Name] {
        &self.0
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// This path and one more name.
    pub fn join(&self, name: &Name) -> TreePath {
        let mut names = self.0.clone();
        names.push(name.clone());
        TreePath(names)
    }

    /// The names of this path below `base`, or `None` where it does not lie at or below it.
    pub fn below(&self, base: &TreePath) -> Option<&[Name]> {
        self.0.strip_prefix(base.0.as_slice())
    }
}

impl FromIterator<Name> for TreePath {
    fn from_iter<I: IntoIterator<Item = Name>>(names: I) -> TreePath {
        TreePath(names.into_iter().collect())
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised() {
        for text in ["a/b", "/a/b", "a//b/", "./a/./b"] {
            assert_eq!(TreePath::parse(text.as_bytes()).expect("a path").to_string(), "/a/b");
        }
        assert!(TreePath::parse(b"/").expect("the root").is_root());
        assert_eq!(TreePath::parse(b"a/../b").expect_err("leads up").errno(), Errno::EINVAL);
    }

    #[test]
    fn below_tells_the_rest() {
        let path = TreePath::parse(b"a/b/c").expect("a path");
        let base = TreePath::parse(b"a").expect("a path");
        assert_eq!(path.below(&base).map(<[Name]>::len), Some(2));
        assert_eq!(base.below(&path), None);
        assert_eq!(TreePath::parse(b"ab").expect("a path").below(&base), None);
    }
}
