//! python3: a virtual environment is made and run.

use crate::harness::{each_stored_kind, program, put};
use std::time::Duration;

each_stored_kind! {
    fn a_virtual_environment_runs(scene) {
        program::need(&["python3"]);
        scene.takes(Duration::from_secs(240));
        let made = scene.program("python3").args(["-m", "venv", "env"]).output();
        let said = String::from_utf8_lossy(&made.stdout).into_owned() + &String::from_utf8_lossy(&made.stderr);
        assert!(!said.contains("ensurepip is not"), "missing here: install python3-venv (scripts/check does so)");
        assert!(made.status.success(), "{said}");
        put(scene.at("greet.py"), "import sys, json, shutil, tempfile\nprint(sys.prefix, json.dumps({'a': 1}))\n");
        let run = scene.program("env/bin/python").arg("greet.py").text();
        assert_eq!(run, format!("{} {{\"a\": 1}}\n", scene.at("env").display()));
        assert!(scene.program("env/bin/python").args(["-m", "pip", "--version"]).text().starts_with("pip "));
        scene.bash("env/bin/python -m compileall -q env/lib >/dev/null || true; env/bin/python -c 'import pip; print(pip.__file__)'", &[]);
        scene.remount_if_kept();
        assert_eq!(scene.program("env/bin/python").arg("greet.py").text(), run);
    }

    fn a_module_is_imported_from_its_bytecode(scene) {
        program::need(&["python3"]);
        put(scene.at("part.py"), "VALUE = 1\n");
        let import = "import part; print(part.VALUE, len(__import__('os').listdir('__pycache__')))";
        assert_eq!(scene.program("python3").args(["-c", import]).text(), "1 1\n");
        put(scene.at("part.py"), "VALUE = 22\n");
        assert_eq!(scene.program("python3").args(["-c", import]).text(), "22 1\n", "its size or time has changed");
    }
}
