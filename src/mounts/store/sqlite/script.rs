//! SQL text and its arguments, growing together.
//!
//! Texts are kept prepared by the connection, so there must be few of them: rows come in powers of two, filled up with
//! NULLs that match nothing.

use super::decode::counter_text;
use crate::mounts::store::record::Key;
use sqlx::sqlite::{Sqlite, SqliteArguments};
use sqlx::{Arguments, Encode, Type};
use std::fmt::{self, Write};

/// Rows in one statement at most. SQLite takes 32,766 arguments.
pub const ROWS: usize = 256;

/// One or more statements, to be done in one round trip.
#[derive(Default)]
pub struct Script {
    sql: String,
    arguments: SqliteArguments,
}

impl Script {
    /// With room for a usual commit.
    pub fn new() -> Script {
        Script { sql: String::with_capacity(4096), arguments: SqliteArguments::default() }
    }

    /// More text. It holds no data, only our own words and numbers.
    pub fn text(&mut self, text: &str) -> &mut Script {
        self.sql.push_str(text);
        self
    }

    /// More text, formatted.
    pub fn write(&mut self, text: fmt::Arguments<'_>) -> &mut Script {
        self.sql.write_fmt(text).expect("a string takes all text");
        self
    }

    /// An argument for the next `?`.
    pub fn bind<'q, T: Encode<'q, Sqlite> + Type<Sqlite>>(&mut self, value: T) -> &mut Script {
        self.arguments.add(value).expect("numbers, text and bytes can be arguments");
        self
    }

    /// An argument for the next `?`: a number, kept bit for bit.
    pub fn number(&mut self, value: u64) -> &mut Script {
        self.bind(value as i64)
    }

    /// Arguments for the parts of a key, in the order of [`super::decode::Kind::keys`].
    pub fn key(&mut self, key: &Key) -> &mut Script {
        match key {
            Key::Inode(node) | Key::Stats(node) | Key::Orphan(node) | Key::Locks(node) => self.number(node.0),
            Key::Dentry(dir, name) => self.number(dir.0).bind(name.as_bytes()),
            Key::Xattr(node, name) => self.number(node.0).bind(&name[..]),
            Key::Block(node, index) => self.number(node.0).number(*index),
            Key::Claim(node, session) => self.number(node.0).number(session.0),
            Key::Session(id) => self.number(id.0),
            Key::Counter(counter) => self.bind(counter_text(*counter)),
        }
    }

    /// Text for the newest revision of a namespace.
    pub fn newest(&mut self, ns: i64) -> &mut Script {
        self.write(format_args!("(SELECT revision FROM namespaces WHERE id={ns})"))
    }

    /// `(VALUES (?,…),…)` for `items`, at most [`ROWS`], each of `width` arguments that `row` binds.
    pub fn values<T>(&mut self, items: &[T], width: usize, row: impl Fn(&mut Script, &T)) -> &mut Script {
        let rows = items.len().next_power_of_two();
        self.text("(VALUES ");
        for number in 0..rows {
            self.text(if number == 0 { "(?" } else { ",(?" });
            (1..width).for_each(|_| {
                self.text(",?");
            });
            self.text(")");
        }
        self.text(")");
        items.iter().for_each(|item| row(self, item));
        (0..(rows - items.len()) * width).for_each(|_| {
            self.bind(None::<i64>);
        });
        self
    }

    /// The text and its arguments.
    pub fn finish(self) -> (String, SqliteArguments) {
        (self.sql, self.arguments)
    }
}
