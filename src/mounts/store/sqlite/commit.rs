//! The script of a commit: BEGIN, the demands, then what changes, by few statements for all members, COMMIT.

use super::decode::{Kind, kind_text};
use super::demands;
use super::fields::{self, FIELDS, FieldForms, Form, Shape, column};
use super::held;
use super::patches;
use super::script::{ROWS, Script};
use super::tables::{self, insert};
use super::told::Told;
use crate::mounts::store::engine::{Batch, Field};
use crate::mounts::store::record::{Inode, Key, Record, Stats};
use crate::types::{Errno, Error, NodeId, Result, Timestamp};
use std::collections::BTreeMap;

/// Writes the script for `batches`, which become consecutive revisions in their order. `told` has one for each.
///
/// # Errors
/// `EINVAL` for a batch that no engine could do.
pub fn write(ns: i64, block_size: u32, batches: &[&Batch], told: &[Told], durable: bool) -> Result<Script> {
    let mut script = Script::new();
    if durable {
        // SQLite takes it when no transaction is open, and each time it is run.
        script.text("PRAGMA synchronous=FULL;");
    }
    script.text("BEGIN IMMEDIATE;");
    demands::write(&mut script, ns, batches);
    deletes(&mut script, ns, batches);
    puts(&mut script, ns, batches)?;
    field_changes(&mut script, ns, batches);
    for (number, batch) in batches.iter().enumerate() {
        for change in &batch.blocks {
            patches::write(&mut script, ns, block_size, back(batches, number), change)?;
        }
    }
    changes(&mut script, ns, told);
    script.text("COMMIT;");
    if durable {
        script.text("PRAGMA synchronous=NORMAL;");
    }
    Ok(script)
}

/// How many revisions before the group's last a member's is.
fn back(batches: &[&Batch], number: usize) -> i64 {
    (batches.len() - 1 - number) as i64
}

fn deletes(script: &mut Script, ns: i64, batches: &[&Batch]) {
    let mut keys: Vec<&Key> = batches.iter().flat_map(|batch| &batch.delete).collect();
    keys.sort_unstable();
    keys.dedup();
    for kind in keys.chunk_by(|a, b| std::mem::discriminant(*a) == std::mem::discriminant(*b)) {
        let of = Kind::of(kind[0]);
        if matches!(of, Kind::Inode | Kind::Block) {
            continue;
        }
        for part in kind.chunks(ROWS) {
            script.write(format_args!("DELETE FROM {} WHERE ns={ns}", of.table()));
            matching(script, of.keys(), part, |script, key| {
                script.key(key);
            });
            script.text(";");
        }
    }
    file_deletes(script, ns, &keys);
}

/// ` AND` the columns equal those of one of the rows.
fn matching<T>(script: &mut Script, columns: &[&str], rows: &[T], bind: impl Fn(&mut Script, &T)) {
    if let [row] = rows {
        columns.iter().for_each(|column| {
            script.write(format_args!(" AND {column}=?"));
        });
        bind(script, row);
        return;
    }
    script.write(format_args!(" AND ({}) IN ", columns.join(",")));
    script.values(rows, columns.len(), bind);
}

/// A file's row goes when both its records do; else it keeps the other.
fn file_deletes(script: &mut Script, ns: i64, keys: &[&Key]) {
    let mut files: BTreeMap<NodeId, (bool, bool)> = BTreeMap::new();
    for key in keys {
        match key {
            Key::Inode(node) => files.entry(*node).or_default().0 = true,
            Key::Stats(node) => files.entry(*node).or_default().1 = true,
            _ => {}
        }
    }
    let of = |parts: (bool, bool)| -> Vec<NodeId> {
        files.iter().filter(|(_, gone)| **gone == parts).map(|(node, _)| *node).collect()
    };
    let bind = |script: &mut Script, node: &NodeId| {
        script.number(node.0);
    };
    let mut statement = |text: &str, nodes: &[NodeId], rest: &str| {
        for part in nodes.chunks(ROWS) {
            script.write(format_args!("{text} WHERE ns={ns}"));
            matching(script, &["ino"], part, bind);
            script.text(rest).text(";");
        }
    };
    const NO_IDENTITY: &str = "UPDATE inodes SET revision=NULL, parent=NULL, target=NULL";
    const NO_STATS: &str = "UPDATE inodes SET stats_revision=NULL, size=NULL, allocated=NULL, links=NULL, \
                            entries=NULL, atime=NULL, mtime=NULL, ctime=NULL";
    statement("DELETE FROM inodes", &of((true, true)), "");
    for (text, nodes) in [(NO_IDENTITY, of((true, false))), (NO_STATS, of((false, true)))] {
        statement(text, &nodes, "");
        statement("DELETE FROM inodes", &nodes, " AND revision IS NULL AND stats_revision IS NULL");
    }
}

