//! Open files and their bytes.

use super::cases;
use super::scene::{RD, RW, Scene, errno};
use bytes::Bytes;
use std::sync::Arc;
use workfs::mounts::OpenFile;
use workfs::types::{
    Access, AllocateMode, Errno, Mode, OpenFlags, Privileges, Result, Seek, SetAttr, SetTime, Timestamp, XattrMode,
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
    a_change_brings_a_future_time_back
    a_truncating_open_marks_the_times_of_an_empty_file
    a_truncating_open_takes_what_is_not_committed
    access_is_kept_to
    directories_are_not_opened
    somebody_elses_write_drops_privileges
    somebody_elses_allocation_drops_privileges
    too_far_is_efbig
    an_append_past_the_largest_file_is_efbig
    a_truncation_does_not_look_for_what_was_read_far_away
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
    let (entry, file) = at.open("f").await;
    at.write(&*file, 1000, b"").await;
    assert_eq!(file.attr().await.expect("attr").size, 0);
    assert!(read(&*file, 0, 10).await.is_empty() && read(&*file, 5, 0).await.is_empty());
    let past = SetTime::At(Timestamp(7));
    let set = SetAttr { mode: Some(Mode::new(0o6777)), mtime: Some(past), atime: Some(past), ..SetAttr::default() };
    let before = at.volume.setattr(&at.root, entry.attr.node, &set).await.expect("setattr");
    let (_, append) = at.try_create("f", OpenFlags { append: true, ..RW }).await.expect("open");
    for file in [&file, &append] {
        file.write_at(&at.other(), 1000, Bytes::new(), Privileges::Drop).await.expect("write");
        file.write_at(&at.other(), u64::MAX, Bytes::new(), Privileges::Drop).await.expect("write");
        file.flush().await.expect("flush");
        assert_eq!(file.attr().await.expect("attr"), before);
    }
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

async fn a_change_brings_a_future_time_back(at: &Scene) {
    let (entry, file) = at.open("f").await;
    let (_, append) = at.try_create("f", OpenFlags { append: true, ..RW }).await.expect("open");
    let future = Timestamp(Timestamp::now().0 + 3_600_000_000_000);
    let ahead = async |node| {
        let set = SetAttr { mtime: Some(SetTime::At(future)), ..SetAttr::default() };
        assert_eq!(at.volume.setattr(&at.root, node, &set).await.expect("utimens").mtime, future);
    };
    let is_back = async |node, what| {
        let seen = at.volume.getattr(node).await.expect("getattr").mtime;
        assert!(seen <= Timestamp::now(), "{what}: {seen:?}");
    };
    let node = entry.attr.node;
    for round in 0..4 {
        ahead(node).await;
        match round {
            0 => at.write(&*file, 0, b"abc").await,
            1 => at.write(&*append, 0, b"abc").await,
            2 => file.truncate(&at.root, 2, Privileges::Keep).await.expect("truncate"),
            _ => {
                has(file.allocate(&at.root, 0, 10, AllocateMode::Extend, Privileges::Keep).await);
            }
        }
        is_back(node, "as it is written").await;
        file.flush().await.expect("flush");
        is_back(node, "as it is committed").await;
    }
    ahead(at.dir).await;
    at.mkdir("d").await;
    is_back(at.dir, "a directory").await;
}

async fn a_truncating_open_marks_the_times_of_an_empty_file(at: &Scene) {
    let (entry, file) = at.open("f").await;
    let past = SetAttr { mtime: Some(SetTime::At(Timestamp(7))), ..SetAttr::default() };
    for access in [Access::ReadWrite, Access::Read] {
        let before = at.volume.setattr(&at.root, entry.attr.node, &past).await.expect("utimens");
        // Longer than the tick of a host's clock.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let cut = OpenFlags { truncate: true, ..OpenFlags::access(access) };
        drop(at.volume.open(&at.root, entry.attr.node, cut).await.expect("open"));
        let after = file.attr().await.expect("attr");
        assert!(after.mtime > Timestamp(7) && after.ctime > before.ctime, "{access:?}: {before:?} {after:?}");
    }
}

async fn a_truncating_open_takes_what_is_not_committed(at: &Scene) {
    let (entry, file) = at.open("f").await;
    at.write(&*file, 0, b"committed").await;
    file.flush().await.expect("flush");
    at.write(&*file, 200_000, b"pending").await;
    for access in [Access::Write, Access::Read] {
        let cut = OpenFlags { truncate: true, ..OpenFlags::access(access) };
        drop(at.volume.open(&at.root, entry.attr.node, cut).await.expect("open"));
        assert_eq!(file.attr().await.expect("attr").size, 0, "{access:?}");
        assert!(read(&*file, 0, 300_000).await.is_empty());
        at.write(&*file, 2, b"x").await;
        file.flush().await.expect("flush");
        assert_eq!(at.read("f").await, "\0\0x");
        assert_eq!(file.attr().await.expect("attr").size, 3);
    }
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

async fn somebody_elses_allocation_drops_privileges(at: &Scene) {
    let (entry, file) = at.open("f").await;
    at.write(&*file, 0, &[b'x'; 100]).await;
    let modes = [AllocateMode::Extend, AllocateMode::KeepSize, AllocateMode::PunchHole, AllocateMode::Zero];
    for mode in modes {
        let set = SetAttr { mode: Some(Mode::new(0o6777)), ..SetAttr::default() };
        at.volume.setattr(&at.root, entry.attr.node, &set).await.expect("chmod");
        if has(file.allocate(&at.root, 0, 10, mode, Privileges::Keep).await) {
            assert_eq!(file.attr().await.expect("attr").mode, Mode::new(0o6777), "{mode:?}");
            file.allocate(&at.other(), 0, 10, mode, Privileges::Drop).await.expect("fallocate");
            assert_eq!(file.attr().await.expect("attr").mode, Mode::new(0o777), "{mode:?}");
        }
    }
    let capability = b"security.capability";
    let value = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    at.volume.setxattr(&at.root, entry.attr.node, capability, &value, XattrMode::Set).await.expect("setcap");
    if has(file.allocate(&at.other(), 0, 10, AllocateMode::PunchHole, Privileges::Drop).await) {
        assert_eq!(errno(at.volume.getxattr(entry.attr.node, capability).await), Errno::ENODATA);
    }
}

async fn too_far_is_efbig(at: &Scene) {
    let (entry, file) = at.open("f").await;
    let (max, keep) = (i64::MAX as u64, Privileges::Keep);
    let data = || Bytes::from_static(b"xx");
    for offset in [max - 1, max, max + 1, u64::MAX - 1, u64::MAX] {
        assert_eq!(errno(file.write_at(&at.root, offset, data(), keep).await), Errno::EFBIG, "write at {offset}");
        let mode = AllocateMode::KeepSize;
        assert_eq!(errno(file.allocate(&at.root, offset, 2, mode, keep).await), Errno::EFBIG, "allocate at {offset}");
        assert!(read(&*file, offset, 10).await.is_empty(), "read at {offset}");
        assert_eq!(errno(file.seek(offset, Seek::Hole).await), Errno::ENXIO, "seek to {offset}");
    }
    for size in [max + 1, u64::MAX] {
        assert_eq!(errno(file.truncate(&at.root, size, keep).await), Errno::EFBIG);
        assert_eq!(errno(at.volume.setattr(&at.root, entry.attr.node, &SetAttr::size(size)).await), Errno::EFBIG);
    }
    assert_eq!(file.attr().await.expect("attr").size, 0);
}

/// Makes the file as large as there is one; false where what holds it has no such files.
async fn is_largest(at: &Scene, file: &dyn OpenFile, size: u64) -> bool {
    match file.truncate(&at.root, size, Privileges::Keep).await {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.errno(), Errno::EFBIG);
            false
        }
    }
}

