//! The first statement of a commit: it takes the next revisions where every demand holds, and else sets NULL where
//! none may be, which fails and so ends the script.

use super::decode::Kind;
use super::fields::{FIELDS, column};
use super::script::{ROWS, Script};
use crate::mounts::store::engine::{Batch, Expect};
use crate::mounts::store::record::{Key, SessionId};

/// What SQLite's extended code is when a demand did not hold: SQLITE_CONSTRAINT_NOTNULL.
pub const REFUSED: i32 = 1299;

/// A kind of demand: that the `column` of a row of `table` is a number, NULL standing for "there is none".
struct Term {
    column: &'static str,
    table: &'static str,
    /// The columns by which the row is found.
    keys: &'static [&'static str],
}

/// A key and what must be under it.
type Demand<'a> = (&'a Key, Option<u64>);

fn term(key: &Key) -> Term {
    let kind = Kind::of(key);
    let column = if matches!(key, Key::Stats(_)) { "stats_revision" } else { "revision" };
    Term { column, table: kind.table(), keys: kind.keys() }
}

/// Writes the statement, for all of `batches`.
pub fn write(script: &mut Script, ns: i64, batches: &[&Batch]) {
    script.text("UPDATE namespaces SET revision = ");
    let conditional = batches.iter().any(|b| b.session.is_some() || !b.expect.is_empty() || !b.guard.is_empty());
    if conditional {
        script.text("CASE WHEN 1");
        sessions(script, ns, batches);
        keys(script, ns, batches);
        guards(script, ns, batches);
        script.text(" THEN ");
    }
    script.text("revision + ?").bind(batches.len() as i64);
    script.text(if conditional { " END" } else { "" });
    script.write(format_args!(" WHERE id = {ns} RETURNING revision;"));
}

fn sessions(script: &mut Script, ns: i64, batches: &[&Batch]) {
    let mut ids: Vec<SessionId> = batches.iter().filter_map(|batch| batch.session).collect();
    ids.sort_unstable();
    ids.dedup();
    let term = Term { column: "id", table: Kind::Session.table(), keys: Kind::Session.keys() };
    for ids in ids.chunks(ROWS) {
        demand(script, ns, &term, ids, |script, id| {
            script.number(id.0).number(id.0);
        });
    }
}

fn keys(script: &mut Script, ns: i64, batches: &[&Batch]) {
    let wanted = |expect: &Expect| match expect {
        Expect::Absent => None,
        Expect::At(revision) => Some(revision.0),
    };
    let mut all: Vec<Demand<'_>> =
        batches.iter().flat_map(|batch| &batch.expect).map(|(key, expect)| (key, wanted(expect))).collect();
    // In order, so that kinds stand together, and what many members demand alike is asked once.
    all.sort_unstable();
    all.dedup();
    let kinds = all.chunk_by(|(a, _), (b, _)| std::mem::discriminant(*a) == std::mem::discriminant(*b));
    for part in kinds.flat_map(|kind| kind.chunks(ROWS)) {
        demand(script, ns, &term(part[0].0), part, |script, (key, revision)| {
            script.key(key).bind(revision.map(|revision| revision as i64));
        });
    }
}

fn guards(script: &mut Script, ns: i64, batches: &[&Batch]) {
    for field in FIELDS {
        let mut rows: Vec<(u64, i64)> = batches
            .iter()
            .flat_map(|batch| &batch.guard)
            .filter(|guard| guard.field == field)
            .map(|guard| (guard.node.0, guard.value))
            .collect();
        rows.sort_unstable();
        rows.dedup();
        // Without statistics the field is NULL, which is no number.
        let term = Term { column: column(field), table: Kind::Inode.table(), keys: Kind::Inode.keys() };
        for part in rows.chunks(ROWS) {
            demand(script, ns, &term, part, |script, (node, value)| {
                script.number(*node).bind(*value);
            });
        }
    }
}

/// ` AND` the number of the term for each row's keys is the row's last argument. Rows of NULLs hold.
fn demand<T>(script: &mut Script, ns: i64, term: &Term, rows: &[T], bind: impl Fn(&mut Script, &T)) {
    let Term { column, table, keys } = term;
    if let [row] = rows {
        script.write(format_args!(" AND (SELECT {column} FROM {table} WHERE ns={ns}"));
        keys.iter().for_each(|key| {
            script.write(format_args!(" AND {key}=?"));
        });
        script.text(") IS ?");
        bind(script, row);
        return;
    }
    script.text(" AND NOT EXISTS (SELECT 1 FROM ").values(rows, keys.len() + 1, bind);
    script.write(format_args!(" AS d WHERE (SELECT {column} FROM {table} WHERE ns={ns}"));
    for (number, key) in keys.iter().enumerate() {
        script.write(format_args!(" AND {key}=d.column{}", number + 1));
    }
    script.write(format_args!(") IS NOT d.column{})", keys.len() + 1));
}
