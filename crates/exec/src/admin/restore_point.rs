//! `herd.restore_point(name)`: a named restore point in every node's WAL, such that servers which are restored to it are one herd: of a
//! transaction over several nodes they have all or nothing.
//!
//! The points are made while all gates are held, and nothing stands prepared (`txn/src/gate.rs`). A transaction over several nodes
//! that has not taken its gate by then is prepared, decided and ended behind all points; of one that had, all commits and
//! COMMITs PREPARED are in the WAL in front of them: they are written before they can be seen, and before the gate is
//! given back. Each node's own commits go on meanwhile: which of two transactions on different nodes comes first, nobody says.
//!
//! A name is noted on home before anything is made, and never used again: servers stop at the first point of a name that they meet, and
//! one that was made on some nodes only would be met there. How a server is restored is not known here.

use std::collections::BTreeSet;
use wire::sqlstate;

use catalog::{NodeId, Snapshot, quote_literal};
use plan::admin::AdminCall;
use pool::Conn;
use txn::{Gid, failpoint};

use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::router::gates::{self, SNAPSHOTS};
use crate::work::Work;
use crate::work::cut::Limit;

/// PostgreSQL's own limit (MAXFNAMELEN in xlog_internal.h, with the zero at its end).
const NAME_BYTES_MAX: usize = 63;

/// What a node must be, have and let the router do.
const READY: &str = "SELECT pg_catalog.current_setting('wal_level'), pg_catalog.pg_is_in_recovery(), \
    pg_catalog.has_function_privilege('pg_catalog.pg_create_restore_point(text)', 'EXECUTE') \
    AND pg_catalog.has_function_privilege('pg_catalog.pg_switch_wal()', 'EXECUTE'), session_user, \
    pg_catalog.current_setting('archive_mode')";

/// A node, by a connection that nobody else uses.
struct Place {
    node: NodeId,
    name: String,
    conn: Conn,
}

impl<C: Client> Work<'_, C> {
    /// `{"home": "0/3000140", …}`: by its name, for each node where in its WAL the point ends.
    pub(crate) async fn restore_point(&mut self, call: &AdminCall) -> Result<String> {
        if self.transaction.is_active() {
            return Err(ExecError::sql(
                sqlstate::ACTIVE_SQL_TRANSACTION,
                "herd.restore_point() cannot run inside a transaction block",
            )
            .hint("What the transaction has done would come behind the point."));
        }
        let name = call.point()?;
        check(&name)?;
        self.may_change_herd().await?;
        let limit = Limit::of(&self.manner().await?);
        let (mut places, grant) = loop {
            let snapshot = self.herd.epoch.load().snapshot.clone();
            let places = self.places(&snapshot).await?;
            let grant = self.enter_gates(&limit).await.map_err(|e| match &*e.code() {
                sqlstate::T_R_SERIALIZATION_FAILURE => busy(),
                _ => e,
            })?;
            // With home's gate held the list of nodes stands still; the leader has the newest.
            if nodes(&self.herd.epoch.load().snapshot) == nodes(&snapshot) {
                break (places, grant);
            }
        };
        let home = self.home();
        let herd_id = self.epoch.snapshot.herd_id.clone();
        let made = match tokio::time::timeout(SNAPSHOTS, make(&mut places, home, &herd_id, &name)).await {
            Ok(made) => made,
            Err(_) => Err(Failed::halfway("a node did not answer in time")),
        };
        let held = grant.done().await;
        let made = match made {
            Ok(_) if !held => {
                Err(Failed::halfway("a connection that kept commits over several nodes waiting was lost"))
            }
            made => made,
        };
        let lsns = made.map_err(|failed| failed.error(&name))?;
        let noted = flush_and_note(&mut places, home, &name, &lsns).await;
        noted.map_err(|e| Failed::halfway(e.to_fields().message()).error(&name))
    }

    /// A connection to each node, if all of them can make the point.
    async fn places(&mut self, snapshot: &Snapshot) -> Result<Vec<Place>> {
        let mut places = Vec::with_capacity(snapshot.nodes.len());
        let mut unarchived = Vec::new();
        for node in &snapshot.nodes {
            let mut conn = self.herd.admin(snapshot, node.id).await?;
            let row = conn.simple(READY).await?.into_iter().next().unwrap_or_default();
            let cell = |n: usize| row.get(n).and_then(|v| v.as_deref()).unwrap_or_default();
            let lacks = |message: String, hint: &str| {
                Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(hint))
            };
            if cell(0) == "minimal" {
                let message = format!("node \"{}\" cannot make restore points: its wal_level is minimal", node.name);
                return lacks(message, "ALTER SYSTEM SET wal_level = replica (or logical) there, and restart it.");
            }
            if cell(1) == "t" {
                return lacks(
                    format!("node \"{}\" cannot make restore points: it is in recovery", node.name),
                    "It is a standby: the herd's nodes are primaries.",
                );
            }
            if cell(2) != "t" {
                let message =
                    format!("the router's role \"{}\" may not make restore points on node \"{}\"", cell(3), node.name);
                let hint = "A superuser may GRANT EXECUTE ON FUNCTION pg_create_restore_point(text), pg_switch_wal() to it there.";
                return Err(ExecError::sql(sqlstate::INSUFFICIENT_PRIVILEGE, message).hint(hint));
            }
            if cell(4) == "off" {
                unarchived.push(format!("\"{}\"", node.name));
            }
            places.push(Place { node: node.id, name: node.name.clone(), conn });
        }
        if !unarchived.is_empty() {
            let message = format!("archive_mode is off on node {}", unarchived.join(", "));
            let warning = wire::ErrorFields::with_severity("WARNING", sqlstate::WARNING, message)
                .hint("A server can be restored to the point only by WAL that is kept elsewhere: by its archive, or pg_receivewal.");
            self.client.tell(Answer::Notice(&warning));
        }
        Ok(places)
    }
}

