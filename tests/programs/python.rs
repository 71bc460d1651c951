//! python3: a virtual environment is made and run.

use crate::harness::{each_stored_kind, program, put, tree};
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

    fn pip_installs_a_local_package(scene) {
        program::need(&["python3"]);
        scene.takes(Duration::from_secs(240));
        // A wheel is a zip file with its own listing; made by hand, it needs no build backend.
        let wheel = "import zipfile, hashlib, base64\nfiles = {'greet/__init__.py': 'def greet(): return \"hello\"\\n', \
            'greet-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\\nName: greet\\nVersion: 1.0\\n', \
            'greet-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n', \
            'greet-1.0.dist-info/entry_points.txt': '[console_scripts]\\ngreet = greet:greet\\n'}\n\
            digest = lambda t: base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b'=').decode()\n\
            record = ''.join(f'{n},sha256={digest(t)},{len(t)}\\n' for n, t in files.items()) + 'greet-1.0.dist-info/RECORD,,\\n'\n\
            with zipfile.ZipFile('greet-1.0-py3-none-any.whl', 'w') as z:\n  \
            for n, t in [*files.items(), ('greet-1.0.dist-info/RECORD', record)]: z.writestr(n, t)\n";
        scene.program("python3").args(["-c", wheel]).text();
        let pip = "python3 -m venv env; pip() { env/bin/python -m pip --no-cache-dir --disable-pip-version-check -q \"$@\"; }; ";
        scene.bash(&format!("{pip} pip install --no-index ./greet-1.0-py3-none-any.whl; env/bin/python -c 'import greet; assert greet.greet() == \"hello\"'; test -x env/bin/greet"), &[]);
        scene.bash(&format!("{pip} pip install --no-index --force-reinstall ./greet-1.0-py3-none-any.whl; pip check; pip uninstall -y greet; test ! -e env/bin/greet; ! env/bin/python -c 'import greet' 2> /dev/null"), &[]);
    }

    fn shutil_and_tempfile_do_their_work(scene) {
        program::need(&["python3"]);
        tree::make(&scene.at("tree"), 100, 4);
        let script = "import shutil, tempfile, os, filecmp, pathlib\n\
            shutil.copytree('tree', 'copy', symlinks=True)\nshutil.make_archive('packed', 'gztar', 'tree')\nshutil.unpack_archive('packed.tar.gz', 'out', filter='tar')\n\
            same = lambda a, b: (c := filecmp.dircmp(a, b)) and not (c.left_only or c.right_only or c.diff_files) and all(same(os.path.join(a, d), os.path.join(b, d)) for d in c.common_dirs)\n\
            assert same('tree', 'copy') and same('tree', 'out')\nshutil.move('copy', 'moved')\nshutil.copystat('tree', 'out')\nassert shutil.disk_usage('.').total > 0\n\
            os.environ['TMPDIR'] = os.getcwd()\ntempfile.tempdir = None\n\
            with tempfile.TemporaryDirectory() as d, tempfile.TemporaryFile() as t, tempfile.NamedTemporaryFile() as n, tempfile.SpooledTemporaryFile(max_size=10) as s:\n \
             pathlib.Path(d, 'f').write_text('x'); t.write(b'y' * 100000); t.seek(0); assert len(t.read()) == 100000\n \
             n.write(b'z'); n.flush(); assert open(n.name).read() == 'z'; s.write(b'w' * 100); s.seek(0); assert s.read() == b'w' * 100\n\
            for d in ['moved', 'out', 'tree']: shutil.rmtree(d)\nos.remove('packed.tar.gz'); print(os.listdir('.'))\n";
        assert_eq!(scene.program("python3").args(["-c", script]).text(), "[]\n");
    }
}
