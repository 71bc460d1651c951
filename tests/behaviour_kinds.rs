//! Every kind of file can be made, is told as what it is, and does what it is for.

use crate::harness::{Failed, changed_within, each_kind, put, slurp};
use rustix::fs::{AtFlags, CWD, FileType, Mode, makedev, mkdirat, mknodat, statat};
use rustix::io::Errno;
use std::fs::{create_dir, read_link, remove_dir, remove_file, rename, symlink_metadata};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

each_kind! {
    fn regular_files_hold_bytes(scene) {
        let file = scene.at("file");
        put(&file, b"");
        let empty = symlink_metadata(&file).expect("stat");
        assert_eq!((empty.is_file(), empty.len(), empty.nlink()), (true, 0, 1));
        put(&file, b"some bytes");
        assert_eq!(slurp(&file), b"some bytes");
        assert_eq!(symlink_metadata(&file).expect("stat").len(), 10);
        assert!(symlink_metadata(&file).expect("stat").blocks() > 0, "bytes take room");
        assert_eq!(create_dir(&file).errno(), Errno::EXIST);
        assert_eq!(std::fs::read_dir(&file).errno(), Errno::NOTDIR);
        assert_eq!(std::fs::read(file.join("below")).errno(), Errno::NOTDIR);
        remove_file(&file).expect("unlink");
        assert_eq!(symlink_metadata(&file).errno(), Errno::NOENT);
    }

    fn directories_hold_names(scene) {
        let dir = scene.at("dir");
        create_dir(&dir).expect("mkdir");
        assert_eq!(symlink_metadata(&dir).expect("stat").nlink(), 2);
        put(dir.join("file"), b"1");
        create_dir(dir.join("sub")).expect("mkdir");
        assert_eq!(symlink_metadata(&dir).expect("stat").nlink(), 3, "one more for each directory in it");
        assert_eq!(remove_dir(&dir).errno(), Errno::NOTEMPTY);
        assert_eq!(remove_file(&dir).errno(), Errno::ISDIR);
        assert_eq!(remove_dir(dir.join("file")).errno(), Errno::NOTDIR);
        assert_eq!(std::fs::File::options().write(true).open(&dir).errno(), Errno::ISDIR);
        remove_dir(dir.join("sub")).expect("rmdir");
        assert_eq!(symlink_metadata(&dir).expect("stat").nlink(), 2);
        remove_file(dir.join("file")).expect("unlink");
        remove_dir(&dir).expect("rmdir");
        assert_eq!(symlink_metadata(&dir).errno(), Errno::NOENT);
    }

    fn dot_and_dot_dot_lead_where_they_should(scene) {
        create_dir(scene.at("a")).expect("mkdir");
        create_dir(scene.at("a/b")).expect("mkdir");
        let number = |path| symlink_metadata(scene.at(path)).expect("stat").ino();
        assert_eq!(number("a/b/.."), number("a"));
        assert_eq!(number("a/b/../.."), number("."));
        assert_eq!(number("a/."), number("a"));
        assert_eq!(remove_dir(scene.at("a/b/.")).errno(), Errno::INVAL);
        assert_eq!(remove_dir(scene.at("a/b/..")).errno(), Errno::NOTEMPTY);
        let above = scene.path().parent().expect("the place is in something");
        assert_eq!(number(".."), symlink_metadata(above).expect("stat").ino());
    }

    fn symlinks_keep_their_target_as_it_is(scene) {
        let (link, target) = (scene.at("link"), scene.at("target"));
        symlink("target", &link).expect("symlink");
        let meta = symlink_metadata(&link).expect("stat");
        assert_eq!((meta.is_symlink(), meta.len(), meta.mode() & 0o7777), (true, 6, 0o777));
        assert_eq!(std::fs::read(&link).errno(), Errno::NOENT, "it hangs");
        put(&target, b"reached");
        assert_eq!(slurp(&link), b"reached");
        put(&link, b"written through");
        assert_eq!(slurp(&target), b"written through");
        remove_file(&link).expect("unlink");
        assert!(target.exists());
        for target in ["../../..", "/nowhere//./x/", "a b\nc", "link"] {
            symlink(target, &link).expect("symlink");
            assert_eq!(read_link(&link).expect("readlink").as_os_str(), target);
            remove_file(&link).expect("unlink");
        }
        symlink("loop", scene.at("loop")).expect("symlink");
        assert_eq!(std::fs::read(scene.at("loop")).errno(), Errno::LOOP);
        assert_eq!(read_link(&target).errno(), Errno::INVAL);
    }

    fn symlinks_may_be_as_long_as_a_path(scene) {
        let link = scene.at("long");
        let longest = "t/".repeat(2047) + "t";
        assert_eq!(longest.len(), 4095);
        // Some native filesystems keep one byte of the block for themselves; none may cut.
        match symlink(&longest, &link) {
            Ok(()) => assert_eq!(read_link(&link).expect("readlink").as_os_str(), longest.as_str()),
            Err(error) => assert_eq!(Errno::from_io_error(&error), Some(Errno::NAMETOOLONG)),
        }
        let long = &longest[..4000];
        symlink(long, scene.at("shorter")).expect("symlink");
        assert_eq!(read_link(scene.at("shorter")).expect("readlink").as_os_str(), long);
        assert_eq!(symlink_metadata(scene.at("shorter")).expect("stat").len(), 4000);
    }

    fn fifos_pass_bytes(scene) {
        let path = scene.at("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o640), 0).expect("mkfifo");
        let meta = symlink_metadata(&path).expect("stat");
        assert!(meta.file_type().is_fifo());
        let reader = path.clone();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            std::fs::File::open(reader).expect("open").read_to_string(&mut text).expect("read");
            text
        });
        std::fs::File::options().write(true).open(&path).expect("open").write_all(b"through").expect("write");
        assert_eq!(reader.join().expect("the reader ends"), "through");
        assert_eq!(symlink_metadata(&path).expect("stat").len(), 0, "nothing stays in the file");
    }

    fn sockets_connect(scene) {
        let path = scene.at("socket");
        let listener = UnixListener::bind(&path).expect("bind");
        assert!(symlink_metadata(&path).expect("stat").file_type().is_socket());
        let mut client = UnixStream::connect(&path).expect("connect");
        let (mut server, _) = listener.accept().expect("accept");
        client.write_all(b"hello").expect("write");
        drop(client);
        let mut text = String::new();
        server.read_to_string(&mut text).expect("read");
        assert_eq!(text, "hello");
        drop((listener, server));
        // A child that another test is starting may hold the listener until it executes its program.
        let refused = || UnixStream::connect(&path).is_err_and(|error| error.raw_os_error() == Some(libc::ECONNREFUSED));
        assert!(changed_within(Duration::from_secs(5), refused), "the name outlives its listener");
        assert_eq!(UnixListener::bind(&path).errno(), Errno::ADDRINUSE);
        remove_file(&path).expect("unlink");
    }

    fn devices_keep_their_number(scene) {
        for (name, kind, major, minor) in
            [("null", FileType::CharacterDevice, 1, 3), ("wide", FileType::BlockDevice, 259, 70_000)]
        {
            let number = makedev(major, minor);
            mknodat(CWD, scene.at(name), kind, Mode::from_raw_mode(0o666), number).expect("root makes devices");
            let stat = statat(CWD, scene.at(name), AtFlags::SYMLINK_NOFOLLOW).expect("stat");
            assert_eq!(FileType::from_raw_mode(stat.st_mode), kind);
            assert_eq!(stat.st_rdev, number);
        }
    }

    fn mknod_makes_regular_files_too(scene) {
        let path = scene.at("made");
        mknodat(CWD, &path, FileType::RegularFile, Mode::from_raw_mode(0o604), 0).expect("mknod");
        assert_eq!(symlink_metadata(&path).expect("stat").mode() & 0o7777, 0o604);
        put(&path, b"x");
        assert_eq!(mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).errno(), Errno::EXIST);
        assert_eq!(mkdirat(CWD, scene.at("none/below"), Mode::from_raw_mode(0o700)).errno(), Errno::NOENT);
    }

    fn every_kind_is_kept_and_moves(scene) {
        put(scene.at("f"), b"file");
        create_dir(scene.at("d")).expect("mkdir");
        symlink("f", scene.at("l")).expect("symlink");
        mknodat(CWD, scene.at("p"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("mkfifo");
        drop(UnixListener::bind(scene.at("s")).expect("bind"));
        mknodat(CWD, scene.at("c"), FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 5)).expect("mknod");
        for name in ["f", "d", "l", "p", "s", "c"] {
            rename(scene.at(name), scene.at(format!("{name}-moved"))).expect("rename");
        }
        let before = crate::harness::tree::told(scene.path());
        assert_eq!(before.len(), 6);
        if scene.kind().keeps() {
            scene.remount();
            crate::harness::tree::assert_same(&before, &crate::harness::tree::told(scene.path()));
        }
    }
}
