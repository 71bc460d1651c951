//! The command line: what can be asked, and the words that explain it.

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    it failed; the reason is on standard error
  2    the command line or the config is at fault; nothing was mounted
  3    status: something is dead or does not answer
  4    status DIR: nothing of workfs is mounted there
  exec: those of CMD; 125 workfs could not run it, 126 CMD cannot be executed, 127 CMD was not found

Environment:
  WORKFS_LOG        what to log, such as `debug` or `info,workfs::fs=trace`; wins over -v and the config
  WORKFS_STATE_DIR  where the mounts of this user are noted (default: /run/workfs for root, else
                    $XDG_RUNTIME_DIR/workfs or ~/.local/state/workfs)";

/// Several volumes as one tree, mounted through FUSE.
#[derive(Parser)]
#[command(name = "workfs", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Cli {
    /// Log more: -v debug, -vv everything
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Mount(Mount),
    Umount(Umount),
    Status(Status),
    Exec(Exec),
    Init(Init),
    Demo(Demo),
    Completions(Completions),
}

const MOUNT_HELP: &str = "\
A mount is written AT=VOLUME[?options][:ro]. AT is a path in the tree, `/` its root. VOLUME is one of
  ./project  /srv/files  disk:./project     a folder; made when it is missing, unless it is read-only
  sqlite:./desk.db?namespace=agents/a       a namespace of an SQLite file (default: `default`)
  memory:  memory:NAME                      a store that ends with the mount; one NAME, one store
and `:ro` at the end refuses every change. In a config file, ${NAME} is taken from the environment.

Examples:
  workfs mount work -m /=./project -m 'memories=sqlite:./desk.db?namespace=agents/a' -m docs=./docs:ro
  workfs mount work -m scratch=memory: --foreground
  workfs mount -c workfs.toml --view main";

/// Mount a workspace at DIR, and return once it answers
///
/// Without -m and -c, ./workfs.toml is read. The mount lives on in the background until `workfs umount DIR`, `umount -R
/// DIR`, `fusermount3 -u DIR` or a signal; `workfs status` tells its log. DIR is made when only its last part is
/// missing. A dead mount that a killed process left at DIR is cleaned away first.
#[derive(Args)]
#[command(after_help = MOUNT_HELP)]
pub struct Mount {
    /// Where to mount; may be left out if the config has a view with a mountpoint
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,

    /// Mount VOLUME at AT in the tree; may be repeated
    #[arg(short, long = "mount", value_name = "AT=VOLUME")]
    pub mounts: Vec<OsString>,

    /// Read the mounts from this file (`workfs init` writes one)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Mount this view of the config
    #[arg(long, value_name = "NAME")]
    pub view: Option<String>,

    /// One session for the whole tree (what an ordinary user gets)
    #[arg(long, conflicts_with = "nested")]
    pub single: bool,

    /// One session for each mount, nested (what root gets); fail where that cannot be
    #[arg(long)]
    pub nested: bool,

    /// Stay in the foreground and log to standard error; Ctrl-C unmounts
    #[arg(short, long)]
    pub foreground: bool,
}

/// Unmount DIR: everything is written out before this returns
///
/// A dead mount, left by a process that was killed, is cleaned away. If programs still use the mount, they are named
/// and nothing happens, unless with --lazy.
#[derive(Args)]
pub struct Umount {
    /// Where it is mounted
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,

    /// Detach it now, even if programs use it; what they have open there then fails
    #[arg(short, long)]
    pub lazy: bool,
}

/// Tell what is mounted: process, volumes, sizes, sessions, health, log
#[derive(Args)]
pub struct Status {
    /// Only the mount at DIR
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,

    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Run a command inside the mount, and end with its exit status
///
/// Example: workfs exec work -- git status
#[derive(Args)]
pub struct Exec {
    /// The mount, or a folder in it
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,

    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, last = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Write a commented config file; an existing one is never overwritten
#[derive(Args)]
pub struct Init {
    /// The file
    #[arg(value_name = "FILE", default_value = "workfs.toml", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// A tour: three volumes in a temporary folder, one tree, real programs, unmounted and mounted again
#[derive(Args)]
pub struct Demo {
    /// Leave it mounted, and say how to look around and how to end it
    #[arg(long)]
    pub keep: bool,
}

/// Print the completions of a shell
///
/// Example: workfs completions bash > ~/.local/share/bash-completion/completions/workfs
#[derive(Args)]
pub struct Completions {
    /// Which shell
    pub shell: Shell,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
