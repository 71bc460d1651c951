//! Open files and their bytes.

use super::cases;
use super::scene::{RD, RW, Scene, errno};
use bytes::Bytes;
use std::sync::Arc;
use workfs::mounts::OpenFile;
use workfs::types::{
    Access, AllocateMode, Errno, Mode, OpenFlags, Privileges, Result, Seek, SetAttr, SetTime, Timestamp,
};

cases! {
    what_is_written_is_read_at_once
    a_read_is_short_only_at_the_end
    holes_are_zeros
    writes_cross_the_borders_of_blocks
    the_size_shown_is_what_a_read_delivers
    a_write_of_nothing_is_nothing
    appends_go_to_the_end
    truncate_cuts_and_fills
    a_time_set_after_a_write_stays
    access_is_kept_to
    directories_are_not_opened
    somebody_elses_write_drops_privileges
    too_far_is_efbig
    ranges_are_reserved_emptied_and_cleared
    data_and_holes_are_found
    synced_and_flushed
    two_handles_see_one_file
    concurrent_writers_lose_nothing
}

async fn read(file: &dyn OpenFile, offset: u64, len: u32) -> Vec<u8> {
    file.read_at(offset, len).await.expect("read").to_vec()
}

async fn what_is_written_is_read_at_once(at: &Scene) {
    let (_, file) = at.open("f").await;
    at.write(&*file, 0, b"hello world").await;
    assert_eq!(read(&*file, 0, 100).await, b"hello world");
    at.write(&*file, 6, b"there").await;
    assert_eq!(read(&*file, 4, 4).await, b"o th");
    file.flush().await.expect("flush");
    at.write(&*file, 0, b"J").await;
    assert_eq!(at.read("f").await, "Jello there");
}

async fn a_read_is_short_only_at_the_end(at: &Scene) {
    let (_, file) = at.open("f").await;
    let bytes: Vec<u8> = (0..500_000u32).map(|n| n as u8).collect();
    at.write(&*file, 0, &bytes).await;
    for _ in 0..2 {
        for (offset, len) in [(0, 500_000), (131_000, 200_000), (499_999, 1), (262_144, 131_072)] {
            let end = (offset + len).min(bytes.len());
            assert_eq!(read(&*file, offset as u64, len as u32).await, &bytes[offset..end]);
        }
        assert_eq!(read(&*file, 499_990, 100).await, &bytes[499_990..]);
        assert!(read(&*file, 500_000, 10).await.is_empty() && read(&*file, 1 << 40, 10).await.is_empty());
        file.flush().await.expect("flush");
    }
}

async fn holes_are_zeros(at: &Scene) {
    let (_, file) = at.open("f").await;
    at.write(&*file, 300_000, b"x").await;
    for _ in 0..2 {
        assert_eq!(read(&*file, 299_998, 10).await, b"\0\0x");
        assert!(read(&*file, 0, 200_000).await.iter().all(|byte| *byte == 0));
        file.flush().await.expect("flush");
    }
    let attr = file.attr().await.expect("attr");
    assert_eq!(attr.size, 300_001);
    assert!(attr.blocks * 512 < 300_000, "a hole occupies nothing");
}

async fn writes_cross_the_borders_of_blocks(at: &Scene) {
    let (_, file) = at.open("f").await;
    let mut flat = vec![0u8; 400_000];
    let mut seed = 12345u64;
    for round in 0..60u8 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (offset, len) = ((seed >> 33) as usize % 380_000, (seed >> 20) as usize % 20_000);
        flat[offset..offset + len].fill(round + 1);
        at.write(&*file, offset as u64, &vec![round + 1; len]).await;
        if round % 7 == 0 {
            file.flush().await.expect("flush");
        }
    }
    let size = file.attr().await.expect("attr").size as usize;
    assert_eq!(read(&*file, 0, 400_000).await, &flat[..size]);
    file.flush().await.expect("flush");
    assert_eq!(read(&*file, 0, 400_000).await, &flat[..size]);
}

async fn the_size_shown_is_what_a_read_delivers(at: &Scene) {
    let (entry, file) = at.open("f").await;
    at.write(&*file, 0, b"12345").await;
    assert_eq!(at.volume.getattr(entry.attr.node).await.expect("getattr").size, 5);
    assert_eq!(at.lookup("f").await.expect("lookup").attr.size, 5);
    assert_eq!(file.attr().await.expect("attr").size, 5);
    let listing = at.volume.readdir(at.dir, workfs::types::Cookie::START, 10, true).await.expect("readdir");
    assert_eq!(listing.entries[0].entry.expect("attributes").attr.size, 5);
}

async fn a_write_of_nothing_is_nothing(at: &Scene) {
    let (_, file) = at.open("f").await;
    at.write(&*file, 1000, b"").await;
    assert_eq!(file.attr().await.expect("attr").size, 0);
    assert!(read(&*file, 0, 10).await.is_empty() && read(&*file, 5, 0).await.is_empty());
}

