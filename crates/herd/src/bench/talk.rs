//! One session of psql that is talked to: it is asked, and answers, again and again, while other programs run. It does not know what it is asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::error::{Error, Result};
use crate::local::program;

/// What stands behind each answer. No answer looks so.
const END: &str = "-- herd bench: that was it --";

/// The session; it ends with this.
pub struct Talk {
    server: String,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Talk {
    /// Begins a session at a URL, of the server that messages call so.
    pub fn begin(server: &str, url: &str) -> Result<Talk> {
        let spawn = |source| Error::Spawn { program: "psql".to_owned(), source };
        let mut command = Command::new(program("psql"));
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-P", "pager=off", "-f", "-", "-d", url]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("LC_ALL", "C");
        let mut child = command.spawn().map_err(spawn)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(spawn(std::io::Error::other("it has no standard input and output")));
        };
        Ok(Talk { server: server.to_owned(), child, stdin, stdout: BufReader::new(stdout) })
    }

    /// Runs a statement; the lines of its answer, columns divided by `|`. An error ends the session.
    pub fn ask(&mut self, sql: &str) -> Result<Vec<String>> {
        // Where it has ended, its answer says why.
        let _ = self.stdin.write_all(format!("{sql};\n\\echo {END}\n").as_bytes()).and_then(|()| self.stdin.flush());
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match self.stdout.read_line(&mut line) {
                Ok(length) if length > 0 => {}
                _ => return Err(self.ended()),
            }
            match line.trim_end_matches('\n') {
                END => return Ok(lines),
                line => lines.push(line.to_owned()),
            }
        }
    }

    fn ended(&mut self) -> Error {
        let mut said = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            let _ = stderr.read_to_string(&mut said);
        }
        Error::Program { program: "psql".to_owned(), server: self.server.clone(), said: said.trim().to_owned() }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // Nobody waits for what it was asked last.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
