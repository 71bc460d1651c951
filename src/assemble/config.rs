//! The config file: TOML, with every fault told by its line.

use super::place::{CONFIGURATION, Place};
use super::plan::{LogSettings, Plan, PlannedMount, View};
use super::spec::tree_path;
use super::suggest::known_are;
use super::vars::{VarFault, expand};
use super::volume_url::VolumeUrl;
use crate::mounts::disk::Io;
use crate::types::{Errno, Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// The levels of the log, from silent to everything.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    mount: Vec<MountTable>,
    #[serde(default)]
    view: BTreeMap<String, ViewTable>,
    log: Option<LogTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MountTable {
    at: Spanned<String>,
    volume: Spanned<String>,
    #[serde(default)]
    read_only: bool,
    io: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewTable {
    mountpoint: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogTable {
    level: Option<Spanned<String>>,
    file: Option<Spanned<String>>,
}

/// Reads the file at `path`. Relative paths in it are meant from its folder; `lookup` tells the variables of the
/// environment.
///
/// # Errors
/// `EINVAL` with the line at fault and what would be right; what `read(2)` says where the file cannot be read.
pub fn read(path: &Path, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Plan> {
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, error))?;
    let base = std::path::absolute(path)
        .ok()
        .and_then(|path| path.parent().map(Path::to_owned))
        .ok_or_else(|| Place::File(path.to_owned()).refuse("has no folder that relative paths could be meant from"))?;
    parse(&text, path, &base, lookup)
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::InvalidData {
        return Place::File(path.to_owned()).refuse("is not UTF-8, so it is no TOML");
    }
    Error::from_io(CONFIGURATION, error).context(format!("{}; `workfs init {0}` writes one", path.display()))
}

fn parse(text: &str, path: &Path, base: &Path, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Plan> {
    let mut document: Document = toml::from_str(text).map_err(|error| {
        let place = match error.span() {
            Some(span) => Place::at(path, text, span.start),
            None => Place::File(path.to_owned()),
        };
        place.refuse(explain(error.message(), error.span().map_or("", |span| key_before(&text[..span.start]))))
    })?;
    let reader = Reader { text, path, base };
    reader.expand_all(&mut document, lookup)?;
    reader.plan(&document)
}

/// The key whose value begins where `text` ends; empty where none does.
fn key_before(text: &str) -> &str {
    let line = text.rsplit('\n').next().unwrap_or_default();
    let key = line.rsplit(['{', ',']).next().unwrap_or_default();
    key.trim_end().strip_suffix('=').map_or("", str::trim)
}

/// A message of serde's, with the nearest known key where it is about an unknown one, and with the right form where a
/// value has the wrong one.
fn explain(message: &str, key: &str) -> String {
    let mut words = message.split('`').skip(1).step_by(2);
    if let Some((found, expected)) = message.strip_prefix("invalid type: ").and_then(|m| m.split_once(", expected ")) {
        let form = match expected.trim_end() {
            "a boolean" => "`true` or `false`, without quotes",
            "a string" => "a text in quotes",
            other => other,
        };
        let key = if key.is_empty() { "the value".to_owned() } else { format!("`{key}`") };
        return format!("{key} must be {form}; here it is {found}");
    }
    if !message.starts_with("unknown field") {
        return message.trim_end().replace('\n', "; ");
    }
    let key = words.next().unwrap_or_default();
    format!("unknown key `{key}`{}", known_are(key, &words.collect::<Vec<_>>()))
}

/// One file, while it is turned into a plan.
struct Reader<'a> {
    text: &'a str,
    path: &'a Path,
    base: &'a Path,
}

impl Reader<'_> {
    fn place<T>(&self, value: &Spanned<T>) -> Place {
        Place::at(self.path, self.text, value.span().start)
    }

    /// Puts the variables in. All that are missing are named at once, each with its line.
    fn expand_all(&self, document: &mut Document, lookup: &dyn Fn(&str) -> Option<String>) -> Result<()> {
        let mut faults = Vec::new();
        for value in strings(document) {
            match expand(value.get_ref(), lookup) {
                Ok(expanded) => *value.get_mut() = expanded,
                Err(found) => faults.extend(found.into_iter().map(|fault| (self.place(value), fault))),
            }
        }
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort_by_key(|(place, _)| match place {
            Place::Line(_, line) => *line,
            _ => 0,
        });
        let told = faults.iter().map(|(place, fault)| match fault {
            VarFault::Missing(name) => format!("{place}: the variable `{name}` is not set in the environment"),
            VarFault::Malformed(text) => format!("{place}: {text}"),
        });
        let text = told.collect::<Vec<_>>().join("\n  ");
        Err(Error::new(CONFIGURATION, Errno::EINVAL).context(text))
    }

    fn plan(&self, document: &Document) -> Result<Plan> {
        let mut plan = Plan::default();
        for table in &document.mount {
            plan.add(self.mount(table)?)?;
        }
        for (name, table) in &document.view {
            plan.views.push(View {
                name: name.clone(),
                mountpoint: self.path_in(&table.mountpoint)?,
                place: self.place(&table.mountpoint),
            });
        }
        if let Some(log) = &document.log {
            plan.log = self.log(log)?;
        }
        if plan.mounts.is_empty() {
            return Err(Place::File(self.path.to_owned())
                .refuse("has no mount; add a table `[[mount]]` with `at = \"/\"` and `volume = \"./project\"`"));
        }
        Ok(plan)
    }

    fn mount(&self, table: &MountTable) -> Result<PlannedMount> {
        let place = self.place(&table.volume);
        let text = table.volume.get_ref();
        if text.ends_with(":ro") && !Path::new(&self.base.join(text)).exists() {
            return Err(place.refuse("`:ro` belongs to the command line; here write `read_only = true`"));
        }
        let volume = VolumeUrl::parse(OsStr::new(text), self.base, &place)?;
        Ok(PlannedMount {
            at: tree_path(table.at.get_ref().as_bytes(), &self.place(&table.at))?,
            io: table.io.as_ref().map_or(Ok(Io::Cached), |io| self.io(io, &volume, table.read_only))?,
            volume,
            label: text.clone(),
            read_only: table.read_only,
            place,
        })
    }

    fn io(&self, io: &Spanned<String>, volume: &VolumeUrl, read_only: bool) -> Result<Io> {
        let refuse = |why: &str| Err(self.place(io).refuse(format!("`io = \"passthrough\"` {why}; leave `io` out")));
        match (io.get_ref().as_str(), volume) {
            ("cached", _) => Ok(Io::Cached),
            ("passthrough", VolumeUrl::Disk(_)) if read_only => refuse("does not go with `read_only = true`"),
            ("passthrough", VolumeUrl::Disk(_)) if !rustix::process::geteuid().is_root() => refuse("needs root"),
            ("passthrough", VolumeUrl::Disk(_)) => Ok(Io::Passthrough),
            ("passthrough", _) => refuse("is for disk volumes, whose files the host has too"),
            (name, _) => {
                let known = known_are(name, &["cached", "passthrough"]);
                Err(self.place(io).refuse(format!("`{name}` is no kind of `io`{known}")))
            }
        }
    }

    fn log(&self, table: &LogTable) -> Result<LogSettings> {
        if let Some(level) = &table.level
            && !LEVELS.contains(&level.get_ref().as_str())
        {
            let known = known_are(level.get_ref(), &LEVELS);
            return Err(self.place(level).refuse(format!("`{}` is no level of the log{known}", level.get_ref())));
        }
        Ok(LogSettings {
            level: table.level.as_ref().map(|level| level.get_ref().clone()),
            file: table.file.as_ref().map(|file| Ok((self.path_in(file)?, self.place(file)))).transpose()?,
        })
    }

    fn path_in(&self, value: &Spanned<String>) -> Result<PathBuf> {
        let text = value.get_ref();
        if text.is_empty() || text.contains('\0') {
            return Err(self.place(value).refuse("a path is missing here; write for example \"./workspace\""));
        }
        Ok(self.base.join(text))
    }
}

/// Every value in which variables are put in.
fn strings(document: &mut Document) -> impl Iterator<Item = &mut Spanned<String>> {
    let mounts = document.mount.iter_mut();
    let mounts = mounts.flat_map(|table| [&mut table.at, &mut table.volume].into_iter().chain(table.io.as_mut()));
    let views = document.view.values_mut().map(|table| &mut table.mountpoint);
    let log = document.log.iter_mut().flat_map(|log| log.level.iter_mut().chain(log.file.as_mut()));
    mounts.chain(views).chain(log)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan> {
        let lookup = |name: &str| (name == "DB").then(|| "desk.db".to_owned());
        parse(text, Path::new("w.toml"), Path::new("/base"), &lookup)
    }

    #[test]
    fn a_whole_file_is_read() {
        let plan = plan(concat!(
            "[[mount]]\nat = \"/\"\nvolume = \"./project\"\nio = \"cached\"\n",
            "[[mount]]\nat = \"memories\"\nvolume = \"sqlite:${DB}?namespace=a\"\nread_only = true\n",
            "[view.main]\nmountpoint = \"ws\"\n[log]\nlevel = \"debug\"\nfile = \"/var/log/w.log\"\n",
        ))
        .expect("a plan");
        assert_eq!(plan.mounts.len(), 2);
        assert_eq!(plan.mounts[0].volume, VolumeUrl::Disk("/base/./project".into()));
        assert_eq!(plan.mounts[1].volume, VolumeUrl::Sqlite("/base/desk.db".into(), "a".to_owned()));
        assert!(plan.mounts[1].read_only && !plan.mounts[0].read_only);
        assert_eq!(plan.views[0].mountpoint, PathBuf::from("/base/ws"));
        assert_eq!(plan.log.level.as_deref(), Some("debug"));
        assert_eq!(plan.log.file.map(|(file, _)| file), Some("/var/log/w.log".into()));
    }

    #[test]
    fn serde_is_put_into_plain_words() {
        let error = plan("[[mount]]\nat = \"/\"\nvolum = \"x\"\n").expect_err("a fault").to_string();
        assert!(error.contains("w.toml:3: unknown key `volum`; did you mean `volume`?"), "{error}");
        let error = plan("[[mount]]\nat = \"/\"\nvolume = 7\n").expect_err("a fault").to_string();
        assert!(error.contains("w.toml:3: `volume` must be a text in quotes; here it is integer `7`"), "{error}");
        let error =
            plan("mount = [{ at = \"/\", volume = \"x\", read_only = \"yes\" }]").expect_err("a fault").to_string();
        assert!(
            error.contains("w.toml:1: `read_only` must be `true` or `false`, without quotes; here it is"),
            "{error}"
        );
    }
}
