//! A process that commits is killed at random moments, again and again: what it was answered is there.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use workfs::mounts::store::record::Prefix;

/// Tells a child of this binary that it is the one that commits, and where.
const CHILD: &str = "WORKFS_CRASH_STORE";

const WORKERS: u64 = 3;

/// Not a test of its own: the process that `killed_at_any_time_nothing_answered_is_lost` kills.
#[test]
fn child_that_commits() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = SqliteStore::open(Path::new(&path), "n").await.expect("the store opens");
        let mut tasks = Vec::new();
        for worker in 0..WORKERS {
            tasks.push(tokio::spawn(work(store.clone(), worker)));
        }
        for task in tasks {
            task.await.expect("a worker goes on until the kill");
        }
    });
}

/// Makes files, each in one commit with its bytes, and says so when it was answered.
async fn work(store: Arc<SqliteStore>, worker: u64) {
    loop {
        let number = 1 + (fastrand::u64(..) >> 24);
        let entry = dentry(worker, number.to_string(), number, number);
        let file = [(Key::Inode(NodeId(number)), inode(number as u32)), (Key::Stats(NodeId(number)), empty()), entry];
        let bytes = crate::harness::random::bytes(number, length(number));
        let blocks = bytes.chunks(128 * 1024).enumerate().map(|(index, part)| BlockChange::Patch {
            node: NodeId(number),
            index: index as u64,
            offset: 0,
            bytes: Bytes::copy_from_slice(part),
        });
        let batch = Batch { blocks: blocks.collect(), durable: number.is_multiple_of(16), ..put(file) };
        let revision = committed(&*store, batch).await;
        // One write, so that a line is whole or not there.
        let line = format!("ack {worker} {number} {}\n", revision.0);
        std::io::stderr().write_all(line.as_bytes()).expect("the parent reads");
    }
}

fn length(number: u64) -> usize {
    (number % 300_000) as usize >> (number % 7)
}

#[test]
fn killed_at_any_time_nothing_answered_is_lost() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("desk.db");
    let mut answered = Vec::new();
    for _ in 0..20 {
        let more = kill_while_committing(&path);
        answered.extend(more);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(check(&path, &answered));
    }
    assert!(answered.len() > 100, "the children did something: {}", answered.len());
}

/// Runs a child for a random time, and answers what it was answered.
fn kill_while_committing(path: &Path) -> Vec<(u64, u64, Revision)> {
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "engines::crash::child_that_commits", "--nocapture", "--test-threads=1"])
        .env(CHILD, path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for line in lines.map_while(Result::ok) {
            let _ = sender.send(());
            let mut words = line.split(' ');
            if words.next() == Some("ack") {
                let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a whole line");
                seen.push((number(), number(), Revision(number())));
            }
        }
        seen
    });
    receiver.recv_timeout(Duration::from_secs(30)).expect("the child commits");
    std::thread::sleep(Duration::from_micros(fastrand::u64(0..300_000)));
    child.kill().expect("it is killed");
    child.wait().expect("it has ended");
    reader.join().expect("its lines are read")
}

async fn check(path: &Path, answered: &[(u64, u64, Revision)]) {
    let store = SqliteStore::open(path, "n").await.expect("the store opens again");
    for (worker, number, revision) in answered {
        let keys = [Key::Inode(NodeId(*number)), dentry(*worker, number.to_string(), 0, 1).0];
        for found in store.get(&keys).await.expect("it is read") {
            assert_eq!(found.map(|stored| stored.revision), Some(*revision), "file {number}");
        }
    }
    whole(&*store).await;
    store.close().await.expect("it closes");
    let mut sqlite = sqlx::ConnectOptions::connect(&sqlx::sqlite::SqliteConnectOptions::new().filename(path))
        .await
        .expect("sqlite opens");
    let row = sqlx::Executor::fetch_one(&mut sqlite, "PRAGMA integrity_check").await.expect("it is checked");
    assert_eq!(sqlx::Row::get::<String, _>(&row, 0), "ok");
    sqlx::Connection::close(sqlite).await.expect("sqlite closes");
}

/// Whatever is there is there whole, answered or not.
async fn whole(store: &dyn Store) {
    for worker in 0..WORKERS {
        let entries = store.scan(&Prefix::Entries(NodeId(worker)), None, usize::MAX).await.expect("it is listed");
        for (key, stored) in entries {
            let Record::Dentry(entry) = stored.record else { panic!("no entry: {key:?}") };
            let number = entry.node.0;
            let found = store.get(&[Key::Inode(entry.node), Key::Stats(entry.node)]).await.expect("it is read");
            assert!(found.iter().flatten().all(|file| file.revision == stored.revision) && found[0].is_some());
            let blocks = store.blocks(entry.node, 0..u64::MAX).await.expect("they are read");
            let bytes: Vec<u8> = blocks.into_iter().flat_map(|(_, block)| block.to_vec()).collect();
            assert!(bytes == crate::harness::random::bytes(number, length(number)), "the bytes of {number}");
            assert_eq!(stats(store, number).await.allocated, bytes.len() as u64);
        }
    }
}
