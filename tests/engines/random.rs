//! Random batches, done to all engines alike: they answer and hold the same.

use super::*;
use proptest::prelude::*;
use workfs::mounts::store::engine::{FieldChange, Guard};
use workfs::mounts::store::record::{Counter, Orphan, Prefix};

/// A batch in which a revision is told as "that of the n-th commit before", so that it means the same to all engines.
#[derive(Clone, Debug)]
struct Plan {
    session: Option<SessionId>,
    /// `None`: absent. `Some(false)`: what the record has. `Some(true)`: what it has not.
    expect: Vec<(Key, Option<bool>)>,
    batch: Batch,
}

fn node() -> impl Strategy<Value = u64> {
    1..4u64
}

fn key() -> impl Strategy<Value = Key> {
    let names = || prop::sample::select(vec![&b"a"[..], b"b", b"\xff"]);
    prop_oneof![
        node().prop_map(|n| Key::Inode(NodeId(n))),
        node().prop_map(|n| Key::Stats(NodeId(n))),
        (node(), names()).prop_map(|(n, text)| Key::Dentry(NodeId(n), name(text))),
        (node(), names()).prop_map(|(n, text)| Key::Xattr(NodeId(n), Bytes::from_static(text))),
        node().prop_map(|n| Key::Orphan(NodeId(n))),
        node().prop_map(|n| Key::Locks(NodeId(n))),
        (node(), 1..3u64).prop_map(|(n, s)| Key::Claim(NodeId(n), SessionId(s))),
        (1..3u64).prop_map(|s| Key::Session(SessionId(s))),
        prop::bool::ANY.prop_map(|b| Key::Counter(if b { Counter::NextInode } else { Counter::NextSession })),
    ]
}

/// A record for a key. The cookie of an entry follows from its name: cookies that meet have a case of their own.
fn record(key: &Key, seed: u32) -> Record {
    match key {
        Key::Inode(_) => inode(seed),
        Key::Stats(_) => Record::Stats(Stats { links: u64::from(seed), size: 40, ..Stats::default() }),
        Key::Dentry(_, name) => dentry(1, "any", u64::from(seed), 1 + u64::from(name.as_bytes()[0])).1,
        Key::Xattr(..) => Record::Xattr(Bytes::from(seed.to_be_bytes().to_vec())),
        Key::Orphan(_) => Record::Orphan(Orphan { since: Timestamp(i64::from(seed)) }),
        Key::Claim(..) => Record::Claim,
        Key::Session(_) => session(i64::from(seed), seed),
        Key::Locks(_) => locks(seed),
        _ => Record::Counter(u64::from(seed)),
    }
}

fn field() -> impl Strategy<Value = Field> {
    prop::sample::select(vec![Field::Size, Field::Links, Field::Entries, Field::Atime, Field::Mtime, Field::Ctime])
}

fn field_change() -> impl Strategy<Value = FieldChange> {
    (node(), field(), 0..3usize, 0..50i64).prop_map(|(node, field, kind, n)| {
        let op = [FieldOp::Add(n), FieldOp::Max(n), FieldOp::Set(n)][kind];
        change(node, field, op)
    })
}

