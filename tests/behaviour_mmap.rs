//! Files mapped into memory: shared ones are the file, private ones are not.

use crate::harness::actor::Part;
use crate::harness::sys::Mapping;
use crate::harness::{Failed, each_kind, program, put, random, slurp};
use rustix::io::Errno;
use std::fs::{File, remove_file};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// A child's role: writes its number `numbers[0]` into the page `numbers[1]` of a shared mapping.
pub fn map_and_write(part: &Part) {
    let file = File::options().read(true).write(true).open(&part.path).expect("open");
    let len = file.metadata().expect("fstat").len() as usize;
    let mapping = Mapping::new(&file, len, true, true).expect("mmap");
    mapping.write(part.numbers[1] as usize * 4096, &[part.numbers[0] as u8; 4096]);
    mapping.sync().expect("msync");
}

fn open(path: &std::path::Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).expect("open")
}

each_kind! {
    fn a_shared_mapping_is_the_file(scene) {
        let path = scene.at("m");
        let file = open(&path);
        file.set_len(8192).expect("truncate");
        let mapping = Mapping::new(&file, 8192, true, true).expect("mmap");
        mapping.write(0, b"abcd");
        mapping.write(4094, b"over");
        mapping.sync().expect("msync");
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 0).expect("read");
        assert_eq!(&bytes, b"abcd");
        file.write_all_at(b"WRITTEN", 100).expect("write");
        assert_eq!(mapping.read(100, 7), b"WRITTEN", "a write shows in the mapping");
        drop((mapping, file));
        scene.remount_if_kept();
        let bytes = slurp(&path);
        assert_eq!((&bytes[..4], &bytes[4094..4098], bytes.len()), (&b"abcd"[..], &b"over"[..], 8192));
    }

    fn a_mapping_without_msync_is_written_at_the_end(scene) {
        let path = scene.at("m");
        let file = open(&path);
        file.set_len(100_000).expect("truncate");
        let bytes = random::bytes(6, 100_000);
        let mapping = Mapping::new(&file, 100_000, true, true).expect("mmap");
        mapping.write(0, &bytes);
        drop(mapping);
        file.sync_all().expect("fsync");
        drop(file);
        scene.remount_if_kept();
        assert!(slurp(&path) == bytes);
    }

    fn a_private_mapping_stays_private(scene) {
        let path = scene.at("p");
        put(&path, [b'o'; 5000]);
        let file = File::open(&path).expect("open");
        let mapping = Mapping::new(&file, 5000, false, true).expect("mmap");
        assert_eq!(mapping.read(4990, 10), [b'o'; 10]);
        mapping.write(0, b"mine");
        assert_eq!(&slurp(&path)[..4], b"oooo");
    }

    fn reading_a_mapping_shows_the_file_as_it_is_now(scene) {
        let path = scene.at("r");
        put(&path, random::bytes(9, 300_000));
        let file = open(&path);
        let mapping = Mapping::new(&file, 300_000, true, false).expect("mmap");
        assert!(mapping.read(0, 300_000) == random::bytes(9, 300_000));
        File::options().write(true).open(&path).expect("open").write_all_at(b"changed", 200_000).expect("write");
        assert_eq!(mapping.read(200_000, 7), b"changed");
    }

    fn a_mapping_outlives_close_and_unlink(scene) {
        let path = scene.at("u");
        put(&path, random::bytes(2, 50_000));
        let file = open(&path);
        let mapping = Mapping::new(&file, 50_000, true, true).expect("mmap");
        drop(file);
        remove_file(&path).expect("unlink");
        assert!(mapping.read(0, 50_000) == random::bytes(2, 50_000));
        mapping.write(0, b"still mine");
        mapping.sync().expect("msync");
        assert_eq!(mapping.read(0, 10), b"still mine");
    }

    fn a_file_opened_past_the_cache_can_be_mapped(scene) {
        let path = scene.at("direct");
        let bytes = random::bytes(8, 16_384);
        put(&path, &bytes);
        let file = File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path).expect("open");
        let mapping = Mapping::new(&file, 16_384, true, true).expect("O_DIRECT and mmap go together");
        assert!(mapping.read(0, 16_384) == bytes);
        mapping.write(5000, b"through the mapping");
        mapping.sync().expect("msync");
        drop((mapping, file));
        scene.remount_if_kept();
        assert_eq!(&slurp(&path)[5000..5019], b"through the mapping");
    }

    fn processes_share_a_mapping(scene) {
        let path = scene.at("s");
        put(&path, [0; 4 * 4096]);
        let actors: Vec<_> = (0..4).map(|page| scene.actor("map-and-write", &path, &[page + 1, page])).collect();
        actors.into_iter().for_each(|actor| drop(actor.text()));
        let bytes = slurp(&path);
        for page in 0..4_usize {
            assert!(bytes[page * 4096..][..4096].iter().all(|&byte| byte == page as u8 + 1), "page {page}");
        }
    }

    fn programs_run_from_it(scene) {
        // Copied by a process of its own: what this one has open for writing, its other threads' children may have
        // open too for a moment, and then a start is ETXTBSY, as everywhere.
        let program = crate::harness::program::find("true").expect("there is a true");
        scene.bash(&format!("cp {} my-true && ./my-true", program.display()), &[]);
        put(scene.at("script"), b"#!/bin/sh\nexec ./my-true\n");
        scene.bash("chmod +x script; ./script", &[]);
    }

    fn a_mapping_asks_for_rights(scene) {
        put(scene.at("f"), [1; 4096]);
        let read_only = File::open(scene.at("f")).expect("open");
        assert_eq!(Mapping::new(&read_only, 4096, true, true).map(drop).errno(), Errno::ACCESS);
        drop(Mapping::new(&read_only, 4096, true, false).expect("mmap"));
    }

    fn what_is_cut_off_below_a_mapping_is_gone_from_it(scene) {
        program::need(&["python3"]);
        let script = "import mmap, os, resource, signal\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n\
            open('m', 'wb').write(b'a' * 8192)\nf = open('m', 'r+b')\nm = mmap.mmap(f.fileno(), 8192)\nassert m[5000] == 97\nm[5001] = 98\n\
            os.truncate('m', 100)\n\
            if (child := os.fork()) == 0:\n m[5000]\n os._exit(0)\n\
            status = os.waitpid(child, 0)[1]\nassert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS, status\n\
            assert m[99] == 97 and m[100] == 0\nos.truncate('m', 8192)\nassert m[5000] == 0 and m[5001] == 0 and m[99] == 97\n\
            m[8191] = 99\nm.flush()\nm.close()\nassert open('m', 'rb').read() == b'a' * 100 + bytes(8091) + b'c'\nprint('ok')\n";
        assert_eq!(scene.program("python3").args(["-c", script]).text(), "ok\n");
    }
}
