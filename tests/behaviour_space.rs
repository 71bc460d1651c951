//! Holes, reservations, and files larger than four gigabytes.

use crate::harness::{Failed, changed_within, each_kind, put, random, slurp};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::fs::{File, metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

fn open(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).expect("open")
}

/// The largest step in which a volume may tell holes from data: a block of a store.
const BLOCK: u64 = 128 << 10;

each_kind! {
    fn holes_read_as_zeros(scene) {
        let path = scene.at("sparse");
        let file = open(&path);
        file.write_all_at(b"start", 0).expect("write");
        file.write_all_at(b"end", 10 << 20).expect("write");
        assert_eq!(file.metadata().expect("fstat").len(), (10 << 20) + 3);
        let bytes = slurp(&path);
        assert_eq!((&bytes[..5], &bytes[10 << 20..]), (&b"start"[..], &b"end"[..]));
        assert!(bytes[5..10 << 20].iter().all(|&byte| byte == 0));
        drop(file);
        assert!(metadata(&path).expect("stat").blocks() * 512 <= 4 * BLOCK, "a hole takes no room");
    }

    fn seek_tells_holes_from_data(scene) {
        let file = open(&scene.at("s"));
        let (data, size) = (4 * BLOCK, 8 * BLOCK);
        file.write_all_at(&random::bytes(4, BLOCK as usize), data).expect("write");
        file.set_len(size).expect("truncate");
        assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(data));
        assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(0));
        assert_eq!(seek(&file, SeekFrom::Hole(data)), Ok(data + BLOCK));
        assert_eq!(seek(&file, SeekFrom::Data(data + 5)), Ok(data + 5));
        assert_eq!(seek(&file, SeekFrom::Data(data + BLOCK)).errno(), Errno::NXIO, "no data follows");
        assert_eq!(seek(&file, SeekFrom::Hole(size - 1)), Ok(size - 1));
        assert_eq!(seek(&file, SeekFrom::Data(size)).errno(), Errno::NXIO);
        assert_eq!(seek(&file, SeekFrom::Hole(size)).errno(), Errno::NXIO);
    }

    fn data_is_never_told_as_a_hole(scene) {
        let file = open(&scene.at("q"));
        file.write_all_at(b"q", 1 << 20).expect("write");
        let first = seek(&file, SeekFrom::Data(0)).expect("there is data");
        assert!(first <= 1 << 20, "what was written just now is data already");
        assert!(seek(&file, SeekFrom::Hole(1 << 20)).expect("the end is a hole") > 1 << 20);
    }

    fn cp_keeps_holes_and_data(scene) {
        let file = open(&scene.at("from"));
        for (index, offset) in [0_u64, 3 << 20, (7 << 20) + 12_345].into_iter().enumerate() {
            file.write_all_at(&random::bytes(index as u64, 70_000), offset).expect("write");
        }
        file.set_len(20 << 20).expect("truncate");
        for how in ["always", "auto", "never"] {
            let copy = scene.at(format!("to-{how}"));
            scene.program("cp").arg(format!("--sparse={how}")).arg(scene.at("from")).arg(&copy).text();
            assert!(slurp(&copy) == slurp(scene.at("from")), "--sparse={how}");
        }
        let room = |name| metadata(scene.at(name)).expect("stat").blocks() * 512;
        assert!(room("to-always") < 2 << 20, "{}", room("to-always"));
    }

    fn fallocate_reserves(scene) {
        let file = open(&scene.at("f"));
        match fallocate(&file, FallocateFlags::empty(), 0, 65_536) {
            Ok(()) => assert_eq!(file.metadata().expect("fstat").len(), 65_536),
            Err(error) => {
                assert_eq!(error, Errno::OPNOTSUPP);
                panic!("posix_fallocate would write every block");
            }
        }
        fallocate(&file, FallocateFlags::empty(), 0, 100).expect("fallocate");
        assert_eq!(file.metadata().expect("fstat").len(), 65_536, "it never shrinks");
        fallocate(&file, FallocateFlags::KEEP_SIZE, 65_536, 65_536).expect("fallocate");
        assert_eq!(file.metadata().expect("fstat").len(), 65_536, "the size is kept");
        let mut bytes = vec![1; 65_536];
        file.read_exact_at(&mut bytes, 0).expect("read");
        assert!(bytes.iter().all(|&byte| byte == 0));
    }

    fn fallocate_keeps_what_is_there(scene) {
        let path = scene.at("f");
        put(&path, random::bytes(3, 10_000));
        let file = open(&path);
        fallocate(&file, FallocateFlags::empty(), 0, 200_000).expect("fallocate");
        let bytes = slurp(&path);
        assert_eq!(bytes.len(), 200_000);
        assert!(bytes[..10_000] == random::bytes(3, 10_000) && bytes[10_000..].iter().all(|&byte| byte == 0));
    }

    fn punched_holes_are_zeros(scene) {
        let path = scene.at("p");
        let whole = random::bytes(5, 1 << 20);
        put(&path, &whole);
        let file = open(&path);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for (offset, len) in [(4096, 8192), (300_001, 300_000), ((1 << 20) - 10, 100)] {
            fallocate(&file, punch, offset, len).expect("punch");
        }
        let bytes = slurp(&path);
        assert_eq!(bytes.len(), 1 << 20, "the size is kept");
        for (index, &byte) in bytes.iter().enumerate() {
            let hole = (4096..12_288).contains(&index) || (300_001..600_001).contains(&index) || index >= (1 << 20) - 10;
            assert_eq!(byte, if hole { 0 } else { whole[index] }, "at {index}");
        }
    }

    fn ranges_can_be_zeroed(scene) {
        let path = scene.at("z");
        put(&path, [b'x'; 50_000]);
        let file = open(&path);
        match fallocate(&file, FallocateFlags::ZERO_RANGE, 100, 1000) {
            Ok(()) => {
                let bytes = slurp(&path);
                assert!(bytes[100..1100].iter().all(|&byte| byte == 0));
                assert_eq!((bytes.len(), bytes[99], bytes[1100]), (50_000, b'x', b'x'));
            }
            Err(error) => assert_eq!(error, Errno::OPNOTSUPP, "what is not there is refused as such"),
        }
        let collapse = fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 1, 1).errno();
        assert!([Errno::OPNOTSUPP, Errno::INVAL].contains(&collapse), "{collapse}");
    }

    fn files_go_past_four_gigabytes(scene) {
        let path = scene.at("large");
        let file = open(&path);
        let places = [(1_u64 << 31) - 3, (1 << 32) - 3, (5 << 30) + 1];
        for (index, &place) in places.iter().enumerate() {
            file.write_all_at(&random::bytes(index as u64, 100_000), place).expect("write");
        }
        let size = (5 << 30) + 100_001;
        crate::harness::sys::close(file).expect("close");
        scene.remount_if_kept();
        let meta = metadata(&path).expect("stat");
        assert_eq!(meta.len(), size);
        assert!(meta.blocks() * 512 < 8 * BLOCK, "it takes {} bytes", meta.blocks() * 512);
        let file = open(&path);
        for (index, &place) in places.iter().enumerate() {
            let mut bytes = vec![0; 100_000];
            file.read_exact_at(&mut bytes, place).expect("read");
            assert!(bytes == random::bytes(index as u64, 100_000), "at {place}");
        }
        file.set_len((1 << 32) + 1).expect("truncate");
        assert_eq!(metadata(&path).expect("stat").len(), (1 << 32) + 1);
        let mut byte = [0; 8];
        assert_eq!(file.read_at(&mut byte, (1 << 32) - 1).expect("read"), 2);
    }

    fn truncation_cuts_and_fills_with_zeros(scene) {
        let path = scene.at("t");
        for size in [1_u64, 4095, 4097, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17] {
            put(&path, random::bytes(size, 4 * BLOCK as usize));
            let file = open(&path);
            file.set_len(size).expect("cut");
            file.set_len(5 * BLOCK).expect("grow");
            let bytes = slurp(&path);
            let cut = size as usize;
            assert!(bytes[..cut] == random::bytes(size, 4 * BLOCK as usize)[..cut], "{size}: what was kept");
            assert!(bytes[cut..].iter().all(|&byte| byte == 0), "{size}: old bytes came back");
            assert_eq!(bytes.len() as u64, 5 * BLOCK);
        }
    }

    fn sizes_beyond_the_largest_are_refused(scene) {
        let file = open(&scene.at("f"));
        match rustix::fs::ftruncate(&file, i64::MAX as u64) {
            Ok(()) => assert_eq!(file.metadata().expect("fstat").len(), i64::MAX as u64),
            Err(error) => {
                assert!([Errno::FBIG, Errno::INVAL].contains(&error), "{error}");
                assert_eq!(file.metadata().expect("fstat").len(), 0, "nothing has changed");
            }
        }
        let beyond = file.write_at(b"x", i64::MAX as u64).errno();
        assert!([Errno::FBIG, Errno::INVAL].contains(&beyond), "{beyond}");
        assert_eq!(rustix::fs::ftruncate(&file, u64::MAX).errno(), Errno::INVAL);
    }

    fn files_are_counted(scene) {
        let place = scene.path().to_owned();
        let told = || rustix::fs::statvfs(&place).expect("statvfs");
        let used = || {
            let told = told();
            told.f_files - told.f_ffree
        };
        if !scene.kind().is_store() {
            // A disk is shared with whatever else runs on the machine; what it could hold stays the same.
            assert_eq!(told().f_files, rustix::fs::statvfs(scene.home()).expect("statvfs").f_files);
            return;
        }
        let before = used();
        assert!(before >= 1 && told().f_ffree > 1_000_000, "{before} used, {} free", told().f_ffree);
        std::fs::create_dir(scene.at("dir")).expect("mkdir");
        (0..10).for_each(|index| put(scene.at(format!("dir/{index}")), b"bytes"));
        std::os::unix::fs::symlink("0", scene.at("dir/link")).expect("symlink");
        std::fs::hard_link(scene.at("dir/0"), scene.at("dir/second name")).expect("link");
        assert_eq!(used(), before + 12, "each file once, whatever its kind and its names");
        let df = scene.program("df").args(["--output=iused"]).arg(scene.path()).text();
        assert_eq!(df.lines().nth(1).map(str::trim), Some((before + 12).to_string().as_str()), "df -i: {df}");
        scene.remount_if_kept();
        assert_eq!(used(), before + 12, "after the next mount");
        std::fs::remove_dir_all(scene.at("dir")).expect("rm -r");
        assert!(changed_within(Duration::from_secs(10), || used() == before), "{} of {before}", used());
    }
}
