//! W4: very many rows in one statement, by the script of a field report as it is, YugabyteDB's settings included.
//!
//! `w4-bulk` and `w4-upsert` are the same script with one of the settings on. A plain PostgreSQL does not know those
//! settings; there they are left out, so that all three compare with the same INSERT. The time is that of the INSERT.

use super::error::{Error, Result};
use super::server::{Server, ServerKind};
use super::table::Table;
use super::workload::{Figure, Parameters, Turn, Workload, only_simple};

pub const ROWS: u64 = 1_000_000;

const DEMO: Table =
    Table { name: "demo", columns: "id int primary key, a int, b int, c int, d int", index: "", key: "id" };

/// Which of the settings is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneStatement {
    AllOrNothing,
    Bulk,
    Upsert,
}

impl OneStatement {
    fn settings(self) -> String {
        let on = |it| if self == it { "on" } else { "off" };
        format!(
            "set yb_disable_transactional_writes = {};
set yb_enable_upsert_mode = {};
set ysql_session_max_batch_size = 0;
set ysql_max_in_flight_ops = 10000;
",
            on(OneStatement::Bulk),
            on(OneStatement::Upsert)
        )
    }
}

impl Workload for OneStatement {
    fn name(&self) -> &'static str {
        match self {
            OneStatement::AllOrNothing => "w4",
            OneStatement::Bulk => "w4-bulk",
            OneStatement::Upsert => "w4-upsert",
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let first = Figure::time_ms(match self {
            OneStatement::AllOrNothing => "W4 many rows in one statement",
            OneStatement::Bulk => "W4 in batches that commit one by one",
            OneStatement::Upsert => "W4 as an upsert, no key there",
        });
        match self {
            OneStatement::Upsert => vec![first, Figure::time_ms("W4 as an upsert, every key there")],
            _ => vec![first],
        }
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
        let settings = if server.kind == ServerKind::Herd { self.settings() } else { String::new() };
        let insert = |a: u32, tail: &str| {
            let timed = server.timed(&format!(
                "{settings}explain (costs off, analyze) insert into demo select generate_series(1,{rows}),{a},0,0,0{tail};\n"
            ))?;
            let last = timed.last().ok_or_else(|| Error::Unreadable {
                program: "psql",
                figure: "time",
                said: String::new(),
            })?;
            Ok::<_, Error>(last.time_ms)
        };
        let mut values = vec![insert(0, "")?];
        server.check_count("demo", rows)?;
        if *self == OneStatement::Upsert {
            // Who has no such setting writes what it stands for.
            let tail = match server.kind {
                ServerKind::Herd => "",
                _ => " on conflict (id) do update set a = excluded.a, b = excluded.b, c = excluded.c, d = excluded.d",
            };
            values.push(insert(1, tail)?);
            server.check_count("demo", rows)?;
        }
        let sums = server.value("select min(id), max(id), sum(id), sum(a + b + c + d) from demo")?;
        Ok(Turn { values, answers: vec![("W4: the rows' sums".to_owned(), sums)], ..Turn::default() })
    }

    fn clean_up(&self, server: &Server) -> Result<()> {
        DEMO.drop(server)
    }
}
