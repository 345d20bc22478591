//! Columns that clients were told of, before the first rows of a statement come from a connection: its node says whether it has them. From then on
//! PostgreSQL itself refuses to run it with others (plancache.c). What a node does not have, each runs by itself, and is planned anew there.

use std::collections::HashSet;
use std::sync::Arc;

use pool::{PoolError, PooledConn, Progress, StatementKey};
use wire::{ErrorFields, backend, put, sqlstate};

use super::batch::put_lock_timeout;
use crate::queue::SharedQueue;
use crate::{Job, SharedStatement};

/// Those of `jobs` whose columns the connection's node does not have, or has not told, taken out of them.
pub(super) async fn others(
    queue: &SharedQueue,
    conn: &mut PooledConn,
    jobs: &mut Vec<Job>,
) -> Result<Vec<Job>, PoolError> {
    let is_new = |statement: &&Arc<SharedStatement>| {
        let told = statement.columns.get();
        told.is_some_and(|(mark, _)| !conn.statements.has_agreed(&statement.key, *mark))
    };
    let mut new: Vec<_> = jobs.iter().map(|job| &job.statement).filter(is_new).cloned().collect();
    if new.is_empty() {
        return Ok(vec![]);
    }
    new.sort_by_key(|statement| statement.key);
    new.dedup_by_key(|statement| statement.key);
    let differ = ask(queue, conn, &new, jobs.len() > 1).await?;
    Ok(jobs.extract_if(.., |job| differ.contains(&job.statement.key)).collect())
}

/// Which of them have other columns there, or are not understood. `others_wait`: for locks that these wait for.
async fn ask(
    queue: &SharedQueue,
    conn: &mut PooledConn,
    new: &[Arc<SharedStatement>],
    others_wait: bool,
) -> Result<HashSet<StatementKey>, PoolError> {
    if others_wait {
        put_lock_timeout(queue, conn);
    }
    for statement in new {
        let (name, _) = conn.prepare(statement.key, &statement.text, &statement.types);
        put::describe(conn.out(), b'S', &name);
    }
    put::sync(conn.out());
    conn.sent_sync();
    while conn.flush_or_fill().await? == Progress::Filled {}
    let mut differ: HashSet<_> = new.iter().map(|statement| statement.key).collect();
    let mut said = new.iter();
    loop {
        let frame = conn.frame().await?;
        match frame.tag() {
            b'Z' => break,
            b'E' => {
                let fields = ErrorFields::parse(frame.body())?;
                if fields.is_fatal() {
                    return Err(PoolError::Server(Box::new(fields)));
                }
                if fields.code() == sqlstate::LOCK_NOT_AVAILABLE
                    && let Some(waits) = said.next()
                {
                    waits.set_apart();
                }
            }
            b'T' | b'n' => {
                let Some(statement) = said.next() else { continue };
                let Some((mark, told)) = statement.columns.get() else { continue };
                if frame.tag() == b'T' && backend::are_alike(told, &backend::parse_row_description(frame.body())?) {
                    conn.statements.agree(&statement.key, *mark);
                    differ.remove(&statement.key);
                }
            }
            _ => {}
        }
    }
    differ.iter().for_each(|key| conn.statements.forget(key));
    Ok(differ)
}
