//! What a server holds: descriptors, memory, and what it knows of files.

use crate::harness::{Kind, Scene, changed_within, drop_caches};
use serde_json::Value;
use std::time::Duration;

/// By how many bytes a server may be larger than it was: what an allocator keeps of a long crowd in its arenas.
const ROOM: u64 = 48 << 20;
/// By how many descriptors: a connection that a store opened later.
const DESCRIPTORS: usize = 4;

/// What was counted at one moment.
#[derive(Debug)]
pub struct Figures {
    descriptors: usize,
    memory: u64,
    known: u64,
    open: u64,
    files: Option<u64>,
}

/// What the server of `scene` holds once the kernel has dropped what it can; nothing is told of a native scene.
pub fn figures(scene: &mut Scene) -> Option<Figures> {
    if scene.kind() == Kind::Native {
        return None;
    }
    drop_caches();
    // Forgotten files are told in batches, and orphans are removed in such.
    std::thread::sleep(Duration::from_secs(2));
    Some(count(scene))
}

fn count(scene: &mut Scene) -> Figures {
    let pid = scene.server().pid().as_raw_pid();
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the server lives").count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the server lives");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("it has memory of its own");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    let told = scene.status().text();
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let sessions = told[0]["sessions"].as_array().expect("sessions");
    let sum = |what: &str| sessions.iter().map(|session| session[what].as_u64().expect("a count")).sum();
    let space = rustix::fs::statvfs(scene.path()).expect("statvfs");
    Figures {
        descriptors,
        memory: kilobytes << 10,
        known: sum("known_files"),
        open: sum("open_files"),
        files: scene.kind().is_store().then(|| space.f_files - space.f_ffree),
    }
}

/// Shows that the server comes back to what it held before.
pub fn returns_to(scene: &mut Scene, before: &Option<Figures>) {
    let Some(before) = before else { return };
    let mut now = None;
    let back = changed_within(Duration::from_secs(30), || {
        drop_caches();
        let counted = count(scene);
        let back = counted.descriptors <= before.descriptors + DESCRIPTORS
            && counted.memory <= before.memory + ROOM
            && (counted.known, counted.open, counted.files) == (before.known, before.open, before.files);
        now = Some(counted);
        back
    });
    eprintln!("before: {before:?}\nafter: {now:?}");
    assert!(back, "the server keeps what it had for the crowd");
}
