//! A change of tables of the herd takes their locks on all nodes before it does anything, home's first, in short tries.
//!
//! What it could have taken in the end by waiting is tried for a moment; if it is not to be had, all that was taken is given
//! back and those who waited behind it go on, until the next try. So nobody waits for longer than a try, and who waits for
//! the change while it waits for him is not in a deadlock for longer, either. Statements that have not touched the
//! tables yet wait meanwhile (`router/pause.rs`), so that a try comes through under load. It does not know what is changed.

use std::time::{Duration, Instant};
use wire::sqlstate;

use catalog::{NodeId, Oid, quote_literal};
use sql::NodeEnum;
use sql::ast::{self, AlterTableType as T, ObjectType as O};
use sql::names;

use plan::ddl::place::{is_herd, name_of, object_type, of_relation, range_vars, strings_of, text};
use plan::ddl::{Facts, subtype};

use super::Limits;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// How long a try waits for a lock on a node: less than PostgreSQL's deadlock_timeout.
const TRIES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(250), Duration::from_millis(400), Duration::from_millis(450)];
/// From a change's locks to its end, as long as those who wait for it are not let to the nodes.
const CHANGE_MAX: Duration = Duration::from_millis(500);

/// Locks that a statement is going to need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locks {
    tables: Vec<(Oid, String)>,
    mode: &'static str,
}

/// Those of the herd's tables that the statement changes; none where what it needs stops nobody.
pub fn wanted(statement: &NodeEnum, snapshot: &catalog::Snapshot, facts: &Facts) -> Option<Locks> {
    const ALL: &str = "ACCESS EXCLUSIVE";
    let find = |(schema, name): (Option<&str>, &str)| {
        let hidden = schema.is_none() && facts.temporary.iter().any(|t| t == name);
        snapshot.resolve(schema, name, &facts.search_path).filter(|r| !hidden && is_herd(r))
    };
    let of = |rv: Option<&ast::RangeVar>| rv.map(names::table).and_then(find).into_iter().collect::<Vec<_>>();
    let (tables, mode) = match statement {
        NodeEnum::RenameStmt(s) if object_type(s.rename_type) != O::ObjectIndex => (of(s.relation.as_ref()), ALL),
        NodeEnum::AlterObjectSchemaStmt(s) => (of(s.relation.as_ref()), ALL),
        NodeEnum::AlterTableStmt(s) if s.cmds.iter().any(stops_others) => (of(s.relation.as_ref()), ALL),
        NodeEnum::TruncateStmt(s) => (range_vars(&s.relations).map(names::table).filter_map(find).collect(), ALL),
        NodeEnum::IndexStmt(s) if !s.concurrent => (of(s.relation.as_ref()), "SHARE"),
        NodeEnum::CreateTrigStmt(s) => (of(s.relation.as_ref()), ALL),
        NodeEnum::RuleStmt(s) => (of(s.relation.as_ref()), ALL),
        NodeEnum::DropStmt(s) if !s.concurrent => {
            let objects: Vec<_> = s.objects.iter().map(strings_of).collect();
            let named = objects.iter().filter_map(|o| name_of(o));
            let tables = match object_type(s.remove_type) {
                O::ObjectTable => named.filter_map(find).collect(),
                O::ObjectIndex => named
                    .filter_map(|name| facts.indexes.get(&text(name)))
                    .filter_map(|table| snapshot.relations.get(table).filter(|r| is_herd(r)))
                    .collect(),
                _ => vec![],
            };
            (tables, ALL)
        }
        _ => return None,
    };
    let mut tables: Vec<(Oid, String)> = tables.into_iter().map(|r| (r.oid, of_relation(r))).collect();
    tables.sort();
    tables.dedup();
    (!tables.is_empty()).then_some(Locks { tables, mode })
}