fn block_change() -> impl Strategy<Value = BlockChange> {
    const SIZE: u64 = 128 * 1024;
    let place = || prop_oneof![0..40u64, SIZE - 20..SIZE + 20, 2 * SIZE - 5..2 * SIZE + 9, Just(u64::MAX)];
    prop_oneof![
        (
            node(),
            0..3u64,
            prop_oneof![0..50u32, 4080..4120u32, SIZE as u32 - 40..SIZE as u32 - 30],
            1..30usize,
            1..255u8
        )
            .prop_map(|(node, index, offset, len, byte)| BlockChange::Patch {
                node: NodeId(node),
                index,
                offset,
                bytes: vec![byte; len].into(),
            }),
        (node(), place(), place()).prop_map(|(node, start, end)| BlockChange::Discard {
            node: NodeId(node),
            start,
            end
        }),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let some = |max| prop::collection::vec(key(), 0..max);
    let expect = prop::collection::vec(
        (
            key(),
            prop_oneof![
                1 => Just(None), 9 => Just(Some(false)), 1 => Just(Some(true)),
            ],
        ),
        0..3,
    );
    let guard = prop::collection::vec((node(), field(), 0..3i64), 0..2);
    let fields = prop::collection::vec(field_change(), 0..4);
    let blocks = prop::collection::vec(block_change(), 0..3);
    let session = prop_oneof![9 => Just(None), 1 => (1..3u64).prop_map(|id| Some(SessionId(id)))];
    (session, expect, guard, some(3), some(5), any::<u16>(), fields, blocks).prop_map(
        |(session, expect, guard, delete, put, seed, fields, blocks)| {
            // Most guards of a random value would fail, so there are few.
            let guard = guard.into_iter().filter(|_| seed % 4 == 0);
            let put = put.into_iter().enumerate().map(|(n, key)| {
                let record = record(&key, u32::from(seed) + n as u32);
                (key, record)
            });
            let batch = Batch {
                guard: guard.map(|(node, field, value)| Guard { node: NodeId(node), field, value }).collect(),
                put: put.collect(),
                durable: seed % 8 == 0,
                delete,
                fields,
                blocks,
                session,
                ..Batch::default()
            };
            Plan { session, expect, batch }
        },
    )
}

/// The batch for one store: the revisions are those it has.
async fn batch(store: &dyn Store, plan: &Plan) -> Batch {
    let mut expect = Vec::new();
    for (key, wish) in &plan.expect {
        let has = get(store, key.clone()).await.map(|stored| stored.revision);
        expect.push((
            key.clone(),
            match (wish, has) {
                (None, _) => Expect::Absent,
                (Some(false), None) => Expect::Absent,
                (Some(false), Some(revision)) => Expect::At(revision),
                (Some(true), _) => Expect::At(Revision(3)),
            },
        ));
    }
    Batch { expect, session: plan.session, ..plan.batch.clone() }
}

/// Everything a store holds, but for revisions and for how much room its blocks take.
async fn state(store: &dyn Store) -> Vec<String> {
    let mut found = Vec::new();
    let mut prefixes = vec![Prefix::Orphans, Prefix::Sessions, Prefix::Locks];
    for node in (1..4).map(NodeId) {
        prefixes.extend([Prefix::Entries(node), Prefix::Xattrs(node), Prefix::Claims(node)]);
    }
    for prefix in prefixes {
        let part = store.scan(&prefix, None, usize::MAX).await.expect("it is scanned");
        found.extend(part.into_iter().map(|(key, stored)| format!("{key:?} {:?}", stored.record)));
    }
    for node in 1..4 {
        let keys = [Key::Inode(NodeId(node)), Key::Stats(NodeId(node)), Key::Counter(Counter::NextInode)];
        for stored in store.get(&keys).await.expect("they are read") {
            let mut record = stored.map(|stored| stored.record);
            if let Some(Record::Stats(stats)) = &mut record {
                let sum: u64 = extents(store, node).await.iter().map(|(_, len)| u64::from(*len)).sum();
                assert_eq!(std::mem::take(&mut stats.allocated), sum, "what blocks occupy is exact");
            }
            found.push(format!("{record:?}"));
        }
        found.push(format!(
            "{:?}",
            content(store, node).await.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect::<Vec<_>>()
        ));
    }
    found.push(format!("{} files", store.usage().await.expect("the usage").files));
    found
}

fn same_on_all(plans: &[Plan]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let places = [Place::memory(), Place::sqlite()];
        let mut stores = Vec::new();
        for place in &places {
            stores.push(place.open().await);
        }
        for plan in plans {
            let mut outcomes = Vec::new();
            for store in &stores {
                let batch = batch(&**store, plan).await;
                let outcome = store.commit(batch).await.expect("answered");
                outcomes.push(std::mem::discriminant(&outcome));
            }
            assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "they differ about {plan:?}");
        }
        let first = state(&*stores[0]).await;
        for store in &stores[1..] {
            assert_eq!(state(&**store).await, first);
        }
        for store in stores {
            store.close().await.expect("it closes");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if crate::harness::full() { 2000 } else { 60 }, ..ProptestConfig::default() })]

    #[test]
    fn engines_do_the_same(plans in prop::collection::vec(plan(), 1..30)) {
        same_on_all(&plans);
    }
}
