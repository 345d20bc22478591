//! `oltp`: what an application does all day, in transactions like those of sysbench's `oltp_*` and of TPC-B.
//!
//! Each is measured by itself, on tables made anew. A client changes rows of its own, so that nobody waits for another or
//! meets another's key; what came of it is counted after each turn. Ranges are of a hundred keys.

use super::error::{Error, Result};
use super::output::Load;
use super::server::Server;
use super::table::{SBTEST1, Table, fill_sbtest1, sbtest1_rows};
use super::workload::{Figure, Parameters, Protocol, Turn, Workload};

const ROWS: u64 = 100_000;
const RANGE: u64 = 100;
/// Shards of a table that is split by range.
const RANGES: u64 = 32;
/// pgbench's: tellers of a branch.
const TELLERS: u64 = 10;
/// So many that clients seldom wait for one, as pgbench advises.
const BRANCHES: u64 = 128;

const ACCOUNTS: Table = Table {
    name: "bench_accounts",
    columns: "aid integer PRIMARY KEY, bid integer, abalance integer, filler character(84)",
    index: "",
    key: "aid",
};
const BRANCH: Table = Table {
    name: "bench_branches",
    columns: "bid integer PRIMARY KEY, bbalance integer, filler character(88)",
    index: "",
    key: "bid",
};
const TELLER: Table = Table {
    name: "bench_tellers",
    columns: "tid integer PRIMARY KEY, bid integer, tbalance integer, filler character(84)",
    index: "",
    key: "tid",
};
const HISTORY: Table = Table {
    name: "bench_history",
    columns: "tid integer, bid integer, aid integer, delta integer, mtime timestamp, filler character(22)",
    index: "",
    key: "aid",
};

/// What a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transactions {
    /// Five reads by key.
    Points,
    /// Ten reads by key and four of ranges: rows, a sum, in order, distinct.
    ReadOnly,
    /// The same, then two updates, a DELETE and an INSERT.
    ReadWrite,
    /// [`ReadOnly`](Self::ReadOnly), on a table that a herd has split by ranges of its key.
    ReadOnlyByRange,
    /// [`ReadWrite`](Self::ReadWrite), likewise.
    ReadWriteByRange,
    /// One update of an indexed column, by itself.
    UpdateIndex,
    /// One update of another column, by itself.
    UpdateNonIndex,
    /// One DELETE by key, by itself.
    Delete,
    /// TPC-B's: three updates, a read, an INSERT.
    TpcB,
}

impl Transactions {
    /// In the order they are measured.
    pub const ALL: [Transactions; 9] = [
        Transactions::Points,
        Transactions::ReadOnly,
        Transactions::ReadWrite,
        Transactions::ReadOnlyByRange,
        Transactions::ReadWriteByRange,
        Transactions::UpdateIndex,
        Transactions::UpdateNonIndex,
        Transactions::Delete,
        Transactions::TpcB,
    ];

