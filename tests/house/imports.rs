//! Which file of src imports from which.
//!
//! Every path in the code counts, not only `use`: `crate::…`, `super::…`, `self::…`, `workfs::…` in the command, and what
//! begins with a module that the file itself declares. A name that a module only passes on (`pub use`) is an import of
//! the file where it is defined, so that a `mod.rs` which gathers its files makes no circle with them.

use super::source::{Source, tokens};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// One import.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Import {
    /// The file that imports.
    pub from: String,
    /// The file that it needs.
    pub to: String,
    /// Where, in the file that imports.
    pub line: usize,
}

/// A path as it stands in the code, made absolute: `["types", "Name"]`.
struct Mention {
    path: Vec<String>,
    line: usize,
    /// The name under which a `pub use` passes it on (`*` for all).
    passed_on_as: Option<String>,
}

/// The imports of a set of sources.
pub struct Imports(BTreeSet<Import>);

impl Imports {
    /// Reads the imports of all sources.
    pub fn of(sources: &[Source]) -> Imports {
        let files: BTreeMap<Vec<String>, &str> =
            sources.iter().map(|source| (module_of(&source.path), source.path.as_str())).collect();
        let mentions: BTreeMap<&str, Vec<Mention>> =
            sources.iter().map(|source| (source.path.as_str(), read(source, &files))).collect();
        let house = House { files: &files, mentions: &mentions };
        let mut imports = BTreeSet::new();
        for (from, mentions) in &mentions {
            for mention in mentions.iter().filter(|mention| mention.passed_on_as.is_none()) {
                if let Some(to) = house.file_of(&mention.path, 0).filter(|to| to != from) {
                    imports.insert(Import { from: (*from).to_owned(), to: to.to_owned(), line: mention.line });
                }
            }
        }
        Imports(imports)
    }

    /// All of them, in the order of the files that import.
    pub fn all(&self) -> &BTreeSet<Import> {
        &self.0
    }
}

struct House<'a> {
    files: &'a BTreeMap<Vec<String>, &'a str>,
    mentions: &'a BTreeMap<&'a str, Vec<Mention>>,
}

impl<'a> House<'a> {
    /// The file in which what this path means is defined.
    fn file_of(&self, path: &[String], depth: usize) -> Option<&'a str> {
        let (module, file) = (0..=path.len()).rev().find_map(|end| Some((end, *self.files.get(&path[..end])?)))?;
        let Some(name) = path.get(module) else { return Some(file) };
        if depth > 8 {
            return Some(file);
        }
        let passed_on =
            self.mentions[file].iter().filter_map(|mention| Some((mention.passed_on_as.as_ref()?, mention)));
        for (alias, mention) in passed_on {
            let rest = &path[module + 1..];
            if alias == name {
                return self.file_of(&[&mention.path[..], rest].concat(), depth + 1);
            }
        }
        Some(file)
    }
}

/// `["fs", "a"]` for `src/fs/a.rs`, and nothing for `src/lib.rs`. The command is a crate of its own: its modules stand
/// below `bin`.
fn module_of(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
    if parts[0] == "bin" && parts.last().is_some_and(|last| last == "main" || last == "workfs") {
        return vec!["bin".to_owned()];
    }
    if parts[0] == "bin" {
        parts.remove(1);
    }
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    parts
}

fn read(source: &Source, files: &BTreeMap<Vec<String>, &str>) -> Vec<Mention> {
    let module = module_of(&source.path);
    let children = files.keys().filter(|path| path.len() == module.len() + 1 && path.starts_with(&module));
    let mut reader = Reader {
        root: if module.first().is_some_and(|first| first == "bin") { vec!["bin".to_owned()] } else { Vec::new() },
        children: children.filter_map(|path| path.last().cloned()).collect(),
        module: module.clone(),
        mentions: Vec::new(),
    };
    reader.walk(tokens(&source.text), &module);
    reader.mentions
}

struct Reader {
    /// What `crate` means.
    root: Vec<String>,
    /// The modules that the file declares.
    children: BTreeSet<String>,
    module: Vec<String>,
    mentions: Vec<Mention>,
}

