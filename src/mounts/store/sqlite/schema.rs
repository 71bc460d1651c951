//! The tables, for an operator to query, and what is checked and made before they are used.
//!
//! The columns of a key come first: `PRAGMA integrity_check` of SQLite 3.40 finds faults in sound tables otherwise.
//!
//! Every key leads with the namespace, so one file holds many. Names are BLOBs, since they are bytes. A file is one
//! row of `inodes`: its identity is there where `revision` is not NULL, its statistics where `stats_revision` is not.
//! Triggers keep what is derived (`allocated`, `namespaces.files`), so that it is exact whoever changes a row.

use super::connect::Database;
use crate::mounts::store::record::Revision;
use crate::types::{Errno, Error, Result};
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use std::time::{Duration, Instant};

/// "wkfs", by which `file(1)` and we know such a database.
const APPLICATION: i64 = 0x776b_6673;

/// The newest schema this code knows: the number of migrations.
const VERSION: i64 = MIGRATIONS.len() as i64;

/// The size of blocks in namespaces made now, in bytes.
const BLOCK_SIZE: u32 = 128 * 1024;

/// Each brings the schema from its place in the list to the next one. They are only ever added to.
const MIGRATIONS: [&str; 2] = [FIRST, LOCKS];

const FIRST: &str = "
CREATE TABLE namespaces (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    block_size INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    files INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE inodes (
    ns INTEGER NOT NULL,
    ino INTEGER NOT NULL,
    revision INTEGER,
    kind TEXT,
    mode INTEGER,
    uid INTEGER,
    gid INTEGER,
    rdev INTEGER,
    parent INTEGER,
    target BLOB,
    born INTEGER,
    stats_revision INTEGER,
    size INTEGER,
    allocated INTEGER,
    links INTEGER,
    entries INTEGER,
    atime INTEGER,
    mtime INTEGER,
    ctime INTEGER,
    PRIMARY KEY (ns, ino)
) STRICT, WITHOUT ROWID;
CREATE TABLE dentries (
    ns INTEGER NOT NULL,
    dir INTEGER NOT NULL,
    cookie INTEGER NOT NULL,
    name BLOB NOT NULL,
    revision INTEGER NOT NULL,
    ino INTEGER NOT NULL,
    kind TEXT NOT NULL,
    PRIMARY KEY (ns, dir, cookie)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX dentries_by_name ON dentries (ns, dir, name);
CREATE TABLE xattrs (
    ns INTEGER NOT NULL,
    ino INTEGER NOT NULL,
    name BLOB NOT NULL,
    revision INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (ns, ino, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE blocks (
    ns INTEGER NOT NULL,
    ino INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    size INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (ns, ino, idx)
) STRICT, WITHOUT ROWID;
CREATE TABLE orphans (
    ns INTEGER NOT NULL,
    ino INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (ns, ino)
) STRICT, WITHOUT ROWID;
CREATE TABLE claims (
    ns INTEGER NOT NULL,
    ino INTEGER NOT NULL,
    session INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (ns, ino, session)
) STRICT, WITHOUT ROWID;
CREATE TABLE sessions (
    ns INTEGER NOT NULL,
    id INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    acknowledged INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    PRIMARY KEY (ns, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE counters (
    ns INTEGER NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (ns, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE changes (
    ns INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    session INTEGER,
    at INTEGER NOT NULL,
    keys TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (ns, revision)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER files_come AFTER INSERT ON inodes WHEN NEW.revision IS NOT NULL BEGIN
    UPDATE namespaces SET files = files + 1 WHERE id = NEW.ns;
END;
CREATE TRIGGER files_change AFTER UPDATE OF revision ON inodes
WHEN (OLD.revision IS NULL) <> (NEW.revision IS NULL) BEGIN
    UPDATE namespaces SET files = files + (OLD.revision IS NULL) - (NEW.revision IS NULL) WHERE id = NEW.ns;
END;
CREATE TRIGGER files_go AFTER DELETE ON inodes WHEN OLD.revision IS NOT NULL BEGIN
    UPDATE namespaces SET files = files - 1 WHERE id = OLD.ns;
END;
CREATE TRIGGER blocks_come AFTER INSERT ON blocks BEGIN
    UPDATE inodes SET allocated = allocated + NEW.size WHERE ns = NEW.ns AND ino = NEW.ino;
END;
CREATE TRIGGER blocks_change AFTER UPDATE OF size ON blocks WHEN OLD.size <> NEW.size BEGIN
    UPDATE inodes SET allocated = allocated + NEW.size - OLD.size WHERE ns = NEW.ns AND ino = NEW.ino;
END;
CREATE TRIGGER blocks_go AFTER DELETE ON blocks BEGIN
    UPDATE inodes SET allocated = allocated - OLD.size WHERE ns = OLD.ns AND ino = OLD.ino;
END;
CREATE VIEW files AS
WITH RECURSIVE tree (ns, ino, path) AS (
    SELECT ns, ino, '' FROM inodes WHERE revision IS NOT NULL AND parent = ino
    UNION ALL
    SELECT d.ns, d.ino, tree.path || '/' || CAST(d.name AS TEXT)
    FROM tree JOIN dentries AS d ON d.ns = tree.ns AND d.dir = tree.ino
)
SELECT n.name AS namespace, iif(tree.path = '', '/', tree.path) AS path, i.ino, i.kind,
    printf('%04o', i.mode) AS mode, i.uid, i.gid, i.links, i.size, i.allocated,
    strftime('%Y-%m-%d %H:%M:%f', i.mtime / 1e9, 'unixepoch') AS modified,
    CAST(i.target AS TEXT) AS target
FROM tree JOIN inodes AS i ON i.ns = tree.ns AND i.ino = tree.ino JOIN namespaces AS n ON n.id = tree.ns;
";

const LOCKS: &str = "
CREATE TABLE locks (
    ns INTEGER NOT NULL,
    ino INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    held TEXT NOT NULL,
    PRIMARY KEY (ns, ino)
) STRICT, WITHOUT ROWID;
ALTER TABLE sessions ADD COLUMN started INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
CREATE VIEW held_locks AS
SELECT n.name AS namespace, l.ino, h.value->>'session' AS session, h.value->>'pid' AS pid, h.value->>'kind' AS kind,
    h.value->>'first' AS first, nullif(h.value->>'last', 9223372036854775807) AS last
FROM locks AS l JOIN namespaces AS n ON n.id = l.ns, json_each(l.held) AS h;
";

/// A namespace, as it is kept.
pub struct Namespace {
    /// The number that leads its keys.
    pub id: i64,
    /// Bytes of a full block.
    pub block_size: u32,
    /// The newest commit.
    pub revision: Revision,
}

/// Makes the database where there is none, brings it to the newest schema, and finds or makes the namespace.
///
/// # Errors
/// `EINVAL` for a database of something else or of a newer workfs; `ETIMEDOUT` where another process holds it.
pub async fn prepare(database: &Database, namespace: &str, deadline: Duration) -> Result<Namespace> {
    let until = Instant::now() + deadline;
    loop {
        // Two that make one database at once may find it locked where SQLite does not wait by itself.
        match attempt(database, namespace).await {
            Err(error) if error.errno() == Errno::ETIMEDOUT && Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            done => return done,
        }
    }
}

async fn attempt(database: &Database, namespace: &str) -> Result<Namespace> {
    let mut connection = database.connect_unchecked().await?;
    recognise(&mut connection, database).await?;
    let wal = connection.execute("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL").await;
    wal.map_err(|error| database.failure("open", error))?;
    let made = in_transaction(&mut connection, database, namespace).await;
    if made.is_err() {
        let _ = connection.execute("ROLLBACK").await;
    }
    let _ = connection.close().await;
    made
}

async fn in_transaction(connection: &mut SqliteConnection, database: &Database, namespace: &str) -> Result<Namespace> {
    let failed = |error| database.failure("open", error);
    connection.execute("BEGIN IMMEDIATE").await.map_err(failed)?;
    // Again, now that nobody else can change it.
    let version = recognise(connection, database).await?;
    for (number, migration) in MIGRATIONS.iter().enumerate().skip(version as usize) {
        connection.execute(*migration).await.map_err(failed)?;
        let stamp = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {}", number + 1);
        connection.execute(AssertSqlSafe(stamp)).await.map_err(failed)?;
    }
    let found = find_namespace(connection, namespace).await.map_err(failed)?;
    connection.execute("COMMIT").await.map_err(failed)?;
    Ok(found)
}

/// The schema's version; 0 for an empty database.
async fn recognise(connection: &mut SqliteConnection, database: &Database) -> Result<i64> {
    let sql = "SELECT (SELECT application_id FROM pragma_application_id),
        (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)";
    let row = connection.fetch_one(sql).await.map_err(|error| database.failure("open", error))?;
    let (application, version, things): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let path = database.path().display();
    let refuse = |why: String| Err(Error::new("open", Errno::EINVAL).context(why));
    if application != APPLICATION && (application != 0 || version != 0 || things != 0) {
        return refuse(format!("{path} is an SQLite database of another program; name another file"));
    }
    if version > VERSION {
        return refuse(format!(
            "{path} has schema {version}, made by a newer workfs; this one knows schemas up to {VERSION}"
        ));
    }
    Ok(version)
}

async fn find_namespace(connection: &mut SqliteConnection, name: &str) -> sqlx::Result<Namespace> {
    sqlx::query("INSERT INTO namespaces (name, block_size, revision) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING")
        .bind(name)
        .bind(BLOCK_SIZE)
        .bind(Revision::FIRST.0 as i64)
        .execute(&mut *connection)
        .await?;
    let sql = "SELECT id, block_size, revision FROM namespaces WHERE name = ?";
    let row = sqlx::query(sql).bind(name).fetch_one(connection).await?;
    Ok(Namespace { id: row.get(0), block_size: row.get(1), revision: Revision(row.get::<i64, _>(2) as u64) })
}
