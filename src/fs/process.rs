//! What a process does once before it serves files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More descriptors than this are not made room for: the table takes eight bytes for each.
const ROOM: u64 = 1 << 18;

/// Raises the limit of open files to what is allowed, and makes room for them at once. A table of descriptors that
/// grows while many threads use it costs each growing open 17 µs; one that has grown never shrinks.
pub fn prepare_process() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
    let most = getrlimit(Resource::Nofile).current.unwrap_or(ROOM).min(ROOM);
    let Ok(last) = i32::try_from(most.saturating_sub(1)) else { return };
    let grown = rustix::fs::open("/dev/null", rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())
        .and_then(|null| rustix::io::fcntl_dupfd_cloexec(&null, last));
    if let Err(error) = grown {
        tracing::debug!(%error, "no room was made for {most} open files");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_becomes_what_is_allowed() {
        prepare_process();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
