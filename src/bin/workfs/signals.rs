//! The signals by which somebody wants a process to end.

use std::io::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Watches for them, from when it is made.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Their default, to end the process at once, is given up.
    ///
    /// # Errors
    /// What `sigaction(2)` says.
    pub fn watch() -> Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one, and tells its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}
