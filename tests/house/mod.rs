//! The laws of the house, read from its sources: floors, circles, sizes, unsafe lines, and that no test is forgotten.

mod imports;
pub mod source;

use imports::{Import, Imports};
use source::{Source, package, read_sources};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The rooms from the ground up. A room imports only from those before it.
const FLOORS: &[&str] = &["types", "mounts", "workspace", "fs", "assemble", "bin"];

/// The files that may hold unsafe code, and why no library spares them it.
const UNSAFE_FILES: &[(&str, &str)] =
    &[("src/mounts/disk/sys.rs", "file handles, fsuid and groups of a thread: no safe library has them")];

/// No file is longer, in lines: one of src, and one of the tests, where a case stands beside its like.
const LONGEST: [(&str, usize); 2] = [("src", 400), ("tests", 500)];

/// The files that are longer all the same, and why they are better whole.
const LONG_FILES: &[(&str, &str)] = &[];

fn complain(faults: Vec<String>, law: &str) {
    assert!(faults.is_empty(), "{law}:\n  {}", faults.join("\n  "));
}

#[test]
fn no_import_goes_up_a_floor() {
    let imports = Imports::of(&read_sources("src"));
    let floor = |room: &str| FLOORS.iter().position(|name| *name == room);
    let mut faults = Vec::new();
    for Import { from, to, line } in imports.all() {
        let (lower, upper) = (source::room(from), source::room(to));
        // lib.rs names all rooms, and belongs to none.
        if lower == "lib" {
            continue;
        }
        match (floor(&lower), floor(&upper)) {
            (Some(from_floor), Some(to_floor)) if to_floor <= from_floor => {}
            _ => faults.push(format!("{from}:{line} ({lower}) imports {to} ({upper})")),
        }
    }
    complain(faults, "a room imports only from the floors below it");
}

#[test]
fn every_room_has_its_floor() {
    let rooms: BTreeSet<String> = read_sources("src").iter().map(|source| source::room(&source.path)).collect();
    let known: BTreeSet<String> = FLOORS.iter().chain(&["lib"]).map(|room| (*room).to_owned()).collect();
    assert_eq!(rooms, known, "each room of src is one of the floors");
}

#[test]
fn no_import_makes_a_circle() {
    let imports = Imports::of(&read_sources("src"));
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports.all() {
        graph.entry(&import.from).or_default().insert(&import.to);
    }
    // What imports nothing that is left is taken away, until only circles and what leads to them are left.
    loop {
        let left: BTreeSet<&str> = graph.keys().copied().collect();
        graph.values_mut().for_each(|to| to.retain(|file| left.contains(file)));
        let before = graph.len();
        graph.retain(|_, to| !to.is_empty());
        if graph.len() == before {
            break;
        }
    }
    complain(circle(&graph), "files import each other in a circle");
}

/// Walks along imports that all lead to a circle, until a file comes again.
fn circle(graph: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let mut walk: Vec<&str> = Vec::new();
    let mut next = graph.keys().next().copied();
    while let Some(file) = next {
        if let Some(start) = walk.iter().position(|seen| *seen == file) {
            return walk[start..].iter().chain([&file]).map(|file| (*file).to_owned()).collect();
        }
        walk.push(file);
        next = graph[file].first().copied();
    }
    Vec::new()
}

