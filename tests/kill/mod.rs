//! kill -9 of the daemon at random moments: what was closed is there at the next mount, and a dead mount is told as such.

mod journal;
pub mod load;

use crate::harness::{Kind, Scene, Sessions, full, random, slurp};
use journal::{Expected, Step};
use std::time::Duration;

/// So many processes write at once.
const WRITERS: u64 = 2;

/// One life of a daemon: it serves, is loaded, and is killed. Each writer keeps a journal per life.
fn live_and_die(scene: &mut Scene, life: u64, random: &mut fastrand::Rng) {
    let numbers = (0..WRITERS).map(|writer| life * WRITERS + writer);
    let home = scene.home().to_owned();
    let seeds: Vec<_> = numbers.map(|number| (number, random.u64(..))).collect();
    let pid = scene.server().pid();
    let writers: Vec<_> =
        seeds.iter().map(|&(number, seed)| scene.actor("keep-writing", &home, &[number, seed])).collect();
    std::thread::sleep(Duration::from_millis(random.u64(150..700)));
    let mut writers = writers;
    for writer in &mut writers {
        if !writer.runs() {
            let said = writers.remove(0).text();
            panic!("a writer ended before the kill: {said}");
        }
    }
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
    for writer in writers {
        writer.text();
    }
    scene.kill();
}

fn all_that_was_closed_is_there(scene: &Scene, lives: u64) -> usize {
    let mut files = 0;
    for number in 0..lives * WRITERS {
        let mut expected = Expected::default();
        let pending: Vec<Step> = expected.replay(scene.home(), number).into_iter().collect();
        files += expected.check(scene.path(), &pending);
    }
    files
}

fn survives_kills(kind: Kind, sessions: Sessions) {
    let lives = if full() { 50 } else { 8 };
    let mut random = fastrand::Rng::with_seed(random::seed());
    let mut scene = Scene::new(kind, sessions);
    scene.takes(Duration::from_secs(60 + 20 * lives));
    let mut files = 0;
    for life in 0..lives {
        live_and_die(&mut scene, life, &mut random);
        scene.mount();
        files = all_that_was_closed_is_there(&scene, life + 1);
    }
    assert!(files > 20 * lives as usize, "only {files} files: the load was none");
    scene.remount();
    all_that_was_closed_is_there(&scene, lives);
    scene.end();
}

#[test]
fn disk_keeps_what_was_closed() {
    survives_kills(Kind::Disk, Sessions::Nested);
}

#[test]
fn sqlite_keeps_what_was_closed() {
    survives_kills(Kind::Sqlite, Sessions::Nested);
}

#[test]
fn sqlite_keeps_what_was_closed_in_a_single_session() {
    survives_kills(Kind::Sqlite, Sessions::Single);
}

#[test]
fn status_tells_a_dead_mount_from_a_live_one() {
    for sessions in [Sessions::Nested, Sessions::Single] {
        let mut scene = Scene::new(Kind::Sqlite, sessions);
        std::fs::write(scene.at("f"), b"kept").expect("write");
        let live = scene.status().output();
        assert_eq!(live.status.code(), Some(0), "{}", String::from_utf8_lossy(&live.stderr));
        let told: serde_json::Value = serde_json::from_slice(&live.stdout).expect("JSON");
        let pid = scene.server().pid().as_raw_pid().to_string();
        assert!(told.to_string().contains(&pid), "its process is told: {told}");
        scene.kill();
        let dead = scene.status().output();
        assert_eq!(dead.status.code(), Some(3), "dead: {}", String::from_utf8_lossy(&dead.stdout));
        scene.mount();
        assert_eq!(slurp(scene.at("f")), b"kept");
        assert_eq!(scene.status().output().status.code(), Some(0));
        scene.unmount();
        assert_eq!(scene.status().output().status.code(), Some(4), "nothing is mounted");
    }
}
