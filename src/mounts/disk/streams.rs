//! Directories being listed. The kernel does not tell us when a program opens or closes one, so a reading position is
//! kept after each page, and the page that goes on from there continues with it.

use super::host;
use super::nodes::Node;
use crate::types::{FileKind, Name};
use parking_lot::Mutex;
use rustix::fs::{FileType, OFlags, RawDir, SeekFrom};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How many positions are kept.
const KEPT: usize = 32;

/// How long a position is kept.
const IDLE: Duration = Duration::from_secs(10);

/// How long entries that were read ahead are good; the host's own library keeps a page for as long as it likes.
const FRESH: Duration = Duration::from_secs(1);

/// How much is read from the host at once, in bytes.
const PAGE: usize = 32 * 1024;

/// An entry as the host lists it.
pub struct Found {
    /// Its name.
    pub name: Name,
    /// Its inode number, as the directory has it.
    pub inode: u64,
    /// Its kind, where the directory has that.
    pub kind: Option<FileKind>,
    /// The place after it.
    pub cookie: u64,
}

/// A reading position in a directory.
pub struct Stream {
    fd: OwnedFd,
    /// After the last entry that was given out.
    at: u64,
    ahead: VecDeque<Found>,
    read: Instant,
    ended: bool,
}

impl Stream {
    /// At the start of the directory that `path` is a descriptor of.
    pub fn open(path: BorrowedFd<'_>) -> rustix::io::Result<Stream> {
        let fd = host::reopen(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Stream { fd, at: 0, ahead: VecDeque::new(), read: Instant::now(), ended: false })
    }

    /// Goes to the place `after`, and looks anew at what is there unless it was looked at just now.
    pub fn seek(&mut self, after: u64) -> rustix::io::Result<()> {
        let goes_on = after == self.at && after != 0;
        if goes_on && !self.ended && (self.ahead.is_empty() || self.read.elapsed() < FRESH) {
            return Ok(());
        }
        self.ahead.clear();
        self.ended = false;
        self.at = rustix::fs::seek(&self.fd, SeekFrom::Start(after))?;
        Ok(())
    }

    /// The next entry, without `.` and `..`.
    pub fn next(&mut self) -> rustix::io::Result<Option<Found>> {
        if self.ahead.is_empty() && !self.ended {
            self.fill()?;
        }
        let found = self.ahead.pop_front();
        if let Some(found) = &found {
            self.at = found.cookie;
        }
        Ok(found)
    }

    fn fill(&mut self) -> rustix::io::Result<()> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); PAGE];
        let mut entries = RawDir::new(&self.fd, &mut buffer);
        self.read = Instant::now();
        loop {
            let Some(entry) = entries.next() else {
                self.ended = true;
                return Ok(());
            };
            let entry = match entry {
                // So it is answered for a directory that was removed.
                Err(rustix::io::Errno::NOENT) => {
                    self.ended = true;
                    return Ok(());
                }
                entry => entry?,
            };
            // `.` and `..` are no names, and nothing else that a host lists is none.
            if let Ok(name) = Name::new(entry.file_name().to_bytes()) {
                let (inode, cookie) = (entry.ino(), entry.next_entry_cookie());
                self.ahead.push_back(Found { name, inode, kind: kind(entry.file_type()), cookie });
            }
            if entries.is_buffer_empty() && !self.ahead.is_empty() {
                return Ok(());
            }
        }
    }
}

fn kind(kind: FileType) -> Option<FileKind> {
    Some(match kind {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::CharDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::Unknown => return None,
    })
}

/// The positions kept by one volume, the one used last at the end.
pub struct Streams(Mutex<Vec<Kept>>);

struct Kept {
    /// [`Node::serial`]
    node: u64,
    stream: Stream,
    used: Instant,
}

impl Streams {
    /// None yet.
    pub fn new() -> Streams {
        Streams(Mutex::new(Vec::new()))
    }

    /// Takes a position in `dir`, best one that is just at `after`. It goes back by [`Streams::put`].
    pub fn take(&self, dir: &Node, after: u64) -> Option<Stream> {
        let mut kept = self.0.lock();
        let exact = kept.iter().rposition(|kept| kept.node == dir.serial && kept.stream.at == after);
        // One that somebody else may go on from is left alone as long as there is room.
        exact.map(|index| kept.remove(index).stream)
    }

    /// Keeps a position for the page after this one.
    pub fn put(&self, dir: &Node, stream: Stream) {
        let now = Instant::now();
        let mut kept = self.0.lock();
        kept.push(Kept { node: dir.serial, stream, used: now });
        let idle = kept.iter().take_while(|kept| now.duration_since(kept.used) > IDLE).count();
        let surplus = idle.max(kept.len().saturating_sub(KEPT));
        let gone: Vec<Kept> = kept.drain(..surplus).collect();
        drop(kept);
        drop(gone);
    }

    /// Closes every position in `dir`.
    pub fn let_go(&self, dir: &Node) {
        let mut kept = self.0.lock();
        let gone: Vec<Kept> = kept.extract_if(.., |kept| kept.node == dir.serial).collect();
        drop(kept);
        drop(gone);
    }

    /// Closes every position.
    pub fn let_go_of_all(&self) {
        let gone = std::mem::take(&mut *self.0.lock());
        drop(gone);
    }
}