#[test]
fn the_reader_of_imports_finds_what_there_is() {
    let file = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let sources = [
        file("src/lib.rs", "pub mod types; pub mod fs;"),
        file("src/types/mod.rs", "mod name; pub use name::{Name, other::Thing}; use self::name as n;"),
        file(
            "src/types/name.rs",
            "/// See [`crate::fs::X`].\npub struct Name; // crate::fs\nconst S: &str = \"crate::fs\";",
        ),
        file("src/fs/mod.rs", "mod a; mod b; use crate::types::Name; fn f() { b::run() }"),
        file("src/fs/a.rs", "use super::b::{self, Run as _};\nmod tests { use super::*; use super::super::b; }"),
        file("src/fs/b.rs", "fn g() -> crate::fs::a::A { println!(\"{}\", crate::types::Name) }"),
    ];
    let imports = Imports::of(&sources);
    let found: BTreeSet<String> = imports.all().iter().map(|i| format!("{} {}", i.from, i.to)).collect();
    let right = [
        "src/types/mod.rs src/types/name.rs",
        "src/fs/mod.rs src/types/name.rs",
        "src/fs/mod.rs src/fs/b.rs",
        "src/fs/a.rs src/fs/b.rs",
        "src/fs/b.rs src/fs/a.rs",
        "src/fs/b.rs src/types/name.rs",
    ];
    assert_eq!(found, right.map(str::to_owned).into());
}

#[test]
fn files_are_short_enough_to_read() {
    let mut faults = Vec::new();
    let mut allowed: BTreeMap<&str, &str> = LONG_FILES.iter().copied().collect();
    for (dir, longest) in LONGEST {
        for Source { path, text } in read_sources(dir) {
            let lines = text.lines().count();
            match allowed.remove(path.as_str()) {
                None if lines > longest => faults.push(format!("{path} has {lines} lines of at most {longest}")),
                Some(_) if lines <= longest => faults.push(format!("{path} is short now: take it off the list")),
                _ => {}
            }
        }
    }
    faults.extend(allowed.keys().map(|path| format!("{path} is on the list and does not exist")));
    complain(faults, "one thing a file");
}

#[test]
fn unsafe_code_is_only_where_it_may_be() {
    let mut faults = Vec::new();
    for Source { path, text } in read_sources("src") {
        let may = UNSAFE_FILES.iter().any(|(file, _)| *file == path);
        let lines = source::lines_with(&text, "unsafe");
        if !may && !lines.is_empty() {
            faults.push(format!("{path}: unsafe in the lines {lines:?}"));
        }
    }
    for (path, _) in UNSAFE_FILES {
        if !package().join(path).exists() {
            faults.push(format!("{path} is on the list and does not exist"));
        }
    }
    complain(faults, "unsafe code stands in few files, each with its reason");
}

/// A call, by the parts of its path, and the files that may make it, each with its reason.
type Sparing = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// What may be called only in few files, and why there.
const SPARING: &[Sparing] = &[(
    &["thread", "sleep"],
    &[
        ("src/fs/watch.rs", "the watch has a thread of its own"),
        ("src/fs/session.rs", "it waits for a session's end, on the thread that ends it"),
    ],
)];

#[test]
fn what_blocks_is_called_sparingly() {
    let mut faults = Vec::new();
    for Source { path, text } in read_sources("src").iter().filter(|source| !source.path.starts_with("src/bin/")) {
        for (call, files) in SPARING {
            let lines = source::lines_with_path(text, call);
            if !lines.is_empty() && !files.iter().any(|(file, _)| file == path) {
                faults.push(format!("{path}: {} in the lines {lines:?}", call.join("::")));
            }
        }
    }
    complain(faults, "a thread that serves the kernel must not sleep");
}

#[test]
fn what_is_begun_is_finished() {
    let mut faults = Vec::new();
    for Source { path, text } in read_sources("src") {
        for word in ["todo", "unimplemented", "dbg"] {
            for line in source::lines_with_macro(&text, word) {
                faults.push(format!("{path}:{line}: {word}!"));
            }
        }
    }
    complain(faults, "nothing is left to be done");
}

#[test]
fn no_test_file_is_forgotten() {
    let mut named = BTreeSet::new();
    let mut left = vec!["tests/main.rs".to_owned()];
    while let Some(path) = left.pop() {
        let text = std::fs::read_to_string(package().join(&path)).expect("a file that is named exists");
        let dir = module_dir(&path);
        for module in source::modules(&text) {
            let flat = format!("{dir}/{module}.rs");
            let nested = format!("{dir}/{module}/mod.rs");
            left.push(if package().join(&flat).exists() { flat } else { nested });
        }
        named.insert(path);
    }
    let there: BTreeSet<String> = read_sources("tests").into_iter().map(|source| source.path).collect();
    let forgotten: Vec<String> = there.difference(&named).map(|path| format!("{path} is in no `mod`")).collect();
    complain(forgotten, "a test that is not compiled shows nothing");
}