async fn appends_go_to_the_end(at: &Scene) {
    at.file("f", "abc").await;
    let append = OpenFlags { append: true, ..RW };
    let (_, first) = at.try_create("f", append).await.expect("open");
    let (_, second) = at.try_create("f", append).await.expect("open");
    let (_, plain) = at.open("f").await;
    at.write(&*first, 0, b"1").await;
    at.write(&*second, 99, b"2").await;
    at.write(&*plain, 5, b"p").await;
    at.write(&*first, 0, b"3").await;
    assert_eq!(at.read("f").await, "abc12p3");
}

async fn truncate_cuts_and_fills(at: &Scene) {
    let (_, file) = at.open("f").await;
    at.write(&*file, 0, b"abcdef").await;
    file.truncate(&at.root, 2, Privileges::Keep).await.expect("truncate");
    assert_eq!(read(&*file, 0, 9).await, b"ab");
    at.write(&*file, 4, b"z").await;
    assert_eq!(read(&*file, 0, 9).await, b"ab\0\0z");
    file.flush().await.expect("flush");
    file.truncate(&at.root, 200_000, Privileges::Keep).await.expect("truncate");
    assert_eq!(read(&*file, 3, 5).await, b"\0z\0\0\0");
    assert_eq!(file.attr().await.expect("attr").size, 200_000);
    assert_eq!(at.read("f").await.len(), 200_000);
}

async fn a_time_set_after_a_write_stays(at: &Scene) {
    let (entry, file) = at.open("f").await;
    at.write(&*file, 0, b"abc").await;
    let past = SetAttr { mtime: Some(SetTime::At(Timestamp(7))), ..SetAttr::default() };
    at.volume.setattr(&at.root, entry.attr.node, &past).await.expect("utimens");
    file.flush().await.expect("flush");
    let attr = file.attr().await.expect("attr");
    assert_eq!((attr.mtime, attr.size), (Timestamp(7), 3));
    at.write(&*file, 0, b"x").await;
    assert!(file.attr().await.expect("attr").mtime > Timestamp(7), "and a write after it shows");
}

async fn access_is_kept_to(at: &Scene) {
    let node = at.file("f", "abc").await.attr.node;
    let reader = at.volume.open(&at.root, node, RD).await.expect("open");
    let write = reader.write_at(&at.root, 0, Bytes::from_static(b"x"), Privileges::Keep).await;
    // Where an open means nothing, neither does its access: it is the kernel's to keep.
    let stateless = at.volume.capabilities().opens == workfs::mounts::OpenStyle::Stateless;
    if !stateless {
        assert_eq!(errno(write), Errno::EBADF);
        assert_eq!(errno(reader.truncate(&at.root, 0, Privileges::Keep).await), Errno::EBADF);
        let writer = at.volume.open(&at.root, node, OpenFlags::access(Access::Write)).await.expect("open");
        assert_eq!(errno(writer.read_at(0, 1).await), Errno::EBADF);
        assert_eq!(at.read("f").await, "abc");
    }
}

async fn directories_are_not_opened(at: &Scene) {
    let dir = at.mkdir("d").await.attr.node;
    assert_eq!(errno(at.volume.open(&at.root, dir, RD).await), Errno::EISDIR);
    let cut = OpenFlags { truncate: true, ..RW };
    let node = at.file("f", "abc").await.attr.node;
    at.volume.open(&at.root, node, cut).await.expect("open");
    assert_eq!(at.read("f").await, "", "a truncating open");
}

async fn somebody_elses_write_drops_privileges(at: &Scene) {
    let (entry, file) = at.open("f").await;
    let set = |bits| SetAttr { mode: Some(Mode::new(bits)), ..SetAttr::default() };
    at.volume.setattr(&at.root, entry.attr.node, &set(0o6777)).await.expect("chmod");
    at.write(&*file, 0, b"x").await;
    assert_eq!(file.attr().await.expect("attr").mode, Mode::new(0o6777));
    file.write_at(&at.other(), 0, Bytes::from_static(b"y"), Privileges::Drop).await.expect("write");
    assert_eq!(file.attr().await.expect("attr").mode, Mode::new(0o777));
    at.volume.setattr(&at.root, entry.attr.node, &set(0o6777)).await.expect("chmod");
    file.truncate(&at.other(), 0, Privileges::Drop).await.expect("truncate");
    assert_eq!(file.attr().await.expect("attr").mode, Mode::new(0o777));
}

async fn too_far_is_efbig(at: &Scene) {
    let (_, file) = at.open("f").await;
    let far = file.write_at(&at.root, i64::MAX as u64, Bytes::from_static(b"xx"), Privileges::Keep).await;
    assert!(matches!(errno(far), Errno::EFBIG | Errno::EINVAL));
    assert_eq!(file.attr().await.expect("attr").size, 0);
}

