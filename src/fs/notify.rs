//! Tells the kernel what it may remember no longer.
//!
//! One thread of its own for each session, which holds no lock while it tells: the kernel makes it wait for requests
//! that are under way in the same directory or page, and those must get their answers meanwhile.

use super::core::Core;
use super::known::Told;
use super::notice::Notice;
use super::progress::Bell;
use crate::types::{ChangeKind, ChangeStream, Name, NodeId};
use fuser::{INodeNo, Notifier};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;

/// The most that is taken from the feed at once; what is told twice in it goes out once.
const BATCH: usize = 1024;

/// A reply that told of a node may still be on its way into the kernel when the change of that node is told, which
/// the kernel would then pass over. A node that was told this recently is withdrawn once more when as much has passed.
const SETTLE: Duration = Duration::from_millis(50);

/// Starts the thread. It ends with [`Notice::End`], or when the kernel has let go of the session.
pub(super) fn spawn(
    core: Arc<Core>,
    notifier: Notifier,
    changes: ChangeStream,
    notices: UnboundedReceiver<Notice>,
    runtime: Handle,
) -> io::Result<JoinHandle<()>> {
    let changes = changes.map(Notice::Change).chain(stream::once(async { Notice::Starved }));
    let own = stream::unfold(notices, |mut notices| async { Some((notices.recv().await?, notices)) });
    let feed = stream::select(changes, own).boxed();
    let teller = Teller { core, notifier, again: Vec::new() };
    std::thread::Builder::new().name("workfs-notify".into()).spawn(move || {
        // What the feed waits with belongs to the runtime.
        let _context = runtime.enter();
        let progress = teller.core.progress.clone();
        teller.run(feed);
        progress.end();
    })
}

struct Teller {
    core: Arc<Core>,
    notifier: Notifier,
    /// What to withdraw once more, and when.
    again: Vec<(Instant, ChangeKind)>,
}

/// What was taken from the feed at once.
struct Taken {
    notices: Vec<Notice>,
    /// The feed had no more.
    all: bool,
}

/// The session is over.
struct Over;

impl Teller {
    fn run(mut self, mut feed: BoxStream<'static, Notice>) {
        let progress = self.core.progress.clone();
        let bell = Waker::from(Bell::new(progress.clone()));
        loop {
            let arrived = progress.arrived();
            let Ok(taken) = take(&mut feed, &bell) else { return };
            let idle = taken.notices.is_empty();
            if self.tell_all(taken.notices).and_then(|()| self.tell_again()).is_err() {
                return;
            }
            if taken.all {
                progress.told(arrived);
            }
            if idle {
                std::thread::park_timeout(self.rest());
            }
        }
    }

    /// How long there is nothing to tell once more.
    fn rest(&self) -> Duration {
        let next = self.again.first().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        next.unwrap_or(Duration::from_secs(3600))
    }

    fn tell_all(&mut self, notices: Vec<Notice>) -> Result<(), Over> {
        let mut seen = HashSet::new();
        for notice in notices {
            match notice {
                Notice::Change(change)
                    if change.origin == self.core.origin && change.kind != ChangeKind::Everything => {}
                Notice::Change(change) if !seen.insert(change.kind.clone()) => {}
                Notice::Change(change) => self.change(change.kind)?,
                Notice::Attributes(node) => self.inode(node, -1, 0)?,
                Notice::Names if self.core.known.full() => {
                    tracing::info!("the kernel remembers very many names: all are withdrawn");
                    self.names()?;
                }
                Notice::Names => {}
                Notice::Starved => {
                    tracing::debug!("no more changes are told: what the kernel remembers is good for a second");
                    self.core.known.starve();
                    self.everything()?;
                }
                Notice::End => return Err(Over),
            }
        }
        Ok(())
    }

