//! A workspace, mounted: one session for each of its mounts, nested, or one session for all.

use super::busy;
use super::dispatch::DEADLINE;
use super::mountinfo::{MountTable, mounted_at};
use super::mountpoint::Unmount;
use super::nesting::{self, Nesting};
use super::probe;
use super::session::{Config, Session};
use super::status::{SessionStatus, ViewStatus};
use super::watch::Watch;
use crate::types::{Errno, Error, Result, TreePath};
use crate::workspace::{Crossing, Mount, Workspace};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// How to mount a workspace.
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    /// One session for each mount, or one for all.
    pub nesting: Nesting,
    /// How long an operation of a volume may take before its caller gets `EIO`; 60 seconds by default.
    pub deadline: Option<Duration>,
}

/// A workspace that is mounted. Dropping it takes it out of sight.
pub struct MountedView {
    view: Arc<View>,
    _watch: Option<Watch>,
}

/// What the watch and the handle share.
///
/// Locks: `changing` first, then `sessions`. `changing` is held while mounting and unmounting; `sessions` only to look.
struct View {
    workspace: Arc<Workspace>,
    directory: PathBuf,
    nested: bool,
    reason: &'static str,
    allow_other: bool,
    deadline: Duration,
    runtime: Handle,
    changing: Mutex<State>,
    sessions: Mutex<Vec<Slot>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Up,
    Down,
}

/// A session's place in the tree; the session in it may be replaced.
struct Slot {
    at: TreePath,
    session: Arc<Session>,
    /// How often it was lost and mounted again.
    lost: u64,
}

/// Mounts `workspace` at the directory `dir`. Sessions run on threads of their own; what takes time runs on `runtime`.
///
/// A dead mount that a killed process left at `dir` is cleared away first.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`; `EBUSY` where a live view is mounted at `dir`; what mounting says. Nothing stays mounted then.
pub fn mount(workspace: Arc<Workspace>, dir: &Path, options: &MountOptions, runtime: Handle) -> Result<MountedView> {
    let directory = free(dir)?;
    let decided = nesting::decide(options.nesting, workspace.mounts())?;
    tracing::info!(dir = %directory.display(), nested = decided.nested, reason = decided.reason, "mounting");
    let view = Arc::new(View {
        allow_other: decided.allow_other,
        deadline: options.deadline.unwrap_or(DEADLINE),
        nested: decided.nested,
        reason: decided.reason,
        workspace,
        directory,
        runtime,
        changing: Mutex::new(State::Up),
        sessions: Mutex::new(Vec::new()),
    });
    // From here on a failure drops the view, and with it what is mounted already.
    let mut mounted = MountedView { view: view.clone(), _watch: None };
    for at in view.places() {
        let session = Arc::new(view.start(&at)?);
        view.sessions.lock().push(Slot { at, session, lost: 0 });
    }
    if decided.nested {
        let watched = Arc::downgrade(&view);
        mounted._watch = Some(Watch::start(move || watched.upgrade().map(|view| view.repair()))?);
    }
    Ok(mounted)
}

/// The canonical path of `dir`, freed of dead mounts.
fn free(dir: &Path) -> Result<PathBuf> {
    let directory = probe::resolve(dir)?;
    probe::clear_dead(&directory)?;
    if mounted_at(&directory)?.is_some_and(|mount| mount.is_workfs()) {
        let why = format!("a workfs view is mounted at {} already; unmount it first", directory.display());
        return Err(Error::new("mount", Errno::EBUSY).context(why));
    }
    Ok(directory)
}

impl MountedView {
    /// What is mounted, and what its sessions have done.
    pub fn status(&self) -> ViewStatus {
        self.view.status()
    }

    /// Returns when the view was unmounted from outside (`umount`, `fusermount3 -u`), or broke off.
    pub async fn ended(&self) {
        let root = self.view.sessions.lock().first().map(|slot| slot.session.ended());
        if let Some(mut root) = root {
            // An error means that the session is gone too.
            root.wait_for(|ended| *ended).await.ok();
        }
    }

    /// Unmounts, the deepest first. The volumes stay open; who opened them closes them.
    ///
    /// # Errors
    /// `EBUSY` where it is in use, with who uses it; then all of it stays mounted.
    pub fn unmount(&self) -> Result<()> {
        self.view.take_down(Unmount::Now)
    }

    /// Takes the view out of sight at once; who uses a file of it may go on until this process ends.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn detach(&self) -> Result<()> {
        self.view.take_down(Unmount::Lazily)
    }
}

