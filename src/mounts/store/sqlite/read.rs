//! Reading: each call is one statement, so what it answers is of one moment, and nothing stays open when a caller
//! goes away in the middle.

use super::connect::{Database, Role, close, failure};
use super::decode::{self, Kind, column, counter_text};
use super::script::Script;
use crate::mounts::store::record::{Key, Prefix, Stored};
use crate::types::{Errno, Error, NodeId, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Executor};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Connections that read.
const READERS: usize = 3;

/// The held connections, each used by one call at a time.
pub struct Readers {
    ns: i64,
    database: Arc<Database>,
    free: Mutex<Vec<SqliteConnection>>,
    // As many permits as connections are free; closed with the store.
    permits: Semaphore,
}

impl Readers {
    /// Opens them.
    pub async fn open(database: Arc<Database>, ns: i64) -> Result<Readers> {
        let mut free = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            free.push(database.connect(Role::Reader).await?);
        }
        Ok(Readers { ns, database, free: Mutex::new(free), permits: Semaphore::new(READERS) })
    }

    /// Waits for the calls under way and closes the connections.
    pub async fn close(&self) -> Result<()> {
        if let Ok(all) = self.permits.acquire_many(READERS as u32).await {
            all.forget();
            self.permits.close();
        }
        let connections = std::mem::take(&mut *self.free.lock());
        for connection in connections {
            close(connection).await?;
        }
        Ok(())
    }

    /// Runs a statement and answers all its rows.
    pub async fn rows(&self, operation: &'static str, script: Script, one: bool) -> Result<Vec<SqliteRow>> {
        let closed = |_| Error::new(operation, Errno::EIO).context("the store was closed");
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let mut held = Held { readers: self, connection: self.free.lock().pop() };
        if held.connection.is_none() {
            // Its thread had died under an earlier call.
            held.connection = Some(self.database.connect(Role::Reader).await?);
        }
        let connection = held.connection.as_mut().expect("just taken");
        let (sql, arguments) = script.finish();
        let query = sqlx::query_with(AssertSqlSafe(sql), arguments);
        let done = match one {
            true => connection.fetch_optional(query).await.map(|row| row.into_iter().collect()),
            false => connection.fetch_all(query).await,
        };
        if matches!(done, Err(sqlx::Error::WorkerCrashed)) {
            held.connection = None;
        }
        done.map_err(|error| failure(operation, error))
    }

    /// The records under `keys`.
    pub async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Stored>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (script, one) = get_script(self.ns, keys);
        let mut found: HashMap<Key, Stored> = HashMap::with_capacity(keys.len());
        for row in self.rows("get", script, one).await? {
            found.extend(decode::records(&row)?);
        }
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    /// The records of `prefix` after `after`.
    pub async fn scan(&self, prefix: &Prefix, after: Option<u64>, limit: usize) -> Result<Vec<(Key, Stored)>> {
        let rows = self.rows("scan", scan_script(self.ns, prefix, after, limit), false).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            found.extend(decode::records(row)?);
        }
        Ok(found)
    }

    /// The blocks of `node` with an index in `range`.
    pub async fn blocks(&self, node: NodeId, range: Range<u64>) -> Result<Vec<(u64, Bytes)>> {
        let mut script = Script::new();
        script.write(format_args!(
            "SELECT idx, bytes FROM blocks WHERE ns={} AND ino=? AND idx>=? AND idx<? ORDER BY idx",
            self.ns
        ));
        script.number(node.0).bind(clamp(range.start)).bind(clamp(range.end));
        let rows = self.rows("blocks", script, false).await?;
        rows.iter()
            .map(|row| Ok((column::<i64>(row, 0)? as u64, Bytes::copy_from_slice(column::<&[u8]>(row, 1)?))))
            .collect()
    }
}

/// A connection that goes back when the call ends, however it ends.
struct Held<'a> {
    readers: &'a Readers,
    connection: Option<SqliteConnection>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.readers.free.lock().push(connection);
        }
    }
}

/// A bound of a range, to compare with numbers that are positive in 64 signed bits.
fn clamp(bound: u64) -> i64 {
    i64::try_from(bound).unwrap_or(i64::MAX)
}

