//! Modes, owners and the rights that follow from them.

use crate::harness::{Failed, Scene, each_kind, program, put};
use rustix::io::Errno;
use std::fs::{Permissions, create_dir, hard_link, metadata, set_permissions, symlink_metadata};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

/// User and group `nobody`, as whom some tests run programs.
const NOBODY: u32 = 65_534;

fn mode(path: impl AsRef<Path>) -> u32 {
    symlink_metadata(path).expect("stat").mode() & 0o7777
}

/// Runs a script as `nobody`; gives what it printed and whether it succeeded.
fn as_nobody(scene: &Scene, script: &str) -> (String, bool) {
    program::need(&["setpriv"]);
    let identity = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "bash", "-c", script];
    let output = scene.program("setpriv").args(identity).output();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

each_kind! {
    fn all_twelve_mode_bits_are_kept(scene) {
        put(scene.at("f"), b"");
        create_dir(scene.at("d")).expect("mkdir");
        for bits in [0, 0o7777, 0o644, 0o4755, 0o2755, 0o1777, 0o001] {
            for name in ["f", "d"] {
                set_permissions(scene.at(name), Permissions::from_mode(bits)).expect("chmod");
                assert_eq!(mode(scene.at(name)), bits, "{name}");
            }
        }
        set_permissions(scene.at("d"), Permissions::from_mode(0o1751)).expect("chmod");
        set_permissions(scene.at("f"), Permissions::from_mode(0o4711)).expect("chmod");
        if scene.kind().keeps() {
            scene.remount();
            assert_eq!((mode(scene.at("d")), mode(scene.at("f"))), (0o1751, 0o4711));
        }
    }

    fn the_umask_is_taken_away_once(scene) {
        scene.bash("umask 027; touch f; mkdir d; mkfifo p; umask 777; : > none", &[]);
        assert_eq!(mode(scene.at("f")), 0o640);
        assert_eq!(mode(scene.at("d")), 0o750);
        assert_eq!(mode(scene.at("p")), 0o640);
        assert_eq!(mode(scene.at("none")), 0);
    }

    fn a_file_made_read_only_can_be_written_by_its_maker(scene) {
        use std::io::Write;
        let path = scene.at("ro");
        let mut file = std::fs::File::options().write(true).create_new(true).mode(0o444).open(&path).expect("create");
        file.write_all(b"k").expect("the descriptor may write");
        drop(file);
        assert_eq!((metadata(&path).expect("stat").len(), mode(&path)), (1, 0o444));
    }

    fn owners_are_kept(scene) {
        put(scene.at("f"), b"");
        symlink("f", scene.at("l")).expect("symlink");
        chown(scene.at("f"), Some(1234), Some(4_000_000_000)).expect("chown");
        lchown(scene.at("l"), Some(77), None).expect("lchown");
        let (file, link) = (metadata(scene.at("f")).expect("stat"), symlink_metadata(scene.at("l")).expect("stat"));
        assert_eq!((file.uid(), file.gid(), link.uid()), (1234, 4_000_000_000, 77));
        chown(scene.at("f"), None, Some(5)).expect("chgrp");
        let file = metadata(scene.at("f")).expect("stat");
        assert_eq!((file.uid(), file.gid()), (1234, 5));
    }

    fn what_one_makes_belongs_to_one(scene) {
        set_permissions(scene.path(), Permissions::from_mode(0o777)).expect("chmod");
        let (_, done) = as_nobody(scene, "touch f && mkdir d && ln -s f l && mkfifo p && ln f h");
        assert!(done);
        for name in ["f", "d", "l", "p"] {
            let meta = symlink_metadata(scene.at(name)).expect("stat");
            assert_eq!((meta.uid(), meta.gid()), (NOBODY, NOBODY), "{name}");
        }
    }

    fn setgid_directories_pass_their_group_on(scene) {
        let dir = scene.at("shared");
        create_dir(&dir).expect("mkdir");
        chown(&dir, None, Some(12345)).expect("chgrp");
        set_permissions(&dir, Permissions::from_mode(0o2775)).expect("chmod");
        put(dir.join("f"), b"");
        create_dir(dir.join("d")).expect("mkdir");
        symlink("f", dir.join("l")).expect("symlink");
        for name in ["f", "d", "l"] {
            assert_eq!(symlink_metadata(dir.join(name)).expect("stat").gid(), 12345, "{name}");
        }
        assert_eq!(mode(dir.join("d")) & 0o2000, 0o2000, "directories pass it further");
        assert_eq!(mode(dir.join("f")) & 0o2000, 0);
    }

    fn rights_are_checked(scene) {
        put(scene.at("secret"), b"s");
        set_permissions(scene.at("secret"), Permissions::from_mode(0o600)).expect("chmod");
        put(scene.at("open"), b"o");
        create_dir(scene.at("closed")).expect("mkdir");
        put(scene.at("closed/f"), b"");
        set_permissions(scene.at("closed"), Permissions::from_mode(0o700)).expect("chmod");
        assert!(as_nobody(scene, "cat open").1);
        for refused in ["cat secret", "echo x >> open", "rm -f open", "touch new", "cat closed/f", "chmod 777 open"] {
            assert!(!as_nobody(scene, refused).1, "{refused}");
        }
        assert_eq!(std::fs::read(scene.at("open")).expect("read"), b"o");
    }

    fn a_sticky_directory_protects_its_files(scene) {
        let dir = scene.at("tmp");
        create_dir(&dir).expect("mkdir");
        set_permissions(&dir, Permissions::from_mode(0o1777)).expect("chmod");
        put(dir.join("mine"), b"");
        assert!(!as_nobody(scene, "rm -f tmp/mine").1);
        assert!(!as_nobody(scene, "mv tmp/mine tmp/yours").1);
        assert!(as_nobody(scene, "touch tmp/own && rm tmp/own").1);
    }

    fn a_write_by_another_drops_set_user_id(scene) {
        let path = scene.at("tool");
        put(&path, b"before");
        set_permissions(&path, Permissions::from_mode(0o6777)).expect("chmod");
        assert!(as_nobody(scene, "printf x >> tool").1);
        assert_eq!(mode(&path), 0o777);
        set_permissions(&path, Permissions::from_mode(0o6777)).expect("chmod");
        assert!(as_nobody(scene, "truncate -s 2 tool").1);
        assert_eq!(mode(&path), 0o777);
        set_permissions(&path, Permissions::from_mode(0o6755)).expect("chmod");
        chown(&path, Some(5), Some(5)).expect("chown");
        assert_eq!(mode(&path) & 0o6000, 0, "a change of owner does so by any caller");
    }

    fn an_allocation_by_another_drops_set_user_id(scene) {
        program::need(&["fallocate"]);
        let path = scene.at("tool");
        put(&path, b"before");
        for how in ["-l 100", "-n -l 200", "-p -o 0 -l 3", "-z -o 1 -l 10"] {
            set_permissions(&path, Permissions::from_mode(0o6777)).expect("chmod");
            scene.bash(&format!("fallocate {how} \"$1\""), &[&path]);
            assert_eq!(mode(&path), 0o6777, "{how} by root");
            assert!(as_nobody(scene, &format!("fallocate {how} tool")).1);
            assert_eq!(mode(&path), 0o777, "{how}");
        }
    }

    fn ordinary_users_give_nothing_away(scene) {
        put(scene.at("f"), b"");
        chown(scene.at("f"), Some(NOBODY), Some(NOBODY)).expect("chown");
        assert!(!as_nobody(scene, "chown 0 f").1);
        assert!(!as_nobody(scene, "chgrp 0 f").1);
        assert!(as_nobody(scene, "chmod 600 f").1);
        assert_eq!(mode(scene.at("f")), 0o600);
    }

    fn access_answers_for_the_caller(scene) {
        put(scene.at("x"), b"#!/bin/sh\necho ran\n");
        set_permissions(scene.at("x"), Permissions::from_mode(0o755)).expect("chmod");
        assert_eq!(as_nobody(scene, "test -x x && test -r x && ! test -w x && ./x"), ("ran\n".to_owned(), true));
        set_permissions(scene.at("x"), Permissions::from_mode(0o644)).expect("chmod");
        assert_eq!(std::process::Command::new(scene.at("x")).spawn().map(drop).errno(), Errno::ACCESS);
    }

    fn all_names_of_a_file_show_the_same_attributes(scene) {
        put(scene.at("one"), b"1");
        hard_link(scene.at("one"), scene.at("two")).expect("link");
        set_permissions(scene.at("two"), Permissions::from_mode(0o640)).expect("chmod");
        chown(scene.at("one"), Some(9), Some(9)).expect("chown");
        let (one, two) = (metadata(scene.at("one")).expect("stat"), metadata(scene.at("two")).expect("stat"));
        assert_eq!((one.mode(), one.uid(), one.ino()), (two.mode(), two.uid(), two.ino()));
        assert_eq!((one.mode() & 0o7777, two.uid()), (0o640, 9));
    }

    fn supplementary_groups_count(scene) {
        program::need(&["setpriv"]);
        set_permissions(scene.path(), Permissions::from_mode(0o755)).expect("chmod");
        for (name, group) in [("team", 4321), ("other", 4322)] {
            create_dir(scene.at(name)).expect("mkdir");
            put(scene.at(name).join("f"), b"text");
            set_permissions(scene.at(name).join("f"), Permissions::from_mode(0o660)).expect("chmod");
            chown(scene.at(name).join("f"), None, Some(group)).expect("chgrp");
            chown(scene.at(name), None, Some(group)).expect("chgrp");
            set_permissions(scene.at(name), Permissions::from_mode(0o2770)).expect("chmod");
        }
        let as_member = |script: &str| {
            let identity = ["--reuid", "65534", "--regid", "65534", "--groups", "4321,4400", "bash", "-euc", script];
            scene.program("setpriv").args(identity).output().status.success()
        };
        assert!(as_member("cat team/f; echo more >> team/f; touch team/mine; mkdir team/dir; rm team/f; ! cat other/f; ! touch other/x"));
        assert_eq!(metadata(scene.at("team/mine")).expect("stat").gid(), 4321, "the directory's group");
        assert_eq!(mode(scene.at("team/dir")) & 0o2000, 0o2000);
        assert!(as_member("chgrp 4400 team/mine; ! chgrp 4322 team/mine 2> /dev/null; chmod g+s team/mine"));
        let mine = metadata(scene.at("team/mine")).expect("stat");
        assert_eq!((mine.gid(), mine.mode() & 0o2000), (4400, 0o2000), "a member may set the bit");
        chown(scene.at("team/mine"), None, Some(4322)).expect("chgrp");
        assert!(as_member("chmod 2755 team/mine"));
        assert_eq!(mode(scene.at("team/mine")), 0o755, "who is no member may not: the bit is left out");
    }
}
