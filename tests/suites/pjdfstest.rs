//! pjdfstest: what POSIX asks of each call, some four hundred cases. None fails, on any kind of volume.

use crate::harness::{Kind, each_kind, program};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suites/pjdfstest.toml");

/// How the names of cases end that it passes over, and why it may. All but the last are passed over natively too.
const PASSED_OVER: &[(&str, &str)] = &[
    ("::erofs_named", "it would remount the tests' own filesystem read-only; behaviour_read_only asks this"),
    ("::erofs_new_file", "the same"),
    ("::exdev_target", "a native scene has no second filesystem"),
    ("::link_count_max", "the C library knows no greatest link count of a FUSE filesystem"),
];

/// How many cases it passes over at most.
const PASSED_OVER_AT_MOST: usize = 16;

/// The names of the cases in a report that ended so.
fn ended<'a>(report: &'a str, how: &str) -> Vec<&'a str> {
    report.lines().filter_map(|line| line.strip_suffix(how)?.split_whitespace().next()).collect()
}

/// A number of the report's last line, such as `0 failed, 16 skipped, …`.
fn counted(report: &str, what: &str) -> usize {
    let summary = report.lines().rev().find_map(|line| line.strip_prefix("Summary: "));
    let parts = summary.unwrap_or_else(|| panic!("no summary:\n{report}")).split(", ");
    let number =
        parts.filter_map(|part| part.split_once(' ')).find_map(|(number, name)| (name == what).then_some(number));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("nothing is said of {what}:\n{report}"))
}

each_kind! {
    fn pjdfstest_finds_no_fault(scene) {
        program::need(&["pjdfstest"]);
        // It binds sockets below names of its own, and a socket's path has 107 bytes at most.
        let short = tempfile::Builder::new().prefix("p").tempdir_in("/tmp").expect("a folder");
        set_permissions(short.path(), Permissions::from_mode(0o755)).expect("chmod");
        let place = short.path().join("l");
        symlink(scene.path(), &place).expect("symlink");
        let mut suite = scene.program("pjdfstest").dir(scene.home()).args(["-c", CONFIG, "-p"]).arg(&place);
        if scene.kind() != Kind::Native {
            suite = suite.arg("-s").arg(scene.root());
        }
        let output = suite.output();
        let report = String::from_utf8_lossy(&output.stdout);
        let (failed, skipped, passed) = (counted(&report, "failed"), counted(&report, "skipped"), counted(&report, "passed"));
        eprintln!("{failed} failed, {skipped} passed over, {passed} passed");
        assert_eq!((failed, ended(&report, "FAILED")), (0, vec![]), "{report}");
        let over = ended(&report, "skipped");
        assert_eq!(over.len(), skipped, "{report}");
        assert!(skipped <= PASSED_OVER_AT_MOST, "{over:?}");
        for case in over {
            assert!(PASSED_OVER.iter().any(|(end, _)| case.ends_with(end)), "{case} is passed over:\n{report}");
        }
        assert!(output.status.success() && passed > 370, "{}: {report}", output.status);
    }
}
