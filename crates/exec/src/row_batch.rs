//! Runs batches of a lane of rows: one transaction over the nodes, the rows by COPY, one commit.
//!
//! A batch that fails is halved, down to single statements, which their clients then run by themselves: only the faulty
//! one sees an error, and it is PostgreSQL's own. It does not know how rows came here (`row_share.rs`).

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bytes::BytesMut;
use catalog::NodeId;
use pool::{Outcome, PoolError, Reply};
use txn::{CommitError, Transaction};
use wire::Frame;

use crate::bulk::Bulk;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::now::Now;
use crate::row_lane::{Job, RowLane, Turn};
use crate::sink::{Sink, SinkKind};
use crate::work::Work;

/// How often the others get their turn before a batch is taken.
const TURNS: usize = 2;
/// Nobody waits longer than this for a lock on somebody else's behalf.
const LOCK_TIMEOUT: Duration = Duration::from_millis(20);

/// A worker: batch after batch, until nothing waits.
pub async fn work(turn: Turn) {
    loop {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        let jobs = turn.lane().take();
        if jobs.is_empty() {
            return;
        }
        turn.lane().herd.rows.count(jobs.len());
        run(turn.lane(), jobs).await;
    }
}

/// Runs a batch, and the halves of those that fail, to the end of all.
async fn run(lane: &RowLane, jobs: Vec<Job>) {
    let mut waiting = vec![jobs];
    while let Some(mut jobs) = waiting.pop() {
        let outcomes = match attempt(lane, &jobs).await {
            Ok(outcomes) => outcomes,
            Err(_) if jobs.len() > 1 => {
                let rest = jobs.split_off(jobs.len() / 2);
                waiting.push(rest);
                waiting.push(jobs);
                continue;
            }
            Err(_) => jobs.iter().map(|_| Outcome::Alone).collect(),
        };
        for (job, outcome) in jobs.into_iter().zip(outcomes) {
            if matches!(outcome, Outcome::Alone) {
                lane.herd.rows.count_sent_away();
            }
            let _ = job.reply.send(outcome);
        }
    }
}

/// One transaction with the rows of all jobs. An error: nothing of it has happened.
async fn attempt(lane: &RowLane, jobs: &[Job]) -> Result<Vec<Outcome>> {
    let mut transaction = Transaction::default();
    transaction.begin("BEGIN", false);
    if lane.settings.get("lock_timeout").is_none_or(|t| t == "0") {
        transaction.note_setting(&format!("SET LOCAL lock_timeout = {}", LOCK_TIMEOUT.as_millis()));
    }
    let sent = send(lane, jobs, &mut transaction).await;
    let nodes = match sent {
        Ok(nodes) => nodes,
        Err(e) => {
            transaction.rollback().await;
            return Err(e);
        }
    };
    for p in &mut transaction.participants {
        p.wrote = nodes.iter().any(|n| n.contains(&p.lane.node));
    }
    let done = |job: &Job| Outcome::Done(Reply { messages: vec![], tag: format!("INSERT 0 {}", job.rows.rows.len()) });
    // As long as each statement is on one node only, each node may commit by itself.
    let spread = jobs.iter().zip(&nodes).any(|(job, nodes)| nodes.len() > 1 && job.rows.two_phase);
    if !spread {
        let results: HashMap<NodeId, _> = transaction.commit_each().await.into_iter().collect();
        let outcome = |(job, nodes): (&Job, &BTreeSet<NodeId>)| {
            let mut outcome = done(job);
            for error in nodes.iter().filter_map(|n| results.get(n)?.as_ref().err()) {
                outcome = match error {
                    CommitError::Unknown(e) => Outcome::Lost(copy_of(e)),
                    // With more than one node (two phases are off) another may have committed.
                    CommitError::RolledBack(e) if nodes.len() > 1 => Outcome::Lost(copy_of(e)),
                    _ => Outcome::Alone,
                };
            }
            outcome
        };
        return Ok(jobs.iter().zip(&nodes).map(outcome).collect());
    }
    let identity = lane.herd.identity();
    let number = lane.herd.next_transaction();
    match transaction.commit(&identity, number, true, &mut String::new()).await {
        Ok(()) => Ok(jobs.iter().map(done).collect()),
        Err(CommitError::Unknown(e)) => Ok(jobs.iter().map(|_| Outcome::Lost(copy_of(&e))).collect()),
        Err(CommitError::RolledBack(e)) => Err(e.into()),
        Err(CommitError::NoPreparedTransactions) => Ok(jobs.iter().map(|_| Outcome::Alone).collect()),
    }
}

/// Sends all rows; the nodes each job's rows went to.
async fn send(lane: &RowLane, jobs: &[Job], transaction: &mut Transaction) -> Result<Vec<BTreeSet<NodeId>>> {
    let (mut pinned, mut pin, mut client) = (None, false, Nobody::default());
    let mut work = Work {
        herd: &lane.herd,
        epoch: &lane.epoch,
        login: &lane.login,
        settings: &lane.settings,
        transaction,
        client: &mut client,
        pinned: &mut pinned,
        pin: &mut pin,
        own_schema: false,
        taint: false,
        sharing: None,
        patience: 0,
        now: Now::default(),
        bulk: Bulk::default(),
    };
    let columns = lane.columns.clone();
    let mut sink = Sink::open(&mut work, lane.relation.clone(), columns, SinkKind::Copy, &[], None).await?;
    match fill(&mut sink, jobs).await {
        Ok(nodes) => {
            sink.finish(&mut work).await?;
            Ok(nodes)
        }
        Err(e) => Err(sink.abort(&mut work, e).await),
    }
}

async fn fill(sink: &mut Sink, jobs: &[Job]) -> Result<Vec<BTreeSet<NodeId>>> {
    sink.expect(jobs.iter().map(|job| job.rows.rows.len()).sum());
    sink.start_unasked();
    let given = sink.given();
    let key = sink.key_positions().to_vec();
    let mut all = Vec::with_capacity(jobs.len());
    let mut line = Vec::new();
    for job in jobs {
        let mut nodes = BTreeSet::new();
        for row in &job.rows.rows {
            let filled = sink.next_values().await?;
            let keys: Vec<Option<&[u8]>> = key
                .iter()
                .zip(&row.keys)
                .map(|(at, value)| match at.checked_sub(given) {
                    Some(at) => filled.get(at).map(String::as_bytes),
                    None => value.clone().map(|v| &job.rows.keys[v]),
                })
                .collect();
            let lanes = sink.lanes_for(&keys, false)?;
            nodes.extend(lanes.clone().map(|lane| sink.node(lane)));
            line.clear();
            line.extend_from_slice(&job.rows.data[row.data.clone()]);
            for value in &filled {
                line.push(b'\t');
                line.extend_from_slice(value.as_bytes());
            }
            line.push(b'\n');
            sink.record(lanes, &line).await?;
        }
        all.push(nodes);
    }
    Ok(all)
}

fn copy_of(e: &PoolError) -> PoolError {
    PoolError::Server(Box::new(e.to_fields()))
}

/// No client: nothing a COPY says is for anyone.
#[derive(Default)]
struct Nobody {
    out: BytesMut,
}

impl Client for Nobody {
    fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    async fn flush(&mut self) -> Result<()> {
        self.out.clear();
        Ok(())
    }

    async fn copy_frame(&mut self) -> Result<Frame> {
        Err(ExecError::internal("COPY FROM STDIN of a batch"))
    }
}