fn nodes(snapshot: &Snapshot) -> BTreeSet<NodeId> {
    snapshot.nodes.iter().map(|n| n.id).collect()
}

fn check(name: &str) -> Result<()> {
    let wrong = |message: String| Err(ExecError::sql(sqlstate::INVALID_PARAMETER_VALUE, message));
    if name.is_empty() {
        return wrong("a restore point needs a name".into());
    }
    if name.len() > NAME_BYTES_MAX {
        return wrong(format!("value too long for restore point (maximum {NAME_BYTES_MAX} characters)"));
    }
    // It will be a value in a configuration file.
    if name.chars().any(char::is_control) {
        return wrong("a restore point's name is one line".into());
    }
    Ok(())
}

/// With all gates held: notes the name, then makes the point on all nodes at once.
async fn make(
    places: &mut [Place],
    home: NodeId,
    herd_id: &str,
    name: &str,
) -> std::result::Result<Vec<String>, Failed> {
    if is_left(places, herd_id).await? {
        return Err(busy().into());
    }
    let literal = quote_literal(name);
    let at_home = places.iter_mut().find(|p| p.node == home).ok_or_else(|| ExecError::internal("home is no node"))?;
    let note =
        format!("INSERT INTO herd.restore_point (name) VALUES ({literal}) ON CONFLICT DO NOTHING RETURNING name");
    if at_home.conn.simple(&note).await?.is_empty() {
        let message = format!("there is a restore point \"{name}\" already, or an attempt at it");
        let error = ExecError::sql(sqlstate::DUPLICATE_OBJECT, message);
        return Err(error.hint("Take another name: servers stop at the first point of a name that they meet.").into());
    }
    let sql = format!("SELECT pg_catalog.pg_create_restore_point({literal})");
    let made = async {
        for (i, place) in places.iter_mut().enumerate() {
            gates::send(&mut place.conn, &sql).await?;
            if i == 0 {
                failpoint::reached("restore_point.sent").await;
            }
        }
        let mut lsns = Vec::with_capacity(places.len());
        for place in places.iter_mut() {
            let lsn = gates::values(&mut place.conn).await?.into_iter().next();
            lsns.push(lsn.ok_or_else(|| ExecError::internal("a node told of no restore point"))?);
        }
        Ok::<_, ExecError>(lsns)
    };
    made.await.map_err(|e| Failed::halfway(e.to_fields().message()))
}

