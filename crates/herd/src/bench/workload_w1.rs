//! W1: single-row inserts of many clients, each its own transaction.
//!
//! By sysbench's `oltp_insert` where it is installed and the protocol is simple, else by pgbench with the same
//! statement. Every turn begins with an empty table, and ends with as many rows as were acknowledged.

use std::path::PathBuf;

use super::error::Result;
use super::server::{Server, find_sysbench};
use super::table::SBTEST1;
use super::workload::{Figure, Parameters, Protocol, Turn, Workload};

/// What sysbench is told, though the table is empty: it draws `k` from it.
const SYSBENCH: [&str; 3] = ["--tables=1", "--table-size=1000000", "--auto_inc=off"];

#[derive(Default)]
pub struct SingleRowInserts {
    sysbench: Option<PathBuf>,
}

impl Workload for SingleRowInserts {
    fn name(&self) -> &'static str {
        "w1"
    }

    fn figures(&self) -> Vec<Figure> {
        vec![Figure::rate("W1 single-row inserts", "tps")]
    }

    fn describe(&self, parameters: &Parameters) -> String {
        let client = match self.sysbench {
            Some(_) => "sysbench oltp_insert".to_owned(),
            None => format!("pgbench -M {}", protocol(parameters)),
        };
        format!("{client}, {} clients, {} s a turn", parameters.clients, parameters.seconds)
    }

    fn choose(&mut self, servers: &[Server], parameters: &Parameters) -> Result<()> {
        let suits = protocol(parameters) == Protocol::Simple && servers.iter().all(Server::suits_sysbench);
        self.sysbench = find_sysbench().filter(|_| suits);
        Ok(())
    }

    fn prepare(&self, server: &Server, _: &Parameters) -> Result<()> {
        SBTEST1.make(server)
    }

    fn turn(&self, server: &Server, parameters: &Parameters) -> Result<Turn> {
        let (clients, seconds) = (parameters.clients, parameters.seconds);
        server.psql("TRUNCATE sbtest1;\n")?;
        let load = match &self.sysbench {
            Some(sysbench) => server.sysbench(sysbench, "oltp_insert", &SYSBENCH, clients, seconds)?,
            None => server.pgbench(&script(clients, 0, i32::MAX as u64), protocol(parameters), clients, seconds)?,
        };
        server.check_count("sbtest1", load.acknowledged)?;
        Ok(Turn { values: vec![load.rate], answers: Vec::new(), ..Turn::default() })
    }

    fn clean_up(&self, server: &Server) -> Result<()> {
        SBTEST1.drop(server)
    }
}

/// As it was asked for, or simple.
pub fn protocol(parameters: &Parameters) -> Protocol {
    parameters.protocol.unwrap_or(Protocol::Simple)
}

/// pgbench keeps `n` for each client from one run of the script to the next, so ids never meet. They are above `from` and not above `to`.
pub fn script(clients: u32, from: u64, to: u64) -> String {
    let stride = (to - from) / u64::from(clients.max(1));
    let c = "68487932199-96439406143-93774651418-41631865787-96406072701-20604855487-25459966574-28203206787-41238978918-19503783441";
    let pad = "22195207048-70116052123-74140395089-76317954521-98694025897";
    format!(
        "\\set n :n + 1\n\\set id {from} + :client_id * {stride} + :n\n\\set k random(1, 1000000)\n\
         INSERT INTO sbtest1 (id, k, c, pad) VALUES (:id, :k, '{c}', '{pad}');\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_many_clients_fit_an_integer() {
        assert!(script(1, 0, i32::MAX as u64).contains("0 + :client_id * 2147483647 "));
        assert!(script(1000, 7, 2_147_483_007).contains("7 + :client_id * 2147483 "));
    }
}
