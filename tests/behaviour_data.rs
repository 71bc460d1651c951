//! Bytes: what is written is what is read, by whomever and at once.

use crate::harness::{Failed, each_kind, put, random, slurp, sys};
use rustix::io::Errno;
use std::fs::{File, metadata};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

each_kind! {
    fn random_writes_agree_with_a_model(scene) {
        let path = scene.at("model");
        let seed = random::seed();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut model: Vec<u8> = Vec::new();
        let file = File::options().read(true).write(true).create_new(true).open(&path).expect("create");
        for step in 0..600 {
            let offset = random.usize(..600_000);
            match random.u8(..10) {
                0..6 => {
                    let mut bytes = vec![0; 1 + random.usize(..if step % 10 == 0 { 200_000 } else { 6_000 })];
                    random.fill(&mut bytes);
                    if model.len() < offset + bytes.len() {
                        model.resize(offset + bytes.len(), 0);
                    }
                    model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                    file.write_all_at(&bytes, offset as u64).expect("write");
                }
                6 => {
                    model.resize(offset, 0);
                    file.set_len(offset as u64).expect("truncate");
                }
                7 => file.sync_all().expect("fsync"),
                8 => assert!(slurp(&path) == model, "another open sees it all at once, step {step}"),
                _ => {
                    let mut bytes = vec![0; 50_000];
                    let length = file.read_at(&mut bytes, offset as u64).expect("read");
                    let right = model.get(offset..).unwrap_or_default();
                    assert!(bytes[..length] == right[..right.len().min(50_000)], "step {step}");
                }
            }
            assert_eq!(file.metadata().expect("fstat").len(), model.len() as u64, "step {step}");
        }
        sys::close(file).expect("close");
        assert!(slurp(&path) == model);
        scene.remount_if_kept();
        assert!(slurp(&path) == model, "after the next mount");
    }

    fn a_large_file_is_kept(scene) {
        let path = scene.at("large");
        let bytes = random::bytes(77, 24 << 20);
        put(&path, &bytes);
        assert!(slurp(&path) == bytes);
        scene.remount_if_kept();
        assert!(slurp(&path) == bytes);
    }

    fn sizes_show_while_writing(scene) {
        let path = scene.at("growing");
        let mut file = File::create(&path).expect("create");
        for step in 1..=50_u64 {
            file.write_all(&[step as u8; 777]).expect("write");
            assert_eq!(metadata(&path).expect("stat").len(), step * 777);
            assert_eq!(slurp(&path).len() as u64, step * 777);
        }
    }

    fn an_open_that_truncates_starts_afresh(scene) {
        let path = scene.at("f");
        for round in 0..30_usize {
            put(&path, random::bytes(round as u64, 30_000 - round * 1000));
            assert!(slurp(&path) == random::bytes(round as u64, 30_000 - round * 1000), "round {round}");
        }
        let text = scene.bash("echo first > g; echo second > g; cat g; : > g; stat -c %s g", &[]);
        assert_eq!(text, "second\n0\n");
    }

    fn exclusive_creation_happens_once(scene) {
        let path = scene.at("lock");
        let made = std::thread::scope(|threads| {
            let create = || File::options().write(true).create_new(true).open(&path).is_ok();
            let attempts: Vec<_> = (0..8).map(|_| threads.spawn(create)).collect();
            attempts.into_iter().filter(|_| true).map(|attempt| attempt.join().expect("it ends")).filter(|&made| made).count()
        });
        assert_eq!(made, 1);
        assert_eq!(File::options().write(true).create_new(true).open(&path).errno(), Errno::EXIST);
    }

    fn reads_end_at_the_end(scene) {
        let path = scene.at("f");
        put(&path, b"0123456789");
        let mut file = File::open(&path).expect("open");
        let mut bytes = [0; 20];
        assert_eq!(file.read_at(&mut bytes, 8).expect("read"), 2);
        assert_eq!(file.read_at(&mut bytes, 10).expect("read"), 0);
        assert_eq!(file.read_at(&mut bytes, 1 << 40).expect("read"), 0);
        assert_eq!(file.seek(SeekFrom::End(-3)).expect("seek"), 7);
        assert_eq!(file.read(&mut bytes).expect("read"), 3);
        assert_eq!(&bytes[..3], b"789");
        assert_eq!(file.seek(SeekFrom::Start(0)).and_then(|_| file.seek(SeekFrom::Current(-1))).errno(), Errno::INVAL);
    }

    fn descriptors_keep_to_their_access(scene) {
        let path = scene.at("f");
        put(&path, b"x");
        assert_eq!(File::open(&path).expect("open").write_at(b"y", 0).errno(), Errno::BADF);
        let only = File::options().write(true).open(&path).expect("open");
        assert_eq!(only.read_at(&mut [0; 4], 0).errno(), Errno::BADF);
        assert_eq!(rustix::fs::ftruncate(File::open(&path).expect("open"), 0).errno(), Errno::INVAL);
    }

    fn copy_file_range_copies(scene) {
        let bytes = random::bytes(12, 300_000);
        put(scene.at("c1"), &bytes);
        let (from, to) = (File::open(scene.at("c1")).expect("open"), File::create(scene.at("c2")).expect("create"));
        let mut left = bytes.len();
        while left > 0 {
            let copied = rustix::fs::copy_file_range(&from, None, &to, None, left).expect("copy_file_range");
            assert!(copied > 0);
            left -= copied;
        }
        assert!(slurp(scene.at("c2")) == bytes);
        let (mut offset, mut target) = (1000, 5);
        assert_eq!(rustix::fs::copy_file_range(&from, Some(&mut offset), &to, Some(&mut target), 100), Ok(100));
        assert_eq!(slurp(scene.at("c2"))[5..105], bytes[1000..1100]);
    }

    fn sendfile_and_splice_copy(scene) {
        let bytes = random::bytes(13, 500_000);
        put(scene.at("s1"), &bytes);
        let script = "cat s1 | cat > s2; cmp s1 s2; python3 -c 'import os\na=open(\"s1\",\"rb\");b=open(\"s3\",\"wb\")\nn=0\nwhile n<500000: n+=os.sendfile(b.fileno(),a.fileno(),n,500000-n)'; cmp s1 s3";
        crate::harness::program::need(&["python3"]);
        scene.bash(script, &[]);
    }

    fn direct_io_agrees_with_the_cache(scene) {
        let path = scene.at("d");
        put(&path, random::bytes(1, 64 << 10));
        let script = "dd if=/dev/zero of=d bs=4096 seek=3 count=2 oflag=direct conv=notrunc 2>/dev/null; dd if=d bs=4096 count=16 iflag=direct 2>/dev/null | cmp - d";
        scene.bash(script, &[]);
        let bytes = slurp(&path);
        assert!(bytes[3 * 4096..5 * 4096].iter().all(|&byte| byte == 0), "what went past the cache is seen through it");
        assert!(bytes[..3 * 4096] == random::bytes(1, 64 << 10)[..3 * 4096]);
    }

    fn writers_of_different_ranges_lose_nothing(scene) {
        let path = scene.at("ranges");
        put(&path, b"");
        std::thread::scope(|threads| {
            for writer in 0..4_u64 {
                let path = &path;
                threads.spawn(move || {
                    let file = File::options().write(true).open(path).expect("open");
                    for step in 0..200 {
                        file.write_all_at(&[b'a' + writer as u8; 100], (step * 4 + writer) * 100).expect("write");
                    }
                    sys::close(file).expect("close");
                });
            }
        });
        let bytes = slurp(&path);
        assert_eq!(bytes.len(), 80_000);
        for (index, piece) in bytes.chunks(100).enumerate() {
            assert!(piece.iter().all(|&byte| byte == b'a' + (index % 4) as u8), "piece {index}");
        }
    }

    fn every_way_of_syncing_succeeds(scene) {
        let path = scene.at("f");
        let mut file = File::create(&path).expect("create");
        file.write_all(b"durable").expect("write");
        file.sync_data().expect("fdatasync");
        file.sync_all().expect("fsync");
        File::open(scene.path()).expect("open").sync_all().expect("fsync of a directory");
        rustix::fs::syncfs(&file).expect("syncfs");
        scene.bash("sync f; sync -f f; dd if=/dev/zero of=g bs=1k count=9 oflag=sync 2>/dev/null", &[]);
        assert_eq!(metadata(scene.at("g")).expect("stat").len(), 9 << 10);
    }
}
