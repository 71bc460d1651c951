//! Requests about locks, where the volume has its own.
//!
//! The kernel numbers the owners: a process's locks (`fcntl`) end when it closes any descriptor of the file, which is a
//! FLUSH that names the owner; those of an open file (`flock`, `F_OFD_SETLK`) end with its RELEASE.

use super::core::Core;
use super::counters::Operation;
use super::handles::Opened;
use super::names::ok;
use super::signals;
use crate::mounts::OpenFile;
use crate::types::{Errno, Error, LockKind, LockOwner, LockRange, LockRequest, NodeId, Result};
use fuser::{FileHandle, ReplyEmpty, ReplyLock};
use std::sync::Arc;
use std::time::Duration;

/// How often one looks whether a caller that waits was sent a signal.
const LOOK: Duration = Duration::from_millis(100);
/// After so many looks a lock is tried again, though nobody told that one was given back: a session may have died.
const LOOKS: u32 = 10;
/// How long the kernel may take to forget what others changed, before a lock is granted.
const TELLING: Duration = Duration::from_secs(30);

/// What the kernel asks for, as it says it.
pub(super) struct Wanted {
    pub owner: LockOwner,
    pub start: u64,
    pub end: u64,
    pub kind: i32,
    pub pid: u32,
}

/// What is to become of a range.
enum Change {
    Lock(LockRequest),
    Unlock(LockOwner, LockRange),
}

impl Wanted {
    fn change(&self) -> Result<Change> {
        let range = LockRange::new(self.start, self.end.min(LockRange::LAST))?;
        let lock = |kind| Change::Lock(LockRequest { owner: self.owner, kind, range, pid: self.pid });
        match self.kind {
            libc::F_RDLCK => Ok(lock(LockKind::Read)),
            libc::F_WRLCK => Ok(lock(LockKind::Write)),
            libc::F_UNLCK => Ok(Change::Unlock(self.owner, range)),
            kind => Err(Error::new("lock", Errno::EINVAL).context(format!("kind {kind}"))),
        }
    }
}

fn raw(kind: LockKind) -> i32 {
    match kind {
        LockKind::Read => libc::F_RDLCK,
        LockKind::Write => libc::F_WRLCK,
    }
}

impl Core {
    fn opened(&self, handle: FileHandle) -> Result<Opened> {
        let opened = self.handles.get(handle.0);
        opened.ok_or_else(|| Error::new("lock", Errno::EBADF).context(format!("handle {} is not open", handle.0)))
    }

    /// F_GETLK: the lock that is in the way of this one.
    pub(super) fn find_lock(self: &Arc<Core>, handle: FileHandle, wanted: Wanted, reply: ReplyLock) {
        let core = self.clone();
        let (start, end) = (wanted.start, wanted.end);
        let work = async move {
            match wanted.change()? {
                Change::Lock(request) => core.opened(handle)?.file.lock_in_the_way(&request).await,
                Change::Unlock(..) => Ok(None),
            }
        };
        self.dispatcher.serve(Operation::GetLk, reply, work, move |found, reply| match (found, reply) {
            (_, None) => {}
            (Some(held), Some(reply)) => {
                reply.locked(held.range.start(), held.range.end(), raw(held.kind), held.pid);
            }
            (None, Some(reply)) => reply.locked(start, end, libc::F_UNLCK, 0),
        });
    }

    /// F_SETLK, F_SETLKW (`waiter` is the thread that waits) and flock.
    pub(super) fn set_lock(
        self: &Arc<Core>,
        handle: FileHandle,
        wanted: Wanted,
        waiter: Option<u32>,
        reply: ReplyEmpty,
    ) {
        let core = self.clone();
        let work = async move {
            let Opened { file, lockers, .. } = core.opened(handle)?;
            let request = match wanted.change()? {
                Change::Unlock(owner, range) => return file.unlock(owner, range).await,
                Change::Lock(request) => request,
            };
            lockers.lock().insert(request.owner);
            match waiter {
                Some(thread) => core.wait_for_lock(&*file, &request, signals::Caller::new(thread)).await?,
                None => core.try_lock(&*file, &request).await?,
            }
            core.granted(&*file, &request).await
        };
        self.dispatcher.serve_waiting(Operation::SetLk, reply, work, |(), reply| reply.ok());
    }

    /// Takes a lock or fails at once; only what was closed just before is let go first.
    async fn try_lock(&self, file: &dyn OpenFile, request: &LockRequest) -> Result<()> {
        loop {
            let mut watch = file.watch_locks();
            let tried = file.lock(request).await;
            let in_the_way = tried.as_ref().is_err_and(|error| error.errno() == Errno::EAGAIN);
            match self.handles.parting().filter(|_| in_the_way) {
                Some(left) => drop(tokio::time::timeout(left, watch.freed()).await),
                None => return tried,
            }
        }
    }

    /// Waits until the lock can be taken, or its caller is sent a signal.
    ///
    /// Errors: `EINTR`, only where a signal is pending (the kernel takes it as "begin anew", and shows the program a
    /// number that is none without one); `EIO` at the session's end.
    async fn wait_for_lock(
        &self,
        file: &dyn OpenFile,
        request: &LockRequest,
        mut caller: signals::Caller,
    ) -> Result<()> {
        let mut watch = file.watch_locks();
        let mut look = tokio::time::interval(LOOK);
        loop {
            match file.lock(request).await {
                Err(error) if error.errno() == Errno::EAGAIN => {}
                done => return done,
            }
            for _ in 0..LOOKS {
                tokio::select! {
                    biased;
                    _ = look.tick() => {}
                    () = watch.freed() => break,
                }
                if caller.is_interrupted() {
                    return Err(Error::new("lock", Errno::EINTR).context("a signal came"));
                }
                if self.has_ended() {
                    return Err(Error::new("lock", Errno::EIO).context("the session ended"));
                }
            }
        }
    }

    /// A lock was taken. Its owner must not read what the kernel remembers from before the last holder gave it back.
    async fn granted(&self, file: &dyn OpenFile, request: &LockRequest) -> Result<()> {
        if self.progress.caught_up(TELLING).await {
            return Ok(());
        }
        file.unlock(request.owner, request.range).await?;
        Err(Error::new("lock", Errno::EIO).context("the kernel does not take what it is told of changes by others"))
    }

    /// An open file is no more, and with it go the locks that were taken through it.
    pub(super) fn release(self: &Arc<Core>, node: NodeId, handle: FileHandle, reply: ReplyEmpty) {
        let (core, opened) = (self.clone(), self.handles.remove(handle.0));
        let work = async move {
            let given_back = match &opened {
                Some(opened) => give_back(opened).await,
                None => Ok(()),
            };
            drop(opened);
            core.backings.let_go(node);
            given_back
        };
        self.dispatcher.serve(Operation::Release, reply, work, |(), reply| ok(reply));
    }

    /// The kernel has let go of open files without a RELEASE.
    pub(super) fn abandon(&self, files: Vec<Opened>) {
        let locked = files.into_iter().filter(|opened| !opened.lockers.lock().is_empty());
        for opened in locked {
            self.dispatcher.spawn(async move {
                if let Err(error) = give_back(&opened).await {
                    tracing::warn!(%error, "locks of a session that ended could not be given back");
                }
            });
        }
    }
}

/// Gives back the locks that were taken through an open file.
async fn give_back(opened: &Opened) -> Result<()> {
    let owners = std::mem::take(&mut *opened.lockers.lock());
    let mut result = Ok(());
    for owner in owners {
        result = result.and(opened.file.unlock(owner, LockRange::WHOLE).await);
    }
    result
}
