//! The sources of this package as text and as tokens.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::path::{Path, PathBuf};

/// A source file: its path from the package's root, with slashes, and its text.
pub struct Source {
    /// Such as `src/fs/mod.rs`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// The root of this package.
pub fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below `dir`, in the order of their paths.
pub fn read_sources(dir: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(package().join(&dir)).expect("a folder of sources") {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            let path = format!("{dir}/{name}");
            if package().join(&path).is_dir() {
                left.push(path);
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(package().join(&path)).expect("a readable source");
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!sources.is_empty());
    sources
}

/// The room that a file of src belongs to: `fs` for `src/fs/a.rs`, `lib` for `src/lib.rs`.
pub fn room(path: &str) -> String {
    let path = path.strip_prefix("src/").expect("a file of src");
    let first = path.split('/').next().expect("a path has a first part");
    Path::new(first).with_extension("").display().to_string()
}

/// The tokens of a source; comments are gone, and texts are single tokens.
pub fn tokens(text: &str) -> TokenStream {
    text.parse().expect("a source that compiles")
}

/// The modules that are named without a body: `mod x;`.
pub fn modules(text: &str) -> Vec<String> {
    let trees: Vec<TokenTree> = tokens(text).into_iter().collect();
    let named = trees.windows(3).filter_map(|window| match window {
        [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Punct(end)]
            if word == "mod" && end.as_char() == ';' =>
        {
            Some(name.to_string())
        }
        _ => None,
    });
    named.collect()
}

/// The lines in which the word stands as code.
pub fn lines_with(text: &str, word: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    walk(tokens(text), &mut |trees| {
        lines.extend(trees.iter().filter_map(|tree| match tree {
            TokenTree::Ident(ident) if ident == word => Some(ident.span().start().line),
            _ => None,
        }));
    });
    lines
}

/// The lines in which these words stand one after another, joined by `::`.
pub fn lines_with_path(text: &str, words: &[&str]) -> Vec<usize> {
    let mut lines = Vec::new();
    walk(tokens(text), &mut |trees| {
        lines.extend(trees.windows(words.len() * 3 - 2).filter_map(|window| {
            let ends = window.iter().step_by(3).zip(words);
            let same = ends.clone().all(|(tree, word)| matches!(tree, TokenTree::Ident(ident) if ident == word));
            same.then(|| window[0].span().start().line)
        }));
    });
    lines
}

/// The lines in which a macro of this name is called.
pub fn lines_with_macro(text: &str, name: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    walk(tokens(text), &mut |trees| {
        lines.extend(trees.windows(2).filter_map(|window| match window {
            [TokenTree::Ident(ident), TokenTree::Punct(mark)] if ident == name && mark.as_char() == '!' => {
                Some(ident.span().start().line)
            }
            _ => None,
        }));
    });
    lines
}

fn walk(stream: TokenStream, visit: &mut impl FnMut(&[TokenTree])) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    visit(&trees);
    for tree in trees {
        if let TokenTree::Group(group) = tree {
            assert!(group.delimiter() != Delimiter::None || group.stream().is_empty());
            walk(group.stream(), visit);
        }
    }
}

#[test]
fn only_code_is_read() {
    let text = "// unsafe\n/// unsafe\nfn f() { let s = \"unsafe\"; }\nmod a;\n#[cfg(test)]\nmod b;\nmod c { unsafe fn g() {} }\nfn h() { todo!() }";
    assert_eq!(lines_with(text, "unsafe"), [7]);
    assert_eq!(lines_with_macro(text, "todo"), [8]);
    assert_eq!(modules(text), ["a", "b"]);
    assert_eq!(lines_with_path("fn f() {\n std::thread::sleep(x) }", &["thread", "sleep"]), [2]);
}