impl Drop for MountedView {
    fn drop(&mut self) {
        if let Err(error) = self.view.take_down(Unmount::Lazily) {
            tracing::warn!(%error, "the view was not unmounted");
        }
    }
}

impl View {
    /// Where sessions are mounted, the outer ones first. The root has one even if no volume is there.
    fn places(&self) -> Vec<TreePath> {
        let mut places = vec![TreePath::root()];
        if self.nested {
            places.extend(self.workspace.mounts().iter().map(|mount| mount.at.clone()).filter(|at| !at.is_root()));
        }
        places
    }

    fn start(&self, at: &TreePath) -> Result<Session> {
        let crossing = if self.nested { Crossing::Stop } else { Crossing::Cross };
        let volume = self.workspace.subtree(at, crossing)?;
        let source = self.mount_of(at).map_or_else(|| "workspace".to_owned(), |mount| mount.label.clone());
        let config = Config { volume, source: &source, allow_other: self.allow_other, deadline: self.deadline };
        Session::start(&config, &self.path(at), &self.runtime)
    }

    /// The mount that the session at `at` serves; one for the whole tree serves them all.
    fn mount_of(&self, at: &TreePath) -> Option<&Mount> {
        let whole_tree = !self.nested && self.workspace.mounts().len() > 1;
        self.workspace.mounts().iter().find(|mount| mount.at == *at && !whole_tree)
    }

    fn path(&self, at: &TreePath) -> PathBuf {
        at.names().iter().fold(self.directory.clone(), |path, name| path.join(name.as_os_str()))
    }

    /// Mounts again what was lost below the root, the outer sessions first. True where all is well, or nothing can be
    /// done any more.
    fn repair(&self) -> bool {
        let state = self.changing.lock();
        if *state == State::Down {
            return true;
        }
        let lost = match self.lost() {
            Ok(lost) => lost,
            Err(error) => {
                tracing::warn!(%error, "the mounts cannot be watched");
                return false;
            }
        };
        lost.into_iter().all(|at| self.mount_again(&at))
    }

    /// Places whose session is not in the mount table. None where the root is gone: then the view has ended.
    fn lost(&self) -> Result<Vec<TreePath>> {
        let table = MountTable::read()?;
        let sessions = self.sessions.lock();
        if !sessions.first().is_some_and(|root| root.session.is_mounted(&table)) {
            return Ok(Vec::new());
        }
        Ok(sessions.iter().filter(|slot| !slot.session.is_mounted(&table)).map(|slot| slot.at.clone()).collect())
    }

    fn mount_again(&self, at: &TreePath) -> bool {
        tracing::warn!(%at, "a nested mount was lost; what lies beneath it answers EIO until it is back");
        let old = self.sessions.lock().iter().find(|slot| slot.at == *at).map(|slot| slot.session.clone());
        let cleared = old.map_or(Ok(()), |old| old.unmount(Unmount::Lazily));
        match cleared.and_then(|()| self.start(at)) {
            Ok(session) => {
                let mut sessions = self.sessions.lock();
                let slot = sessions.iter_mut().find(|slot| slot.at == *at);
                let old = slot.map(|slot| {
                    slot.lost += 1;
                    std::mem::replace(&mut slot.session, Arc::new(session))
                });
                drop(sessions);
                drop(old);
                tracing::warn!(%at, "the nested mount is back");
                true
            }
            Err(error) => {
                tracing::error!(%at, %error, "the nested mount cannot be mounted again; the next try is in a second");
                false
            }
        }
    }

    fn take_down(&self, how: Unmount) -> Result<()> {
        let mut state = self.changing.lock();
        let sessions: Vec<Arc<Session>> = self.sessions.lock().iter().rev().map(|slot| slot.session.clone()).collect();
        for session in &sessions {
            if let Err(error) = session.unmount(how) {
                // What is down already comes back: the watch mounts it again.
                let busy = error.errno() == Errno::EBUSY && how == Unmount::Now;
                return Err(if busy { busy::explain(session.path(), session.device()) } else { error });
            }
        }
        *state = State::Down;
        Ok(())
    }

    fn status(&self) -> ViewStatus {
        let table = MountTable::read();
        let status = |Slot { at, session, lost }: &Slot| {
            let mounted = table.as_ref().is_ok_and(|table| session.is_mounted(table));
            SessionStatus::new(at, self.mount_of(at), session, mounted, *lost)
        };
        ViewStatus {
            nesting: if self.nested { "nested" } else { "single" },
            reason: self.reason,
            sessions: self.sessions.lock().iter().map(status).collect(),
        }
    }
}
