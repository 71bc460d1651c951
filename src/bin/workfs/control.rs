//! The control socket of a mount: one line of JSON asks, one answers.

use crate::failure::Failure;
use crate::report::Report;
use crate::state::{Entry, short_path};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// The longest line that either side takes.
const LINE: u64 = 1 << 20;
/// How long either side may take to send its line once it has one.
const TRANSFER: Duration = Duration::from_secs(10);

/// What can be asked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// How are you?
    Status,
    /// Unmount, write everything out and end.
    Unmount {
        /// Even if programs use it.
        lazy: bool,
    },
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To `Status`.
    Status(Box<Report>),
    /// To `Unmount`: it is unmounted, and everything is written out.
    Done,
    /// To `Unmount`: it is ending already, and was not asked by this one.
    Ending,
    /// It failed.
    Failed(Failure),
}

/// Who answers requests.
pub trait Answer: Send + Sync + 'static {
    /// The reply to a request.
    fn answer(&self, request: Request) -> impl Future<Output = Reply> + Send;
}

/// Listens at `socket`, open to this user only; one that a dead process left is replaced.
///
/// # Errors
/// What `bind(2)` says.
pub fn listen(socket: &Path) -> io::Result<UnixListener> {
    let _ = std::fs::remove_file(socket);
    let (short, _folder) = short_path(socket)?;
    let listener = UnixListener::bind(short)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers whoever connects, each in a task of its own, until it is dropped. Returns never.
///
/// Where no more files can be opened, one that is held for this is given up for a moment: a mount in that state is the
/// one whose status is asked.
pub async fn serve(listener: UnixListener, answer: Arc<impl Answer>) {
    let mut held = None;
    loop {
        held = held.or_else(|| File::open("/dev/null").ok());
        let mut accepted = listener.accept().await;
        if accepted.is_err() && held.take().is_some() {
            accepted = listener.accept().await;
        }
        match accepted {
            Ok((stream, _)) => {
                let answer = answer.clone();
                tokio::spawn(async move {
                    if let Err(error) = converse(stream, &*answer).await {
                        tracing::debug!("control socket: {error}");
                    }
                });
            }
            Err(error) => {
                tracing::warn!("control socket: accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn converse(mut stream: UnixStream, answer: &impl Answer) -> io::Result<()> {
    let line = timeout(TRANSFER, read_line(&mut stream)).await??;
    let reply = match serde_json::from_slice(&line) {
        Ok(request) => answer.answer(request).await,
        Err(error) => Reply::Failed(Failure::new(format!("not understood: {error}"))),
    };
    timeout(TRANSFER, write_line(&mut stream, &reply)).await?
}

/// Asks the process behind `socket`, and waits at most `deadline` for its answer.
///
/// # Errors
/// `TimedOut` where none came; what `connect(2)` says; `InvalidData` for an answer that is not understood.
pub async fn ask(socket: &Path, request: Request, deadline: Duration) -> io::Result<Reply> {
    let conversation = async {
        let (short, _folder) = short_path(socket)?;
        let mut stream = UnixStream::connect(short).await?;
        write_line(&mut stream, &request).await?;
        Ok(serde_json::from_slice(&read_line(&mut stream).await?)?)
    };
    timeout(deadline, conversation).await?
}

/// As [`ask`], for a command that asks one thing at a time.
///
/// # Errors
/// Those of [`ask`]; what `epoll_create(2)` says.
pub fn ask_and_wait(socket: &Path, request: Request, deadline: Duration) -> io::Result<Reply> {
    runtime()?.block_on(ask(socket, request, deadline))
}

/// Asks the process of `entry` how it is; `None`: it is gone. One that does not listen is just starting, or was killed
/// and is about to be gone: it is given `patience` for that.
///
/// # Errors
/// Those of [`ask`].
pub async fn ask_status(
    socket: &Path,
    entry: &Entry,
    deadline: Duration,
    patience: Duration,
) -> io::Result<Option<Reply>> {
    let end = Instant::now() + patience;
    while entry.is_alive() {
        match ask(socket, Request::Status, deadline).await {
            Err(error) if error.kind() != io::ErrorKind::TimedOut && Instant::now() < end => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            answer => return answer.map(Some),
        }
    }
    Ok(None)
}

/// The runtime of a command that only asks.
///
/// # Errors
/// What `epoll_create(2)` says.
pub fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(stream.take(LINE)).read_until(b'\n', &mut line).await?;
    Ok(line)
}

async fn write_line(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Slow;

    impl Answer for Slow {
        async fn answer(&self, request: Request) -> Reply {
            match request {
                Request::Status => std::future::pending().await,
                Request::Unmount { lazy } => Reply::Failed(Failure::new(format!("lazy: {lazy}"))),
            }
        }
    }

    #[tokio::test]
    async fn a_question_is_answered_or_times_out() {
        let folder = tempfile::tempdir().expect("a folder");
        // Longer than a socket's address may be.
        let deep = folder.path().join("d".repeat(150));
        std::fs::create_dir(&deep).expect("made");
        let socket = deep.join("x.sock");
        let server = tokio::spawn(serve(listen(&socket).expect("bound"), Arc::new(Slow)));
        let second = Duration::from_secs(5);
        match ask(&socket, Request::Unmount { lazy: true }, second).await.expect("answered") {
            Reply::Failed(failure) => assert_eq!(failure.text, "lazy: true"),
            other => panic!("{other:?}"),
        }
        let error = ask(&socket, Request::Status, Duration::from_millis(50)).await.expect_err("silent");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        server.abort();
        let _ = server.await;
        let error = ask(&socket, Request::Status, second).await.expect_err("nobody listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        listen(&socket).expect("what a dead process left is replaced");
    }
}
