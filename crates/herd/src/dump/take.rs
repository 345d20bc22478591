//! `herd dump`: everything of a herd at one snapshot, by pg_dump on each node.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Error, Result};
use super::manifest::{Archive, Manifest, Table};
use super::program::{self, without_password};
use super::progress::Progress;
use super::schema::{self, For};
use super::server::Node;
use super::snapshot::Cut;
use crate::local::Target;

const NODES: &str = "SELECT coalesce(jsonb_agg(to_jsonb(n) - 'added_at' ORDER BY n.id), '[]') FROM herd.node n";

const TABLES: &str = "SELECT coalesce(jsonb_agg(jsonb_build_object(
    'schema', r.schema, 'name', r.name, 'kind', r.kind, 'colocation', r.colocation, 'private', coalesce(g.private, false),
    'strategy', g.strategy, 'shard_count', CASE WHEN g.strategy = 'hash' THEN (
        SELECT min(substring(s.bound FROM '(?i)modulus ([0-9]+)')::integer) FROM herd.shard s WHERE s.colocation = g.id) ELSE g.shard_count END,
    'partitioned', r.key IS NOT NULL,
    'key', coalesce((SELECT jsonb_agg(a.attname ORDER BY k.position)
                       FROM unnest(coalesce(r.key, (SELECT partattrs::int2[] FROM pg_partitioned_table WHERE partrelid = c.oid)))
                            WITH ORDINALITY AS k (attnum, position)
                       JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum), '[]'),
    'bounds', CASE WHEN g.strategy <> 'hash' THEN
        (SELECT jsonb_agg(s.bound ORDER BY s.number) FROM herd.shard s WHERE s.colocation = g.id) ELSE '[]' END)
    ORDER BY c.oid), '[]')
  FROM herd.relation r
  JOIN pg_namespace n ON n.nspname = r.schema
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = r.name
  LEFT JOIN herd.colocation g ON g.id = r.colocation";

/// The partitions each node must have: `[[node, \"herd_shards.events_0\"], …]`.
const PARTITIONS: &str =
    "SELECT coalesce(jsonb_agg(jsonb_build_array(s.node, 'herd_shards.' || r.prefix || '_' || s.number)), '[]')
  FROM herd.relation r JOIN herd.shard s ON s.colocation = r.colocation
 WHERE r.key IS NULL";

/// Tables with rows and their sizes: those of shards, or all others.
fn sizes(shards: bool) -> String {
    let which = if shards { "n.nspname = 'herd_shards'" } else { "n.nspname NOT IN ('herd', 'herd_shards')" };
    format!(
        "SELECT coalesce(jsonb_agg(jsonb_build_array(n.nspname || '.' || c.relname, pg_table_size(c.oid))), '[]')
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND {which}
            AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
    )
}

#[derive(Debug)]
pub struct Dump {
    pub from: Target,
    /// Made where it is missing; must be empty.
    pub dir: PathBuf,
    /// Connections to a node at once.
    pub jobs: u16,
    /// Nodes that are not reached at the address the herd knows: name and URL.
    pub nodes: Vec<(String, String)>,
}

/// Where pg_dump goes, with the snapshot it reads.
struct Source {
    node: Node,
    conninfo: String,
    snapshot: String,
}

/// Makes a dump of one moment; its manifest comes last, so a folder without one is no dump.
pub fn take(asked: &Dump) -> Result<()> {
    make_folder(&asked.dir)?;
    let router = asked.from.url()?;
    if program::value(&router, "SHOW herd.snapshot").is_err() {
        // Either nobody is there, which the next statement says, or it is not a router.
        program::value(&router, "SELECT 1")?;
        return Err(Error::NotAHerd { server: without_password(&router) });
    }
    let mut cut = Cut::take(&router)?;
    let nodes: Vec<Node> = cut.json(NODES)?;
    let tables: Vec<Table> = cut.json(TABLES)?;
    let partitions: Vec<(i32, String)> = cut.json(PARTITIONS)?;
    let sources = nodes.into_iter().map(|node| source(node, &cut, &router, asked)).collect::<Result<Vec<_>>>()?;
    let home = sources
        .iter()
        .find(|s| s.node.is_home)
        .ok_or_else(|| Error::Unreadable { server: without_password(&router), said: "no node is home".to_owned() })?;
    roles(home, &asked.dir)?;
    for section in ["pre-data", "post-data"] {
        dump_schema(home, section, &tables, &asked.dir)?;
    }
    let mut archives = vec![archive(home, false)?];
    for source in &sources {
        archives.push(archive(source, true)?);
    }
    let progress = Progress::new(&archives);
    for (source, archive) in std::iter::once(home).chain(&sources).zip(&archives) {
        let shards = archive.folder != HOME;
        let dumped = dump_rows(source, archive, shards, asked, &progress)?;
        let due = partitions.iter().filter(|(node, _)| shards && *node == source.node.id).map(|(_, name)| name);
        let missing: Vec<&str> = due.filter(|name| !dumped.contains(*name)).map(String::as_str).collect();
        if !missing.is_empty() {
            return Err(Error::Missing { node: source.node.name.clone(), missing: missing.join(", ") });
        }
    }
    progress.done();
    // All of it was read from the cut only if that has lasted.
    cut.end()?;
    Manifest::new(archives, tables).save(&asked.dir)
}