    fn title(self) -> &'static str {
        match self {
            Transactions::Points => "oltp five point reads",
            Transactions::ReadOnly => "oltp read_only",
            Transactions::ReadWrite => "oltp read_write",
            Transactions::ReadOnlyByRange => "oltp read_only, split by range",
            Transactions::ReadWriteByRange => "oltp read_write, split by range",
            Transactions::UpdateIndex => "oltp update_index",
            Transactions::UpdateNonIndex => "oltp update_non_index",
            Transactions::Delete => "oltp delete",
            Transactions::TpcB => "oltp TPC-B",
        }
    }

    /// For pgbench. Each client draws ids of its own for what it changes.
    fn script(self, rows: u64, clients: u32) -> String {
        let clients = u64::from(clients);
        let own = format!("\\set id :client_id + 1 + {clients} * random(0, {})\n", (rows / clients).max(1) - 1);
        let points = |number: u64| {
            let set: String = (0..number).map(|i| format!("\\set p{i} random(1, {rows})\n")).collect();
            let read: String = (0..number).map(|i| format!("SELECT c FROM sbtest1 WHERE id = :p{i};\n")).collect();
            (set, read)
        };
        let ranges = || {
            let last = rows.saturating_sub(RANGE).max(1);
            let number = |i: usize| format!("\\set f{i} random(1, {last})\n\\set t{i} :f{i} + {}\n", RANGE - 1);
            let read = "SELECT c FROM sbtest1 WHERE id BETWEEN :f0 AND :t0;\n\
                        SELECT sum(k) FROM sbtest1 WHERE id BETWEEN :f1 AND :t1;\n\
                        SELECT c FROM sbtest1 WHERE id BETWEEN :f2 AND :t2 ORDER BY c;\n\
                        SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN :f3 AND :t3 ORDER BY c;\n";
            ((0..4).map(number).collect::<String>(), read)
        };
        let write = "UPDATE sbtest1 SET k = k + 1 WHERE id = :id;\n";
        // Eleven digits, as sbtest1_rows has them in front.
        let text = "\\set n random(10000000000, 99999999999)\n";
        match self {
            Transactions::Points => {
                let (set, read) = points(5);
                format!("{set}BEGIN;\n{read}COMMIT;\n")
            }
            Transactions::ReadOnly | Transactions::ReadOnlyByRange => {
                let ((set, read), (set_ranges, read_ranges)) = (points(10), ranges());
                format!("{set}{set_ranges}BEGIN;\n{read}{read_ranges}COMMIT;\n")
            }
            Transactions::ReadWrite | Transactions::ReadWriteByRange => {
                let ((set, read), (set_ranges, read_ranges)) = (points(10), ranges());
                format!(
                    "{set}{set_ranges}{own}{text}BEGIN;\n{read}{read_ranges}{write}\
                     UPDATE sbtest1 SET c = (:n)::text WHERE id = :id;\n\
                     DELETE FROM sbtest1 WHERE id = :id;\n\
                     INSERT INTO sbtest1 (id, k, c, pad) VALUES (:id, :p0, (:n)::text, 'pad');\nCOMMIT;\n"
                )
            }
            Transactions::UpdateIndex => format!("{own}{write}"),
            Transactions::UpdateNonIndex => format!("{own}{text}UPDATE sbtest1 SET c = (:n)::text WHERE id = :id;\n"),
            Transactions::Delete => format!("\\set id random(1, {rows})\nDELETE FROM sbtest1 WHERE id = :id;\n"),
            Transactions::TpcB => format!(
                "{own}\\set tid random(1, {})\n\\set bid random(1, {BRANCHES})\n\\set delta random(-5000, 5000)\nBEGIN;\n\
                 UPDATE bench_accounts SET abalance = abalance + :delta WHERE aid = :id;\n\
                 SELECT abalance FROM bench_accounts WHERE aid = :id;\n\
                 UPDATE bench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n\
                 UPDATE bench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n\
                 INSERT INTO bench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :id, :delta, CURRENT_TIMESTAMP);\n\
                 COMMIT;\n",
                BRANCHES * TELLERS
            ),
        }
    }
}

impl Workload for Transactions {
    fn name(&self) -> &'static str {
        "oltp"
    }

    fn figures(&self) -> Vec<Figure> {
        vec![Figure::rate(self.title(), "tps")]
    }

    fn describe(&self, parameters: &Parameters) -> String {
        let (protocol, clients, seconds) = (protocol(parameters), parameters.clients, parameters.seconds);
        let title = self.title().trim_start_matches("oltp ");
        format!("{title}, {} rows, pgbench -M {protocol}, {clients} clients, {seconds} s a turn", rows(parameters))
    }

    fn prepare(&self, server: &Server, parameters: &Parameters) -> Result<()> {
        let rows = rows(parameters);
        if *self != Transactions::TpcB {
            let ranges = matches!(self, Transactions::ReadOnlyByRange | Transactions::ReadWriteByRange);
            return fill_sbtest1(server, rows, ranges.then_some(RANGES));
        }
        for table in [ACCOUNTS, BRANCH, TELLER, HISTORY] {
            table.make(server)?;
        }
        server.psql(&format!(
            "INSERT INTO bench_accounts SELECT i, 1 + i % {BRANCHES}, 0, '' FROM generate_series(1, {rows}) AS i;\n\
             INSERT INTO bench_branches SELECT i, 0, '' FROM generate_series(1, {BRANCHES}) AS i;\n\
             INSERT INTO bench_tellers SELECT i, 1 + i % {BRANCHES}, 0, '' FROM generate_series(1, {}) AS i;\n\
             VACUUM ANALYZE bench_accounts;\nVACUUM ANALYZE bench_branches;\nVACUUM ANALYZE bench_tellers;\n",
            BRANCHES * TELLERS
        ))?;
        server.check_count("bench_accounts", rows)
    }

    fn turn(&self, server: &Server, parameters: &Parameters) -> Result<Turn> {
        let rows = rows(parameters);
        if *self == Transactions::Delete {
            server.psql(&format!("TRUNCATE sbtest1;\n{};\n", sbtest1_rows(rows)))?;
        }
        let before = self.counted(server)?;
        let script = self.script(rows, parameters.clients);
        let load = server.pgbench(&script, protocol(parameters), parameters.clients, parameters.seconds)?;
        self.check(server, before, &load)?;
        let answers = match self {
            Transactions::Points | Transactions::ReadOnly | Transactions::ReadOnlyByRange => {
                let digest = "SELECT count(*), sum(k), sum(id), min(c), max(c), max(pad) FROM sbtest1";
                vec![("oltp: what is read".to_owned(), server.value(digest)?)]
            }
            _ => vec![],
        };
        Ok(Turn { values: vec![load.rate], answers, ..Turn::default() })
    }

    fn clean_up(&self, server: &Server) -> Result<()> {
        match self {
            Transactions::TpcB => [ACCOUNTS, BRANCH, TELLER, HISTORY].iter().try_for_each(|table| table.drop(server)),
            _ => SBTEST1.drop(server),
        }
    }
}

