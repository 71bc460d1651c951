//! Each promise of docs/SEMANTICS.md names tests that exist.

use crate::house::source::{package, read_sources};

/// Fails where there is no such test: a file or a folder below `tests`, or one test in it, such as `kill` or
/// `behaviour_rename::a_file_replaces_a_file`.
#[track_caller]
pub fn assert_exists(name: &str) {
    let (place, test) = name.split_once("::").map_or((name, None), |(place, test)| (place, Some(test)));
    let path = package().join("tests").join(place);
    assert!(path.is_dir() || path.with_extension("rs").is_file(), "{name} is named and does not exist");
    if let Some(test) = test {
        let (file, folder, head) = (format!("tests/{place}.rs"), format!("tests/{place}/"), format!("fn {test}("));
        let sources = read_sources("tests");
        let mut inside = sources.iter().filter(|source| source.path == file || source.path.starts_with(&folder));
        assert!(inside.any(|source| source.text.contains(&head)), "{name} is named, and {place} has no such test");
    }
}

#[test]
fn every_test_that_the_promises_name_exists() {
    let text = std::fs::read_to_string(package().join("docs/SEMANTICS.md")).expect("the promises");
    let brackets = text.lines().filter_map(|line| line.rsplit_once(" (`")?.1.strip_suffix("`)"));
    let names: Vec<&str> = brackets.flat_map(|names| names.split("`, `")).collect();
    assert!(names.len() > 30, "only {} tests are named", names.len());
    names.into_iter().for_each(assert_exists);
}
