//! Telling changes made through the volume to whoever listens.

use crate::types::{Caller, Change, ChangeKind, ChangeStream, Name, NodeId, Origin};
use futures::{StreamExt, stream};
use tokio::sync::broadcast::{self, error::RecvError};

/// How many changes a listener may lag behind before it is told to forget everything.
const BACKLOG: usize = 16 * 1024;

/// The changes of one volume.
pub struct Feed(broadcast::Sender<Change>);

impl Feed {
    /// Nobody listens yet.
    pub fn new() -> Feed {
        Feed(broadcast::Sender::new(BACKLOG))
    }

    /// The changes from now on.
    pub fn listen(&self) -> ChangeStream {
        let lost = Change { origin: Origin::OUTSIDE, kind: ChangeKind::Everything };
        stream::unfold((self.0.subscribe(), lost), |(mut changes, lost)| async move {
            match changes.recv().await {
                Ok(change) => Some((change, (changes, lost))),
                Err(RecvError::Lagged(_)) => Some((lost.clone(), (changes, lost))),
                Err(RecvError::Closed) => None,
            }
        })
        .boxed()
    }

    /// Tells what `caller` did. The change is made when nobody listens too, so it costs nothing then.
    pub fn tell(&self, caller: &Caller, kind: impl FnOnce() -> ChangeKind) {
        if self.0.receiver_count() > 0 {
            // It fails only if the last listener has just gone.
            let _ = self.0.send(Change { origin: caller.origin, kind: kind() });
        }
    }

    /// Tells that `name` in `dir` came, went or means another file, by which the directory changed.
    pub fn tell_entry(&self, caller: &Caller, dir: NodeId, name: &Name) {
        self.tell(caller, || ChangeKind::Entry { parent: dir, name: name.clone() });
        self.tell(caller, || ChangeKind::Attr(dir));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_listener_that_lags_is_told_to_forget_everything() {
        let feed = Feed::new();
        let mut changes = feed.listen();
        let caller = Caller { uid: 0, gid: 0, tid: 0, origin: Origin::new() };
        for node in 0..=BACKLOG as u64 {
            feed.tell(&caller, || ChangeKind::Attr(NodeId(node)));
        }
        let first = changes.next().now_or_never().flatten().expect("told");
        assert_eq!(first.kind, ChangeKind::Everything);
        let next = changes.next().now_or_never().flatten().expect("told");
        assert_eq!(next, Change { origin: caller.origin, kind: ChangeKind::Attr(NodeId(1)) });
        drop(feed);
    }
}
