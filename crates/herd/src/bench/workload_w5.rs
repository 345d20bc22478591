//! W5: reads of everything beside many writers. W1's single-row inserts, as fast as they come or at a fixed `--rate`, and beside them on one
//! connection, again and again, W2's Q1 to Q4 and a query of a wide table.
//!
//! With `--columns` the tables of a herd have column copies, which must be what answers; then it is told how far they are behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::columns;
use super::error::Result;
use super::lag::Marks;
use super::output::Load;
use super::pairs::median;
use super::server::Server;
use super::table::{SBTEST1, Table, fill_sbtest1};
use super::workload::{Figure, Parameters, Turn, Workload};
use super::workload_w1;
use super::workload_w2::QUERIES;

const ROWS: u64 = 200_000;
/// Ids from here on are of rows that are looked for.
const MARKS: Marks = Marks { table: "sbtest1", first: 2_000_000_000 };
/// Seconds between two rows of the wide table.
const STEP: u64 = 60;

const WIDE: Table = Table {
    name: "bench_wide",
    columns: "id bigint PRIMARY KEY, at timestamp NOT NULL, \
        i1 int, i2 int, i3 int, i4 int, i5 int, i6 int, i7 int, i8 int, i9 int, i10 int, i11 int, i12 int, i13 int, i14 int, i15 int, i16 int, \
        b1 bigint, b2 bigint, b3 bigint, b4 bigint, b5 bigint, b6 bigint, b7 bigint, b8 bigint, \
        n1 numeric(12,2), n2 numeric(12,2), n3 numeric(12,2), n4 numeric(12,2), n5 numeric(12,2), n6 numeric(12,2), n7 numeric(12,2), n8 numeric(12,2), \
        f1 float8, f2 float8, f3 float8, f4 float8, f5 float8, f6 float8, f7 float8, f8 float8, \
        t1 text, t2 text, t3 text, t4 text, t5 text, t6 text, t7 text, t8 text",
    index: "",
    key: "id",
};

pub struct Beside;

impl Workload for Beside {
    fn name(&self) -> &'static str {
        "w5"
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![Figure::rate("W5 single-row inserts", "tps")];
        figures.extend(titles().iter().map(|title| Figure::time_ms(title)));
        figures
    }

    fn describe(&self, parameters: &Parameters) -> String {
        let Parameters { clients, seconds, .. } = parameters;
        let rate = parameters.rate.map_or("as fast as they come".to_owned(), |rate| format!("{rate} rows/s"));
        let copies = if parameters.columns { ", column copies" } else { "" };
        format!(
            "{} rows, pgbench -M {}, {clients} clients, {rate}, {seconds} s a turn, queries by psql beside them{copies}",
            rows(parameters),
            workload_w1::protocol(parameters)
        )
    }

    fn prepare(&self, server: &Server, parameters: &Parameters) -> Result<()> {
        let rows = rows(parameters);
        fill_sbtest1(server, rows, None)?;
        WIDE.make(server)?;
        server.psql(&format!("{};\nVACUUM ANALYZE bench_wide;\n", wide_rows(rows)))?;
        server.check_count("bench_wide", rows)?;
        if parameters.columns_of(server) {
            columns::copy(server, "sbtest1")?;
            columns::copy(server, "bench_wide")?;
            let queries = queries(rows);
            columns::check(server, "", &queries.iter().map(String::as_str).collect::<Vec<_>>())?;
            MARKS.check(server)?;
        }
        Ok(())
    }

    fn turn(&self, server: &Server, parameters: &Parameters) -> Result<Turn> {
        let rows = rows(parameters);
        // What the turn before has left.
        server.psql(&format!("DELETE FROM sbtest1 WHERE id > {rows};\nVACUUM sbtest1;\n"))?;
        let columns = parameters.columns_of(server);
        let written = AtomicBool::new(false);
        let (load, times, lag) = std::thread::scope(|scope| {
            let lag = columns.then(|| scope.spawn(|| MARKS.follow(server, &written)));
            let writing = scope.spawn(|| {
                let load = write(server, parameters);
                written.store(true, Ordering::Relaxed);
                load
            });
            let times = read(server, rows, &written, Duration::from_secs(parameters.seconds.into()));
            let lag = lag.map_or(Ok(Vec::new()), joined);
            Ok::<_, super::error::Error>((joined(writing)?, times?, lag?))
        })?;
        if columns {
            columns::check_ready(server, "sbtest1")?;
        }
        server.check_count("sbtest1", rows + load.acknowledged + lag.len() as u64)?;
        let mut values = vec![load.rate];
        values.extend(times);
        // Of what nobody changes beside.
        let answers = vec![("W5: the wide table".to_owned(), server.value(&wide_query(rows))?)];
        Ok(Turn { values, answers, lag })
    }

    fn clean_up(&self, server: &Server) -> Result<()> {
        SBTEST1.drop(server)?;
        WIDE.drop(server)
    }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn write(server: &Server, parameters: &Parameters) -> Result<Load> {
    let Parameters { clients, seconds, rate, .. } = parameters;
    let script = workload_w1::script(*clients, rows(parameters), MARKS.first);
    server.pgbench_at(*rate, &script, workload_w1::protocol(parameters), *clients, *seconds)
}