/// A record to be put, and how many revisions before the group's last its commit is.
type Put<'a> = (i64, &'a Key, &'a Record);

/// Files of which both records are put, so that one row does: node, identity, statistics.
type File<'a> = (i64, NodeId, &'a Inode, &'a Stats);

fn puts(script: &mut Script, ns: i64, batches: &[&Batch]) -> Result<()> {
    let mut files: Vec<File<'_>> = Vec::new();
    let mut others: Vec<Put<'_>> = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        let back = back(batches, number);
        let pairs = pairs(batch);
        files.extend(pairs.iter().map(|(node, (inode, stats))| (back, *node, *inode, *stats)));
        let single = |key: &Key| !matches!(key, Key::Inode(node) | Key::Stats(node) if pairs.contains_key(node));
        others.extend(batch.put.iter().filter(|(key, _)| single(key)).map(|(key, record)| (back, key, record)));
    }
    insert(script, ns, &tables::FILES, &files, |script, (back, node, inode, stats)| {
        script.number(node.0).bind(*back);
        bind_inode(script, inode);
        script.bind(*back);
        bind_stats(script, stats);
        script.number(node.0);
    });
    // The order within a kind stays: the last put of a key counts.
    others.sort_by_key(|(_, key, _)| Kind::of(key) as u8 * 2 + u8::from(matches!(key, Key::Stats(_))));
    for kind in others.chunk_by(|(_, a, _), (_, b, _)| std::mem::discriminant(*a) == std::mem::discriminant(*b)) {
        put_kind(script, ns, kind)?;
    }
    Ok(())
}

/// The files of which `batch` puts both records, the last of each.
fn pairs(batch: &Batch) -> BTreeMap<NodeId, (&Inode, &Stats)> {
    let mut inodes: BTreeMap<NodeId, &Inode> = BTreeMap::new();
    let mut stats: BTreeMap<NodeId, &Stats> = BTreeMap::new();
    for (key, record) in &batch.put {
        match (key, record) {
            (Key::Inode(node), Record::Inode(inode)) => drop(inodes.insert(*node, inode)),
            (Key::Stats(node), Record::Stats(of)) => drop(stats.insert(*node, of)),
            _ => {}
        }
    }
    inodes.into_iter().filter_map(|(node, inode)| stats.get(&node).map(|of| (node, (inode, *of)))).collect()
}

