//! Connections to the database file, and what their failures mean.

use crate::types::{Errno, Error, Result};
use rustix::fs::StatVfsMountFlags;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// How long SQLite waits for another process's lock before the call fails.
pub const BUSY: Duration = Duration::from_secs(10);

/// How long a restart of the WAL waits for readers. Commits wait meanwhile.
const PATIENCE: Duration = Duration::from_millis(50);

/// The WAL file is cut to this many bytes when it starts anew.
const WAL_KEPT: u64 = 64 << 20;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It commits; there is one.
    Writer,
    /// It only reads.
    Reader,
    /// It copies the WAL into the database.
    Checkpointer,
}

/// A database file.
///
/// Nothing here ever opens the file itself: closing any descriptor of it would drop the POSIX locks that SQLite holds
/// on it in this process.
pub struct Database {
    path: PathBuf,
    /// Which file it was when it was prepared: device and number.
    file: OnceLock<(u64, u64)>,
}

impl Database {
    /// The file at `path`, which need not exist yet.
    ///
    /// # Errors
    /// `ENOENT` where its directory is missing, `EISDIR`, `EINVAL` for a path that is not UTF-8.
    pub fn at(path: &Path) -> Result<Database> {
        // An absolute path cannot be taken for a URI or for `:memory:`.
        let path = std::path::absolute(path).map_err(|error| Error::from_io("open", error))?;
        let refuse = |errno, why: String| Err(Error::new("open", errno).context(why));
        if path.to_str().is_none() {
            return refuse(Errno::EINVAL, format!("{}: the path of an SQLite database must be UTF-8", path.display()));
        }
        let parent = path.parent().unwrap_or(Path::new("/"));
        if !parent.is_dir() {
            let why = format!("{}: its directory {} does not exist; make it first", path.display(), parent.display());
            return refuse(Errno::ENOENT, why);
        }
        if path.is_dir() {
            return refuse(Errno::EISDIR, format!("{} is a directory; name a file in it", path.display()));
        }
        Ok(Database { path, file: OnceLock::new() })
    }

    /// From now on the path must lead to the file to which it leads now.
    pub fn hold(&self) -> Result<()> {
        let file = std::fs::metadata(&self.path).map_err(|error| Error::from_io("open", error))?;
        self.file.get_or_init(|| (file.dev(), file.ino()));
        Ok(())
    }

    /// Whether the path still leads to the file that was opened. SQLite goes on in one that lost its name, and all that
    /// is written there is lost in the end.
    ///
    /// # Errors
    /// `EIO` where it does not.
    pub fn check(&self) -> Result<()> {
        let why = match (std::fs::metadata(&self.path), self.file.get()) {
            (Ok(found), Some(file)) if *file != (found.dev(), found.ino()) => "replaced by another file",
            (Err(error), _) if error.kind() == ErrorKind::NotFound => "removed",
            _ => return Ok(()),
        };
        let path = self.path.display();
        Err(Error::new("commit", Errno::EIO)
            .context(format!("{path} was {why}; what would be written now would be lost")))
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where its WAL lies.
    pub fn wal_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push("-wal");
        name.into()
    }

    /// A connection that sets nothing which would change a database of somebody else.
    pub async fn connect_unchecked(&self) -> Result<SqliteConnection> {
        self.options().create_if_missing(true).connect().await.map_err(|error| self.failure("open", error))
    }

