//! What the store volume promises beyond the contract: what an operation costs, when bytes are committed, what becomes
//! of errors, of orphans, of sessions that died, and how replicas learn of each other.

mod costs;
mod locks;
pub mod probe;
mod replicas;
mod sessions;
mod storm;
mod writing;

use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use workfs::mounts::store::StoreVolume;
use workfs::mounts::store::engine::Store;
use workfs::mounts::store::record::{Key, Prefix};
use workfs::mounts::{OpenFile, Volume};
use workfs::types::{Access, Caller, Entry, Errno, Mode, Name, NodeId, OpenFlags, Origin, Privileges, Result, SetAttr};

const CALLER: Caller = Caller { uid: 0, gid: 0, tid: 0, origin: Origin(77) };
const ROOT: NodeId = NodeId(1);
const RW: OpenFlags = OpenFlags::access(Access::ReadWrite);

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

fn errno<T>(result: Result<T>) -> Errno {
    match result {
        Ok(_) => panic!("it should have been refused"),
        Err(error) => error.errno(),
    }
}

async fn open(store: Arc<dyn Store>) -> Arc<StoreVolume> {
    StoreVolume::open(store).await.expect("opens")
}

async fn create(volume: &dyn Volume, text: &str) -> (Entry, Arc<dyn OpenFile>) {
    volume.create(&CALLER, ROOT, &name(text), Mode::new(0o644), RW).await.expect("create")
}

async fn write(file: &dyn OpenFile, offset: u64, data: &[u8]) {
    file.write_at(&CALLER, offset, Bytes::copy_from_slice(data), Privileges::Keep).await.expect("write");
}

async fn read(file: &dyn OpenFile) -> Vec<u8> {
    file.read_at(0, 1 << 20).await.expect("read").to_vec()
}

/// The bytes that a name leads to, or `None` where there is no such name.
async fn contents(volume: &dyn Volume, text: &str) -> Option<Vec<u8>> {
    let entry = volume.lookup(&CALLER, ROOT, &name(text)).await.ok()?;
    let file = volume.open(&CALLER, entry.attr.node, RW).await.ok()?;
    Some(read(&*file).await)
}

/// Waits until something is so, and says what was not where it takes too long.
async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < Duration::from_secs(20), "not in twenty seconds: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn is_there(store: &dyn Store, key: Key) -> bool {
    store.get(&[key]).await.expect("get")[0].is_some()
}

async fn orphans(store: &dyn Store) -> usize {
    store.scan(&Prefix::Orphans, None, 1000).await.expect("scan").len()
}
