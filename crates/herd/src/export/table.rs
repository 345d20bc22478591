//! A table's rows, from all nodes that have some of them at once.
//!
//! A partition that is moved, a table that is emptied or changed are not things that snapshots show as they were. So the table is
//! locked on its nodes first, as any reader locks it, in sessions that have no snapshot yet; then the cut is taken, and these sessions
//! see it. What has locked a table before others wait for it keeps it: nobody comes between.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use catalog::{qualified, quote_ident, quote_literal};
use serde::Deserialize;

use super::error::{Error, Result};
use super::files::{Folder, plain};
use super::progress::Progress;
use super::write::{Source, Writing};
use super::{Export, query, settings};
use crate::dump::program;
use crate::dump::server::Node;
use crate::dump::session::Session;
use crate::dump::snapshot::Cut;

const NODES: &str = "SELECT coalesce(jsonb_agg(to_jsonb(n) - 'added_at' ORDER BY n.id), '[]') FROM herd.node n";

/// How long a node's locks are waited for; then all are given up, as others may wait for those that we have.
const LOCK_TRY: &str = "3s";
/// How long that is tried.
const LOCK_MAX: Duration = Duration::from_secs(60);
const LOCK_PAUSE: Duration = Duration::from_millis(500);
const LOCK_NOT_AVAILABLE: &str = "55P03";
const DONE: &str = "00000";

/// What home says of a name.
#[derive(Debug, Deserialize)]
struct Named {
    schema: String,
    name: String,
    /// `pg_class.relkind`.
    relkind: String,
    /// `d`: distributed, `r`: reference; none: it is home's own.
    kind: Option<String>,
    lc_monetary: String,
}

/// What a node says of a table.
#[derive(Debug, Deserialize)]
struct Found {
    /// Its partitions that have rows.
    leaves: BTreeSet<String>,
    /// As its statistics have them.
    rows: u64,
}

/// Writes the rows of a table into a file for each node that has some of it; how many there are.
pub fn export(asked: &Export, router: &str, text: &str, folder: &Folder) -> Result<u64> {
    let nodes: Vec<Node> = json(router, NODES)?;
    let strange = || Error::NoTable { name: text.to_owned() };
    let home = nodes.iter().find(|node| node.is_home).ok_or_else(strange)?.clone();
    let named: Option<Named> = json(&home.conninfo(router, &asked.nodes), &names(text))?;
    let named = named.ok_or_else(strange)?;
    let table = qualified(&named.schema, &named.name);
    if !matches!(&*named.relkind, "r" | "p") {
        return query::export(asked, router, &format!("SELECT * FROM {table}"), &named.name, folder);
    }
    let is_distributed = named.kind.as_deref() == Some("d");
    let places = if is_distributed { nodes } else { vec![home.clone()] };
    let mut sessions = locked(asked, router, &named, &places)?;
    let mut cut = Cut::take(router)?;
    let kind: [Option<String>; 1] = cut.json(&kind(&named))?;
    if kind[0] != named.kind {
        return Err(Error::Changed { table });
    }
    for (node, session) in &mut sessions {
        let snapshot = cut.snapshots.get(&node.id).ok_or_else(|| Error::Changed { table: table.clone() })?;
        session.ask(&format!("SET TRANSACTION SNAPSHOT {};", quote_literal(snapshot)))?;
    }
    let (_, at_home) = sessions
        .iter_mut()
        .find(|(node, _)| node.id == home.id)
        .ok_or_else(|| Error::Changed { table: table.clone() })?;
    let columns: Vec<String> = at_home.json(&columns(&table))?;
    let columns: Vec<String> = columns.iter().map(|name| quote_ident(name)).collect();
    let select = format!("SELECT {} FROM {table}", columns.join(", "));
    let mut shards: BTreeMap<i32, BTreeSet<String>> =
        at_home.json::<Vec<(i32, BTreeSet<String>)>>(&shards(&table))?.into_iter().collect();
    let columns = query::columns(asked, at_home, &select)?;
    if shards.is_empty() {
        // A table of one node, or one without partitions.
        shards.insert(home.id, BTreeSet::new());
    }
    // A node that has joined since they were listed, and got some.
    if shards.keys().any(|id| sessions.iter().all(|(node, _)| node.id != *id)) {
        return Err(Error::Moved { table });
    }
    let (mut sources, mut rows) = (Vec::new(), 0);
    for (node, mut session) in sessions {
        let Some(due) = shards.get(&node.id) else { continue };
        let found: Found = session.json(&found(&table))?;
        if is_distributed && found.leaves != *due {
            let shards = found.leaves.symmetric_difference(due).cloned().collect::<Vec<_>>().join(", ");
            return Err(Error::Shards { node: node.name, table, shards });
        }
        rows += found.rows;
        let number = if is_distributed { format!("-{}", node.id) } else { String::new() };
        let file = format!("{}{number}.{}", plain(&named.name), asked.format.extension());
        sources.push(Source { file, session, query: select.clone(), check: check(&table) });
    }
    let written = Writing::new(asked, folder, columns, Progress::new(Some(rows))).all(sources)?;
    // All of it was read from the cut only if that has lasted.
    cut.end()?;
    Ok(written)
}

