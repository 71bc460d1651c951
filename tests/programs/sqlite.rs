//! sqlite3: databases in WAL and in rollback mode, also from several processes.

use crate::harness::{Scene, each_stored_kind, program, put};
use std::fmt::Write;
use std::time::Duration;

/// Ten thousand inserts in a hundred transactions.
fn inserts() -> String {
    let mut script = String::new();
    for transaction in 0..100 {
        script.push_str("begin;\n");
        for row in 0..100 {
            let number = transaction * 100 + row;
            writeln!(script, "insert into t(v, b) values('row {number}', randomblob({}));", 20 + number % 300)
                .expect("text");
        }
        script.push_str("commit;\n");
    }
    script
}

fn query(scene: &Scene, sql: &str) -> String {
    scene.program("sqlite3").args(["-init", "/dev/null", "-bail", "-cmd", ".timeout 20000", "desk.db", sql]).text()
}

fn ten_thousand_rows(scene: &mut Scene, journal: &str) {
    program::need(&["sqlite3"]);
    scene.takes(Duration::from_secs(180));
    assert_eq!(query(scene, &format!("pragma journal_mode={journal}")), format!("{journal}\n"));
    query(scene, "create table t(id integer primary key, v text, b blob); create index i on t(v)");
    put(scene.home().join("inserts.sql"), inserts());
    scene.bash("sqlite3 -init /dev/null -bail desk.db < \"$1\"", &[&scene.home().join("inserts.sql")]);
    query(scene, "begin; delete from t where id % 2 = 0; rollback; update t set v = v || '!' where id % 3 = 0");
    let sum = query(scene, "pragma integrity_check; select count(*), sum(length(b)), count(distinct v) from t");
    assert!(sum.starts_with("ok\n10000|") && sum.ends_with("|10000\n"), "{sum}");
    scene.remount_if_kept();
    assert_eq!(query(scene, "pragma integrity_check; select count(*), sum(length(b)), count(distinct v) from t"), sum);
    query(scene, "vacuum");
    assert_eq!(query(scene, "pragma integrity_check; select count(*), sum(length(b)), count(distinct v) from t"), sum);
}

each_stored_kind! {
    fn wal_mode_takes_ten_thousand_inserts(scene) {
        ten_thousand_rows(scene, "wal");
    }

    fn rollback_mode_takes_ten_thousand_inserts(scene) {
        ten_thousand_rows(scene, "delete");
    }

    fn processes_share_a_database(scene) {
        program::need(&["sqlite3"]);
        for journal in ["wal", "delete"] {
            query(scene, &format!("drop table if exists n; pragma journal_mode={journal}; create table n(who int, v int)"));
            let script = "for i in $(seq 60); do sqlite3 -init /dev/null -bail -cmd '.timeout 20000' desk.db \"insert into n values($1, $i)\"; done";
            let writers = ["1", "2", "3"].map(|who| scene.program("bash").args(["-euo", "pipefail", "-c", script, "bash", who]).start());
            writers.into_iter().for_each(|writer| drop(writer.text()));
            let counted = query(scene, "pragma integrity_check; select who, count(*), sum(v) from n group by who");
            assert_eq!(counted, "ok\n1|60|1830\n2|60|1830\n3|60|1830\n", "{journal}");
        }
    }

    fn a_writer_is_kept_out_by_another(scene) {
        program::need(&["sqlite3", "python3"]);
        query(scene, "create table t(v)");
        let script = "import sqlite3\na=sqlite3.connect('desk.db',isolation_level=None,timeout=0);b=sqlite3.connect('desk.db',isolation_level=None,timeout=0)\n\
            a.execute('begin immediate');a.execute('insert into t values(1)')\ntry:\n b.execute('begin immediate'); print('BROKEN')\n\
            except sqlite3.OperationalError as e: print(e)\na.execute('commit');b.execute('begin immediate');b.execute('insert into t values(2)');b.execute('commit')\n\
            print(a.execute('select sum(v) from t').fetchone()[0])";
        assert_eq!(scene.program("python3").args(["-c", script]).text(), "database is locked\n3\n");
    }
}
