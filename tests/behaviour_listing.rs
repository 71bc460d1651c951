//! Listings: complete, each name once, whatever comes and goes meanwhile.

use crate::harness::dir_stream::DirStream;
use crate::harness::{Scene, each_kind, each_stored_kind_in_full, put};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{create_dir, read_dir, remove_file, symlink_metadata};
use std::os::unix::fs::{DirEntryExt, MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

fn fill(dir: &Path, count: usize) -> BTreeSet<OsString> {
    let names: BTreeSet<OsString> = (0..count).map(|index| format!("name-{index:05}").into()).collect();
    for name in &names {
        put(dir.join(name), b"");
    }
    names
}

fn rest(stream: &mut DirStream) -> Vec<OsString> {
    std::iter::from_fn(|| stream.name()).collect()
}

each_kind! {
    fn deleting_while_listing_leaves_nothing(scene) {
        fill(scene.path(), 3000);
        let mut deleted = 0;
        for entry in read_dir(scene.path()).expect("readdir") {
            remove_file(entry.expect("an entry").path()).expect("unlink");
            deleted += 1;
        }
        assert_eq!((deleted, read_dir(scene.path()).expect("readdir").count()), (3000, 0));
    }

    fn what_stays_is_listed_once_while_others_come_and_go(scene) {
        let stays = fill(scene.path(), 1000);
        let mut stream = DirStream::open(scene.path()).expect("open");
        let mut seen = Vec::new();
        let mut step = 0;
        while let Some(name) = stream.name() {
            put(scene.at(format!("came-{step}")), b"");
            if step > 10 {
                remove_file(scene.at(format!("came-{}", step - 10))).expect("unlink");
            }
            if stays.contains(&name) {
                seen.push(name);
            }
            step += 1;
            assert!(step < 20_000, "the listing never ends");
        }
        assert_eq!(seen.len(), 1000, "each name once");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), stays);
    }

    fn places_can_be_gone_back_to(scene) {
        let all = fill(scene.path(), 500);
        let mut stream = DirStream::open(scene.path()).expect("open");
        let before: Vec<OsString> = (0..200).map(|_| stream.name().expect("a name")).collect();
        let place = stream.tell();
        let after = rest(&mut stream);
        assert_eq!(before.iter().chain(&after).cloned().collect::<BTreeSet<_>>(), all);
        stream.seek(place);
        assert_eq!(rest(&mut stream), after, "the same names in the same order");
        stream.rewind();
        assert_eq!(rest(&mut stream).len(), 500);
        assert_eq!(stream.name(), None);
    }

    fn places_outlive_the_files_before_them(scene) {
        fill(scene.path(), 500);
        let mut stream = DirStream::open(scene.path()).expect("open");
        let before: Vec<OsString> = (0..250).map(|_| stream.name().expect("a name")).collect();
        let place = stream.tell();
        let after: BTreeSet<OsString> = rest(&mut stream).into_iter().collect();
        for name in &before {
            remove_file(scene.at(name)).expect("unlink");
        }
        stream.seek(place);
        assert_eq!(rest(&mut stream).into_iter().collect::<BTreeSet<_>>(), after);
    }

    fn a_rewound_listing_is_new(scene) {
        fill(scene.path(), 10);
        let mut stream = DirStream::open(scene.path()).expect("open");
        assert_eq!(rest(&mut stream).len(), 10);
        put(scene.at("eleventh"), b"");
        remove_file(scene.at("name-00003")).expect("unlink");
        stream.rewind();
        let names = rest(&mut stream);
        assert!(names.contains(&"eleventh".into()) && !names.contains(&"name-00003".into()), "{names:?}");
    }

    fn entries_tell_type_and_number(scene) {
        put(scene.at("f"), b"");
        create_dir(scene.at("d")).expect("mkdir");
        symlink("f", scene.at("l")).expect("symlink");
        let mut stream = DirStream::open(scene.path()).expect("open");
        let types: BTreeSet<(OsString, u8)> = std::iter::from_fn(|| stream.entry()).collect();
        let told = |name: &str, kind| (OsString::from(name), kind);
        let (dir, file, link) = (libc::DT_DIR, libc::DT_REG, libc::DT_LNK);
        let right = [told(".", dir), told("..", dir), told("d", dir), told("f", file), told("l", link)];
        assert_eq!(types, BTreeSet::from(right));
        for entry in read_dir(scene.path()).expect("readdir") {
            let entry = entry.expect("an entry");
            assert_eq!(entry.ino(), symlink_metadata(entry.path()).expect("stat").ino());
        }
    }

    fn sizes_in_a_listing_are_the_newest(scene) {
        use std::io::Write;
        let mut file = std::fs::File::create(scene.at("growing")).expect("create");
        for step in 1..=20_u64 {
            file.write_all(&[1; 1000]).expect("write");
            let entries = read_dir(scene.path()).expect("readdir").map(|entry| entry.expect("an entry"));
            let sizes: Vec<u64> = entries.map(|entry| entry.metadata().expect("stat").len()).collect();
            assert_eq!(sizes, [step * 1000]);
            assert_eq!(file.metadata().expect("fstat").len(), step * 1000);
        }
    }

    fn an_empty_directory_is_listed_as_such(scene) {
        create_dir(scene.at("empty")).expect("mkdir");
        assert_eq!(read_dir(scene.at("empty")).expect("readdir").count(), 0);
        put(scene.at("empty/f"), b"");
        assert_eq!(read_dir(scene.at("empty")).expect("readdir").count(), 1, "what was seen empty is looked at again");
        remove_file(scene.at("empty/f")).expect("unlink");
        assert_eq!(read_dir(scene.at("empty")).expect("readdir").count(), 0);
    }

    fn long_names_fill_many_buffers(scene) {
        let names: BTreeSet<OsString> = (0..400).map(|index| format!("{index:04}{}", "n".repeat(250)).into()).collect();
        for name in &names {
            put(scene.at(name), b"");
        }
        let listed: Vec<OsString> =
            read_dir(scene.path()).expect("readdir").map(|entry| entry.expect("an entry").file_name()).collect();
        assert_eq!((listed.len(), listed.into_iter().collect::<BTreeSet<_>>()), (400, names));
    }

    fn rm_of_a_tree_leaves_nothing(scene) {
        crate::harness::tree::make(&scene.at("tree"), 1000, 8);
        scene.program("rm").args(["-r", "tree"]).text();
        assert_eq!(read_dir(scene.path()).expect("readdir").count(), 0);
    }
}

each_stored_kind_in_full! {
    fn a_hundred_thousand_entries_are_listed_and_removed(scene) {
        scene.takes(Duration::from_secs(600));
        let names = fill(scene.path(), 100_000);
        let listed = |scene: &Scene| read_dir(scene.path()).expect("readdir").map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>();
        let seen = listed(scene);
        assert_eq!(seen.len(), 100_000);
        assert!(seen.into_iter().collect::<BTreeSet<_>>() == names);
        scene.remount_if_kept();
        assert_eq!(scene.bash("ls -f | wc -l; find . -type f | wc -l; find . -name '*7' -delete; ls | wc -l", &[]), "100002\n100000\n90000\n");
        let left: BTreeSet<_> = names.into_iter().filter(|name| !name.as_encoded_bytes().ends_with(b"7")).collect();
        assert!(listed(scene).into_iter().collect::<BTreeSet<_>>() == left);
        assert_eq!(scene.bash("find . -mindepth 1 -delete; ls -A", &[]), "");
    }
}
