//! `herd demo`: the workloads W1 to W4 in small, on a fresh local herd and on a plain PostgreSQL beside it.
//!
//! It only puts together what `local` starts and `bench` measures. The herd and its tables stay; the plain
//! PostgreSQL ends with the figures.

use std::path::PathBuf;

use crate::bench::{self, Name, Parameters, Server};
use crate::local::{self, PlainPostgres, UpOptions};

const NODES: u16 = 2;
const PORT: u16 = 6700;
const CLIENTS: u32 = 16;
const SECONDS: u32 = 2;
/// An odd number: the median is then one of the values.
const PAIRS: u32 = 3;

/// What `herd demo` was asked for.
pub struct Options {
    pub dir: PathBuf,
    /// `None`: the port of the herd that is there, or 6700 for a new one.
    pub port: Option<u16>,
    /// Rows of W2 and W4; W3 has twice as many.
    pub rows: u64,
}

/// Starts what is missing, measures, and prints the figures; the plain PostgreSQL is stopped even after an error.
pub fn run(options: &Options) -> bench::Result<()> {
    bench::warn_of_debug_build();
    let is_new = !local::is_herd(&options.dir)?;
    let port = options.port.or(is_new.then_some(PORT));
    let url = local::up(&UpOptions {
        dir: options.dir.clone(),
        nodes: is_new.then_some(NODES),
        port,
        ..UpOptions::default()
    })?;
    let plain = PlainPostgres::start(&options.dir)?;
    let measured = measure(&url, &plain.url(), options.rows);
    // Also after an error, which tells more than that it could not be stopped either.
    let stopped = plain.stop();
    let outcomes = measured?;
    stopped?;

    println!("\n{}", bench::table(&outcomes));
    println!("The herd is up: {url}");
    println!(
        "  herd psql --dir {dir}        # connect; its tables are sbtest1, test and demo",
        dir = options.dir.display()
    );
    println!("  herd down --dir {dir}        # stop it", dir = options.dir.display());
    Ok(())
}

fn measure(herd: &str, plain: &str, rows: u64) -> bench::Result<Vec<bench::Outcome>> {
    let servers = [Server::connect(Some("herd"), herd)?, Server::connect(Some("plain PostgreSQL"), plain)?];
    let run = |(name, rows)| {
        let parameters = Parameters {
            clients: CLIENTS,
            seconds: SECONDS,
            pairs: PAIRS,
            rows: Some(rows),
            protocol: None,
            columns: false,
            rate: None,
            keep: true,
        };
        let measured =
            bench::named(name).into_iter().map(|mut one| bench::measure(one.as_mut(), &servers, &parameters));
        measured.collect::<bench::Result<Vec<_>>>()
    };
    let each = [(Name::W1, rows), (Name::W2, rows), (Name::W3, 2 * rows), (Name::W4, rows)].into_iter().map(run);
    Ok(each.collect::<bench::Result<Vec<_>>>()?.concat())
}
