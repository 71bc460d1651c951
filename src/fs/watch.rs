//! Watches the kernel's mount table while a view is up, and has what was lost mounted again.

use crate::types::{Error, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Who unmounts a whole tree takes the nested mounts away one by one, and the root last. So long is waited before one
/// that is gone counts as lost.
const PATIENCE: Duration = Duration::from_millis(250);

/// When to try again what failed. The table is also looked at this often though nothing was told.
const RETRY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const IDLE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// The thread that watches; dropping this ends it.
pub(super) struct Watch {
    stop: Arc<OwnedFd>,
}

impl Watch {
    /// Calls `repair` when the table has changed, and again after a while where it says false; none ends the watch.
    pub(super) fn start(repair: impl Fn() -> Option<bool> + Send + 'static) -> Result<Watch> {
        let fail = |e: std::io::Error| Error::from_io("watch", e).context("the table of mounts cannot be watched");
        let table = File::open("/proc/self/mountinfo").map_err(fail)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| fail(e.into()))?);
        let stopped = stop.clone();
        let watch = move || watch(&repair, &table, &stopped);
        thread::Builder::new().name("workfs-watch".into()).spawn(watch).map_err(fail)?;
        Ok(Watch { stop })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        rustix::io::write(&*self.stop, &1u64.to_ne_bytes()).ok();
    }
}

fn watch(repair: &dyn Fn() -> Option<bool>, table: &File, stop: &OwnedFd) {
    let mut wait = IDLE;
    loop {
        // The kernel marks the table with POLLPRI when it has changed since it was polled last.
        let mut polled = [PollFd::new(table, PollFlags::PRI), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut polled, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return tracing::error!(%error, "the table of mounts is no longer watched"),
        }
        if !polled[1].revents().is_empty() {
            return;
        }
        if !polled[0].revents().is_empty() {
            thread::sleep(PATIENCE);
        }
        wait = match repair() {
            Some(true) => IDLE,
            Some(false) => RETRY,
            None => return,
        };
    }
}
