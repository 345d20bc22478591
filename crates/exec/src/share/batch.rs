//! Runs batches of a queue of rows: one transaction over the nodes, the rows by COPY, one commit.
//!
//! Statements whose rows are on one node make batches of that node; those on several nodes make one that commits by two
//! phases. A batch that fails is halved, down to single statements, which their clients then run by themselves, and one that
//! waits for a lock at once: only the faulty one sees an error, and it is PostgreSQL's own. It does not know how rows came here (`share/rows.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use wire::sqlstate;

use bytes::Bytes;
use catalog::NodeId;
use pool::PoolError;
use share::{Outcome, Reply};
use tokio::task::JoinSet;
use txn::{CommitError, Ended, Lane, Participant, Transaction};
use wire::put;

use crate::client::Nobody;
use crate::error::{ExecError, Result};
use crate::router::looks::Looks;
use crate::router::row_queue::{Job, RowQueue, Turn};
use crate::work::Work;
use crate::work::copy_lane::{end_copy, push};
use crate::work::pin::Pin;
use crate::work::row_node::node_of;

/// How often the others get their turn before a batch is taken.
const TURNS: usize = 2;
/// Nobody waits longer than this for a lock on somebody else's behalf, nor for his statement.
const LOCK_TIMEOUT: Duration = Duration::from_millis(20);
const STATEMENT_TIMEOUT: Duration = Duration::from_millis(500);
/// Who has run into it so often is no better in smaller pieces, one after the other.
const SLOW_MAX: usize = 2;

/// A job whose way is known.
struct Routed {
    job: Job,
    nodes: BTreeSet<NodeId>,
    /// For each row its node (`None`: all), and its values from sequences.
    rows: Vec<(Option<NodeId>, Vec<String>)>,
}

/// Sends what waits in a queue, on a task of its own.
pub fn start(turn: Turn) {
    tokio::spawn(work(turn));
}

/// A worker: batch after batch, until nothing waits.
async fn work(turn: Turn) {
    let queue = turn.queue();
    loop {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        let jobs = queue.take();
        if jobs.is_empty() {
            return;
        }
        queue.herd.rows.count(jobs.len());
        let mut groups: BTreeMap<Option<NodeId>, Vec<Routed>> = BTreeMap::new();
        for routed in route(queue, jobs).await {
            let one = routed.nodes.first().filter(|_| routed.nodes.len() == 1).copied();
            groups.entry(one).or_default().push(routed);
        }
        // Each for itself: who needs one node does not wait for another.
        let mut running: JoinSet<()> = groups.into_values().map(|group| run(queue.clone(), group)).collect();
        while running.join_next().await.is_some() {}
    }
}

/// Values of the sequences, a list for each row. Before any connection is held: waiting for one could be for ever.
async fn values(queue: &RowQueue, rows: usize) -> Result<Vec<Vec<String>>> {
    let sequences: Vec<String> = queue
        .sequences()
        .map(|(_, name)| format!("pg_catalog.nextval({}::pg_catalog.regclass)", catalog::quote_literal(name)))
        .collect();
    if sequences.is_empty() {
        return Ok(vec![vec![]; rows]);
    }
    let home = queue.herd.target(&queue.epoch.snapshot, queue.epoch.snapshot.home)?;
    let at = queue.epoch.snapshot.home;
    let conn = queue.herd.pools.get(&home, &queue.login).await?;
    let mut at_home = Lane::lent(at, conn, &queue.settings);
    at_home.conn.sequences = pool::Remembers::Somebodys;
    let sql = format!("SELECT {} FROM pg_catalog.generate_series(1, {rows})", sequences.join(", "));
    let rows = at_home.rows(&sql).await?;
    Ok(rows.into_iter().map(|row| row.into_iter().flatten().collect()).collect())
}

