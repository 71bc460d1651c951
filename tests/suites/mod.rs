//! Public suites, run as their authors made them.

mod fsx;
mod pjdfstest;