async fn an_append_past_the_largest_file_is_efbig(at: &Scene) {
    let (_, file) = at.open("f").await;
    let size = i64::MAX as u64 - 1;
    if !is_largest(at, &*file, size).await {
        return;
    }
    let (_, append) = at.try_create("f", OpenFlags { append: true, ..RW }).await.expect("open");
    for offset in [0, size, u64::MAX] {
        let far = append.write_at(&at.root, offset, Bytes::from_static(b"xx"), Privileges::Keep).await;
        assert_eq!(errno(far), Errno::EFBIG);
        assert_eq!(append.attr().await.expect("attr").size, size, "nothing was written");
    }
    append.write_at(&at.root, u64::MAX, Bytes::from_static(b"x"), Privileges::Keep).await.expect("just fits");
    assert_eq!(read(&*file, size - 1, 10).await, b"\0x");
}

async fn a_truncation_does_not_look_for_what_was_read_far_away(at: &Scene) {
    let (_, file) = at.open("f").await;
    let size = 1 << 62;
    if !is_largest(at, &*file, size).await {
        return;
    }
    assert_eq!(read(&*file, size - 1, 10).await, b"\0");
    let start = std::time::Instant::now();
    file.truncate(&at.root, 1, Privileges::Keep).await.expect("truncate");
    assert!(start.elapsed() < std::time::Duration::from_secs(5));
    assert_eq!(read(&*file, 0, 10).await, b"\0");
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
    if has(file.allocate(&at.root, 5, 10, AllocateMode::KeepSize, Privileges::Keep).await) {
        assert_eq!(size().await, 10);
    }
    if has(file.allocate(&at.root, 5, 10, AllocateMode::Extend, Privileges::Keep).await) {
        assert_eq!(size().await, 15);
        assert_eq!(read(&*file, 8, 20).await, b"xx\0\0\0\0\0");
    }
    file.truncate(&at.root, 10, Privileges::Keep).await.expect("truncate");
    if has(file.allocate(&at.root, 2, 3, AllocateMode::PunchHole, Privileges::Keep).await) {
        assert_eq!(read(&*file, 0, 20).await, b"xx\0\0\0xxxxx");
    }
    at.write(&*file, 0, &[b'y'; 10]).await;
    if has(file.allocate(&at.root, 8, 4, AllocateMode::ZeroKeepSize, Privileges::Keep).await) {
        assert_eq!(read(&*file, 6, 20).await, b"yy\0\0");
    }
    if has(file.allocate(&at.root, 9, 3, AllocateMode::Zero, Privileges::Keep).await) {
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