/// Finds the nodes of all rows. What can't be placed is sent away.
async fn route(queue: &RowQueue, jobs: Vec<Job>) -> Vec<Routed> {
    let Ok(values) = values(queue, jobs.iter().map(|job| job.rows.rows.len()).sum()).await else {
        jobs.into_iter().for_each(|job| send_away(queue, job));
        return vec![];
    };
    let mut values = values.into_iter();
    let mut all = Vec::with_capacity(jobs.len());
    for job in jobs {
        let values: Vec<Vec<String>> = values.by_ref().take(job.rows.rows.len()).collect();
        match place(queue, &job, values) {
            Ok(Some((nodes, rows))) => all.push(Routed { job, nodes, rows }),
            _ => send_away(queue, job),
        }
    }
    all
}

type Placed = (BTreeSet<NodeId>, Vec<(Option<NodeId>, Vec<String>)>);

fn place(queue: &RowQueue, job: &Job, values: Vec<Vec<String>>) -> Result<Option<Placed>> {
    let Some(d) = queue.relation.distribution() else {
        let nodes = queue.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        return Ok(Some((nodes, values.into_iter().map(|v| (None, v)).collect())));
    };
    let bounds = queue.epoch.bounds(d.group.id);
    let (mut nodes, mut rows) = (BTreeSet::new(), Vec::with_capacity(values.len()));
    for (row, values) in job.rows.rows.iter().zip(values) {
        let key = |(at, column): (usize, &usize)| match queue.filled().position(|(i, _)| i == *column) {
            Some(n) => values.get(n).map(String::as_bytes),
            None => row.keys[at].clone().map(|v| &job.rows.keys[v]),
        };
        let keys: Vec<Option<&[u8]>> = d.key.iter().enumerate().map(key).collect();
        let Some(node) = node_of(&queue.relation, &bounds, &keys, false)? else { return Ok(None) };
        nodes.insert(node);
        rows.push((Some(node), values));
    }
    Ok(Some((nodes, rows)))
}

fn send_away(queue: &RowQueue, job: Job) {
    queue.herd.rows.count_sent_away();
    let _ = job.reply.send(Outcome::Rerun);
}

/// Runs a batch, and the halves of those that fail, to the end of all.
async fn run(queue: Arc<RowQueue>, jobs: Vec<Routed>) {
    let mut waiting = vec![(jobs, 0)];
    while let Some((mut jobs, slow)) = waiting.pop() {
        match attempt(&queue, &jobs).await {
            Ok(lost) => {
                for Routed { job, rows, .. } in jobs {
                    let _ = job.reply.send(match &lost {
                        None => {
                            let tag = format!("INSERT 0 {}", rows.len());
                            let values = rows.into_iter().last().map_or(vec![], |(_, values)| values);
                            Outcome::Done(Reply { messages: values.into_iter().map(Bytes::from).collect(), tag })
                        }
                        Some(e) => Outcome::Lost(PoolError::Server(Box::new(e.to_fields()))),
                    });
                }
            }
            Err(e) => match may_be_halved(&e, slow).filter(|_| jobs.len() > 1) {
                Some(slow) => {
                    let rest = jobs.split_off(jobs.len() / 2);
                    waiting.push((rest, slow));
                    waiting.push((jobs, slow));
                }
                None => jobs.into_iter().for_each(|routed| send_away(&queue, routed.job)),
            },
        }
    }
}

/// Whether smaller batches are worth a try. `slow`: how often this one has run into its time before; what comes back counts this time, too.
fn may_be_halved(e: &ExecError, slow: usize) -> Option<usize> {
    match e.to_fields().code() {
        // Somebody holds a lock that one of them needs: that one is to wait for it, and its client to be heard meanwhile.
        sqlstate::LOCK_NOT_AVAILABLE => None,
        sqlstate::QUERY_CANCELED => (slow < SLOW_MAX).then_some(slow + 1),
        _ => Some(slow),
    }
}