const HOME: &str = "home";

fn make_folder(dir: &Path) -> Result<()> {
    let failed = |action| move |source| Error::Io { action, path: dir.to_owned(), source };
    // Verifiers of passwords and everybody's rows are for nobody else to read.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir.join("data")).map_err(failed("make"))?;
    let mut entries = fs::read_dir(dir).map_err(failed("read"))?.flatten().filter(|e| e.file_name() != "data");
    let mut data = fs::read_dir(dir.join("data")).map_err(failed("read"))?;
    if entries.next().is_some() || data.next().is_some() {
        return Err(Error::NotEmpty { path: dir.to_owned() });
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(failed("close"))
}

fn source(node: Node, cut: &Cut, router: &str, asked: &Dump) -> Result<Source> {
    let conninfo = node.conninfo(router, &asked.nodes);
    let snapshot = cut.snapshots.get(&node.id).cloned();
    let missing =
        || Error::Unreadable { server: without_password(router), said: format!("no snapshot of node {}", node.name) };
    Ok(Source { snapshot: snapshot.ok_or_else(missing)?, conninfo, node })
}

fn roles(home: &Source, dir: &Path) -> Result<()> {
    let dumpall = |more: &[&str]| {
        let mut command = Command::new(crate::local::program("pg_dumpall"));
        command
            .env("LC_ALL", "C")
            .args(["--roles-only", "-d", &home.conninfo, "-f"])
            .arg(dir.join("roles.sql"))
            .args(more);
        program::run("pg_dumpall", &home.conninfo, command, |_| {})
    };
    if dumpall(&[]).is_err() {
        // Only superusers may read passwords.
        dumpall(&["--no-role-passwords"])?;
        eprintln!("roles.sql has no passwords: {} may not read them", without_password(&home.conninfo));
    }
    Ok(())
}

fn pg_dump(source: &Source) -> Command {
    let mut command = program::command("pg_dump", &source.conninfo);
    command.arg(format!("--snapshot={}", source.snapshot)).arg("--verbose");
    command
}

fn dump_schema(home: &Source, section: &str, tables: &[Table], dir: &Path) -> Result<()> {
    let path = dir.join(format!("{section}.sql"));
    let mut command = pg_dump(home);
    command.args(["-N", "herd", "-N", "herd_shards", &format!("--section={section}"), "-f"]).arg(&path);
    program::run("pg_dump", &home.conninfo, command, |_| {})?;
    let failed = |action| {
        let path = path.clone();
        move |source| Error::Io { action, path, source }
    };
    let script = fs::read_to_string(&path).map_err(failed("read"))?;
    fs::write(&path, schema::adapt(&script, tables, For::Plain)?).map_err(failed("write"))
}

fn archive(source: &Source, shards: bool) -> Result<Archive> {
    let folder = if shards { format!("shards-{}", source.node.name.replace('/', "_")) } else { HOME.to_owned() };
    let said = program::value(&source.conninfo, &sizes(shards))?;
    let unreadable = |_| Error::Unreadable { server: source.node.name.clone(), said: said.clone() };
    Ok(Archive { folder, tables: serde_json::from_str(&said).map_err(unreadable)? })
}

/// The rows of a node's shards, or everything else that home has; the tables that were read.
fn dump_rows(
    source: &Source,
    archive: &Archive,
    shards: bool,
    asked: &Dump,
    progress: &Progress,
) -> Result<HashSet<String>> {
    progress.archive("dumping", archive);
    let mut command = pg_dump(source);
    command.args(["--format=directory", "--data-only", &format!("--jobs={}", asked.jobs)]);
    match shards {
        // Rows name the table they are of, not the partition they were in.
        true => command.args(["-n", "herd_shards", "--load-via-partition-root"]),
        false => command.args(["-N", "herd", "-N", "herd_shards"]),
    };
    command.arg("-f").arg(asked.dir.join("data").join(&archive.folder));
    let mut dumped = HashSet::new();
    program::run("pg_dump", &source.conninfo, command, |line| {
        dumped.extend(progress.heard(line, archive).map(str::to_owned));
    })?;
    Ok(dumped)
}
