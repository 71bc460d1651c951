//! Bytes: patches, discards, and what blocks occupy.

use super::*;

each_engine! {
    a_patch_changes_its_bytes_and_no_other
    patches_of_one_batch_come_in_order
    a_block_that_grows_keeps_its_bytes
    a_discard_clears_parts_and_removes_whole_blocks
    a_discard_to_the_end_takes_everything_behind_it
    a_sparse_file_has_few_blocks
    ranges_of_blocks_are_read
    a_block_has_the_revision_of_its_last_change
    what_blocks_occupy_is_told_whatever_is_put
    a_whole_block_is_written_over
}

/// `allocated` is what the extents add up to, and these are as long as the blocks.
async fn exact(store: &dyn Store, node: u64) -> u64 {
    let sizes = extents(store, node).await;
    let blocks = store.blocks(NodeId(node), 0..u64::MAX).await.expect("the blocks are read");
    assert_eq!(sizes, blocks.iter().map(|(index, bytes)| (*index, bytes.len() as u32)).collect::<Vec<_>>());
    let sum = sizes.iter().map(|(_, len)| u64::from(*len)).sum();
    assert_eq!(stats(store, node).await.allocated, sum);
    sum
}

async fn file(place: &Place) -> (Arc<dyn Store>, u64) {
    let store = place.open().await;
    committed(&*store, put([(Key::Stats(NodeId(1)), empty()), (Key::Inode(NodeId(1)), inode(1))])).await;
    let size = u64::from(store.block_size());
    (store, size)
}

async fn a_patch_changes_its_bytes_and_no_other(place: Arc<Place>) {
    let (store, size) = file(&place).await;
    committed(&*store, patch(1, 0, 3, "abc")).await;
    assert_eq!(content(&*store, 1).await, b"\0\0\0abc");
    assert_eq!(exact(&*store, 1).await, 6, "a block written once is as long as it must be");
    committed(&*store, patch(1, 0, 4, "X")).await;
    assert_eq!(content(&*store, 1).await, b"\0\0\0aXc");
    committed(&*store, patch(1, 0, 0, "12")).await;
    assert_eq!(content(&*store, 1).await, b"12\0aXc");
    committed(&*store, patch(1, 2, size as u32 - 1, "\u{7f}")).await;
    let mut right = b"12\0aXc".to_vec();
    right.resize(3 * size as usize - 1, 0);
    right.push(0x7f);
    assert_eq!(content(&*store, 1).await, right);
    assert!(exact(&*store, 1).await < 2 * size);
    committed(&*store, patch(1, 5, 0, "")).await;
    assert_eq!(content(&*store, 1).await, right);
}

async fn patches_of_one_batch_come_in_order(place: Arc<Place>) {
    let (store, size) = file(&place).await;
    let at = |index, offset, bytes: &'static str| BlockChange::Patch {
        node: NodeId(1),
        index,
        offset,
        bytes: Bytes::from_static(bytes.as_bytes()),
    };
    let blocks = vec![
        at(0, 0, "aaaaaa"),
        at(1, 2, "lost"),
        at(0, 2, "bb"),
        BlockChange::Discard { node: NodeId(1), start: 3, end: size + 100 },
        at(0, 5, "c"),
        at(1, 0, "z"),
    ];
    committed(&*store, Batch { blocks, ..Batch::default() }).await;
    let mut right = b"aab\0\0c".to_vec();
    right.resize(size as usize, 0);
    right.push(b'z');
    assert_eq!(content(&*store, 1).await, right);
    exact(&*store, 1).await;
}

async fn a_block_that_grows_keeps_its_bytes(place: Arc<Place>) {
    let (store, size) = file(&place).await;
    let mut right = Vec::new();
    let mut random = fastrand::Rng::with_seed(4);
    while right.len() < size as usize {
        let len = (1 + right.len() / 3).min(size as usize - right.len());
        let more: Vec<u8> = (0..len).map(|_| random.u8(1..)).collect();
        committed(&*store, patch(1, 0, right.len() as u32, more.clone())).await;
        right.extend(more);
        assert_eq!(content(&*store, 1).await, right);
        exact(&*store, 1).await;
    }
    assert_eq!(exact(&*store, 1).await, size);
}

async fn a_discard_clears_parts_and_removes_whole_blocks(place: Arc<Place>) {
    let (store, size) = file(&place).await;
    let full: Vec<u8> = (0..size).map(|n| 1 + (n % 200) as u8).collect();
    // The last block is short.
    let all: Vec<u8> = (0..4).flat_map(|_| full.clone()).chain(*b"tail").collect();
    let s = size;
    let ranges = [
        (0, 0),
        (5, 5),
        (9, 3),
        (0, 1),
        (1, 2),
        (s - 1, s),
        (s, s + 1),
        (s - 1, s + 1),
        (0, s),
        (s, 2 * s),
        (1, s),
        (10, 3 * s - 10),
        (s - 1, 3 * s + 1),
        (3 * s, 4 * s + 2),
        (4 * s, 4 * s + 4),
        (4 * s + 1, 4 * s + 4),
        (4 * s + 1, 4 * s + 2),
        (4 * s + 2, 9 * s),
        (7 * s, 8 * s + 1),
        (2, u64::MAX),
        (0, u64::MAX),
    ];
    for (start, end) in ranges {
        let whole = BlockChange::Discard { node: NodeId(1), start: 0, end: u64::MAX };
        let patches = all.chunks(s as usize).enumerate().map(|(index, bytes)| BlockChange::Patch {
            node: NodeId(1),
            index: index as u64,
            offset: 0,
            bytes: Bytes::copy_from_slice(bytes),
        });
        committed(&*store, Batch { blocks: [whole].into_iter().chain(patches).collect(), ..Batch::default() }).await;
        assert_eq!(exact(&*store, 1).await, all.len() as u64);
        committed(&*store, discard(1, start, end)).await;
        let mut right = all.clone();
        let cleared = (start as usize).min(right.len())..(end.min(right.len() as u64) as usize).max(start as usize);
        right.get_mut(cleared).unwrap_or_default().fill(0);
        let used = right.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        right.truncate(used);
        assert!(content(&*store, 1).await == right, "discard {start}..{end}");
        exact(&*store, 1).await;
        let whole: Vec<u64> = (start.div_ceil(s)..end.min(5 * s) / s).collect();
        assert!(extents(&*store, 1).await.iter().all(|(index, _)| !whole.contains(index)), "{start}..{end}");
    }
}

