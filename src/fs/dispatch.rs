//! How a request is served.
//!
//! A handler is a future. It is polled once in the session's thread; most are ready then (a cache hit, a system call),
//! and their reply goes out right there. The others move to the runtime, so that a session thread never waits for a
//! remote store.

use super::convert;
use super::counters::{Counters, Operation};
use crate::types::{Errno, Error, Result};
use futures::FutureExt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::Handle;

/// How long an operation may take. The kernel cannot tell us that a caller was killed (fuser answers INTERRUPT
/// itself), so this is what ends a wait for a store that hangs.
///
/// Past it the answer is `EIO`, not `ETIMEDOUT`: every file operation of POSIX may give `EIO` and programs stop on it,
/// while `ETIMEDOUT` is a socket's error that several runtimes retry.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// A reply that can refuse.
pub(super) trait Reply: Send + 'static {
    /// Answers with an error number.
    fn refuse(self, errno: Errno);
}

macro_rules! replies {
    ($($reply:ident)*) => {
        $(impl Reply for fuser::$reply {
            fn refuse(self, errno: Errno) {
                self.error(convert::errno(errno));
            }
        })*
    };
}

replies! {
    ReplyAttr ReplyCreate ReplyData ReplyDirectory ReplyDirectoryPlus ReplyEmpty ReplyEntry ReplyLseek ReplyOpen
    ReplyLock ReplyStatfs ReplyWrite ReplyXattr
}

/// Serves the requests of one session.
pub(super) struct Dispatcher {
    runtime: Handle,
    counters: Arc<Counters>,
    deadline: Duration,
}

/// A request under way: what works on it, whom to reply to, and how.
struct Request<R, T, W, A> {
    operation: Operation,
    counters: Arc<Counters>,
    reply: R,
    work: Pin<Box<W>>,
    answer: A,
    result: std::marker::PhantomData<fn() -> T>,
}

impl Dispatcher {
    /// Futures that are not ready at once run on `runtime`.
    pub(super) fn new(runtime: Handle, counters: Arc<Counters>, deadline: Duration) -> Dispatcher {
        Dispatcher { runtime, counters, deadline }
    }

    /// Serves one request: `answer` gets what `work` comes to, and the reply to give it to. The reply is `None` where
    /// the deadline has passed meanwhile; then `answer` gives back what the kernel will not know of. `work` is never
    /// cut off in the middle: an operation that has begun ends as it may.
    ///
    /// A panic answers `EIO` (that is what fuser sends for a reply that is dropped) and is logged.
    pub(super) fn serve<R, T, W, A>(&self, operation: Operation, reply: R, work: W, answer: A)
    where
        R: Reply,
        T: Send + 'static,
        W: Future<Output = Result<T>> + Send + 'static,
        A: FnOnce(T, Option<R>) + Send + 'static,
    {
        self.serve_within(Some(self.deadline), operation, reply, work, answer);
    }

    /// Runs what no caller waits for.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Serves a request that may take as long as it likes: its work ends by itself when its caller is to go on.
    pub(super) fn serve_waiting<R, T, W, A>(&self, operation: Operation, reply: R, work: W, answer: A)
    where
        R: Reply,
        T: Send + 'static,
        W: Future<Output = Result<T>> + Send + 'static,
        A: FnOnce(T, R) + Send + 'static,
    {
        self.serve_within(None, operation, reply, work, |value, reply| {
            if let Some(reply) = reply {
                answer(value, reply);
            }
        });
    }

    fn serve_within<R, T, W, A>(&self, deadline: Option<Duration>, operation: Operation, reply: R, work: W, answer: A)
    where
        R: Reply,
        T: Send + 'static,
        W: Future<Output = Result<T>> + Send + 'static,
        A: FnOnce(T, Option<R>) + Send + 'static,
    {
        self.counters.asked(operation);
        let request = Request {
            operation,
            counters: self.counters.clone(),
            reply,
            work: Box::pin(work),
            answer,
            result: std::marker::PhantomData,
        };
        if catch_unwind(AssertUnwindSafe(|| self.start(request, deadline))).is_err() {
            panicked(operation);
        }
    }

    fn start<R, T, W, A>(&self, mut request: Request<R, T, W, A>, deadline: Option<Duration>)
    where
        R: Reply,
        T: Send + 'static,
        W: Future<Output = Result<T>> + Send + 'static,
        A: FnOnce(T, Option<R>) + Send + 'static,
    {
        // Timers and connections that the future makes at its first poll belong to the runtime.
        let _context = self.runtime.enter();
        if let Poll::Ready(result) = request.work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return request.finish(result);
        }
        self.counters.waited();
        let (operation, waiting) = (request.operation, request.wait(deadline));
        self.runtime.spawn(AssertUnwindSafe(waiting).catch_unwind().map(move |ended| {
            if ended.is_err() {
                panicked(operation);
            }
        }));
    }
}

impl<R, T, W, A> Request<R, T, W, A>
where
    R: Reply,
    W: Future<Output = Result<T>>,
    A: FnOnce(T, Option<R>),
{
    fn finish(self, result: Result<T>) {
        match result {
            Ok(value) => (self.answer)(value, Some(self.reply)),
            Err(error) => {
                refused(self.operation, &error, &self.counters);
                self.reply.refuse(told(&error));
            }
        }
    }

    async fn wait(mut self, deadline: Option<Duration>) {
        let Some(deadline) = deadline else {
            let result = self.work.as_mut().await;
            return self.finish(result);
        };
        match tokio::time::timeout(deadline, self.work.as_mut()).await {
            Ok(result) => self.finish(result),
            Err(_) => {
                let operation = self.operation.name();
                tracing::error!(operation, "no answer within {deadline:?}: gave up with EIO");
                self.counters.timed_out();
                self.counters.failed();
                self.reply.refuse(Errno::EIO);
                if let Ok(value) = self.work.await {
                    tracing::warn!(operation, "came to an end after its caller was given up");
                    (self.answer)(value, None);
                }
            }
        }
    }
}

/// The error number that the kernel is given. See [`DEADLINE`].
fn told(error: &Error) -> Errno {
    match error.errno() {
        Errno::ETIMEDOUT => Errno::EIO,
        errno => errno,
    }
}

fn refused(operation: Operation, error: &Error, counters: &Counters) {
    // A name that is not there is an ordinary answer.
    if error.errno() == Errno::ENOENT {
        return;
    }
    counters.failed();
    if told(error) == Errno::EIO {
        tracing::warn!(operation = operation.name(), %error, "failed");
    } else {
        tracing::debug!(operation = operation.name(), %error, "refused");
    }
}

fn panicked(operation: Operation) {
    tracing::error!(operation = operation.name(), "a handler panicked (a fault in workfs): answered EIO");
}