impl Transactions {
    /// What a turn changes by as much as is acknowledged, or not at all.
    fn counted(self, server: &Server) -> Result<i64> {
        let sql = match self {
            Transactions::UpdateIndex => "SELECT sum(k) FROM sbtest1",
            Transactions::TpcB => "SELECT count(*) FROM bench_history",
            _ => "SELECT count(*) FROM sbtest1",
        };
        number(server, sql)
    }

    fn check(self, server: &Server, before: i64, load: &Load) -> Result<()> {
        let (now, done) = (self.counted(server)?, load.acknowledged as i64);
        let (what, expected) = match self {
            Transactions::UpdateIndex => ("sum(k) of sbtest1", before + done),
            Transactions::TpcB => ("count(*) of bench_history", before + done),
            // Some found nothing any more.
            Transactions::Delete => ("count(*) of sbtest1", now.clamp((before - done).max(0), before)),
            _ => ("count(*) of sbtest1", before),
        };
        same(server, what, now, expected)?;
        if self == Transactions::TpcB {
            let history = number(server, "SELECT coalesce(sum(delta), 0) FROM bench_history")?;
            for (table, column) in [(ACCOUNTS, "abalance"), (BRANCH, "bbalance"), (TELLER, "tbalance")] {
                let sum = number(server, &format!("SELECT sum({column}) FROM {}", table.name))?;
                same(server, &format!("sum({column})"), sum, history)?;
            }
        }
        Ok(())
    }
}

fn number(server: &Server, sql: &str) -> Result<i64> {
    let said = server.value(sql)?;
    said.parse().map_err(|_| Error::Unreadable { program: "psql", figure: "count", said })
}

fn same(server: &Server, what: &str, is: i64, expected: i64) -> Result<()> {
    match is == expected {
        true => Ok(()),
        false => Err(Error::Count { server: server.name.clone(), what: what.to_owned(), is, expected }),
    }
}

fn rows(parameters: &Parameters) -> u64 {
    parameters.rows.unwrap_or(ROWS)
}

fn protocol(parameters: &Parameters) -> Protocol {
    parameters.protocol.unwrap_or(Protocol::Prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_change_rows_of_their_own() {
        for kind in Transactions::ALL {
            let script = kind.script(1000, 7);
            let reads =
                [Transactions::Points, Transactions::ReadOnly, Transactions::ReadOnlyByRange, Transactions::Delete];
            let reads = reads.contains(&kind);
            assert_eq!(script.contains("\\set id :client_id + 1 + 7 * random(0, 141)\n"), !reads, "{script}");
            assert_eq!(script.contains("BEGIN"), script.contains("COMMIT"));
        }
        // As many rows as clients at least.
        assert!(Transactions::UpdateIndex.script(3, 7).contains("random(0, 0)"));
    }

    #[test]
    fn ranges_stay_within_the_table() {
        let script = Transactions::ReadOnly.script(500, 1);
        assert!(script.contains("\\set f3 random(1, 400)\n\\set t3 :f3 + 99\n"), "{script}");
        assert_eq!(script.matches("BETWEEN").count(), 4);
    }
}
