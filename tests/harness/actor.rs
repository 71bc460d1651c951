//! Code of the tests that runs in a process of its own: several of them at one file show what threads cannot.
//!
//! A child is this same test binary, told by its environment which role to play.

use super::program::Running;
use super::scene::Scene;
use std::path::{Path, PathBuf};

/// The one test that a child runs.
const ENTRY: &str = "harness::actor::a_child_plays_its_role";

/// What a role is told: a path and some numbers.
pub struct Part {
    /// The path.
    pub path: PathBuf,
    /// The numbers, in the order in which they were given.
    pub numbers: Vec<u64>,
}

/// What a process does in its part.
type Role = fn(&Part);

/// The roles, which stand in the files of the tests that use them.
const ROLES: &[(&str, Role)] = &[
    ("echo", echo),
    ("append", crate::behaviour_append::append_lines),
    ("count-under-lock", crate::behaviour_locks_shared::count_under_lock),
    ("hold-flock", crate::behaviour_locks::hold_flock),
    ("hold-range", crate::behaviour_locks::hold_range),
    ("map-and-write", crate::behaviour_mmap::map_and_write),
    ("rename-over", crate::behaviour_rename::rename_over_for_a_while),
    ("keep-writing", crate::kill::load::keep_writing),
    ("rewrite-yaml", crate::many_writers::rewrite_yaml),
];

impl Scene {
    /// Starts a process that plays `role`.
    #[track_caller]
    pub fn actor(&self, role: &str, path: &Path, numbers: &[u64]) -> Running<'_> {
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let binary = std::env::current_exe().expect("this binary has a path");
        // Not inside the mount: an actor that outlives it must not hold it.
        let program = self.program(binary).dir(self.home()).args([ENTRY, "--exact", "--nocapture", "--test-threads=1"]);
        program
            .env("WORKFS_TEST_ROLE", role)
            .env("WORKFS_TEST_PATH", path)
            .env("WORKFS_TEST_NUMBERS", numbers.join(" "))
            .start()
    }
}

fn echo(part: &Part) {
    std::fs::write(&part.path, part.numbers.iter().sum::<u64>().to_string()).expect("the answer can be written");
}

/// In a child: plays the role. In the test run itself: shows that a child does.
#[test]
fn a_child_plays_its_role() {
    let Ok(role) = std::env::var("WORKFS_TEST_ROLE") else {
        let scene = Scene::new(super::Kind::Native, super::Sessions::Nested);
        let path = scene.at("answer");
        scene.actor("echo", &path, &[20, 22]).text();
        assert_eq!(std::fs::read(&path).expect("the answer is there"), b"42");
        let failed = scene.actor("no such role", &path, &[]).output();
        assert_eq!(failed.status.code(), Some(101), "a failure in a child is seen");
        return;
    };
    let text = std::env::var("WORKFS_TEST_NUMBERS").expect("numbers are told");
    let numbers = text.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    let path = std::env::var_os("WORKFS_TEST_PATH").expect("a path is told").into();
    let (_, play) = ROLES.iter().find(|(name, _)| *name == role).expect("a role that there is");
    play(&Part { path, numbers });
}
