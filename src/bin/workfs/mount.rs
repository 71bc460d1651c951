//! `workfs mount`.

use crate::background::{self, Started};
use crate::cli;
use crate::failure::Failure;
use crate::logging;
use crate::serve::{self, Job};
use crate::state::StateDir;
use std::path::Path;
use std::time::Duration;
use workfs::assemble::{self, Place, Plan};
use workfs::fs::{self, Found, MountOptions, Nesting};
use workfs::types::{Errno, Error, Result};

/// The config that is read where no other and no mount is named.
const CONFIG: &str = "workfs.toml";

/// Mounts, in the background unless the foreground is asked for.
///
/// # Errors
/// Exit code 2 for what is refused, 1 for what fails.
pub fn run(arguments: &cli::Mount, verbose: u8, daemon: bool) -> std::result::Result<(), Failure> {
    if daemon {
        return serve_in_background(arguments, verbose);
    }
    let job = prepare(arguments, arguments.foreground)?;
    if arguments.foreground {
        logging::start(verbose, job.plan.log.level.as_deref(), "info");
        return serve::serve(job, |notes| {
            say(&notes);
            Ok(())
        });
    }
    let log = job.log.unwrap_or_else(|| job.state.log(&job.mountpoint));
    let (mountpoint, notes) = background::start(&log)?;
    say(&notes);
    answers(&mountpoint, &log)
}

fn serve_in_background(arguments: &cli::Mount, verbose: u8) -> std::result::Result<(), Failure> {
    background::detach_from_terminal();
    let result = prepare(arguments, false).map_err(Failure::from).and_then(|job| {
        logging::start(verbose, job.plan.log.level.as_deref(), "info");
        let mountpoint = job.mountpoint.clone();
        serve::serve(job, |notes| background::tell(&Started::Ready { mountpoint, notes }))
    });
    if let Err(failure) = result {
        // Goes to the starter, or nowhere if it has let go; then the log has it.
        let _ = background::tell(&Started::Failed(Failure { exit: failure.exit, text: failure.text.clone() }));
        return Err(failure);
    }
    Ok(())
}

fn say(notes: &[String]) {
    for note in notes {
        eprintln!("workfs: {note}");
    }
}

/// Reads and checks everything that can be checked before something is opened or mounted.
fn prepare(arguments: &cli::Mount, foreground: bool) -> Result<Job> {
    let plan = plan(arguments)?;
    let (dir, place) = plan.mountpoint(arguments.dir.as_deref(), arguments.view.as_deref())?;
    let mountpoint = fs::resolve(&dir).map_err(|error| {
        let dir = dir.display();
        place.refuse(match error.errno() {
            Errno::ENOENT => format!("the folder that {dir} lies in does not exist; make that first"),
            Errno::EINVAL => "nothing is mounted over `/`; name another directory".to_owned(),
            _ => format!("cannot mount at {dir}: {error}"),
        })
    })?;
    if mountpoint.to_str().is_none() {
        return Err(place.refuse("the path of a mountpoint must be UTF-8; name another directory"));
    }
    let state = StateDir::open()?;
    if assemble::canonical(state.path()).starts_with(&mountpoint) {
        return Err(place.refuse(format!(
            "workfs keeps its notes in {}, which lies inside this mountpoint; set WORKFS_STATE_DIR elsewhere",
            state.path().display()
        )));
    }
    assemble::check(&plan, &mountpoint, &place)?;
    let log = match &plan.log.file {
        _ if foreground => None,
        Some((file, _)) => Some(file.clone()),
        None => Some(state.log(&mountpoint)),
    };
    Ok(Job { plan, mountpoint, place, options: options(arguments), state, log })
}

fn options(arguments: &cli::Mount) -> MountOptions {
    let nesting = match (arguments.nested, arguments.single) {
        (true, _) => Nesting::Nested,
        (_, true) => Nesting::Single,
        _ => Nesting::Auto,
    };
    MountOptions { nesting, ..MountOptions::default() }
}

fn plan(arguments: &cli::Mount) -> Result<Plan> {
    let lookup = |name: &str| std::env::var(name).ok();
    let unnamed = arguments.config.is_none() && arguments.mounts.is_empty();
    let config = arguments.config.as_deref().or((unnamed && Path::new(CONFIG).exists()).then_some(Path::new(CONFIG)));
    let mut plan = match config {
        Some(path) => assemble::read_config(path, &lookup)?,
        None if unnamed => {
            return Err(Place::Argument("mount".to_owned()).refuse(format!(
                "nothing to mount: give `-m AT=VOLUME` (for example `-m /=./project`), or `-c FILE`; there is no \
                 ./{CONFIG} here, which `workfs init` would write"
            )));
        }
        None => Plan::default(),
    };
    // The daemon leaves this folder, so no path may depend on it.
    let here = std::env::current_dir().map_err(|error| Error::from_io("current directory", error))?;
    for argument in &arguments.mounts {
        plan.add(assemble::read_argument(argument, &here)?)?;
    }
    Ok(plan)
}

/// Asks the new mount for its root, as any program will.
fn answers(mountpoint: &Path, log: &Path) -> std::result::Result<(), Failure> {
    // A mount that was just made may be slow once, on a busy machine.
    for pause in [0, 100, 1000] {
        std::thread::sleep(Duration::from_millis(pause));
        if let Found::Directory { .. } = fs::probe(mountpoint) {
            return Ok(());
        }
    }
    Err(Failure::new(format!(
        "{} is mounted but does not answer; its log is {}, and `workfs umount --lazy {0}` ends it",
        mountpoint.display(),
        log.display()
    )))
}
