//! Each promise of docs/SEMANTICS.md names tests that exist.

use std::path::Path;

#[test]
fn every_test_that_the_promises_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docs/SEMANTICS.md")).expect("the promises");
    let brackets = text.lines().filter_map(|line| line.rsplit_once(" (`")?.1.strip_suffix("`)"));
    let names: Vec<&str> = brackets.flat_map(|names| names.split("`, `")).collect();
    assert!(names.len() > 30, "only {} tests are named", names.len());
    for name in names {
        let place = root.join("tests").join(name);
        assert!(place.is_dir() || place.with_extension("rs").is_file(), "{name} is named and does not exist");
    }
}