    fn change(&mut self, kind: ChangeKind) -> Result<(), Over> {
        self.core.counters.notified();
        match &kind {
            ChangeKind::Entry { parent, name } => {
                self.core.known.recent.note(*parent);
                self.core.known.gone(*parent, name);
                self.entry(*parent, name)?;
                // A name that the kernel does not remember still changes its directory's listing and times.
                return self.inode(*parent, 0, 0);
            }
            ChangeKind::Attr(node) => self.core.known.recent.note(*node),
            ChangeKind::Data { node, .. } => {
                self.core.known.recent.note(*node);
                self.core.known.changed(*node);
            }
            ChangeKind::Everything => {
                tracing::warn!("the feed of changes was interrupted: the kernel forgets all it remembers");
                return self.everything();
            }
        }
        self.withdraw(&kind)?;
        if let ChangeKind::Attr(node) | ChangeKind::Data { node, .. } = kind
            && self.core.known.told_within(node, SETTLE)
        {
            self.again.push((Instant::now() + SETTLE, kind));
        }
        Ok(())
    }

    fn tell_again(&mut self) -> Result<(), Over> {
        let now = Instant::now();
        let due = self.again.partition_point(|(due, _)| *due <= now);
        let due: Vec<_> = self.again.drain(..due).collect();
        due.iter().try_for_each(|(_, kind)| self.withdraw(kind))
    }

    /// Withdraws attributes or bytes of one node.
    fn withdraw(&self, kind: &ChangeKind) -> Result<(), Over> {
        match kind {
            // A directory's pages are its listing.
            ChangeKind::Attr(node) if self.core.known.is_directory(*node) => self.inode(*node, 0, 0),
            ChangeKind::Attr(node) => self.inode(*node, -1, 0),
            ChangeKind::Data { node, offset, len } => {
                // The kernel reads a length of 0 as "to the end".
                let offset = i64::try_from(*offset).unwrap_or(i64::MAX);
                self.inode(*node, offset, i64::try_from(*len).unwrap_or(0))
            }
            ChangeKind::Entry { .. } | ChangeKind::Everything => Ok(()),
        }
    }

    /// First the names: to withdraw one the kernel waits for the lookups under way in its directory, so that
    /// afterwards every node that was ever told is there to be withdrawn.
    fn everything(&mut self) -> Result<(), Over> {
        self.core.known.recent.sweep();
        self.names()?.into_iter().try_for_each(|node| self.inode(node, 0, 0))
    }

    /// Withdraws every name that was told and is not pinned, and returns the nodes that are known.
    fn names(&mut self) -> Result<Vec<NodeId>, Over> {
        let mut nodes = vec![NodeId(INodeNo::ROOT.0)];
        for told in self.core.known.take_names() {
            for Told { node, names } in told {
                names.iter().try_for_each(|name| self.entry(node, name))?;
                nodes.push(node);
            }
        }
        Ok(nodes)
    }

    fn entry(&self, parent: NodeId, name: &Name) -> Result<(), Over> {
        over(self.notifier.inval_entry(INodeNo(parent.0), name.as_os_str()))
    }

    /// From a negative `offset` on, only attributes.
    fn inode(&self, node: NodeId, offset: i64, len: i64) -> Result<(), Over> {
        over(self.notifier.inval_inode(INodeNo(node.0), offset, len))
    }
}

/// Takes what the feed has, up to [`BATCH`]; when it has more, `bell` rings.
fn take(feed: &mut BoxStream<'static, Notice>, bell: &Waker) -> Result<Taken, Over> {
    let mut notices = Vec::new();
    while notices.len() < BATCH {
        match feed.as_mut().poll_next(&mut Context::from_waker(bell)) {
            Poll::Ready(Some(notice)) => notices.push(notice),
            Poll::Ready(None) => return Err(Over),
            Poll::Pending => return Ok(Taken { notices, all: true }),
        }
    }
    Ok(Taken { notices, all: false })
}

/// What the kernel does not know cannot be withdrawn (fuser passes over that); a session that is gone is over.
fn over(told: io::Result<()>) -> Result<(), Over> {
    match told {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOTCONN | libc::ECONNABORTED)) => {
            Err(Over)
        }
        Err(error) => {
            tracing::debug!(%error, "the kernel took no notice of a change");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
