//! Finishes prepared transactions whose router died. Any router can, at any time; nothing is remembered between runs.
//!
//! For each prepared gid of this herd: the decider's node says whether the transaction of that number is over there, or was
//! lost with its number; if it is over, the decision row tells commit or abort. Nobody can keep a transaction from being over, and nobody but the
//! transaction of that number has written that row (`herd.decide()`). Foreign gids are never touched. A decision nobody can
//! need any more is deleted, once nodes' synchronous standbys have what has followed it. A node that fails is left for the next run; the others are
//! not kept waiting.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use wire::sqlstate;

use catalog::NodeId;
use pool::{Conn, PoolError};

use crate::gid::Gid;

/// How long a node may take to answer one question.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Decisions deleted from one node in one run.
const FORGET_MAX: usize = 10_000;

/// What one run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    pub committed: u64,
    pub rolled_back: u64,
    /// Left alone: their router still runs, or their decider can't be reached.
    pub left: u64,
    /// Decisions that all participants have followed.
    pub forgotten: u64,
    /// Nodes that failed in between; their connections are gone from the map.
    pub failed: u64,
}

/// Looks at every node that could be reached. `nodes` are superuser connections.
pub async fn recover(herd: &str, home: NodeId, nodes: &mut HashMap<NodeId, Conn>) -> Recovered {
    let mut done = Recovered::default();
    // Decisions are read first: whoever took part in one of these was prepared before it, so it is listed below or done.
    // Then the nodes there are: our own snapshot may be older than a node that took part.
    let decisions = ask_each(nodes, &format!("SELECT gid FROM herd.decision LIMIT {FORGET_MAX}"), &mut done).await;
    let all = reaches_all(home, nodes).await;
    let sql = "SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database() AND gid LIKE 'herd\\_%'";
    let prepared = ask_each(nodes, sql, &mut done).await;
    let mut needed = HashSet::new();
    for (node, name) in prepared {
        let Some((gid, participant)) = Gid::parse(&name, herd) else { continue };
        if participant != node {
            continue;
        }
        needed.insert(gid.decision());
        let decided = match nodes.get_mut(&gid.decider) {
            Some(decider) => outcome(decider, &gid).await,
            None => Ok(None),
        };
        let decided = match decided {
            Ok(Some(decided)) => decided,
            Ok(None) => {
                done.left += 1;
                continue;
            }
            Err(e) => {
                lose(nodes, gid.decider, &e, &mut done);
                continue;
            }
        };
        let verb = if decided { "COMMIT" } else { "ROLLBACK" };
        let Some(participant) = nodes.get_mut(&node) else { continue };
        match end(participant, verb, &name).await {
            Ok(_) if decided => done.committed += 1,
            Ok(_) => done.rolled_back += 1,
            // Another router is at it, or was faster.
            Err(PoolError::Server(e))
                if matches!(e.code(), sqlstate::UNDEFINED_OBJECT | sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE) => {}
            Err(e) => lose(nodes, node, &e, &mut done),
        }
    }
    if all && done.failed == 0 {
        forget(herd, nodes, decisions, &needed, &mut done).await;
    }
    done
}

/// COMMIT or ROLLBACK PREPARED; as the transaction's own role where the router's is no superuser.
async fn end(conn: &mut Conn, verb: &str, name: &str) -> Result<(), PoolError> {
    let end = format!("{verb} PREPARED '{name}'");
    match conn.simple(&end).await {
        Err(PoolError::Server(e)) if e.code() == sqlstate::INSUFFICIENT_PRIVILEGE => {}
        done => return done.map(drop),
    }
    let owner = format!("SELECT owner FROM pg_catalog.pg_prepared_xacts WHERE gid = '{name}'");
    let rows = conn.simple(&owner).await?;
    let Some(owner) = rows.into_iter().flatten().flatten().next() else { return Ok(()) };
    conn.simple(&format!("SET ROLE {}", catalog::quote_ident(&owner))).await?;
    let done = conn.simple(&end).await;
    conn.simple("RESET ROLE").await?;
    done.map(drop)
}

/// Whether there is a connection to every node that home knows of.
async fn reaches_all(home: NodeId, nodes: &mut HashMap<NodeId, Conn>) -> bool {
    let Some(conn) = nodes.get_mut(&home) else { return false };
    let Ok(rows) = conn.simple("SELECT id FROM herd.node").await else { return false };
    let reached = |row: &catalog::Row| {
        row[0].as_deref().and_then(|id| id.parse().ok()).is_some_and(|id: NodeId| nodes.contains_key(&id))
    };
    rows.iter().all(reached)
}

/// Whether the transaction is committed; nothing while its decider may still commit.
///
/// A crash or a failover may have taken back that a number was ever given out: nothing of that transaction was on disk. Then it
/// has not committed, and the number goes to the next who asks, who may be waiting for the very rows that stand prepared.
/// So a transaction of that number that has not ended counts only if it holds the gate, as each that has been
/// announced does to its end. Without the gate it had ended before the look at locks: a snapshot taken behind that
/// shows it as ended, or as another's.
async fn outcome(decider: &mut Conn, gid: &Gid) -> Result<Option<bool>, PoolError> {
    if let Some(decided) = ended(decider, gid).await? {
        return Ok(Some(decided));
    }
    if holds_gate(decider, gid.xid).await? {
        return Ok(None);
    }
    Ok(Some(ended(decider, gid).await?.unwrap_or(false)))
}

