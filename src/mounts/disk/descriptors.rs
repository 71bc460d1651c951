//! Files that are open for reading and writing, kept a little while for the next request.
//!
//! Where opens are stateless nobody tells us when a program closes a file, so descriptors are kept by use: a bounded
//! number of them, and none for long. One that can write must go soon, since a program cannot be started while anybody
//! could write to its file (`ETXTBSY`), and others wait for the close (`IN_CLOSE_WRITE`). One that only reads goes
//! later; until then it keeps the space of a file that was removed beside the volume.

use super::fd_cache::FdCache;
use super::nodes::Node;
use crate::mounts::CacheUse;
use crate::types::{Access, Result};
use parking_lot::{Condvar, Mutex};
use rustix::fs::OFlags;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The most descriptors that are kept.
const KEPT: usize = 128;

/// How long one that can write is kept after its last use.
const WRITER_IDLE: Duration = Duration::from_millis(5);

/// How long one that only reads is kept.
const READER_IDLE: Duration = Duration::from_secs(2);

/// How often the sweeper looks while there are writers.
const TICK: Duration = Duration::from_millis(5);

/// A descriptor that bytes are read from and written to.
pub struct Backing {
    /// The descriptor.
    pub fd: OwnedFd,
    access: Access,
    /// Its last use, in milliseconds since the volume was opened.
    used: AtomicU64,
}

impl Backing {
    /// Wraps a descriptor that was opened for `access`.
    pub fn new(fd: OwnedFd, access: Access) -> Backing {
        Backing { fd, access, used: AtomicU64::new(0) }
    }

    /// Whether it can serve somebody who opens for `access`.
    fn serves(&self, access: Access) -> bool {
        self.access == Access::ReadWrite || self.access == access
    }

    /// Whether bytes can be written through it.
    pub fn writes(&self) -> bool {
        self.access.writes()
    }
}

/// How the sweeper waits.
mod sleep {
    /// Not for long: nobody need wake it.
    pub const SHORT: u8 = 0;
    /// Until a reader is idle: whoever keeps a writer wakes it.
    pub const LONG: u8 = 1;
    /// Until there is anything: whoever keeps one wakes it.
    pub const FOR_EVER: u8 = 2;
}

/// The descriptors kept by one volume, and the thread that closes them.
pub struct Descriptors {
    start: Instant,
    /// By [`Node::serial`].
    kept: FdCache<Arc<Backing>>,
    stop: Mutex<bool>,
    wake: Condvar,
    /// What may wake the sweeper: see `sleep`.
    sleep: AtomicU8,
    running: AtomicBool,
}

impl Descriptors {
    /// None yet.
    pub fn new() -> Arc<Descriptors> {
        Arc::new(Descriptors {
            start: Instant::now(),
            kept: FdCache::new(KEPT),
            stop: Mutex::new(false),
            wake: Condvar::new(),
            sleep: AtomicU8::new(sleep::SHORT),
            running: AtomicBool::new(false),
        })
    }

    /// A descriptor of the node's file that serves `access`: one that is kept, or a new one from `open`.
    pub fn get(
        self: &Arc<Self>,
        node: &Node,
        access: Access,
        open: impl Fn(OFlags) -> Result<OwnedFd>,
    ) -> Result<Arc<Backing>> {
        if let Some(backing) = self.kept.get(&node.serial).filter(|backing| backing.serves(access)) {
            backing.used.store(self.now(), Relaxed);
            return Ok(backing);
        }
        let backing = Arc::new(open_for(access, open)?);
        self.keep(node, &backing);
        Ok(backing)
    }

    /// Keeps a descriptor for the requests that will follow.
    pub fn keep(self: &Arc<Self>, node: &Node, backing: &Arc<Backing>) {
        backing.used.store(self.now(), Relaxed);
        self.kept.insert(node.serial, Arc::clone(backing));
        if !self.running.swap(true, SeqCst) {
            self.start_sweeper();
        }
        let enough = if backing.writes() { sleep::LONG } else { sleep::FOR_EVER };
        if self.sleep.load(SeqCst) >= enough {
            let _guard = self.stop.lock();
            self.sleep.store(sleep::SHORT, SeqCst);
            self.wake.notify_one();
        }
    }

    /// How they are used.
    pub fn usage(&self) -> CacheUse {
        CacheUse::of("open files", false, &self.kept)
    }

    /// Closes what is kept of a node.
    pub fn let_go(&self, node: &Node) {
        self.kept.remove(&node.serial);
    }

    /// Closes everything that is kept.
    pub fn let_go_of_all(&self) {
        self.kept.clear();
    }

    /// Ends the sweeper; what is kept is closed with the last owner.
    pub fn end(&self) {
        *self.stop.lock() = true;
        self.wake.notify_all();
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    fn start_sweeper(self: &Arc<Self>) {
        let descriptors = Arc::clone(self);
        let started = std::thread::Builder::new().name("workfs-sweeper".into()).spawn(move || descriptors.run());
        if let Err(error) = started {
            // Without it descriptors stay open until others need the room: slower to close, nothing else.
            tracing::warn!(%error, "no thread to close idle files with");
        }
    }

    fn run(&self) {
        let mut stop = self.stop.lock();
        while !*stop {
            // What is kept is looked at only after this, so that whoever keeps one either is seen here or wakes us.
            self.sleep.store(sleep::FOR_EVER, SeqCst);
            if self.kept.is_empty() {
                self.wake.wait(&mut stop);
                continue;
            }
            self.sleep.store(sleep::LONG, SeqCst);
            if self.kept.iter().any(|(_, backing)| backing.writes()) {
                self.sleep.store(sleep::SHORT, SeqCst);
                self.wake.wait_for(&mut stop, TICK);
            } else {
                self.wake.wait_for(&mut stop, READER_IDLE / 2);
            }
            parking_lot::MutexGuard::unlocked(&mut stop, || self.sweep());
        }
    }

    fn sweep(&self) {
        let now = self.now();
        let limit = |backing: &Backing| if backing.writes() { WRITER_IDLE } else { READER_IDLE }.as_millis() as u64;
        let is_idle = |backing: &Backing| now.saturating_sub(backing.used.load(Relaxed)) >= limit(backing);
        let idle: Vec<u64> = self.kept.iter().filter(|(_, backing)| is_idle(backing)).map(|(node, _)| node).collect();
        for node in idle {
            // Closed here, where no lock is held: a close may write back.
            drop(self.kept.remove_if(&node, |backing| is_idle(backing)));
        }
    }
}

/// Opens for `access`, and for reading too where it will be written: the next request often reads.
fn open_for(access: Access, open: impl Fn(OFlags) -> Result<OwnedFd>) -> Result<Backing> {
    let both = || open(OFlags::RDWR).map(|fd| Backing::new(fd, Access::ReadWrite));
    match access {
        Access::Read => open(OFlags::RDONLY).map(|fd| Backing::new(fd, Access::Read)),
        Access::ReadWrite => both(),
        Access::Write => both().or_else(|_| open(OFlags::WRONLY).map(|fd| Backing::new(fd, Access::Write))),
    }
}