/// All queries again and again until the writing ends, or once at least; the median time of each.
fn read(server: &Server, rows: u64, written: &AtomicBool, limit: Duration) -> Result<Vec<f64>> {
    let queries = queries(rows);
    let script: String = queries.iter().map(|query| format!("{query};\n")).collect();
    let mut times = vec![Vec::new(); queries.len()];
    let begun = Instant::now();
    while times[0].is_empty() || !written.load(Ordering::Relaxed) && begun.elapsed() < limit {
        for (times, timed) in times.iter_mut().zip(server.timed(&script)?) {
            times.push(timed.time_ms);
        }
    }
    Ok(times.iter().map(|times| median(times)).collect())
}

fn titles() -> Vec<String> {
    let short = QUERIES[..4].iter().map(|(name, _)| name.replacen("W2", "W5", 1) + ", beside");
    short.chain(["W5 wide, 4 of 50 columns and a time range, beside".to_owned()]).collect()
}

fn queries(rows: u64) -> Vec<String> {
    QUERIES[..4].iter().map(|(_, query)| (*query).to_owned()).chain([wide_query(rows)]).collect()
}

/// Of a quarter of the rows, in the middle.
fn wide_query(rows: u64) -> String {
    let (from, to) = (stamp(rows * 3 / 8 * STEP), stamp(rows * 5 / 8 * STEP));
    format!("select count(*), sum(i3), max(b5), sum(n2), min(i11) from bench_wide where at >= '{from}' and at < '{to}'")
}

/// So many seconds after the year 2000 began.
fn stamp(seconds: u64) -> String {
    let (mut day, second) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut month) = (2000, 0);
    loop {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month];
        if day < days {
            break;
        }
        day -= days;
        month = (month + 1) % 12;
        year += u64::from(month == 0);
    }
    let (month, day) = (month + 1, day + 1);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// The same on every server.
fn wide_rows(rows: u64) -> String {
    let of = |prefix: char, number: u64, value: &dyn Fn(u64) -> String| -> String {
        (1..=number)
            .map(|at| format!(", {} AS {prefix}{at}", value(at * 7919 + u64::from(u32::from(prefix)))))
            .collect()
    };
    let columns = of('i', 16, &|odd| format!("(g * {odd} % 1000003)::int"))
        + &of('b', 8, &|odd| format!("g * {odd} % 1000000000039"))
        + &of('n', 8, &|odd| format!("((g * {odd} % 100000007) / 100.0)::numeric(12,2)"))
        + &of('f', 8, &|odd| format!("(g * {odd} % 1000003) / 7.0::float8"))
        + &of('t', 8, &|odd| format!("'text ' || (g * {odd} % 9973)"));
    format!(
        "INSERT INTO bench_wide SELECT g, timestamp '2000-01-01' + g * interval '{STEP} seconds'{columns} \
         FROM generate_series(1, {rows}::bigint) AS g"
    )
}

fn rows(parameters: &Parameters) -> u64 {
    parameters.rows.unwrap_or(ROWS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wide_table_has_fifty_columns() {
        assert_eq!(WIDE.columns.split(", ").count(), 50);
        assert_eq!(wide_rows(7).matches(" AS ").count(), 48 + 1);
    }

    #[test]
    fn moments_are_of_the_calendar() {
        assert_eq!(stamp(0), "2000-01-01 00:00:00");
        assert_eq!(stamp(59 * 86_400 + 3_661), "2000-02-29 01:01:01");
        assert_eq!(stamp(366 * 86_400), "2001-01-01 00:00:00");
        assert_eq!(stamp(946_684_800), "2029-12-31 00:00:00");
    }

    #[test]
    fn everything_is_measured_that_is_named() {
        assert_eq!(Beside.figures().len(), 1 + queries(ROWS).len());
    }
}
