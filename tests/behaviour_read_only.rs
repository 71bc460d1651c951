//! A read-only mount shows everything and changes nothing, on every kind of volume.

use crate::harness::{Failed, Kind, MountSpec, Scene, Sessions, changed_within, put, slurp, tree};
use rustix::fs::{
    CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, XattrFlags, fallocate, lremovexattr, lsetxattr,
};
use rustix::fs::{mknodat, open, renameat_with};
use rustix::io::Errno;
use std::fs::{File, create_dir, hard_link, read_dir, remove_dir, remove_file, rename, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

/// Two mounts of one volume: through `desk` it is written, through `docs` only read.
fn scene(kind: Kind, sessions: Sessions) -> Scene {
    let source = "volume-docs";
    let mounts = vec![
        MountSpec::new("/", if kind == Kind::Native { kind } else { Kind::Disk }).source("outer"),
        MountSpec::new("desk", kind).source(source),
        MountSpec::new("docs", kind).source(source).read_only(),
    ];
    let scene = Scene::with_mounts(kind, sessions, mounts);
    let desk = scene.root().join("desk");
    tree::make(&desk.join("guide"), 60, 2);
    put(desk.join("page"), b"what is read");
    create_dir(desk.join("empty")).expect("mkdir");
    symlink("page", desk.join("link")).expect("symlink");
    lsetxattr(desk.join("page"), "user.k", b"v", XattrFlags::empty()).expect("setxattr");
    scene
}

macro_rules! on_each {
    ($(fn $name:ident($scene:ident) $body:block)+) => {
        $(mod $name {
            use super::*;
            fn law($scene: &mut Scene) $body
            on_each! { @tests native Native Nested, disk_nested Disk Nested, disk_single Disk Single,
                sqlite_nested Sqlite Nested, sqlite_single Sqlite Single, memory_nested Memory Nested,
                memory_single Memory Single }
        })+
    };
    (@tests $($test:ident $kind:ident $sessions:ident),+) => {
        $(#[test]
        fn $test() {
            let mut scene = scene(Kind::$kind, Sessions::$sessions);
            law(&mut scene);
            scene.end();
        })+
    };
}

fn note() -> &'static Path {
    Path::new("page")
}

on_each! {
    fn everything_is_shown(scene) {
        let (desk, docs) = (tree::told(&scene.root().join("desk")), tree::told(scene.path()));
        assert!(docs.len() > 60);
        tree::assert_same(&desk, &docs);
        assert_eq!(slurp(scene.at("link")), b"what is read");
        assert_eq!(tree::xattr(&scene.at("page"), b"user.k"), Ok(b"v".to_vec()));
    }

    fn every_change_gives_erofs(scene) {
        let at = |name: &str| scene.at(name);
        let options = |name: &str, options: &mut std::fs::OpenOptions| options.open(scene.at(name)).errno();
        let mut write = File::options();
        assert_eq!(options("page", write.write(true)), Errno::ROFS);
        assert_eq!(options("page", File::options().append(true)), Errno::ROFS);
        assert_eq!(options("page", File::options().write(true).truncate(true)), Errno::ROFS);
        assert_eq!(options("new", File::options().write(true).create_new(true)), Errno::ROFS);
        assert_eq!(open(at("page"), OFlags::RDONLY | OFlags::TRUNC, Mode::empty()).errno(), Errno::ROFS);
        assert_eq!(create_dir(at("d")).errno(), Errno::ROFS);
        assert_eq!(symlink("x", at("l")).errno(), Errno::ROFS);
        assert_eq!(hard_link(at("page"), at("h")).errno(), Errno::ROFS);
        assert_eq!(mknodat(CWD, at("p"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).errno(), Errno::ROFS);
        assert_eq!(remove_file(at("page")).errno(), Errno::ROFS);
        assert_eq!(remove_dir(at("empty")).errno(), Errno::ROFS);
        assert_eq!(rename(at("page"), at("q")).errno(), Errno::ROFS);
        assert_eq!(renameat_with(CWD, at("page"), CWD, at("link"), RenameFlags::EXCHANGE).errno(), Errno::ROFS);
        assert_eq!(set_permissions(at("page"), PermissionsExt::from_mode(0o600)).errno(), Errno::ROFS);
        assert_eq!(chown(at("page"), Some(1), None).errno(), Errno::ROFS);
        assert_eq!(File::open(at("page")).expect("open").set_modified(std::time::UNIX_EPOCH).errno(), Errno::ROFS);
        assert_eq!(lsetxattr(at("page"), "user.n", b"", XattrFlags::empty()).errno(), Errno::ROFS);
        assert_eq!(lremovexattr(at("page"), "user.k").errno(), Errno::ROFS);
        if scene.sessions() == Sessions::Nested {
            // A single session is one kernel mount, and the kernel answers access(2) by the mode alone.
            assert_eq!(rustix::fs::access(at("page"), rustix::fs::Access::WRITE_OK).errno(), Errno::ROFS);
        }
        let file = File::open(at("page")).expect("open");
        assert_eq!(fallocate(&file, FallocateFlags::empty(), 0, 9).errno(), Errno::BADF);
        assert_eq!(slurp(at("page")), b"what is read");
    }

    fn programs_are_told_so(scene) {
        let scripts = ["echo x > new", "echo x >> page", "rm -f page", "mv page q", "mkdir d", "sed -i s/a/b/ page"];
        for script in scripts {
            let complaint = scene.program("bash").arg("-c").arg(script).complaint();
            assert!(complaint.contains("Read-only file system"), "{script}: {complaint}");
        }
        assert_eq!(scene.bash("cat page; find . -name 'file-*' | wc -l", &[]), "what is read60\n");
    }

    fn it_stays_so_at_the_next_mount(scene) {
        scene.remount_if_kept();
        assert_eq!(File::create(scene.at("new")).errno(), Errno::ROFS);
        if scene.kind().keeps() {
            assert_eq!(slurp(scene.at(note())), b"what is read");
        }
    }

    fn what_the_other_mount_changes_shows(scene) {
        let desk = scene.root().join("desk");
        assert_eq!(slurp(scene.at("page")), b"what is read");
        put(desk.join("page"), b"revised");
        put(desk.join("fresh"), b"new");
        remove_dir(desk.join("empty")).expect("rmdir");
        let shows = || slurp(scene.at("page")) == b"revised" && scene.at("fresh").exists() && !scene.at("empty").exists();
        assert!(changed_within(Duration::from_secs(2), shows), "{:?}", read_dir(scene.path()).expect("readdir").count());
    }

    fn the_kernel_carries_it_too(scene) {
        if scene.sessions() == Sessions::Nested {
            let table = crate::harness::mount_table::below(scene.path());
            let options = &table.first().expect("it is a mount of its own").options;
            assert!(options.split(',').any(|option| option == "ro"), "{options}");
        }
    }
}
