//! On what a behaviour is shown, and the macros that make one test of it for each.

use super::Scene;

/// What holds the files of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A plain directory: it shows that the test itself is right.
    Native,
    /// A directory of the host, through workfs.
    Disk,
    /// The same, with kernel passthrough.
    Passthrough,
    /// A store in an SQLite file.
    Sqlite,
    /// A store in the memory of the server.
    Memory,
}

impl Kind {
    /// Whether what is written is still there after the server has gone.
    pub fn keeps(self) -> bool {
        self != Kind::Memory
    }

    /// Whether a whole filesystem of its own holds the files (statfs, quota and link numbers are its own).
    pub fn is_store(self) -> bool {
        matches!(self, Kind::Sqlite | Kind::Memory)
    }
}

/// How the tree is put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sessions {
    /// A kernel mount for each mount of the workspace.
    Nested,
    /// One for all.
    Single,
}

/// Makes of each function one test for each kind of place and each way of putting the tree together, so that the name of
/// a failure says on what it failed. The function is given a [`super::Scene`].
macro_rules! each_kind {
    ($($(#[$meta:meta])* fn $name:ident($scene:ident) $body:block)+) => {
        $crate::harness::kind::on_kinds! {
            [native Native Nested, disk_nested Disk Nested, disk_single Disk Single, sqlite_nested Sqlite Nested,
             sqlite_single Sqlite Single, memory_nested Memory Nested, memory_single Memory Single;
             passthrough Passthrough Nested, passthrough_single Passthrough Single]
            $($(#[$meta])* fn $name($scene) $body)+
        }
    };
}

/// Like [`each_kind`], for what takes long: on all kinds in a full run, and else on native, disk and SQLite, nested.
macro_rules! each_stored_kind {
    ($($(#[$meta:meta])* fn $name:ident($scene:ident) $body:block)+) => {
        $crate::harness::kind::on_kinds! {
            [native Native Nested, disk Disk Nested, sqlite Sqlite Nested; disk_single Disk Single,
             passthrough Passthrough Nested, sqlite_single Sqlite Single, memory Memory Nested,
             memory_single Memory Single]
            $($(#[$meta])* fn $name($scene) $body)+
        }
    };
}

/// Like [`each_stored_kind`], for what takes minutes: in a full run only.
macro_rules! each_stored_kind_in_full {
    ($($(#[$meta:meta])* fn $name:ident($scene:ident) $body:block)+) => {
        $crate::harness::kind::on_kinds! {
            [; native Native Nested, disk Disk Nested, sqlite Sqlite Nested, memory Memory Nested]
            $($(#[$meta])* fn $name($scene) $body)+
        }
    };
}

macro_rules! on_kinds {
    ($kinds:tt $($(#[$meta:meta])* fn $name:ident($scene:ident) $body:block)+) => {
        $(
            $(#[$meta])*
            mod $name {
                #[allow(unused_imports, reason = "a behaviour takes what it needs of its file's imports")]
                use super::*;

                fn behaviour($scene: &mut $crate::harness::Scene) $body

                $crate::harness::kind::tests_on! { $kinds behaviour }
            }
        )+
    };
}

macro_rules! tests_on {
    ([$($test:ident $kind:ident $sessions:ident),* $(; $($long:ident $long_kind:ident $long_sessions:ident),+)?]
        $behaviour:ident) => {
        $(
            #[test]
            fn $test() {
                $crate::harness::kind::show($crate::harness::Kind::$kind, $crate::harness::Sessions::$sessions, $behaviour);
            }
        )*
        $($(
            #[test]
            #[ignore = "long: scripts/check --full"]
            fn $long() {
                use $crate::harness::{Kind, Sessions};
                $crate::harness::kind::show(Kind::$long_kind, Sessions::$long_sessions, $behaviour);
            }
        )+)?
    };
}

/// Shows a behaviour on one kind of place.
pub fn show(kind: Kind, sessions: Sessions, behaviour: fn(&mut Scene)) {
    let mut scene = Scene::new(kind, sessions);
    behaviour(&mut scene);
    scene.end();
}

pub(crate) use {each_kind, each_stored_kind, each_stored_kind_in_full, on_kinds, tests_on};
