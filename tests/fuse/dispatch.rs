//! Requests that wait, never end, or panic.

use super::tree::{Parts, errno, soon};
use std::fs;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};
use workfs::fs::MountOptions;

#[test]
fn what_waits_holds_nobody_up() {
    let mut parts = Parts::new();
    let volume = parts.memory("/");
    let tree = parts.mount(&MountOptions::default());
    *volume.delay.lock() = Duration::from_secs(2);
    let started = Instant::now();
    thread::scope(|scope| {
        for number in 0..32 {
            // In directories of their own: the kernel lets one lookup at a time into a name, not into a session.
            let dir = tree.at(format!("d{number}"));
            fs::create_dir(&dir).expect("made");
            scope.spawn(move || assert_eq!(errno(fs::metadata(dir.join("slow"))), libc::ENOENT));
        }
        fs::write(tree.at("quick"), "quick").expect("written");
        assert_eq!(fs::read_to_string(tree.at("quick")).expect("read"), "quick");
        assert!(started.elapsed() < Duration::from_millis(1500), "others waited: {:?}", started.elapsed());
    });
    assert!(started.elapsed() < Duration::from_secs(6), "they waited for each other: {:?}", started.elapsed());
    assert!(tree.view.status().sessions[0].requests.waited >= 32);
}

#[test]
fn what_never_ends_answers_eio_at_the_deadline_and_gives_back_what_it_finds_later() {
    let mut parts = Parts::new();
    let volume = parts.memory("/");
    let tree = parts.mount(&MountOptions { deadline: Some(Duration::from_millis(300)), ..MountOptions::default() });
    fs::write(tree.at("slow"), "x").expect("written");
    fs::rename(tree.at("slow"), tree.at("kept")).expect("renamed");
    fs::hard_link(tree.at("kept"), tree.at("slow-link")).expect("linked");
    fs::rename(tree.at("slow-link"), tree.at("slow-too")).expect("renamed");
    volume.tell(workfs::types::ChangeKind::Everything);
    thread::sleep(Duration::from_millis(50));
    *volume.delay.lock() = Duration::from_millis(900);
    let started = Instant::now();
    assert_eq!(errno(fs::metadata(tree.at("slow-too"))), libc::EIO);
    assert!((300..800).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert_eq!(tree.view.status().sessions[0].requests.timed_out, 1);
    assert_eq!(fs::read_to_string(tree.at("kept")).expect("the session goes on"), "x");
    thread::sleep(Duration::from_millis(900));
    tree.view.unmount().expect("unmounted");
    assert_eq!(volume.lookups(), 0, "the lookup that came too late was given back");
}

#[test]
fn a_panic_answers_eio_and_the_session_lives_on() {
    let mut parts = Parts::new();
    let volume = parts.memory("/");
    let tree = parts.mount(&MountOptions::default());
    for round in 0..20 {
        volume.panics.store(true, SeqCst);
        assert_eq!(errno(fs::metadata(tree.at(format!("one{round}")))), libc::EIO);
        *volume.delay.lock() = Duration::from_millis(1);
        assert_eq!(errno(fs::metadata(tree.at(format!("slow{round}")))), libc::EIO, "on the runtime, too");
        volume.panics.store(false, SeqCst);
        fs::write(tree.at(format!("f{round}")), "x").expect("written");
    }
    tree.view.unmount().expect("unmounted");
    soon("every lookup is given back", || volume.lookups() == 0);
}
