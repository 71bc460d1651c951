//! A test that hangs is ended: its mounts are taken away from under it, and it fails.

use super::mount_table;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long a test may go on after its mounts were taken away, before the whole run is given up.
const GRACE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct State {
    done: bool,
    expired: bool,
    server: Option<Pid>,
    programs: Vec<Pid>,
}

struct Shared {
    dir: PathBuf,
    state: Mutex<State>,
    ended: Condvar,
}

/// The time that a test has. Dropping it calls the watch off.
pub struct Deadline(Arc<Shared>);

impl Deadline {
    /// The test that works below `dir` has `limit` from now on.
    pub fn new(dir: &Path, limit: Duration) -> Deadline {
        let shared =
            Arc::new(Shared { dir: dir.to_owned(), state: Mutex::new(State::default()), ended: Condvar::new() });
        let watched = shared.clone();
        std::thread::spawn(move || watch(&watched, limit));
        Deadline(shared)
    }

    /// The process that serves the test's mounts, so that it can be ended with them.
    pub fn set_server(&self, pid: Option<Pid>) {
        self.0.state.lock().server = pid;
    }

    /// A process group that the test started.
    pub fn add_program(&self, pid: Pid) {
        self.0.state.lock().programs.push(pid);
    }

    /// That group has ended.
    pub fn remove_program(&self, pid: Pid) {
        self.0.state.lock().programs.retain(|&program| program != pid);
    }

    /// Whether the time was up.
    pub fn expired(&self) -> bool {
        self.0.state.lock().expired
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.0.state.lock().done = true;
        self.0.ended.notify_all();
    }
}

fn watch(shared: &Shared, limit: Duration) {
    if waits_in_vain(shared, limit) {
        eprintln!("DEADLINE: a test below {} is not done after {limit:?}; its mounts go now", shared.dir.display());
        let (server, programs) = {
            let mut state = shared.state.lock();
            state.expired = true;
            (state.server, state.programs.clone())
        };
        for pid in programs {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        mount_table::abort_connections(&shared.dir);
        if let Some(pid) = server {
            let _ = kill_process(pid, Signal::KILL);
        }
        mount_table::detach(&shared.dir);
        if waits_in_vain(shared, GRACE) {
            eprintln!("DEADLINE: the test below {} hangs outside its mounts: giving up", shared.dir.display());
            std::process::abort();
        }
    }
}

/// Whether the test was not done within `limit`.
fn waits_in_vain(shared: &Shared, limit: Duration) -> bool {
    let mut state = shared.state.lock();
    !state.done && {
        shared.ended.wait_while_for(&mut state, |state| !state.done, limit);
        !state.done
    }
}

#[test]
fn a_hanging_program_is_ended_at_the_deadline() {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    let dir = tempfile::tempdir().expect("a temporary folder");
    let deadline = Deadline::new(dir.path(), Duration::from_millis(100));
    let mut child = std::process::Command::new("sleep").arg("60").process_group(0).spawn().expect("sleep starts");
    deadline.add_program(Pid::from_child(&child));
    let status = child.wait().expect("it can be waited for");
    assert_eq!(status.signal(), Some(9));
    assert!(deadline.expired());
}
