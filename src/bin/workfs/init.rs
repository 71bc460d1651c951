//! `workfs init`.

use crate::cli;
use crate::failure::Failure;
use crate::output;
use std::fs::File;
use std::io::{ErrorKind, Write};

/// The config file that is written.
const TEMPLATE: &str = include_str!("template.toml");

/// Writes the config file, where there is none.
///
/// # Errors
/// Exit code 1 where it exists or cannot be written.
pub fn run(arguments: &cli::Init) -> Result<(), Failure> {
    let shown = arguments.file.display();
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::new(format!("{shown} exists and is not overwritten; name another file")),
        _ => Failure::new(format!("{shown}: {error}")),
    };
    let mut file = File::create_new(&arguments.file).map_err(failed)?;
    file.write_all(TEMPLATE.as_bytes()).map_err(failed)?;
    output::print(format!("{shown} is written; look it through, then: workfs mount -c {shown}\n"))
}