fn put_kind(script: &mut Script, ns: i64, puts: &[Put<'_>]) -> Result<()> {
    let table = match puts[0].1 {
        Key::Inode(_) => &tables::IDENTITIES,
        Key::Stats(_) => &tables::STATS,
        Key::Dentry(..) => &tables::DENTRIES,
        Key::Xattr(..) => &tables::XATTRS,
        Key::Orphan(_) => &tables::ORPHANS,
        Key::Claim(..) => &tables::CLAIMS,
        Key::Session(_) => &tables::SESSIONS,
        Key::Counter(_) => &tables::COUNTERS,
        Key::Locks(_) => &tables::LOCKS,
        Key::Block(..) => return Err(malformed()),
    };
    if !puts.iter().all(|(_, key, record)| record.belongs_to(key)) {
        return Err(malformed());
    }
    insert(script, ns, table, puts, |script, (back, key, record)| {
        script.key(key).bind(*back);
        match (*key, *record) {
            (_, Record::Inode(inode)) => bind_inode(script, inode),
            (Key::Stats(node), Record::Stats(stats)) => {
                bind_stats(script, stats);
                script.number(node.0);
            }
            (_, record) => bind_small(script, record),
        }
    });
    Ok(())
}

fn malformed() -> Error {
    Error::new("commit", Errno::EINVAL).context("a record under a key of another kind")
}

fn bind_inode(script: &mut Script, inode: &Inode) {
    script.bind(kind_text(inode.kind)).bind(inode.mode.bits()).bind(inode.uid).bind(inode.gid).bind(inode.rdev);
    script.bind(inode.parent.map(|parent| parent.0 as i64)).bind(&inode.target[..]).bind(inode.born.0);
}

fn bind_stats(script: &mut Script, stats: &Stats) {
    script.number(stats.size).number(stats.links).number(stats.entries);
    script.bind(stats.atime.0).bind(stats.mtime.0).bind(stats.ctime.0);
}

fn bind_small(script: &mut Script, record: &Record) {
    match record {
        Record::Dentry(entry) => script.number(entry.node.0).bind(kind_text(entry.kind)).number(entry.cookie),
        Record::Xattr(value) => script.bind(&value[..]),
        Record::Orphan(orphan) => script.bind(orphan.since.0),
        Record::Session(session) => {
            script.bind(session.seen.0).number(session.acknowledged.0).bind(session.pid);
            script.number(session.started).number(session.place)
        }
        Record::Counter(value) => script.number(*value),
        Record::Locks(locks) => script.bind(held::write(locks)),
        _ => script,
    };
}

/// One statement for all files whose fields change in the same way, though by other numbers.
fn field_changes(script: &mut Script, ns: i64, batches: &[&Batch]) {
    let files = fields::gather(batches.iter().flat_map(|batch| &batch.fields));
    let mut shapes: BTreeMap<Shape, Vec<(NodeId, FieldForms)>> = BTreeMap::new();
    for (node, forms) in files {
        shapes.entry(fields::shape(&forms)).or_default().push((node, forms));
    }
    for files in shapes.values() {
        for part in files.chunks(ROWS) {
            field_statement(script, ns, part);
        }
    }
}

fn field_statement(script: &mut Script, ns: i64, files: &[(NodeId, FieldForms)]) {
    let one = files.len() == 1;
    let mut width = 0;
    // One file's numbers are arguments; those of several stand in a table, a row for each.
    let mut number = || {
        width += 1;
        if one { "?".to_owned() } else { format!("v.column{width}") }
    };
    let assign = |(field, form)| {
        let name = column(field);
        match form {
            Form::Add(_) => format!("{name}=inodes.{name}+{}", number()),
            Form::Max(_) => format!("{name}=max(inodes.{name},{})", number()),
            Form::Set(_) => format!("{name}={}", number()),
            Form::AddMax(..) => format!("{name}=max(inodes.{name}+{},{})", number(), number()),
        }
    };
    let assigned = changed(&files[0].1).map(assign).collect::<Vec<_>>().join(",");
    let node = width + 1;
    let bind = |script: &mut Script, (node, forms): &(NodeId, FieldForms)| {
        changed(forms).flat_map(|(_, form)| form.numbers()).for_each(|number| {
            script.bind(number);
        });
        script.number(node.0);
    };
    script.write(format_args!("UPDATE inodes SET {assigned}"));
    if one {
        script.write(format_args!(" WHERE ns={ns} AND ino=?"));
        bind(script, &files[0]);
    } else {
        script.text(" FROM ").values(files, node, bind);
        script.write(format_args!(" AS v WHERE ns={ns} AND ino=v.column{node}"));
    }
    script.text(" AND stats_revision IS NOT NULL;");
}

fn changed(forms: &FieldForms) -> impl Iterator<Item = (Field, Form)> {
    FIELDS.into_iter().zip(forms).filter_map(|(field, form)| form.map(|form| (field, form)))
}

fn changes(script: &mut Script, ns: i64, told: &[Told]) {
    let now = Timestamp::now();
    let rows: Vec<(i64, &Told)> = told.iter().rev().enumerate().map(|(back, told)| (back as i64, told)).collect();
    insert(script, ns, &tables::CHANGES, &rows, |script, (back, told)| {
        let (keys, data) = told.columns();
        script.bind(*back).bind(told.session.map(|id| id.0 as i64)).bind(now.0).bind(keys).bind(data);
    });
}
