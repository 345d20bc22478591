//! Commit. One node written: its own commit. Several: two phases, with the decision in the decider's own transaction.
//!
//! The decider is the first participant that wrote. Every other writer runs PREPARE TRANSACTION; then the decider
//! commits a transaction that holds the row `herd.decision(gid)`: that commit is the decision. What happens when
//! something dies in between is the work of `recover.rs`.

use pool::PoolError;

use crate::gid::{Gid, Identity};
use crate::transaction::Transaction;

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

impl Transaction {
    /// Commits. `chain` is not handled here. On any error the transaction is over.
    /// `two_phase`: false means each node commits by itself (the user chose `herd.two_phase = off`).
    pub async fn commit(
        &mut self,
        identity: &Identity,
        number: u64,
        two_phase: bool,
        tag: &mut String,
    ) -> Result<(), CommitError> {
        *tag = "COMMIT".to_string();
        if self.failed {
            self.rollback().await;
            *tag = "ROLLBACK".to_string();
            return Ok(());
        }
        let writers = self.participants.iter().filter(|p| p.wrote).count();
        let result = if writers <= 1 || !two_phase {
            self.commit_one_phase(tag).await
        } else {
            self.commit_two_phase(identity, number).await
        };
        if result.is_err() {
            // Whoever still can, rolls back; prepared ones wait for recovery where the outcome is unknown.
            for p in &mut self.participants {
                if !p.lane.conn.is_broken() && p.lane.run("ROLLBACK").await.is_err() {
                    p.lane.conn.mark_broken();
                }
            }
        }
        self.end();
        result
    }

    async fn commit_one_phase(&mut self, tag: &mut String) -> Result<(), CommitError> {
        // Readers first: should one fail (a serialization failure), nothing has been committed yet.
        self.participants.sort_by_key(|p| p.wrote);
        let last = self.participants.len();
        for (i, p) in self.participants.iter_mut().enumerate() {
            let done = p.lane.run("COMMIT").await;
            match done {
                Ok(t) => *tag = t,
                Err(PoolError::Server(e)) => return Err(CommitError::RolledBack(PoolError::Server(e))),
                Err(e) if p.wrote && i + 1 == last => return Err(CommitError::Unknown(e)),
                Err(e) => return Err(CommitError::RolledBack(e)),
            }
        }
        Ok(())
    }

    async fn commit_two_phase(&mut self, identity: &Identity, number: u64) -> Result<(), CommitError> {
        // A node with temporary objects can't prepare; only the session's home lane may have some, so it decides.
        let kept =
            self.keep.or(self.home).and_then(|n| self.participants.iter().position(|p| p.wrote && p.lane.node == n));
        let decider = kept.or_else(|| self.participants.iter().position(|p| p.wrote)).unwrap_or(0);
        self.participants.swap(0, decider);
        let gid = Gid {
            herd: identity.herd.clone(),
            decider: self.participants[0].lane.node,
            router: identity.router,
            number,
        };
        // Deferred constraints are checked now, so that the decider's own commit can hardly fail.
        let announce = format!(
            "SET CONSTRAINTS ALL IMMEDIATE; SELECT pg_catalog.pg_advisory_xact_lock({}); INSERT INTO herd.decision (gid) VALUES ('{}')",
            gid.lock_key(),
            gid.decision()
        );
        // The lock is there before anyone is prepared, or recovery could take a live transaction for a dead one.
        self.participants[0].lane.run(&announce).await.map_err(CommitError::RolledBack)?;
        let others = &mut self.participants[1..];
        for p in others.iter_mut() {
            let sql = match p.wrote {
                true => format!("PREPARE TRANSACTION '{}'", gid.participant(p.lane.node)),
                false => "COMMIT".to_string(),
            };
            p.lane.put_query(&sql);
            let _ = p.lane.conn.flush().await;
        }
        let mut failure = None;
        let mut prepared = Vec::new();
        for (i, p) in others.iter_mut().enumerate() {
            match p.lane.finish().await {
                // A transaction that had failed answers PREPARE with ROLLBACK.
                Ok(tag) if p.wrote && tag != "PREPARE TRANSACTION" => {
                    let e = wire::ErrorFields::error(
                        "25P02",
                        "current transaction is aborted, commands ignored until end of transaction block",
                    );
                    failure.get_or_insert(PoolError::Server(Box::new(e)));
                }
                Ok(_) if p.wrote => prepared.push(i),
                Ok(_) => {}
                Err(e) => {
                    failure.get_or_insert(e);
                }
            }
        }
        if let Some(e) = failure {
            let _ = self.participants[0].lane.run("ROLLBACK").await;
            for i in prepared {
                let p = &mut self.participants[1 + i];
                let _ = p.lane.run(&format!("ROLLBACK PREPARED '{}'", gid.participant(p.lane.node))).await;
            }
            if matches!(&e, PoolError::Server(f) if f.code() == "55000" && f.message().contains("prepared transactions are disabled"))
            {
                return Err(CommitError::NoPreparedTransactions);
            }
            return Err(CommitError::RolledBack(e));
        }
        match self.participants[0].lane.run("COMMIT").await {
            Ok(_) => {}
            Err(PoolError::Server(e)) => {
                for i in prepared {
                    let p = &mut self.participants[1 + i];
                    let _ = p.lane.run(&format!("ROLLBACK PREPARED '{}'", gid.participant(p.lane.node))).await;
                }
                return Err(CommitError::RolledBack(PoolError::Server(e)));
            }
            Err(e) => {
                // Recovery will find out; these connections hold nothing any more.
                return Err(CommitError::Unknown(e));
            }
        }
        // Decided. What fails now is finished by recovery; the client's transaction is committed.
        for i in &prepared {
            let p = &mut self.participants[1 + i];
            let sql = format!("COMMIT PREPARED '{}'", gid.participant(p.lane.node));
            p.lane.put_query(&sql);
            let _ = p.lane.conn.flush().await;
        }
        for i in prepared {
            let p = &mut self.participants[1 + i];
            if p.lane.finish().await.is_err() {
                p.lane.conn.mark_broken();
            }
        }
        Ok(())
    }
}
