//! A table's first copy: everything at one snapshot, and from which transaction on the stream tells of it. While it is made, the main stream
//! is not read. It is as PostgreSQL does it itself (tablesync.c): that making the temporary slot waits for all open transactions is what leaves no
//! gap between the publication and the snapshot.
//!
//! Names belong to tables' owners, who may give them to others meanwhile: to a view, whose functions would run as this role, or to a table
//! of somebody else. So each leaf is copied by itself, as PostgreSQL copies no view so, and then the locks say which tables it was.

use catalog::{qualified, quote_ident, quote_literal};
use pool::{Conn, PoolError};
use tokio::sync::mpsc;
use wire::type_oid::FIRST_NORMAL_OBJECT_ID;
use wire::{ErrorFields, put};

use crate::definition::{self, Definition, Found};
use crate::error::{Error, Result};
use crate::fingerprint;
use crate::jobs::Handle;
use crate::load::{Fresh, Loaded};
use crate::lsn::Lsn;
use crate::node::{self, cell};
use crate::published;
use crate::shape::Shape;
use crate::shared::{Shared, State};
use crate::wanted::Wanted;

/// Bytes that are handed over at once, and how often they may wait.
const RUN_BYTES: usize = 1 << 20;
const RUNS: usize = 8;

/// Makes the copy; it can be read once this is done.
pub async fn copy_in(shared: &Shared, writer: &Handle, control: &mut Conn, wanted: &Wanted) -> Result<()> {
    let Found::Can(table) = definition::read(control, wanted).await? else {
        return Err(Error::Copy { id: wanted.id, why: "it can't be copied any more".into() });
    };
    publish(control, &shared.config.slot, wanted.relation, &table).await?;
    let mut source = node::connect_to_replicate(&shared.config).await?;
    // Of this process and this copy; it goes with the connection.
    let temporary = format!("{}_{}_{}", shared.config.slot, wanted.id, source.pid());
    if forgets_publications(control).await? {
        // Every transaction ends that began before.
        source.simple(&format!("CREATE_REPLICATION_SLOT \"{temporary}\" TEMPORARY LOGICAL pgoutput")).await?;
        source.simple(&format!("DROP_REPLICATION_SLOT \"{temporary}\"")).await?;
        let (schema, name) = (&table.schema, &table.name);
        control.simple(&published::again(&shared.config.slot, wanted.relation, schema, name)).await?;
    }
    source.simple("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ").await?;
    let slot = format!("CREATE_REPLICATION_SLOT \"{temporary}\" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'use')");
    let made = source.simple(&slot).await?;
    let since: Lsn = cell(&made, 1)
        .and_then(|lsn| lsn.parse().ok())
        .ok_or_else(|| Error::surprise("a slot has no consistent point"))?;
    pool::slot_snapshot::settled(&mut source, control).await?;
    // As it is in the snapshot, which alone counts.
    let Found::Can(table) = definition::read(&mut source, wanted).await? else {
        return Err(Error::Copy { id: wanted.id, why: "it was changed just now".into() });
    };
    let facts = source.simple(&fingerprint::question(wanted.relation, &shared.config.slot)).await?;
    let facts = fingerprint::answer(&facts)?.ok_or_else(|| Error::surprise("a table went away"))?;
    if facts.fingerprint.is_empty() {
        return Err(Error::surprise("not all changes of a table are published"));
    }
    let leaves = leaves(&mut source, wanted.relation).await?;
    let Loaded { rows, signed_zeros } = rows(&mut source, writer, wanted, &table, &leaves).await?;
    if !has_read(&mut source, &leaves).await? {
        return Err(Error::Copy {
            id: wanted.id,
            why: "its name, or that of a partition, was given to another".into(),
        });
    }
    source.simple("COMMIT").await?;
    let fresh = Fresh {
        id: wanted.id,
        relation: wanted.relation,
        since,
        schema: facts.schema,
        name: facts.name,
        fingerprint: facts.fingerprint,
        shape: table.shape,
        signed_zeros,
    };
    writer.call(move |w| w.finish_load(fresh)).await??;
    tracing::info!(id = wanted.id, rows, %since, "a copy is ready");
    shared.set_state(wanted.id, State::Ready, "");
    Ok(())
}

/// Whether a server's stream, once it has come to a transaction that is older than a table's publication, leaves the table out of later ones, too
/// (until 15.13, 16.9 and 17.5, PostgreSQL's commit 4909b38af0): it is told again when no such transaction is left.
async fn forgets_publications(control: &mut Conn) -> Result<bool> {
    let version = control.simple("SELECT current_setting('server_version_num')").await?;
    let version: u32 = cell(&version, 0).and_then(|v| v.parse().ok()).unwrap_or_default();
    Ok(match version / 10_000 {
        15 => version < 150_013,
        16 => version < 160_009,
        17 => version < 170_005,
        _ => false,
    })
}

