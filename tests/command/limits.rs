//! What the command does where the process may open few files.

use super::{Desk, said};
use std::fs;
use std::process::{Command, Stdio};

/// Many files and directories in four volumes are looked at by a daemon that may open `limit` files; nothing that a
/// program has open explains a refusal.
fn many_are_looked_at(limit: u32, how: &str) {
    let desk = Desk::new();
    for volume in ["a", "b", "c", "d"] {
        for number in 0..300 {
            let dir = desk.path(&format!("{volume}/d{}/e{number}", number % 20));
            fs::create_dir_all(&dir).expect("mkdir");
            fs::write(dir.join("f"), "x").expect("write");
        }
    }
    let script = format!(
        "ulimit -Sn {limit}; ulimit -Hn {limit}; exec \"$0\" mount work {how} -m a=./a -m b=./b -m c=./c -m d=./d"
    );
    let mut shell = Command::new("bash");
    shell.args(["-ec", &script, env!("CARGO_BIN_EXE_workfs")]).current_dir(&desk.root).stdin(Stdio::null());
    shell.env("WORKFS_STATE_DIR", desk.path("state")).env_remove("WORKFS_LOG");
    let mounted = said(&shell.output().expect("bash starts"));
    assert_eq!(mounted.code, Some(0), "{mounted:?}");
    let script = "find work -type f -exec cat {} + | wc -c; ls -lR work | wc -l";
    let read = Command::new("bash").args(["-ec", script]).current_dir(&desk.root).output();
    let read = said(&read.expect("bash starts"));
    assert_eq!((read.code, read.err.as_str()), (Some(0), ""), "{read:?}");
    assert!(read.out.starts_with("1200\n"), "{read:?}");
    assert_eq!(desk.status()["state"], "live");
    desk.does(&["umount", "work"]);
}

#[test]
fn many_files_need_few_descriptors() {
    many_are_looked_at(256, "--nested");
}

#[test]
fn many_files_need_few_descriptors_in_a_single_session() {
    many_are_looked_at(160, "--single");
}
