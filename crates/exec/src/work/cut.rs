//! One cut through all nodes for a transaction that reads repeatably (unless `herd.snapshot` is off), or for a read over several of
//! them (where it is on).
//!
//! A transaction that reads repeatably takes it with its first statement that takes a snapshot on PostgreSQL, and from then on keeps
//! the catalog of that moment, too: a table that has become another kind since is not what its snapshots show. What has locked
//! tables before has no snapshot yet, and keeps its connections.
//!
//! All nodes join at once: while the gates are held (`router/gates.rs`), each is told what stands prepared, BEGIN, and a statement
//! that takes the snapshot, in one message. What the statement is about is not known here. Statements of READ COMMITTED
//! blocks: `work/cut_statement.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::sqlstate;

use catalog::{NodeId, Placement, Relation, Snapshot};
use txn::{Cuts, Gid, Lane, Manner, Participant, SHOWN, gate};

use crate::client::Client;
use crate::error::{ExecError, Result, STATEMENT_TIMEOUT};
use crate::router::compiled::Compiled;
use crate::router::gates::{self, Grant, SNAPSHOTS};
use crate::router::herd::Herd;
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
    /// Counted from now: whichever ends first of the session's lock_timeout, its statement_timeout and our own.
    pub fn of(manner: &Manner) -> Self {
        let ours = (
            TRY,
            sqlstate::T_R_SERIALIZATION_FAILURE,
            "no snapshot over all nodes could be taken: commits over several nodes were at work all the time",
        );
        let lock =
            manner.lock_timeout.map(|t| (t, sqlstate::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"));
        let statement = manner.statement_timeout.map(|t| (t, sqlstate::QUERY_CANCELED, STATEMENT_TIMEOUT));
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

/// How a transaction begins that reads repeatably, where the session's do not by themselves.
const REPEATABLE: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";

impl<C: Client> Work<'_, C> {
    /// Before a read over several nodes: with `herd.snapshot`, its transaction is one cut from here on. In a READ COMMITTED
    /// block it can't be: then the read's parts are opened together.
    pub async fn cut_for_read(&mut self) -> Result<()> {
        let t = &self.transaction;
        let all = t.wants == Cuts::All;
        if !(all || self.may_repeat()) || self.has_looked() || !self.may_cut() {
            return Ok(());
        }
        let begins = !t.is_active();
        // Gates are the primaries'.
        self.leave_standbys();
        if begins {
            self.transaction.begin("BEGIN", false);
        }
        let manner = self.manner().await?;
        if !manner.repeatable {
            if !all || self.transaction.is_block() || !self.transaction.is_fresh() {
                return Ok(());
            }
            self.transaction.begin_as(REPEATABLE);
        }
        self.make_cut(&manner).await
    }

    /// A transaction of the statement's own, all of whose reads see one state of each node, and one cut but with `herd.snapshot = off`.
    pub async fn begin_repeatable(&mut self) -> Result<()> {
        self.leave_standbys();
        self.transaction.begin("BEGIN", false);
        if !self.manner().await?.repeatable {
            self.transaction.begin_as(REPEATABLE);
        }
        Ok(())
    }

    /// Whether the transaction at work, or the one that would begin, may be REPEATABLE READ or SERIALIZABLE.
    pub fn may_repeat(&self) -> bool {
        self.transaction.may_repeat(self.settings.repeats())
    }

    /// The statement at work takes no snapshot, and its transaction, which may read repeatably, has none yet: to ask anything in it
    /// would be to take one.
    pub fn before_snapshot(&self) -> bool {
        self.transaction.takes_no_snapshot && self.transaction.is_active() && self.may_repeat() && !self.has_looked()
    }

    /// Nothing can be done about what it sees any more.
    fn has_looked(&self) -> bool {
        let t = &self.transaction;
        !t.cut.is_empty() || t.began_with.is_some() || !t.is_fresh() && !self.may_repeat()
    }

    fn may_cut(&self) -> bool {
        self.transaction.wants != Cuts::None && !self.transaction.imports && self.epoch.snapshot.nodes.len() > 1
    }

    /// As [`cut_for_read`](Self::cut_for_read), for what can't be opened and executed apart.
    pub async fn cut_for_read_at_once(&mut self) -> Result<()> {
        self.cut_for_read().await?;
        match self.opens_together() {
            true => Err(refuse_block()),
            false => Ok(()),
        }
    }

    /// Before a node is used by a transaction that may read repeatably: it begins with a cut.
    pub async fn cut_for_transaction(&mut self, node: NodeId) -> Result<()> {
        let t = &self.transaction;
        if !t.cut.is_empty() && !t.cut.contains(&node) && !t.has(node) {
            return Err(ExecError::sql(
                sqlstate::T_R_SERIALIZATION_FAILURE,
                "a node has joined the herd since the transaction took its snapshot",
            )
            .hint("Try the transaction again."));
        }
        if self.before_snapshot() || self.has_looked() {
            return Ok(());
        }
        if self.may_cut() {
            let manner = self.manner().await?;
            if manner.repeatable {
                return self.make_cut(&manner).await;
            }
        }
        self.transaction.began_with = Some(self.epoch.snapshot.clone());
        Ok(())
    }

    /// A transaction that reads repeatably sees its nodes as they were: not the rows of a table that has become another kind since.
    pub async fn as_it_began(&mut self, compiled: &Compiled) -> Result<()> {
        let others = &compiled.plan.whole().others;
        let now = self.epoch.snapshot.clone();
        let local = now.relations.values().filter(|r| others.contains(&r.oid));
        self.tables_as_it_began(compiled.relations().chain(local)).await
    }

    /// The same for tables.
    pub async fn tables_as_it_began<'r>(&mut self, mut tables: impl Iterator<Item = &'r Arc<Relation>>) -> Result<()> {
        let Some(then) = &self.transaction.began_with else { return Ok(()) };
        if then.kinds == self.epoch.snapshot.kinds || self.own_catalog {
            return Ok(());
        }
        let now = &self.epoch.snapshot;
        let Some(other) = tables.find(|r| !was_the_same(then, now, r)) else { return Ok(()) };
        if !self.manner().await?.repeatable {
            return Ok(());
        }
        let message = format!(
            "could not serialize access: \"{}\" was distributed, moved, or made reference or local, after the transaction's snapshot",
            other.name
        );
        Err(ExecError::sql(sqlstate::T_R_SERIALIZATION_FAILURE, message).hint("Try the transaction again."))
    }

    /// How the transaction will run, asked once for the same settings: home is told its beginning, says, and rolls back.
    pub async fn manner(&mut self) -> Result<Manner> {
        let opening = self.transaction.opening();
        let mark = self.manner_fingerprint(&opening);
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

    /// Differs where transactions may run in another manner.
    fn manner_fingerprint(&self, opening: &[String]) -> u64 {
        opening.iter().fold(self.settings.fingerprint(), |mark, sql| {
            sql.bytes().fold(mark ^ 0x9e37_79b9_7f4a_7c15, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
        })
    }

    /// Before it commits where it has written and where it has not: whether reading may have been wrong. Asked once for the
    /// same settings, of a node it has only read.
    pub async fn learn_whether_serializable(&mut self) -> Result<()> {
        if self.transaction.participants.len() < 2 {
            return Ok(());
        }
        let mark = self.manner_fingerprint(&self.transaction.opening());
        if self.transaction.serializable.is_some_and(|(known, _)| known == mark) {
            return Ok(());
        }
        let participants = &mut self.transaction.participants;
        if !participants.iter().any(|p| p.wrote) {
            return Ok(());
        }
        // Who may have written is known when it has been asked.
        let unsure = self.transaction.asks_who_wrote;
        let Some(reader) = participants.iter_mut().find(|p| unsure || !p.wrote) else { return Ok(()) };
        let asked = reader.lane.rows("SELECT pg_catalog.current_setting('transaction_isolation')").await?;
        let serializable = asked.first().is_some_and(|row| row[0].as_deref() == Some("serializable"));
        self.transaction.serializable = Some((mark, serializable));
        Ok(())
    }

    /// All nodes join, with snapshots that are one cut.
    async fn make_cut(&mut self, manner: &Manner) -> Result<()> {
        if manner.deferrable {
            // It would wait for others while they wait at the gates. Like this it can fail, as any that is SERIALIZABLE.
            let at_once = "SET TRANSACTION NOT DEFERRABLE";
            self.transaction.everywhere(at_once).await?;
            self.transaction.note_setting(at_once);
        }
        let limit = Limit::of(manner);
        let mut nodes: Vec<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        nodes.retain(|node| !self.transaction.has(*node));
        nodes.sort_unstable();
        let mut lanes = Vec::with_capacity(nodes.len());
        for node in nodes {
            match self.fresh(node).await {
                Ok(mut lane) => {
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
            self.transaction.admit(Participant::new(lane));
        }
        self.transaction.cut = self.transaction.participants.iter().map(|p| p.lane.node).collect();
        self.transaction.began_with = Some(self.epoch.snapshot.clone());
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
        let (herd, snapshot, transaction) = (&**self.herd, &*self.epoch.snapshot, &mut *self.transaction);
        let joined: Vec<NodeId> = transaction.participants.iter().map(|p| p.lane.node).collect();
        let opening = transaction.opening();
        let list = gate::list(&snapshot.herd_id);
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
                    left |= Gid::parse(&gid, &snapshot.herd_id).is_some_and(|(_, node)| node == lane.node);
                }
                for _ in 0..=opening.len() {
                    lane.finish().await?;
                }
            }
            left |= left_on(&joined, herd, snapshot, &list).await?;
            if !left {
                // Those that take part already have none yet.
                transaction.everywhere("SELECT 1").await?;
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

/// Who had a snapshot by that catalog sees all rows of a relation as it is now. What was made since has none for him.
fn was_the_same(then: &Snapshot, now: &Snapshot, relation: &Relation) -> bool {
    let before = then.relations.values().find(|r| r.oid == relation.oid);
    match (before.map(|r| &r.placement), &relation.placement) {
        (Some(Placement::Local), Placement::Local) | (Some(Placement::Reference), Placement::Reference) => true,
        (Some(Placement::Distributed(a)), Placement::Distributed(b)) => {
            let (a, b) = (a.group.id, b.group.id);
            a == b && then.moves.get(&a) == now.moves.get(&b)
        }
        (None, Placement::Local) => {
            let named = then.relations.get(&(relation.schema.clone(), relation.name.clone()));
            named.is_none_or(|r| matches!(r.placement, Placement::Local))
        }
        _ => false,
    }
}

/// Whether something stands prepared on nodes that take part already. Asked beside the transaction, which would have its
/// snapshot by asking.
async fn left_on(joined: &[NodeId], herd: &Herd, snapshot: &Snapshot, list: &str) -> Result<bool> {
    for &node in joined {
        let rows = herd.admin(snapshot, node).await?.simple(list).await?;
        let mut gids = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
        if gids.any(|gid| Gid::parse(&gid, &snapshot.herd_id).is_some_and(|(_, of)| of == node)) {
            return Ok(true);
        }
    }
    Ok(false)
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

pub(crate) fn refuse_block() -> ExecError {
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
