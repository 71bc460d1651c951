//! The steps of the tour.

use super::guide::{Guide, Step, say};
use super::sample::WORD;
use std::path::Path;
use workfs::types::Errno;

/// A note that is to outlive the mount.
const NOTE: &str = "The keeper prefers tabs. Ask before touching the lighthouse.\n";

/// From the first folder to the second mount.
///
/// # Errors
/// Says which step did not do what it says.
pub async fn take(guide: &mut Guide) -> Step<()> {
    three_volumes(guide);
    mount(guide).await?;
    look(guide).await?;
    write(guide).await?;
    search(guide).await?;
    version(guide).await?;
    note(guide).await?;
    unmount(guide).await?;
    mount_again(guide).await
}

fn three_volumes(guide: &mut Guide) {
    guide.step("Three volumes that have nothing to do with each other");
    let root = guide.sample().root().display().to_string();
    say(&format!("   in {root}:"));
    say("   project   a folder with a small project");
    say("   desk.db   an SQLite file, not made yet, that will hold files");
    say("   docs      a folder that nobody may change through the mount");
}

/// The commands run in the sample's folder.
const MOUNT: [&str; 8] = [
    "mount",
    "work",
    "-m",
    "/=./project",
    "-m",
    "memories=sqlite:./desk.db?namespace=agents/demo",
    "-m",
    "docs=./docs:ro",
];

async fn mount(guide: &mut Guide) -> Step<()> {
    guide.step("Mounted as one tree; the command returns once it answers");
    guide.workfs(&MOUNT).await?;
    let status = guide.workfs(&["status", "work"]).await?;
    expect(
        ["memories", "docs", "sqlite", "ro"].iter().all(|word| status.contains(word)),
        "status tells three volumes",
    )?;
    guide.holds("one tree of a folder, an SQLite file and read-only docs is mounted");
    Ok(())
}

async fn look(guide: &mut Guide) -> Step<()> {
    guide.step("To programs it is just a directory");
    let listing = guide.run("ls", &["-lA", "."]).await?;
    expect(["README.md", "src", "memories", "docs"].iter().all(|name| listing.contains(name)), "ls shows all of it")?;
    let found = guide.run("find", &[".", "-type", "f"]).await?;
    expect(found.contains("./docs/guide.md") && found.contains("./src/main.rs"), "find walks from volume to volume")?;
    guide.holds("ls and find see one tree");
    Ok(())
}

async fn write(guide: &mut Guide) -> Step<()> {
    guide.step("A write to each volume");
    let work = guide.sample().mountpoint();
    put(guide, "timetable.txt", "06:00 off\n18:00 on\n").await?;
    let beside = read(guide, &guide.sample().project().join("timetable.txt")).await?;
    expect(beside == "06:00 off\n18:00 on\n", "the file lies in the project's folder, outside the mount")?;
    put(guide, "memories/first", "the lighthouse was green in May\n").await?;
    let back = read(guide, &work.join("memories/first")).await?;
    expect(back == "the lighthouse was green in May\n", "the store gives back what was written")?;
    for name in ["docs/guide.md", "docs/new.md"] {
        say(&format!("   write {name}"));
        refused(guide, &work.join(name)).await?;
    }
    let guarded = read(guide, &guide.sample().docs().join("guide.md")).await?;
    expect(
        guarded.starts_with("# Guide") && !guide.sample().docs().join("new.md").exists(),
        "the docs are as they were",
    )?;
    guide.holds("project and store were written; the docs refused it with EROFS, and are untouched");
    Ok(())
}

async fn put(guide: &Guide, name: &str, text: &str) -> Step<()> {
    say(&format!("   write {name}: {:?}", text));
    let path = guide.sample().mountpoint().join(name);
    guide.wait(&format!("write {name}"), tokio::fs::write(path, text)).await
}

async fn read(guide: &Guide, path: &Path) -> Step<String> {
    guide.wait(&format!("read {}", path.display()), tokio::fs::read_to_string(path)).await
}

async fn refused(guide: &Guide, path: &Path) -> Step<()> {
    let shown = path.display();
    let attempt = async { Ok(tokio::fs::write(path, "vandalism").await) };
    match guide.wait(&format!("write {shown}"), attempt).await? {
        Ok(()) => Err(format!("{shown} could be written, though it is mounted read-only")),
        Err(error) if error.raw_os_error() == Some(Errno::EROFS.raw()) => {
            say(&format!("   | {error}"));
            Ok(())
        }
        Err(error) => Err(format!("{shown} was refused with {error}, not with EROFS")),
    }
}

