//! What goes wrong is said, with the exit code, and leaves nothing behind.

use super::Desk;
use std::fs;

#[test]
fn what_is_refused_mounts_nothing() {
    let desk = Desk::new();
    for (arguments, words) in [
        (&["mount", "work"][..], &["nothing to mount", "-m AT=VOLUME", "workfs init"][..]),
        (&["mount", "-m", "/=memory:"], &["DIR: is missing"]),
        (&["mount", "work", "-m", "/=memry:"], &["-m /=memry:", "did you mean `memory`?"]),
        (&["mount", "work", "-m", "/=."], &["work: ", "lies inside the volume"]),
        (&["mount", "work", "-m", "a=memory:", "-m", "a=memory:"], &["a second mount at /a"]),
        (&["mount", "no/such/dir", "-m", "/=memory:"], &["no/such/dir", "does not exist"]),
        (&["mount", "docs/guide", "-m", "/=memory:"], &["docs/guide: ", "is no directory"]),
        (&["mount", "/", "-m", "/=memory:"], &["nothing is mounted over `/`"]),
        (&["mount", "work", "-c", "no.toml"], &["no.toml", "workfs init no.toml"]),
        (&["mount", "work", "-m", "/=memory:", "--view", "x"], &["--view x: there is no view `x`"]),
    ] {
        for more in [&[][..], &["--foreground"]] {
            let said = desk.run(&[arguments, more].concat());
            said.fails(2, words);
            assert!(said.err.starts_with("workfs: ") && !said.err.contains("EINVAL"), "for people: {said:?}");
        }
    }
    assert!(!desk.path("work").exists() && !desk.is_mounted());
    assert_eq!(desk.does(&["status", "--json"]).out.trim(), "[]");
}

#[test]
fn a_config_is_refused_by_its_line() {
    let desk = Desk::new();
    fs::write(desk.path("workfs.toml"), "[[mount]]\nat = \"/\"\nvolum = \"x\"\n").expect("written");
    desk.run(&["mount", "work"]).fails(2, &["workfs: workfs.toml:3: unknown key `volum`; did you mean `volume`?"]);
    fs::write(desk.path("workfs.toml"), "[[mount]]\nat = \"/\"\nvolume = \"${WORKFS_A}/${WORKFS_B}\"\n")
        .expect("written");
    desk.run(&["mount", "work"]).fails(2, &["workfs.toml:3", "`WORKFS_A` is not set", "`WORKFS_B` is not set"]);
}

#[test]
fn notes_inside_the_mountpoint_are_refused() {
    let desk = Desk::new();
    let said = desk.run(&["mount", "state", "-m", "/=memory:"]);
    said.fails(2, &["state: ", "keeps its notes in", "WORKFS_STATE_DIR"]);
}

#[test]
fn what_fails_while_it_starts_leaves_nothing_behind() {
    let desk = Desk::new();
    fs::write(desk.path("not.db"), "this is no database, but it is long enough to be looked at as one".repeat(20))
        .expect("written");
    let arguments = ["mount", "work", "-m", "/=./project", "-m", "s=sqlite:./not.db"];
    for more in [&[][..], &["--foreground"]] {
        let said = desk.run(&[&arguments, more].concat());
        said.fails(1, &["-m s=sqlite:./not.db", "cannot be opened"]);
    }
    assert!(!desk.is_mounted());
    assert!(!desk.path("work").exists(), "the mountpoint that was made for it is gone again");
    assert_eq!(desk.does(&["status", "--json"]).out.trim(), "[]");
}

#[test]
fn umount_of_nothing_says_so() {
    let desk = Desk::new();
    desk.run(&["umount", "docs"]).fails(1, &["nothing of workfs is mounted at", "workfs status"]);
    desk.run(&["umount", "no/such"]).fails(1, &["no/such"]);
}

#[test]
fn a_command_line_that_is_none_is_refused() {
    let desk = Desk::new();
    desk.run(&[]).fails(2, &["Usage: workfs"]);
    desk.run(&["mont"]).fails(2, &["mount"]);
    desk.run(&["exec", "docs"]).fails(2, &["CMD"]);
    desk.run(&["status", "--jsn"]).fails(2, &["--json"]);
}
