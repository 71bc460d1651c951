//! `workfs status`.

use crate::cli;
use crate::control::{self, Reply};
use crate::failure::{DEAD, Failure, NOT_MOUNTED};
use crate::output;
use crate::report::{MountReport, Report};
use crate::state::{Entry, StateDir};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use workfs::fs;
use workfs::mounts::CacheUse;
use workfs::types::Errno;

/// How long a mount may take to say how it is.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a process that does not listen may take to listen, or to be gone.
const SETTLE: Duration = Duration::from_secs(2);

/// A mount, as far as it can be told.
#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum Told {
    /// It answered.
    Live(Box<Report>),
    /// Its process is there, but gave no answer.
    Silent {
        #[serde(flatten)]
        entry: Entry,
        error: String,
    },
    /// Its process is gone.
    Dead {
        #[serde(flatten)]
        entry: Entry,
        way_out: String,
    },
}

/// Tells of all mounts of this user, or of one; returns the exit code: 0 if all answered, 3 if not, 4 if there is none
/// at the DIR that was named.
///
/// # Errors
/// Exit code 1 where the notes cannot be read.
pub fn run(arguments: &cli::Status) -> Result<u8, Failure> {
    let state = StateDir::open()?;
    let mut entries = state.entries();
    if let Some(dir) = &arguments.dir {
        let mountpoint = match fs::resolve(dir) {
            // Nothing can be mounted over `/`, so nothing is.
            Err(error) if error.errno() == Errno::EINVAL => PathBuf::from("/"),
            found => found?,
        };
        entries.retain(|entry| entry.mountpoint == mountpoint);
        if entries.is_empty() {
            let text =
                format!("nothing of workfs is mounted at {}; `workfs status` lists what is", mountpoint.display());
            return Err(Failure::new(text).exit(NOT_MOUNTED));
        }
    }
    let runtime = control::runtime().map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))?;
    let told = runtime.block_on(ask_all(&state, entries));
    output::print(if arguments.json {
        serde_json::to_string_pretty(&told).map_err(|error| Failure::new(error.to_string()))? + "\n"
    } else if told.is_empty() {
        "nothing is mounted; `workfs mount --help` tells how\n".to_owned()
    } else {
        told.iter().map(text).collect::<Vec<_>>().join("\n")
    })?;
    let live = told.iter().all(|told| matches!(told, Told::Live(_)));
    Ok(if live { 0 } else { DEAD })
}

/// Asks all at once, so that several silent ones take no longer than one.
async fn ask_all(state: &StateDir, entries: Vec<Entry>) -> Vec<Told> {
    futures::future::join_all(entries.into_iter().map(|entry| ask(state, entry))).await
}

async fn ask(state: &StateDir, entry: Entry) -> Told {
    let error = match control::ask_status(&state.socket(&entry.mountpoint), &entry, ANSWER, SETTLE).await {
        Ok(None) => return dead(entry),
        Ok(Some(Reply::Status(report))) => return Told::Live(report),
        Ok(Some(_)) => "it answered something else than it was asked".to_owned(),
        Err(error) => error.to_string(),
    };
    Told::Silent { entry, error }
}

fn dead(entry: Entry) -> Told {
    let dir = entry.mountpoint.display();
    let way_out = format!("`workfs umount {dir}` cleans it away; `workfs mount` there does so by itself");
    Told::Dead { entry, way_out }
}

fn text(told: &Told) -> String {
    match told {
        Told::Live(report) => live_text(report),
        Told::Silent { entry, error } => format!(
            "{}  NOT ANSWERING  process {}, for {}: {error}\n  `workfs umount --lazy {0}` detaches it\n{}",
            entry.mountpoint.display(),
            entry.pid,
            since(entry.started),
            log_text(&entry.log)
        ),
        Told::Dead { entry, way_out } => format!(
            "{}  DEAD  process {} is gone; mounted {} ago\n  {way_out}\n{}",
            entry.mountpoint.display(),
            entry.pid,
            since(entry.started),
            log_text(&entry.log)
        ),
    }
}

fn log_text(log: &Option<PathBuf>) -> String {
    match log {
        Some(log) => format!("  log {}\n", log.display()),
        None => "  log on its terminal\n".to_owned(),
    }
}

fn live_text(report: &Report) -> String {
    let mut text = format!(
        "{}  live  process {}, for {}, version {}\n  {}: {}\n{}",
        report.entry.mountpoint.display(),
        report.entry.pid,
        since(report.entry.started),
        report.entry.version,
        report.mode,
        why(report),
        log_text(&report.entry.log)
    );
    let rows = report.mounts.iter().map(|mount| row(report, mount)).collect::<Vec<_>>();
    let head = ["AT", "KIND", "ACCESS", "USED", "AVAILABLE", "REQUESTS", "HEALTH", "VOLUME"].map(str::to_owned);
    let rows = std::iter::once(head).chain(rows).collect::<Vec<_>>();
    let widths: [usize; 8] = std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect::<Vec<_>>();
        text += &format!("  {}\n", cells.join("  ").trim_end());
    }
    text + &report.mounts.iter().map(caches_text).collect::<String>()
}

/// What a volume remembers, a line.
fn caches_text(mount: &MountReport) -> String {
    let cache = |cache: &CacheUse| {
        let amount = |amount: u64| if cache.in_bytes { human(amount) } else { amount.to_string() };
        let asked = cache.hits + cache.misses;
        let hits = (cache.hits * 100).checked_div(asked).map_or(String::new(), |share| format!(", {share} % hits"));
        format!("{} {} of {}{hits}", cache.name, amount(cache.weight), amount(cache.limit))
    };
    match &mount.caches[..] {
        [] => String::new(),
        caches => {
            format!("  caches of {}: {}\n", cell(&mount.at), caches.iter().map(cache).collect::<Vec<_>>().join("; "))
        }
    }
}

/// What may hold any character, in one line.
fn cell(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

fn why(report: &Report) -> String {
    match &report.sessions[..] {
        [one] if report.mounts.len() > 1 => {
            format!("{}; the one session was asked {} times", report.why, one.requests.total)
        }
        _ => report.why.clone(),
    }
}

fn row(report: &Report, mount: &MountReport) -> [String; 8] {
    // One session for several volumes counts for none of them.
    let own = report.sessions.len() > 1 || report.mounts.len() == 1;
    let session = report.sessions.iter().find(|session| own && session.at == mount.at);
    let bytes = |pick: fn(&crate::report::SizeReport) -> u64| {
        mount.size.as_ref().map_or("?".to_owned(), |size| human(pick(size)))
    };
    [
        cell(&mount.at),
        mount.kind.clone(),
        if mount.read_only { "ro" } else { "rw" }.to_owned(),
        bytes(|size| size.used),
        bytes(|size| size.available),
        session.map_or("-".to_owned(), |session| session.requests.total.to_string()),
        cell(&mount.health),
        cell(&mount.label),
    ]
}

/// A time span in its largest two units.
fn since(started: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(started, |since| since.as_secs());
    let seconds = now.saturating_sub(started);
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}

/// Bytes, as `df -h` shows them.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "K", "M", "G", "T", "P"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 10.0 { format!("{value:.0}{}", UNITS[unit]) } else { format!("{value:.1}{}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_spans_are_short() {
        assert_eq!(human(999), "999B");
        assert_eq!(human(1536), "1.5K");
        assert_eq!(human(20 << 30), "20G");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        assert_eq!(since(now - 3_700), "1 h 1 min");
        assert_eq!(since(now + 10), "0 s");
    }
}
