//! An overlay whose lower directory is the mount, as container engines make them.

use crate::harness::{each_stored_kind, tree};

each_stored_kind! {
    fn it_is_the_lower_directory_of_an_overlay(scene) {
        tree::make(&scene.at("lower"), 200, 9);
        let right = tree::told(&scene.at("lower"));
        let script = r#"
            cd "$1"; mkdir -p tmp; mount -t tmpfs tmpfs tmp; mkdir tmp/upper tmp/work tmp/merged
            trap 'cd "$1"; umount tmp/merged || true; umount -l tmp' EXIT
            mount -t overlay overlay -o "lowerdir=$2/lower,upperdir=tmp/upper,workdir=tmp/work" tmp/merged
            diff -r --no-dereference "$2/lower" tmp/merged
            cd tmp/merged; file=$(find . -type f -size +0 | sort | sed -n 1p)
            cp -p "$file" ../kept; echo more >> "$file"; chmod 600 "$file"; ln "$file" linked; mv "$file" moved
            test ! -e "$file"; cmp <(head -c -5 moved) ../kept; tail -c 5 linked | grep -qx more
            mkdir new; echo x > new/file; rm -rf d000; test ! -e d000; find . -type f -delete; find . -type l -delete
        "#;
        scene.bash(script, &[scene.home(), scene.path()]);
        tree::assert_same(&right, &tree::told(&scene.at("lower")));
    }
}
