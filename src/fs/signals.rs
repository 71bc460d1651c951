//! Whether a caller that waits has been sent a signal.
//!
//! The kernel would tell us by INTERRUPT, which fuser answers by itself. So one looks, now and then, at what `/proc`
//! shows of the calling thread.

use std::fs;

/// A calling thread, watched for signals.
pub(super) struct Caller {
    thread: u32,
    /// A signal to the whole process was pending at the last look.
    shared: bool,
}

impl Caller {
    /// The thread with this id in our process namespace; 0 is one that is not in it, of which nothing can be known.
    pub(super) fn new(thread: u32) -> Caller {
        Caller { thread, shared: false }
    }

    /// Looks: whether a signal is pending that the thread will be given when its call returns.
    ///
    /// One that was sent to the process may go to any thread that does not block it, so it counts only if nobody has
    /// taken it by the next look.
    pub(super) fn is_interrupted(&mut self) -> bool {
        let Ok(status) = fs::read_to_string(format!("/proc/{}/status", self.thread)) else { return false };
        let set = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
        };
        let blocked = set("SigBlk:");
        let before = std::mem::replace(&mut self.shared, set("ShdPnd:") & !blocked != 0);
        set("SigPnd:") & !blocked != 0 || (before && self.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_signals_is_not_interrupted() {
        let thread = rustix::thread::gettid().as_raw_pid() as u32;
        let mut caller = Caller::new(thread);
        assert!(!caller.is_interrupted() && !caller.is_interrupted());
        assert!(!Caller::new(0).is_interrupted(), "nothing is known of it");
    }
}
