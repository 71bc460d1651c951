//! How the locks of a file stand in the table `locks`: JSON, which an operator can read, and which the view `held_locks`
//! spreads out.

use crate::mounts::locks::HeldLock;
use crate::mounts::store::record::{LockHolder, SessionId};
use crate::types::{LockKind, LockOwner, LockRange, Origin};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct HeldText {
    session: u64,
    kind: KindText,
    first: u64,
    last: u64,
    pid: u32,
    origin: u64,
    owner: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindText {
    Read,
    Write,
}

/// The column.
pub fn write(locks: &[HeldLock<LockHolder>]) -> String {
    let texts: Vec<HeldText> = locks.iter().map(HeldText::from).collect();
    serde_json::to_string(&texts).expect("numbers and words have a JSON form")
}

/// From the column; `None` where it is not what we write.
pub fn read(text: &str) -> Option<Vec<HeldLock<LockHolder>>> {
    let texts: Vec<HeldText> = serde_json::from_str(text).ok()?;
    texts.into_iter().map(HeldText::lock).collect()
}

impl From<&HeldLock<LockHolder>> for HeldText {
    fn from(lock: &HeldLock<LockHolder>) -> HeldText {
        let HeldLock { range, owner: LockHolder { session, owner }, kind, pid } = lock;
        HeldText {
            session: session.0,
            kind: match kind {
                LockKind::Read => KindText::Read,
                LockKind::Write => KindText::Write,
            },
            first: range.start(),
            last: range.end(),
            pid: *pid,
            origin: owner.origin.0,
            owner: owner.number,
        }
    }
}

impl HeldText {
    fn lock(self) -> Option<HeldLock<LockHolder>> {
        let owner = LockOwner { origin: Origin(self.origin), number: self.owner };
        Some(HeldLock {
            range: LockRange::new(self.first, self.last).ok()?,
            owner: LockHolder { session: SessionId(self.session), owner },
            kind: match self.kind {
                KindText::Read => LockKind::Read,
                KindText::Write => LockKind::Write,
            },
            pid: self.pid,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_read_as_they_were_written() {
        let owner =
            LockHolder { session: SessionId(7), owner: LockOwner { origin: Origin(u64::MAX), number: u64::MAX } };
        let range = LockRange::new(5, 9).expect("a range");
        let locks = [(LockRange::WHOLE, LockKind::Read), (range, LockKind::Write)].map(|(range, kind)| HeldLock {
            range,
            owner,
            kind,
            pid: 8,
        });
        assert_eq!(read(&write(&locks)).as_deref(), Some(&locks[..]));
        assert!(write(&locks).contains(r#""kind":"write","first":5,"last":9,"pid":8"#), "{}", write(&locks));
        assert!(read(r#"[{"kind":"write"}]"#).is_none());
    }
}
