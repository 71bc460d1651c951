//! Runs operations of several clients against one store in a given order of their calls.

use super::explore::Explorer;
use super::gate::{Call, Gate, step};
use super::model::{self, How, Id, Model, Op, Seen};
use super::raw;
use bytes::Bytes;
use futures::future::LocalBoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use workfs::mounts::Volume;
use workfs::mounts::store::StoreVolume;
use workfs::mounts::store::engine::Store;
use workfs::mounts::store::memory::MemoryStore;
use workfs::types::{
    Access, Caller, Errno, Mode, Name, NodeId, OpenFlags, Origin, Privileges, RenameMode, Result, SetAttr, XattrMode,
};

const CALLER: Caller = Caller { uid: 0, gid: 0, tid: 0, origin: Origin::OUTSIDE };

/// When a client learns of the others' commits, and what it remembers at the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// It remembers nothing and is told at once.
    Prompt,
    /// It remembers the whole tree and is told only after its operation: all that it knows is old.
    Late,
}

/// What came of a run.
#[derive(Debug)]
pub struct Ran {
    pub outcomes: Vec<std::result::Result<(), Errno>>,
    pub picture: BTreeMap<String, Seen>,
}

type Nodes = BTreeMap<Id, NodeId>;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

async fn perform(volume: &dyn Volume, nodes: &Nodes, op: &Op) -> Result<()> {
    const RW: OpenFlags = OpenFlags::access(Access::ReadWrite);
    let mode = Mode::new(0o644);
    match op {
        Op::Create { dir, name: text, exclusive } => {
            let flags = OpenFlags { exclusive: *exclusive, ..RW };
            volume.create(&CALLER, nodes[dir], &name(text), mode, flags).await.map(drop)
        }
        Op::Mkdir { dir, name: text } => volume.mkdir(&CALLER, nodes[dir], &name(text), mode).await.map(drop),
        Op::Link { file, dir, name: text } => {
            volume.link(&CALLER, nodes[file], nodes[dir], &name(text)).await.map(drop)
        }
        Op::Unlink { dir, name: text } => volume.unlink(&CALLER, nodes[dir], &name(text)).await,
        Op::Rmdir { dir, name: text } => volume.rmdir(&CALLER, nodes[dir], &name(text)).await,
        Op::Rename { from, to, how } => {
            let how = match how {
                How::Replace => RenameMode::Replace,
                How::NoReplace => RenameMode::NoReplace,
                How::Exchange => RenameMode::Exchange,
            };
            volume.rename(&CALLER, nodes[&from.0], &name(from.1), nodes[&to.0], &name(to.1), how).await
        }
        Op::Write { file, offset, bytes } => write(volume, nodes[file], RW, *offset, bytes).await,
        Op::Append { file, bytes } => write(volume, nodes[file], OpenFlags { append: true, ..RW }, 0, bytes).await,
        Op::Truncate { file, size } => volume.setattr(&CALLER, nodes[file], &SetAttr::size(*size)).await.map(drop),
        Op::Xattr { file, name } => volume.setxattr(&CALLER, nodes[file], name.as_bytes(), b"v", XattrMode::Set).await,
    }
}

async fn write(volume: &dyn Volume, node: NodeId, flags: OpenFlags, offset: u64, bytes: &'static str) -> Result<()> {
    let file = volume.open(&CALLER, node, flags).await?;
    file.write_at(&CALLER, offset, Bytes::from_static(bytes.as_bytes()), Privileges::Keep).await?;
    file.flush().await
}

/// Makes the first tree, and tells the numbers of its files.
async fn plant(store: Arc<dyn Store>) -> Nodes {
    let volume = StoreVolume::open(store).await.expect("opens");
    let mut nodes = Nodes::from([(model::ROOT, NodeId(1))]);
    plant_below(&*volume, &Model::first(), model::ROOT, &mut nodes).await;
    volume.close().await.expect("closes");
    nodes
}