/// The statement that reads `keys`, and whether it has at most one row.
fn get_script(ns: i64, keys: &[Key]) -> (Script, bool) {
    let mut kinds: Vec<(Kind, Vec<&Key>)> = Vec::new();
    for key in keys {
        let kind = Kind::of(key);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            // A file's two records are in one row, and mostly asked for together.
            Some((_, list)) if list.last().is_some_and(|last| same_row(last, key)) => {}
            Some((_, list)) => list.push(key),
            None => kinds.push((kind, vec![key])),
        }
    }
    kinds.sort_unstable_by_key(|(kind, _)| *kind);
    let width = kinds.iter().map(|(kind, _)| kind.columns().1).max().unwrap_or(0);
    let one = kinds.len() == 1 && kinds[0].1.len() == 1;
    let mut script = Script::new();
    for (number, (kind, keys)) in kinds.iter().enumerate() {
        script.text(if number == 0 { "SELECT " } else { " UNION ALL SELECT " });
        let (columns, own) = kind.columns();
        script.text(columns);
        (own..width).for_each(|_| {
            script.text(",NULL");
        });
        match keys.as_slice() {
            [key] => one_key(&mut script, ns, *kind, key),
            keys => many_keys(&mut script, ns, *kind, keys),
        }
    }
    (script, one)
}

fn same_row(a: &Key, b: &Key) -> bool {
    match (a, b) {
        (Key::Inode(a) | Key::Stats(a), Key::Inode(b) | Key::Stats(b)) => a == b,
        _ => a == b,
    }
}

fn one_key(script: &mut Script, ns: i64, kind: Kind, key: &Key) {
    script.write(format_args!(" FROM {} AS t WHERE t.ns={ns}", kind.table()));
    for column in kind.keys() {
        script.write(format_args!(" AND t.{column}=?"));
    }
    script.key(key);
}

/// Any number of keys of one kind, as one JSON argument, so that the text does not depend on how many.
fn many_keys(script: &mut Script, ns: i64, kind: Kind, keys: &[&Key]) {
    let list: Vec<serde_json::Value> = keys.iter().map(|key| json(key)).collect();
    // CROSS JOIN keeps the order: for each key, one search.
    script.write(format_args!(" FROM json_each(?) AS j CROSS JOIN {} AS t WHERE t.ns={ns}", kind.table()));
    match (kind, kind.keys()) {
        // JSON has no bytes, so names come in hexadecimal.
        (Kind::Dentry | Kind::Xattr, [first, name]) => {
            script.write(format_args!(" AND t.{first}=j.value->>0 AND t.{name}=unhex(j.value->>1)"))
        }
        (_, [first, second]) => script.write(format_args!(" AND t.{first}=j.value->>0 AND t.{second}=j.value->>1")),
        (_, columns) => script.write(format_args!(" AND t.{}=j.value", columns[0])),
    };
    script.bind(serde_json::Value::Array(list).to_string());
}

fn json(key: &Key) -> serde_json::Value {
    let signed = |number: u64| number as i64;
    match key {
        Key::Inode(node) | Key::Stats(node) | Key::Orphan(node) | Key::Locks(node) => signed(node.0).into(),
        Key::Dentry(dir, name) => vec![signed(dir.0).into(), serde_json::Value::from(hex(name.as_bytes()))].into(),
        Key::Xattr(node, name) => vec![signed(node.0).into(), serde_json::Value::from(hex(name))].into(),
        Key::Block(node, index) => vec![signed(node.0), signed(*index)].into(),
        Key::Claim(node, session) => vec![signed(node.0), signed(session.0)].into(),
        Key::Session(id) => signed(id.0).into(),
        Key::Counter(counter) => counter_text(*counter).into(),
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)] as char, DIGITS[usize::from(b & 15)] as char]).collect()
}

fn scan_script(ns: i64, prefix: &Prefix, after: Option<u64>, limit: usize) -> Script {
    let (kind, of, order, numbered) = match prefix {
        Prefix::Entries(dir) => (Kind::Dentry, Some(("dir", dir)), "cookie", true),
        Prefix::Xattrs(node) => (Kind::Xattr, Some(("ino", node)), "name", false),
        Prefix::Extents(node) => (Kind::Block, Some(("ino", node)), "idx", true),
        Prefix::Orphans => (Kind::Orphan, None, "ino", true),
        Prefix::Claims(node) => (Kind::Claim, Some(("ino", node)), "session", false),
        Prefix::Sessions => (Kind::Session, None, "id", false),
        Prefix::Locks => (Kind::Locks, None, "ino", true),
    };
    let mut script = Script::new();
    script.write(format_args!("SELECT {} FROM {} AS t WHERE t.ns={ns}", kind.columns().0, kind.table()));
    if let Some((column, node)) = of {
        script.write(format_args!(" AND t.{column}=?")).number(node.0);
    }
    if numbered {
        script.write(format_args!(" AND t.{order}>?")).bind(after.map_or(-1, clamp));
    }
    script.write(format_args!(" ORDER BY t.{order}"));
    if numbered {
        script.text(" LIMIT ?").bind(i64::try_from(limit).unwrap_or(i64::MAX));
    }
    script
}
