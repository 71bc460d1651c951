//! One FUSE session: a volume, mounted at one directory.

use super::adapter::Adapter;
use super::core::Core;
use super::counters::Requests;
use super::mountinfo::{Device, MountTable};
use super::mountpoint::{self, MountSpec, Unmount};
use super::notify;
use super::probe;
use crate::mounts::Volume;
use crate::types::{Errno, Error, Result};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

/// How long a session that was unmounted may take to let go of its threads.
const WIND_UP: Duration = Duration::from_secs(5);

/// What is mounted, and how.
pub(super) struct Config<'a> {
    pub volume: Arc<dyn Volume>,
    /// What the mount table shows as the source.
    pub source: &'a str,
    pub allow_other: bool,
    /// How long an operation may take.
    pub deadline: Duration,
}

/// A mounted session. Dropping it takes the mount out of sight, if it is still there.
pub(super) struct Session {
    path: PathBuf,
    device: Device,
    core: Arc<Core>,
    ended: watch::Receiver<bool>,
}

impl Session {
    /// Mounts a volume at `path` and serves it from then on.
    pub(super) fn start(config: &Config<'_>, path: &Path, runtime: &Handle) -> Result<Session> {
        let (notices, own) = mpsc::unbounded_channel();
        let core = Core::new(config.volume.clone(), runtime.clone(), config.deadline, notices);
        // Listened to from before the first answer, so that no change is missed.
        let changes = config.volume.changes();
        let spec = MountSpec {
            source: config.source,
            read_only: core.capabilities.read_only,
            allow_other: config.allow_other,
        };
        let fuse = mountpoint::mount(path, &spec)?;
        // From here on a failure must not leave the mount behind.
        let device = device_at(path).inspect_err(|_| give_up(path))?;
        let fail = |e| Error::from_io("fuse session", e).context(path.display().to_string());
        let session = fuser::Session::from_fd(Adapter::new(core.clone()), fuse, acl(config.allow_other), threads())
            .map_err(fail)
            .inspect_err(|_| give_up(path))?;
        let (end, ended) = watch::channel(false);
        let mounted = Session { path: path.to_owned(), device, core: core.clone(), ended };
        notify::spawn(core, session.notifier(), changes, own, runtime.clone()).map_err(fail)?;
        let at = path.to_owned();
        let serve = move || {
            if let Err(error) = session.run() {
                tracing::error!(path = %at.display(), %error, "the session broke off");
            }
            end.send_replace(true);
        };
        thread::Builder::new().name("workfs-session".into()).spawn(serve).map_err(fail)?;
        Ok(mounted)
    }

    /// Whether it serves, and is in the mount table at its place.
    pub(super) fn is_mounted(&self, table: &MountTable) -> bool {
        !self.has_ended() && table.find(&self.path, self.device).is_some()
    }

    /// Takes the mount away. Returns when its threads have let go of it; after a lazy one, they may go on for as long
    /// as somebody uses it.
    pub(super) fn unmount(&self, how: Unmount) -> Result<()> {
        if self.has_ended() {
            // Its device number may be another mount's by now. What is dead is all that can be left of it.
            return probe::clear_dead(&self.path).map(drop);
        }
        mountpoint::unmount(&self.path, self.device, how)?;
        let started = Instant::now();
        while how == Unmount::Now && !self.has_ended() {
            if started.elapsed() > WIND_UP {
                // Another mount namespace holds it, or a process that was in it when it was detached.
                tracing::warn!(path = %self.path.display(), "unmounted here, and still used elsewhere");
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Whether the kernel has let go of the session.
    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Turns true when the kernel has let go of the session.
    pub(super) fn ended(&self) -> watch::Receiver<bool> {
        self.ended.clone()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn device(&self) -> Device {
        self.device
    }

    pub(super) fn requests(&self) -> Requests {
        self.core.counters.read()
    }

    /// Files open through handles, and files that the kernel remembers.
    pub(super) fn holds(&self) -> (usize, usize) {
        (self.core.handles.len(), self.core.known.nodes())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.unmount(Unmount::Lazily) {
            tracing::warn!(%error, "a mount was left behind");
        }
    }
}

fn device_at(path: &Path) -> Result<Device> {
    let table = MountTable::read()?;
    let line = table.at(path).filter(|line| line.is_workfs());
    line.map(|line| line.device).ok_or_else(|| {
        Error::new("mount", Errno::EIO).context(format!("{} is not in the table of mounts", path.display()))
    })
}

fn give_up(path: &Path) {
    if let Err(error) = mountpoint::unmount_top(path, Unmount::Lazily) {
        tracing::warn!(%error, "a mount that failed was left behind");
    }
}

fn acl(allow_other: bool) -> fuser::SessionACL {
    if allow_other { fuser::SessionACL::All } else { fuser::SessionACL::Owner }
}

/// Each thread has a descriptor of its own, so that they do not queue for one lock.
fn threads() -> fuser::Config {
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let mut config = fuser::Config::default();
    config.n_threads = Some(cpus.max(2));
    config.clone_fd = true;
    config
}
