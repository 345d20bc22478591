//! W3: queries by key that return ten thousand rows each, prepared, from many clients.
//!
//! `w3-clustered`: after the table was put into the order of its index.
//!
//! Rows of a key are loaded far from each other, as they would come in. pgbench reads all rows and does not compare
//! them; a digest of every key's rows is compared instead.

use super::error::Result;
use super::server::Server;
use super::table::Table;
use super::workload::{Figure, Parameters, Protocol, Turn, Workload};

const ROWS_A_KEY: u64 = 10_000;
const ROWS: u64 = 20 * ROWS_A_KEY;

const TEST: Table = Table {
    name: "test",
    columns: "id int, info text, typeid int, crt_time timestamp, mod_time timestamp",
    index: "CREATE INDEX idx_test_typeid ON test (typeid)",
    key: "typeid",
};

pub struct ManyRowsAKey {
    /// The rows of a key lie side by side.
    pub clustered: bool,
}

impl Workload for ManyRowsAKey {
    fn name(&self) -> &'static str {
        if self.clustered { "w3-clustered" } else { "w3" }
    }

    fn figures(&self) -> Vec<Figure> {
        let name = if self.clustered { "W3 many rows a key, clustered" } else { "W3 many rows a key" };
        vec![Figure::rate(name, "tps")]
    }

    fn describe(&self, parameters: &Parameters) -> String {
        let (protocol, clients, seconds) = (protocol(parameters), parameters.clients, parameters.seconds);
        let (rows, keys) = (rows(parameters), keys(rows(parameters)));
        format!("{rows} rows, {keys} keys, pgbench -M {protocol}, {clients} clients, {seconds} s a turn")
    }

    fn prepare(&self, server: &Server, parameters: &Parameters) -> Result<()> {
        let rows = rows(parameters);
        let keys = keys(rows);
        TEST.make(server)?;
        server.psql(&format!(
            "INSERT INTO test SELECT i, md5(i::text), i % {keys} + 1, \
             timestamp '2026-01-01' + i * interval '1 second', timestamp '2026-02-01' + i * interval '1 second' \
             FROM generate_series(1, {rows}) AS i;\nVACUUM ANALYZE test;\n"
        ))?;
        if self.clustered {
            // A herd's tables are partitioned: CLUSTER would need an index that is marked, and stop readers.
            let herd = server.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'herd'")? == "1";
            let cluster = match herd {
                true => "SELECT herd.cluster('test', 'idx_test_typeid');",
                false => "CLUSTER test USING idx_test_typeid;",
            };
            server.psql(&format!("{cluster}\nVACUUM ANALYZE test;\n"))?;
        }
        server.check_count("test", rows)
    }

    fn turn(&self, server: &Server, parameters: &Parameters) -> Result<Turn> {
        let keys = keys(rows(parameters));
        let script = format!("\\set id random(1, {keys})\nselect * from test where typeid = :id;\n");
        let load = server.pgbench(&script, protocol(parameters), parameters.clients, parameters.seconds)?;
        // Something of every column; `info` is hexadecimal.
        let digest = server.value(
            "SELECT typeid, count(*), sum(id), min(crt_time), max(mod_time), \
             sum(('x' || left(info, 7))::bit(28)::int) \
             FROM test GROUP BY typeid ORDER BY typeid",
        )?;
        Ok(Turn {
            values: vec![load.rate],
            answers: vec![("W3: the rows of the keys".to_owned(), digest)],
            ..Turn::default()
        })
    }

    fn clean_up(&self, server: &Server) -> Result<()> {
        TEST.drop(server)
    }
}

fn rows(parameters: &Parameters) -> u64 {
    parameters.rows.unwrap_or(ROWS)
}

fn keys(rows: u64) -> u64 {
    (rows / ROWS_A_KEY).max(1)
}

fn protocol(parameters: &Parameters) -> Protocol {
    parameters.protocol.unwrap_or(Protocol::Prepared)
}
