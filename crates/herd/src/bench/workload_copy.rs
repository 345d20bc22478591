//! COPY: psql's `\copy` of a file of W1's rows into an empty table.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use super::error::{Error, Result};
use super::server::Server;
use super::table::SBTEST1;
use super::workload::{Figure, Parameters, Turn, Workload, only_simple};

const ROWS: u64 = 1_000_000;

/// The file is written once, before the first turn, and removed at the end.
#[derive(Default)]
pub struct Copy {
    file: Option<PathBuf>,
}

impl Workload for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn figures(&self) -> Vec<Figure> {
        vec![Figure::rate("COPY", "rows/s")]
    }

    fn describe(&self, parameters: &Parameters) -> String {
        format!("{} rows, psql \\copy", parameters.rows.unwrap_or(ROWS))
    }

    fn choose(&mut self, _: &[Server], parameters: &Parameters) -> Result<()> {
        only_simple(self.name(), parameters)?;
        let path = std::env::temp_dir().join(format!("herd-bench-{}.copy", std::process::id()));
        self.file = Some(path.clone());
        write_rows(&path, parameters.rows.unwrap_or(ROWS)).map_err(|source| Error::Write { path, source })
    }

    fn prepare(&self, server: &Server, _: &Parameters) -> Result<()> {
        SBTEST1.make(server)
    }

    fn turn(&self, server: &Server, parameters: &Parameters) -> Result<Turn> {
        let rows = parameters.rows.unwrap_or(ROWS);
        let path = self.file.as_deref().unwrap_or_else(|| unreachable!("choose() comes first"));
        server.psql("TRUNCATE sbtest1;\n")?;
        let path = path.display().to_string().replace('\'', "''");
        let timed = server.timed(&format!("\\copy sbtest1 from '{path}'\n"))?;
        let copy =
            timed.last().ok_or_else(|| Error::Unreadable { program: "psql", figure: "time", said: String::new() })?;
        server.check_count("sbtest1", rows)?;
        let sums = server.value("SELECT min(id), max(id), sum(k), min(c), max(pad) FROM sbtest1")?;
        let rate = rows as f64 / (copy.time_ms / 1000.0);
        Ok(Turn { values: vec![rate], answers: vec![("COPY: the rows' sums".to_owned(), sums)], ..Turn::default() })
    }

    fn clean_up(&self, server: &Server) -> Result<()> {
        SBTEST1.drop(server)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Some(path) = &self.file {
            let _ = fs::remove_file(path);
        }
    }
}

fn write_rows(path: &PathBuf, rows: u64) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create_new(path)?);
    for id in 1..=rows {
        // Multiplication by an odd number scatters the values.
        let (k, word) = (id.wrapping_mul(7919) % rows, id.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (c, pad) = (format!("{word:020}").repeat(6), format!("{word:020}").repeat(3));
        writeln!(file, "{id}\t{k}\t{}\t{}", &c[..119], &pad[..59])?;
    }
    file.flush()
}
