//! C compilers and make: objects, a library and a program, built in parallel and built anew after a change.

use crate::harness::{each_stored_kind, program, put};
use std::fmt::Write;

const MAKEFILE: &str = "CFLAGS = -O1 -MMD -g\nOBJECTS = $(patsubst %.c,%.o,$(wildcard part*.c))\n\
    app: main.o libparts.a\n\tcc -o $@ $^\nlibparts.a: $(OBJECTS)\n\tar rcs $@ $^\n-include *.d\n";
const PARTS: usize = 12;

each_stored_kind! {
    fn make_builds_in_parallel_and_only_what_changed(scene) {
        program::need(&["make", "cc", "ar"]);
        let (mut declared, mut called) = (String::new(), String::new());
        for part in 0..PARTS {
            put(scene.at(format!("part{part}.c")), format!("#include \"parts.h\"\nint part{part}(void) {{ return BASE + {part}; }}\n"));
            writeln!(declared, "int part{part}(void);").expect("text");
            write!(called, "+ part{part}()").expect("text");
        }
        put(scene.at("parts.h"), format!("#define BASE 100\n{declared}"));
        put(scene.at("main.c"), format!("#include <stdio.h>\n#include \"parts.h\"\nint main(void) {{ printf(\"%d\\n\", 0 {called}); return 0; }}\n"));
        put(scene.at("Makefile"), MAKEFILE);
        assert_eq!(scene.bash("make -s -j2; ./app; make -q; ldd app > /dev/null; strip -o small app; ./small", &[]), "1266\n1266\n");
        scene.bash("sed -i 's/BASE + 3;/BASE + 4;/' part3.c", &[]);
        assert_eq!(scene.bash("make -j2 | grep -c -- ' -c '; ./app", &[]), "1\n1267\n", "one object is built anew");
        scene.remount_if_kept();
        assert_eq!(scene.bash("make -q; sed -i 's/100/200/' parts.h; make -j2 | grep -c -- ' -c '; ./app; make -q", &[]), "13\n2467\n");
        scene.bash("cc -shared -fPIC -o libone.so part1.c; python3 -c 'import ctypes; assert ctypes.CDLL(\"./libone.so\").part1() == 201'", &[]);
    }
}
