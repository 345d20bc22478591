//! `herd.snapshot`: one cut through all nodes for a read over several of them, or for a transaction that reads repeatably.
//!
//! All nodes join at once: while the gates are held (`router/gates.rs`), each is told what stands prepared, BEGIN, and a statement
//! that takes the snapshot, in one message. What the statement is about is not known here. Statements of READ COMMITTED
//! blocks: `work/cut_statement.rs`.

use std::time::{Duration, Instant};
use wire::sqlstate;

use catalog::NodeId;
use txn::{Gid, Lane, Manner, Participant, SHOWN, gate};

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::gates::{self, Grant, SNAPSHOTS};
use crate::work::Work;
use crate::work::rows::{self, Reply};

/// How long a reader tries, if its own time limits are not shorter.
const TRY: Duration = Duration::from_secs(10);
/// When to give up, and what the client is told then.
pub(crate) struct Limit {
    until: Instant,
    code: &'static str,
    message: &'static str,
}

impl Limit {
    pub fn of(manner: &Manner) -> Self {
        let ours = (
            TRY,
            sqlstate::T_R_SERIALIZATION_FAILURE,
            "no snapshot over all nodes could be taken: commits over several nodes were at work all the time",
        );
        let lock =
            manner.lock_timeout.map(|t| (t, sqlstate::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"));
        let statement = manner
            .statement_timeout
            .map(|t| (t, sqlstate::QUERY_CANCELED, "canceling statement due to statement timeout"));
        let (time, code, message) =
            [lock, statement].into_iter().flatten().fold(ours, |a, b| if b.0 < a.0 { b } else { a });
        Limit { until: Instant::now() + time, code, message }
    }

    fn error(&self) -> ExecError {
        let e = ExecError::sql(self.code, self.message);
        match self.code {
            sqlstate::T_R_SERIALIZATION_FAILURE => {
                e.hint("Try again. herd.locks shows who waits, herd.transactions what stands prepared.")
            }
            _ => e,
        }
    }
}

impl<C: Client> Work<'_, C> {
    /// Before a read over several nodes: with `herd.snapshot`, its transaction is one cut from here on. In a READ COMMITTED
    /// block it can't be: then the read's parts are opened together.
    pub async fn whole_read(&mut self) -> Result<()> {
        let t = &self.transaction;
        if !t.wants_cut || !t.is_fresh() || self.epoch.snapshot.nodes.len() < 2 {
            return Ok(());
        }
        if !t.is_active() {
            self.transaction.begin("BEGIN", false);
        }
        let manner = self.manner().await?;
        if self.transaction.is_block() && !manner.repeatable {
            return Ok(());
        }
        if !manner.repeatable {
            self.transaction.begin_as("BEGIN ISOLATION LEVEL REPEATABLE READ");
        }
        self.make_cut(&manner).await
    }

    /// As [`whole_read`](Self::whole_read), for what can't be opened and executed apart.
    pub async fn whole_read_at_once(&mut self) -> Result<()> {
        self.whole_read().await?;
        match self.opens_together() {
            true => Err(refuse_block()),
            false => Ok(()),
        }
    }

    /// Before a node is used by the transaction: with `herd.snapshot`, one that reads repeatably begins with a cut.
    pub async fn whole_transaction(&mut self, node: NodeId) -> Result<()> {
        let t = &self.transaction;
        if !t.cut.is_empty() && !t.cut.contains(&node) && !t.has(node) {
            return Err(ExecError::sql(
                sqlstate::T_R_SERIALIZATION_FAILURE,
                "a node has joined the herd since the transaction took its snapshot",
            )
            .hint("Try the transaction again."));
        }
        if !t.is_active() || !t.wants_cut || !t.is_fresh() || self.epoch.snapshot.nodes.len() < 2 {
            return Ok(());
        }
        let manner = self.manner().await?;
        match manner.repeatable {
            true => self.make_cut(&manner).await,
            false => Ok(()),
        }
    }

    /// How the transaction will run, asked once for the same settings: home is told its beginning, says, and rolls back.
    pub async fn manner(&mut self) -> Result<Manner> {
        let opening = self.transaction.opening();
        let mark = opening.iter().fold(self.settings.fingerprint(), |mark, sql| {
            sql.bytes().fold(mark ^ 0x9e37_79b9_7f4a_7c15, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
        });
        if let Some((known, manner)) = self.transaction.manner
            && known == mark
        {
            return Ok(manner);
        }
        let home = self.home();
        let mut lane = self.fresh(home).await?;
        lane.want(self.settings);
        let asked = ask_manner(&mut lane, &opening).await;
        if asked.is_err() && lane.conn.outstanding() > 0 {
            lane.conn.mark_broken();
        }
        self.unused(vec![lane]);
        let manner = asked?;
        self.transaction.manner = Some((mark, manner));
        Ok(manner)
    }

    /// All nodes join, with snapshots that are one cut.
    async fn make_cut(&mut self, manner: &Manner) -> Result<()> {
        if manner.deferrable {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "SERIALIZABLE READ ONLY DEFERRABLE is not supported with herd.snapshot",
            )
            .hint("Leave DEFERRABLE out, or SET herd.snapshot = off."));
        }
        let limit = Limit::of(manner);
        let mut nodes: Vec<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        nodes.sort_unstable();
        let mut lanes = Vec::with_capacity(nodes.len());
        for node in nodes {
            match self.fresh(node).await {
                Ok(mut lane) => {
                    lane.conn.patience = self.patience;
                    lane.want(self.settings);
                    lanes.push(lane);
                }
                Err(e) => {
                    self.unused(lanes);
                    return Err(e);
                }
            }
        }
        loop {
            let grant = self.enter_gates(&limit).await;
            let grant = match grant {
                Ok(grant) => grant,
                Err(e) => {
                    self.unused(lanes);
                    return Err(e);
                }
            };
            match self.snapshots(&mut lanes, grant).await {
                Ok(true) => break,
                Ok(false) => gates::recover(self.herd).await,
                Err(e) => {
                    lanes.iter_mut().for_each(|l| l.conn.mark_broken());
                    self.unused(lanes);
                    return Err(e);
                }
            }
        }
        for lane in lanes {
            self.client.started(lane.conn.cancel_key());
            self.transaction.cut.push(lane.node);
            self.transaction.participants.push(Participant::new(lane));
        }
        Ok(())
    }

