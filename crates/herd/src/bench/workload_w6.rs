//! W6: point selects by primary key, as `pgbench -S` does, from many clients.

use super::error::Result;
use super::server::Server;
use super::table::{SBTEST1, fill_sbtest1};
use super::workload::{Figure, Parameters, Protocol, Turn, Workload};

const ROWS: u64 = 1_000_000;

pub struct PointSelects;

impl Workload for PointSelects {
    fn name(&self) -> &'static str {
        "w6"
    }

    fn figures(&self) -> Vec<Figure> {
        vec![Figure::rate("W6 point selects", "tps")]
    }

    fn describe(&self, parameters: &Parameters) -> String {
        let (protocol, clients, seconds) = (protocol(parameters), parameters.clients, parameters.seconds);
        format!("{} rows, pgbench -M {protocol}, {clients} clients, {seconds} s a turn", rows(parameters))
    }

    fn prepare(&self, server: &Server, parameters: &Parameters) -> Result<()> {
        fill_sbtest1(server, rows(parameters), None)
    }

    fn turn(&self, server: &Server, parameters: &Parameters) -> Result<Turn> {
        let script = format!("\\set id random(1, {})\nSELECT k FROM sbtest1 WHERE id = :id;\n", rows(parameters));
        let load = server.pgbench(&script, protocol(parameters), parameters.clients, parameters.seconds)?;
        let id = rows(parameters).div_ceil(2);
        let row = server.value(&format!("SELECT * FROM sbtest1 WHERE id = {id}"))?;
        Ok(Turn { values: vec![load.rate], answers: vec![(format!("W6: row {id}"), row)], ..Turn::default() })
    }

    fn clean_up(&self, server: &Server) -> Result<()> {
        SBTEST1.drop(server)
    }
}

fn rows(parameters: &Parameters) -> u64 {
    parameters.rows.unwrap_or(ROWS)
}

fn protocol(parameters: &Parameters) -> Protocol {
    parameters.protocol.unwrap_or(Protocol::Prepared)
}
