//! Whether a workspace is mounted as nested sessions or as one.

use crate::types::{Errno, Error, Result};
use crate::workspace::Mount;

/// How a workspace's mounts become sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Nesting {
    /// Nested where that is known to work, else one session.
    #[default]
    Auto,
    /// A session for each mount, nested in one another: the kernel crosses between them.
    Nested,
    /// One session for the whole tree.
    Single,
}

/// What was decided, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Decision {
    pub nested: bool,
    pub reason: &'static str,
    /// Whether other users may enter; the kernel checks permissions in any case.
    pub allow_other: bool,
}

/// Decides for the user of this process.
pub(super) fn decide(wish: Nesting, mounts: &[Mount]) -> Result<Decision> {
    let lone = matches!(mounts, [only] if only.at.is_root());
    choose(wish, lone, rustix::process::geteuid().is_root(), user_allow_other())
}

/// `fusermount3` works as root, which an ordinary user's mount keeps out unless `allow_other` is given; so such a
/// user can nest only where the machine lets users give it.
fn choose(wish: Nesting, lone: bool, root: bool, user_allow_other: bool) -> Result<Decision> {
    let decided = |nested, reason| Ok(Decision { nested, reason, allow_other: root || (nested && !lone) });
    match wish {
        Nesting::Single => decided(false, "asked for"),
        Nesting::Nested if root || lone || user_allow_other => decided(true, "asked for"),
        Nesting::Nested => Err(Error::new("mount", Errno::EPERM).context(
            "an ordinary user can nest mounts only with a line `user_allow_other` in /etc/fuse.conf; one session for \
             all mounts needs nothing",
        )),
        Nesting::Auto if root => decided(true, "root can nest mounts"),
        Nesting::Auto if lone => decided(true, "there is one mount only"),
        Nesting::Auto if user_allow_other => decided(true, "user_allow_other is set in /etc/fuse.conf"),
        Nesting::Auto => {
            decided(false, "an ordinary user cannot nest mounts without user_allow_other in /etc/fuse.conf")
        }
    }
}

fn user_allow_other() -> bool {
    let config = std::fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    config.lines().any(|line| line.trim() == "user_allow_other")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(wish: Nesting, lone: bool, root: bool, user_allow_other: bool) -> Option<bool> {
        choose(wish, lone, root, user_allow_other).ok().map(|decision| decision.nested)
    }

    #[test]
    fn nested_is_chosen_where_it_works() {
        assert_eq!(nested(Nesting::Auto, false, true, false), Some(true));
        assert_eq!(nested(Nesting::Auto, false, false, true), Some(true));
        assert_eq!(nested(Nesting::Auto, false, false, false), Some(false));
        assert_eq!(nested(Nesting::Auto, true, false, false), Some(true));
    }

    #[test]
    fn what_is_asked_for_is_done_or_refused() {
        assert_eq!(nested(Nesting::Single, false, true, true), Some(false));
        assert_eq!(nested(Nesting::Nested, false, true, false), Some(true));
        assert_eq!(nested(Nesting::Nested, false, false, false), None);
    }

    #[test]
    fn an_ordinary_users_lone_mount_is_for_that_user() {
        let decision = choose(Nesting::Auto, true, false, true).expect("decided");
        assert!(!decision.allow_other);
    }
}
