//! Numbers that must not be mixed up.

use std::fmt;

/// A file's number inside one volume, as `st_ino` shows it. Never 0.
///
/// A volume never gives a number to a second file while a caller may still hold the first
/// (holding is counted by `lookup` and ended by `forget`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// Tells two files apart that bore one [`NodeId`] at different times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Generation(pub u64);

/// A place in a directory: the position just after one entry. `Cookie::START` is before the first.
///
/// Cookies are at most `i64::MAX` and stay valid while other entries come and go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Cookie(pub u64);

impl Cookie {
    /// Before the first entry.
    pub const START: Cookie = Cookie(0);
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
