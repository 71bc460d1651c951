//! Times: nanoseconds, far past and future, and who moves which.

use crate::harness::{Failed, each_kind, put};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
use rustix::io::Errno;
use std::fs::{create_dir, hard_link, remove_file, rename, symlink_metadata};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

fn set(path: &Path, access: (i64, i64), modification: (i64, i64)) -> rustix::io::Result<()> {
    let time = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: time(access), last_modification: time(modification) };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
}

fn modified(path: &Path) -> (i64, i64) {
    let meta = symlink_metadata(path).expect("stat");
    (meta.mtime(), meta.mtime_nsec())
}

fn accessed(path: &Path) -> (i64, i64) {
    let meta = symlink_metadata(path).expect("stat");
    (meta.atime(), meta.atime_nsec())
}

fn changed(path: &Path) -> (i64, i64) {
    let meta = symlink_metadata(path).expect("stat");
    (meta.ctime(), meta.ctime_nsec())
}

/// Long enough for the clock of any filesystem (the kernel's coarse one ticks every 4 ms) to have gone on.
fn a_moment() {
    std::thread::sleep(Duration::from_millis(20));
}

each_kind! {
    fn nanoseconds_are_kept(scene) {
        let file = scene.at("f");
        put(&file, b"x");
        set(&file, (5, 999_999_999), (1_700_000_000, 123_456_789)).expect("utimensat");
        assert_eq!((accessed(&file), modified(&file)), ((5, 999_999_999), (1_700_000_000, 123_456_789)));
        set(&file, (0, 1), (0, 0)).expect("utimensat");
        assert_eq!((accessed(&file), modified(&file)), ((0, 1), (0, 0)));
        if scene.kind().keeps() {
            scene.remount();
            assert_eq!(modified(&file), (0, 0));
        }
    }

    fn times_before_1970_are_kept(scene) {
        let file = scene.at("old");
        put(&file, b"x");
        for time in [(-1, 999_999_999), (-1, 0), (-2, 1), (-86_400 * 365, 250_000_000), (-2_147_483_648, 0)] {
            set(&file, (7, 7), time).expect("utimensat");
            assert_eq!(modified(&file), time);
            set(&file, time, (7, 7)).expect("utimensat");
            assert_eq!(accessed(&file), time);
        }
    }

    fn times_past_2038_are_kept(scene) {
        let file = scene.at("future");
        put(&file, b"x");
        for time in [(2_147_483_647, 999_999_999), (2_147_483_648, 1), (4_294_967_296, 5), (9_223_372_035, 999_999_999)] {
            set(&file, (7, 7), time).expect("utimensat");
            assert_eq!(modified(&file), time);
        }
    }

    fn now_and_omit_are_understood(scene) {
        let file = scene.at("f");
        put(&file, b"x");
        set(&file, (11, 0), (22, 0)).expect("utimensat");
        set(&file, (0, UTIME_OMIT), (33, 0)).expect("utimensat");
        assert_eq!((accessed(&file).0, modified(&file).0), (11, 33));
        set(&file, (0, UTIME_NOW), (0, UTIME_OMIT)).expect("utimensat");
        assert_eq!(modified(&file).0, 33);
        assert!(accessed(&file).0 > 1_600_000_000, "the access time is now");
        assert_eq!(set(&file, (0, 1_000_000_000), (0, 0)).errno(), Errno::INVAL);
    }

    fn symlinks_and_directories_have_their_own(scene) {
        put(scene.at("f"), b"x");
        symlink("f", scene.at("l")).expect("symlink");
        create_dir(scene.at("d")).expect("mkdir");
        set(&scene.at("f"), (1, 1), (1, 1)).expect("utimensat");
        set(&scene.at("l"), (2, 2), (2, 2)).expect("utimensat");
        set(&scene.at("d"), (3, 3), (3, 3)).expect("utimensat");
        assert_eq!(modified(&scene.at("f")), (1, 1));
        assert_eq!(modified(&scene.at("l")), (2, 2));
        assert_eq!(modified(&scene.at("d")), (3, 3));
    }

    fn a_write_moves_modification_and_change(scene) {
        let file = scene.at("f");
        put(&file, b"x");
        set(&file, (1, 0), (1, 0)).expect("utimensat");
        let before = changed(&file);
        a_moment();
        std::fs::File::options().append(true).open(&file).expect("open").write_all(b"y").expect("write");
        assert!(modified(&file).0 > 1 && changed(&file) > before);
        set(&file, (1, 0), (1, 0)).expect("utimensat");
        std::fs::File::options().write(true).open(&file).expect("open").set_len(0).expect("truncate");
        assert!(modified(&file).0 > 1);
        let before = modified(&file);
        assert_eq!(modified(&file), before, "looking moves nothing");
    }

    fn a_change_brings_a_future_time_back(scene) {
        let (file, dir) = (scene.at("f"), scene.at("d"));
        put(&file, b"x");
        create_dir(&dir).expect("mkdir");
        let future = (4_000_000_000, 0);
        let steps: [(&str, &Path, &dyn Fn()); 5] = [
            ("write", &file, &|| std::fs::File::options().write(true).open(&file).expect("open").write_all(b"y").expect("write")),
            ("append", &file, &|| std::fs::File::options().append(true).open(&file).expect("open").write_all(b"y").expect("write")),
            ("truncate", &file, &|| std::fs::File::options().write(true).open(&file).expect("open").set_len(1).expect("truncate")),
            ("reserve", &file, &|| {
                let open = std::fs::File::options().write(true).open(&file).expect("open");
                rustix::fs::fallocate(&open, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 100).expect("fallocate");
            }),
            ("create", &dir, &|| put(dir.join("f"), b"")),
        ];
        for (name, path, step) in steps {
            set(path, future, future).expect("utimensat");
            step();
            assert!(modified(path) < future, "{name} makes the modification time the present");
            assert!(modified(path).0 > 1_600_000_000, "{name}");
        }
    }

    fn an_open_that_truncates_marks_the_times_of_an_empty_file(scene) {
        let file = scene.at("f");
        put(&file, b"");
        set(&file, (1, 0), (1, 0)).expect("utimensat");
        let before = changed(&file);
        a_moment();
        std::fs::File::create(&file).expect("open");
        assert!(modified(&file).0 > 1 && changed(&file) > before, "O_TRUNC");
        let open = std::fs::File::options().write(true).open(&file).expect("open");
        set(&file, (1, 0), (1, 0)).expect("utimensat");
        let before = changed(&file);
        a_moment();
        open.set_len(0).expect("ftruncate");
        assert!(modified(&file).0 > 1 && changed(&file) > before, "ftruncate");
    }

    fn attributes_move_only_the_change_time(scene) {
        let file = scene.at("f");
        put(&file, b"x");
        set(&file, (1, 0), (1, 0)).expect("utimensat");
        let steps: [(&str, &dyn Fn()); 4] = [
            ("chmod", &|| std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("chmod")),
            ("link", &|| hard_link(&file, scene.at("second")).expect("link")),
            ("unlink", &|| remove_file(scene.at("second")).expect("unlink")),
            ("rename", &|| rename(&file, scene.at("tmp")).and_then(|()| rename(scene.at("tmp"), &file)).expect("rename")),
        ];
        for (name, step) in steps {
            let before = changed(&file);
            a_moment();
            step();
            assert!(changed(&file) > before, "{name} moves the change time");
            assert_eq!(modified(&file), (1, 0), "{name} leaves the modification time");
        }
    }

    fn names_that_come_and_go_move_their_directory(scene) {
        let dir = scene.at("d");
        create_dir(&dir).expect("mkdir");
        put(scene.at("elsewhere"), b"");
        let steps: [(&str, &dyn Fn()); 7] = [
            ("create", &|| put(dir.join("f"), b"")),
            ("mkdir", &|| create_dir(dir.join("d")).expect("mkdir")),
            ("symlink", &|| symlink("f", dir.join("l")).expect("symlink")),
            ("rename within", &|| rename(dir.join("f"), dir.join("g")).expect("rename")),
            ("rename in", &|| rename(scene.at("elsewhere"), dir.join("e")).expect("rename")),
            ("rename out", &|| rename(dir.join("e"), scene.at("elsewhere")).expect("rename")),
            ("unlink", &|| remove_file(dir.join("g")).expect("unlink")),
        ];
        for (name, step) in steps {
            set(&dir, (1, 0), (1, 0)).expect("utimensat");
            let before = changed(&dir);
            a_moment();
            step();
            assert!(modified(&dir).0 > 1, "{name} moves the directory's modification time");
            assert!(changed(&dir) > before, "{name} moves the directory's change time");
        }
        set(&dir, (1, 0), (1, 0)).expect("utimensat");
        put(scene.at("elsewhere"), b"more");
        assert_eq!(modified(&dir), (1, 0), "what happens elsewhere does not");
    }

    fn new_files_are_of_now(scene) {
        let start = std::time::SystemTime::now() - Duration::from_millis(20);
        put(scene.at("f"), b"x");
        create_dir(scene.at("d")).expect("mkdir");
        symlink("f", scene.at("l")).expect("symlink");
        let end = std::time::SystemTime::now();
        for name in ["f", "d", "l"] {
            let meta = symlink_metadata(scene.at(name)).expect("stat");
            let time = meta.modified().expect("a time");
            assert!(start <= time && time <= end, "{name}: {time:?} is not between {start:?} and {end:?}");
        }
    }

    fn a_time_set_before_close_stays(scene) {
        let path = scene.at("f");
        let mut file = std::fs::File::create(&path).expect("create");
        file.write_all(&[7; 300_000]).expect("write");
        file.set_modified(std::time::UNIX_EPOCH + Duration::new(1_234_567, 89)).expect("futimens");
        crate::harness::sys::close(file).expect("close");
        assert_eq!(modified(&path), (1_234_567, 89));
        assert_eq!(symlink_metadata(&path).expect("stat").len(), 300_000);
        if scene.kind().keeps() {
            scene.remount();
            assert_eq!(modified(&path), (1_234_567, 89));
        }
    }
}
