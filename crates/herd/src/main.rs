//! The program `herd`: parses the command line and does what it says.
//!
//! The local herd is in `local`, the router in `router`; this file only joins them and turns errors into exit codes.

mod cli;
mod config;
mod local;
mod router;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Action, Cli};
use crate::config::Config;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(Action::Done(code)) => code,
        Ok(Action::Router(config)) => run_router(*config),
        Err(error) => fail(&error),
    }
}

fn run_router(config: Config) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    match runtime.block_on(router::run(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("herd: {error}");
    ExitCode::FAILURE
}