/// One transaction with the rows of all jobs. An error: nothing of it has happened. `Some`: nobody knows whether it has.
async fn attempt(queue: &RowQueue, jobs: &[Routed]) -> Result<Option<PoolError>> {
    let nodes: BTreeSet<NodeId> = jobs.iter().flat_map(|r| &r.nodes).copied().collect();
    let mut transaction = Transaction::default();
    transaction.begin("BEGIN", false);
    for (name, most) in [("lock_timeout", LOCK_TIMEOUT), ("statement_timeout", STATEMENT_TIMEOUT)] {
        transaction.note_setting(&format!("SET LOCAL {name} = {}", queue.settings.at_most(name, most).as_millis()));
    }
    if let Err(e) = send(queue, jobs, &nodes, &mut transaction).await {
        transaction.rollback().await;
        return Err(e);
    }
    let (identity, number) = (queue.herd.identity(), queue.herd.next_transaction());
    match transaction.commit(&identity, number, true).await {
        Ok(Ended::Committed) => Ok(None),
        // It had failed without a word of it.
        Ok(Ended::RolledBack) => Err(ExecError::sql(
            sqlstate::T_R_SERIALIZATION_FAILURE,
            "rows of several clients were rolled back together",
        )),
        Err(CommitError::Unknown(e)) => Ok(Some(e)),
        Err(CommitError::RolledBack(e)) => Err(e.into()),
        Err(e @ CommitError::NoPreparedTransactions) => {
            Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, e.to_string()))
        }
    }
}

/// Sends each node its rows, and waits until all have taken them.
async fn send(
    queue: &RowQueue,
    jobs: &[Routed],
    nodes: &BTreeSet<NodeId>,
    transaction: &mut Transaction,
) -> Result<()> {
    let (mut pin, mut client) = (Pin::Free, Nobody);
    let who = (&queue.login, &queue.settings);
    let mut work = Work::plain(&queue.herd, &queue.epoch, who, transaction, &mut client, &mut pin, &queue.herd.memory);
    let table = catalog::qualified(&queue.relation.schema, &queue.relation.name);
    let columns = queue.columns.iter().copied().chain(queue.filled().map(|(i, _)| i));
    let names: Vec<String> = columns.map(|i| catalog::quote_ident(&queue.relation.columns[i].name)).collect();
    let names = if queue.positional { String::new() } else { format!(" ({})", names.join(", ")) };
    let sql = format!("COPY {table}{names} FROM STDIN");
    let looks = Looks::of_tables(std::iter::once(&queue.relation));
    let mut lanes: Vec<(Participant, u64)> = Vec::with_capacity(nodes.len());
    let mut sent = Ok(());
    for node in nodes {
        match work.lane(*node).await {
            Ok(p) => lanes.push((p, 0)),
            Err(e) => {
                sent = Err(e);
                break;
            }
        }
    }
    if sent.is_ok() {
        for (p, rows) in &mut lanes {
            p.wrote = true;
            // Without waiting for consent: what refuses a COPY ignores its data, and says so at the end.
            p.lane.put_query(&looks.in_front(p.lane.node, &sql));
            *rows = put_rows(p, jobs);
            // What goes wrong here is seen again when the answer is read.
            let _ = push(p).await;
        }
        for (p, rows) in &mut lanes {
            match end_copy(p, false, work.client).await {
                // A trigger of a partition's own, say, has kept some away.
                Ok(count) if count != *rows => {
                    sent = Err(ExecError::internal("a node has taken other rows than it got"))
                }
                Ok(_) => {}
                Err(e) => sent = Err(e),
            }
        }
    }
    for (p, _) in lanes {
        work.put_back(p).await;
    }
    sent?;
    // A node that has joined meanwhile would go without these rows.
    if queue.relation.is_reference() { work.same_kinds().await } else { Ok(()) }
}

/// The rows of one node, as COPY data up to its end; how many they are.
fn put_rows(p: &mut Participant, jobs: &[Routed]) -> u64 {
    let node = p.lane.node;
    let (mut line, mut count) = (Vec::new(), 0);
    for Routed { job, rows, .. } in jobs {
        for (row, (at, values)) in job.rows.rows.iter().zip(rows) {
            if at.is_some_and(|n| n != node) {
                continue;
            }
            line.extend_from_slice(&job.rows.data[row.data.clone()]);
            for value in values {
                line.push(b'\t');
                line.extend_from_slice(value.as_bytes());
            }
            line.push(b'\n');
            count += 1;
        }
    }
    put::copy_data(p.lane.conn.out(), &line);
    put::copy_done(p.lane.conn.out());
    count
}
