//! What is refused before anything is mounted, with the line or argument at fault and what would be right.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use workfs::assemble::{Place, Plan, VolumeUrl, canonical, check, read_argument, read_config};
use workfs::types::{Errno, Result};

/// A folder with a config file in it.
struct Desk {
    _folder: TempDir,
    root: PathBuf,
}

impl Desk {
    fn new() -> Desk {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().expect("it exists");
        for dir in ["project", "docs", "work"] {
            fs::create_dir(root.join(dir)).expect("a folder can be made");
        }
        Desk { _folder: folder, root }
    }

    fn config(&self) -> PathBuf {
        self.root.join("w.toml")
    }

    fn read(&self, text: &str) -> Result<Plan> {
        fs::write(self.config(), text).expect("the config can be written");
        read_config(&self.config(), &|name| (name == "DOCS").then(|| "./docs".to_owned()))
    }

    /// Reads `text` and checks it, to be mounted at its own view, or at `work`.
    fn accept(&self, text: &str) -> Result<Plan> {
        let plan = self.read(text)?;
        let work = self.root.join("work");
        let (mountpoint, place) = plan.mountpoint(plan.views.is_empty().then_some(work.as_path()), None)?;
        check(&plan, &canonical(&mountpoint), &place)?;
        Ok(plan)
    }

    /// Checks that `text` is refused at `line` with all of `said`.
    #[track_caller]
    fn refused(&self, text: &str, line: usize, said: &[&str]) {
        let error = self.accept(text).expect_err("it is refused");
        assert_eq!(error.errno(), Errno::EINVAL);
        let told = error.to_string();
        let place = format!("{}:{line}: ", self.config().display());
        assert!(told.contains(&place), "{place} is not named in: {told}");
        for said in said {
            assert!(told.contains(said), "{said:?} is not in: {told}");
        }
    }

    /// Checks that the mounts of a command line are refused, naming `argument`, with all of `said`.
    #[track_caller]
    fn refused_arguments(&self, dir: &str, mounts: &[&str], argument: &str, said: &[&str]) {
        let dir = self.root.join(dir);
        let outcome = mounts
            .iter()
            .try_fold(Plan::default(), |mut plan, mount| {
                plan.add(read_argument(OsStr::new(mount), &self.root)?)?;
                Ok(plan)
            })
            .and_then(|plan| check(&plan, &canonical(&dir), &Place::Argument(dir.display().to_string())));
        let told = outcome.expect_err("it is refused").to_string();
        for said in said.iter().chain([&argument]) {
            assert!(told.contains(said), "{said:?} is not in: {told}");
        }
    }
}

const ROOT: &str = "[[mount]]\nat = \"/\"\nvolume = \"./project\"\n";

fn mount(at: &str, volume: &str) -> String {
    format!("[[mount]]\nat = \"{at}\"\nvolume = \"{volume}\"\n")
}

#[test]
fn a_sound_config_is_taken_with_paths_from_its_own_folder() {
    let desk = Desk::new();
    let text = [ROOT, &mount("docs", "${DOCS}"), "[view.main]\nmountpoint = \"./work\"\n"].concat();
    let plan = desk.accept(&text).expect("it is sound");
    let VolumeUrl::Disk(docs) = &plan.mounts[1].volume else { panic!("no folder") };
    assert_eq!(canonical(docs), desk.root.join("docs"));
    assert_eq!(canonical(&plan.views[0].mountpoint), desk.root.join("work"));
    assert_eq!(plan.mounts[1].label, "./docs");
}

#[test]
fn an_unknown_key_is_refused_wherever_it_stands() {
    let desk = Desk::new();
    desk.refused(&format!("{ROOT}readonly = true\n"), 4, &["unknown key `readonly`", "did you mean `read_only`?"]);
    desk.refused(&format!("{ROOT}[veiw.main]\nmountpoint = \"x\"\n"), 4, &["`veiw`", "did you mean `view`?"]);
    desk.refused(&format!("{ROOT}[view.main]\nmountpont = \"x\"\n"), 5, &["did you mean `mountpoint`?"]);
    desk.refused(&format!("{ROOT}[log]\nfiel = \"x\"\n"), 5, &["`fiel`", "did you mean `file`?"]);
    desk.refused(&format!("zebra = 1\n{ROOT}"), 1, &["`zebra`", "`mount`", "`view`", "`log`"]);
}

