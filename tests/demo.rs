//! The tour that a newcomer is given first: as root, and as an ordinary user with one session.

use crate::harness::{Kind, Program, Scene, Sessions, mount_table, program};
use std::fs::{copy, create_dir, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Duration;

/// The demo in a folder of its own; `before` is a command that runs it as somebody else.
fn demo<'a>(scene: &'a Scene, before: &[&str]) -> Program<'a> {
    let binary = scene.home().join("workfs");
    copy(env!("CARGO_BIN_EXE_workfs"), &binary).expect("the command can be copied to where everybody may run it");
    let folder = scene.home().join("demo");
    create_dir(&folder).expect("mkdir");
    set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("chmod");
    let words: Vec<&std::ffi::OsStr> =
        before.iter().map(AsRef::as_ref).chain([binary.as_os_str(), "demo".as_ref()]).collect();
    let program = scene.program(words[0]).args(&words[1..]).dir(&folder);
    program.env("TMPDIR", &folder).env("HOME", &folder).env("WORKFS_STATE_DIR", folder.join("state"))
}

/// What the tour shows, whoever takes it.
fn assert_toured(scene: &Scene, text: &str) {
    for shown in ["docs", "Read-only file system", "git", "note"] {
        assert!(text.contains(shown), "the tour does not show {shown:?}:\n{text}");
    }
    let left = mount_table::below(scene.home());
    assert!(left.is_empty(), "the tour leaves nothing mounted: {left:?}");
}

#[test]
fn the_demo_ends_well_for_root() {
    program::need(&["git", "rg"]);
    let mut scene = Scene::new(Kind::Native, Sessions::Nested);
    scene.takes(Duration::from_secs(120));
    let text = demo(&scene, &[]).text();
    assert_toured(&scene, &text);
    scene.end();
}

#[test]
fn the_demo_ends_well_for_an_ordinary_user() {
    program::need(&["git", "rg", "setpriv", "fusermount3"]);
    let mut scene = Scene::new(Kind::Native, Sessions::Single);
    scene.takes(Duration::from_secs(120));
    chown(scene.path(), Some(65_534), Some(65_534)).expect("chown");
    let text =
        demo(&scene, &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]).text();
    assert_toured(&scene, &text);
    scene.end();
}
