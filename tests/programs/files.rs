//! The everyday tools: cp, diff, mv, rm, tar, sed, vim, dd and truncate.

use crate::harness::{each_stored_kind, program, put, slurp, tree};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lsetxattr, mknodat, utimensat};
use std::fs::{create_dir, hard_link, metadata, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

/// A tree with a file of every sort that an archive keeps.
pub fn rich_tree(root: &Path) {
    tree::make(root, 300, 21);
    hard_link(root.join("d000/even/file-00000.txt"), root.join("second-name")).expect("link");
    mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).expect("mkfifo");
    lsetxattr(root.join("second-name"), "user.note", b"kept", XattrFlags::empty()).expect("setxattr");
    chown(root.join("d001"), Some(1000), Some(1001)).expect("chown");
    set_permissions(root.join("d001"), PermissionsExt::from_mode(0o2750)).expect("chmod");
    create_dir(root.join("empty")).expect("mkdir");
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: time(1, 2), last_modification: time(3, 456_789_012) };
    utimensat(CWD, root.join("d002/odd/file-00101.txt"), &times, AtFlags::empty()).expect("utimensat");
}

each_stored_kind! {
    fn cp_brings_a_tree_in_and_out(scene) {
        let source = scene.home().join("source");
        rich_tree(&source);
        let right = tree::told(&source);
        scene.bash("cp -a \"$1\" in; diff -r --no-dereference --exclude=pipe \"$1\" in; cp -a in copy; cp -a copy \"$2\"", &[&source, &scene.home().join("out")]);
        tree::assert_same(&right, &tree::told(&scene.at("in")));
        tree::assert_same(&right, &tree::told(&scene.at("copy")));
        tree::assert_same(&right, &tree::told(&scene.home().join("out")));
        scene.remount_if_kept();
        tree::assert_same(&right, &tree::told(&scene.at("in")));
        scene.bash("rm -rf in copy; test -z \"$(ls -A)\"", &[]);
    }

    fn tar_packs_and_unpacks(scene) {
        program::need(&["tar"]);
        let source = scene.home().join("source");
        rich_tree(&source);
        let options = "--xattrs --xattrs-include='user.*' --format=posix";
        scene.bash(&format!("tar {options} -C \"$1\" -cf in.tar .; mkdir a; tar {options} -C a -xpf in.tar; tar {options} -C a -cf again.tar .; \
            mkdir b; tar {options} -C b -xpf again.tar"), &[&source]);
        let right = tree::told(&source);
        tree::assert_same(&right, &tree::told(&scene.at("a")));
        tree::assert_same(&right, &tree::told(&scene.at("b")));
    }

    fn a_sparse_file_of_five_gibibytes_is_handled(scene) {
        scene.takes(Duration::from_secs(240));
        let script = "truncate -s 5G big; echo end >> big; printf middle | dd of=big bs=1 seek=3000000000 conv=notrunc status=none; \
            stat -c %s big; dd if=big bs=1 skip=3000000000 count=6 status=none; echo; tail -c 4 big; \
            cp --sparse=always big copy; stat -c %s copy; dd if=copy bs=1 skip=3000000000 count=6 status=none; echo";
        assert_eq!(scene.bash(script, &[]), "5368709124\nmiddle\nend\n5368709124\nmiddle\n");
        for name in ["big", "copy"] {
            let room = metadata(scene.at(name)).expect("stat").blocks() * 512;
            assert!(room < 16 << 20, "{name} takes {room} bytes");
        }
        scene.remount_if_kept();
        assert_eq!(scene.bash("stat -c %s big; du -sh --apparent-size big | cut -f1; tail -c 4 copy; truncate -s 1 big; rm copy", &[]), "5368709124\n5.1G\nend\n");
    }

    fn editors_edit(scene) {
        program::need(&["sed", "patch"]);
        let vim = program::need_one_of(&["vim", "vim.tiny"]);
        put(scene.at("text"), "one\ntwo\nthree\n");
        set_permissions(scene.at("text"), PermissionsExt::from_mode(0o640)).expect("chmod");
        scene.bash("sed -i.bak 's/two/zwei/' text; cat text.bak", &[]);
        assert_eq!(slurp(scene.at("text")), b"one\nzwei\nthree\n");
        assert_eq!(metadata(scene.at("text")).expect("stat").mode() & 0o777, 0o640);
        // With a swap file and a backup, as a person's vim has them, in both ways of writing.
        for (how, word) in [("yes", "copied"), ("no", "renamed")] {
            let commands = [format!("set backup backupcopy={how}"), format!("%s/one\\|copied/{word}/"), "wq".to_owned()];
            let arguments = commands.iter().flat_map(|command| ["-c", command.as_str()]);
            scene.program(vim).args(["-u", "NONE", "-i", "NONE", "-es", "--cmd", "silent! set swapfile directory=. backupskip="]).args(arguments).arg("text").text();
            assert!(slurp(scene.at("text")).starts_with(word.as_bytes()), "{:?}", slurp(scene.at("text")));
        }
        assert_eq!(scene.bash("ls -A", &[]), "text\ntext.bak\ntext~\n", "no swap file is left");
        scene.bash("patch -s text <<'EOF'\n--- text\n+++ text\n@@ -1,3 +1,3 @@\n renamed\n-zwei\n+deux\n three\nEOF\ngrep -q deux text", &[]);
    }

    fn nano_saves(scene) {
        program::need(&["nano", "script"]);
        put(scene.at("text"), "one\n");
        std::os::unix::fs::symlink("text", scene.at("link")).expect("symlink");
        // At a terminal: a word, save as what it is called, leave; with a backup beside.
        let script = "(sleep 0.5; printf 'zero '; sleep 0.2; printf '\\017'; sleep 0.2; printf '\\r'; sleep 0.3; printf '\\030'; sleep 0.3) \
            | TERM=xterm HOME=\"$1\" script -qec 'nano -I -B link' /dev/null > /dev/null; cat text; cat 'link~' text~ 2> /dev/null || true";
        assert_eq!(scene.bash(script, &[scene.home()]), "zero one\none\n");
        assert!(metadata(scene.at("link")).expect("stat").is_file() && scene.at("link").is_symlink());
    }

    fn cp_clones_where_it_can_and_copies_elsewhere(scene) {
        scene.bash("head -c 3000000 /dev/urandom > a; cp --reflink=auto a b; cmp a b; cp --sparse=never a c; cmp a c; \
            if cp --reflink=always a d 2> complaint; then cmp a d; else grep -q 'Operation not supported\\|Invalid argument' complaint; fi", &[]);
    }

    fn whole_trees_change_their_modes_and_go(scene) {
        tree::make(&scene.at("tree"), 400, 8);
        scene.bash("chmod -R u=rwX,go= tree; chown -R 1000:1001 tree; touch -d 2001-02-03T04:05:06.789 tree/d000/even/*", &[]);
        assert_eq!(scene.bash("find tree ! -type l ! -perm -u+rw -o ! -uid 1000 -o ! -gid 1001 -o ! -type l -perm /077", &[]), "");
        assert_eq!(scene.bash("find tree -type f | wc -l; find tree -name '*.txt' -delete; find tree -type f | wc -l; find tree -depth -delete; ls -A", &[]), "400\n0\n");
    }

    fn flock_keeps_scripts_apart(scene) {
        program::need(&["flock"]);
        let script = "echo 0 > count; for i in 1 2 3 4; do (for j in $(seq 25); do flock lock bash -c 'echo $(($(< count) + 1)) > count'; done) & done; wait; cat count; \
            exec 9> lock; flock 9; ! flock -n lock true; ! flock -w 0.2 lock true; flock -u 9; flock -n lock echo free";
        assert_eq!(scene.bash(script, &[]), "100\nfree\n");
    }

    fn mv_and_rm_do_what_they_say(scene) {
        tree::make(&scene.at("tree"), 500, 3);
        let right = tree::told(&scene.at("tree"));
        scene.bash("mv tree other; mkdir deep; mv other deep/; mv deep/other tree; rmdir deep", &[]);
        tree::assert_same(&right, &tree::told(&scene.at("tree")));
        scene.bash("mkdir target; mv tree/d000 tree/d001 target; ls target | wc -l; rm -rf tree target; test -z \"$(ls -A)\"", &[]);
    }

    fn logs_are_followed(scene) {
        let script = "touch log; tail -n0 -f log > got & t=$!; sleep 0.3; for i in 1 2 3; do echo line $i >> log; done; \
            for i in $(seq 100); do [ $(wc -l < got) = 3 ] && break; sleep 0.1; done; kill $t; cat got";
        assert_eq!(scene.bash(script, &[]), "line 1\nline 2\nline 3\n");
    }
}
