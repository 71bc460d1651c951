//! Which operation comes next: names are few, so that they collide; sizes lie around the borders of blocks; files are
//! kept open while their names come and go.

use super::names::At;
use super::op::Op;
use super::reference::{Id, Model, ROOT, SLOTS, Who};
use workfs::types::{
    Access, AllocateMode, FileKind, Mode, OpenFlags, RenameMode, Seek, SetAttr, SetTime, Timestamp, XattrMode,
};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "ä\u{1f980} \\"];
pub const XATTRS: [&str; 4] = ["user.a", "user.b", "user.c", "trusted.t"];

/// With so many files there are more removals than makings.
const CROWD: usize = 40;

/// Chooses operations.
pub struct Chooser {
    pub random: fastrand::Rng,
    /// Whether all is done by root, by names and through the kernel.
    pub through_kernel: bool,
    /// The size of the largest file.
    pub largest: u64,
}

impl Chooser {
    pub fn new(seed: u64, through_kernel: bool, largest: u64) -> Chooser {
        Chooser { random: fastrand::Rng::with_seed(seed), through_kernel, largest }
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.random.usize(..choices.len())]
    }

    fn one_in(&mut self, times: u32) -> bool {
        self.random.u32(..times) == 0
    }

    fn who(&mut self) -> Who {
        if !self.through_kernel && self.one_in(3) { Who::Other } else { Who::Root }
    }

    /// A file that is so; the root where there is none.
    fn node(&mut self, model: &Model, known: &dyn Fn(Id) -> bool, is: impl Fn(FileKind) -> bool) -> Id {
        let found: Vec<Id> = (model.nodes.iter())
            .filter(|(id, inode)| is(inode.kind()) && (inode.names > 0 || (known(**id) && !inode.is_dir())))
            .filter(|(id, inode)| inode.names == 0 || model.path(**id).is_some())
            .map(|(id, _)| *id)
            .collect();
        if found.is_empty() { ROOT } else { self.of(&found) }
    }

    /// A name in a directory; sometimes in one that was removed.
    fn at(&mut self, model: &Model, known: &dyn Fn(Id) -> bool) -> At {
        let removed: Vec<Id> = (model.nodes.iter())
            .filter(|(id, inode)| inode.is_dir() && inode.names == 0 && known(**id))
            .map(|(id, _)| *id)
            .collect();
        let dir = match !removed.is_empty() && self.one_in(8) {
            true => self.of(&removed),
            false => self.node(model, known, |kind| kind == FileKind::Directory),
        };
        At { dir, name: self.of(&NAMES) }
    }

    /// A name that is there, more often than not.
    fn taken(&mut self, model: &Model, known: &dyn Fn(Id) -> bool) -> At {
        for _ in 0..6 {
            let at = self.at(model, known);
            if model.child(at).is_some() {
                return at;
            }
        }
        self.at(model, known)
    }

    fn mode(&mut self) -> Mode {
        let bits = [0o644, 0o755, 0o600, 0o777, 0o640, 0o444];
        // Through the kernel the umask takes its part.
        let umask = if self.through_kernel { 0o022 } else { 0 };
        Mode::new(self.of(&bits) & !umask)
    }

    /// Around the borders of pages and blocks, and now and then far away.
    fn place(&mut self) -> u64 {
        let border = self.of(&[0, 0, 4096, 65_536, 131_072, 131_072, 262_144, 400_000]);
        if self.one_in(60) {
            return (self.largest / self.of(&[1, 2, 1000])).saturating_sub(300_000 + self.random.u64(..1000));
        }
        (border + self.random.u64(..6_000)).saturating_sub(3_000)
    }

    fn data(&mut self) -> Vec<u8> {
        let len = match self.random.u8(..12) {
            0 => 0,
            1 => self.random.usize(..200_000),
            _ => self.random.usize(1..4_000),
        };
        vec![self.random.u8(1..); len]
    }

    fn flags(&mut self) -> OpenFlags {
        let access = self.of(&[Access::ReadWrite, Access::ReadWrite, Access::ReadWrite, Access::Write, Access::Read]);
        OpenFlags {
            append: access.writes() && self.one_in(4),
            truncate: access.writes() && self.one_in(6),
            exclusive: false,
            sync: access.writes() && self.one_in(10),
            ..OpenFlags::access(access)
        }
    }

    fn set(&mut self, kind: FileKind) -> SetAttr {
        let mut set = SetAttr::default();
        let time = |chooser: &mut Chooser| match chooser.random.u8(..3) {
            0 => SetTime::Now,
            _ => {
                SetTime::At(Timestamp::from_parts(chooser.random.i64(-1 << 30..1 << 32), chooser.random.u32(..1 << 29)))
            }
        };
        match self.random.u8(..5) {
            0 | 1 if kind != FileKind::Symlink => {
                let bits = self.of(&[0o644, 0o755, 0o4755, 0o2755, 0o6777, 0o2644]);
                set.mode = Some(Mode::new(if kind == FileKind::Directory { bits | 0o700 } else { bits }));
            }
            2 => set.uid = Some(self.of(&[0, 1234, 77])),
            3 => set.gid = Some(self.of(&[0, 2345, 88])),
            _ => set.mtime = Some(time(self)),
        }
        if self.one_in(4) {
            set.atime = Some(time(self));
        }
        if kind == FileKind::Regular && self.one_in(5) || self.one_in(100) {
            set.size = Some(self.place());
        }
        set
    }

    /// The next operation.
    pub fn next(&mut self, model: &Model, known: &dyn Fn(Id) -> bool) -> Op {
        let crowded = model.nodes.len() > CROWD;
        match self.random.u8(..100) {
            0..40 => self.of_handle(model, known),
            40..55 => self.of_attributes(model, known),
            55..58 => Op::List {
                dir: self.node(model, known, is_dir),
                page: self.random.usize(1..5),
                plus: self.random.bool(),
            },
            58..62 => Op::Lookup(self.at(model, known)),
            62..65 if !self.through_kernel => Op::Forget(self.node(model, known, |_| true)),
            65 if self.one_in(20) => Op::SyncAll,
            66 if self.one_in(40) => Op::Pause,
            67..78 if !crowded => self.making(model, known),
            78..84 => Op::Rename {
                from: self.taken(model, known),
                to: self.at(model, known),
                mode: self.of(&[RenameMode::Replace, RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]),
            },
            84..88 if !crowded => {
                let node = self.node(model, known, |kind| kind != FileKind::Directory);
                Op::Link { node, at: self.at(model, known) }
            }
            88..91 => Op::Rmdir(self.taken(model, known)),
            _ => Op::Unlink(self.taken(model, known)),
        }
    }

    fn making(&mut self, model: &Model, known: &dyn Fn(Id) -> bool) -> Op {
        let (at, mode, who) = (self.at(model, known), self.mode(), self.who());
        match self.random.u8(..10) {
            // Whoever owns a directory may go on working in it: a host checks that itself.
            0..4 => Op::Mkdir { at, mode: Mode::new(mode.bits() | 0o700), who },
            4 => Op::Symlink { at, target: vec![b'x'; self.random.usize(1..300)], who },
            5 => Op::Mknod { at, kind: self.of(&[FileKind::Regular, FileKind::Fifo, FileKind::Socket]), mode, who },
            _ => self.creation(model, known),
        }
    }

    fn creation(&mut self, model: &Model, known: &dyn Fn(Id) -> bool) -> Op {
        let (at, mode, who) = (self.at(model, known), self.mode(), self.who());
        // A file that is there, a host opens only for whom it allows.
        let who = if model.child(at).is_some() { Who::Root } else { who };
        let flags = OpenFlags { exclusive: self.one_in(3), ..self.flags() };
        match model.child(at).map(|id| model.inode(id).kind()) {
            // To open one of these is the kernel's business, and takes somebody at its other end.
            Some(FileKind::Fifo | FileKind::Socket) if !flags.exclusive => Op::Lookup(at),
            _ => Op::Create { at, mode, flags, slot: self.free(model), who },
        }
    }

    /// A free slot; a file that is open is closed by whoever opens another there.
    fn free(&mut self, model: &Model) -> usize {
        model.slots.iter().position(Option::is_none).unwrap_or_else(|| self.random.usize(..SLOTS))
    }

    fn of_handle(&mut self, model: &Model, known: &dyn Fn(Id) -> bool) -> Op {
        let slot = self.random.usize(..SLOTS);
        let Some(handle) = model.slots[slot] else {
            let node = self.node(model, known, |kind| kind == FileKind::Regular);
            return match node {
                ROOT => self.creation(model, known),
                node => Op::Open { node, flags: self.flags(), slot, who: self.who() },
            };
        };
        // The model remembers what a crash might bring back.
        if model.inode(handle.node).earlier.len() > 40 {
            return Op::Flush { slot, durable: false };
        }
        let (offset, who) = (self.place(), self.who());
        match self.random.u8(..40) {
            0..12 if model.may_write(slot) => Op::Write { slot, offset, data: self.data(), who },
            12..22 if model.may_read(slot) => Op::Read { slot, offset, len: self.random.u32(..300_000) },
            22..25 if model.may_write(slot) => Op::Truncate { slot, size: offset, who },
            25..28 if model.may_write(slot) => {
                let modes = [AllocateMode::KeepSize, AllocateMode::PunchHole, AllocateMode::ZeroKeepSize];
                let mode = self.of(&[modes[0], modes[1], modes[2], AllocateMode::Extend, AllocateMode::Zero]);
                // What is reserved must be there on a disk.
                let offset = if offset > 1 << 20 { 0 } else { offset };
                Op::Allocate { slot, offset, len: 1 + self.random.u64(..200_000), mode, who }
            }
            28..31 => Op::Seek { slot, offset, whence: self.of(&[Seek::Data, Seek::Hole]) },
            31..34 => Op::Flush { slot, durable: self.one_in(4) },
            34..38 => Op::Close { slot, flush: !self.one_in(3) },
            _ => Op::Stat(handle.node),
        }
    }

    fn of_attributes(&mut self, model: &Model, known: &dyn Fn(Id) -> bool) -> Op {
        let node = self.node(model, known, |_| true);
        let bearer = self.node(model, known, |kind| matches!(kind, FileKind::Regular | FileKind::Directory));
        let name = self.of(&XATTRS);
        match self.random.u8(..12) {
            0..4 => Op::Set { node, set: self.set(model.inode(node).kind()), who: self.who() },
            4..6 => Op::SetXattr {
                node: bearer,
                name,
                value: vec![self.random.u8(..); self.random.usize(..200)],
                mode: self.of(&[XattrMode::Set, XattrMode::Set, XattrMode::Create, XattrMode::Replace]),
            },
            6 => Op::GetXattr { node: bearer, name },
            7 => Op::RemoveXattr { node: bearer, name },
            8 => Op::ListXattr(bearer),
            9 => Op::ReadLink(self.node(model, known, |kind| kind == FileKind::Symlink)),
            _ => Op::Stat(node),
        }
    }
}

fn is_dir(kind: FileKind) -> bool {
    kind == FileKind::Directory
}
