//! rsync and zip: whole trees packed, sent and compared.

use super::files::rich_tree;
use crate::harness::{each_stored_kind, program, put, slurp, tree};
use std::fs::remove_file;

each_stored_kind! {
    fn rsync_brings_a_tree_in_and_out(scene) {
        program::need(&["rsync"]);
        let source = scene.home().join("source");
        rich_tree(&source);
        let right = tree::told(&source);
        let send = "rsync -@-1 -aHAX \"$1/\" in/; rsync -@-1 -aHAX in/ \"$2/\"";
        scene.bash(send, &[&source, &scene.home().join("out")]);
        tree::assert_same(&right, &tree::told(&scene.at("in")));
        tree::assert_same(&right, &tree::told(&scene.home().join("out")));
        assert_eq!(scene.bash("rsync -@-1 -aHAXin \"$1/\" in/; rsync -@-1 -aHAXinc in/ \"$1/\"", &[&source]), "", "nothing differs, by times or by sums");
        put(source.join("second-name"), "changed, under both its names");
        remove_file(source.join("d002/odd/file-00101.txt")).expect("unlink");
        let told = scene.bash("rsync -@-1 -aHAXi --delete \"$1/\" in/", &[&source]);
        assert!(told.contains("*deleting") && told.contains("second-name"), "{told}");
        tree::assert_same(&tree::told(&source), &tree::told(&scene.at("in")));
        scene.bash("rsync -a --inplace --no-whole-file \"$1/\" in/; rsync -a --append-verify \"$1/\" in/; rsync -a --link-dest=\"$2\" in/ linked/", &[&source, &scene.at("in")]);
        assert_eq!(scene.bash("stat -c %i in/d001/even/* linked/d001/even/* | sort | uniq -u", &[]), "", "what is unchanged is linked");
        scene.remount_if_kept();
        assert_eq!(scene.bash("rsync -@-1 -aHAXin in/ \"$1/\"", &[&source]), "");
    }

    fn zip_packs_and_unzip_unpacks(scene) {
        program::need(&["zip", "unzip"]);
        tree::make(&scene.at("tree"), 200, 5);
        scene.bash("zip -qry tree.zip tree; unzip -qt tree.zip; mkdir out; unzip -q -d out tree.zip; diff -r --no-dereference tree out/tree", &[]);
        scene.bash("unzip -qo -d out tree.zip; echo more > tree/more; zip -qr tree.zip tree/more; unzip -qo -d out tree.zip; zip -qd tree.zip tree/more; unzip -qt tree.zip", &[]);
        assert_eq!(slurp(scene.at("out/tree/more")), b"more\n");
    }
}
