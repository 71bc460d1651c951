//! Which process a session is of, and whether that still runs.

use super::super::record::Session;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;

/// This process.
static OWN: LazyLock<Process> = LazyLock::new(|| {
    let pid = std::process::id();
    let started = stat(pid).map_or(0, |stat| stat.started);
    Process { pid, started, place: if started == 0 { 0 } else { place().unwrap_or(0) } }
});

/// A process: its number, its start, and where both mean something (0 where that is not known).
#[derive(Clone, Copy)]
pub struct Process {
    pub pid: u32,
    pub started: u64,
    pub place: u64,
}

impl Process {
    pub fn own() -> Process {
        *OWN
    }
}

/// Whether the process that a session is of has ended for sure: it was of this machine, since it was last started, and
/// is not found any more.
pub fn is_gone(session: &Session) -> bool {
    let own = Process::own();
    if session.place == 0 || session.place != own.place {
        return false;
    }
    let Some(pid) = i32::try_from(session.pid).ok().and_then(Pid::from_raw) else { return false };
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return true;
    }
    // What /proc does not show to this user is not held to be gone.
    stat(session.pid).is_some_and(|stat| stat.ended || stat.started != session.started)
}

struct Stat {
    /// It has ended, and only its parent has not asked how.
    ended: bool,
    /// When it started, in ticks since the machine did.
    started: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    Some(Stat { ended: matches!(*fields.first()?, "Z" | "X"), started: fields.get(19)?.parse().ok()? })
}

/// The machine since it was last started, and the namespace of process numbers.
fn place() -> Option<u64> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    Some(u64::from_str_radix(&digits, 16).ok()? ^ fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

#[cfg(test)]
mod tests {
    use super::super::super::record::Revision;
    use super::*;
    use crate::types::Timestamp;

    fn session(Process { pid, started, place }: Process) -> Session {
        Session { seen: Timestamp(0), acknowledged: Revision::FIRST, pid, started, place }
    }

    #[test]
    fn a_process_is_gone_when_it_has_ended_or_its_number_is_anothers() {
        let own = Process::own();
        assert!(own.place != 0 && !is_gone(&session(own)), "we run");
        assert!(is_gone(&session(Process { started: own.started + 1, ..own })), "another had this number");
        assert!(!is_gone(&session(Process { pid: i32::MAX as u32, place: own.place ^ 1, ..own })), "elsewhere");
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let of_child = Process { pid: child.id(), started: stat(child.id()).expect("there").started, ..own };
        while !is_gone(&session(of_child)) {
            std::thread::yield_now();
        }
        child.wait().expect("it was waited for by nobody else");
        assert!(is_gone(&session(of_child)), "and when it was waited for");
    }
}
