//! The process that serves a view: from a plan to a mount that answers, until its end.

use crate::control::{self, Answer, Reply, Request};
use crate::failure::Failure;
use crate::health;
use crate::mountpoint;
use crate::process;
use crate::report::Report;
use crate::signals::Signals;
use crate::state::{Entry, StateDir};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info, warn};
use workfs::assemble::{self, Place, Plan};
use workfs::fs::{self, MountOptions, MountedView};
use workfs::types::{Errno, Error, Result};
use workfs::workspace::Workspace;

/// How long the volumes may take to write out what is pending.
const CLOSE: Duration = Duration::from_secs(120);
/// How long another process may take to say that it serves the mountpoint.
const ANSWER: Duration = Duration::from_secs(3);
/// How often an unmount that a signal asked for is tried again while programs use the mount.
const RETRY: Duration = Duration::from_secs(1);

/// What is to be served.
pub struct Job {
    /// The mounts.
    pub plan: Plan,
    /// Where; canonical.
    pub mountpoint: PathBuf,
    /// Where that was written.
    pub place: Place,
    /// How.
    pub options: MountOptions,
    /// The notes of this user's mounts.
    pub state: StateDir,
    /// The log, where it is a file.
    pub log: Option<PathBuf>,
}

/// Serves `job` until it is unmounted. Once the mount answers, `ready` is told what a person should know of it; where
/// `ready` fails, nobody wants the mount any more.
///
/// # Errors
/// What keeps it from being mounted; what could not be written out at the end.
pub fn serve(job: Job, ready: impl FnOnce(Vec<String>) -> std::io::Result<()>) -> std::result::Result<(), Failure> {
    let served = || job.state.entry(&job.mountpoint).is_some_and(|entry| entry.is_alive()) && listens(&job);
    let Some(_lock) = job.state.lock(&job.mountpoint, served)? else {
        return Err(already_mounted(&job).into());
    };
    let prepared = mountpoint::prepare(&job.mountpoint, &job.place)?;
    job.state.forget(&job.mountpoint);
    fs::prepare_process();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::from_io("start the runtime", error))?;
    let result = runtime.block_on(run(&job, prepared.notes, ready));
    job.state.forget(&job.mountpoint);
    // The process ends now. A session that was detached by force may use the runtime to the last moment.
    let _runtime = std::mem::ManuallyDrop::new(runtime);
    if let (Err(_), Some(made)) = (&result, prepared.made) {
        // Made for a mount that did not come about. It stays if something lies in it.
        let _ = std::fs::remove_dir(made);
    }
    Ok(result?)
}

/// Whether the process that is noted for the mountpoint still listens. One that was killed may take a while to be gone,
/// but its socket closes at once; one that is frozen gives no answer at all, and counts.
fn listens(job: &Job) -> bool {
    let socket = job.state.socket(&job.mountpoint);
    match control::ask_and_wait(&socket, Request::Status, ANSWER) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::TimedOut,
    }
}

fn already_mounted(job: &Job) -> Error {
    let by = match job.state.entry(&job.mountpoint).filter(Entry::is_alive) {
        Some(entry) => format!("by process {}", entry.pid),
        None => "by a process that is just starting or ending".to_owned(),
    };
    let dir = job.mountpoint.display();
    Error::new("mount", Errno::EBUSY).context(format!(
        "{dir} is mounted already, {by}; `workfs status {dir}` tells more, `workfs umount {dir}` ends it"
    ))
}

async fn run(job: &Job, notes: Vec<String>, ready: impl FnOnce(Vec<String>) -> std::io::Result<()>) -> Result<()> {
    let workspace = Arc::new(assemble::open(&job.plan).await?);
    // From now on modes come from the callers, whose own masks the kernel has applied.
    rustix::process::umask(rustix::fs::Mode::empty());
    let ended = mount_and_wait(job, &workspace, notes, ready).await;
    info!("writing out what is pending");
    let closed = match tokio::time::timeout(CLOSE, workspace.close()).await {
        Ok(closed) => closed,
        Err(_) => Err(Error::new("close the volumes", Errno::ETIMEDOUT)
            .context(format!("not finished after {} s; what was closed or synced before is safe", CLOSE.as_secs()))),
    };
    let (ended, asker) = match ended {
        Ok(asker) => (Ok(()), asker),
        Err(error) => (Err(error), None),
    };
    let result = ended.and(closed);
    match &result {
        Ok(()) => info!("ended"),
        Err(error) => error!("{error}"),
    }
    if let Some(asker) = asker {
        let served = asker.served.clone();
        asker.reply(match &result {
            Ok(()) => Reply::Done,
            Err(error) => Reply::Failed(Failure::new(error.to_string())),
        });
        served.finish_replies().await;
    }
    result
}

/// Whoever asked for the unmount over the control socket, and waits for the reply.
struct Asker {
    reply: oneshot::Sender<Reply>,
    served: Arc<Served>,
}

impl Asker {
    fn reply(self, reply: Reply) {
        // One who went away in the meantime needs none.
        let _ = self.reply.send(reply);
    }
}