async fn plant_below(volume: &dyn Volume, first: &Model, dir: Id, nodes: &mut Nodes) {
    for (text, id) in first.entries(dir).expect("a directory") {
        let (at, text) = (nodes[&dir], name(text));
        match (&first.nodes[id], nodes.get(id)) {
            (_, Some(known)) => drop(volume.link(&CALLER, *known, at, &text).await.expect("link")),
            (model::Body::Dir(_), None) => {
                let made = volume.mkdir(&CALLER, at, &text, Mode::new(0o755)).await.expect("mkdir");
                nodes.insert(*id, made.attr.node);
                Box::pin(plant_below(volume, first, *id, nodes)).await;
            }
            (model::Body::File { bytes, .. }, None) => {
                let flags = OpenFlags::access(Access::ReadWrite);
                let (made, file) = volume.create(&CALLER, at, &text, Mode::new(0o644), flags).await.expect("create");
                file.write_at(&CALLER, 0, bytes.clone().into(), Privileges::Keep).await.expect("write");
                file.flush().await.expect("flush");
                nodes.insert(*id, made.attr.node);
            }
        }
    }
}

/// Has a client remember all that there is.
async fn learn(volume: &dyn Volume, nodes: &Nodes) {
    for (id, body) in &Model::first().nodes {
        volume.getattr(nodes[id]).await.expect("getattr");
        if let model::Body::Dir(_) = body {
            for text in ["a", "b", "c", "d", "f", "g", "h", "n", "sub", "x"] {
                if let Ok(found) = volume.lookup(&CALLER, nodes[id], &name(text)).await {
                    volume.forget(found.attr.node, 1);
                }
            }
        }
    }
    // Numbers are reserved once in a session's life.
    let made = volume.mkdir(&CALLER, NodeId(1), &name("reserve"), Mode::new(0o755)).await.expect("mkdir");
    volume.rmdir(&CALLER, NodeId(1), &name("reserve")).await.expect("rmdir");
    volume.forget(made.attr.node, 1);
}

/// Lets the clients' own tasks run: changes are taken in.
async fn breathe() {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
}

/// A file that is gone is `ESTALE` to who has not looked it up and `ENOENT` to who has; the model does not tell.
fn gone(errno: Errno) -> Errno {
    if errno == Errno::ESTALE { Errno::ENOENT } else { errno }
}

struct Client<'a> {
    future: LocalBoxFuture<'a, Result<()>>,
    outcome: Option<std::result::Result<(), Errno>>,
    /// The call it stopped before.
    call: Call,
}

impl Client<'_> {
    /// Steps the client; one that waits for something else than its turn is given time.
    async fn step(&mut self) {
        loop {
            let mut context = Context::from_waker(Waker::noop());
            let (polled, stopped) = step(|| self.future.as_mut().poll(&mut context));
            match polled {
                Poll::Ready(result) => self.outcome = Some(result.map_err(|error| gone(error.errno()))),
                Poll::Pending => match stopped {
                    Some(call) => self.call = call,
                    None => {
                        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                        continue;
                    }
                },
            }
            return;
        }
    }
}

/// Runs the operations, each by a client of its own, in an order that the explorer has not seen.
pub async fn run(ops: &[Op], news: News, explorer: &mut Explorer) -> Ran {
    let store: Arc<dyn Store> = MemoryStore::new();
    let nodes = plant(store.clone()).await;
    let mut volumes = Vec::new();
    for _ in ops {
        let gate = Gate { inner: store.clone() };
        volumes.push(StoreVolume::open(Arc::new(gate)).await.expect("opens"));
    }
    if news == News::Late {
        for volume in &volumes {
            learn(&**volume, &nodes).await;
        }
    }
    breathe().await;
    let mut clients: Vec<Client<'_>> = ops
        .iter()
        .zip(&volumes)
        .map(|(op, volume)| Client {
            future: Box::pin(perform(&**volume, &nodes, op)),
            outcome: None,
            call: Call::Read,
        })
        .collect();
    drive(&mut clients, news, explorer).await;
    let outcomes = clients.iter().map(|client| client.outcome.expect("all are done")).collect();
    drop(clients);
    breathe().await;
    for volume in &volumes {
        volume.close().await.expect("closes");
    }
    let ids = nodes.iter().map(|(id, node)| (*node, *id)).collect();
    Ran { outcomes, picture: raw::picture(&*store, &ids).await }
}

async fn drive(clients: &mut [Client<'_>], news: News, explorer: &mut Explorer) {
    // To the first call of each: nothing is done yet.
    for client in clients.iter_mut() {
        client.step().await;
    }
    explorer.begin();
    loop {
        let ready = clients.iter().enumerate().filter(|(_, client)| client.outcome.is_none());
        let ready: Vec<(usize, Call)> = ready.map(|(n, client)| (n, client.call)).collect();
        if ready.is_empty() {
            return;
        }
        clients[explorer.choose(ready)].step().await;
        if news == News::Prompt {
            breathe().await;
        }
    }
}
