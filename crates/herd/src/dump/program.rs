//! Runs PostgreSQL's client programs to their end. It does not know what they are for.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::error::{Error, Result};
use crate::local::program;

/// Lines of a program's own words that are kept for an error.
const SAID_LINES_MAX: usize = 20;

/// A program that connects to `server`, a URL or a connection string.
pub fn command(name: &'static str, server: &str) -> Command {
    let mut command = Command::new(program(name));
    // Its words are read.
    command.env("LC_ALL", "C").args(["-d", server]);
    command
}

/// psql as scripts need it: bare values, and an end at the first error.
pub fn psql(server: &str) -> Command {
    let mut command = command("psql", server);
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-P", "pager=off"]);
    command
}

/// Runs it to its end; what it wrote to standard output. `heard` gets each line of its standard error.
pub fn run(name: &'static str, server: &str, mut command: Command, mut heard: impl FnMut(&str)) -> Result<String> {
    let spawn = |source| Error::Spawn { program: name, source };
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(spawn)?;
    let mut said = Vec::new();
    // Its standard output is short; its standard error may be long.
    for line in
        child.stderr.take().map(BufReader::new).into_iter().flat_map(|words| words.lines().map_while(|l| l.ok()))
    {
        heard(&line);
        if said.len() == SAID_LINES_MAX {
            said.remove(0);
        }
        said.push(line);
    }
    let output = child.wait_with_output().map_err(spawn)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    Err(Error::Program { program: name, server: without_password(server), said: said.join("\n") })
}

/// What one statement answers.
pub fn value(server: &str, sql: &str) -> Result<String> {
    let mut command = psql(server);
    command.args(["-c", sql]);
    run("psql", server, command, |_| {})
}

/// Passwords never reach a terminal or a log.
pub fn without_password(server: &str) -> String {
    let Some((scheme, rest)) = server.split_once("://") else { return pairs_without_password(server) };
    let (login, place) = rest.rsplit_once('@').map_or((None, rest), |(login, place)| (Some(login), place));
    let login = login.map_or_else(String::new, |login| format!("{}@", login.split(':').next().unwrap_or_default()));
    let (place, options) = place.split_once('?').unwrap_or((place, ""));
    let options: Vec<&str> = options.split('&').filter(|o| !o.is_empty() && !is_secret(o)).collect();
    let options = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
    format!("{scheme}://{login}{place}{options}")
}

fn is_secret(option: &str) -> bool {
    let name = option.split('=').next().unwrap_or_default().trim();
    ["password", "sslpassword"].contains(&name)
}

/// Of `key=value` words, whose values may be quoted.
fn pairs_without_password(server: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    let (mut word, mut quoted, mut escaped) = (String::new(), false, false);
    for c in server.chars().chain([' ']) {
        if c.is_whitespace() && !quoted && !escaped {
            if !word.is_empty() && !is_secret(&word) {
                kept.push(std::mem::take(&mut word));
            }
            word.clear();
            continue;
        }
        quoted ^= c == '\'' && !escaped;
        escaped = c == '\\' && !escaped;
        word.push(c);
    }
    // One that does not end is shown by nobody.
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("postgresql://u:secret@h:1/x"), "postgresql://u@h:1/x");
        assert_eq!(without_password("host=h password=secret user=u"), "host=h user=u");
        assert_eq!(without_password("host=h password='a b' user=u"), "host=h user=u");
        assert_eq!(without_password(r"host=h password='a\' b' user='x y'"), "host=h user='x y'");
        assert_eq!(
            without_password("postgresql://u:p@ss@h/x?password=geheim&sslmode=require"),
            "postgresql://u@h/x?sslmode=require"
        );
        assert_eq!(without_password("postgresql://h/x?password=geheim"), "postgresql://h/x");
    }
}