/// The table is in the publication, with all its rows and columns.
async fn publish(control: &mut Conn, publication: &str, relation: u32, table: &Definition) -> Result<()> {
    let sql = format!(
        "SELECT r.prqual IS NULL AND r.prattrs IS NULL FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
         WHERE p.pubname = {} AND r.prrelid = {relation}::oid",
        quote_literal(publication)
    );
    let there = control.simple(&sql).await?;
    let (schema, name) = (&table.schema, &table.name);
    match cell(&there, 0) {
        Some("t") => return Ok(()),
        Some(_) => control.simple(&published::without(publication, relation, schema, name)).await?,
        None => vec![],
    };
    control.simple(&published::with(publication, relation, schema, name)).await?;
    Ok(())
}

/// A table without partitions: itself, or one of them.
struct Leaf {
    oid: u32,
    /// For statements to the node.
    name: String,
}

/// As they are in the snapshot.
async fn leaves(source: &mut Conn, relation: u32) -> Result<Vec<Leaf>> {
    let sql = format!(
        "{}
         SELECT c.oid, n.nspname, c.relname FROM tree JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind <> 'p' ORDER BY c.oid",
        definition::tree(relation)
    );
    let rows = source.simple(&sql).await?;
    let leaf = |row: &catalog::Row| match row.as_slice() {
        [Some(oid), Some(schema), Some(name)] => Some(Leaf { oid: oid.parse().ok()?, name: qualified(schema, name) }),
        _ => None,
    };
    rows.iter()
        .map(leaf)
        .collect::<Option<_>>()
        .ok_or_else(|| Error::surprise("the node does not say what a table is made of"))
}

/// Whether all that this transaction has read of users' tables are these, and each of them: what it has locked stays so.
async fn has_read(source: &mut Conn, leaves: &[Leaf]) -> Result<bool> {
    let all: Vec<String> = leaves.iter().map(|leaf| leaf.oid.to_string()).collect();
    let sql = format!(
        "WITH leaf (oid) AS (SELECT unnest('{{{}}}'::oid[])),
         locked (oid) AS (SELECT l.relation FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted
             AND l.relation >= {FIRST_NORMAL_OBJECT_ID}
             AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())),
         own (oid) AS (SELECT oid FROM leaf UNION SELECT c.reltoastrelid FROM leaf JOIN pg_class c USING (oid)
             UNION SELECT i.indexrelid FROM leaf JOIN pg_class c USING (oid) JOIN pg_index i ON i.indrelid IN (c.oid, c.reltoastrelid))
         SELECT NOT EXISTS (SELECT FROM leaf WHERE oid NOT IN (SELECT oid FROM locked))
             AND NOT EXISTS (SELECT FROM locked WHERE oid NOT IN (SELECT oid FROM own))",
        all.join(",")
    );
    Ok(cell(&source.simple(&sql).await?, 0) == Some("t"))
}

async fn rows(
    source: &mut Conn,
    writer: &Handle,
    wanted: &Wanted,
    table: &Definition,
    leaves: &[Leaf],
) -> Result<Loaded> {
    let columns: Vec<String> = table.shape.columns.iter().map(|c| quote_ident(&c.name)).collect();
    let columns = columns.join(", ");
    let (runs, coming) = mpsc::channel(RUNS);
    let (id, shape): (i64, Shape) = (wanted.id, table.shape.clone());
    let loaded = writer.call(move |w| w.load(id, &shape, coming));
    let sent = async move {
        let mut sent = 0;
        for leaf in leaves {
            sent += send(source, &format!("COPY {} ({columns}) TO STDOUT", leaf.name), &runs).await?;
        }
        Ok::<_, Error>(sent)
    };
    let (sent, loaded) = tokio::join!(sent, loaded);
    // Why the one stopped is what the other says.
    let loaded = loaded??;
    match sent? == loaded.rows {
        true => Ok(loaded),
        false => Err(Error::surprise("not all rows were copied")),
    }
}

async fn send(source: &mut Conn, copy: &str, runs: &mpsc::Sender<Vec<wire::Frame>>) -> Result<u64> {
    put::query(source.out(), copy);
    source.sent_sync();
    source.flush().await?;
    let (mut run, mut bytes, mut sent, mut failure) = (Vec::new(), 0, 0, None);
    loop {
        let frame = source.frame().await?;
        match frame.tag() {
            b'd' => {
                sent += 1;
                bytes += frame.raw.len();
                run.push(frame);
                if bytes >= RUN_BYTES {
                    bytes = 0;
                    runs.send(std::mem::take(&mut run)).await.map_err(|_| Error::surprise("the copy was given up"))?;
                }
            }
            b'E' => failure = Some(PoolError::Server(Box::new(ErrorFields::parse(frame.body())?))),
            b'Z' => break,
            _ => {}
        }
    }
    failure.map_or(Ok(()), Err)?;
    runs.send(run).await.map_err(|_| Error::surprise("the copy was given up"))?;
    Ok(sent)
}
