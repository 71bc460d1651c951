//! Programs that wait for changes made on the same mount: inotifywait, tail -F and Node's fs.watch.

use crate::harness::{Scene, changed_within, each_stored_kind, program, put};
use std::fs::{create_dir, remove_file, rename};
use std::time::Duration;

/// Waits until a file beside the mount says what it should.
#[track_caller]
fn await_said(scene: &Scene, file: &str, wanted: &str) {
    let said = || String::from_utf8_lossy(&std::fs::read(scene.home().join(file)).unwrap_or_default()).into_owned();
    assert!(changed_within(Duration::from_secs(10), || said().contains(wanted)), "no {wanted:?} in: {}", said());
}

each_stored_kind! {
    fn inotifywait_sees_what_is_done_here(scene) {
        program::need(&["inotifywait"]);
        create_dir(scene.at("dir")).expect("mkdir");
        let script = "exec inotifywait -m -q --format '%e %f' dir > \"$1/events\" 2> \"$1/ready\"";
        let watching = scene.program("bash").args(["-c", script, "bash"]).arg(scene.home()).start();
        // Quiet as it is, it says nothing when it is ready: the first file that it tells of does.
        assert!(changed_within(Duration::from_secs(10), || {
            put(scene.at("dir/first"), "x");
            std::fs::metadata(scene.home().join("events")).is_ok_and(|events| events.len() > 0)
        }));
        rename(scene.at("dir/first"), scene.at("dir/second")).expect("rename");
        remove_file(scene.at("dir/second")).expect("unlink");
        for event in ["MODIFY first", "CLOSE_WRITE,CLOSE first", "MOVED_FROM first", "MOVED_TO second", "DELETE second"] {
            await_said(scene, "events", event);
        }
        drop(watching);
    }

    fn tail_follows_a_name_through_its_rotation(scene) {
        put(scene.at("log"), "");
        let script = "exec tail -n +1 -F -s 0.1 log > \"$1/got\" 2> \"$1/errors\"";
        let tail = scene.program("bash").args(["-c", script, "bash"]).arg(scene.home()).start();
        scene.bash("echo one >> log", &[]);
        await_said(scene, "got", "one\n");
        scene.bash("mv log log.1; echo two > log", &[]);
        await_said(scene, "got", "one\ntwo\n");
        scene.bash("echo three >> log", &[]);
        await_said(scene, "got", "two\nthree\n");
        scene.bash("truncate -s 0 log", &[]);
        await_said(scene, "errors", "truncated");
        scene.bash("echo four >> log", &[]);
        await_said(scene, "got", "three\nfour\n");
        drop(tail);
    }

    fn node_watches_a_directory(scene) {
        program::need(&["node"]);
        create_dir(scene.at("dir")).expect("mkdir");
        let script = "const fs = require('fs'); const seen = new Set(); const timer = setTimeout(() => { console.log('late', [...seen]); process.exit(1) }, 20000);\
            const watcher = fs.watch('dir', (event, name) => { seen.add(event + ' ' + name); \
            if (seen.has('rename made') && seen.has('change made')) { clearTimeout(timer); watcher.close(); console.log('seen') } });\
            fs.writeFileSync('dir/made', 'x'); fs.appendFileSync('dir/made', 'y');";
        assert_eq!(scene.program("node").args(["-e", script]).text(), "seen\n");
    }
}
