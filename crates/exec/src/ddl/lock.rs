//! A change of tables of the herd takes their locks on all nodes before it does anything, home's first, in short tries.
//!
//! What it could have taken in the end by waiting is tried for a moment; if it is not to be had, all that was taken is given
//! back and those who waited behind it go on, until the next try. So nobody waits for longer than a try, and who waits for
//! the change while it waits for him is not in a deadlock for longer, either. Statements that have not touched the
//! tables yet wait meanwhile (`router/pause.rs`), so that a try comes through under load. It does not know what is changed.

use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::sqlstate;

use catalog::{NodeId, Oid, quote_literal};
use plan::ddl::place::{is_herd, of_relation};
use plan::ddl::{LockMode, Right, TableLocks};

use super::Limits;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::pause::{PAUSE_MAX, SETTLE, Who};
use crate::work::Work;

/// How long a try waits for a lock on a node: less than PostgreSQL's deadlock_timeout.
const TRIES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(250), Duration::from_millis(400), Duration::from_millis(450)];
/// A transaction that has locks already may be waited for by whom it waits for: after so long it waits as PostgreSQL does for a while, so that who
/// looks for deadlocks finds it, a node after its deadlock_timeout (a second by default) or the routers (herd `router/deadlock.rs`).
const PATIENT: Duration = Duration::from_millis(1000);
const CIRCLE_WAIT: Duration = Duration::from_millis(1700);
/// As [`CIRCLE_WAIT`], where one circle is behind another.
const CIRCLES_WAIT: Duration = Duration::from_millis(3000);
/// Stands in the statement by which a patient try takes locks: the routers, which see it at the node, break circles over it first, and nobody
/// else's statement fails (herd `router/deadlock.rs`).
pub const GIVES_WAY: &str = "SAVEPOINT herd_patient_locks";
/// From a change's locks to its end, as long as those who wait for it are not let to the nodes.
const CHANGE_MAX: Duration = Duration::from_millis(500);

/// How often a change of a kind lets them go first. Some are on nobody's pause: clients that are connected to nodes, code.
const WAITERS_MAX: usize = 10;

/// Locks that a statement is going to need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locks {
    wanted: TableLocks,
    kind: Option<KindLocks>,
    /// Tries wait until deadlocks of those who have the tables are broken.
    patient: bool,
}

/// What a change of a table's kind needs besides the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KindLocks {
    schema: String,
    /// The table is on home alone.
    local: bool,
    /// Tables that its foreign keys refer to, quoted and qualified, and whether every node has them. They get and lose triggers; nobody
    /// may rename them, or write to them and wait for the table, until then.
    referenced: Vec<(String, bool)>,
    /// Views over the table, quoted and qualified: who reads one has its lock before he has the table's.
    views: Vec<(Oid, String)>,
}

impl From<TableLocks> for Locks {
    fn from(wanted: TableLocks) -> Self {
        Locks { wanted, kind: None, patient: false }
    }
}

impl Locks {
    /// For a change of a table's kind: all of it, wherever it is. `referenced`: by its foreign keys.
    pub fn of_kind(r: &catalog::Relation, referenced: &[Arc<catalog::Relation>]) -> Self {
        let kind = KindLocks {
            schema: r.schema.clone(),
            local: !is_herd(r),
            referenced: referenced.iter().map(|r| (of_relation(r), is_herd(r))).collect(),
            views: vec![],
        };
        let wanted =
            TableLocks { tables: vec![(r.oid, of_relation(r))], mode: LockMode::AccessExclusive, right: Right::Known };
        Locks { wanted, kind: Some(kind), patient: false }
    }

    /// For a change of where the rows of colocated tables are. `referenced`: by foreign keys of theirs, and none of them.
    pub fn of_group(tables: &[Arc<catalog::Relation>], referenced: &[Arc<catalog::Relation>]) -> Self {
        let kind = KindLocks {
            schema: tables.first().map(|r| r.schema.clone()).unwrap_or_default(),
            local: false,
            referenced: referenced.iter().map(|r| (of_relation(r), is_herd(r))).collect(),
            views: vec![],
        };
        let tables = tables.iter().map(|r| (r.oid, of_relation(r))).collect();
        let wanted = TableLocks { tables, mode: LockMode::AccessExclusive, right: Right::Known };
        Locks { wanted, kind: Some(kind), patient: false }
    }

    /// Those, but for who reads the tables: nothing is going to be changed.
    pub fn of_writers(mut self) -> Self {
        self.wanted.mode = LockMode::ShareRowExclusive;
        self
    }