impl Reader {
    /// Reads the tokens that stand directly in the module `inside` (an inline module is one too).
    fn walk(&mut self, stream: TokenStream, inside: &[String]) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut index = 0;
        while index < trees.len() {
            match &trees[index] {
                TokenTree::Group(group) => {
                    let inner = inline_module(&trees[..index]);
                    let inside: Vec<String> = inside.iter().cloned().chain(inner).collect();
                    self.walk(group.stream(), &inside);
                }
                TokenTree::Ident(word) if !is_continued(&trees[..index]) => {
                    let start = self.start(&word.to_string(), inside, &trees[index + 1..]);
                    if let Some(start) = start {
                        let passed_on = is_pub_use(&trees[..index]);
                        let line = word.span().start().line;
                        index += 1 + self.follow(start, &trees[index + 1..], passed_on, line);
                        continue;
                    }
                }
                _ => {}
            }
            index += 1;
        }
    }

    /// The module that the first word of a path means, if it is one of this crate.
    fn start(&self, word: &str, inside: &[String], after: &[TokenTree]) -> Option<Vec<String>> {
        if !is_path_separator(after) {
            return None;
        }
        match word {
            "crate" => Some(self.root.clone()),
            "workfs" if !self.root.is_empty() => Some(Vec::new()),
            "self" => Some(inside.to_vec()),
            "super" => Some(inside[..inside.len().saturating_sub(1)].to_vec()),
            _ if self.children.contains(word) && inside == self.module => {
                Some(inside.iter().cloned().chain([word.to_owned()]).collect())
            }
            _ => None,
        }
    }

    /// Follows `:: a :: {b, c as d}` from `path` on, and gives how many tokens that were.
    fn follow(&mut self, mut path: Vec<String>, trees: &[TokenTree], passed_on: bool, line: usize) -> usize {
        let mut taken = 0;
        while is_path_separator(&trees[taken..]) {
            match trees.get(taken + 2) {
                Some(TokenTree::Ident(word)) if word == "super" => drop(path.pop()),
                Some(TokenTree::Ident(word)) if word == "self" => {}
                Some(TokenTree::Ident(word)) => path.push(word.to_string()),
                Some(TokenTree::Group(group)) => {
                    self.branches(&path, group.stream(), passed_on);
                    return taken + 3;
                }
                Some(TokenTree::Punct(star)) if star.as_char() == '*' => {
                    let passed_on_as = passed_on.then(|| "*".to_owned());
                    self.mentions.push(Mention { path, line, passed_on_as });
                    return taken + 3;
                }
                _ => break,
            }
            taken += 3;
        }
        let alias = match &trees[taken..] {
            [TokenTree::Ident(word), TokenTree::Ident(alias), ..] if word == "as" => Some(alias.to_string()),
            _ => path.last().cloned(),
        };
        self.mentions.push(Mention { path, line, passed_on_as: alias.filter(|_| passed_on) });
        taken
    }

    /// Reads the branches of a use tree, which commas part.
    fn branches(&mut self, path: &[String], stream: TokenStream, passed_on: bool) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        for branch in trees.split(|tree| matches!(tree, TokenTree::Punct(comma) if comma.as_char() == ',')) {
            let Some(first) = branch.first() else { continue };
            let line = first.span().start().line;
            let mut start = path.to_vec();
            if let TokenTree::Ident(word) = first
                && word != "self"
            {
                start.push(word.to_string());
            }
            self.follow(start, &branch[1..], passed_on, line);
        }
    }
}

/// Whether `::` comes next.
fn is_path_separator(trees: &[TokenTree]) -> bool {
    let colon = |tree: Option<&TokenTree>| matches!(tree, Some(TokenTree::Punct(mark)) if mark.as_char() == ':');
    colon(trees.first()) && colon(trees.get(1))
}

/// Whether the word after these tokens goes on with a path or a method call.
fn is_continued(before: &[TokenTree]) -> bool {
    let mark = |back: usize, wanted: char| {
        let tree = before.len().checked_sub(back).and_then(|index| before.get(index));
        matches!(tree, Some(TokenTree::Punct(mark)) if mark.as_char() == wanted)
    };
    (mark(1, ':') && mark(2, ':')) || mark(1, '.')
}

/// Whether these tokens end in `pub use` or `pub(crate) use`.
fn is_pub_use(before: &[TokenTree]) -> bool {
    let word =
        |tree: Option<&TokenTree>, wanted: &str| matches!(tree, Some(TokenTree::Ident(ident)) if ident == wanted);
    let mut back = before.iter().rev();
    if !word(back.next(), "use") {
        return false;
    }
    match back.next() {
        Some(TokenTree::Group(_)) => word(back.next(), "pub"),
        tree => word(tree, "pub"),
    }
}

/// The name of the inline module whose body comes next: `mod name { … }`.
fn inline_module(before: &[TokenTree]) -> Option<String> {
    match before {
        [.., TokenTree::Ident(word), TokenTree::Ident(name)] if word == "mod" => Some(name.to_string()),
        _ => None,
    }
}
