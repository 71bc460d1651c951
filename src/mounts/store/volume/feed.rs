//! The stream of the store's changes, which two kinds of callers take from: the listening task, and whoever is about to
//! open a file and must first see what has reached this machine.

use super::super::engine::StoreChange;
use futures::stream::{BoxStream, StreamExt};
use parking_lot::Mutex;
use std::task::{Context, Poll, Waker};

/// The changes that nobody has taken in yet.
pub struct Feed(Mutex<State>);

struct State {
    changes: Option<BoxStream<'static, StoreChange>>,
    /// Wakes the listening task. A stream remembers only who polled it last, so everybody polls in its name.
    listener: Waker,
}

/// What a look at the stream found.
pub enum Found {
    /// Nothing more for now.
    Nothing,
    /// It ended, just now or before.
    End,
}

impl Feed {
    pub fn new(changes: BoxStream<'static, StoreChange>) -> Feed {
        Feed(Mutex::new(State { changes: Some(changes), listener: Waker::noop().clone() }))
    }

    /// Takes in all that is there, in order; nobody else does so meanwhile.
    pub fn drain(&self, mut take_in: impl FnMut(StoreChange)) -> Found {
        let mut state = self.0.lock();
        let State { changes, listener } = &mut *state;
        let Some(stream) = changes else { return Found::End };
        loop {
            match stream.poll_next_unpin(&mut Context::from_waker(listener)) {
                Poll::Ready(Some(change)) => take_in(change),
                Poll::Ready(None) => {
                    *changes = None;
                    return Found::End;
                }
                Poll::Pending => return Found::Nothing,
            }
        }
    }

    /// Has this waker called when something comes.
    pub fn listen(&self, waker: &Waker) {
        self.0.lock().listener.clone_from(waker);
    }
}
