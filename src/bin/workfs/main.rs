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
mod mountinfo;
mod mountpoint;
mod process;
mod report;
mod serve;
mod state;
mod status;
mod umount;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if !matches!(cli.command, Command::Mount(_)) {
        logging::start(cli.verbose, None, "warn");
    }
    match run(&cli) {
        Ok(exit) => ExitCode::from(exit),
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit)
        }
    }
}

fn run(cli: &Cli) -> Result<u8, Failure> {
    match &cli.command {
        Command::Mount(arguments) => mount::run(arguments, cli.verbose, cli.daemon)?,
        Command::Umount(arguments) => umount::run(arguments)?,
        Command::Status(arguments) => return status::run(arguments),
        Command::Exec(arguments) => exec::run(arguments)?,
        Command::Init(arguments) => init::run(arguments)?,
        Command::Demo(arguments) => demo::run(arguments)?,
        Command::Completions(arguments) => {
            clap_complete::generate(arguments.shell, &mut Cli::command(), "workfs", &mut std::io::stdout());
        }
    }
    Ok(0)
}