    /// Those, where short tries have failed: who holds the tables may wait in circles, again and again, that are broken after a second only. Others
    /// wait for that long.
    pub fn patiently(mut self, patient: bool) -> Self {
        self.patient = patient;
        self
    }

    /// Those, and another table of the herd's.
    pub fn and(mut self, r: Option<&catalog::Relation>) -> Self {
        self.wanted.tables.extend(r.map(|r| (r.oid, of_relation(r))));
        self
    }

    /// Those, and what is over the table.
    pub fn with_views(mut self, views: &[catalog::ViewOver]) -> Self {
        if let Some(kind) = &mut self.kind {
            kind.views.extend(views.iter().map(|v| (v.oid, v.qualified())));
        }
        self
    }

    fn oids(&self) -> Vec<Oid> {
        let views = self.kind.iter().flat_map(|k| &k.views);
        self.wanted.tables.iter().chain(views).map(|t| t.0).collect()
    }

    fn who(&self) -> Who {
        match self.wanted.mode {
            LockMode::AccessExclusive => Who::All,
            LockMode::Share | LockMode::ShareRowExclusive => Who::Writers,
        }
    }

    /// Tells how many of the tables the role may not do this to; None: nobody need ask.
    fn refused(&self) -> Option<String> {
        let owner = "pg_catalog.pg_has_role(c.relowner, 'USAGE')";
        let may = match self.wanted.right {
            Right::Owner => owner.to_string(),
            Right::Drop => format!("{owner} OR pg_catalog.pg_has_role(n.nspowner, 'USAGE')"),
            Right::Has(privilege) => format!("pg_catalog.has_table_privilege(c.oid, '{privilege}')"),
            Right::Known => return None,
        };
        let oids: Vec<String> = self.wanted.tables.iter().map(|t| t.0.to_string()).collect();
        Some(format!(
            "SELECT pg_catalog.count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
             WHERE c.oid OPERATOR(pg_catalog.=) ANY ('{{{}}}'::pg_catalog.oid[]) AND NOT ({may})",
            oids.join(",")
        ))
    }

    fn savepoint(&self) -> &'static str {
        if self.patient { GIVES_WAY } else { "SAVEPOINT herd_locks" }
    }

    /// What a node is asked for; None: nothing.
    fn sql(&self, home: bool, wait: Duration) -> Option<String> {
        let lock = |tables: Vec<&str>, mode: &str| {
            let list = quote_literal(&tables.join(", "));
            (!tables.is_empty()).then(|| format!("SELECT herd.lock_tables({list}, '{mode}', {})", wait.as_millis()))
        };
        let here = home || self.kind.as_ref().is_none_or(|k| !k.local);
        let own = self.wanted.tables.iter().filter(|_| here).map(|t| t.1.as_str()).collect();
        let referenced = self.kind.iter().flat_map(|k| &k.referenced).filter(|r| home || r.1);
        let referenced = lock(referenced.map(|r| r.0.as_str()).collect(), "SHARE ROW EXCLUSIVE");
        let views: Vec<String> =
            self.kind.iter().flat_map(|k| &k.views).filter(|_| here).map(|v| quote_literal(&v.1)).collect();
        let views = (!views.is_empty())
            .then(|| format!("SELECT herd.lock_views(ARRAY[{}], {})", views.join(", "), wait.as_millis()));
        let tables = lock(own, self.wanted.mode.as_str()).into_iter().chain(referenced);
        let all: Vec<String> = views.into_iter().chain(tables).collect();
        (!all.is_empty()).then(|| format!("{}; {}", self.savepoint(), all.join("; ")))
    }
}

fn are_read() -> ExecError {
    ExecError::sql(sqlstate::LOCK_NOT_AVAILABLE, "other transactions read the table")
}

