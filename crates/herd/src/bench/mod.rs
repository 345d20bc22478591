//! `herd bench`: the workloads the product is for, side by side on several servers. `herd demo` runs them in small.
//!
//! ```text
//! server.rs ─→ who answers at a URL, and psql, pgbench and sysbench run against it    output.rs: what they said
//! table.rs  ─→ tables made anew, distributed where the server can
//! workload_*.rs   one workload: load it, measure it once and check what it left
//! columns.rs, lag.rs   column copies of tables, and how far they are behind (talk.rs: a psql that is asked again and again)
//! pairs.rs  ─→ A B, B A, A B …: turns, medians, ratios                                report.rs, svg.rs, lag_svg.rs
//! ```
//! Machines are noisy: only ratios taken side by side in one run count. It measures through the clients people use
//! and knows nothing of the router's inside.

mod columns;
mod error;
mod lag;
mod lag_svg;
mod output;
mod pairs;
mod report;
mod server;
mod svg;
mod table;
mod talk;
mod tpcc;
mod workload;
mod workload_copy;
mod workload_oltp;
mod workload_tpcc;
mod workload_w1;
mod workload_w2;
mod workload_w3;
mod workload_w4;
mod workload_w5;
mod workload_w6;

use std::path::{Path, PathBuf};

pub use error::{Error, Result};
pub use pairs::{Outcome, measure};
pub use report::table;
pub use server::Server;
pub use workload::{Name, Parameters, Protocol, named};

/// What `herd bench` was asked for.
pub struct Options {
    pub workload: Name,
    pub url: String,
    /// `NAME=URL`
    pub versus: Vec<String>,
    pub json: Option<PathBuf>,
    pub svg: Option<PathBuf>,
    /// Each number of clients is measured by itself.
    pub clients: Vec<u32>,
    pub parameters: Parameters,
}

/// Figures of a router of this build would mislead.
pub fn warn_of_debug_build() {
    if cfg!(debug_assertions) {
        eprintln!("this `herd` was built without optimisation: a router of this build is several times slower");
    }
}

/// Measures, prints the table, writes the files.
pub fn run(options: &Options) -> Result<()> {
    warn_of_debug_build();
    named(options.workload).iter().try_for_each(|workload| options.parameters.suit(workload.name()))?;
    let mut given = vec![(None, options.url.as_str())];
    for text in &options.versus {
        let named = text.split_once('=').filter(|(name, _)| !name.is_empty() && !name.contains([':', '/']));
        let (name, url) = named.ok_or_else(|| Error::Versus { text: text.clone() })?;
        given.push((Some(name), url));
    }
    let servers = given.into_iter().map(|(name, url)| Server::connect(name, url)).collect::<Result<Vec<_>>>()?;
    for (number, server) in servers.iter().enumerate() {
        eprintln!("{}: {}", server.name, server.description());
        if let Some(other) = servers[..number].iter().find(|other| other.name == server.name) {
            return Err(Error::SameName { name: other.name.clone() });
        }
        if servers[..number].iter().any(|other| other.is_same_file(server)) {
            return Err(Error::FileThere { path: PathBuf::from(&server.url) });
        }
    }
    if let Some(other) =
        named(options.workload).iter().find(|w| w.name() != "w2").filter(|_| servers.iter().any(Server::is_duckdb))
    {
        return Err(Error::NotOfDuckDb { workload: other.name() });
    }
    if options.parameters.columns && !servers.iter().any(Server::is_herd) {
        return Err(Error::NoHerd);
    }
    let mut outcomes = Vec::new();
    for mut workload in named(options.workload) {
        for &clients in &options.clients {
            let parameters = Parameters { clients, ..options.parameters.clone() };
            let mut outcome = measure(workload.as_mut(), &servers, &parameters)?;
            if options.clients.len() > 1 {
                outcome.rows.iter_mut().for_each(|row| row.figure.name += &format!(", {clients} clients"));
            }
            outcomes.push(outcome);
        }
    }
    let Some(outcome) = Outcome::joined(outcomes) else { return Ok(()) };
    print!("{}", table(std::slice::from_ref(&outcome)));
    if let Some(path) = &options.json {
        write(path, &report::json(&outcome, &servers, &options.parameters, &options.clients))?;
    }
    if let Some(path) = &options.svg {
        write(path, &svg::bars(&outcome, &lag_svg::curves(&outcome)))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}
