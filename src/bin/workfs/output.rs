//! Standard output.

use crate::failure::Failure;
use std::io::{ErrorKind, Write};

/// Prints `text`. A reader that has seen enough, such as `head`, is no failure.
///
/// # Errors
/// Exit code 1 for what `write(2)` says.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(format!("standard output: {error}"))),
        _ => Ok(()),
    }
}
