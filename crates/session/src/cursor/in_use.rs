//! Tables that open cursors and portals of several nodes still read: PostgreSQL refuses to truncate, change or drop them (55006). What
//! home's own cursors read it knows by itself; of the others a node knows its part at most, and only while rows are left there.

use catalog::TemporaryRelation;
use exec::{Compiled, ExecError};
use plan::ddl::{self, NotInUse};
use sql::{NodeEnum, relations};
use wire::sqlstate;

use crate::session::{Result, Session};

/// What a query reads.
#[derive(Default)]
pub struct Reads {
    /// By home's object ids.
    pub(super) tables: Vec<u32>,
    /// The session's own.
    temporary: Vec<String>,
}

impl Reads {
    /// `own`: names of the session's temporary tables.
    pub fn of(compiled: &Compiled, own: &[TemporaryRelation]) -> Self {
        let whole = compiled.plan.whole();
        let tables = compiled.relations().map(|r| r.oid).chain(whole.others.iter().copied()).collect();
        let mut temporary = vec![];
        if !own.is_empty() {
            let trees = sql::parse(&compiled.text, true).unwrap_or_default();
            for rv in trees.iter().flat_map(relations::of) {
                let is_own = |t: &TemporaryRelation| match rv.schemaname.as_str() {
                    "" => *t == *rv.relname,
                    schema => schema == "pg_temp" && t.name == rv.relname,
                };
                if own.iter().any(is_own) {
                    temporary.push(rv.relname.clone());
                }
            }
        }
        Reads { tables, temporary }
    }
}

impl Session {
    /// What is open and is not home's alone. `by_protocol`: the statement has a portal of its own, so that without a name is open still.
    fn still_read(&self, by_protocol: bool) -> Reads {
        let mut all = Reads::default();
        let portals = self.portals.suspended(by_protocol).map(|compiled| Reads::of(compiled, &self.temporary));
        let portals: Vec<_> = portals.collect();
        let cursors = self.cursors.values().filter(|c| !c.outlives).map(|c| &c.reads);
        for reads in cursors.chain(&portals) {
            all.tables.extend(&reads.tables);
            all.temporary.extend(reads.temporary.iter().cloned());
        }
        all
    }

    /// # Errors
    /// 55006 where a table that it is to change is still read. `done`: the statement has been run, and would be well.
    pub async fn refuse_in_use(&mut self, statement: &NodeEnum, by_protocol: bool, done: bool) -> Result<()> {
        if !done && !self.leftover.lock().is_empty() {
            let leftover = self.leftover.clone();
            self.work().close_leftover(&leftover).await?;
        }
        if self.cursors.is_empty() && self.portals.are_none() {
            return Ok(());
        }
        let drops = done && matches!(statement, NodeEnum::DropStmt(_) | NodeEnum::DropOwnedStmt(_));
        let looks = NotInUse::of(statement).filter(|looks| looks.first != done);
        if !drops && looks.is_none() {
            return Ok(());
        }
        let reads = self.still_read(by_protocol);
        if reads.tables.is_empty() && reads.temporary.is_empty() {
            return Ok(());
        }
        let (what, question) = match looks {
            Some(looks) => (looks.what, looks.question(&ddl::used(&reads.tables, &reads.temporary))),
            None => ("DROP TABLE", self.gone(&reads)),
        };
        let rows = self.work().ask_home(&question).await?;
        match rows.into_iter().flatten().flatten().next() {
            Some(table) => Err(ExecError::sql(
                sqlstate::OBJECT_IN_USE,
                format!("cannot {what} \"{table}\" because it is being used by active queries in this session"),
            )),
            None => Ok(()),
        }
    }

    /// Asks which of them is not there any more, by the names they had.
    fn gone(&self, reads: &Reads) -> String {
        let snapshot = &self.epoch.snapshot;
        let named = snapshot.relations.values().filter(|r| reads.tables.contains(&r.oid));
        let tables = named.map(|r| (catalog::quote_literal(&r.name), format!("{}::pg_catalog.oid", r.oid)));
        let temporary = reads.temporary.iter().map(|name| {
            let there = catalog::quote_literal(&format!("pg_temp.{}", catalog::quote_ident(name)));
            (catalog::quote_literal(name), format!("pg_catalog.to_regclass({there})::pg_catalog.oid"))
        });
        let rows: String = tables.chain(temporary).map(|(name, oid)| format!(", ({name}, {oid})")).collect();
        format!(
            "SELECT t.name FROM (VALUES (NULL, NULL::pg_catalog.oid){rows}) AS t (name, oid) WHERE t.name IS NOT NULL \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) t.oid) LIMIT 1"
        )
    }
}
