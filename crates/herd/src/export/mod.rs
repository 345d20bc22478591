//! `herd export`: the rows of a table or a query at one snapshot of all nodes, as CSV or Parquet files.
//!
//! ```text
//! what.rs ─→ table.rs     a table: locked on its nodes, then the cut; each node's rows go into a file of their own
//!         ─→ query.rs     anything else: through the router, into one file
//! files.rs                the folder: files have their names when all of them are whole
//! write.rs ─→ csv.rs      rows as PostgreSQL's COPY writes them
//!          ─→ parquet.rs  the same rows in columns; which type has which: parquet/kind.rs
//! progress.rs             the bar
//! ```
//! psql reads the rows, as for `herd dump`, whose sessions and cut these are; they pass through and are never held but for a row
//! group of Parquet. Nothing here knows how a cut is taken or how rows are split.

mod csv;
mod error;
mod files;
mod parquet;
mod progress;
mod query;
mod table;
mod what;
mod write;

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;

pub use error::Error;
use error::Result;
use files::Folder;
use what::What;

use crate::dump::program::{self, without_password};
use crate::local::Target;

/// What the files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Parquet,
    Csv,
}

impl Format {
    /// What a file's name ends with.
    fn extension(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
        }
    }
}

/// What is asked for.
#[derive(Debug)]
pub struct Export {
    /// A table's name, or a SELECT.
    pub what: String,
    pub from: Target,
    pub format: Format,
    /// Made where it is missing; must be empty.
    pub dir: PathBuf,
    /// Nodes that are read at once.
    pub jobs: u16,
    /// Nodes that are not reached at the address the herd knows: name and URL.
    pub nodes: Vec<(String, String)>,
    /// Columns that Parquet has as text, whatever their types.
    pub as_text: Vec<String>,
    /// Rows that policies hide are left out; otherwise it is an error if there may be any.
    pub row_security: bool,
}

/// Writes the files; after an error there are none.
pub fn export(asked: &Export) -> Result<()> {
    let what = What::read(&asked.what)?;
    if asked.format == Format::Csv && !asked.as_text.is_empty() {
        return Err(Error::AsTextOfCsv);
    }
    let router = asked.from.url()?;
    if program::value(&router, "SHOW herd.snapshot").is_err() {
        // Either nobody is there, which the next statement says, or it is not a router.
        program::value(&router, "SELECT 1")?;
        return Err(Error::NotAHerd { server: without_password(&router) });
    }
    let mut folder = Folder::make(&asked.dir)?;
    let rows = match what {
        What::Query(query) => query::export(asked, &router, &query, "query", &folder)?,
        What::Table(name) => table::export(asked, &router, &name, &folder)?,
    };
    let files = folder.finish()?;
    let plural = if files == 1 { "" } else { "s" };
    // Nobody need listen.
    let _ = writeln!(std::io::stderr(), "{rows} rows in {files} file{plural} of {}", asked.dir.display());
    Ok(())
}

/// How all values are told, whatever a role or a server is set to: as `herd dump` and pg_dump have them, times in UTC.
fn settings(asked: &Export) -> String {
    let row_security = if asked.row_security { "on" } else { "off" };
    format!(
        "SET client_encoding = 'UTF8'; SET client_min_messages = error; SET standard_conforming_strings = on;
         SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
         SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; SET bytea_output = 'hex';
         SET extra_float_digits = 1; SET row_security = {row_security};"
    )
}
