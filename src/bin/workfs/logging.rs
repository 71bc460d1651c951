//! Where the log goes, and how much of it.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Logs to standard error, which for a background mount is its log file.
///
/// How much: `WORKFS_LOG` if it is set, else `-v`, else the config's level, else `usual`.
pub fn start(verbose: u8, config: Option<&str>, usual: &str) {
    let level = match (verbose, config) {
        (0, Some(level)) => level,
        (0, None) => usual,
        (1, _) => "debug",
        _ => "trace",
    };
    let (filter, fault) = match std::env::var("WORKFS_LOG") {
        Ok(text) if !text.is_empty() => match EnvFilter::try_new(&text) {
            Ok(filter) => (filter, None),
            Err(error) => (EnvFilter::new(level), Some((text, error))),
        },
        _ => (EnvFilter::new(level), None),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    if let Some((text, error)) = fault {
        tracing::warn!("WORKFS_LOG={text:?} is passed over: {error}");
    }
}