    /// A connection for `role`, on a database that was prepared.
    pub async fn connect(&self, role: Role) -> Result<SqliteConnection> {
        let options = self
            .options()
            // The checkpointer does it, off the committing thread.
            .pragma("wal_autocheckpoint", "0")
            .pragma("journal_size_limit", WAL_KEPT.to_string())
            .pragma("synchronous", "NORMAL")
            .pragma("temp_store", "MEMORY");
        let options = match role {
            Role::Writer => options.pragma("cache_size", "-32768").statement_cache_capacity(256),
            Role::Reader => options.pragma("cache_size", "-8192").pragma("query_only", "ON"),
            Role::Checkpointer => options,
        };
        options.connect().await.map_err(|error| self.failure("open", error))
    }

    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(&self.path)
            .busy_timeout(BUSY)
            .foreign_keys(false)
            // Each statement of a script sends a result; a full channel would hold the script up.
            .row_buffer_size(1024)
            .thread_name(|number| format!("workfs-sqlite-{number}"))
            .disable_statement_logging()
    }

    fn lies_on_read_only(&self) -> bool {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        rustix::fs::statvfs(parent).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
    }

    /// A failure to open or prepare it, with its path.
    pub fn failure(&self, operation: &'static str, error: sqlx::Error) -> Error {
        let errno = errno(&error);
        if primary_code(&error) == Some(NOT_A_DATABASE) {
            let why = format!("{} is no SQLite database; name another file", self.path.display());
            return Error::new(operation, Errno::EINVAL).context(why).source(error);
        }
        let path = self.path.display();
        if matches!(primary_code(&error), Some(CANNOT_OPEN | READ_ONLY)) && self.lies_on_read_only() {
            let why = format!(
                "{path} lies on a filesystem that is mounted read-only, and a store writes also where it is mounted so \
                 (its WAL, its sessions); copy it elsewhere"
            );
            return Error::new(operation, Errno::EROFS).context(why).source(error);
        }
        let why = match primary_code(&error) {
            Some(CORRUPT) => format!(
                "{path} is damaged (cut short, or overwritten); bring back a copy of it, \
                 or save what can be read with `sqlite3 {path} .recover`"
            ),
            _ => path.to_string(),
        };
        Error::new(operation, errno).context(why).source(error)
    }
}

const BUSY_CODE: i32 = 5;
const LOCKED: i32 = 6;
const NO_MEMORY: i32 = 7;
const READ_ONLY: i32 = 8;
const CORRUPT: i32 = 11;
const CANNOT_OPEN: i32 = 14;
const FULL: i32 = 13;
const TOO_BIG: i32 = 18;
const NOT_A_DATABASE: i32 = 26;

/// The extended result code that SQLite gave, where the failure is SQLite's.
pub fn code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

fn primary_code(error: &sqlx::Error) -> Option<i32> {
    code(error).map(|code| code & 0xff)
}

fn errno(error: &sqlx::Error) -> Errno {
    match (error, primary_code(error)) {
        (_, Some(BUSY_CODE | LOCKED)) => Errno::ETIMEDOUT,
        (_, Some(NO_MEMORY)) => Errno::ENOMEM,
        (_, Some(READ_ONLY)) => Errno::EROFS,
        (_, Some(FULL)) => Errno::ENOSPC,
        (_, Some(TOO_BIG)) => Errno::EFBIG,
        (sqlx::Error::Io(error), _) => error.raw_os_error().map_or(Errno::EIO, Errno::from_raw),
        _ => Errno::EIO,
    }
}

/// What a failure of SQLite means to whoever asked.
pub fn failure(operation: &'static str, error: sqlx::Error) -> Error {
    let errno = errno(&error);
    let made = Error::new(operation, errno).source(error);
    match errno {
        Errno::ETIMEDOUT => made.context("another process holds the database"),
        Errno::ENOSPC => made.context("the disk that the database lies on is full"),
        _ => made,
    }
}

/// Closes a connection; its thread has ended afterwards.
pub async fn close(connection: SqliteConnection) -> Result<()> {
    connection.close().await.map_err(|error| failure("close", error))
}

/// What becomes of the WAL file once it is copied whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wal {
    /// It is written over from its beginning.
    Reused,
    /// It is cut to nothing, and its room is the disk's.
    Cut,
}

/// Copies the WAL into the database and lets it begin anew; answers how many of its pages are left to copy, or `None`
/// where another process's checkpoint was in the way all the time.
pub async fn restart_wal(connection: &mut SqliteConnection, then: Wal) -> sqlx::Result<Option<u64>> {
    let timeout = |time: Duration| AssertSqlSafe(format!("PRAGMA busy_timeout={}", time.as_millis()));
    connection.execute(timeout(PATIENCE)).await?;
    let how = match then {
        Wal::Reused => "PRAGMA wal_checkpoint(RESTART)",
        Wal::Cut => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    let done = connection.fetch_one(how).await;
    connection.execute(timeout(BUSY)).await?;
    let row = done?;
    let (held, copied): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
    // Both are -1 where another one holds the lock.
    Ok((held >= 0).then(|| (held - copied).max(0) as u64))
}
