//! W2: five aggregates and sorts over all rows, one after the other on one connection of psql.
//!
//! A turn's figure for a query is the median of several runs after one to warm up.

use super::columns;
use super::error::Result;
use super::pairs::median;
use super::server::Server;
use super::table::{SBTEST1, fill_duckdb, fill_sbtest1};
use super::workload::{Figure, Parameters, Turn, Workload, only_simple};

/// Names and texts; columns, where there are copies, answer all but the last.
pub const QUERIES: [(&str, &str); 5] = [
    ("W2 Q1 count", "select count(1) from sbtest1"),
    ("W2 Q2 count, min, max, sum", "select count(1),min(k),max(k),sum(k) from sbtest1"),
    ("W2 Q3 the same, filtered", "select count(1),min(k),max(k),sum(k) from sbtest1 where c like '1%'"),
    ("W2 Q4 order by c", "select id from sbtest1 where c like '1%' order by c offset 100 limit 10"),
    ("W2 Q5 order by id", "select id from sbtest1 where c like '1%' order by id offset 100 limit 10"),
];
const RUNS: usize = 5;
pub const ROWS: u64 = 1_000_000;

pub struct Aggregates;

impl Workload for Aggregates {
    fn name(&self) -> &'static str {
        "w2"
    }

    fn figures(&self) -> Vec<Figure> {
        QUERIES.iter().map(|(name, _)| Figure::time_ms(name)).collect()
    }

    fn describe(&self, parameters: &Parameters) -> String {
        let copies = if parameters.columns { ", column copies" } else { "" };
        format!("{} rows, psql, median of {RUNS} runs a turn{copies}", parameters.rows.unwrap_or(ROWS))
    }

    fn prepare(&self, server: &Server, parameters: &Parameters) -> Result<()> {
        only_simple(self.name(), parameters)?;
        if server.is_duckdb() {
            return fill_duckdb(server, parameters.rows.unwrap_or(ROWS));
        }
        fill_sbtest1(server, parameters.rows.unwrap_or(ROWS), None)?;
        if parameters.columns_of(server) {
            columns::copy(server, "sbtest1")?;
            columns::check(server, "", &QUERIES[..4].iter().map(|(_, query)| *query).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn turn(&self, server: &Server, parameters: &Parameters) -> Result<Turn> {
        let mut script = String::new();
        for (_, query) in QUERIES {
            script += &format!("{query};\n").repeat(RUNS + 1);
        }
        let timed = server.timed(&script)?;
        if parameters.columns_of(server) {
            columns::check_ready(server, "sbtest1")?;
        }
        let mut turn = Turn::default();
        for ((name, _), runs) in QUERIES.iter().zip(timed.chunks(RUNS + 1)) {
            let times: Vec<f64> = runs.iter().skip(1).map(|run| run.time_ms).collect();
            turn.values.push(median(&times));
            turn.answers.extend(runs.iter().map(|run| ((*name).to_owned(), run.answer.clone())));
        }
        Ok(turn)
    }

    fn clean_up(&self, server: &Server) -> Result<()> {
        match server.is_duckdb() {
            true => {
                server.drop_file();
                Ok(())
            }
            false => SBTEST1.drop(server),
        }
    }
}
