//! Listing directories of a disk volume.

use crate::disk::{Disk, errno, now};
use std::collections::BTreeSet;
use std::fs;
use workfs::mounts::Volume;
use workfs::types::{Cookie, Errno, FileKind, Name};

#[test]
fn entries_that_stay_are_listed_once_while_others_go() {
    for folder in [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")] {
        let disk = Disk::over(folder.expect("a folder"));
        for index in 0..3000 {
            fs::write(disk.path(format!("gone-{index}")), "").expect("written");
            fs::write(disk.path(format!("stays-{index}")), "").expect("written");
        }
        let (mut after, mut stayed) = (Cookie::START, Vec::new());
        loop {
            let page = now(disk.volume.readdir(disk.root, after, 100, false)).expect("listed").entries;
            let Some(last) = page.last() else { break };
            after = last.cookie;
            for entry in page {
                match entry.name.as_bytes().starts_with(b"gone") {
                    true => now(disk.volume.unlink(&disk.me, disk.root, &entry.name)).expect("removed"),
                    false => stayed.push(entry.name),
                }
            }
        }
        let unique: BTreeSet<&Name> = stayed.iter().collect();
        assert_eq!((stayed.len(), unique.len()), (3000, 3000));
        assert_eq!(fs::read_dir(disk.folder.path()).expect("listed").count(), 3000, "every other one was removed");
    }
}

#[test]
fn two_readers_of_one_directory_do_not_disturb_each_other() {
    let disk = Disk::new();
    (0..500).for_each(|index| fs::write(disk.path(format!("{index}")), "").expect("written"));
    let mut readers = [(Cookie::START, 7, 0), (Cookie::START, 11, 0)];
    for _ in 0..100 {
        for (after, page, count) in &mut readers {
            let entries = now(disk.volume.readdir(disk.root, *after, *page, false)).expect("listed").entries;
            *count += entries.len();
            *after = entries.last().map_or(*after, |last| last.cookie);
        }
    }
    assert_eq!(readers.map(|(_, _, count)| count), [500, 500]);
}

#[test]
fn a_listing_has_the_numbers_and_counts_of_lookups() {
    let disk = Disk::new();
    disk.make("f", b"x");
    fs::create_dir(disk.path("d")).expect("made");
    std::os::unix::fs::symlink("f", disk.path("l")).expect("linked");
    let plain = disk.list(disk.root, 2, false);
    let plus = disk.list(disk.root, 2, true);
    assert_eq!((plain.len(), plus.len()), (3, 3));
    for (plain, plus) in plain.iter().zip(&plus) {
        let found = disk.look(disk.root, plain.name.as_bytes());
        assert_eq!((plain.node, plain.kind), (found.attr.node, found.attr.kind));
        assert_eq!(plus.entry, Some(found));
        assert_eq!(plain.entry, None);
    }
    let link = plus.iter().find(|entry| entry.kind == FileKind::Symlink).expect("listed").node;
    disk.volume.forget(link, 1);
    now(disk.volume.getattr(link)).expect("one lookup is left");
    disk.volume.forget(link, 1);
    assert_eq!(errno(disk.volume.getattr(link)), Errno::ESTALE);
    let dir = disk.look(disk.root, "d").attr.node;
    assert_eq!(now(disk.volume.readdir(dir, Cookie::START, 9, false)).expect("listed").parent, disk.root);
    assert_eq!(now(disk.volume.readdir(disk.root, Cookie::START, 9, false)).expect("listed").parent, disk.root);
}
