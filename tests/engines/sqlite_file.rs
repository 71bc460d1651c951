//! What is the SQLite engine's own: the file, its schema, who else may have it open, and its failures.

use super::*;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor, Row};
use std::path::Path;
use workfs::types::Errno;

fn run_with_dir(case: impl AsyncFnOnce(&Path)) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, case(dir.path())).await }).expect("it ends in time");
}

async fn operator(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.expect("sqlite opens")
}

async fn refused(path: &Path) -> workfs::types::Error {
    SqliteStore::open(path, "n").await.err().expect("it is refused")
}

#[test]
fn an_operator_reads_whole_paths() {
    run_with_dir(async |dir| {
        let path = dir.join("desk.db");
        let store = SqliteStore::open(&path, "agents/a").await.expect("the store opens");
        let node = |n: u64, kind, parent, mode| {
            let Record::Inode(made) = inode(1) else { unreachable!() };
            let made = Inode { kind, parent, mode: Mode::new(mode), target: Bytes::new(), ..made };
            (Key::Inode(NodeId(n)), Record::Inode(made))
        };
        let sized = Record::Stats(Stats { size: 5, mtime: Timestamp(1_500_000_000), ..Stats::default() });
        let batch = put([
            node(1, FileKind::Directory, Some(NodeId(1)), 0o755),
            node(2, FileKind::Directory, Some(NodeId(1)), 0o755),
            node(3, FileKind::Regular, None, 0o640),
            (Key::Stats(NodeId(3)), sized),
            dentry(1, "docs", 2, 5),
            dentry(2, "a b", 3, 6),
            dentry(2, "link", 3, 7),
        ]);
        committed(&*store, batch).await;
        committed(&*store, patch(3, 0, 0, "bytes")).await;
        let mut sqlite = operator(&path).await;
        let sql =
            "SELECT path, kind, mode, size, allocated, modified FROM files WHERE namespace='agents/a' ORDER BY path";
        let rows = sqlite.fetch_all(sql).await.expect("the view is there");
        let paths: Vec<String> = rows.iter().map(|row| row.get("path")).collect();
        assert_eq!(paths, ["/", "/docs", "/docs/a b", "/docs/link"]);
        let file = &rows[2];
        let (kind, mode, size, allocated, modified): (String, String, i64, i64, String) =
            (file.get(1), file.get(2), file.get(3), file.get(4), file.get(5));
        assert_eq!((&*kind, &*mode, size, allocated), ("regular", "0640", 5, 5));
        assert_eq!(modified, "1970-01-01 00:00:01.500");
        let keys = sqlite.fetch_all("SELECT keys FROM changes ORDER BY revision").await.expect("the changes");
        assert!(keys[0].get::<String, _>(0).contains(r#"{"dentry":[1,"docs"]}"#));
    });
}

#[test]
fn an_operator_reads_who_holds_locks() {
    run_with_dir(async |dir| {
        let path = dir.join("desk.db");
        let store = SqliteStore::open(&path, "n").await.expect("the store opens");
        committed(&*store, put([(Key::Locks(NodeId(5)), locks(9))])).await;
        let sql = "SELECT namespace, ino, session, pid, kind, first, last FROM held_locks ORDER BY first";
        let rows = operator(&path).await.fetch_all(sql).await.expect("the view is there");
        let told = |row: &sqlx::sqlite::SqliteRow| -> (String, i64, i64, i64, String, i64, Option<i64>) {
            (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4), row.get(5), row.get(6))
        };
        let right = |kind: &str, first, last| ("n".into(), 5, 3, 9, kind.into(), first, last);
        assert_eq!(rows.iter().map(told).collect::<Vec<_>>(), [right("write", 7, Some(7)), right("read", 8, None)]);
    });
}

#[test]
fn a_file_of_the_first_schema_is_brought_to_the_newest() {
    run_with_dir(async |dir| {
        let path = dir.join("desk.db");
        let store = SqliteStore::open(&path, "n").await.expect("the store opens");
        committed(&*store, put([(Key::Inode(NodeId(1)), inode(1)), (Key::Session(SessionId(4)), session(5, 6))])).await;
        store.close().await.expect("it closes");
        let mut old = operator(&path).await;
        let back = "DROP VIEW held_locks; DROP TABLE locks; ALTER TABLE sessions DROP COLUMN place;
            ALTER TABLE sessions DROP COLUMN started; PRAGMA user_version = 1";
        old.execute(back).await.expect("the schema as it was");
        old.close().await.expect("it closes");
        let store = SqliteStore::open(&path, "n").await.expect("an old file opens");
        assert_eq!(get(&*store, Key::Inode(NodeId(1))).await.expect("kept").record, inode(1));
        let Some(Record::Session(kept)) = get(&*store, Key::Session(SessionId(4))).await.map(|stored| stored.record)
        else {
            panic!("the session is kept")
        };
        assert_eq!(
            (kept.seen, kept.pid, kept.started, kept.place),
            (Timestamp(5), 6, 0, 0),
            "its process is not known"
        );
        committed(&*store, put([(Key::Locks(NodeId(5)), locks(9))])).await;
        assert_eq!(get(&*store, Key::Locks(NodeId(5))).await.expect("it is there").record, locks(9));
    });
}

#[test]
fn namespaces_of_one_file_share_nothing() {
    run_with_dir(async |dir| {
        let path = dir.join("desk.db");
        let one = SqliteStore::open(&path, "one").await.expect("the store opens");
        let two = SqliteStore::open(&path, "two").await.expect("the store opens");
        let mut feed = two.changes();
        committed(&*one, put([(Key::Inode(NodeId(1)), inode(1)), dentry(1, "n", 2, 3)])).await;
        committed(&*one, patch(1, 0, 0, "bytes")).await;
        assert_eq!(get(&*two, Key::Inode(NodeId(1))).await, None);
        assert!(content(&*two, 1).await.is_empty());
        committed(&*two, put([(Key::Inode(NodeId(1)), inode(2)), dentry(1, "m", 2, 3)])).await;
        assert_eq!(get(&*one, Key::Inode(NodeId(1))).await.expect("it is there").record, inode(1));
        let told = futures::StreamExt::next(&mut feed).await.expect("a change");
        assert!(format!("{told:?}").contains("\"m\""), "only its own commits are told: {told:?}");
    });
}

#[test]
fn what_was_committed_is_there_when_opened_again() {
    run_with_dir(async |dir| {
        let path = dir.join("desk.db");
        let mut last = Revision::FIRST;
        for round in 0..3 {
            let store = SqliteStore::open(&path, "n").await.expect("the store opens");
            let revision = committed(&*store, put([(Key::Inode(NodeId(round)), inode(round as u32))])).await;
            assert!(revision > last);
            last = revision;
            for earlier in 0..=round {
                assert!(get(&*store, Key::Inode(NodeId(earlier))).await.is_some());
            }
            if round != 1 {
                store.close().await.expect("it closes");
                // The store that was dropped in the round before may close a little later.
                let gone = || !dir.join("desk.db-wal").exists();
                assert!(
                    crate::harness::changed_within(Duration::from_secs(5), gone),
                    "the last to close takes it away"
                );
            }
        }
    });
}

/// Descriptors of this process below `dir`.
fn held(dir: &Path) -> usize {
    let held = std::fs::read_dir("/proc/self/fd").expect("the descriptors").flatten();
    held.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(dir))).count()
}

