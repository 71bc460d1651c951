//! Kernel passthrough: what is special to it. That its files are files like any others is shown by all behaviours
//! (`scripts/check --full`).

use crate::harness::{Kind, Scene, Sessions};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::FileExt;

fn asked(scene: &Scene, operation: &str) -> u64 {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_workfs"))
        .args(["status", "--json"])
        .env("WORKFS_STATE_DIR", scene.home().join("state"))
        .output()
        .expect("it runs");
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let sessions = status[0]["sessions"].as_array().expect("sessions");
    sessions.iter().filter_map(|session| session["by_operation"][operation].as_u64()).sum()
}

fn on_both(behaviour: fn(&Scene)) {
    for sessions in [Sessions::Nested, Sessions::Single] {
        let scene = Scene::new(Kind::Passthrough, sessions);
        behaviour(&scene);
        scene.end();
    }
}

#[test]
fn bytes_go_past_the_daemon() {
    on_both(|scene| {
        let path = scene.at("file");
        let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path).expect("made");
        for round in 0..8 {
            file.write_all(&vec![round; 300_000]).expect("written");
        }
        file.rewind().expect("at the start");
        let mut all = Vec::new();
        file.read_to_end(&mut all).expect("read");
        assert_eq!(all.len(), 2_400_000);
        assert!(
            (0..8).all(|round| all[round * 300_000..(round + 1) * 300_000].iter().all(|byte| *byte == round as u8))
        );
        assert_eq!(fs::metadata(&path).expect("there").len(), 2_400_000, "the kernel knows the new size");
        assert_eq!(fs::read(scene.home().join("volume-place/file")).expect("beneath"), all);
        assert_eq!((asked(scene, "read"), asked(scene, "write")), (0, 0));
    });
}

/// The second open of an inode with another backing id would fail with EIO.
#[test]
fn any_number_of_opens_share_one_backing_id() {
    on_both(|scene| {
        let path = scene.at("file");
        fs::write(&path, b"0123456789").expect("written");
        fs::hard_link(&path, scene.at("other")).expect("linked");
        let reader = File::open(&path).expect("for reading");
        let writer = File::options().write(true).open(scene.at("other")).expect("for writing, by another name");
        let both = File::options().read(true).write(true).open(&path).expect("for both");
        let mut appender = File::options().append(true).open(&path).expect("for appending");
        writer.write_all_at(b"ab", 0).expect("written");
        appender.write_all(b"end").expect("appended");
        fs::remove_file(&path).expect("removed");
        let late = File::open(scene.at("other")).expect("opened while others are open");
        let read = |file: &File| {
            let mut bytes = [0; 13];
            file.read_exact_at(&mut bytes, 0).expect("read");
            bytes
        };
        assert_eq!([&reader, &both, &late].map(read), [*b"ab23456789end"; 3]);
        drop((reader, writer, both, appender, late));
        for round in 0..200 {
            fs::write(scene.at("other"), round.to_string()).expect("opened again, with a new id");
            assert_eq!(fs::read_to_string(scene.at("other")).expect("read"), round.to_string());
        }
    });
}

#[test]
fn opens_from_many_threads_never_meet_in_two_ids() {
    on_both(|scene| {
        let path = scene.at("file");
        fs::write(&path, [7; 4096]).expect("written");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..400 {
                        assert_eq!(fs::read(&path).expect("opened and read"), [7; 4096]);
                    }
                });
            }
        });
    });
}
