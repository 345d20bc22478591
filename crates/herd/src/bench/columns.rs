//! Column copies of the workloads' tables (`--columns`): made, waited for, and whether a query is one that columns answer. It does not know which
//! tables or queries.

use std::time::Instant;

use super::error::{Error, Result};
use super::server::Server;

/// Makes a copy, and waits until the stores of all nodes have it.
pub fn copy(server: &Server, table: &str) -> Result<()> {
    let begun = Instant::now();
    let job = server.value(&format!("SELECT herd.add_column_copy('{table}', background => true)"))?;
    server.value(&format!("SELECT herd.wait_job({job})"))?;
    eprintln!(
        "  {}: the column copies of {table} were there after {:.1} s",
        server.name,
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// What was loaded before is read from logs first.
const WAITS: &str = "SET herd.freshness_wait = '60s';\n";

/// That columns are what answers these, or the figures would be of something else.
pub fn check(server: &Server, first: &str, queries: &[&str]) -> Result<()> {
    for query in queries {
        let said = server.psql(&format!("{WAITS}{first}EXPLAIN {query};\n"))?;
        if !said
            .lines()
            .any(|line| line.trim_start().strip_prefix("Columns: ").is_some_and(|why| !why.starts_with("no")))
        {
            return Err(Error::NotByColumns { server: server.name.clone(), query: (*query).to_owned(), said });
        }
    }
    Ok(())
}

/// That all copies of a table can still be read: rows would have answered in the place of one that can't.
pub fn check_ready(server: &Server, table: &str) -> Result<()> {
    let not_ready = server.value(&format!(
        "SELECT string_agg(node || ': ' || state || coalesce(' (' || why || ')', ''), ', ') FROM herd.column_copies \
         WHERE relation = 'public.{table}' AND state IS DISTINCT FROM 'ready'"
    ))?;
    match not_ready.is_empty() {
        true => Ok(()),
        false => Err(Error::CopyLost { server: server.name.clone(), table: table.to_owned(), states: not_ready }),
    }
}