async fn search(guide: &mut Guide) -> Step<()> {
    guide.step("One search finds what lies in all three");
    let found = if guide.has("rg").await {
        guide.run("rg", &["--sort", "path", "--no-ignore", "--line-number", WORD, "."]).await?
    } else {
        say("   (rg is not installed, so grep searches)");
        guide.run("grep", &["-rn", WORD, "."]).await?
    };
    let everywhere = ["./README.md", "./docs/guide.md", "./memories/first"].iter().all(|name| found.contains(name));
    expect(everywhere, "the search finds the word in the project, the docs and the store")?;
    guide.holds("one search reached a folder, an SQLite file and the docs");
    Ok(())
}

async fn version(guide: &mut Guide) -> Step<()> {
    guide.step("git works in it");
    if !guide.has("git").await {
        say("   (git is not installed, so this step is left out)");
        return Ok(());
    }
    guide.run("git", &["init", "-q", "-b", "main"]).await?;
    guide.run("git", &["add", "-A"]).await?;
    let author = ["-c", "user.name=Keeper", "-c", "user.email=keeper@example.org"];
    guide.run("git", &[&author[..], &["commit", "-q", "-m", "The lighthouse is on"]].concat()).await?;
    let log = guide.run("git", &["log", "--stat", "--format=%h %an: %s"]).await?;
    expect(log.contains("timetable.txt") && !log.contains("guide.md"), "the commit holds the project's files")?;
    guide.run("git", &["fsck", "--strict"]).await?;
    let changes = guide.run("git", &["status", "--porcelain"]).await?;
    expect(changes.is_empty(), "nothing is left to commit")?;
    expect(guide.sample().project().join(".git/HEAD").exists(), "the repository lies in the project's folder")?;
    guide.holds("git init, add, commit and fsck");
    Ok(())
}

async fn note(guide: &mut Guide) -> Step<()> {
    guide.step("A note in the store");
    guide.run("mkdir", &["memories/people"]).await?;
    put(guide, "memories/people/keeper.md", NOTE).await?;
    let said = guide.run("cat", &["memories/people/keeper.md"]).await?;
    expect(said == NOTE, "cat prints the note")?;
    expect(!guide.sample().project().join("memories/people").exists(), "the note is not in the project's folder")?;
    guide.holds("a note was written; it is in desk.db and nowhere else");
    Ok(())
}

async fn unmount(guide: &mut Guide) -> Step<()> {
    guide.step("Unmounted: everything is written out before the command returns");
    let mountpoint = guide.sample().mountpoint();
    guide.workfs(&["umount", "work"]).await?;
    let empty = std::fs::read_dir(&mountpoint).is_ok_and(|mut entries| entries.next().is_none());
    expect(empty && !guide.is_mounted(), "the directory is empty again")?;
    let size = std::fs::metadata(guide.sample().store()).map_err(|error| format!("desk.db: {error}"))?.len();
    say(&format!("   desk.db has {} KiB", size / 1024));
    guide.holds("unmounted; nothing is mounted and nothing is pending");
    Ok(())
}

async fn mount_again(guide: &mut Guide) -> Step<()> {
    guide.step("Mounted again: it is all still there");
    guide.workfs(&MOUNT).await?;
    let said = guide.run("cat", &["memories/people/keeper.md"]).await?;
    expect(said == NOTE, "the note is there")?;
    if guide.sample().project().join(".git").exists() {
        let changes = guide.run("git", &["status", "--porcelain"]).await?;
        expect(changes.is_empty(), "git finds nothing changed")?;
    }
    guide.holds("mounted again, the note is there, byte for byte");
    Ok(())
}

fn expect(holds: bool, what: &str) -> Step<()> {
    if holds { Ok(()) } else { Err(format!("this does not hold: {what}")) }
}

/// What was seen.
pub fn summary(guide: &Guide) {
    say("\nWhat held:");
    guide.held.iter().for_each(|what| say(&format!("  - {what}")));
    say("It is unmounted, and the sample is taken away again; `workfs demo --keep` leaves it mounted.");
}

/// How to look around in what is left mounted, and how to end it.
pub fn farewell(guide: &Guide) {
    let (program, root, work) = (guide.program().display(), guide.sample().root(), guide.sample().mountpoint());
    let (root, work) = (root.display(), work.display());
    say("\nWhat held:");
    guide.held.iter().for_each(|what| say(&format!("  - {what}")));
    say(&format!("\nIt stays mounted. Look around:\n  cd {work}\n  {program} status {work}"));
    say(&format!("End it:\n  {program} umount {work} && rm -r {root}"));
}
