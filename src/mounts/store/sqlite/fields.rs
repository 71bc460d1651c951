//! Several changes of one field, made one.
//!
//! A commit of many members may change one directory's statistics many times; one statement can set each row once.

use crate::mounts::store::engine::{Field, FieldChange, FieldOp};
use crate::types::NodeId;
use std::collections::BTreeMap;

/// All fields, in the order of [`FieldForms`].
pub const FIELDS: [Field; 6] = [Field::Size, Field::Links, Field::Entries, Field::Atime, Field::Mtime, Field::Ctime];

/// The column that holds a field.
pub fn column(field: Field) -> &'static str {
    match field {
        Field::Size => "size",
        Field::Links => "links",
        Field::Entries => "entries",
        Field::Atime => "atime",
        Field::Mtime => "mtime",
        Field::Ctime => "ctime",
    }
}

/// What a run of changes does to a field.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    /// x + a
    Add(i64),
    /// max(x, m)
    Max(i64),
    /// v
    Set(i64),
    /// max(x + a, m)
    AddMax(i64, i64),
}

impl Form {
    fn of(op: FieldOp) -> Form {
        match op {
            FieldOp::Add(by) => Form::Add(by),
            FieldOp::Max(to) => Form::Max(to),
            FieldOp::Set(to) => Form::Set(to),
        }
    }

    /// This, and `op` after it.
    fn then(self, op: FieldOp) -> Form {
        match (self, op) {
            (_, FieldOp::Set(to)) => Form::Set(to),
            (Form::Set(value), FieldOp::Add(by)) => Form::Set(value.saturating_add(by)),
            (Form::Set(value), FieldOp::Max(to)) => Form::Set(value.max(to)),
            (Form::Add(a), FieldOp::Add(by)) => Form::Add(a.saturating_add(by)),
            (Form::Add(a), FieldOp::Max(to)) => Form::AddMax(a, to),
            (Form::Max(m), FieldOp::Max(to)) => Form::Max(m.max(to)),
            (Form::Max(m), FieldOp::Add(by)) => Form::AddMax(by, m.saturating_add(by)),
            (Form::AddMax(a, m), FieldOp::Add(by)) => Form::AddMax(a.saturating_add(by), m.saturating_add(by)),
            (Form::AddMax(a, m), FieldOp::Max(to)) => Form::AddMax(a, m.max(to)),
        }
    }

    /// The kind of change, whatever its numbers.
    pub fn shape(self) -> u8 {
        match self {
            Form::Add(_) => 1,
            Form::Max(_) => 2,
            Form::Set(_) => 3,
            Form::AddMax(..) => 4,
        }
    }

    /// Its numbers, in the order in which they stand in the statement.
    pub fn numbers(self) -> impl Iterator<Item = i64> {
        let (first, second) = match self {
            Form::Add(n) | Form::Max(n) | Form::Set(n) => (n, None),
            Form::AddMax(a, m) => (a, Some(m)),
        };
        std::iter::once(first).chain(second)
    }
}

/// What becomes of each field of a file.
pub type FieldForms = [Option<Form>; 6];

/// The kinds of change of a file's fields: files with equal shapes are changed by one statement.
pub type Shape = [u8; 6];

/// The shape of a file's changes.
pub fn shape(forms: &FieldForms) -> Shape {
    forms.map(|form| form.map_or(0, Form::shape))
}

/// The changes of all files, each file once.
pub fn gather<'a>(changes: impl Iterator<Item = &'a FieldChange>) -> BTreeMap<NodeId, FieldForms> {
    let mut files: BTreeMap<NodeId, FieldForms> = BTreeMap::new();
    for change in changes {
        let form = &mut files.entry(change.node).or_default()[change.field as usize];
        *form = Some(form.map_or(Form::of(change.op), |before| before.then(change.op)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn apply(form: Form, x: i64) -> i64 {
        match form {
            Form::Add(a) => x + a,
            Form::Max(m) => x.max(m),
            Form::Set(v) => v,
            Form::AddMax(a, m) => (x + a).max(m),
        }
    }

    fn ops() -> impl Strategy<Value = Vec<FieldOp>> {
        let op = (0..3, -50..50i64).prop_map(|(kind, n)| match kind {
            0 => FieldOp::Add(n),
            1 => FieldOp::Max(n),
            _ => FieldOp::Set(n),
        });
        prop::collection::vec(op, 1..8)
    }

    proptest! {
        #[test]
        fn one_form_does_what_the_run_does(ops in ops(), start in -100..100i64) {
            let one_by_one = ops.iter().fold(start, |x, op| apply(Form::of(*op), x));
            let changes: Vec<FieldChange> =
                ops.iter().map(|op| FieldChange { node: NodeId(1), field: Field::Links, op: *op }).collect();
            let form = gather(changes.iter())[&NodeId(1)][Field::Links as usize].expect("changed");
            prop_assert_eq!(apply(form, start), one_by_one);
        }
    }

    #[test]
    fn fields_are_in_their_order() {
        for (place, field) in FIELDS.into_iter().enumerate() {
            assert_eq!(field as usize, place);
        }
    }
}
