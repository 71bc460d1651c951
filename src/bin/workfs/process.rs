//! Processes, as `/proc` tells of them.

use rustix::process::{Pid, Signal};
use std::time::{Duration, Instant};

/// When the process `pid` started, in clock ticks since boot; `None` where there is none, or only its zombie.
///
/// A pid comes again, but not with this number.
pub fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything, parentheses too.
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = std::str::from_utf8(&stat[after..]).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // The state is field 3, the start field 22 (proc_pid_stat(5)).
    fields.nth(18)?.parse().ok()
}

/// Sends a signal; a process that is gone is passed over.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Waits until the process that started at `start` is gone; `false` if it still is there after `deadline`.
pub fn wait_gone(pid: u32, start: u64, deadline: Duration) -> bool {
    let end = Instant::now() + deadline;
    while started(pid) == Some(start) {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start() {
        let me = std::process::id();
        let start = started(me).expect("we run");
        assert!(!wait_gone(me, start, Duration::from_millis(10)));
        assert!(wait_gone(me, start + 1, Duration::ZERO), "another process of this number");
        assert_eq!(started(u32::MAX), None);
    }
}
