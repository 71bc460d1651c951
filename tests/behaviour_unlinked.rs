//! What has lost its last name lives on until its last close.

use crate::harness::{Failed, each_kind, put, random, sys};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use std::fs::{File, create_dir, read_dir, remove_dir, remove_file, rename};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

fn open_new(path: &Path) -> File {
    File::options().read(true).write(true).create_new(true).open(path).expect("create")
}

each_kind! {
    fn an_open_file_outlives_its_name(scene) {
        let path = scene.at("u");
        let mut file = open_new(&path);
        file.write_all(&[b'x'; 100]).expect("write");
        remove_file(&path).expect("unlink");
        file.write_all(&[b'y'; 100]).expect("write without a name");
        let meta = file.metadata().expect("fstat");
        assert_eq!((meta.nlink(), meta.len()), (0, 200));
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)).expect("read");
        assert_eq!(bytes, [[b'x'; 100], [b'y'; 100]].concat());
        file.set_len(50).expect("truncate without a name");
        assert_eq!(file.metadata().expect("fstat").len(), 50);
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("fchmod");
        file.sync_all().expect("fsync");
        sys::close(file).expect("close");
        assert!(!path.exists());
    }

    fn an_unlinked_file_can_be_large(scene) {
        let path = scene.at("big");
        let file = open_new(&path);
        let bytes = random::bytes(1, 3 << 20);
        file.write_all_at(&bytes, 0).expect("write");
        remove_file(&path).expect("unlink");
        file.write_all_at(&bytes, 2 << 20).expect("write");
        let mut back = vec![0; 3 << 20];
        file.read_exact_at(&mut back, 2 << 20).expect("read");
        assert!(back == bytes);
        sys::close(file).expect("close");
    }

    fn a_new_file_of_that_name_is_another(scene) {
        let path = scene.at("f");
        let old = open_new(&path);
        old.write_all_at(b"old", 0).expect("write");
        let old_number = old.metadata().expect("fstat").ino();
        remove_file(&path).expect("unlink");
        let new = open_new(&path);
        new.write_all_at(b"newer", 0).expect("write");
        assert_ne!(new.metadata().expect("fstat").ino(), old_number);
        old.write_all_at(b"OLD", 0).expect("write");
        assert_eq!(std::fs::read(&path).expect("read"), b"newer");
        let mut bytes = [0; 3];
        old.read_exact_at(&mut bytes, 0).expect("read");
        assert_eq!(&bytes, b"OLD");
    }

    fn a_number_is_not_used_again_while_its_file_is_held(scene) {
        let held: Vec<File> = (0..20).map(|index| open_new(&scene.at(format!("h{index}")))).collect();
        let numbers: Vec<u64> = held.iter().map(|file| file.metadata().expect("fstat").ino()).collect();
        for index in 0..20 {
            remove_file(scene.at(format!("h{index}"))).expect("unlink");
        }
        // A filesystem that hands out the lowest free number would come to them now.
        for round in 0..300 {
            let path = scene.at(format!("n{}", round % 100));
            let _ = remove_file(&path);
            let number = open_new(&path).metadata().expect("fstat").ino();
            assert!(!numbers.contains(&number), "{number} is another file's, which is open");
        }
        for (file, number) in held.iter().zip(numbers) {
            let told = file.metadata().expect("fstat");
            assert_eq!((told.ino(), told.nlink()), (number, 0));
        }
    }

    fn several_holders_share_it(scene) {
        let path = scene.at("shared");
        let one = open_new(&path);
        let two = File::open(&path).expect("open");
        remove_file(&path).expect("unlink");
        one.write_all_at(b"seen by both", 0).expect("write");
        sys::close(one).expect("close");
        let mut bytes = [0; 12];
        two.read_exact_at(&mut bytes, 0).expect("read");
        assert_eq!(&bytes, b"seen by both");
        assert_eq!(two.metadata().expect("fstat").nlink(), 0);
    }

    fn a_child_inherits_it(scene) {
        let text = scene.bash("exec 3<>f; rm f; echo hello >&3; (cat <&3; cat /proc/self/fd/3); ls", &[]);
        assert_eq!(text, "hello\n", "nothing is listed, and the bytes are there");
    }

    fn a_removed_directory_that_is_open_is_empty(scene) {
        let dir = scene.at("q");
        create_dir(&dir).expect("mkdir");
        let held = File::open(&dir).expect("open");
        remove_dir(&dir).expect("rmdir");
        assert_eq!(rustix::fs::Dir::read_from(&held).expect("it can be listed").filter_map(Result::ok)
            .filter(|entry| entry.file_name() != c"." && entry.file_name() != c"..").count(), 0);
        let links = held.metadata().expect("fstat").nlink();
        assert_eq!(links, 0);
        let made = openat(&held, "new", OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o600));
        assert_eq!(made.errno(), Errno::NOENT, "nothing can be made in it");
        assert_eq!(rustix::fs::mkdirat(&held, "d", Mode::from_raw_mode(0o700)).errno(), Errno::NOENT);
    }

    fn a_removed_working_directory_says_so(scene) {
        let script = "mkdir gone; cd gone; rmdir ../gone; if touch x 2>/dev/null; then echo made; fi; ls -A; cd ..; pwd >/dev/null; echo out";
        assert_eq!(scene.bash(script, &[]), "out\n");
    }

    fn an_unlinked_name_can_be_taken_by_a_rename(scene) {
        let (path, other) = (scene.at("f"), scene.at("g"));
        let old = open_new(&path);
        old.write_all_at(b"old", 0).expect("write");
        remove_file(&path).expect("unlink");
        put(&other, b"g");
        rename(&other, &path).expect("rename");
        assert_eq!(std::fs::read(&path).expect("read"), b"g");
        assert_eq!(old.metadata().expect("fstat").len(), 3);
    }

    fn an_unnamed_file_is_made_or_refused(scene) {
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        match openat(rustix::fs::CWD, scene.path(), flags, Mode::from_raw_mode(0o600)) {
            Err(error) => assert_eq!(error, Errno::OPNOTSUPP, "programs fall back on this errno"),
            Ok(file) => {
                let file = File::from(file);
                file.write_all_at(b"a", 0).expect("write");
                assert_eq!(file.metadata().expect("fstat").nlink(), 0);
            }
        }
        assert_eq!(read_dir(scene.path()).expect("readdir").count(), 0);
    }

    fn many_unlinked_files_leave_nothing_behind(scene) {
        let files: Vec<File> = (0..200).map(|index| open_new(&scene.at(format!("t{index}")))).collect();
        for (index, file) in files.iter().enumerate() {
            file.write_all_at(&random::bytes(index as u64, 5000), 0).expect("write");
            remove_file(scene.at(format!("t{index}"))).expect("unlink");
        }
        for (index, file) in files.iter().enumerate() {
            let mut bytes = vec![0; 5000];
            file.read_exact_at(&mut bytes, 0).expect("read");
            assert!(bytes == random::bytes(index as u64, 5000));
        }
        drop(files);
        assert_eq!(read_dir(scene.path()).expect("readdir").count(), 0);
        scene.remount();
        assert_eq!(read_dir(scene.path()).expect("readdir").count(), 0);
    }
}
