//! Short words for what tests do all the time.

use std::fmt::Debug;
use std::path::Path;
use std::time::{Duration, Instant};

/// An errno by which an operation must fail.
pub trait Failed {
    /// The error number, or a panic where it succeeded.
    fn errno(self) -> rustix::io::Errno;
}

impl<T: Debug> Failed for std::io::Result<T> {
    #[track_caller]
    fn errno(self) -> rustix::io::Errno {
        let error = self.expect_err("must fail");
        rustix::io::Errno::from_io_error(&error).unwrap_or_else(|| panic!("no errno in {error:?}"))
    }
}

impl<T: Debug> Failed for rustix::io::Result<T> {
    #[track_caller]
    fn errno(self) -> rustix::io::Errno {
        self.expect_err("must fail")
    }
}

/// Makes a file with these bytes, or gives it them.
#[track_caller]
pub fn put(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    let path = path.as_ref();
    std::fs::write(path, bytes).unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
}

/// The bytes of a file.
#[track_caller]
pub fn slurp(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    std::fs::read(path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
}

/// Whether `holds` comes true within `limit`; asked at once and then every few milliseconds.
pub fn changed_within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes the kernel forget the files that nobody holds, on the whole machine.
pub fn drop_caches() {
    std::fs::write("/proc/sys/vm/drop_caches", "3").expect("caches dropped (the tests run as root)");
}
