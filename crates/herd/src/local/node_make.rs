//! Makes the data directory of a node: initdb, settings, and last of all the marker.
//!
//! Interrupted anywhere, it leaves a directory without the marker, in which no server ever ran: such a one is made
//! anew. It never removes anything else.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::account::{self, Account};
use super::binaries::Binaries;
use super::error::{Error, Result};
use super::files::{Files, write_whole};
use super::node::{Condition, MARKER, Node, run};
use super::reach;

/// The marker's text: enough to write `herd.json` anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    pub number: u16,
    pub port: u16,
    pub postgresql: String,
}

impl Marker {
    /// `None` when it is missing or was made by hand.
    pub fn read(data: &Path) -> Option<Marker> {
        serde_json::from_str(&fs::read_to_string(data.join(MARKER)).ok()?).ok()
    }
}

/// Makes the node's data directory, which is absent or half made, and returns the node with its real path.
pub fn make(node: &Node, files: &Files, binaries: &Binaries, settings: &BTreeMap<String, String>) -> Result<Node> {
    if node.condition()? == Condition::HalfMade {
        eprintln!("{}: removing a half-made data directory, which holds no data yet", node.name);
        fs::remove_dir_all(&node.data).map_err(Error::io("remove", &node.data))?;
    }
    let account = account::for_new_data()?;
    let node =
        Node { data: reach::own_folder(account.as_ref(), files.dir(), &files.node(node.number))?, ..node.clone() };
    initdb(&node, account.as_ref(), binaries)?;
    let main = node.data.join("postgresql.conf");
    let add = |text: &str| {
        let mut file = OpenOptions::new().append(true).open(&main)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    add("\n# Written by `herd up` at each start.\ninclude 'herd.conf'\n").map_err(Error::io("write", &main))?;
    write_settings(&node, settings)?;
    let marker = Marker { number: node.number, port: node.port, postgresql: binaries.version.clone() };
    let marker = serde_json::to_string(&marker).unwrap_or_else(|error| unreachable!("plain data: {error}"));
    let path = node.data.join(MARKER);
    write_whole(&path, &(marker + "\n"))?;
    account::give(account.as_ref(), &path)?;
    Ok(node)
}

/// initdb, synced to disk: a third of a second here, and then a crash of the machine cannot lose a catalog file.
fn initdb(node: &Node, account: Option<&Account>, binaries: &Binaries) -> Result<()> {
    let attempt = |locale: &'static str| {
        let mut command = account::command(account, &binaries.bin.join("initdb"), &node.data);
        command.arg("--pgdata").arg(&node.data).arg("--username=postgres");
        command.args(initdb_options(binaries.major, locale).iter().map(|(name, value)| format!("--{name}={value}")));
        run("initdb", &node.name, &mut command)
    };
    match attempt(LOCALE) {
        // Older C libraries have no C.UTF-8.
        Err(Error::Tool { output, .. }) if output.contains("locale") => attempt("C").map(drop),
        other => other.map(drop),
    }
}

/// Of new servers.
pub const LOCALE: &str = "C.UTF-8";

/// initdb's options, but whose and where the data is.
pub fn initdb_options(major: u32, locale: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut options = vec![("auth", "trust"), ("encoding", "UTF8"), ("locale", locale)];
    if major >= 17 {
        // The same order of text on every machine, whatever its C library.
        options.extend([("locale-provider", "builtin"), ("builtin-locale", "C.UTF-8")]);
    }
    options
}

/// The settings of every local herd's servers, wherever they listen.
const SETTINGS: [(&str, &str); 4] = [
    ("max_connections", "300"),
    // Transactions over several nodes need it; one for each connection.
    ("max_prepared_transactions", "300"),
    ("shared_buffers", "256MB"),
    // Moving shards and the column store follow the log.
    ("wal_level", "logical"),
];

/// They, and those of the user's, which come before them.
pub fn parameters(given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut parameters: BTreeMap<String, String> =
        SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    parameters.extend(given.clone());
    parameters
}

/// Writes `herd.conf`, which postgresql.conf includes. True: it differs from what it was.
pub fn write_settings(node: &Node, settings: &BTreeMap<String, String>) -> Result<bool> {
    let path = node.data.join("herd.conf");
    let text = settings_text(node.port, settings);
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(false);
    }
    write_whole(&path, &text)?;
    account::give(account::owner_of(&node.data)?.as_ref(), &path)?;
    Ok(true)
}

fn settings_text(port: u16, settings: &BTreeMap<String, String>) -> String {
    let port = port.to_string();
    let ours = [
        ("listen_addresses", "127.0.0.1"),
        ("port", &port),
        // A socket's path has a length limit that a herd directory may exceed.
        ("unix_socket_directories", ""),
    ];
    let mut text = String::from("# Written by `herd up`; use `herd up --set name=value` or ALTER SYSTEM.\n");
    let given = settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in ours.into_iter().chain(SETTINGS).chain(given) {
        let value = value.replace('\\', "\\\\").replace('\'', "''");
        let _ = writeln!(text, "{name} = '{value}'");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_quoted_and_the_users_come_last() {
        let settings = BTreeMap::from([
            ("shared_buffers".to_owned(), "1GB".to_owned()),
            ("log_line_prefix".to_owned(), "it's \\ %m".to_owned()),
        ]);
        let text = settings_text(6501, &settings);
        assert!(text.contains("\nport = '6501'\n") && text.contains("\nwal_level = 'logical'\n"), "{text}");
        assert!(text.ends_with("log_line_prefix = 'it''s \\\\ %m'\nshared_buffers = '1GB'\n"), "{text}");
    }

    #[test]
    fn a_marker_made_by_hand_tells_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Marker::read(dir.path()), None);
        fs::write(dir.path().join(MARKER), "").unwrap();
        assert_eq!(Marker::read(dir.path()), None);
        fs::write(dir.path().join(MARKER), r#"{"number":2,"port":6502,"postgresql":"18.6"}"#).unwrap();
        assert_eq!(Marker::read(dir.path()).unwrap().port, 6502);
    }
}