/// Whether the volume has the mode; a volume may refuse one.
fn has(result: Result<()>) -> bool {
    match result {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.errno(), Errno::EOPNOTSUPP);
            false
        }
    }
}

async fn ranges_are_reserved_emptied_and_cleared(at: &Scene) {
    let (_, file) = at.open("f").await;
    at.write(&*file, 0, &[b'x'; 10]).await;
    let size = async || file.attr().await.expect("attr").size;
    if has(file.allocate(&at.root, 5, 10, AllocateMode::KeepSize).await) {
        assert_eq!(size().await, 10);
    }
    if has(file.allocate(&at.root, 5, 10, AllocateMode::Extend).await) {
        assert_eq!(size().await, 15);
        assert_eq!(read(&*file, 8, 20).await, b"xx\0\0\0\0\0");
    }
    file.truncate(&at.root, 10, Privileges::Keep).await.expect("truncate");
    if has(file.allocate(&at.root, 2, 3, AllocateMode::PunchHole).await) {
        assert_eq!(read(&*file, 0, 20).await, b"xx\0\0\0xxxxx");
    }
    at.write(&*file, 0, &[b'y'; 10]).await;
    if has(file.allocate(&at.root, 8, 4, AllocateMode::ZeroKeepSize).await) {
        assert_eq!(read(&*file, 6, 20).await, b"yy\0\0");
    }
    if has(file.allocate(&at.root, 9, 3, AllocateMode::Zero).await) {
        assert_eq!(size().await, 12);
    }
}

async fn data_and_holes_are_found(at: &Scene) {
    let (_, file) = at.open("f").await;
    assert_eq!(errno(file.seek(0, Seek::Data).await), Errno::ENXIO);
    let (far, end) = (8 << 20, (8 << 20) + 4096);
    at.write(&*file, far, &[1; 4096]).await;
    file.truncate(&at.root, end + (4 << 20), Privileges::Keep).await.expect("truncate");
    assert_eq!(file.seek(0, Seek::Hole).await.expect("a hole"), 0);
    assert_eq!(file.seek(0, Seek::Data).await.expect("data"), far);
    assert_eq!(file.seek(far + 5, Seek::Data).await.expect("data"), far + 5);
    assert_eq!(file.seek(far, Seek::Hole).await.expect("a hole"), end);
    assert_eq!(errno(file.seek(end, Seek::Data).await), Errno::ENXIO, "no data follows");
    assert_eq!(errno(file.seek(end + (4 << 20), Seek::Hole).await), Errno::ENXIO);
    file.truncate(&at.root, end, Privileges::Keep).await.expect("truncate");
    assert_eq!(file.seek(far, Seek::Hole).await.expect("the end"), end);
}

async fn synced_and_flushed(at: &Scene) {
    let (_, file) = at.open("f").await;
    file.flush().await.expect("nothing to flush");
    at.write(&*file, 0, b"abc").await;
    file.sync(true).await.expect("fdatasync");
    file.sync(false).await.expect("fsync");
    file.flush().await.expect("flush");
    let sync = OpenFlags { sync: true, ..RW };
    let (_, file) = at.try_create("f", sync).await.expect("open");
    at.write(&*file, 3, b"def").await;
    assert_eq!(at.read("f").await, "abcdef");
}

async fn two_handles_see_one_file(at: &Scene) {
    let (_, one) = at.open("f").await;
    let (_, two) = at.open("f").await;
    at.write(&*one, 0, b"one").await;
    at.write(&*two, 3, b"two").await;
    assert_eq!(read(&*one, 0, 9).await, b"onetwo");
    drop(one);
    assert_eq!(read(&*two, 0, 9).await, b"onetwo");
    two.flush().await.expect("flush");
    assert_eq!(at.read("f").await, "onetwo");
}

async fn concurrent_writers_lose_nothing(at: &Scene) {
    let (_, file) = at.open("f").await;
    let tasks: Vec<_> = (0..4u64)
        .map(|writer| {
            let (file, root): (Arc<dyn OpenFile>, _) = (file.clone(), at.root);
            tokio::spawn(async move {
                for round in 0..50u64 {
                    let data = Bytes::from(vec![b'a' + writer as u8; 1000]);
                    file.write_at(&root, (round * 4 + writer) * 1000, data, Privileges::Keep).await.expect("write");
                    if round % 10 == writer {
                        file.flush().await.expect("flush");
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a writer");
    }
    let bytes = read(&*file, 0, 300_000).await;
    assert_eq!(bytes.len(), 200_000);
    assert!(bytes.chunks(1000).enumerate().all(|(n, chunk)| chunk.iter().all(|b| *b == b'a' + (n % 4) as u8)));
}
