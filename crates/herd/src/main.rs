//! The program `herd`: parses the command line and does what it says.
//!
//! The local herd is in `local`, the router in `router`, measurements in `bench` and `demo`; this file only joins them and turns errors into exit codes.

// A session's future holds those of everything that a statement may come to: the compiler looks through all of them.

mod bench;
mod cli;
mod config;
mod demo;
mod dump;
mod export;
mod http;
mod jobs;
mod local;
mod patroni;
mod router;
mod status;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Action, Cli};
use crate::config::Config;

/// A router allocates a little for each message; this allocator does so in half the time of the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(Action::Done(code)) => code,
        Ok(Action::Router(config)) => run_router(*config),
        Err(error) => fail(&error),
    }
}

/// Sessions hold statements' trees, which may be deep: each thread of the runtime has the stack for it, the one that drives it
/// included.
fn run_router(config: Config) -> ExitCode {
    match sql::stack::thread(move || serve(config)).map(|driver| driver.join()) {
        Ok(Ok(code)) => code,
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(error) => fail(&error),
    }
}

fn serve(config: Config) -> ExitCode {
    let mut builder = match config.threads() {
        // One thread needs no locks and no stealing.
        1 => tokio::runtime::Builder::new_current_thread(),
        n => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(n);
            builder
        }
    };
    let runtime = match builder
        .thread_stack_size(sql::stack::THREAD_BYTES)
        .on_thread_start(sql::stack::is_deep)
        .enable_all()
        .build()
    {
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
