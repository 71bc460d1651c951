//! A crowd on one mount: eight write, eight read, four rename and two walk, all among the same names. Nothing fails that
//! may not, nothing hangs, and afterwards nothing contradicts anything else and nothing is left in the server.

mod members;
mod sealed;
mod server;

use crate::harness::{Kind, Scene, each_stored_kind, full, program, put, random, slurp};
use members::{ANCHOR, DIRS, LOG, Member};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a member does, and how many do so.
type Act = fn(&mut Member, usize);
const CROWD: [(Act, usize); 4] = [(Member::write, 8), (Member::read, 8), (Member::rename, 4), (Member::walk, 2)];

fn prepare(place: &Path) {
    put(place.join(LOG), b"");
    for number in 0..DIRS {
        let dir = place.join(format!("d{number}"));
        std::fs::create_dir(&dir).expect("mkdir");
        put(dir.join(ANCHOR), sealed::bytes(number as u64));
    }
}

/// Lets the crowd in for so long, and tells how much each kind of member did.
fn let_in(place: &Path, length: Duration, seed: u64) -> [usize; 4] {
    let end = Instant::now() + length;
    let done: [AtomicUsize; 4] = Default::default();
    std::thread::scope(|threads| {
        let mut number = 0;
        for ((act, count), done) in CROWD.into_iter().zip(&done) {
            for _ in 0..count {
                number += 1;
                let random = fastrand::Rng::with_seed(seed.wrapping_add(number as u64));
                let member = Member { place: place.to_owned(), number, random, end };
                threads.spawn(move || done.fetch_add(member.keep_on(act), Ordering::Relaxed));
            }
        }
    });
    done.map(AtomicUsize::into_inner)
}

/// What stands in the tree at rest: the number of each file, its links, and its names.
fn check_tree(place: &Path) -> BTreeMap<u64, (u64, usize)> {
    let mut files: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    let mut left = vec![place.to_owned()];
    while let Some(dir) = left.pop() {
        let mut names: Vec<_> =
            std::fs::read_dir(&dir).expect("readdir").map(|entry| entry.expect("an entry").file_name()).collect();
        let listed = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), listed, "{}: a name is listed twice", dir.display());
        for path in names.iter().map(|name| dir.join(name)) {
            let told = std::fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if told.is_dir() {
                left.push(path);
            } else {
                if !path.ends_with(LOG) {
                    sealed::check(&path, &slurp(&path));
                }
                files.entry(told.ino()).or_insert((told.nlink(), 0)).1 += 1;
            }
        }
    }
    for (number, (links, names)) in &files {
        assert_eq!(*links, *names as u64, "file {number} says so many links, and has so many names");
    }
    assert!(files.len() > DIRS, "something is left to look at");
    files
}

/// The crowd comes, goes, and everything is looked at; then all is removed.
fn once(scene: &mut Scene, length: Duration, seed: u64) {
    prepare(scene.path());
    let [wrote, read, renamed, walked] = let_in(scene.path(), length, seed);
    eprintln!("{wrote} writes, {read} reads, {renamed} renames, {walked} walks");
    let records = sealed::check_log(&slurp(scene.at(LOG)));
    assert!(records > 5 && wrote > 50 && read > 50 && renamed > 50 && walked > 2, "{records} records: too little");
    let files = check_tree(scene.path());
    assert_eq!(check_tree(scene.path()), files, "at rest nothing changes");
}

fn remove_all(scene: &Scene) {
    for entry in std::fs::read_dir(scene.path()).expect("readdir") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.expect("all goes");
    }
}

/// What SQLite and the records say of the store after a clean end.
fn check_store(scene: &Scene) {
    program::need(&["sqlite3"]);
    let file = scene.home().join("volume-place");
    let said = scene.program("sqlite3").dir(scene.home()).arg(&file).arg("PRAGMA integrity_check").text();
    assert_eq!(said, "ok\n");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        use workfs::mounts::store::engine::Store;
        let store = workfs::mounts::store::sqlite::SqliteStore::open(&file, "default").await.expect("the store opens");
        crate::interleavings::picture(&*store, &BTreeMap::new()).await;
        store.close().await.expect("it closes");
    });
}

each_stored_kind! {
    fn a_crowd_leaves_everything_in_order(scene) {
        let length = Duration::from_secs(if full() { 300 } else { 12 });
        scene.takes(length * 2 + Duration::from_secs(180));
        let seed = random::seed();
        // What a first, short crowd leaves behind is what a server keeps anyway: buffers, threads, connections.
        once(scene, length / 4, seed);
        remove_all(scene);
        let before = server::figures(scene);
        once(scene, length, seed.wrapping_add(1000));
        remove_all(scene);
        server::returns_to(scene, &before);
        once(scene, length / 4, seed.wrapping_add(2000));
        let files = check_tree(scene.path());
        if scene.kind().keeps() {
            scene.unmount();
            if scene.kind() == Kind::Sqlite {
                check_store(scene);
            }
            scene.mount();
            assert_eq!(check_tree(scene.path()).values().collect::<Vec<_>>(), files.values().collect::<Vec<_>>());
        }
    }
}