async fn a_discard_to_the_end_takes_everything_behind_it(place: Arc<Place>) {
    let (store, size) = file(&place).await;
    let far = (1u64 << 62) / size;
    for index in [0, 1, far] {
        committed(&*store, patch(1, index, 0, "abcdef")).await;
        committed(&*store, patch(2, index, 0, "another file's")).await;
    }
    committed(&*store, discard(1, size + 2, u64::MAX)).await;
    assert_eq!(extents(&*store, 1).await, [(0, 6), (1, 2)]);
    assert_eq!(exact(&*store, 1).await, 8);
    committed(&*store, discard(1, 0, u64::MAX)).await;
    assert_eq!(exact(&*store, 1).await, 0);
    assert_eq!(extents(&*store, 2).await.len(), 3, "another file's stay");
}

async fn a_sparse_file_has_few_blocks(place: Arc<Place>) {
    let (store, size) = file(&place).await;
    let last = (5 << 30) / size;
    committed(&*store, patch(1, last, 7, "end")).await;
    assert_eq!(extents(&*store, 1).await, [(last, 10)]);
    let found = store.blocks(NodeId(1), last..last + 1).await.expect("it is read");
    assert_eq!(found, [(last, Bytes::from_static(b"\0\0\0\0\0\0\0end"))]);
    assert_eq!(exact_sum(&*store).await, 10);
}

async fn exact_sum(store: &dyn Store) -> u64 {
    stats(store, 1).await.allocated
}

async fn ranges_of_blocks_are_read(place: Arc<Place>) {
    let (store, _) = file(&place).await;
    for index in [0, 2, 3, 9] {
        committed(&*store, patch(1, index, 0, vec![index as u8 + 1])).await;
    }
    for (range, right) in
        [(0..1, vec![0]), (1..2, vec![]), (1..4, vec![2, 3]), (3..u64::MAX, vec![3, 9]), (9..9, vec![])]
    {
        let found = store.blocks(NodeId(1), range.clone()).await.expect("they are read");
        assert_eq!(found.iter().map(|(index, _)| *index).collect::<Vec<_>>(), right, "{range:?}");
        assert!(found.iter().all(|(index, bytes)| bytes[..] == [*index as u8 + 1]));
    }
    assert!(store.blocks(NodeId(2), 0..u64::MAX).await.expect("they are read").is_empty());
}

async fn a_block_has_the_revision_of_its_last_change(place: Arc<Place>) {
    let (store, size) = file(&place).await;
    let block = |index| Key::Block(NodeId(1), index);
    let revision = async |index| get(&*store, block(index)).await.map(|stored| stored.revision);
    let first = committed(&*store, patch(1, 0, 0, "ab")).await;
    let second = committed(&*store, patch(1, 1, 0, "ab")).await;
    assert_eq!((revision(0).await, revision(1).await), (Some(first), Some(second)));
    let third = committed(&*store, patch(1, 0, 1, "c")).await;
    assert_eq!((revision(0).await, revision(1).await), (Some(third), Some(second)));
    let fourth = committed(&*store, discard(1, size, size + 1)).await;
    assert_eq!((revision(0).await, revision(1).await), (Some(third), Some(fourth)));
    committed(&*store, discard(1, 0, size)).await;
    assert_eq!((revision(0).await, revision(1).await), (None, Some(fourth)));
}

async fn what_blocks_occupy_is_told_whatever_is_put(place: Arc<Place>) {
    let store = place.open().await;
    committed(&*store, patch(1, 0, 0, "12345")).await;
    committed(&*store, put([(Key::Stats(NodeId(1)), empty())])).await;
    assert_eq!(exact(&*store, 1).await, 5, "blocks that were there before");
    let wrong = Record::Stats(Stats { allocated: 99, ..Stats::default() });
    committed(&*store, put([(Key::Stats(NodeId(1)), wrong.clone()), (Key::Inode(NodeId(1)), inode(1))])).await;
    assert_eq!(exact(&*store, 1).await, 5, "put by who cannot know");
    committed(&*store, delete([Key::Stats(NodeId(1))])).await;
    committed(&*store, patch(1, 1, 0, "123")).await;
    committed(&*store, put([(Key::Stats(NodeId(1)), wrong)])).await;
    assert_eq!(exact(&*store, 1).await, 8);
}

async fn a_whole_block_is_written_over(place: Arc<Place>) {
    let (store, size) = file(&place).await;
    for seed in 1..4 {
        let bytes = crate::harness::random::bytes(seed, size as usize);
        committed(&*store, patch(1, 3, 0, bytes.clone())).await;
        let found = store.blocks(NodeId(1), 3..4).await.expect("it is read");
        assert!(found[0].1[..] == bytes[..]);
        assert_eq!(exact(&*store, 1).await, size);
        committed(&*store, patch(1, 3, 77, "inside")).await;
        assert_eq!(&store.blocks(NodeId(1), 3..4).await.expect("it is read")[0].1[77..83], b"inside");
    }
}