/// A session with each node, in a transaction that has locked the table and has no snapshot yet.
fn locked(asked: &Export, router: &str, named: &Named, nodes: &[Node]) -> Result<Vec<(Node, Session)>> {
    let began = Instant::now();
    let table = qualified(&named.schema, &named.name);
    loop {
        if let Some(sessions) = try_lock(asked, router, named, nodes)? {
            return Ok(sessions);
        }
        if began.elapsed() > LOCK_MAX {
            return Err(Error::Locked { table, seconds: LOCK_MAX.as_secs() });
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// `None`: others have it, and may wait for us elsewhere.
fn try_lock(asked: &Export, router: &str, named: &Named, nodes: &[Node]) -> Result<Option<Vec<(Node, Session)>>> {
    let lock = format!("LOCK TABLE {} IN ACCESS SHARE MODE", qualified(&named.schema, &named.name));
    let begin = format!(
        "{} SET lc_monetary = {}; SET lock_timeout = '{LOCK_TRY}'; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;",
        settings(asked),
        quote_literal(&named.lc_monetary)
    );
    let mut sessions = Vec::new();
    for node in nodes {
        let mut session = Session::begin(&node.conninfo(router, &asked.nodes))?;
        session.unlimited()?;
        session.ask(&begin)?;
        match &*session.attempt(&lock)? {
            DONE => {}
            LOCK_NOT_AVAILABLE => return Ok(None),
            _ => return Err(session.ended().into()),
        }
        sessions.push((node.clone(), session));
    }
    Ok(Some(sessions))
}

fn json<T: serde::de::DeserializeOwned>(server: &str, statement: &str) -> Result<T> {
    let said = program::value(server, statement)?;
    let server = program::without_password(server);
    Ok(serde_json::from_str(&said).map_err(|_| crate::dump::Error::Unreadable { server, said })?)
}

/// [`Named`] of a table's name as SQL has it, or null.
fn names(text: &str) -> String {
    format!(
        "SELECT coalesce((SELECT pg_catalog.jsonb_build_object('schema', n.nspname, 'name', c.relname, 'relkind', c.relkind, 'kind', r.kind,
                'lc_monetary', pg_catalog.current_setting('lc_monetary'))
            FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            LEFT JOIN herd.relation r ON r.schema = n.nspname AND r.name = c.relname
           WHERE c.oid = pg_catalog.to_regclass({})), 'null')",
        quote_literal(text)
    )
}

fn kind(named: &Named) -> String {
    format!(
        "SELECT jsonb_build_array((SELECT r.kind FROM herd.relation r WHERE r.schema = {} AND r.name = {}))",
        quote_literal(&named.schema),
        quote_literal(&named.name)
    )
}

/// All that `SELECT *` shows, generated columns among them.
fn columns(table: &str) -> String {
    format!(
        "SELECT coalesce(pg_catalog.jsonb_agg(a.attname ORDER BY a.attnum), '[]') FROM pg_catalog.pg_attribute a
          WHERE a.attrelid = {}::pg_catalog.regclass AND a.attnum > 0 AND NOT a.attisdropped",
        quote_literal(table)
    )
}

/// The table and all below it.
fn tree(table: &str) -> String {
    format!(
        "WITH RECURSIVE tree (oid) AS (SELECT {}::pg_catalog.regclass::pg_catalog.oid
            UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON i.inhparent = tree.oid)",
        quote_literal(table)
    )
}

/// Asked of home: each node that has shards, and their names.
fn shards(table: &str) -> String {
    format!(
        "{} SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(s.node, s.names)), '[]') FROM (
            SELECT s.node, pg_catalog.jsonb_agg(pg_catalog.concat(r.prefix, '_', s.number)) AS names
              FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
              JOIN herd.relation r ON r.schema = n.nspname AND r.name = c.relname
              JOIN herd.shard s ON s.colocation = r.colocation
             WHERE r.key IS NULL GROUP BY s.node) s",
        tree(table)
    )
}

/// [`Found`].
fn found(table: &str) -> String {
    format!(
        "{} SELECT pg_catalog.jsonb_build_object('leaves', coalesce(pg_catalog.jsonb_agg(c.relname), '[]'),
                'rows', coalesce(pg_catalog.sum(greatest(c.reltuples, 0)), 0)::pg_catalog.int8)
              FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid WHERE c.relkind <> 'p'",
        tree(table)
    )
}

/// Fails where a table was read that was there at the cut and no part of this one: ATTACH PARTITION does not wait for readers. With row-level security others are
/// read for the policies.
fn check(table: &str) -> String {
    format!(
        "DO $herd$ BEGIN
            IF NOT pg_catalog.row_security_active({}) AND EXISTS ({}
                SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                 WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND c.oid >= 16384
                   AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
                   AND c.relkind IN ('r', 'f') AND n.nspname <> 'herd' AND c.oid NOT IN (SELECT tree.oid FROM tree))
            THEN RAISE EXCEPTION 'a partition was attached meanwhile, of which some rows were read: try again'; END IF;
        END $herd$;\nCOMMIT;",
        quote_literal(table),
        tree(table)
    )
}
