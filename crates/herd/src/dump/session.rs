//! psql, kept open: statements are asked one after the other, and the last of them may be a COPY whose data is read as it comes.
//!
//! It does not know what is asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::error::{Error, Result};
use super::program;

/// What psql says besides its answers is kept for an error: the end of it.
const WORDS_MAX: usize = 8 << 10;

/// A session with a server, which ends with its first error.
pub struct Session {
    server: String,
    psql: Arc<Mutex<Child>>,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Reads its words: what nobody reads would keep it from going on.
    words: Option<JoinHandle<Vec<u8>>>,
    /// The line that ends each answer, which no answer has.
    end: String,
}

impl Session {
    /// Begins one with `server`, a URL or a connection string; whether anybody is there, the first answer tells.
    pub fn begin(server: &str) -> Result<Session> {
        let spawn = |source| Error::Spawn { program: "psql", source };
        let mut command = program::psql(server);
        command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut psql = command.spawn().map_err(spawn)?;
        let (input, output) = (psql.stdin.take(), psql.stdout.take());
        let output = output.ok_or_else(|| spawn(std::io::Error::other("psql has no standard output")))?;
        let words = psql.stderr.take().map(|words| std::thread::spawn(move || last_words(words)));
        let (psql, output) = (Arc::new(Mutex::new(psql)), BufReader::new(output));
        let end = format!("herd-end-{:016x}", rand::random::<u64>());
        Ok(Session { server: server.to_owned(), psql, input, output, words, end })
    }

    /// What psql answers to a script, a statement or several.
    pub fn ask(&mut self, script: &str) -> Result<String> {
        let answer = self.ask_bytes(script)?;
        Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
    }

    /// The same, as it is, and with an end of line behind it.
    pub fn ask_bytes(&mut self, script: &str) -> Result<Vec<u8>> {
        let end = format!("{}\n", self.end);
        self.send(&format!("{script}\n\\echo {}", self.end));
        let mut answer = Vec::new();
        loop {
            let read = self.output.read_until(b'\n', &mut answer);
            if !matches!(read, Ok(n) if n > 0) {
                return Err(self.ended());
            }
            if answer.ends_with(end.as_bytes()) {
                answer.truncate(answer.len() - end.len());
                return Ok(answer);
            }
        }
    }

    /// A value in JSON.
    pub fn json<T: serde::de::DeserializeOwned>(&mut self, statement: &str) -> Result<T> {
        let said = self.ask(&format!("{statement};"))?;
        serde_json::from_str(&said).map_err(|_| self.unreadable(&said))
    }

    /// Runs a statement that must do without something others may have for a while; its SQLSTATE, 00000 if it was done.
    pub fn attempt(&mut self, statement: &str) -> Result<String> {
        self.ask(&format!("\\set ON_ERROR_STOP 0\n{statement};\n\\set ON_ERROR_STOP 1\n\\echo :SQLSTATE"))
    }

    /// No time limit of the role or the server ends what takes long; PostgreSQL 15 and 16 have no such one.
    pub fn unlimited(&mut self) -> Result<()> {
        self.attempt("SET transaction_timeout = 0").map(|_| ())
    }

    /// The last thing that is asked: a script whose answer is data, to be read to its end.
    pub fn into_data(mut self, script: &str) -> Data {
        self.send(script);
        // psql ends behind it.
        self.input = None;
        Data { session: self }
    }

    /// What can end it from elsewhere.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.psql.clone())
    }

    /// An answer that is not what was asked for.
    pub fn unreadable(&self, said: &str) -> Error {
        Error::Unreadable { server: program::without_password(&self.server), said: said.to_owned() }
    }

    /// The session is over: why, in psql's words.
    pub fn ended(&mut self) -> Error {
        self.input = None;
        let said = self.words();
        let _ = self.psql.lock().wait();
        Error::Program {
            program: "psql",
            server: program::without_password(&self.server),
            said: said.trim().to_owned(),
        }
    }

    fn words(&mut self) -> String {
        let said = self.words.take().and_then(|words| words.join().ok()).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }

    fn send(&mut self, script: &str) {
        // If psql has ended, its answer says why.
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{script}").and_then(|()| input.flush());
        }
    }
}

impl Drop for Session {
    /// Given up: the session must not stay open.
    fn drop(&mut self) {
        self.stopper().stop();
        let _ = self.psql.lock().wait();
    }
}

/// All that comes, and the end of it.
fn last_words(mut words: ChildStderr) -> Vec<u8> {
    let (mut said, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(n) = words.read(&mut piece)
        && n > 0
    {
        said.extend_from_slice(&piece[..n]);
        said.drain(..said.len().saturating_sub(WORDS_MAX));
    }
    said
}

/// Ends a session, whoever reads from it.
#[derive(Clone)]
pub struct Stopper(Arc<Mutex<Child>>);

impl Stopper {
    /// Its reader meets an end that is none.
    pub fn stop(&self) {
        let _ = self.0.lock().kill();
    }
}

/// What a script answers, as it comes.
pub struct Data {
    session: Session,
}

impl Data {
    /// It has been read to its end: whether that was one.
    pub fn finish(mut self) -> Result<()> {
        let said = self.session.words();
        let status = self.session.psql.lock().wait();
        match status {
            Ok(status) if status.success() => Ok(()),
            _ => {
                let server = program::without_password(&self.session.server);
                Err(Error::Program { program: "psql", server, said: said.trim().to_owned() })
            }
        }
    }
}

impl Read for Data {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.session.output.read(buffer)
    }
}

impl BufRead for Data {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.session.output.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.session.output.consume(amount);
    }
}
