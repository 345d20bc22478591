//! A table's first copy: everything at one snapshot, and from which transaction on the stream tells of it. While it is made, the main stream
//! is not read. It is as PostgreSQL does it itself (tablesync.c): that making the temporary slot waits for all open transactions is what leaves no
//! gap between the publication and the snapshot.

use catalog::{quote_ident, quote_literal};
use pool::{Conn, PoolError};
use tokio::sync::mpsc;
use wire::{ErrorFields, put};

use crate::definition::{self, Definition, Found};
use crate::error::{Error, Result};
use crate::fingerprint;
use crate::jobs::Handle;
use crate::load::Fresh;
use crate::lsn::Lsn;
use crate::node::{self, cell};
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
    source.simple("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ").await?;
    // Of this process and this copy; it goes with the connection.
    let temporary = format!("{}_{}_{}", shared.config.slot, wanted.id, source.pid());
    let slot = format!("CREATE_REPLICATION_SLOT \"{temporary}\" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'use')");
    let made = source.simple(&slot).await?;
    let since: Lsn = cell(&made, 1)
        .and_then(|lsn| lsn.parse().ok())
        .ok_or_else(|| Error::surprise("a slot has no consistent point"))?;
    // As it is in the snapshot, which alone counts.
    let Found::Can(table) = definition::read(&mut source, wanted).await? else {
        return Err(Error::Copy { id: wanted.id, why: "it was changed just now".into() });
    };
    let facts = source.simple(&fingerprint::question(wanted.relation, &shared.config.slot)).await?;
    let facts = fingerprint::answer(&facts)?.ok_or_else(|| Error::surprise("a table went away"))?;
    if facts.fingerprint.is_empty() {
        return Err(Error::surprise("not all changes of a table are published"));
    }
    let rows = rows(&mut source, writer, wanted, &table).await?;
    source.simple("COMMIT").await?;
    let fresh = Fresh {
        id: wanted.id,
        relation: wanted.relation,
        since,
        schema: facts.schema,
        name: facts.name,
        fingerprint: facts.fingerprint,
        shape: table.shape,
        order_by: wanted.order_by.clone(),
    };
    writer.call(move |w| w.finish_load(fresh)).await??;
    tracing::info!(id = wanted.id, rows, %since, "a copy is ready");
    shared.set_state(wanted.id, State::Ready, "");
    Ok(())
}

/// The table is in the publication, with all its rows and columns.
async fn publish(control: &mut Conn, publication: &str, relation: u32, table: &Definition) -> Result<()> {
    let sql = format!(
        "SELECT r.prqual IS NULL AND r.prattrs IS NULL FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
         WHERE p.pubname = {} AND r.prrelid = {relation}::oid",
        quote_literal(publication)
    );
    let there = control.simple(&sql).await?;
    let (publication, table) = (quote_ident(publication), table.qualified());
    match cell(&there, 0) {
        Some("t") => return Ok(()),
        Some(_) => {
            control.simple(&format!("ALTER PUBLICATION {publication} DROP TABLE {table}")).await?;
        }
        None => {}
    }
    control.simple(&format!("ALTER PUBLICATION {publication} ADD TABLE {table}")).await?;
    Ok(())
}

async fn rows(source: &mut Conn, writer: &Handle, wanted: &Wanted, table: &Definition) -> Result<u64> {
    let columns: Vec<String> = table.shape.columns.iter().map(|c| quote_ident(&c.name)).collect();
    let copy = format!("COPY (SELECT {} FROM {}) TO STDOUT", columns.join(", "), table.qualified());
    let (runs, coming) = mpsc::channel(RUNS);
    let (id, shape): (i64, Shape) = (wanted.id, table.shape.clone());
    let loaded = writer.call(move |w| w.load(id, &shape, coming));
    let (sent, loaded) = tokio::join!(send(source, &copy, runs), loaded);
    // Why the one stopped is what the other says.
    let loaded = loaded??;
    match sent? == loaded {
        true => Ok(loaded),
        false => Err(Error::surprise("not all rows were copied")),
    }
}

async fn send(source: &mut Conn, copy: &str, runs: mpsc::Sender<Vec<wire::Frame>>) -> Result<u64> {
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