async fn mount_and_wait(
    job: &Job,
    workspace: &Arc<Workspace>,
    notes: Vec<String>,
    ready: impl FnOnce(Vec<String>) -> std::io::Result<()>,
) -> Result<Option<Asker>> {
    // Before the mount: a signal that comes while it is made must not leave a dead one behind.
    let mut signals = Signals::watch().map_err(|error| Error::from_io("watch for signals", error))?;
    // No folder is kept busy; every path is absolute by now.
    #[expect(clippy::disallowed_methods, reason = "it is done once, when every path is absolute")]
    std::env::set_current_dir("/").map_err(|error| Error::from_io("leave the folder", error))?;
    // Noted before it is there: whoever is killed now leaves a mount that others can tell of.
    let entry = entry(job);
    job.state.write(&entry)?;
    let view = Arc::new(mount(job, workspace).await?);
    let (sender, requests) = mpsc::channel(1);
    let served = Arc::new(Served { view: view.clone(), workspace: workspace.clone(), entry, unmount: sender });
    let control = match announce(job, &served, notes, ready) {
        Ok(control) => control,
        Err(error) => {
            unmount(&view, true).await?;
            return Err(error);
        }
    };
    info!("mounted at {}, by process {}", job.mountpoint.display(), served.entry.pid);
    let asker = wait(&served, &mut signals, requests).await;
    control.abort();
    Ok(asker)
}

async fn mount(job: &Job, workspace: &Arc<Workspace>) -> Result<MountedView> {
    let (workspace, dir) = (workspace.clone(), job.mountpoint.clone());
    let (options, runtime) = (job.options.clone(), tokio::runtime::Handle::current());
    tokio::task::spawn_blocking(move || fs::mount(workspace, &dir, &options, runtime))
        .await
        .map_err(|error| Error::new("mount", Errno::EIO).source(error))?
}

fn entry(job: &Job) -> Entry {
    let pid = std::process::id();
    Entry {
        pid,
        process_start: process::started(pid).unwrap_or_default(),
        mountpoint: job.mountpoint.clone(),
        log: job.log.clone(),
        started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Makes the mount known: to other commands, and to whoever waits for it.
fn announce(
    job: &Job,
    served: &Arc<Served>,
    notes: Vec<String>,
    ready: impl FnOnce(Vec<String>) -> std::io::Result<()>,
) -> Result<tokio::task::JoinHandle<()>> {
    let socket = job.state.socket(&job.mountpoint);
    let listener = control::listen(&socket)
        .map_err(|error| Error::from_io("control socket", error).context(socket.display().to_string()))?;
    let control = tokio::spawn(control::serve(listener, served.clone()));
    ready(notes).map_err(|error| Error::from_io("mount", error).context("whoever asked for the mount is gone"))?;
    Ok(control)
}

/// Waits until the view is unmounted: from outside, by a signal, or because somebody asked.
async fn wait(served: &Arc<Served>, signals: &mut Signals, mut requests: mpsc::Receiver<Ask>) -> Option<Asker> {
    let view = &served.view;
    let mut count = 0;
    let mut said = String::new();
    loop {
        let (lazy, asker) = tokio::select! {
            () = view.ended() => {
                info!("unmounted from outside");
                return None;
            }
            name = signals.next() => {
                count += 1;
                info!("{name}");
                (count > 1, None)
            }
            Some(ask) = requests.recv() => (ask.lazy, Some(Asker { reply: ask.reply, served: served.clone() })),
            () = tokio::time::sleep(RETRY), if count > 0 => (false, None),
        };
        match (unmount(view, lazy).await, asker) {
            (Ok(()), asker) => return asker,
            (Err(error), Some(asker)) => asker.reply(Reply::Failed(Failure::new(error.to_string()))),
            (Err(error), None) if said != error.to_string() => {
                warn!("{error}; it is unmounted as soon as it is free, and a second signal detaches it by force");
                said = error.to_string();
            }
            (Err(_), None) => {}
        }
    }
}

async fn unmount(view: &Arc<MountedView>, lazy: bool) -> Result<()> {
    let view = view.clone();
    tokio::task::spawn_blocking(move || if lazy { view.detach() } else { view.unmount() })
        .await
        .map_err(|error| Error::new("unmount", Errno::EIO).source(error))?
}

/// A request to unmount, and where its reply goes.
struct Ask {
    lazy: bool,
    reply: oneshot::Sender<Reply>,
}

/// What the control socket answers from.
struct Served {
    view: Arc<MountedView>,
    workspace: Arc<Workspace>,
    entry: Entry,
    unmount: mpsc::Sender<Ask>,
}

impl Answer for Served {
    async fn answer(&self, request: Request) -> Reply {
        match request {
            Request::Status => Reply::Status(Box::new(self.report().await)),
            Request::Unmount { lazy } => self.ask_unmount(lazy).await,
        }
    }
}

impl Served {
    async fn ask_unmount(&self, lazy: bool) -> Reply {
        let (reply, receiver) = oneshot::channel();
        match self.unmount.send(Ask { lazy, reply }).await {
            Ok(()) => receiver.await.unwrap_or(Reply::Ending),
            Err(_) => Reply::Ending,
        }
    }

    /// Waits until the replies that are under way have been sent: each conversation holds this until it is over.
    async fn finish_replies(self: Arc<Served>) {
        for _ in 0..200 {
            if Arc::strong_count(&self) == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn report(&self) -> Report {
        let view = self.view.status();
        Report {
            entry: self.entry.clone(),
            mode: view.nesting.to_owned(),
            why: view.reason.to_owned(),
            mounts: health::of(&self.workspace).await,
            sessions: view.sessions,
        }
    }
}
