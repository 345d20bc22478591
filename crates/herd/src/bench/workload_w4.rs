//! W4: very many rows in one statement, by the script of a field report as it is, YugabyteDB's settings included.
//!
//! A plain PostgreSQL does not know those settings; there they are left out. The time is that of the INSERT.

use super::error::{Error, Result};
use super::server::{Kind, Server};
use super::table::Table;
use super::workload::{Figure, Parameters, Turn, Workload, only_simple};

pub const ROWS: u64 = 1_000_000;

const DEMO: Table =
    Table { name: "demo", columns: "id int primary key, a int, b int, c int, d int", index: "", key: "id" };

const SETTINGS: &str = "set yb_disable_transactional_writes = off;
set yb_enable_upsert_mode = off;
set ysql_session_max_batch_size = 0;
set ysql_max_in_flight_ops = 10000;
";

pub struct OneStatement;

impl Workload for OneStatement {
    fn name(&self) -> &'static str {
        "w4"
    }

    fn figures(&self) -> Vec<Figure> {
        vec![Figure::time_ms("W4 many rows in one statement")]
    }

    fn describe(&self, parameters: &Parameters) -> String {
        format!("{} rows, psql", parameters.rows.unwrap_or(ROWS))
    }

    fn prepare(&self, server: &Server, parameters: &Parameters) -> Result<()> {
        only_simple(self.name(), parameters)?;
        DEMO.make(server)
    }

    fn turn(&self, server: &Server, parameters: &Parameters) -> Result<Turn> {
        let rows = parameters.rows.unwrap_or(ROWS);
        DEMO.make(server)?;
        let settings = if server.kind == Kind::Herd { SETTINGS } else { "" };
        let timed = server.timed(&format!(
            "{settings}explain (costs off, analyze) insert into demo select generate_series(1,{rows}),0,0,0,0;\n"
        ))?;
        let insert =
            timed.last().ok_or_else(|| Error::Unreadable { program: "psql", figure: "time", said: String::new() })?;
        server.check_count("demo", rows)?;
        let sums = server.value("select min(id), max(id), sum(id), sum(a + b + c + d) from demo")?;
        Ok(Turn { values: vec![insert.time_ms], answers: vec![("W4: the rows' sums".to_owned(), sums)] })
    }

    fn clean_up(&self, server: &Server) -> Result<()> {
        DEMO.drop(server)
    }
}