#[test]
fn what_is_no_toml_or_of_the_wrong_type_is_refused() {
    let desk = Desk::new();
    desk.refused(&format!("{ROOT}read_only = yes\n"), 4, &[]);
    desk.refused(&format!("{ROOT}read_only = \"yes\"\n"), 4, &["must be `true` or `false`"]);
    desk.refused("\n[[mount]]\nat = \"/\"\n", 2, &["missing field `volume`"]);
    desk.refused(&format!("{ROOT}at = \"x\"\n"), 4, &["duplicate key"]);
    fs::write(desk.config(), b"at = \"\xff\"").expect("written");
    let error = read_config(&desk.config(), &|_| None).expect_err("refused").to_string();
    assert!(error.contains("not UTF-8"), "{error}");
}

#[test]
fn two_mounts_at_one_path_are_refused() {
    let desk = Desk::new();
    let text = [ROOT, &mount("docs", "./docs"), &mount("/docs/", "memory:")].concat();
    desk.refused(&text, 9, &["a second mount at /docs", "w.toml:6", "a path of its own"]);
    let twice = ["docs=./docs", "./docs=memory:"];
    desk.refused_arguments("work", &twice, "-m ./docs=memory:", &["a second mount at /docs", "-m docs=./docs"]);
}

#[test]
fn a_mountpoint_inside_its_own_volume_is_refused() {
    let desk = Desk::new();
    let said = ["lies inside the volume `./project`", "outside"];
    desk.refused(&format!("{ROOT}[view.main]\nmountpoint = \"project/work\"\n"), 5, &said);
    desk.refused(&format!("{ROOT}[view.main]\nmountpoint = \"./project\"\n"), 5, &said);
    std::os::unix::fs::symlink("project", desk.root.join("link")).expect("a link can be made");
    desk.refused(&format!("{ROOT}[view.main]\nmountpoint = \"link/work\"\n"), 5, &said);
    desk.refused_arguments("work", &["/=."], "/work: ", &["lies inside the volume `.`"]);
}

#[test]
fn what_the_daemon_needs_may_not_lie_inside_the_mountpoint() {
    let desk = Desk::new();
    desk.refused(&mount("/", "./work/project"), 3, &["lies inside the mountpoint", "keep it outside"]);
    desk.refused(&mount("/", "sqlite:./work/desk.db"), 3, &["lies inside the mountpoint"]);
    desk.refused(&format!("{ROOT}[log]\nfile = \"./work/log\"\n"), 5, &["the log", "inside the mountpoint"]);
    desk.refused_arguments("work", &["a=./work/x"], "-m a=./work/x", &["lies inside the mountpoint"]);
    desk.accept(&mount("/", "./workshop")).expect("a path that only begins alike lies outside");
}

#[test]
fn a_volume_of_an_unknown_kind_or_option_is_refused() {
    let desk = Desk::new();
    desk.refused(&mount("/", "sqllite:x"), 3, &["`sqllite` is no kind of volume", "did you mean `sqlite`?"]);
    desk.refused(&mount("/", "redis:x"), 3, &["known are: `disk`, `memory`, `sqlite`"]);
    desk.refused(&mount("/", "sqlite:x?namespce=y"), 3, &["did you mean `namespace`?"]);
    desk.refused_arguments("work", &["/=dsk:x"], "-m /=dsk:x", &["did you mean `disk`?"]);
    desk.refused(&format!("{ROOT}io = \"cache\"\n"), 4, &["did you mean `cached`?"]);
    let passthrough = "io = \"passthrough\"\n";
    desk.refused(&format!("{ROOT}read_only = true\n{passthrough}"), 5, &["does not go with", "leave `io` out"]);
    desk.refused(&format!("[[mount]]\nat = \"/\"\nvolume = \"memory:\"\n{passthrough}"), 4, &["is for disk volumes"]);
    desk.refused(&mount("docs", "./docs:ro"), 3, &["`read_only = true`"]);
}

#[test]
fn no_mount_at_all_is_refused() {
    let desk = Desk::new();
    let error = desk.accept("[log]\nlevel = \"info\"\n").expect_err("refused").to_string();
    assert!(error.contains("w.toml: has no mount") && error.contains("[[mount]]"), "{error}");
    desk.refused_arguments("work", &[], "-m: ", &["at least one AT=VOLUME"]);
}

#[test]
fn a_path_that_leads_up_is_refused_and_odd_names_are_not() {
    let desk = Desk::new();
    desk.refused(&mount("a/../b", "memory:"), 2, &["`..` in `a/../b`", "from the tree's root"]);
    desk.refused_arguments("work", &["../x=memory:"], "-m ../x=memory:", &["`..`"]);
    desk.refused(&mount(&"x".repeat(256), "memory:"), 2, &["256 bytes"]);
    for name in ["[...slug]", "a..b", "..."] {
        desk.accept(&mount(name, "memory:")).expect("an ordinary name");
    }
}