/// Whether the transaction is committed; nothing if one of its number has not ended, or not even begun.
async fn ended(decider: &mut Conn, gid: &Gid) -> Result<Option<bool>, PoolError> {
    let row = format!("SELECT FROM herd.decision WHERE gid = '{}'", gid.decision());
    // One snapshot answers both: what is over in it has its row in it, or never will.
    let sql = format!(
        "SELECT CASE WHEN pg_catalog.pg_visible_in_snapshot('{}', pg_catalog.pg_current_snapshot()) THEN EXISTS ({row}) END",
        gid.xid
    );
    Ok(decider.simple(&sql).await?.first().and_then(|r| r[0].as_deref()).map(|decided| decided == "t"))
}

/// Whether the transaction of that number, running now, holds its node's gate (`gate.rs`).
async fn holds_gate(decider: &mut Conn, xid: u64) -> Result<bool, PoolError> {
    let sql = format!(
        "SELECT FROM pg_catalog.pg_locks t JOIN pg_catalog.pg_locks g ON g.pid OPERATOR(pg_catalog.=) t.pid \
         WHERE t.locktype OPERATOR(pg_catalog.=) 'transactionid' AND t.granted \
           AND t.transactionid OPERATOR(pg_catalog.=) '{xid}'::pg_catalog.xid8::pg_catalog.xid \
           AND g.locktype OPERATOR(pg_catalog.=) 'relation' AND g.granted AND g.relation OPERATOR(pg_catalog.=) 'herd.gate'::pg_catalog.regclass \
           AND g.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())"
    );
    Ok(!decider.simple(&sql).await?.is_empty())
}

/// Commits something, and so waits until a synchronous standby, where there is one, has all that was done before: COMMIT PREPARED need not have
/// waited for it. A standby that were promoted without it would have the transaction prepared, and need the decision.
const ON_STANDBY: &str = "SELECT pg_catalog.set_config('synchronous_commit', 'on', true), pg_catalog.pg_logical_emit_message(true, 'herd', '')";

/// Who waits for a standby longer than it takes to hear from one.
const STANDBY_AWAY: &str = "SELECT pid::pg_catalog.text FROM pg_catalog.pg_stat_activity WHERE wait_event OPERATOR(pg_catalog.=) 'SyncRep' \
     AND query_start OPERATOR(pg_catalog.<) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) '2s'::pg_catalog.interval) LIMIT 1";

/// Deletes decisions whose participants have all followed them.
async fn forget(
    herd: &str,
    nodes: &mut HashMap<NodeId, Conn>,
    decisions: Vec<(NodeId, String)>,
    needed: &HashSet<String>,
    done: &mut Recovered,
) {
    let ours = format!("herd_{herd}_");
    let mut old: HashMap<NodeId, Vec<String>> = HashMap::new();
    for (node, gid) in decisions {
        if gid.starts_with(&ours) && !needed.contains(&gid) {
            old.entry(node).or_default().push(catalog::quote_literal(&gid));
        }
    }
    if old.is_empty() {
        return;
    }
    // Where somebody waits for a standby that is away, one more would wait for as long.
    if !ask_each(nodes, STANDBY_AWAY, done).await.is_empty() {
        return;
    }
    ask_each(nodes, ON_STANDBY, done).await;
    if done.failed > 0 {
        return;
    }
    for (node, gids) in old {
        let Some(conn) = nodes.get_mut(&node) else { continue };
        match conn.simple(&format!("DELETE FROM herd.decision WHERE gid IN ({})", gids.join(", "))).await {
            Ok(_) => done.forgotten += gids.len() as u64,
            Err(e) => lose(nodes, node, &e, done),
        }
    }
}

/// The first column of a query on every node, all asked at once: one that does not answer is lost, and keeps nobody waiting.
async fn ask_each(nodes: &mut HashMap<NodeId, Conn>, sql: &str, done: &mut Recovered) -> Vec<(NodeId, String)> {
    let asked = nodes.iter_mut().map(|(node, conn)| async {
        let late = PoolError::Timeout { node: conn.target().to_string(), doing: "telling what stands prepared" };
        (*node, tokio::time::timeout(ANSWER_MAX, conn.simple(sql)).await.unwrap_or(Err(late)))
    });
    let mut found = Vec::new();
    for (node, answer) in join_all(asked).await {
        match answer {
            Ok(rows) => {
                let names = rows.into_iter().filter_map(|r| r.into_iter().next().flatten());
                found.extend(names.map(|name| (node, name)));
            }
            Err(e) => lose(nodes, node, &e, done),
        }
    }
    found
}

fn lose(nodes: &mut HashMap<NodeId, Conn>, node: NodeId, e: &PoolError, done: &mut Recovered) {
    tracing::debug!(node, error = %e, "recovery will be tried again");
    nodes.remove(&node);
    done.failed += 1;
}
