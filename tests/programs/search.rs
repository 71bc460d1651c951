//! find, rg, grep, du, df, ls: what they tell of a tree.

use crate::harness::{Kind, Sessions, each_stored_kind, program, put, tree};
use std::fs::create_dir_all;

each_stored_kind! {
    fn searches_find_everything(scene) {
        program::need(&["rg", "find", "grep"]);
        tree::make(scene.path(), 800, 5);
        for index in [3, 77, 750] {
            let dir = scene.at(format!("hay/{index}/[...slug]"));
            create_dir_all(&dir).expect("mkdir");
            put(dir.join("needle.md"), format!("first\na needle in line two of {index}\n"));
        }
        let rg = scene.bash("rg -n --no-heading --sort path needle; rg -c '' -g '*.md' | wc -l; rg -uuu -l 'in line two' . | wc -l", &[]);
        let line = |index| format!("hay/{index}/[...slug]/needle.md:2:a needle in line two of {index}\n");
        assert_eq!(rg, format!("{}{}{}3\n3\n", line(3), line(750), line(77)));
        assert_eq!(scene.bash("grep -rl needle . | sort | head -1; find . -type f | wc -l; find . -type l | wc -l; find . -name '*.md' -newer d000 | wc -l; find . -perm -100 -type f | wc -l", &[]),
            "./hay/3/[...slug]/needle.md\n803\n32\n3\n80\n");
        scene.remount_if_kept();
        assert_eq!(scene.bash("rg -l needle | wc -l; find . | wc -l; ls -lR | wc -l | sed 's/.*/listed/'", &[]), "3\n891\nlisted\n");
    }

    fn sizes_are_told(scene) {
        scene.bash("mkdir d; head -c 1000000 /dev/urandom > d/a; head -c 500000 /dev/urandom > d/b; ln d/a d/c; truncate -s 10M d/hole", &[]);
        let told: Vec<u64> = scene.bash("sync d/a d/b; du -sk d; du -sk --apparent-size d", &[]).split_whitespace()
            .filter_map(|word| word.parse().ok()).collect();
        assert!((1460..3000).contains(&told[0]), "what it takes: {told:?}");
        assert!((11_700..13_000).contains(&told[1]), "what it seems: {told:?}");
    }

    fn df_tells_of_the_mount(scene) {
        let told = scene.bash("df --output=target,size,used,avail -k . | tail -1", &[]);
        let words: Vec<&str> = told.split_whitespace().collect();
        if scene.kind() != Kind::Native {
            // One session is one mount to df.
            let mount = if scene.sessions() == Sessions::Nested { scene.path().to_owned() } else { scene.root() };
            assert_eq!(words[0], mount.to_str().expect("UTF-8"));
        }
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        assert!(number(1) > 0 && number(2) + number(3) <= number(1), "{told}");
        scene.bash("df -i . | tail -1", &[]);
    }
}