/// Where the modules that a file names lie.
fn module_dir(path: &str) -> String {
    let path = Path::new(path);
    let dir = path.parent().expect("a file is in a folder").display().to_string();
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("main" | "mod") => dir,
        Some(stem) => format!("{dir}/{stem}"),
        None => dir,
    }
}

#[test]
fn nothing_of_a_machine_is_in_the_repository() {
    let listed = std::process::Command::new("git").args(["ls-files", "-z"]).current_dir(package()).output();
    let Ok(listed) = listed else { panic!("missing here: install git") };
    let names = String::from_utf8(listed.stdout).expect("names are UTF-8");
    let mut faults = Vec::new();
    // Where this copy lies, the folder above it, and whose machine it is.
    let above = package().ancestors().nth(1).map_or_else(String::new, |dir| dir.display().to_string());
    let home = std::env::var("HOME").unwrap_or_default();
    let mut private = vec![above, home];
    private.retain(|path| path.len() > 1 && path != "/root" && path != "/tmp");
    private.iter_mut().for_each(|path| path.push('/'));
    for name in names.split('\0').filter(|name| !name.is_empty() && *name != "Cargo.lock") {
        let Ok(text) = std::fs::read_to_string(package().join(name)) else { continue };
        for (index, line) in text.lines().enumerate() {
            let starts_a_word =
                |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "./$}\"_-~".contains(c));
            if private.iter().any(|path| line.match_indices(path.as_str()).any(|(at, _)| starts_a_word(at))) {
                faults.push(format!("{name}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    complain(faults, "paths of one machine mean nothing on another");
}

/// Libraries that must not come in, and what is used instead.
const UNWANTED: &[(&str, &str)] = &[
    ("openssl-sys", "it asks for a library of the system; rustls does not"),
    ("native-tls", "it asks for a library of the system; rustls does not"),
    ("libfuse-sys", "fuser speaks to the kernel itself"),
    ("prost-build", "a build that asks for protoc does not run on a machine with only Rust and a C compiler"),
];

#[test]
fn no_unwanted_library_comes_in() {
    let lock = std::fs::read_to_string(package().join("Cargo.lock")).expect("the lock file is in the repository");
    let there = |name: &str| lock.contains(&format!("\nname = \"{name}\"\n"));
    let faults = UNWANTED.iter().filter(|(name, _)| there(name)).map(|(name, why)| format!("{name}: {why}")).collect();
    complain(faults, "unwanted libraries");
}

/// Licences that may stand beside ours.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "0BSD",
    "CC0-1.0",
    "BSL-1.0",
];

#[test]
fn every_library_has_a_licence_that_fits() {
    let mut command = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["metadata", "--format-version=1", "--offline", "--filter-platform=x86_64-unknown-linux-gnu"]);
    let output = command.current_dir(package()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 50);
    // "MIT OR X" fits if one side does, "MIT AND X" if both do; "/" is an old way of writing OR.
    let fits = |text: &str| {
        text.replace('/', " OR ").split(" AND ").all(|part| {
            part.split(" OR ").any(|name| {
                let name = name.trim_matches(|c: char| c == '(' || c == ')' || c.is_whitespace());
                LICENCES.contains(&name.split(" WITH ").next().unwrap_or(name))
            })
        })
    };
    let faults = packages.iter().filter_map(|package| {
        let licence = package["license"].as_str().unwrap_or("none told");
        (!fits(licence)).then(|| format!("{}: {licence}", package["name"]))
    });
    complain(faults.collect(), "licences");
}
