//! The behaviour tests, in one binary: one file for each behaviour.

mod nesting;
