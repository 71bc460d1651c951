//! Public suites, run as their authors made them, and a crowd of our own.

mod crowd;
mod fsx;
mod pjdfstest;
