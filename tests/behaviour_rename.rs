//! Renames: what they replace, what they refuse, and that nobody sees them half done.

use crate::harness::actor::Part;
use crate::harness::{Failed, Kind, each_kind, put, slurp, tree};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{File, create_dir, create_dir_all, hard_link, metadata, read_dir, rename, symlink_metadata};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::time::{Duration, Instant};

/// A child's role: renames one of two files over `path`, in turn, for so many milliseconds.
pub fn rename_over_for_a_while(part: &Part) {
    let end = Instant::now() + Duration::from_millis(part.numbers[0]);
    while Instant::now() < end {
        let fresh = part.path.with_extension("fresh");
        std::fs::write(&fresh, b"whole").expect("a new file can be written");
        rename(&fresh, &part.path).expect("it replaces the old one");
    }
}

each_kind! {
    fn a_file_replaces_a_file(scene) {
        let (from, to) = (scene.at("from"), scene.at("to"));
        put(&from, b"new");
        put(&to, b"old bytes");
        let number = metadata(&from).expect("stat").ino();
        rename(&from, &to).expect("rename");
        assert_eq!((slurp(&to), metadata(&to).expect("stat").ino()), (b"new".to_vec(), number));
        assert_eq!(metadata(&from).errno(), Errno::NOENT);
        assert_eq!(rename(&from, &to).errno(), Errno::NOENT);
    }

    fn a_file_that_is_open_can_be_replaced(scene) {
        let (from, to) = (scene.at("from"), scene.at("to"));
        put(&from, b"A");
        put(&to, b"BB");
        let old = File::open(&to).expect("open");
        rename(&from, &to).expect("rename");
        let mut bytes = [0; 9];
        assert_eq!(old.read_at(&mut bytes, 0).expect("its holder reads on"), 2);
        assert_eq!(&bytes[..2], b"BB");
        assert_eq!(old.metadata().expect("fstat").nlink(), 0);
        assert_eq!(slurp(&to), b"A");
    }

    fn git_renames_its_lock_over_head(scene) {
        put(scene.at("HEAD"), b"ref: refs/heads/main\n");
        for round in 0..50 {
            let text = format!("ref: refs/heads/branch-{round}\n");
            put(scene.at("HEAD.lock"), &text);
            rename(scene.at("HEAD.lock"), scene.at("HEAD")).expect("rename");
            assert_eq!(slurp(scene.at("HEAD")), text.as_bytes());
        }
    }

    fn directories_replace_only_empty_directories(scene) {
        create_dir_all(scene.at("full/inside")).expect("mkdir");
        create_dir(scene.at("empty")).expect("mkdir");
        create_dir_all(scene.at("moving/kept")).expect("mkdir");
        put(scene.at("file"), b"");
        assert_eq!(rename(scene.at("moving"), scene.at("full")).errno(), Errno::NOTEMPTY);
        assert_eq!(rename(scene.at("moving"), scene.at("file")).errno(), Errno::NOTDIR);
        assert_eq!(rename(scene.at("file"), scene.at("empty")).errno(), Errno::ISDIR);
        rename(scene.at("moving"), scene.at("empty")).expect("rename");
        assert!(scene.at("empty/kept").is_dir());
        assert!(!scene.at("moving").exists());
    }

    fn a_directory_never_comes_below_itself(scene) {
        create_dir_all(scene.at("a/b/c")).expect("mkdir");
        assert_eq!(rename(scene.at("a"), scene.at("a/b/c/d")).errno(), Errno::INVAL);
        assert_eq!(rename(scene.at("a"), scene.at("a/new")).errno(), Errno::INVAL);
        assert_eq!(rename(scene.at("a/b"), scene.at("a/b/c")).errno(), Errno::INVAL);
        let failed = renameat_with(CWD, scene.at("a"), CWD, scene.at("a/b/c"), RenameFlags::EXCHANGE).errno();
        assert_eq!(failed, Errno::INVAL);
        assert_eq!(rename(scene.at("a/b/c"), scene.at("a")).errno(), Errno::NOTEMPTY);
        assert!(scene.at("a/b/c").is_dir());
    }

    fn a_moved_directory_takes_everything_along(scene) {
        tree::make(&scene.at("one/src"), 200, 3);
        create_dir(scene.at("two")).expect("mkdir");
        let before = tree::told(&scene.at("one/src"));
        let number = |path| symlink_metadata(scene.at(path)).expect("stat").ino();
        let links = |path| symlink_metadata(scene.at(path)).expect("stat").nlink();
        assert_eq!((links("one"), links("two")), (3, 2));
        rename(scene.at("one/src"), scene.at("two/dst")).expect("rename");
        tree::assert_same(&before, &tree::told(&scene.at("two/dst")));
        assert_eq!(number("two/dst/.."), number("two"));
        assert_eq!((links("one"), links("two")), (2, 3));
        assert_eq!(read_dir(scene.at("one")).expect("readdir").count(), 0);
        if scene.kind().keeps() {
            scene.remount();
            tree::assert_same(&before, &tree::told(&scene.at("two/dst")));
        }
    }

    fn two_names_of_one_file_stay(scene) {
        put(scene.at("a"), b"x");
        hard_link(scene.at("a"), scene.at("b")).expect("link");
        rename(scene.at("a"), scene.at("b")).expect("this is success, and nothing happens");
        assert_eq!((metadata(scene.at("a")).expect("stat").nlink(), slurp(scene.at("b"))), (2, b"x".to_vec()));
        rename(scene.at("a"), scene.at("a")).expect("so is this");
    }

    fn noreplace_replaces_nothing(scene) {
        put(scene.at("e1"), b"1");
        put(scene.at("e2"), b"22");
        let no_replace = |from, to| renameat_with(CWD, scene.at(from), CWD, scene.at(to), RenameFlags::NOREPLACE);
        assert_eq!(no_replace("e1", "e2").errno(), Errno::EXIST);
        assert_eq!((slurp(scene.at("e1")), slurp(scene.at("e2"))), (b"1".to_vec(), b"22".to_vec()));
        no_replace("e1", "e3").expect("a free name");
        assert_eq!(slurp(scene.at("e3")), b"1");
        symlink("nowhere", scene.at("l")).expect("symlink");
        assert_eq!(no_replace("e3", "l").errno(), Errno::EXIST, "a hanging symlink is a name too");
    }

    fn exchange_swaps_whatever_they_are(scene) {
        put(scene.at("f"), b"file");
        create_dir_all(scene.at("d/sub")).expect("mkdir");
        create_dir(scene.at("other")).expect("mkdir");
        let exchange = |from, to| renameat_with(CWD, scene.at(from), CWD, scene.at(to), RenameFlags::EXCHANGE);
        exchange("f", "d").expect("a file and a directory");
        assert_eq!(slurp(scene.at("d")), b"file");
        assert!(scene.at("f/sub").is_dir());
        put(scene.at("other/g"), b"2");
        exchange("d", "other/g").expect("in two directories");
        assert_eq!((slurp(scene.at("d")), slurp(scene.at("other/g"))), (b"2".to_vec(), b"file".to_vec()));
        exchange("f", "other/g").expect("a directory into another");
        assert!(scene.at("other/g/sub").is_dir());
        let links = |path| symlink_metadata(scene.at(path)).expect("stat").nlink();
        assert_eq!((links("."), links("other")), (3, 3));
        assert_eq!(exchange("f", "missing").errno(), Errno::NOENT);
    }

    fn opens_never_miss_a_file_that_is_renamed_over(scene) {
        let path = scene.at("settings");
        put(&path, b"whole");
        let mut writer = scene.actor("rename-over", &path, &[700]);
        let mut reads = 0;
        while writer.runs() {
            assert_eq!(slurp(&path), b"whole", "after {reads} reads");
            metadata(&path).expect("it is always there");
            reads += 1;
        }
        writer.text();
        assert!(reads > 20, "only {reads} reads");
    }

    fn signals_make_no_change_fail(scene) {
        crate::harness::program::need(&["python3"]);
        let script = "import os, signal\n\
            signal.signal(signal.SIGALRM, lambda *_: None)\n\
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\n\
            for n in range(300):\n    open('a', 'w').close()\n    os.rename('a', 'b')\n    os.mkdir('d')\n    \
            os.link('b', 'd/c')\n    os.unlink('b')\n    os.rename('d/c', 'e')\n    os.rmdir('d')\n\
            signal.setitimer(signal.ITIMER_REAL, 0)\nprint(sorted(os.listdir()))";
        assert_eq!(scene.program("python3").args(["-c", script]).text(), "['e']\n");
    }

    fn an_open_file_can_be_moved(scene) {
        create_dir(scene.at("d")).expect("mkdir");
        put(scene.at("f"), b"start");
        let file = File::options().read(true).write(true).open(scene.at("f")).expect("open");
        rename(scene.at("f"), scene.at("d/g")).expect("rename");
        file.write_at(b"after", 5).expect("write");
        crate::harness::sys::close(file).expect("close");
        assert_eq!(slurp(scene.at("d/g")), b"startafter");
    }

    fn a_working_directory_can_be_moved(scene) {
        let output = scene.bash("mkdir -p a/b; cd a/b; echo 1 > f; mv ../../a ../../c; cat f; echo 2 >> f; cat ../../c/b/f; pwd -P", &[]);
        let moved = scene.at("c/b");
        assert_eq!(output, format!("1\n1\n2\n{}\n", moved.display()));
    }

    fn whiteouts_are_refused_or_made(scene) {
        put(scene.at("w"), b"x");
        match renameat_with(CWD, scene.at("w"), CWD, scene.at("v"), RenameFlags::WHITEOUT) {
            Ok(()) => assert_eq!(scene.kind(), Kind::Native),
            Err(error) => assert_eq!(error, Errno::INVAL, "what is not there is refused as such"),
        }
    }
}
