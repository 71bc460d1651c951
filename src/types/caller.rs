//! Who asks.

/// The face through which a change was made: one number for each session, and one for each mount that it serves.
///
/// A session passes over the changes of its own origin, since the kernel that made them knows them already.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Origin(pub u64);

impl Origin {
    /// Somebody outside this process.
    pub const OUTSIDE: Origin = Origin(0);

    /// A number that nobody else in this process has.
    pub fn new() -> Origin {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Origin(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for Origin {
    fn default() -> Origin {
        Origin::new()
    }
}

/// The principal on whose behalf an operation runs.
///
/// Permission is checked before a volume is asked (by the kernel, `default_permissions`); a volume uses this
/// to own what it creates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// The calling thread's id in our pid namespace; 0 where it has none.
    pub tid: u32,
    /// The face it came through.
    pub origin: Origin,
}
