//! DuckDB by itself, on a file of its own: SQL from a text, a statement a line, answered (integers and texts) and timed as psql does it. What stores are compared with; it
//! knows nothing of them.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use duckdb::Connection;
use duckdb::types::ValueRef;

use crate::error::Result;

/// Opens or makes the file, runs the statements, and writes of each its rows, values divided by `|`, and the time it took in milliseconds.
pub fn run(file: &Path, script: &str, out: &mut impl Write) -> Result<()> {
    let conn = Connection::open(file)?;
    for sql in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let begun = Instant::now();
        let rows = answer(&conn, sql)?;
        let took = begun.elapsed().as_secs_f64() * 1000.0;
        let written = rows.iter().try_for_each(|row| writeln!(out, "{row}"));
        // Whoever reads no more has ended.
        if written.and_then(|()| writeln!(out, "Time: {took:.3} ms")).is_err() {
            break;
        }
    }
    Ok(())
}

fn answer(conn: &Connection, sql: &str) -> Result<Vec<String>> {
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut lines = vec![];
    while let Some(row) = rows.next()? {
        let width = row.as_ref().column_count();
        let values = (0..width).map(|at| Ok(text(row.get_ref(at)?))).collect::<Result<Vec<_>>>()?;
        lines.push(values.join("|"));
    }
    Ok(lines)
}

fn text(value: ValueRef) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Int(n) => n.to_string(),
        ValueRef::BigInt(n) => n.to_string(),
        ValueRef::HugeInt(n) => n.to_string(),
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        // Whoever asks for other types casts them.
        other => format!("({})", other.data_type()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_as_psql_prints_them() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("own.duckdb");
        let mut said = vec![];
        let script = "create table t as select i::int as i, 'n' || i as n from range(3) r(i);\n\nselect count(*), sum(i), null, max(n) from t;\n";
        run(&file, script, &mut said).unwrap();
        run(&file, "select n from t order by i desc limit 2;", &mut said).unwrap();
        let lines = String::from_utf8(said).unwrap();
        let lines: Vec<_> = lines.lines().filter(|line| !line.starts_with("Time: ")).collect();
        assert_eq!(lines, ["3", "3|3||n2", "n2", "n1"]);
        assert!(run(&file, "select nothing from t;", &mut vec![]).is_err());
    }
}
