//! A model checker: for pairs and triples of operations, every order of the store's calls that two or three clients make
//! of them gives results and a tree that some order of the whole operations gives too.

mod explore;
mod gate;
mod model;
mod raw;
mod run;

use explore::Explorer;
use model::How::{Exchange, NoReplace, Replace};
pub use model::Seen;
use model::{A, B, C, D, F, G, Model, Op, ROOT, SUB};
pub use raw::picture;
use run::{News, Ran, run};
use std::collections::BTreeMap;
use workfs::types::Errno;

/// Operations that meet each other on the small tree.
fn operations() -> Vec<Op> {
    let rename = |from, to, how| Op::Rename { from, to, how };
    vec![
        Op::Create { dir: A, name: "n", exclusive: true },
        Op::Create { dir: C, name: "n", exclusive: false },
        Op::Create { dir: A, name: "f", exclusive: false },
        Op::Mkdir { dir: A, name: "n" },
        Op::Mkdir { dir: SUB, name: "x" },
        Op::Link { file: F, dir: A, name: "n" },
        Op::Link { file: G, dir: C, name: "n" },
        Op::Unlink { dir: A, name: "f" },
        Op::Unlink { dir: B, name: "h" },
        Op::Unlink { dir: B, name: "g" },
        Op::Rmdir { dir: ROOT, name: "c" },
        Op::Rmdir { dir: A, name: "sub" },
        rename((A, "f"), (A, "n"), NoReplace),
        rename((A, "f"), (B, "g"), Replace),
        rename((B, "g"), (A, "f"), Replace),
        rename((ROOT, "a"), (C, "x"), Replace),
        rename((ROOT, "c"), (SUB, "x"), Replace),
        rename((A, "sub"), (ROOT, "c"), Replace),
        rename((ROOT, "b"), (SUB, "x"), Replace),
        rename((ROOT, "d"), (ROOT, "c"), Replace),
        rename((A, "f"), (B, "g"), Exchange),
        rename((A, "sub"), (ROOT, "c"), Exchange),
        rename((A, "sub"), (B, "g"), Exchange),
        Op::Write { file: F, offset: 2, bytes: "WWWW" },
        Op::Write { file: F, offset: 0, bytes: "V" },
        Op::Append { file: F, bytes: "1" },
        Op::Append { file: G, bytes: "2" },
        Op::Truncate { file: F, size: 1 },
        Op::Truncate { file: G, size: 9 },
        Op::Xattr { file: G, name: "user.a" },
    ]
}

/// Three at once that could make a loop, lose a count or a byte.
fn triples() -> Vec<[Op; 3]> {
    let into = |from: &'static str, dir, name| Op::Rename { from: (ROOT, from), to: (dir, name), how: Replace };
    vec![
        [into("b", SUB, "x"), into("c", B, "x"), into("a", C, "x")],
        [Op::Append { file: F, bytes: "1" }, Op::Append { file: F, bytes: "22" }, Op::Truncate { file: F, size: 2 }],
        [Op::Unlink { dir: A, name: "f" }, Op::Unlink { dir: B, name: "h" }, Op::Link { file: F, dir: D, name: "n" }],
        [Op::Rmdir { dir: ROOT, name: "c" }, Op::Create { dir: C, name: "n", exclusive: true }, into("d", C, "x")],
    ]
}

/// An order of whole operations, what each gives, and the tree after them.
type Serial = (Vec<usize>, Vec<Result<(), Errno>>, BTreeMap<String, Seen>);

/// What the operations give one after another, in each order.
fn serial(ops: &[Op]) -> Vec<Serial> {
    let mut orders: Vec<Vec<usize>> = vec![vec![]];
    for _ in ops {
        orders = orders
            .into_iter()
            .flat_map(|order| {
                let rest: Vec<usize> = (0..ops.len()).filter(|n| !order.contains(n)).collect();
                rest.into_iter().map(move |n| [order.clone(), vec![n]].concat())
            })
            .collect();
    }
    let outcome = |order: Vec<usize>| {
        let mut model = Model::first();
        let mut outcomes = vec![Ok(()); ops.len()];
        order.iter().for_each(|n| outcomes[*n] = model.apply(&ops[*n]));
        (order, outcomes, model.picture())
    };
    orders.into_iter().map(outcome).collect()
}

/// Runs every order of the calls, but for those that differ only in reads that follow one another; tells how many.
async fn check(ops: &[Op], news: News) -> usize {
    let allowed = serial(ops);
    let mut explorer = Explorer::default();
    loop {
        let Ran { outcomes, picture } = run(ops, news, &mut explorer).await;
        let matches = allowed.iter().any(|(_, results, tree)| *results == outcomes && *tree == picture);
        assert!(
            matches,
            "{ops:?}\n{news:?}, calls of {:?}\ngave {outcomes:?}\n{picture:?}\nand no order of them does: {allowed:?}",
            explorer.order(),
        );
        if !explorer.advance() {
            return explorer.runs;
        }
    }
}

/// Runs checks in a runtime whose tasks run only when the checker lets them.
fn alone<T>(check: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(check)
}

fn check_pairs(news: News) {
    let operations = operations();
    let runs: usize = alone(async {
        let mut runs = 0;
        for (n, first) in operations.iter().enumerate() {
            for second in &operations[n..] {
                runs += check(&[first.clone(), second.clone()], news).await;
            }
        }
        runs
    });
    eprintln!("{news:?}: {runs} orders of {} pairs", operations.len() * (operations.len() + 1) / 2);
}

#[test]
fn every_pair_is_as_one_after_the_other_when_all_that_is_known_is_old() {
    check_pairs(News::Late);
}

#[test]
fn every_pair_is_as_one_after_the_other_when_nothing_is_known() {
    check_pairs(News::Prompt);
}

#[test]
fn three_at_once_are_as_one_after_another() {
    alone(async {
        for ops in triples() {
            let runs = check(&ops, News::Late).await;
            eprintln!("{runs} orders of {ops:?}");
        }
    });
}