impl<C: Client> Work<'_, C> {
    /// Takes them, in the transaction there is.
    pub(crate) async fn take_locks(&mut self, locks: &Locks) -> Result<()> {
        // As PostgreSQL, which looks at rights before it locks: who may not keeps nobody waiting. Home says so in its own words.
        if let Some(question) = locks.refused() {
            let refused = self.ask_home(&question).await?;
            if refused.first().and_then(|r| r.first()?.as_deref()) != Some("0") {
                return Ok(());
            }
        }
        let home = self.home();
        let others = self.epoch.snapshot.nodes.iter().map(|n| n.id).filter(|n| *n != home);
        let nodes: Vec<NodeId> = std::iter::once(home).chain(others).collect();
        let has_locks = self.transaction.held || self.reading.is_some();
        self.hold_connections(nodes.iter().copied()).await?;
        self.stand_on_nodes().await?;
        let begun = Instant::now();
        let mut limits: Option<Limits> = None;
        for attempt in 0.. {
            let long = has_locks && locks.kind.is_none() && begun.elapsed() >= PATIENT;
            let wait = match &limits {
                Some(limits) if long => limits.at_most(CIRCLE_WAIT),
                _ if locks.patient => CIRCLES_WAIT,
                _ => TRIES[attempt.min(TRIES.len() - 1)],
            };
            let Err(e) = self.one_try(&nodes, locks, wait, attempt).await else {
                if locks.wanted.mode == LockMode::AccessExclusive {
                    self.transaction.has_alone(plan::ddl::with_partitions(locks.oids(), &self.epoch.snapshot));
                }
                return Ok(());
            };
            let of_statement = locks.kind.is_none();
            match e.code().as_str() {
                sqlstate::LOCK_NOT_AVAILABLE => {}
                sqlstate::T_R_DEADLOCK_DETECTED if !has_locks => {}
                // The statement itself will fail, and says so in its own words; or it needs less than we thought.
                sqlstate::INSUFFICIENT_PRIVILEGE | sqlstate::UNDEFINED_TABLE if of_statement => return Ok(()),
                _ => return Err(e),
            }
            limits = match limits {
                None => Some(self.limits(begun).await?),
                some => some,
            };
            let pause = wait.min(TRIES[TRIES.len() - 1]).mul_f64(0.5 + rand::random::<f64>());
            self.rest(limits.as_ref(), pause).await?;
        }
        Ok(())
    }

    /// What the transaction has read before it began on any node, the first of them has locks for: from here on others meet these, and the router counts it
    /// no more, so that two who wait for each other can be seen to.
    pub(super) async fn stand_on_nodes(&mut self) -> Result<()> {
        let counted = self.reading.filter(|r| r.is_counted() && self.transaction.is_active());
        // Going back to a savepoint could take the locks away.
        if let Some(reading) = counted.filter(|_| !self.transaction.has_savepoints()) {
            // What it had may be gone with a savepoint that it has gone back to.
            let tables = reading.tables(&self.epoch.snapshot);
            let mut home = self.lane(self.home()).await?;
            home.lane.put_looked(&tables);
            let looked = home.lane.run("SELECT 1").await;
            self.put_back(home).await;
            looked?;
            reading.stands_on_node();
        }
        Ok(())
    }

    /// A change has all its connections before it makes anybody wait: who has the last one of a node may be about to wait for what it
    /// locks, and would be waited for.
    pub(super) async fn hold_connections(&mut self, nodes: impl Iterator<Item = NodeId>) -> Result<()> {
        if !self.transaction.is_active() {
            return Ok(());
        }
        for node in nodes {
            let p = self.lane(node).await?;
            self.put_back(p).await;
        }
        Ok(())
    }

    /// All of it or nothing.
    async fn one_try(&mut self, nodes: &[NodeId], locks: &Locks, wait: Duration, attempt: usize) -> Result<()> {
        if let Some(kind) = &locks.kind {
            // First, and while nobody waits for the table: another such change may hold it for long.
            let lock = format!("SAVEPOINT herd_kinds; {}", catalog::lock_kinds_sql(&kind.schema, wait));
            if let Err(e) = self.ask_home(&lock).await {
                self.ask_home("ROLLBACK TO SAVEPOINT herd_kinds; RELEASE SAVEPOINT herd_kinds").await?;
                return Err(e);
            }
        }
        let length = if locks.kind.is_some() { PAUSE_MAX } else { 2 * wait + CHANGE_MAX };
        let paused = match locks.wanted.mode {
            LockMode::AccessExclusive => plan::ddl::read_by(locks.oids(), &self.epoch.snapshot),
            LockMode::Share | LockMode::ShareRowExclusive => locks.oids(),
        };
        let pause = self.herd.pauses.begin(&paused, locks.who(), length);
        if attempt > 0 || locks.kind.is_some() {
            self.herd.announce_pause(pause).await;
        }
        let done = self.try_locks(nodes, locks, wait, attempt).await;
        match &done {
            Ok(()) => self.transaction.pauses.push(pause),
            Err(_) => self.herd.end_pauses(&[pause]).await,
        }
        if locks.kind.is_some() {
            let undo = done.as_ref().err().map_or("", |_| "ROLLBACK TO SAVEPOINT herd_kinds; ");
            self.ask_home(&format!("{undo}RELEASE SAVEPOINT herd_kinds")).await?;
        }
        done
    }

    /// Home's locks, then the others', side by side; all or none.
    async fn try_locks(&mut self, nodes: &[NodeId], locks: &Locks, wait: Duration, attempt: usize) -> Result<()> {
        let (home, oids) = (self.home(), locks.oids());
        let mut asked: Vec<NodeId> = Vec::new();
        let mut failure = None;
        let alone = locks.wanted.mode == LockMode::AccessExclusive;
        // Others are asked behind the locks; before, where somebody read it then.
        if alone && !self.without_readers(&oids, wait, attempt > 0).await? {
            return Err(are_read());
        }
        for part in [&nodes[..1], &nodes[1..]] {
            let mut lanes = Vec::new();
            for node in part {
                let Some(sql) = locks.sql(*node == home, wait) else { continue };
                let mut p = self.lane(*node).await?;
                p.lane.put_query(&sql);
                asked.push(*node);
                if let Err(e) = p.lane.conn.flush().await {
                    failure.get_or_insert(ExecError::from(e));
                }
                lanes.push(p);
            }
            for mut p in lanes {
                if let Err(e) = p.lane.finish().await {
                    failure.get_or_insert(e.into());
                }
                self.put_back(p).await;
            }
            if failure.is_some() {
                break;
            }
        }
        if failure.is_none() && alone {
            failure = match self.without_readers(&oids, Duration::ZERO, true).await {
                Ok(true) => None,
                Ok(false) => Some(are_read()),
                Err(e) => Some(e),
            };
        }
        if failure.is_none() && locks.kind.is_some() && attempt < WAITERS_MAX {
            tokio::time::sleep(SETTLE).await;
            for node in &asked {
                failure = self.waited_for(*node).await.err();
                if failure.is_some() {
                    break;
                }
            }
        }
        let savepoint = locks.savepoint();
        for node in asked {
            let mut p = self.lane(node).await?;
            match &failure {
                Some(_) => {
                    let _ = p.lane.run(&format!("ROLLBACK TO {savepoint}; RELEASE {savepoint}")).await;
                }
                None => p.lane.put_before(&format!("RELEASE {savepoint}")),
            }
            self.put_back(p).await;
        }
        failure.map_or(Ok(()), Err)
    }

    /// Whoever waits for the table at a node, since he came before the routers had him wait, would find another one there, perhaps
    /// in the middle of a transaction: an error, so that he goes first.
    async fn waited_for(&mut self, node: NodeId) -> Result<()> {
        const WAITERS: &str = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks l \
             WHERE NOT l.granted AND l.locktype OPERATOR(pg_catalog.=) 'relation' \
               AND l.relation OPERATOR(pg_catalog.<>) COALESCE(pg_catalog.to_regclass('herd.kinds')::pg_catalog.oid, 0) \
               AND pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) ANY (pg_catalog.pg_blocking_pids(l.pid))";
        match self.ask_node(node, WAITERS).await?.first().and_then(|r| r.first()?.as_deref()) {
            Some("0") => Ok(()),
            _ => Err(ExecError::sql(sqlstate::LOCK_NOT_AVAILABLE, "others wait for the table")),
        }
    }

    /// Waits until no other transaction reads the tables that has begun on no node: none of them holds a lock that one could wait for.
    /// Whether there is none. `elsewhere`: other routers' as well.
    pub(super) async fn without_readers(&self, tables: &[Oid], wait: Duration, elsewhere: bool) -> Result<bool> {
        // Who reads what the transaction has for itself waits for it.
        let tables = tables.iter().copied().filter(|t| !self.transaction.is_alone_with(*t));
        let tables = plan::ddl::read_by(tables, &self.epoch.snapshot);
        if tables.is_empty() {
            return Ok(true);
        }
        let tables = &tables[..];
        let here = async { Ok(tokio::time::timeout(wait, self.herd.readers.gone(tables, self.reading)).await.is_ok()) };
        let there = async {
            match elsewhere {
                true => self.herd.are_read_elsewhere(tables, wait).await.map(|read| !read),
                false => Ok(true),
            }
        };
        let (here, there) = tokio::try_join!(here, there)?;
        Ok(here && there)
    }

    /// Between two tries. An error if the client does not want to wait any longer.
    pub async fn rest(&mut self, limits: Option<&Limits>, pause: Duration) -> Result<()> {
        limits.map_or(Ok(()), Limits::check)?;
        tokio::select! {
            biased;
            () = self.client.cancelled() => Err(ExecError::cancelled()),
            () = tokio::time::sleep(pause) => limits.map_or(Ok(()), Limits::check),
        }
    }
}
