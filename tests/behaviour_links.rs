//! Hard links: one file under several names.

use crate::harness::{Failed, each_kind, put, slurp};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{File, create_dir, hard_link, metadata, read_dir, remove_file, rename, symlink_metadata};
use std::io::Write;
use std::os::unix::fs::{DirEntryExt, MetadataExt, symlink};

each_kind! {
    fn names_of_one_file_share_its_bytes(scene) {
        let (one, two) = (scene.at("h1"), scene.at("h2"));
        put(&one, b"1");
        hard_link(&one, &two).expect("link");
        let (a, b) = (metadata(&one).expect("stat"), metadata(&two).expect("stat"));
        assert_eq!((a.ino(), a.nlink(), b.nlink()), (b.ino(), 2, 2));
        File::options().append(true).open(&two).expect("open").write_all(b"2").expect("write");
        assert_eq!(slurp(&one), b"12");
        assert_eq!(metadata(&one).expect("stat").len(), 2);
        remove_file(&one).expect("unlink");
        assert_eq!((metadata(&two).expect("stat").nlink(), slurp(&two)), (1, b"12".to_vec()));
        assert_eq!(metadata(&one).errno(), Errno::NOENT);
    }

    fn links_are_made_across_directories(scene) {
        create_dir(scene.at("a")).expect("mkdir");
        create_dir(scene.at("b")).expect("mkdir");
        put(scene.at("a/f"), b"bytes");
        for index in 0..100 {
            hard_link(scene.at("a/f"), scene.at(format!("b/f{index}"))).expect("link");
        }
        assert_eq!(metadata(scene.at("a/f")).expect("stat").nlink(), 101);
        remove_file(scene.at("a/f")).expect("unlink");
        rename(scene.at("b/f7"), scene.at("a/back")).expect("rename");
        assert_eq!(slurp(scene.at("a/back")), b"bytes");
        let numbers: BTreeSet<u64> =
            read_dir(scene.at("b")).expect("readdir").map(|entry| entry.expect("an entry").ino()).collect();
        assert_eq!(numbers, BTreeSet::from([metadata(scene.at("a/back")).expect("stat").ino()]));
        if scene.kind().keeps() {
            scene.remount();
            assert_eq!(metadata(scene.at("a/back")).expect("stat").nlink(), 100);
            File::options().append(true).open(scene.at("a/back")).expect("open").write_all(b"!").expect("write");
            assert_eq!(slurp(scene.at("b/f99")), b"bytes!");
        }
    }

    fn links_are_refused_where_they_must(scene) {
        create_dir(scene.at("d")).expect("mkdir");
        put(scene.at("f"), b"");
        assert_eq!(hard_link(scene.at("d"), scene.at("e")).errno(), Errno::PERM);
        assert_eq!(hard_link(scene.at("f"), scene.at("d")).errno(), Errno::EXIST);
        assert_eq!(hard_link(scene.at("f"), scene.at("f")).errno(), Errno::EXIST);
        assert_eq!(hard_link(scene.at("missing"), scene.at("g")).errno(), Errno::NOENT);
        assert_eq!(hard_link(scene.at("f"), scene.at("none/g")).errno(), Errno::NOENT);
        assert_eq!(hard_link(scene.at("f"), scene.at("f/g")).errno(), Errno::NOTDIR);
    }

    fn a_symlink_itself_can_have_two_names(scene) {
        symlink("target", scene.at("l")).expect("symlink");
        hard_link(scene.at("l"), scene.at("m")).expect("link");
        let (l, m) = (symlink_metadata(scene.at("l")).expect("stat"), symlink_metadata(scene.at("m")).expect("stat"));
        assert_eq!((l.ino(), l.nlink(), m.is_symlink()), (m.ino(), 2, true));
    }

    fn numbers_are_unique(scene) {
        let mut numbers = BTreeSet::new();
        for index in 0..300 {
            let path = scene.at(format!("n{index}"));
            if index % 3 == 0 { create_dir(&path).expect("mkdir") } else { put(&path, b"") }
            assert!(numbers.insert(symlink_metadata(&path).expect("stat").ino()), "a number came twice");
        }
        for entry in read_dir(scene.path()).expect("readdir") {
            let entry = entry.expect("an entry");
            assert_eq!(entry.ino(), entry.metadata().expect("stat").ino(), "listing and stat tell one number");
        }
    }
}
