//! Columns that clients were told of, before the first rows of a statement come from a connection: its node says whether it has them. From then on
//! PostgreSQL itself refuses to run it with others (plancache.c). What a node does not have, each runs by itself, and is planned anew there.

use std::collections::HashSet;
use std::sync::Arc;

use pool::{PoolError, PooledConn, StatementKey};
use wire::{backend, put};

use crate::queue::SharedQueue;
use crate::{Job, SharedStatement};

/// Those of `jobs` whose columns the connection's node does not have, taken out of them.
pub(super) async fn others(
    queue: &SharedQueue,
    conn: &mut PooledConn,
    jobs: &mut Vec<Job>,
) -> Result<Vec<Job>, PoolError> {
    let is_new =
        |job: &&Job| job.statement.columns.get().is_some() && conn.statements.get(&job.statement.key).is_none();
    let mut new: Vec<_> = jobs.iter().filter(is_new).map(|job| job.statement.clone()).collect();
    if new.is_empty() {
        return Ok(vec![]);
    }
    new.sort_by_key(|statement| statement.key);
    new.dedup_by_key(|statement| statement.key);
    let differ = ask(queue, conn, &new).await?;
    differ.iter().for_each(|key| {
        conn.statements.remove(key);
    });
    Ok(jobs.extract_if(.., |job| differ.contains(&job.statement.key)).collect())
}

/// Which of them have other columns there, or are not understood.
async fn ask(
    queue: &SharedQueue,
    conn: &mut PooledConn,
    new: &[Arc<SharedStatement>],
) -> Result<HashSet<StatementKey>, PoolError> {
    if let Some(sql) = conn.settings_to(&queue.settings) {
        put::query(conn.out(), &sql);
        conn.sent_sync();
    }
    for statement in new {
        let (name, _) = conn.prepare(statement.key, &statement.text, &statement.types);
        put::describe(conn.out(), b'S', &name);
    }
    put::sync(conn.out());
    conn.sent_sync();
    conn.flush().await?;
    let mut differ: HashSet<_> = new.iter().map(|statement| statement.key).collect();
    let mut said = new.iter();
    while conn.outstanding() > 0 {
        let frame = conn.frame().await?;
        if matches!(frame.tag(), b'T' | b'n')
            && let Some(statement) = said.next()
            && frame.tag() == b'T'
            && let Some(told) = statement.columns.get()
            && backend::are_alike(told, &backend::parse_row_description(frame.body())?)
        {
            differ.remove(&statement.key);
        }
    }
    Ok(differ)
}
