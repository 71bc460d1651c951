//! Where a setting was written, so that a refusal can point at it.

use crate::types::{Errno, Error};
use std::fmt;
use std::path::{Path, PathBuf};

/// The operation that every refusal of a configuration names.
pub const CONFIGURATION: &str = "configuration";

/// Where somebody wrote a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A line of a config file, counted from 1.
    Line(PathBuf, usize),
    /// A config file as a whole.
    File(PathBuf),
    /// An argument of the command line, as it was given.
    Argument(String),
}

impl Place {
    /// The line of `file` in which the byte `offset` of its `text` lies.
    pub(super) fn at(file: &Path, text: &str, offset: usize) -> Place {
        let before = text.as_bytes().iter().take(offset);
        Place::Line(file.to_owned(), 1 + before.filter(|byte| **byte == b'\n').count())
    }

    /// `EINVAL`, because of what stands here: `message` says what is wrong and what would be right.
    pub fn refuse(&self, message: impl fmt::Display) -> Error {
        Error::new(CONFIGURATION, Errno::EINVAL).context(format!("{self}: {message}"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(file, line) => write!(f, "{}:{line}", file.display()),
            Place::File(file) => write!(f, "{}", file.display()),
            Place::Argument(argument) => f.write_str(argument),
        }
    }
}
