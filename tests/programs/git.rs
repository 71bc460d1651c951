//! git: repositories of 2,000 files, branches, garbage collection, clones, submodules and worktrees.

use crate::harness::{Kind, MountSpec, Scene, Sessions, each_stored_kind, program, slurp, tree};
use std::time::Duration;

each_stored_kind! {
    fn a_tree_of_two_thousand_files_is_committed(scene) {
        program::need(&["git"]);
        scene.takes(Duration::from_secs(240));
        tree::make(scene.path(), 2000, 1);
        let count = scene.bash("git init -q -b main .; git add .; git commit -qm first; git ls-files | wc -l", &[]);
        assert_eq!(count, "2080\n", "2,000 files and 80 symlinks");
        scene.bash("git fsck --strict --full", &[]);
        assert_eq!(scene.bash("git status --porcelain", &[]), "");
        scene.bash("for i in 1 2 3; do seq $i 900 > numbers; git add numbers; git commit -qm \"commit $i\"; done; git gc -q --aggressive --prune=now", &[]);
        scene.bash("git fsck --strict --full; test $(git rev-list --count HEAD) = 4", &[]);
        scene.remount_if_kept();
        assert_eq!(scene.bash("git status --porcelain; git fsck --strict --full; git log --format=%s", &[]),
            "commit 3\ncommit 2\ncommit 1\nfirst\n");
    }

    fn branches_are_switched(scene) {
        program::need(&["git"]);
        tree::make(scene.path(), 300, 2);
        scene.bash("git init -q -b main .; git add .; git commit -qm first", &[]);
        let main = tree::told(&scene.at("d000"));
        scene.bash("git switch -qc other; git rm -qr d000 d001; mkdir -p d000/even/deeper; echo x > d000/even/deeper/f; \
            chmod +x d002/even/*.txt; git mv d003 moved; git add -A; git commit -qm second", &[]);
        for _ in 0..3 {
            scene.bash("git switch -q main; git status --porcelain | diff - /dev/null; test -d d003 -a ! -e moved; \
                git switch -q other; git status --porcelain | diff - /dev/null; test -d moved -a -f d000/even/deeper/f", &[]);
        }
        scene.bash("git switch -q main; git merge -q --no-edit other; git switch -q --detach HEAD~1; git stash list; git switch -q main; git reset -q --hard HEAD~1", &[]);
        let names = |tree: &std::collections::BTreeMap<std::path::PathBuf, tree::Told>| tree.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&tree::told(&scene.at("d000"))), names(&main));
        assert!(slurp(scene.at(".git/logs/HEAD")).split(|&byte| byte == b'\n').count() > 8, "its log was appended to");
        scene.bash("git fsck --strict --full; echo 1 > new; git stash -qu; test ! -e new; git stash pop -q; cat new; git worktree add -q ../tree-beside HEAD; git worktree remove ../tree-beside", &[]);
    }

    fn submodules_and_clones_work(scene) {
        program::need(&["git"]);
        scene.bash("git init -q -b main library; cd library; echo lib > f; git add f; git commit -qm lib; cd ..; \
            git init -q -b main app; cd app; git -c protocol.file.allow=always submodule --quiet add ../library lib; git commit -qm app; \
            cat lib/f; git submodule --quiet foreach git fsck --strict", &[]);
        scene.bash("git clone -q app copy; git clone -q --bare app bare.git; git clone -q --no-local --depth 1 app shallow; \
            git -C copy push -q ../bare.git HEAD:refs/heads/pushed; git -C bare.git fsck --strict --full; git -C shallow log --oneline | wc -l", &[]);
        let modes = scene.bash("stat -c %a copy/.git/config; find copy/.git/objects -type f | head -1 | xargs stat -c %a", &[]);
        assert!(modes.ends_with("444\n"), "{modes}");
    }
}

/// Clones from one mount into another, and back into the first.
fn clone_between_mounts(kind: Kind, sessions: Sessions) {
    program::need(&["git"]);
    let outer = if kind == Kind::Native { kind } else { Kind::Disk };
    let other = if kind == Kind::Sqlite {
        Kind::Disk
    } else if kind == Kind::Disk {
        Kind::Sqlite
    } else {
        kind
    };
    let mounts = vec![MountSpec::new("/", outer), MountSpec::new("other", other), MountSpec::new("place", kind)];
    let scene = Scene::with_mounts(kind, sessions, mounts);
    tree::make(&scene.at("repo"), 2000, 7);
    let other = scene.root().join("other");
    let script = "git -C repo init -q -b main .; git -C repo add .; git -C repo commit -qm first; git clone -q repo \"$1/clone\"; \
        cd \"$1/clone\"; git fsck --strict --full; git status --porcelain | diff - /dev/null; diff -r --no-dereference -x .git \"$2/repo\" .; \
        echo more > more; git add more; git commit -qm second; git push -q origin HEAD:refs/heads/back; cd \"$2\"; git -C repo log --oneline back | wc -l";
    assert_eq!(scene.bash(script, &[&other, scene.path()]), "2\n");
    scene.end();
}

#[test]
fn a_clone_into_another_mount_native() {
    clone_between_mounts(Kind::Native, Sessions::Nested);
}

#[test]
fn a_clone_from_disk_into_another_mount() {
    clone_between_mounts(Kind::Disk, Sessions::Nested);
}

#[test]
fn a_clone_from_sqlite_into_another_mount() {
    clone_between_mounts(Kind::Sqlite, Sessions::Nested);
}

#[test]
fn a_clone_into_another_mount_of_a_single_session() {
    clone_between_mounts(Kind::Sqlite, Sessions::Single);
}
