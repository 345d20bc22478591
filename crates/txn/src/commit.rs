//! Commit. One node written: its own commit. Several: two phases, with the decision in the decider's own transaction.
//!
//! The decider is the node the session keeps, or home, if it wrote; otherwise the last participant that did. Its transaction calls `herd.decide()`, which writes the row
//! `herd.decision(gid)`, takes the node's gate (`gate.rs`), and tells the transaction's number there, which is part of the
//! gid. Every other writer runs PREPARE TRANSACTION; then the decider commits: that commit, always flushed, is the decision. What happens
//! when something dies in between is the work of `recover.rs`.
//!
//! The decider's transaction runs as the client's role, which may not write decisions: the function does, for whoever
//! brings the name's token (`seal.rs`). The token goes as a parameter, where no other session of that role can see it.

use std::time::{Duration, Instant};

use catalog::NodeId;
use pool::PoolError;
use wire::sqlstate;

use crate::gid::{Gid, Identity};
use crate::lane::Lane;
use crate::seal::Seal;
use crate::transaction::{Raised, Transaction};
use crate::{deferred, failpoint};

/// Why a transaction did not end as was asked, or nobody knows whether it did.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Nothing was committed.
    #[error("{0}")]
    RolledBack(PoolError),
    /// A node went away while it decided: whether the transaction is committed is not known here (SQLSTATE 08007).
    #[error("the outcome of the transaction is not known: {0}")]
    Unknown(PoolError),
    #[error("a transaction that writes to several nodes needs max_prepared_transactions > 0 on every node")]
    NoPreparedTransactions,
}

/// How a transaction has ended that COMMIT was said to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Committed,
    /// It had failed before.
    RolledBack,
}

impl Ended {
    /// PostgreSQL's command tag.
    pub fn tag(self) -> &'static str {
        match self {
            Ended::Committed => "COMMIT",
            Ended::RolledBack => "ROLLBACK",
        }
    }
}

impl Transaction {
    /// Commits. On any error the transaction is over.
    /// `two_phase`: false means each node commits by itself (the user chose `herd.two_phase = off`).
    pub async fn commit(&mut self, identity: &Identity, number: u64, two_phase: bool) -> Result<Ended, CommitError> {
        if self.has_failed() {
            self.rollback().await;
            return Ok(Ended::RolledBack);
        }
        let whole = match self.nobody_is_lost() {
            Ok(()) => self.raise(identity).await,
            lost => lost,
        };
        if let Err(e) = whole {
            self.rollback().await;
            return Err(CommitError::RolledBack(e));
        }
        if self.asks_who_wrote
            && self.writers() > 1
            && let Err(e) = self.see_who_wrote().await
        {
            self.rollback().await;
            return Err(CommitError::RolledBack(e));
        }
        let writers = self.writers();
        if writers > 0
            && let Err(e) = self.see_locks().await
        {
            self.rollback().await;
            return Err(CommitError::RolledBack(e));
        }
        // A change of the schema, or of where rows are, that half its nodes have lost would be a table that no two of them agree on: that is nobody's to choose.
        let two_phase = two_phase || self.raises_epoch.is_some();
        let result = if writers <= 1 || !two_phase {
            self.commit_one_phase().await
        } else {
            self.commit_two_phase(identity, number).await.map(|()| Ended::Committed)
        };
        if result.is_err() {
            // Whoever still can, rolls back; prepared ones wait for recovery where the outcome is unknown.
            for p in &mut self.participants {
                let over = p.lane.conn.outstanding() == 0 && p.lane.conn.status() == b'I';
                if !over && !p.lane.conn.is_broken() && p.lane.run("ROLLBACK").await.is_err() {
                    p.lane.conn.mark_broken();
                }
            }
        }
        self.end();
        result
    }

    fn writers(&self) -> usize {
        self.participants.iter().filter(|p| p.wrote).count()
    }