/// Whether something stands prepared after all.
async fn is_left(places: &mut [Place], herd_id: &str) -> Result<bool> {
    let list = txn::gate::list(herd_id);
    let mut left = false;
    for place in places.iter_mut() {
        gates::send(&mut place.conn, &list).await?;
    }
    for place in places.iter_mut() {
        let gids = gates::values(&mut place.conn).await?;
        left |= gids.iter().any(|gid| Gid::parse(gid, herd_id).is_some_and(|(_, node)| node == place.node));
    }
    Ok(left)
}

/// PostgreSQL flushes no restore point by itself; a segment that is switched is flushed (XLogInsertRecord in xlog.c), and its archive may
/// have it.
async fn flush_and_note(places: &mut [Place], home: NodeId, name: &str, lsns: &[String]) -> Result<String> {
    const SWITCH: &str = "SELECT pg_catalog.pg_switch_wal()";
    for place in places.iter_mut() {
        gates::send(&mut place.conn, SWITCH).await?;
    }
    for place in places.iter_mut() {
        gates::values(&mut place.conn).await?;
    }
    let pairs: Vec<String> =
        places.iter().zip(lsns).flat_map(|(p, lsn)| [quote_literal(&p.name), quote_literal(lsn)]).collect();
    let note = format!(
        "UPDATE herd.restore_point SET places = pg_catalog.jsonb_build_object({}) WHERE name OPERATOR(pg_catalog.=) {} RETURNING places",
        pairs.join(", "),
        quote_literal(name)
    );
    let Some(at_home) = places.iter_mut().find(|p| p.node == home) else {
        return Err(ExecError::internal("home is no node"));
    };
    let rows = at_home.conn.simple(&note).await?;
    let places = rows.into_iter().next().and_then(|row| row.into_iter().next().flatten());
    places.ok_or_else(|| ExecError::internal("the restore point is not noted any more"))
}

fn busy() -> ExecError {
    let message = "no restore point was made: commits over several nodes were at work all the time";
    ExecError::sql(sqlstate::T_R_SERIALIZATION_FAILURE, message)
        .hint("Try again. herd.locks shows who waits, herd.transactions what stands prepared.")
}

/// Why there is no point: nothing was made, or it is on some nodes, or may be.
enum Failed {
    Before(ExecError),
    Halfway(String),
}

impl Failed {
    fn halfway(reason: &str) -> Failed {
        Failed::Halfway(reason.to_string())
    }

    fn error(self, name: &str) -> ExecError {
        match self {
            Failed::Before(e) => e,
            Failed::Halfway(reason) => {
                let message =
                    format!("restore point \"{name}\" may be missing on some nodes, or cut a commit in half: {reason}");
                ExecError::sql(sqlstate::CONNECTION_FAILURE, message)
                    .hint("Don't restore to it. Call herd.restore_point() again, with another name.")
            }
        }
    }
}

impl From<ExecError> for Failed {
    fn from(e: ExecError) -> Self {
        Failed::Before(e)
    }
}

impl From<pool::PoolError> for Failed {
    fn from(e: pool::PoolError) -> Self {
        Failed::Before(e.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_a_configuration_file_can_say() {
        assert!(check("before the release").is_ok() && check(&"x".repeat(63)).is_ok());
        for wrong in ["", "a\nb", &"x".repeat(64), &"ü".repeat(32)] {
            assert_eq!(check(wrong).unwrap_err().code(), "22023", "{wrong}");
        }
    }
}
