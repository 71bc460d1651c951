//! News to any number of listeners in this process, none of which holds up whoever tells it.

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::broadcast::{self, error::RecvError};

/// Tells news, in the order in which it is given them.
pub(super) struct Broadcast<T> {
    sender: broadcast::Sender<T>,
    lost: T,
}

impl<T: Clone + Send + 'static> Broadcast<T> {
    /// A listener that falls more than `backlog` behind is told `lost` for what it missed.
    pub fn new(backlog: usize, lost: T) -> Broadcast<T> {
        Broadcast { sender: broadcast::Sender::new(backlog), lost }
    }

    /// Tells what `news` gives, which is not asked where nobody listens.
    pub fn tell(&self, news: impl FnOnce() -> T) {
        if self.sender.receiver_count() > 0 {
            // It fails only if the last listener has just gone.
            let _ = self.sender.send(news());
        }
    }

    /// What is told from now on. It ends with the teller.
    pub fn listen(&self) -> BoxStream<'static, T> {
        stream::unfold((self.sender.subscribe(), self.lost.clone()), |(mut news, lost)| async move {
            match news.recv().await {
                Ok(told) => Some((told, (news, lost))),
                Err(RecvError::Lagged(_)) => Some((lost.clone(), (news, lost))),
                Err(RecvError::Closed) => None,
            }
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_listener_that_lags_is_told_so_and_goes_on() {
        let numbers = Broadcast::new(4, -1);
        numbers.tell(|| unreachable!("nobody listens"));
        let mut told = numbers.listen();
        (0..=4).for_each(|number| numbers.tell(|| number));
        drop(numbers);
        let mut next = || told.next().now_or_never().expect("it does not wait");
        assert_eq!([next(), next(), next()], [Some(-1), Some(1), Some(2)]);
        assert_eq!([next(), next(), next()], [Some(3), Some(4), None]);
    }
}