    /// Who has no number in its node's transaction has written nothing, whatever it was asked for before a savepoint that
    /// was gone back to: in a READ ONLY transaction nobody has, and no decision could be written.
    async fn see_who_wrote(&mut self) -> Result<(), PoolError> {
        for p in self.participants.iter_mut().filter(|p| p.wrote) {
            p.lane.put_query("SELECT pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text");
            p.lane.conn.flush().await?;
        }
        let mut failure = None;
        for p in self.participants.iter_mut().filter(|p| p.wrote) {
            match p.lane.value().await {
                Ok(number) => p.wrote = number.is_some(),
                Err(e) => {
                    failure.get_or_insert(e);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Locks on nodes that were not written to hold until what was written can be seen: a node that was lost has none any more.
    async fn see_locks(&mut self) -> Result<(), PoolError> {
        let mut lanes: Vec<_> =
            self.participants.iter_mut().filter(|p| p.locked && !p.wrote).map(|p| &mut p.lane).collect();
        for lane in &mut lanes {
            lane.put_query("SELECT");
            lane.conn.flush().await?;
        }
        finish_all(&mut lanes).await
    }

    /// Raises the epoch, unless that has been done or need not be: from here to the end nobody else can commit a change of the catalog.
    pub async fn raise(&mut self, identity: &Identity) -> Result<(), PoolError> {
        match self.raises_epoch {
            Some(home) if self.raised_to.is_none() && !self.has_failed() => {
                self.raise_epoch(home, &identity.seal).await
            }
            _ => Ok(()),
        }
    }

    /// Home's first: its row is what changes wait for one another at, so that they come to the other nodes in the same order.
    /// Before that, deferred constraints: nobody waits for what their triggers do, however long it takes.
    async fn raise_epoch(&mut self, home: NodeId, seal: &Seal) -> Result<(), PoolError> {
        let Some(at) = self.participants.iter().position(|p| p.lane.node == home) else { return Ok(()) };
        self.participants.swap(0, at);
        self.run_deferred().await?;
        let Some((home, others)) = self.participants.split_first_mut() else { return Ok(()) };
        let mut others: Vec<_> = others.iter_mut().filter(|p| p.wrote).map(|p| &mut p.lane).collect();
        for lane in &mut others {
            lane.put_query(QUIET);
            lane.conn.flush().await?;
        }
        finish_all(&mut others).await?;
        let lane = &mut home.lane;
        lane.put_query(QUIET);
        put_raise(lane, None, seal);
        lane.conn.flush().await?;
        let checked = lane.finish().await;
        let epoch = if lane.conn.outstanding() == 0 { Ok(None) } else { lane.value().await };
        let kinds = if lane.conn.outstanding() == 0 { Ok(None) } else { lane.value().await };
        // The first error is the reason of those behind it.
        let epoch = checked.and(epoch)?.unwrap_or_default();
        let kinds = kinds?.and_then(|kinds| kinds.parse().ok());
        self.raised_to = epoch.parse().ok().zip(kinds).map(|(epoch, kinds)| Raised { epoch, kinds });
        for lane in &mut others {
            put_raise(lane, Some(&epoch), seal);
            lane.conn.flush().await?;
        }
        finish_all(&mut others).await
    }

    /// Whoever waits for a lock of this transaction, or for a notification, wants to see what it has written: those nodes
    /// that it has only read, locked or notified on come last. Not in SERIALIZABLE transactions: there a reader's COMMIT may
    /// fail, and nothing must have been committed then.
    async fn commit_one_phase(&mut self) -> Result<Ended, CommitError> {
        let mut ended = Ended::Committed;
        for wrote in [!self.readers_first(), self.readers_first()] {
            for p in self.participants.iter_mut().filter(|p| p.wrote == wrote) {
                p.lane.put_query("COMMIT");
                // What goes wrong here is seen again when the answer is read.
                let _ = p.lane.conn.flush().await;
            }
            failpoint::reached(if wrote { "one_phase.commit_sent" } else { "one_phase.readers_sent" }).await;
            let mut failure = None;
            let written = self.writers() > 0 && !self.readers_first();
            for p in self.participants.iter_mut().filter(|p| p.wrote == wrote) {
                match p.lane.finish().await {
                    Ok(tag) if tag == Ended::RolledBack.tag() => ended = Ended::RolledBack,
                    Ok(_) => {}
                    // What was written is committed; the connection is of no more use.
                    Err(_) if written && !wrote => p.lane.conn.mark_broken(),
                    Err(e) if wrote && may_have_committed(&e) => {
                        failure.get_or_insert(CommitError::Unknown(e));
                    }
                    Err(e) => {
                        failure.get_or_insert(CommitError::RolledBack(e));
                    }
                }
            }
            if let Some(e) = failure {
                return Err(e);
            }
        }
        Ok(ended)
    }

    fn readers_first(&self) -> bool {
        self.serializable.is_some_and(|(_, serializable)| serializable)
    }

    async fn commit_two_phase(&mut self, identity: &Identity, number: u64) -> Result<(), CommitError> {
        // A node with temporary objects can't prepare; only the session's home lane may have some, so it decides.
        let kept =
            self.keep.or(self.home).and_then(|n| self.participants.iter().position(|p| p.wrote && p.lane.node == n));
        // Who locks one row to change others, locks it first: it is given free last.
        let decider = kept.or_else(|| self.participants.iter().rposition(|p| p.wrote)).unwrap_or(0);
        self.participants.swap(0, decider);
        failpoint::reached("two_phase.begin").await;
        if (self.defers || self.keep_all)
            && let Err(e) = self.run_deferred().await
        {
            self.rollback().await;
            return Err(CommitError::RolledBack(e));
        }
        let gid = &self.announce(identity, number).await?;
        failpoint::reached("two_phase.announced").await;
        if let Err(e) = self.prepare(gid).await {
            let _ = self.participants[0].lane.run("ROLLBACK").await;
            self.end_prepared(gid, "ROLLBACK").await;
            return Err(match self.prepares_nothing(&e).await {
                true => CommitError::NoPreparedTransactions,
                false => CommitError::RolledBack(e),
            });
        }
        failpoint::reached("two_phase.prepared").await;
        let decider = &mut self.participants[0].lane;
        decider.put_query("COMMIT");
        let _ = decider.conn.flush().await;
        failpoint::reached("two_phase.decision_sent").await;
        match self.participants[0].lane.finish().await {
            Ok(tag) if tag == "COMMIT" => {}
            // Recovery will find out; the other connections hold nothing any more.
            Err(e) if may_have_committed(&e) => return Err(CommitError::Unknown(e)),
            other => {
                self.end_prepared(gid, "ROLLBACK").await;
                return Err(CommitError::RolledBack(other.err().unwrap_or_else(aborted)));
            }
        }
        failpoint::reached("two_phase.decided").await;
        // What fails now is finished by recovery; the client's transaction is committed.
        self.end_prepared(gid, "COMMIT").await;
        self.end_readers().await;
        failpoint::reached("two_phase.finished").await;
        Ok(())
    }

    /// What COMMIT would run is run now, where it may still be cancelled, and be part of a circle of those who wait that somebody sees.
    pub async fn check_deferred(&mut self) -> Result<(), PoolError> {
        if std::mem::take(&mut self.defers) {
            return self.run_deferred().await;
        }
        // Nobody's code runs there.
        let mut lanes: Vec<_> = self.participants.iter_mut().filter(|p| p.wrote).map(|p| &mut p.lane).collect();
        for lane in &mut lanes {
            lane.put_query("SET CONSTRAINTS ALL IMMEDIATE");
            lane.conn.flush().await?;
        }
        finish_all(&mut lanes).await
    }

    /// What users' code does at the end of a transaction may take its time: while the epoch is raised or the gate is held, others would wait for it.
    async fn run_deferred(&mut self) -> Result<(), PoolError> {
        // Those that were only read commit when nobody waits any more.
        let readers_too = self.readers_first();
        let held_up = self.participants.iter_mut().enumerate().filter(|(i, p)| *i == 0 || p.wrote || readers_too);
        let mut lanes: Vec<_> = held_up.map(|(_, p)| &mut p.lane).collect();
        deferred::run(&mut lanes).await
    }

    /// The decider's transaction writes its decision, seen only if and when it commits, and enters the gate.
    ///
    /// Deferred constraints are checked now, so that the decider's own commit can hardly fail, in a message of their own,
    /// so that no trigger sees what comes behind; what they run can't change any more that the decision will be [`FLUSHED`]. The gate comes last: nothing
    /// else waits while it is held. It is waited for without the client's limits, which PostgreSQL's COMMIT does not heed either, and for [`GATE_MAX`]:
    /// a COMMIT can't be cancelled, and who holds the gate for longer does not work any more.
    async fn announce(&mut self, identity: &Identity, number: u64) -> Result<Gid, CommitError> {
        let lane = &mut self.participants[0].lane;
        let asked = Gid::asked(identity, lane.node, number);
        let token = token(&identity.seal, &format!("decide {asked}"), lane);
        lane.put_query(&format!(
            "SET CONSTRAINTS ALL IMMEDIATE; {QUIET}; SET LOCAL lock_timeout = '{GATE_MAX}'; SET LOCAL statement_timeout = 0"
        ));
        lane.put_statement(
            &format!("SELECT herd.decide($1::pg_catalog.text, $2::pg_catalog.bytea), {FLUSHED}"),
            &[&asked, &token],
        );
        lane.conn.flush().await.map_err(CommitError::RolledBack)?;
        let checked = lane.finish().await;
        let xid = match lane.conn.outstanding() {
            0 => Ok(None),
            _ => lane.value().await,
        };
        // The first error is the reason of the second.
        let xid = checked.and(xid).map_err(CommitError::RolledBack)?.and_then(|xid| xid.parse().ok());
        let xid = xid.ok_or_else(|| CommitError::RolledBack(aborted()))?;
        Ok(Gid { herd: identity.herd.clone(), decider: lane.node, router: identity.router, number, xid })
    }

    /// All but the decider prepare, at once; who has only read commits where that may fail.
    async fn prepare(&mut self, gid: &Gid) -> Result<(), PoolError> {
        let readers_too = self.readers_first();
        let mut others: Vec<_> = self.participants[1..].iter_mut().filter(|p| p.wrote || readers_too).collect();
        for (i, p) in others.iter_mut().enumerate() {
            let sql = match p.wrote {
                // A decision that reaches a standby must find there what it is about.
                true => format!("SELECT {FLUSHED}; PREPARE TRANSACTION '{}'", gid.participant(p.lane.node)),
                false => "COMMIT".to_string(),
            };
            p.lane.put_query(&sql);
            let _ = p.lane.conn.flush().await;
            if i == 0 {
                failpoint::reached("two_phase.prepare_sent").await;
            }
        }
        let mut failure = None;
        for p in others {
            match p.lane.finish().await {
                // A transaction that had failed answers PREPARE with ROLLBACK.
                Ok(tag) if p.wrote && tag != "PREPARE TRANSACTION" => {
                    failure.get_or_insert_with(aborted);
                }
                Ok(_) => p.prepared = p.wrote,
                Err(e) => {
                    failure.get_or_insert(e);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Whether PREPARE failed because a node has no room for prepared transactions at all.
    async fn prepares_nothing(&mut self, error: &PoolError) -> bool {
        let PoolError::Server(fields) = error else { return false };
        if fields.code() != sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE {
            return false;
        }
        for p in &mut self.participants[1..] {
            let asked = p.lane.rows("SELECT pg_catalog.current_setting('max_prepared_transactions')").await;
            if asked.is_ok_and(|rows| rows.first().is_some_and(|r| r[0].as_deref() == Some("0"))) {
                return true;
            }
        }
        false
    }

    /// What was only read, locked or notified on is committed when all that was written can be seen.
    async fn end_readers(&mut self) {
        if self.readers_first() {
            return;
        }
        let mut readers: Vec<_> = self.participants.iter_mut().filter(|p| !p.wrote).collect();
        for p in &mut readers {
            p.lane.put_query("COMMIT");
            let _ = p.lane.conn.flush().await;
        }
        for p in readers {
            if p.lane.finish().await.is_err() {
                p.lane.conn.mark_broken();
            }
        }
    }

    /// COMMIT PREPARED or ROLLBACK PREPARED where something is prepared, at once. What fails is left to recovery.
    async fn end_prepared(&mut self, gid: &Gid, verb: &str) {
        let mut prepared: Vec<_> = self.participants.iter_mut().filter(|p| p.prepared).collect();
        let end = |node| format!("{verb} PREPARED '{}'", gid.participant(node));
        for (i, p) in prepared.iter_mut().enumerate() {
            p.lane.put_query(&end(p.lane.node));
            let _ = p.lane.conn.flush().await;
            if i == 0 {
                failpoint::reached("two_phase.end_sent").await;
            }
        }
        for p in prepared {
            let end = end(p.lane.node);
            if ended(&mut p.lane, &end).await.is_err() {
                p.lane.conn.mark_broken();
            }
        }
    }
}

/// Readers of one state of all nodes hold gates for moments.
const GATE_MAX: &str = "20s";

/// How long recovery may take to end what it has begun to end.
const RECOVERY_MAX: Duration = Duration::from_secs(10);
const RECOVERY_PAUSES_MS: std::ops::RangeInclusive<u64> = 2..=100;

/// What was prepared there has ended, whoever has ended it: recovery may have been faster, and not be done yet. As PostgreSQL forgets the name
/// before it tells others of what has changed, and gives locks free last (`FinishPreparedTransaction` in twophase.c), that is waited for.
async fn ended(lane: &mut Lane, end: &str) -> Result<(), PoolError> {
    let (begun, mut pause) = (Instant::now(), *RECOVERY_PAUSES_MS.start());
    let mut done = lane.finish().await.map(drop);
    while let Err(PoolError::Server(e)) = &done
        && begun.elapsed() < RECOVERY_MAX
    {
        done = match e.code() {
            sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE => lane.run(end).await.map(drop),
            sqlstate::UNDEFINED_OBJECT if lane.rows(BEING_ENDED).await?.is_empty() => return Ok(()),
            sqlstate::UNDEFINED_OBJECT => done,
            _ => return done,
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        pause = (2 * pause).min(*RECOVERY_PAUSES_MS.end());
    }
    done
}

/// Prepared transactions that have no name any more, and their locks still. Locks are looked at first: who gets some meanwhile has a name.
const BEING_ENDED: &str = "WITH held AS MATERIALIZED (SELECT transactionid FROM pg_catalog.pg_locks WHERE pid IS NULL AND locktype OPERATOR(pg_catalog.=) 'transactionid') \
     SELECT FROM held h WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_prepared_xacts p WHERE p.transaction OPERATOR(pg_catalog.=) h.transactionid)";

/// What is prepared, and the decision, are on disk, and on a synchronous standby where there is one, before anybody follows it: PREPARE and COMMIT
/// PREPARED always flush (`RecordTransactionCommitPrepared` in twophase.c), a COMMIT only if `synchronous_commit` says so, and none of them waits for
/// the standby where that says `off` or `local`. The server's, role's and client's settings and those made by code are all in what holds now; a
/// stronger one stays. A COMMIT PREPARED that the standby lacks is done again there: its decision is kept until it has it (`recover.rs`).
const FLUSHED: &str = "CASE WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) ANY ('{off,local}') \
     THEN pg_catalog.set_config('synchronous_commit', 'on', true) END";

/// Parameters of what follows in the transaction get into no message, whatever the client has set: neither with an error
/// nor as part of a plan that is printed. They are tokens.
const QUIET: &str = "SET LOCAL log_parameter_max_length_on_error = 0; SET LOCAL debug_print_plan = off";

/// Raises the epoch by one on home, which tells it, and then `kinds`, which are raised with it. Elsewhere to what home has raised it to.
fn put_raise(lane: &mut Lane, target: Option<&str>, seal: &Seal) {
    let token = token(seal, "epoch", lane);
    match target {
        None => {
            lane.put_statement("SELECT herd.raise_epoch(NULL, $1::pg_catalog.bytea)", &[&token]);
            lane.put_statement("SELECT e.kinds FROM herd.epoch e", &[]);
        }
        Some(epoch) => lane.put_statement(
            "SELECT herd.raise_epoch($1::pg_catalog.text::pg_catalog.int8, $2::pg_catalog.bytea)",
            &[epoch, &token],
        ),
    }
}

/// What is asked for, under the herd's seal, as a bytea. Of no use but on this very connection.
fn token(seal: &Seal, asked: &str, lane: &Lane) -> String {
    format!("\\x{}", seal.token_hex(&format!("{asked} {}", lane.conn.pid())))
}

/// All are waited for; the first error is returned.
async fn finish_all(lanes: &mut [&mut Lane]) -> Result<(), PoolError> {
    let mut failure = None;
    for lane in lanes {
        if let Err(e) = lane.finish().await {
            failure.get_or_insert(e);
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Whether a COMMIT that was answered so may nevertheless have happened: only an ordinary error says that it has not. A
/// FATAL one can come after the commit was written, before it was told (syncrep.c, ProcDiePending).
fn may_have_committed(e: &PoolError) -> bool {
    match e {
        PoolError::Server(fields) => fields.is_fatal(),
        _ => true,
    }
}

fn aborted() -> PoolError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    PoolError::Server(Box::new(wire::ErrorFields::error(sqlstate::IN_FAILED_SQL_TRANSACTION, message)))
}
