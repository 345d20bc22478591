//! `oltp-tpcc`: an order-entry application's five transactions, mixed as TPC-C has them. What the tables must hold after that is looked
//! at before the first turn and after each.

use super::error::{Error, Result};
use super::server::Server;
use super::tpcc::{CONDITIONS, ITEM, Scale, TABLES};
use super::workload::{Figure, Parameters, Protocol, Turn, Workload};

/// A tenth of the standard's, so that a run does not begin with minutes of loading.
const ITEMS: u64 = 10_000;
/// Ten clients and fewer for each, as the standard has it, up to 64 clients.
const WAREHOUSES: u64 = 8;

/// TPC-C's mix.
pub struct OrderEntry;

impl Workload for OrderEntry {
    fn name(&self) -> &'static str {
        "oltp"
    }

    fn figures(&self) -> Vec<Figure> {
        vec![Figure::rate("oltp TPC-C mix", "tps"), Figure::rate("oltp TPC-C new orders", "tps")]
    }

    fn describe(&self, parameters: &Parameters) -> String {
        let Scale { warehouses, items, customers } = scale(parameters);
        let (protocol, clients, seconds) = (protocol(parameters), parameters.clients, parameters.seconds);
        format!(
            "TPC-C mix, {warehouses} warehouses of {} customers and {items} items, pgbench -M {protocol}, {clients} clients, {seconds} s a turn",
            customers * 10
        )
    }

    fn prepare(&self, server: &Server, parameters: &Parameters) -> Result<()> {
        TABLES.iter().chain([&ITEM]).try_for_each(|table| table.make(server))?;
        let mut script = scale(parameters).rows();
        TABLES.iter().chain([&ITEM]).for_each(|table| script += &format!("VACUUM ANALYZE {};\n", table.name));
        server.psql(&script)?;
        holds(server)
    }

    fn turn(&self, server: &Server, parameters: &Parameters) -> Result<Turn> {
        let orders = || number(server, "SELECT count(*) FROM bench_orders");
        let before = orders()?;
        let script = scale(parameters).script();
        let load = server.pgbench_again(&script, protocol(parameters), parameters.clients, parameters.seconds)?;
        let made = orders()? - before;
        // Of what the client was told that it is done, about 45 in a hundred.
        if made < 1 || made > load.acknowledged as i64 {
            let (what, expected) = ("count of new orders".to_owned(), load.acknowledged as i64);
            return Err(Error::Count { server: server.name.clone(), what, is: made, expected });
        }
        holds(server)?;
        let share = made as f64 / load.acknowledged as f64;
        Ok(Turn { values: vec![load.rate, load.rate * share], answers: vec![], ..Turn::default() })
    }

    fn clean_up(&self, server: &Server) -> Result<()> {
        TABLES.iter().chain([&ITEM]).try_for_each(|table| table.drop(server))
    }
}

fn scale(parameters: &Parameters) -> Scale {
    Scale::of(WAREHOUSES, parameters.rows.unwrap_or(ITEMS))
}

fn protocol(parameters: &Parameters) -> Protocol {
    parameters.protocol.unwrap_or(Protocol::Prepared)
}

/// All conditions.
fn holds(server: &Server) -> Result<()> {
    for (what, sql) in CONDITIONS {
        let is = number(server, sql)?;
        if is != 0 {
            return Err(Error::Inconsistent { server: server.name.clone(), what: what.to_owned(), is });
        }
    }
    Ok(())
}

fn number(server: &Server, sql: &str) -> Result<i64> {
    let said = server.value(sql)?;
    said.parse().map_err(|_| Error::Unreadable { program: "psql", figure: "count", said })
}
