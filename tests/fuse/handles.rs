//! Open files: appends, mappings, copies.

use super::tree::{Parts, Tree, errno};
use crate::harness::sys::Mapping;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use workfs::fs::{MountOptions, Nesting};

fn memory() -> Tree {
    let mut parts = Parts::new();
    parts.memory("/");
    parts.mount(&MountOptions::default())
}

#[test]
fn a_file_that_appends_can_be_mapped_and_the_mapping_stays_in_its_place() {
    let tree = memory();
    fs::write(tree.at("log"), [b'.'; 8192]).expect("written");
    let mut log = File::options().append(true).read(true).open(tree.at("log")).expect("open");
    log.write_all(b"one line\n").expect("appended");
    let mapping = Mapping::new(&log, 8192, true, true).expect("mapped");
    mapping.write(100, b"M");
    mapping.sync().expect("written back");
    drop(mapping);
    log.write_all(b"another\n").expect("appended");
    drop(log);
    let bytes = fs::read(tree.at("log")).expect("read");
    assert_eq!(bytes.len(), 8192 + 17, "the mapping was not appended");
    assert_eq!((bytes[99], bytes[100], bytes[101]), (b'.', b'M', b'.'));
    assert_eq!(&bytes[8192..], b"one line\nanother\n");
}

#[test]
fn a_copy_is_one_request_and_its_bytes_are_the_same() {
    for nesting in [Nesting::Nested, Nesting::Single] {
        let mut parts = Parts::new();
        parts.disk("/", "outer", false);
        parts.memory("mem");
        let tree = parts.mount(&MountOptions { nesting, ..MountOptions::default() });
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(7919) >> 5) as u8).collect();
        for dir in ["", "mem/"] {
            let (from, to) = (tree.at(format!("{dir}from")), tree.at(format!("{dir}to")));
            fs::write(&from, &bytes).expect("written");
            fs::write(&to, b"old").expect("written");
            let (source, target) =
                (File::open(&from).expect("open"), File::options().write(true).open(&to).expect("open"));
            let copied = rustix::fs::copy_file_range(&source, None, &target, None, bytes.len()).expect("copied");
            assert_eq!(copied, bytes.len(), "{dir}: in one piece");
            drop((source, target));
            assert!(fs::read(&to).expect("read") == bytes, "{dir}: {nesting:?}");
        }
        let asked: u64 = tree.view.status().sessions.iter().map(|s| tree.asked(&s.at, "copy_file_range")).sum();
        assert!(asked >= 2, "the volume copied, not the kernel");
    }
}

#[test]
fn handles_are_given_back_when_their_files_are_closed() {
    let tree = memory();
    let open: Vec<File> = (0..10).map(|i| File::create(tree.at(i.to_string())).expect("created")).collect();
    assert_eq!(tree.view.status().sessions[0].open_files, 10);
    open[3].write_all_at(b"x", 0).expect("written");
    drop(open);
    super::tree::soon("all are closed", || tree.view.status().sessions[0].open_files == 0);
}

#[test]
fn devices_can_be_made_and_do_nothing() {
    let tree = memory();
    let null = rustix::fs::makedev(1, 3);
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.at("null"),
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::Mode::from_raw_mode(0o666),
        null,
    );
    made.expect("made");
    assert_eq!(std::os::unix::fs::MetadataExt::rdev(&fs::metadata(tree.at("null")).expect("stat")), null);
    assert_eq!(errno(File::open(tree.at("null"))), libc::EACCES, "mounted nodev");
}