    /// Waits until all gates are held.
    pub(crate) async fn enter_gates(&mut self, limit: &Limit) -> Result<Grant> {
        self.client.waits();
        tokio::select! {
            biased;
            () = self.client.cancelled() => Err(ExecError::cancelled()),
            grant = gates::enter(self.herd) => match grant {
                Ok(Ok(grant)) => Ok(grant),
                Ok(Err(fields)) => Err(ExecError::Sql(Box::new(fields))),
                Err(_) => Err(ExecError::internal("a snapshot over all nodes failed")),
            },
            () = tokio::time::sleep_until(limit.until.into()) => Err(limit.error()),
        }
    }

    /// With all gates held: begins on each lane and takes its snapshot. False: something stands prepared that nobody
    /// finishes, and nothing has begun.
    async fn snapshots(&mut self, lanes: &mut [Lane], grant: Grant) -> Result<bool> {
        let herd = &self.epoch.snapshot.herd_id;
        let opening = self.transaction.opening();
        let list = gate::list(herd);
        let taken = async {
            for lane in lanes.iter_mut() {
                lane.put_query(&list);
                opening.iter().for_each(|sql| lane.put_query(sql));
                lane.put_query("SELECT 1");
                lane.conn.flush().await?;
            }
            let mut left = false;
            for lane in lanes.iter_mut() {
                for gid in values(lane).await? {
                    left |= Gid::parse(&gid, herd).is_some_and(|(_, node)| node == lane.node);
                }
                for _ in 0..=opening.len() {
                    lane.finish().await?;
                }
            }
            Ok::<_, ExecError>(left)
        };
        let left = in_time(taken).await?;
        if !grant.done().await {
            return Err(lost());
        }
        if left {
            for lane in lanes.iter_mut() {
                lane.run("ROLLBACK").await?;
            }
        }
        Ok(!left)
    }

    /// Lanes nothing has begun on.
    fn unused(&mut self, lanes: Vec<Lane>) {
        let home = self.home();
        for lane in lanes {
            if lane.node == home {
                self.pin.put_back(lane);
            }
        }
    }
}

async fn ask_manner(lane: &mut Lane, opening: &[String]) -> Result<Manner> {
    opening.iter().for_each(|sql| lane.put_query(sql));
    SHOWN.iter().for_each(|name| lane.put_query(&format!("SHOW {name}")));
    lane.put_query("ROLLBACK");
    lane.conn.flush().await?;
    let mut failure = None;
    for _ in opening {
        if let Err(e) = lane.finish().await {
            failure.get_or_insert(ExecError::from(e));
        }
    }
    let mut shown = Vec::new();
    for _ in SHOWN {
        match values(lane).await {
            Ok(values) => shown.extend(values),
            Err(e) => {
                failure.get_or_insert(e);
            }
        }
    }
    lane.finish().await?;
    failure.map_or(Ok(Manner::read(&shown)), Err)
}

/// The first column of a query that was sent.
pub(crate) async fn values(lane: &mut Lane) -> Result<Vec<String>> {
    let mut found = Vec::new();
    loop {
        match rows::next(lane).await? {
            Reply::Row(frame) => {
                let row = wire::backend::parse_data_row(frame.body())?;
                found.extend(row.first().copied().flatten().map(|v| String::from_utf8_lossy(v).into_owned()));
            }
            Reply::Done => return Ok(found),
            _ => {}
        }
    }
}

/// What is done while writers wait must not take long.
pub(crate) async fn in_time<T>(taken: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(SNAPSHOTS, taken).await {
        Ok(taken) => taken,
        Err(_) => Err(ExecError::sql(sqlstate::T_R_SERIALIZATION_FAILURE, "a node did not give its snapshot in time")
            .hint("Try again.")),
    }
}

pub(crate) fn lost() -> ExecError {
    ExecError::sql(
        sqlstate::T_R_SERIALIZATION_FAILURE,
        "a connection was lost while a snapshot over all nodes was taken",
    )
    .hint("Try again.")
}

fn refuse_block() -> ExecError {
    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, "with herd.snapshot, COPY of a table and INSERT … SELECT over several nodes are not supported in a READ COMMITTED transaction")
        .hint("BEGIN ISOLATION LEVEL REPEATABLE READ, or run it by itself, or SET herd.snapshot = off.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_limit_is_the_one_the_client_hears_of() {
        let ms = |n| Some(Duration::from_millis(n));
        let code = |lock_timeout, statement_timeout| {
            let limit = Limit::of(&Manner { lock_timeout, statement_timeout, ..Manner::default() });
            (limit.code, limit.error().code() == limit.code)
        };
        assert_eq!(code(None, None), ("40001", true));
        assert_eq!(code(ms(100), None), ("55P03", true));
        assert_eq!(code(ms(100), ms(50)), ("57014", true));
        assert_eq!(code(ms(60_000), ms(50_000)), ("40001", true));
    }
}
