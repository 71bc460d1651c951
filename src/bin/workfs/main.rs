//! The command: parse, call, print.

mod background;
mod cli;
mod control;
mod demo;
mod exec;
mod failure;
mod health;
mod init;
mod logging;
mod mount;
mod mountpoint;
mod output;
mod process;
mod report;
mod serve;
mod signals;
mod state;
mod status;
mod umount;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().collect::<Vec<_>>();
    // No part of the command line that people see, not even of what their shells complete.
    let daemon = arguments.get(1).is_some_and(|first| first == background::MARK);
    if daemon {
        arguments.remove(1);
    }
    let cli = Cli::parse_from(arguments);
    if !matches!(cli.command, Command::Mount(_)) {
        logging::start(cli.verbose, None, "warn");
    }
    match run(&cli, daemon) {
        Ok(exit) => ExitCode::from(exit),
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit)
        }
    }
}

fn run(cli: &Cli, daemon: bool) -> Result<u8, Failure> {
    match &cli.command {
        Command::Mount(arguments) => mount::run(arguments, cli.verbose, daemon)?,
        Command::Umount(arguments) => umount::run(arguments)?,
        Command::Status(arguments) => return status::run(arguments),
        Command::Exec(arguments) => exec::run(arguments)?,
        Command::Init(arguments) => init::run(arguments)?,
        Command::Demo(arguments) => demo::run(arguments)?,
        Command::Completions(arguments) => {
            let mut script = Vec::new();
            clap_complete::generate(arguments.shell, &mut Cli::command(), "workfs", &mut script);
            output::print(script)?;
        }
    }
    Ok(0)
}
