//! What is compared with the reference, and the comparison.

use super::op::{Op, Reply};
use super::reference::{Body, Id, Model, Verdict};
use std::collections::BTreeMap;
use std::ops::Range;
use workfs::types::{Attr, Errno, FileKind, Seek};

/// What an operation gave.
#[derive(Debug)]
pub enum Answer {
    Done,
    Attr(Box<Attr>),
    Bytes(Vec<u8>),
    Names(BTreeMap<String, FileKind>),
    Xattrs(Vec<String>),
    Place(u64),
    Refused(Errno),
}

/// Where operations are done.
pub trait World {
    /// Does one. The model is as it was before.
    fn perform(&mut self, op: &Op, model: &Model) -> impl Future<Output = Answer>;

    /// A file's bytes in a range, as far as there are any.
    fn bytes(&mut self, model: &Model, id: Id, range: Range<u64>) -> impl Future<Output = Vec<u8>>;

    /// A file's attributes.
    fn attr(&mut self, model: &Model, id: Id) -> impl Future<Output = Attr>;

    /// Whether it holds a file though it may have no name.
    fn knows(&self, id: Id) -> bool;

    /// Files may have gone.
    fn retired(&mut self, model: &Model);
}

/// In what filesystems differ that are all right.
#[derive(Clone, Copy)]
pub struct Habits {
    /// Reads change no access time.
    pub noatime: bool,
    /// How far a time may lie before the operation: the tick of a host's clock.
    pub tick: i64,
    /// What a file takes up is known to the byte when nothing is pending. A kernel keeps what it was told before.
    pub counts_room: bool,
}

/// Says in what an answer is wrong.
pub fn judge(model: &mut Model, verdict: &Verdict<Reply>, answer: &Answer, habits: Habits) -> Result<(), String> {
    let agrees = match (verdict, answer) {
        (Err(refusals), Answer::Refused(errno)) => refusals.contains(errno),
        (Ok(Reply::Done), Answer::Done) => true,
        (Ok(Reply::File(id)), Answer::Attr(attr)) => return compare(model, *id, attr, habits),
        (Ok(Reply::Bytes(right)), Answer::Bytes(seen)) => right == seen,
        (Ok(Reply::Names(right)), Answer::Names(seen)) => right == seen,
        (Ok(Reply::Xattrs(right)), Answer::Xattrs(seen)) => {
            // A host may have attributes of its own.
            let mut seen: Vec<_> = seen.iter().filter(|name| !name.starts_with("security.")).collect();
            seen.sort();
            right.iter().collect::<Vec<_>>() == seen
        }
        (Ok(Reply::Place { node, offset, whence }), answer) => is_place(model, *node, *offset, *whence, answer),
        _ => false,
    };
    if agrees { Ok(()) } else { Err(format!("right: {}\ngiven: {}", short(verdict), short(answer))) }
}

fn short(what: &impl std::fmt::Debug) -> String {
    let mut text = format!("{what:?}");
    if text.len() > 600 {
        text = format!("{} … {} characters", text.chars().take(600).collect::<String>(), text.len());
    }
    text
}

/// Between what is asked for and what is found there is only the other.
fn is_place(model: &Model, node: Id, offset: u64, whence: Seek, answer: &Answer) -> bool {
    let contents = model.contents(node);
    let data = contents.next_data(offset).unwrap_or(u64::MAX);
    match (whence, answer) {
        (Seek::Data, Answer::Refused(Errno::ENXIO)) => data >= contents.size,
        (Seek::Data, Answer::Place(at)) => (offset..contents.size).contains(at) && data >= *at,
        (Seek::Hole, Answer::Place(at)) => {
            (offset..=contents.size).contains(at) && (*at == contents.size || contents.read(*at, 1) == [0])
        }
        _ => false,
    }
}

/// Compares attributes; times that are seen are known from then on.
pub fn compare(model: &mut Model, id: Id, seen: &Attr, habits: Habits) -> Result<(), String> {
    let links = model.links(id);
    let inode = model.inode_mut(id);
    let (size, room) = match &inode.body {
        Body::File(contents) => (Some(contents.size), contents.room()),
        Body::Symlink(target) => (Some(target.len() as u64), u64::MAX),
        _ => (None, u64::MAX),
    };
    let right = (inode.kind(), inode.mode, inode.uid, inode.gid, links, size.unwrap_or(seen.size));
    let told = (seen.kind, seen.mode, seen.uid, seen.gid, seen.links, seen.size);
    if right != told {
        return Err(format!("file {id}: kind, mode, owner, group, links and size\nright: {right:?}\ngiven: {told:?}"));
    }
    if habits.counts_room && inode.earlier.is_empty() && seen.blocks * 512 > room {
        return Err(format!("file {id} takes {} blocks, and {room} bytes at most", seen.blocks));
    }
    if inode.is_dir() && inode.names == 0 {
        return Ok(());
    }
    for (which, time, told) in [
        ("atime", &mut inode.atime, seen.atime),
        ("mtime", &mut inode.mtime, seen.mtime),
        ("ctime", &mut inode.ctime, seen.ctime),
    ] {
        if (which != "atime" || habits.noatime) && !time.admits(told) {
            return Err(format!("file {id}: {which} {time:?}, given {told:?}"));
        }
    }
    Ok(())
}