#[test]
fn closing_or_dropping_lets_go_of_the_file() {
    run_with_dir(async |dir| {
        let store = SqliteStore::open(&dir.join("desk.db"), "n").await.expect("the store opens");
        committed(&*store, Batch::default()).await;
        assert!(held(dir) > 0);
        store.close().await.expect("it closes");
        assert_eq!(held(dir), 0, "every connection is closed");

        let store = SqliteStore::open(&dir.join("desk.db"), "n").await.expect("the store opens");
        let feed = store.changes();
        committed(&*store, Batch::default()).await;
        drop(store);
        let until = std::time::Instant::now() + Duration::from_secs(5);
        while held(dir) > 0 {
            assert!(std::time::Instant::now() < until, "{} descriptors are still held", held(dir));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(feed);
    });
}

#[test]
fn a_database_of_something_else_is_refused_and_left_alone() {
    run_with_dir(async |dir| {
        let path = dir.join("other.db");
        let mut sqlite = operator(&path).await;
        sqlite.execute("CREATE TABLE theirs (x)").await.expect("a table");
        sqlite.close().await.expect("sqlite closes");
        let before = std::fs::read(&path).expect("the file");
        let error = refused(&path).await;
        assert_eq!(error.errno(), Errno::EINVAL);
        assert!(error.to_string().contains("another program"), "{error}");
        assert_eq!(std::fs::read(&path).expect("the file"), before);

        let text = dir.join("notes.txt");
        crate::harness::put(&text, "no database at all, but a text that is longer than a hundred bytes. ".repeat(9));
        let error = refused(&text).await;
        assert_eq!(error.errno(), Errno::EINVAL);
        assert!(error.to_string().contains("no SQLite database"), "{error}");
    });
}

#[test]
fn a_file_that_was_cut_short_is_refused_with_a_way_out() {
    run_with_dir(async |dir| {
        let path = dir.join("cut.db");
        SqliteStore::open(&path, "main").await.expect("made").close().await.expect("closed");
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the file");
        file.set_len(file.metadata().expect("its size").len() / 2).expect("cut");
        let error = refused(&path).await;
        assert_eq!(error.errno(), Errno::EIO);
        let said = error.to_string();
        assert!(said.contains("is damaged") && said.contains(".recover"), "{said}");
    });
}

#[test]
fn a_newer_schema_is_refused() {
    run_with_dir(async |dir| {
        let path = dir.join("desk.db");
        SqliteStore::open(&path, "n").await.expect("the store opens").close().await.expect("it closes");
        let mut sqlite = operator(&path).await;
        sqlite.execute("PRAGMA user_version = 99").await.expect("a version");
        sqlite.close().await.expect("sqlite closes");
        let error = refused(&path).await;
        assert_eq!(error.errno(), Errno::EINVAL);
        assert!(error.to_string().contains("schema 99") && error.to_string().contains("newer"), "{error}");
    });
}

#[test]
fn a_wrong_path_says_what_is_wrong() {
    run_with_dir(async |dir| {
        let error = refused(&dir.join("none/desk.db")).await;
        assert_eq!(error.errno(), Errno::ENOENT);
        assert!(error.to_string().contains("none does not exist"), "{error}");
        assert_eq!(refused(dir).await.errno(), Errno::EISDIR);
    });
}

#[test]
fn a_damaged_database_is_told_as_eio() {
    run_with_dir(async |dir| {
        let path = dir.join("desk.db");
        let store = SqliteStore::open(&path, "n").await.expect("the store opens");
        committed(&*store, put((0..200).map(|n| (Key::Inode(NodeId(n)), inode(1))))).await;
        store.close().await.expect("it closes");
        let mut bytes = std::fs::read(&path).expect("the file");
        bytes[4096..].fill(0xA5);
        std::fs::write(&path, bytes).expect("the damage is done");
        let error = match SqliteStore::open(&path, "n").await {
            Err(error) => error,
            Ok(store) => store.get(&[Key::Inode(NodeId(1))]).await.expect_err("it cannot be read"),
        };
        assert_eq!(error.errno(), Errno::EIO);
        assert!(std::error::Error::source(&error).is_some(), "{error}");
    });
}

#[test]
fn a_full_database_is_told_as_enospc() {
    run_with_dir(async |dir| {
        // A small filesystem of its own.
        let small = dir.join("small");
        std::fs::create_dir(&small).expect("a directory");
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", &small, "tmpfs", flags, Some(c"size=3m")).expect("root can mount a tmpfs");
        let full = async {
            let store = SqliteStore::open(&small.join("desk.db"), "n").await.expect("the store opens");
            committed(&*store, put([(Key::Inode(NodeId(1)), inode(1))])).await;
            let big = || patch(2, 0, 0, vec![1; 128 * 1024]);
            let mut index = 0;
            let error = loop {
                let Batch { blocks, .. } = patch(2, index, 0, vec![index as u8; 128 * 1024]);
                match store.commit(Batch { blocks, ..Batch::default() }).await {
                    Ok(_) => index += 1,
                    Err(error) => break error,
                }
                assert!(index < 100, "three megabytes are full some time");
            };
            let again = store.commit(big()).await.expect_err("still full").errno();
            let read = get(&*store, Key::Inode(NodeId(1))).await.is_some();
            drop(store.close().await);
            (error.errno(), again, read)
        }
        .await;
        // Threads of the store may hold the filesystem for a moment longer.
        let detached = rustix::mount::unmount(&small, rustix::mount::UnmountFlags::DETACH);
        assert_eq!(full, (Errno::ENOSPC, Errno::ENOSPC, true));
        detached.expect("it is unmounted");
    });
}

#[test]
fn a_lock_that_another_process_holds_is_waited_for() {
    run_with_dir(async |dir| {
        let path = dir.join("desk.db");
        let store = SqliteStore::open(&path, "n").await.expect("the store opens");
        let mut sqlite = operator(&path).await;
        sqlite.execute("BEGIN IMMEDIATE").await.expect("the lock");
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { committed(&*store, put([(Key::Inode(NodeId(1)), inode(1))])).await }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waiting.is_finished());
        assert_eq!(get(&*store, Key::Inode(NodeId(1))).await, None, "who reads need not wait");
        sqlite.execute("COMMIT").await.expect("the lock is let go");
        waiting.await.expect("it is committed");
        assert!(get(&*store, Key::Inode(NodeId(1))).await.is_some());
    });
}

