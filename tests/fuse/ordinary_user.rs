//! An ordinary user, who mounts by `fusermount3`.
//!
//! Each test runs in a mount namespace of its own, where `/dev/fuse` and `/etc/fuse.conf` are as a machine for many
//! users has them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

const NOBODY: u32 = 65_534;

/// Runs `script` as nobody in a folder of its own; `workfs` is the command.
fn as_nobody(fuse_conf: &str, script: &str) -> (tempfile::TempDir, Output) {
    let temp = tempfile::tempdir().expect("a directory");
    let home = temp.path().join("home");
    for dir in ["home", "dev", "bin"] {
        fs::create_dir(temp.path().join(dir)).expect("made");
    }
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).expect("set");
    chown(&home, Some(NOBODY), Some(NOBODY)).expect("given");
    fs::copy(env!("CARGO_BIN_EXE_workfs"), temp.path().join("bin/workfs")).expect("copied");
    fs::write(temp.path().join("fuse.conf"), fuse_conf).expect("written");
    fs::write(temp.path().join("script"), script).expect("written");
    let namespace = r#"set -e
        mount -t tmpfs -o dev,mode=755 none "$1/dev"
        mknod "$1/dev/fuse" c 10 229; chmod 666 "$1/dev/fuse"
        mount --bind "$1/dev/fuse" /dev/fuse
        mount --bind "$1/fuse.conf" /etc/fuse.conf
        export HOME="$1/home" WORKFS_STATE_DIR="$1/home/state" PATH="$1/bin:$PATH"
        cd "$1/home"
        exec setpriv --reuid 65534 --regid 65534 --clear-groups timeout 60 bash -eu "$1/script""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "bash", "-c", namespace, "bash"]).arg(temp.path());
    let output = command.output().expect("unshare is there");
    (temp, output)
}

fn lines(output: &Output) -> Vec<String> {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    out.lines().map(str::to_owned).collect()
}

/// Mounts three volumes, uses them, and prints what it sees.
const SESSION: &str = r#"
    mkdir mnt docs; echo guide > docs/guide
    workfs mount mnt -m /=root -m docs=./docs:ro -m mem=memory: > /dev/null
    trap 'fusermount3 -u -z mnt 2> /dev/null || true' EXIT
    grep -c " $PWD/mnt" /proc/mounts
    echo written > mnt/f; cat mnt/f root/f
    ( umask 0333; echo made > mnt/read-only ); cat mnt/read-only
    cat mnt/docs/guide
    touch mnt/docs/x 2> /dev/null || echo refused
    mv mnt/f mnt/mem/f; cat mnt/mem/f
    rmdir mnt/docs 2> /dev/null || echo busy
    workfs umount mnt > /dev/null
    grep -c " $PWD/mnt" /proc/mounts || true
"#;

#[test]
fn one_session_serves_the_whole_tree() {
    let (_temp, output) = as_nobody("", SESSION);
    let seen = ["1", "written", "written", "made", "guide", "refused", "written", "busy", "0"];
    assert_eq!(lines(&output), seen);
}

#[test]
fn sessions_nest_where_users_may_let_others_in() {
    let (_temp, output) = as_nobody("user_allow_other\n", SESSION);
    let seen = ["3", "written", "written", "made", "guide", "refused", "written", "busy", "0"];
    assert_eq!(lines(&output), seen);
}

#[test]
fn a_session_ends_when_its_user_unmounts_it() {
    let script = r#"
        mkdir mnt
        workfs mount mnt -m /=root > /dev/null
        echo kept > mnt/f
        fusermount3 -u mnt
        for i in $(seq 100); do workfs status | grep -q "$PWD/mnt" || break; sleep 0.05; done
        workfs status | grep -c "$PWD/mnt" || true
        cat root/f
    "#;
    let (temp, output) = as_nobody("", script);
    assert_eq!(lines(&output), ["0", "kept"]);
    assert!(!in_table(temp.path()));
}

fn in_table(path: &Path) -> bool {
    fs::read_to_string("/proc/mounts").expect("a table").contains(&path.display().to_string())
}