#[test]
fn what_lies_at_a_volumes_path_must_fit() {
    let desk = Desk::new();
    fs::write(desk.root.join("file"), "").expect("written");
    desk.refused(&mount("/", "./file"), 3, &["is a file, and a disk volume is a folder"]);
    desk.refused(&mount("/", "sqlite:./docs"), 3, &["is a folder, and an SQLite store is a file"]);
    desk.refused(&mount("/", "sqlite:./no/desk.db"), 3, &["folder", "does not exist"]);
    desk.refused(&format!("{}read_only = true\n", mount("/", "./dosc")), 3, &["no folder", "read-only"]);
    desk.accept(&mount("/", "./new")).expect("a folder that is missing is made later");
    assert!(!desk.root.join("new").exists(), "checking makes nothing");
}

#[test]
fn every_missing_variable_is_named_at_once() {
    let desk = Desk::new();
    let text = "[[mount]]\nat = \"${AT}\"\nvolume = \"sqlite:${DB}?namespace=${WHO}\"\n[log]\nfile = \"${LOG}/x\"\n";
    let told = desk.read(text).expect_err("refused").to_string();
    for (line, name) in [(2, "AT"), (3, "DB"), (3, "WHO"), (5, "LOG")] {
        assert!(told.contains(&format!("w.toml:{line}: the variable `{name}` is not set")), "{told}");
    }
    let plan = desk.read(&mount("$${AT}", "memory:")).expect("escaped");
    assert_eq!(plan.mounts[0].at.to_string(), "/${AT}");
    desk.refused(&mount("/", "${DOCS"), 3, &["`${` without `}`", "`$${`"]);
}

#[test]
fn a_value_from_the_environment_adds_no_setting() {
    let desk = Desk::new();
    fs::write(desk.config(), mount("/", "${EVIL}")).expect("written");
    let evil = "./docs\"\nread_only = false\n[log]\nfile = \"/etc/passwd";
    let plan = read_config(&desk.config(), &|_| Some(evil.to_owned())).expect("a strange folder");
    assert_eq!((plan.mounts.len(), plan.log.file), (1, None));
    assert_eq!(plan.mounts[0].volume, VolumeUrl::Disk(desk.root.join(evil)));
}

#[test]
fn the_view_must_be_clear() {
    let desk = Desk::new();
    let views = format!("{ROOT}[view.main]\nmountpoint = \"a\"\n[view.other]\nmountpoint = \"b\"\n");
    let plan = desk.read(&views).expect("sound");
    let told = |dir: Option<&Path>, view| match plan.mountpoint(dir, view) {
        Ok((path, _)) => path.display().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(told(None, Some("other")).ends_with("/b"));
    assert!(told(None, None).contains("several views (main, other)"));
    assert!(told(None, Some("mian")).contains("did you mean `main`?"));
    assert!(told(Some(Path::new("/c")), Some("mian")).contains("no view `mian`"));
    assert_eq!(told(Some(Path::new("/c")), Some("main")), "/c");
    let bare = desk.read(ROOT).expect("sound");
    let error = bare.mountpoint(None, None).expect_err("no directory").to_string();
    assert!(error.contains("DIR: is missing") && error.contains("[view.NAME]"), "{error}");
}

#[test]
fn a_level_of_the_log_must_be_one() {
    let desk = Desk::new();
    desk.refused(&format!("{ROOT}[log]\nlevel = \"debgu\"\n"), 5, &["did you mean `debug`?"]);
    desk.accept(&format!("{ROOT}[log]\nlevel = \"trace\"\n")).expect("a level");
}

#[test]
fn a_config_that_is_not_there_is_said_so() {
    let error = read_config(Path::new("/no/such/w.toml"), &|_| None).expect_err("missing");
    assert_eq!(error.errno(), Errno::ENOENT);
    assert!(error.to_string().contains("`workfs init /no/such/w.toml` writes one"), "{error}");
}

#[test]
fn a_missing_sqlite_file_is_not_made_for_reading_alone() {
    let desk = Desk::new();
    let read_only = mount("docs", "sqlite:./gone.db:ro");
    desk.refused_arguments(
        "work",
        &["docs=sqlite:./gone.db:ro"],
        "-m docs=sqlite:./gone.db:ro",
        &["gone.db", "correct the path"],
    );
    let both = [ROOT, &mount("notes", "sqlite:./gone.db"), &read_only].concat();
    let one = |text: &str| text.replace("sqlite:./gone.db:ro\"", "sqlite:./gone.db\"\nread_only = true");
    desk.accept(&one(&both)).expect("a mount beside it makes the file");
    fs::write(desk.root.join("gone.db"), b"").expect("written");
    desk.accept(&one(&[ROOT, &read_only].concat())).expect("the file is there");
}