#[test]
fn the_wal_stays_bounded_under_load() {
    run_with_dir(async |dir| {
        let path = dir.join("desk.db");
        let store = SqliteStore::open(&path, "n").await.expect("the store opens");
        let mut most = 0;
        for round in 0..300u64 {
            let blocks = (0..8).map(|index| BlockChange::Patch {
                node: NodeId(1),
                index,
                offset: 0,
                bytes: vec![round as u8; 128 * 1024].into(),
            });
            committed(&*store, Batch { blocks: blocks.collect(), ..Batch::default() }).await;
            most = most.max(std::fs::metadata(dir.join("desk.db-wal")).expect("the WAL").len());
        }
        assert!(most < 100 << 20, "the WAL grew to {} MiB", most >> 20);
    });
}

#[test]
fn old_changes_are_taken_out_and_a_gap_is_told() {
    run_with_dir(async |dir| {
        let path = dir.join("desk.db");
        let store = SqliteStore::open(&path, "n").await.expect("the store opens");
        let mut feed = store.changes();
        // Another process commits twice, and what it did first is taken out before anyone looks.
        let mut sqlite = operator(&path).await;
        let sql = "BEGIN IMMEDIATE; UPDATE namespaces SET revision = revision + 3;
            INSERT INTO changes SELECT id, revision, NULL, 0, '[{\"inode\":1}]', '[]' FROM namespaces; COMMIT";
        sqlite.execute(sql).await.expect("a foreign commit");
        let told = tokio::time::timeout(Duration::from_secs(2), futures::StreamExt::next(&mut feed)).await;
        assert_eq!(told.expect("soon"), Some(workfs::mounts::store::engine::StoreChange::Lost));
        let revision = committed(&*store, Batch::default()).await;
        let told = futures::StreamExt::next(&mut feed).await.expect("the feed goes on");
        assert!(format!("{told:?}").contains(&revision.0.to_string()), "{told:?}");
    });
}
