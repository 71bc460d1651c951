//! Database servers and engines whose files lie on the mount: PostgreSQL and DuckDB.

use super::tools;
use crate::harness::{Scene, each_stored_kind, full};
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Duration;

/// Whose server it is: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65534;

/// The server and its bench for a minute in a full check, else for three seconds.
const SERVER: &str = r#"
PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH
run() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
start() { run pg_ctl -s -D data -l "$1/postgres.log" -w -t 60 -o "-c listen_addresses='' -k $1" start || { cat "$1/postgres.log"; exit 1; }; }
stop() { run pg_ctl -s -D data -w -t 60 -m "$1" stop; }
ask() { run psql -h "$1" -U test -d postgres -v ON_ERROR_STOP=1 -Atqc "$2"; }
trap 'run pg_ctl -s -D data -w -m immediate stop || true' ERR
run initdb -D data -U test --auth=trust --data-checksums > "$1/initdb.log" 2>&1 || { cat "$1/initdb.log"; exit 1; }
start "$1"
run pgbench -h "$1" -U test -i -q -s 2 postgres > /dev/null 2>&1
run pgbench -h "$1" -U test -c 4 -j 2 -T "$2" postgres > "$1/bench" 2>&1 || { cat "$1/bench"; exit 1; }
grep -q 'number of failed transactions: 0' "$1/bench"
before=$(ask "$1" 'select count(*), sum(abalance) from pgbench_accounts; select count(*) > 0 from pgbench_history')
for statement in "create tablespace t location '$1/elsewhere'" 'drop tablespace t' 'vacuum full' checkpoint; do ask "$1" "$statement"; done
stop immediate
start "$1"
test "$before" = "$(ask "$1" 'select count(*), sum(abalance) from pgbench_accounts; select count(*) > 0 from pgbench_history')"
stop fast
run pg_checksums -D data --check > /dev/null
echo ok
"#;

fn server_runs(scene: &mut Scene) {
    scene.takes(Duration::from_secs(300));
    // Its socket lies beside the mount, and so does what it says.
    chown(scene.home(), Some(NOBODY), Some(NOBODY)).expect("chown");
    std::fs::create_dir(scene.home().join("elsewhere")).expect("mkdir");
    chown(scene.home().join("elsewhere"), Some(NOBODY), Some(NOBODY)).expect("chown");
    std::fs::create_dir(scene.at("data")).expect("mkdir");
    std::fs::set_permissions(scene.at("data"), PermissionsExt::from_mode(0o700)).expect("chmod");
    chown(scene.at("data"), Some(NOBODY), Some(NOBODY)).expect("chown");
    let seconds = if full() { "60" } else { "3" };
    let home = scene.home().to_owned();
    assert_eq!(scene.bash(SERVER, &[&home, seconds.as_ref()]), "ok\n");
}

each_stored_kind! {
    fn postgres_serves_from_the_mount(scene) {
        tools::need_postgres();
        server_runs(scene);
    }

    fn duckdb_keeps_a_database(scene) {
        let python = tools::python_with("duckdb");
        let make = "import duckdb\nwith duckdb.connect('desk.duckdb') as db:\n db.execute('set memory_limit=\"256MB\"')\n \
            db.execute(\"set temp_directory='spill'\")\n db.execute('create table t as select range as id, hash(range)::varchar as v from range(300000)')\n \
            db.execute('checkpoint'); db.execute('delete from t where id % 3 = 0'); db.execute(\"copy t to 'out.parquet'\"); db.execute(\"copy t to 'out.csv'\")\n \
            db.execute('begin'); db.execute('delete from t'); db.execute('rollback')\n";
        let ask = "import duckdb\nwith duckdb.connect('desk.duckdb', read_only=True) as db:\n \
            for f in ['t', \"'out.parquet'\", \"'out.csv'\"]:\n  print(db.execute(f'select count(*), sum(id), count(distinct v) from {f}').fetchone())\n";
        scene.program(&python).args(["-c", make]).text();
        let told = scene.program(&python).args(["-c", ask]).text();
        assert_eq!(told.lines().collect::<std::collections::HashSet<_>>().len(), 1, "all three hold the same: {told}");
        assert!(told.starts_with("(200000, 30000000000"), "{told}");
        scene.remount_if_kept();
        assert_eq!(scene.program(&python).args(["-c", ask]).text(), told);
    }
}
