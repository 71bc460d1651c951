//! Work that its caller begins and may leave.

use futures::future::BoxFuture;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

/// A future that goes on as a task when it is dropped.
pub struct Unstoppable {
    rest: Option<BoxFuture<'static, ()>>,
    runtime: Handle,
}

impl Unstoppable {
    /// Whether it is waited for or not, `future` comes to its end, on `runtime` at the latest.
    pub fn new(future: BoxFuture<'static, ()>, runtime: Handle) -> Unstoppable {
        Unstoppable { rest: Some(future), runtime }
    }
}

impl Future for Unstoppable {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(()) };
        let done = rest.as_mut().poll(context);
        if done.is_ready() {
            self.rest = None;
        }
        done
    }
}

impl Drop for Unstoppable {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take() {
            self.runtime.spawn(rest);
        }
    }
}