/// What PostgreSQL does under SHARE UPDATE EXCLUSIVE (`AlterTableGetLockLevel` in tablecmds.c) goes on beside writers.
fn stops_others(cmd: &ast::Node) -> bool {
    let Some(NodeEnum::AlterTableCmd(c)) = &cmd.node else { return true };
    !matches!(
        subtype(c),
        T::AtSetStatistics
            | T::AtClusterOn
            | T::AtDropCluster
            | T::AtSetOptions
            | T::AtResetOptions
            | T::AtSetRelOptions
            | T::AtResetRelOptions
            | T::AtReplaceRelOptions
            | T::AtValidateConstraint
            | T::AtDetachPartition
            | T::AtDetachPartitionFinalize
    )
}

impl Locks {
    /// All of one table.
    pub fn exclusive(r: &catalog::Relation) -> Self {
        Locks { tables: vec![(r.oid, of_relation(r))], mode: "ACCESS EXCLUSIVE" }
    }

    fn oids(&self) -> Vec<Oid> {
        self.tables.iter().map(|t| t.0).collect()
    }

    fn readers(&self) -> bool {
        self.mode == "ACCESS EXCLUSIVE"
    }

    fn sql(&self, wait: Duration) -> String {
        let tables = self.tables.iter().map(|t| t.1.as_str()).collect::<Vec<_>>().join(", ");
        format!(
            "SAVEPOINT herd_locks; SELECT herd.lock_tables({}, '{}', {})",
            quote_literal(&tables),
            self.mode,
            wait.as_millis()
        )
    }
}

impl<C: Client> Work<'_, C> {
    /// Takes them, in the transaction there is.
    pub(crate) async fn take_locks(&mut self, locks: &Locks) -> Result<()> {
        let home = self.home();
        let others = self.epoch.snapshot.nodes.iter().map(|n| n.id).filter(|n| *n != home);
        let nodes: Vec<NodeId> = std::iter::once(home).chain(others).collect();
        let begun = Instant::now();
        let mut limits = None;
        for attempt in 0.. {
            let wait = TRIES[attempt.min(TRIES.len() - 1)];
            let pause = self.herd.pauses.begin(&locks.oids(), locks.readers(), wait + CHANGE_MAX);
            if attempt > 0 {
                self.herd.announce_pause(pause).await;
            }
            let e = match self.try_locks(&nodes, &locks.sql(wait)).await {
                Ok(()) => {
                    self.transaction.pauses.push(pause);
                    return Ok(());
                }
                Err(e) => e,
            };
            self.herd.end_pauses(&[pause]).await;
            if !matches!(e.code().as_str(), sqlstate::LOCK_NOT_AVAILABLE | sqlstate::T_R_DEADLOCK_DETECTED) {
                // The statement itself will fail, and says so in its own words; or it needs less than we thought.
                return if matches!(e.code().as_str(), sqlstate::INSUFFICIENT_PRIVILEGE | sqlstate::UNDEFINED_TABLE) {
                    Ok(())
                } else {
                    Err(e)
                };
            }
            limits = match limits {
                None => Some(self.limits(begun).await?),
                some => some,
            };
            self.rest(limits.as_ref(), wait.mul_f64(0.5 + rand::random::<f64>())).await?;
        }
        Ok(())
    }

    /// Home's locks, then the others', side by side; all or none.
    async fn try_locks(&mut self, nodes: &[NodeId], sql: &str) -> Result<()> {
        let mut asked: Vec<NodeId> = Vec::new();
        let mut failure = None;
        for part in [&nodes[..1], &nodes[1..]] {
            let mut lanes = Vec::new();
            for node in part {
                let mut p = self.lane(*node).await?;
                p.lane.put_query(sql);
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
        let undo = failure.as_ref().map_or("", |_| "ROLLBACK TO SAVEPOINT herd_locks; ");
        for node in asked {
            let mut p = self.lane(node).await?;
            match &failure {
                Some(_) => {
                    let _ = p.lane.run(&format!("{undo}RELEASE SAVEPOINT herd_locks")).await;
                }
                None => p.lane.put_before("RELEASE SAVEPOINT herd_locks"),
            }
            self.put_back(p).await;
        }
        failure.map_or(Ok(()), Err)
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
