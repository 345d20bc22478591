//! SET CONSTRAINTS: when deferrable constraints are checked, for the rest of the transaction, on all its nodes.
//!
//! Home has every constraint and is asked first: what is wrong with a name it says. The others are told which constraints of
//! the herd's tables that means, by their schemas, whatever they would find themselves; nodes that join later hear of it as of
//! a SET LOCAL, and going back to a savepoint undoes it as that. It does not know when a transaction commits.

use exec::{Bound, Forwarded};
use sql::NodeEnum;
use sql::ast;

use crate::session::{Result, Session};

impl Session {
    /// Outside of a transaction home's warning is all that comes of it. A check that fails now is told in the client's names.
    pub async fn set_constraints(
        &mut self,
        s: &ast::ConstraintsSetStmt,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let done = self.set_constraints_everywhere(s, sql, bound).await;
        match done {
            Ok(forwarded) => Ok(forwarded),
            // A check that has waited may fail now.
            Err(e) => Err(Box::pin(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e)).await),
        }
    }

    async fn set_constraints_everywhere(
        &mut self,
        s: &ast::ConstraintsSetStmt,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let forwarded = self.on_home_bound(sql, bound).await?;
        // By itself it is a warning and nothing else.
        if !self.transaction.is_active() || self.epoch.snapshot.nodes.len() == 1 {
            return Ok(forwarded);
        }
        let names = match s.constraints.is_empty() {
            true => vec!["ALL".to_string()],
            false => self.constraints_of_herd(&s.constraints).await?,
        };
        if !names.is_empty() {
            let when = if s.deferred { "DEFERRED" } else { "IMMEDIATE" };
            let elsewhere = format!("SET CONSTRAINTS {} {when}", names.join(", "));
            self.room_for_settings(elsewhere.len())?;
            let home = self.epoch.snapshot.home;
            self.transaction.everywhere_but(Some(home), &elsewhere).await?;
            self.transaction.note_setting(&elsewhere);
        }
        Ok(forwarded)
    }

    /// Those of the constraints that are of tables which every node has, with their schemas.
    async fn constraints_of_herd(&mut self, names: &[ast::Node]) -> Result<Vec<String>> {
        let names = names.iter().filter_map(|n| match &n.node {
            Some(NodeEnum::RangeVar(rv)) => Some((&*rv.schemaname, &*rv.relname)),
            _ => None,
        });
        // What the transaction has made itself only it can see. Otherwise it is not asked: its first query decides what it sees.
        let own = self.own_catalog.is_own() || !self.temporary.is_empty();
        let path = match own {
            true => "pg_catalog.current_schemas(true)".to_string(),
            false => {
                let path = self.search_path.iter().map(|s| catalog::quote_literal(s)).collect::<Vec<_>>();
                format!("ARRAY[{}]::pg_catalog.name[]", path.join(", "))
            }
        };
        let question =
            names.map(|(schema, name)| question(schema, name, &path)).collect::<Vec<_>>().join(" UNION ALL ");
        let rows = match own {
            true => self.work().ask_home(&question).await?,
            false => {
                let herd = &self.router.herd;
                herd.own.rows(&herd.config.home, &question).await?
            }
        };
        Ok(rows.into_iter().flatten().flatten().collect())
    }
}

/// As PostgreSQL does it (AfterTriggerSetState in trigger.c): all of that name in the first schema which has any.
fn question(schema: &str, name: &str, path: &str) -> String {
    let path = match schema {
        "" => path.to_string(),
        schema => format!("ARRAY[{}]::pg_catalog.name[]", catalog::quote_literal(schema)),
    };
    let name = catalog::quote_literal(name);
    format!(
        "SELECT DISTINCT pg_catalog.format('%I.%I', n.nspname, c.conname) \
         FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.connamespace \
         JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) c.conrelid \
         JOIN pg_catalog.pg_namespace s ON s.oid OPERATOR(pg_catalog.=) t.relnamespace \
         JOIN herd.relation r ON r.schema OPERATOR(pg_catalog.=) s.nspname AND r.name OPERATOR(pg_catalog.=) t.relname \
         WHERE c.conname OPERATOR(pg_catalog.=) {name} AND n.nspname OPERATOR(pg_catalog.=) \
               (SELECT p.name FROM pg_catalog.unnest({path}) WITH ORDINALITY AS p (name, place) \
                 WHERE EXISTS (SELECT FROM pg_catalog.pg_constraint x \
                                 JOIN pg_catalog.pg_namespace o ON o.oid OPERATOR(pg_catalog.=) x.connamespace \
                                WHERE x.conname OPERATOR(pg_catalog.=) {name} AND o.nspname OPERATOR(pg_catalog.=) p.name) \
                 ORDER BY p.place LIMIT 1)"
    )
}
