//! What all requests of one session share.

use super::convert;
use super::counters::{Counters, Operation};
use super::dispatch::Dispatcher;
use super::handles::Handles;
use super::known::Known;
use super::notice::Notice;
use super::passthrough::Backings;
use super::progress::Progress;
use super::recent::Stamp;
use crate::mounts::{Capabilities, OpenStyle, Volume};
use crate::types::{Attr, Caller, Entry, LockOwner, Name, NodeId, Origin, Result};
use fuser::{ReplyAttr, ReplyEntry, Request};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;

/// A session's volume, and what the kernel holds of it.
pub(super) struct Core {
    pub(super) volume: Arc<dyn Volume>,
    pub(super) capabilities: Capabilities,
    pub(super) origin: Origin,
    pub(super) known: Known,
    pub(super) progress: Arc<Progress>,
    pub(super) handles: Handles,
    pub(super) backings: Backings,
    pub(super) counters: Arc<Counters>,
    pub(super) dispatcher: Dispatcher,
    /// What the session itself wants the kernel told, by the thread that tells it.
    pub(super) notices: UnboundedSender<Notice>,
    /// The kernel has let go of the session.
    ended: AtomicBool,
    /// How many entries to ask for in a listing, plain and with attributes.
    pub(super) page: [PageSize; 2],
}

impl Core {
    /// For a volume whose root is node 1, as that of a subtree is.
    pub(super) fn new(
        volume: Arc<dyn Volume>,
        runtime: Handle,
        deadline: Duration,
        notices: UnboundedSender<Notice>,
    ) -> Arc<Core> {
        let (capabilities, counters) = (volume.capabilities(), Arc::new(Counters::default()));
        Arc::new(Core {
            capabilities,
            origin: Origin::new(),
            known: Known::new(capabilities.freshness),
            progress: Arc::default(),
            handles: Handles::default(),
            backings: Backings::default(),
            dispatcher: Dispatcher::new(runtime, counters.clone(), deadline),
            counters,
            notices,
            ended: AtomicBool::new(false),
            page: [PageSize::default(), PageSize::default()],
            volume,
        })
    }

    pub(super) fn caller(&self, request: &Request) -> Caller {
        convert::caller(request, self.origin)
    }

    /// Whose a lock is.
    pub(super) fn locker(&self, owner: fuser::LockOwner) -> LockOwner {
        LockOwner { origin: self.origin, number: owner.0 }
    }

    /// Whether opens, closes and flushes mean nothing to the volume.
    pub(super) fn stateless(&self) -> bool {
        self.capabilities.opens == OpenStyle::Stateless
    }

    /// Whether the kernel has let go of the session.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// The moment before the volume is asked.
    pub(super) fn now(&self) -> Stamp {
        self.known.recent.stamp()
    }

    /// Serves a request that ends in an entry of `dir`. The volume has counted it when it returns, and [`Known`]
    /// counts it before the reply goes out, since a FORGET may come at once.
    pub(super) fn serve_entry(
        self: &Arc<Core>,
        operation: Operation,
        dir: NodeId,
        reply: ReplyEntry,
        work: impl Future<Output = Result<(Name, Entry)>> + Send + 'static,
    ) {
        let (core, asked) = (self.clone(), self.now());
        self.dispatcher.serve(operation, reply, work, move |(name, entry), reply| {
            core.reply_entry(asked, dir, &name, &entry, reply);
        });
    }

    pub(super) fn reply_entry(&self, asked: Stamp, dir: NodeId, name: &Name, entry: &Entry, reply: Option<ReplyEntry>) {
        let Some(reply) = reply else { return self.give_back(entry) };
        match self.known.tell(asked, dir, name, entry) {
            Some(lives) => reply.entry_with_ttls(
                &lives.attr,
                &lives.entry,
                &convert::file_attr(&entry.attr),
                fuser::Generation(entry.generation.0),
            ),
            None => self.give_back(entry),
        }
        self.relieve();
    }

    /// Gives back the count of an entry that the kernel will not know of.
    pub(super) fn give_back(&self, entry: &Entry) {
        self.volume.forget(entry.attr.node, 1);
    }

    /// Asks for all names to be withdrawn when too many are kept.
    pub(super) fn relieve(&self) {
        if self.known.full() {
            self.notice(Notice::Names);
        }
    }

    pub(super) fn notice(&self, notice: Notice) {
        // Nobody listens any more when the session has ended; then the kernel remembers nothing.
        self.notices.send(notice).ok();
    }

    /// Serves a request that ends in attributes.
    pub(super) fn serve_attr(
        self: &Arc<Core>,
        operation: Operation,
        reply: ReplyAttr,
        work: impl Future<Output = Result<Attr>> + Send + 'static,
    ) {
        let (core, asked) = (self.clone(), self.now());
        self.dispatcher.serve(operation, reply, work, move |attr, reply| {
            if let Some(reply) = reply {
                reply.attr(&core.known.lifetime(asked, &[attr.node]), &convert::file_attr(&attr));
            }
        });
    }

    /// The kernel has let go of everything, without a FORGET or a RELEASE.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.abandon(self.handles.clear());
        for (node, lookups) in self.known.end() {
            self.volume.forget(node, lookups);
        }
        self.notice(Notice::End);
    }
}

/// How many entries fit into a listing's reply. The reply does not say how large it may be, so we ask for what fitted
/// last time, and for more when all of it did.
pub(super) struct PageSize(AtomicUsize);

const LEAST: usize = 16;
const MOST: usize = 2048;

impl Default for PageSize {
    fn default() -> PageSize {
        PageSize(AtomicUsize::new(128))
    }
}

impl PageSize {
    pub(super) fn ask(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Of `listed` entries `fitted` went into the reply.
    pub(super) fn learn(&self, listed: usize, fitted: usize) {
        if fitted < listed {
            self.0.store(fitted.max(LEAST), Ordering::Relaxed);
        } else if listed >= self.ask() {
            self.0.store((listed * 2).min(MOST), Ordering::Relaxed);
        }
    }
}
