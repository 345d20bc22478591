//! A session with the router that holds one cut over all nodes as long as it lives: psql, kept open.
//!
//! It does not know what is read from the cut.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::error::{Error, Result};
use super::program;

/// Ends each answer; no answer can be this line, because answers are JSON.
const END: &str = "herd-dump-end";

const BEGIN: &str = "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
SET herd.snapshot = on;
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;";

pub struct Cut {
    server: String,
    psql: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The exported snapshot of each node, by the node's id.
    pub snapshots: BTreeMap<i32, String>,
}

impl Cut {
    /// Begins the session and exports a snapshot of each node; `server` is the router's URL.
    pub fn take(server: &str) -> Result<Cut> {
        let spawn = |source| Error::Spawn { program: "psql", source };
        let mut command = program::psql(server);
        command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut psql = command.spawn().map_err(spawn)?;
        let pipes = (psql.stdin.take(), psql.stdout.take());
        let (Some(input), Some(output)) = pipes else {
            return Err(spawn(std::io::Error::other("psql has no standard input and output")));
        };
        let output = BufReader::new(output);
        let mut cut = Cut { server: server.to_owned(), psql, input, output, snapshots: BTreeMap::new() };
        cut.run(BEGIN)?;
        let said = cut.ask("SELECT herd.export_snapshot()")?;
        let by_text: BTreeMap<String, String> = cut.read(&said)?;
        let ids = by_text.into_iter().map(|(id, snapshot)| id.parse().map(|id| (id, snapshot)));
        cut.snapshots = ids.collect::<std::result::Result<_, _>>().map_err(|_| cut.unreadable(&said))?;
        Ok(cut)
    }

    /// A value read from the cut.
    pub fn json<T: serde::de::DeserializeOwned>(&mut self, sql: &str) -> Result<T> {
        let said = self.ask(sql)?;
        self.read(&said)
    }

    /// The snapshots have lived until now.
    pub fn end(mut self) -> Result<()> {
        self.run("COMMIT;")
    }

    fn run(&mut self, sql: &str) -> Result<()> {
        self.ask(sql.trim_end_matches(';')).map(|_| ())
    }

    fn ask(&mut self, sql: &str) -> Result<String> {
        // If it has ended, its answer says why.
        let _ = writeln!(self.input, "{sql};\n\\echo {END}").and_then(|()| self.input.flush());
        let mut answer = String::new();
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line);
            if !matches!(read, Ok(n) if n > 0) {
                return Err(self.ended());
            }
            if line.trim_end() == END {
                return Ok(answer.trim_end().to_owned());
            }
            answer.push_str(&line);
        }
    }

    fn ended(&mut self) -> Error {
        let mut said = String::new();
        if let Some(mut words) = self.psql.stderr.take() {
            let _ = words.read_to_string(&mut said);
        }
        let _ = self.psql.wait();
        let server = program::without_password(&self.server);
        Error::Program { program: "psql", server, said: said.trim().to_owned() }
    }

    fn read<T: serde::de::DeserializeOwned>(&self, said: &str) -> Result<T> {
        serde_json::from_str(said).map_err(|_| self.unreadable(said))
    }

    fn unreadable(&self, said: &str) -> Error {
        Error::Unreadable { server: program::without_password(&self.server), said: said.to_owned() }
    }
}

impl Drop for Cut {
    /// Given up: the session must not stay open.
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}
