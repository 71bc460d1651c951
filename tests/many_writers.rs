//! Many programs at once on one mount: nothing is torn, nothing is lost, no NUL byte comes in.

use crate::harness::actor::Part;
use crate::harness::{each_stored_kind, full, program, slurp};
use std::time::{Duration, Instant};

/// A child's role: rewrites a YAML file, in place and by rename in turn, for `numbers[0]` ms; reads it back each time.
pub fn rewrite_yaml(part: &Part) {
    let end = Instant::now() + Duration::from_millis(part.numbers[0]);
    let mut round = 0_usize;
    while Instant::now() < end || round == 0 {
        round += 1;
        let items: String =
            (0..50 + round % 700).map(|index| format!("  - name: item-{index}\n    round: {round}\n")).collect();
        let text = format!("items:\n{items}rounds: {round}\n");
        if round.is_multiple_of(2) {
            std::fs::write(&part.path, &text).expect("it can be rewritten in place");
        } else {
            let fresh = part.path.with_extension("tmp");
            std::fs::write(&fresh, &text).expect("a new file can be written");
            std::fs::rename(&fresh, &part.path).expect("it replaces the old one");
        }
        let read = std::fs::read_to_string(&part.path).expect("it can be read back");
        assert!(read == text, "round {round}: {} bytes came back as {}", text.len(), read.len());
    }
}

each_stored_kind! {
    fn git_sqlite_and_yaml_work_side_by_side(scene) {
        program::need(&["git", "sqlite3"]);
        let seconds = if full() { 60 } else { 8 };
        scene.takes(Duration::from_secs(180));
        scene.bash("git init -q repo; sqlite3 -init /dev/null desk.db 'pragma journal_mode=wal; create table t(id integer primary key, v text)'", &[]);
        let length = seconds.to_string();
        let commits = "cd repo; end=$((SECONDS + $1)); n=0; while [ $SECONDS -lt $end ]; do n=$((n+1)); echo \"line $n\" >> log; \
            for f in a b c; do seq $n $((n+200)) > $f-$((n%20)); done; git add -A; git commit -qm \"commit $n\"; done; echo $n";
        let inserts = "end=$((SECONDS + $1)); n=0; while [ $SECONDS -lt $end ]; do \
            for i in $(seq 50); do echo \"insert into t(v) values('$n-$i');\"; done | sqlite3 -init /dev/null -cmd '.timeout 20000' desk.db; \
            n=$((n+50)); done; echo $n";
        let start = |script: &str| scene.program("bash").args(["-euo", "pipefail", "-c", script, "bash", &length]).start();
        let (git, sqlite) = (start(commits), start(inserts));
        let yaml = ["one.yaml", "two.yaml"].map(|name| scene.actor("rewrite-yaml", &scene.at(name), &[seconds * 1000]));
        let commits: usize = git.text().trim().parse().expect("a count");
        let inserted: usize = sqlite.text().trim().parse().expect("a count");
        yaml.into_iter().for_each(|writer| drop(writer.text()));
        let sound = |place: &str| {
            scene.bash("cd repo; git fsck --strict --full 2>&1; git status --porcelain", &[]);
            let counted = scene.bash("git -C repo rev-list --count HEAD; sqlite3 -init /dev/null desk.db 'pragma integrity_check; select count(*) from t'", &[]);
            let right = format!("{commits}\nok\n{inserted}\n");
            assert_eq!(counted, right, "{place}");
            for name in ["one.yaml", "two.yaml", "repo/log", "repo/.git/logs/HEAD"] {
                assert!(!slurp(scene.at(name)).contains(&0), "{name} {place}: a NUL byte came in");
            }
        };
        sound("while mounted");
        scene.remount_if_kept();
        let again = scene.bash("git -C repo fsck --strict --full 2>&1; git -C repo rev-list --count HEAD; sqlite3 -init /dev/null desk.db 'pragma integrity_check; select count(*) from t'", &[]);
        assert!(again.ends_with(&format!("{commits}\nok\n{inserted}\n")), "after the next mount: {again}");
        assert!(commits > 2 && inserted > 50, "{commits} commits, {inserted} rows: too few to show anything");
    }
}
