//! How a command ends when it fails: what it says and its exit code.

use serde::{Deserialize, Serialize};
use std::fmt;
use workfs::assemble::CONFIGURATION;
use workfs::types::Error;

/// It failed.
pub const FAILED: u8 = 1;
/// The command line or the config is at fault.
pub const REFUSED: u8 = 2;
/// `status`: something is dead or does not answer.
pub const DEAD: u8 = 3;
/// `status DIR`: nothing is mounted there.
pub const NOT_MOUNTED: u8 = 4;
/// `exec`: the command could not be run.
pub const CANNOT_RUN: u8 = 125;
/// `exec`: what was named cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// `exec`: there is no such command.
pub const NOT_FOUND: u8 = 127;

/// A command's failure. A daemon hands it to the process that started it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The exit code.
    pub exit: u8,
    /// What to say on standard error.
    pub text: String,
}

impl Failure {
    /// Exit code 1, saying `text`.
    pub fn new(text: impl Into<String>) -> Failure {
        Failure { exit: FAILED, text: text.into() }
    }

    /// The same, with this exit code.
    pub fn exit(self, exit: u8) -> Failure {
        Failure { exit, ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let text = error.to_string();
        if error.operation() != CONFIGURATION {
            return Failure::new(text);
        }
        // Whoever wrote the config needs no errno, but the line, which comes next.
        let prefix = format!("{CONFIGURATION}: {}: ", error.errno());
        Failure { exit: REFUSED, text: text.strip_prefix(&prefix).unwrap_or(&text).to_owned() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workfs: {}", self.text)
    }
}
