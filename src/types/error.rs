//! The one error type: which operation failed, with which errno, and why.
//!
//! The errno is decided once, where the failure is understood; nobody above changes it.

use super::Errno;
use std::fmt;

/// What every fallible function of workfs returns.
pub type Result<T> = std::result::Result<T, Error>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A failure: the operation, the errno a program is given, what it was about, and what caused it.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    operation: &'static str,
    errno: Errno,
    context: Option<String>,
    source: Option<Source>,
}

impl Error {
    /// A failure of `operation`, to be told to a program as `errno`.
    pub fn new(operation: &'static str, errno: Errno) -> Error {
        Error(Box::new(Inner { operation, errno, context: None, source: None }))
    }

    /// A failure that the operating system told: its errno is kept.
    pub fn from_io(operation: &'static str, source: std::io::Error) -> Error {
        let errno = source.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        Error::new(operation, errno).source(source)
    }

    /// Says what it was about: the thing and the way out, for a person to read. What was said before comes after it.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Error {
        let context = context.into();
        self.0.context = Some(match self.0.context.take() {
            Some(inner) => format!("{context}: {inner}"),
            None => context,
        });
        self
    }

    /// Keeps what caused it.
    #[must_use]
    pub fn source(mut self, source: impl Into<Source>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// The errno a program is given.
    pub fn errno(&self) -> Errno {
        self.0.errno
    }

    /// The operation that failed.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { operation, errno, context, source } = &*self.0;
        write!(f, "{operation}: {errno}")?;
        if let Some(context) = context {
            write!(f, ": {context}")?;
        }
        if let Some(source) = source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_operation_errno_and_reason() {
        let error = Error::new("rename", Errno::EXDEV).context("docs and / are two volumes");
        assert_eq!(error.to_string(), "rename: EXDEV: docs and / are two volumes");
        assert_eq!(error.errno(), Errno::EXDEV);
    }

    #[test]
    fn a_further_context_keeps_the_one_before_it() {
        let error = Error::new("mount", Errno::EPERM).context("fusermount3 is needed").context("a cannot be mounted");
        assert_eq!(error.to_string(), "mount: EPERM: a cannot be mounted: fusermount3 is needed");
    }

    #[test]
    fn the_systems_errno_is_kept() {
        let error = Error::from_io("open", std::io::Error::from_raw_os_error(libc::ELOOP));
        assert_eq!(error.errno(), Errno::ELOOP);
    }
}
