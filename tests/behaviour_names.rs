//! Any bytes but `/` and NUL are a name, up to 255 of them.

use crate::harness::{Failed, each_kind, put, slurp};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{create_dir, read_dir, remove_file, rename, symlink_metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::Path;

fn names(dir: &Path) -> BTreeSet<OsString> {
    read_dir(dir).expect("readdir").map(|entry| entry.expect("an entry").file_name()).collect()
}

each_kind! {
    fn every_byte_can_be_in_a_name(scene) {
        let all: BTreeSet<OsString> = (1..=255_u8)
            .filter(|&byte| byte != b'/' && byte != b'.')
            .flat_map(|byte| [vec![byte], vec![b'a', byte, byte, b'z']])
            .map(OsString::from_vec)
            .collect();
        for name in &all {
            put(scene.at(name), name.as_bytes());
        }
        assert_eq!(names(scene.path()), all);
        if scene.kind().keeps() {
            scene.remount();
            assert_eq!(names(scene.path()), all);
        }
        for name in &all {
            assert_eq!(slurp(scene.at(name)), name.as_bytes());
            remove_file(scene.at(name)).expect("unlink");
        }
        assert!(names(scene.path()).is_empty());
    }

    fn names_that_look_odd_are_ordinary(scene) {
        let odd: [&[u8]; 14] = [
            b"[...slug]", b"a..b", b"...", b"..a", b" ", b"-rf", b"~", b"*", b"a\nb", b"\xff\xfe", b"\xc3\x28",
            b"caf\xc3\xa9", b"cafe\xcc\x81", b"$(x)`y`",
        ];
        for name in odd {
            create_dir(scene.at(OsStr::from_bytes(name))).expect("mkdir");
            put(scene.at(OsStr::from_bytes(name)).join(OsStr::from_bytes(name)), name);
        }
        assert_eq!(names(scene.path()).len(), odd.len());
        for name in odd {
            assert_eq!(slurp(scene.at(OsStr::from_bytes(name)).join(OsStr::from_bytes(name))), name);
        }
    }

    fn two_hundred_and_fifty_five_bytes_are_the_most(scene) {
        let longest = OsString::from_vec(vec![0xe9; 255]);
        let too_long = OsString::from_vec(vec![b'x'; 256]);
        put(scene.at(&longest), b"long");
        assert_eq!(slurp(scene.at(&longest)), b"long");
        assert_eq!(names(scene.path()), BTreeSet::from([longest.clone()]));
        assert_eq!(std::fs::File::create(scene.at(&too_long)).errno(), Errno::NAMETOOLONG);
        assert_eq!(create_dir(scene.at(&too_long)).errno(), Errno::NAMETOOLONG);
        assert_eq!(symlink("t", scene.at(&too_long)).errno(), Errno::NAMETOOLONG);
        assert_eq!(rename(scene.at(&longest), scene.at(&too_long)).errno(), Errno::NAMETOOLONG);
        assert_eq!(std::fs::hard_link(scene.at(&longest), scene.at(&too_long)).errno(), Errno::NAMETOOLONG);
        assert_eq!(symlink_metadata(scene.at(&too_long)).errno(), Errno::NAMETOOLONG);
        assert_eq!(rustix::fs::statvfs(scene.path()).expect("statvfs").f_namemax, 255);
    }

    fn case_and_composition_make_different_names(scene) {
        put(scene.at("readme"), b"small");
        put(scene.at("README"), b"large");
        put(scene.at("\u{e9}"), b"one");
        put(scene.at("e\u{301}"), b"two");
        assert_eq!(names(scene.path()).len(), 4);
        assert_eq!((slurp(scene.at("readme")), slurp(scene.at("README"))), (b"small".to_vec(), b"large".to_vec()));
        assert_eq!((slurp(scene.at("\u{e9}")), slurp(scene.at("e\u{301}"))), (b"one".to_vec(), b"two".to_vec()));
    }

    fn deep_paths_can_be_walked(scene) {
        // Longer in all than a path may be: one gets there step by step.
        let mut dir = rustix::fs::open(scene.path(), rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).expect("open");
        let name = "d".repeat(200);
        for _ in 0..30 {
            rustix::fs::mkdirat(&dir, name.as_str(), rustix::fs::Mode::from_raw_mode(0o755)).expect("mkdir");
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
            dir = rustix::fs::openat(&dir, name.as_str(), flags, rustix::fs::Mode::empty()).expect("open");
        }
        rustix::fs::mkdirat(&dir, "end", rustix::fs::Mode::from_raw_mode(0o755)).expect("mkdir");
        drop(dir);
        scene.program("rm").arg("-rf").arg(scene.at(&name)).text();
        assert!(names(scene.path()).is_empty());
    }

    fn a_missing_name_that_comes_is_seen_at_once(scene) {
        for round in 0..50 {
            let path = scene.at(format!("n{round}"));
            assert_eq!(symlink_metadata(&path).errno(), Errno::NOENT);
            put(&path, b"");
            symlink_metadata(&path).expect("it is there now");
            remove_file(&path).expect("unlink");
            assert_eq!(symlink_metadata(&path).errno(), Errno::NOENT);
        }
    }
}
