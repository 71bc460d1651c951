//! Telling commits, our own and those of other processes, in the order of their revisions.
//!
//! A namespace's revisions have no gaps. Our own commits are told as they happen; where one does not follow on the last
//! that was told, others committed in between, and theirs are read from the table `changes` first. When we commit
//! nothing, `PRAGMA data_version` is asked for a few times a second: it differs whenever another connection committed.
//!
//! Locks: `told` is held while changes are read and told, and nothing else is locked meanwhile.

use super::connect::{Database, Role, close, failure};
use super::decode::column;
use super::read::Readers;
use super::script::Script;
use super::told::Told;
use crate::mounts::store::announce::Announcer;
use crate::mounts::store::engine::StoreChange;
use crate::mounts::store::record::Revision;
use crate::types::Result;
use futures::stream::BoxStream;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Executor, Row};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

/// How often others' commits are looked for.
const LOOK: Duration = Duration::from_millis(200);

/// Commits read at once.
const PART: i64 = 1024;

/// The feed of a namespace.
pub struct Feed {
    ns: i64,
    readers: Arc<Readers>,
    announcer: Announcer,
    /// The last commit that was told.
    told: Mutex<Revision>,
    look: parking_lot::Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl Feed {
    /// Tells what comes after `revision`. It looks out until it is closed or dropped.
    pub async fn start(database: &Database, readers: Arc<Readers>, ns: i64, revision: Revision) -> Result<Arc<Feed>> {
        let connection = database.connect(Role::Reader).await?;
        let feed = Arc::new(Feed {
            ns,
            readers,
            announcer: Announcer::default(),
            told: Mutex::new(revision),
            look: parking_lot::Mutex::new(None),
        });
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(look_out(Arc::downgrade(&feed), connection, stopped));
        *feed.look.lock() = Some((stop, task));
        Ok(feed)
    }

    /// What is told from now on.
    pub fn listen(&self) -> BoxStream<'static, StoreChange> {
        self.announcer.listen()
    }

    /// Tells our own commits, the last of which is `last`.
    pub async fn committed(&self, last: Revision, own: Vec<Told>) {
        let mut told = self.told.lock().await;
        let first = last.0 + 1 - own.len() as u64;
        if first > told.0 + 1 {
            self.read_to(&mut told, Revision(first - 1)).await;
        }
        for (revision, own) in (first..).zip(own) {
            if revision > told.0 {
                self.announcer.tell(own.change(Revision(revision)));
                *told = Revision(revision);
            }
        }
    }

    /// Tells what others committed meanwhile.
    async fn catch_up(&self) {
        let mut told = self.told.lock().await;
        self.read_to(&mut told, Revision(i64::MAX as u64)).await;
    }

    /// Tells what was committed after `told`, up to `last`. What cannot be read is told as lost.
    async fn read_to(&self, told: &mut Revision, last: Revision) {
        loop {
            match self.part(*told, last).await {
                Ok(part) if part.is_empty() => return,
                Ok(part) => {
                    for (revision, change) in part {
                        self.tell_one(told, revision, change);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "changes of others cannot be read; everything remembered is dropped");
                    self.announcer.tell(StoreChange::Lost);
                    return;
                }
            }
        }
    }

    fn tell_one(&self, told: &mut Revision, revision: Revision, change: Option<Told>) {
        let follows = revision.0 == told.0 + 1;
        *told = revision;
        match change {
            Some(change) if follows => self.announcer.tell(change.change(revision)),
            _ => {
                tracing::warn!(revision = revision.0, "fell behind the kept changes; everything remembered is dropped");
                self.announcer.tell(StoreChange::Lost);
            }
        }
    }

    /// Some commits after `after`, in order; `None` for one that cannot be understood.
    async fn part(&self, after: Revision, last: Revision) -> Result<Vec<(Revision, Option<Told>)>> {
        let mut script = Script::new();
        script.write(format_args!(
            "SELECT revision, session, keys, data FROM changes WHERE ns={} AND revision>? AND revision<=? \
             ORDER BY revision LIMIT {PART}",
            self.ns
        ));
        script.number(after.0).number(last.0);
        let rows = self.readers.rows("changes", script, false).await?;
        let read = |row| {
            let change = Told::read(column(row, 1)?, column(row, 2)?, column(row, 3)?);
            Ok((Revision(column::<i64>(row, 0)? as u64), change))
        };
        rows.iter().map(read).collect()
    }

    /// Stops looking out.
    pub async fn close(&self) {
        let look = self.look.lock().take();
        if let Some((stop, task)) = look {
            drop(stop);
            let _ = task.await;
        }
    }
}

/// Looks for commits of others until the feed is gone or closed.
async fn look_out(feed: Weak<Feed>, mut connection: SqliteConnection, mut stopped: oneshot::Receiver<()>) {
    let mut seen = None;
    loop {
        match data_version(&mut connection).await {
            Ok(version) if seen == Some(version) => {}
            Ok(version) => {
                // Asked before reading, so that what comes while we read is seen at the next look.
                seen = Some(version);
                let Some(feed) = feed.upgrade() else { break };
                feed.catch_up().await;
            }
            Err(error) => tracing::warn!(%error, "changes of others cannot be looked for"),
        }
        if tokio::time::timeout(LOOK, &mut stopped).await.is_ok() {
            break;
        }
    }
    let _ = close(connection).await;
}

async fn data_version(connection: &mut SqliteConnection) -> Result<i64> {
    let failed = |error| failure("changes", error);
    let row = connection.fetch_one("PRAGMA data_version").await.map_err(failed)?;
    row.try_get(0).map_err(failed)
}
