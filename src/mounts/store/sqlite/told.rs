//! What a commit tells of itself, and how it stands in the table `changes`.

use crate::mounts::store::announce::touched;
use crate::mounts::store::engine::{Batch, StoreChange};
use crate::mounts::store::record::{Counter, Key, Revision, SessionId};
use crate::types::{Name, NodeId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What a commit changes: told to this process's own subscribers, and written down for other processes.
pub struct Told {
    /// Who commits.
    pub session: Option<SessionId>,
    /// The records.
    pub keys: Vec<Key>,
    /// File, first byte, byte after the last.
    pub data: Vec<(NodeId, u64, u64)>,
}

impl Told {
    /// What `batch` will have changed.
    pub fn of(batch: &Batch, block_size: u32) -> Told {
        let (keys, data) = touched(batch, block_size);
        Told { session: batch.session, keys, data }
    }

    /// As it is told.
    pub fn change(self, revision: Revision) -> StoreChange {
        StoreChange::Commit { revision, session: self.session, keys: self.keys, data: self.data }
    }

    /// The columns `keys` and `data`: JSON, which an operator can read.
    pub fn columns(&self) -> (String, String) {
        let keys: Vec<KeyText> = self.keys.iter().map(KeyText::from).collect();
        let data: Vec<(u64, u64, u64)> = self.data.iter().map(|(node, start, end)| (node.0, *start, *end)).collect();
        let text = |done: serde_json::Result<String>| done.expect("numbers and strings have a JSON form");
        (text(serde_json::to_string(&keys)), text(serde_json::to_string(&data)))
    }

    /// From the columns; `None` where they are not what we write.
    pub fn read(session: Option<i64>, keys: &str, data: &str) -> Option<Told> {
        let keys: Vec<KeyText> = serde_json::from_str(keys).ok()?;
        let data: Vec<(u64, u64, u64)> = serde_json::from_str(data).ok()?;
        Some(Told {
            session: session.map(|id| SessionId(id as u64)),
            keys: keys.into_iter().map(KeyText::key).collect::<Option<_>>()?,
            data: data.into_iter().map(|(node, start, end)| (NodeId(node), start, end)).collect(),
        })
    }
}

/// A key, as it is written: `{"dentry":[1,"notes.md"]}`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KeyText {
    Inode(u64),
    Stats(u64),
    Dentry(u64, NameText),
    Xattr(u64, NameText),
    Block(u64, u64),
    Orphan(u64),
    Claim(u64, u64),
    Session(u64),
    Counter(CounterText),
    Locks(u64),
}

/// A name: text where it is UTF-8, its bytes as numbers where it is not.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum NameText {
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CounterText {
    NextInode,
    NextSession,
}

impl NameText {
    fn of(bytes: &[u8]) -> NameText {
        match std::str::from_utf8(bytes) {
            Ok(text) => NameText::Text(text.to_owned()),
            Err(_) => NameText::Bytes(bytes.to_vec()),
        }
    }

    fn bytes(self) -> Vec<u8> {
        match self {
            NameText::Text(text) => text.into_bytes(),
            NameText::Bytes(bytes) => bytes,
        }
    }
}

impl From<&Key> for KeyText {
    fn from(key: &Key) -> KeyText {
        match key {
            Key::Inode(node) => KeyText::Inode(node.0),
            Key::Stats(node) => KeyText::Stats(node.0),
            Key::Dentry(dir, name) => KeyText::Dentry(dir.0, NameText::of(name.as_bytes())),
            Key::Xattr(node, name) => KeyText::Xattr(node.0, NameText::of(name)),
            Key::Block(node, index) => KeyText::Block(node.0, *index),
            Key::Orphan(node) => KeyText::Orphan(node.0),
            Key::Claim(node, session) => KeyText::Claim(node.0, session.0),
            Key::Session(id) => KeyText::Session(id.0),
            Key::Counter(Counter::NextInode) => KeyText::Counter(CounterText::NextInode),
            Key::Counter(Counter::NextSession) => KeyText::Counter(CounterText::NextSession),
            Key::Locks(node) => KeyText::Locks(node.0),
        }
    }
}

impl KeyText {
    fn key(self) -> Option<Key> {
        Some(match self {
            KeyText::Inode(node) => Key::Inode(NodeId(node)),
            KeyText::Stats(node) => Key::Stats(NodeId(node)),
            KeyText::Dentry(dir, name) => Key::Dentry(NodeId(dir), Name::new(&name.bytes()).ok()?),
            KeyText::Xattr(node, name) => Key::Xattr(NodeId(node), Bytes::from(name.bytes())),
            KeyText::Block(node, index) => Key::Block(NodeId(node), index),
            KeyText::Orphan(node) => Key::Orphan(NodeId(node)),
            KeyText::Claim(node, session) => Key::Claim(NodeId(node), SessionId(session)),
            KeyText::Session(id) => Key::Session(SessionId(id)),
            KeyText::Counter(CounterText::NextInode) => Key::Counter(Counter::NextInode),
            KeyText::Counter(CounterText::NextSession) => Key::Counter(Counter::NextSession),
            KeyText::Locks(node) => Key::Locks(NodeId(node)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_as_it_was_written() {
        let keys = vec![
            Key::Inode(NodeId(1)),
            Key::Stats(NodeId(u64::MAX)),
            Key::Dentry(NodeId(1), Name::new(b"\xff\n\"").expect("a name")),
            Key::Dentry(NodeId(1), Name::new("[é]".as_bytes()).expect("a name")),
            Key::Xattr(NodeId(2), Bytes::from_static(b"user.note")),
            Key::Block(NodeId(2), 7),
            Key::Orphan(NodeId(3)),
            Key::Claim(NodeId(3), SessionId(4)),
            Key::Session(SessionId(4)),
            Key::Counter(Counter::NextInode),
            Key::Counter(Counter::NextSession),
            Key::Locks(NodeId(2)),
        ];
        let told = Told { session: Some(SessionId(9)), keys: keys.clone(), data: vec![(NodeId(2), 0, u64::MAX)] };
        let (text, data) = told.columns();
        let read = Told::read(Some(9), &text, &data).expect("what was written");
        assert_eq!((read.session, read.keys, read.data), (told.session, keys, told.data));
        assert!(text.contains(r#"{"dentry":[1,"[é]"]}"#), "{text}");
        assert!(Told::read(None, "[{\"what\":1}]", "[]").is_none());
    }
}
