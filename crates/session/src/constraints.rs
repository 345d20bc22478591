//! SET CONSTRAINTS: when deferrable constraints are checked, for the rest of the transaction, on all its nodes.
//!
//! Home has every constraint and is asked first: what is wrong with a name it says. The others are told which constraints of
//! the herd's tables that means, by their schemas, whatever they would find themselves; nodes that join later hear of it as of
//! a SET LOCAL, and going back to a savepoint undoes it as that. It does not know when a transaction commits.

use exec::{Bound, ExecError, Forwarded};
use sql::NodeEnum;
use sql::ast;
use wire::sqlstate;

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
        if !self.transaction.is_active() {
            return Ok(forwarded);
        }
        self.transaction.sets_constraints |= s.deferred;
        let when = if s.deferred { "DEFERRED" } else { "IMMEDIATE" };
        let set = |names: String| format!("SET CONSTRAINTS {names} {when}");
        let named = match s.constraints.is_empty() {
            true => Named { everywhere: vec!["ALL".to_string()], ..Named::default() },
            false => self.constraints_of_herd(&s.constraints).await?,
        };
        if !named.on_home.is_empty() {
            self.on_home(&set(named.on_home.join(", "))).await?;
        }
        if self.epoch.snapshot.nodes.len() == 1 {
            return Ok(forwarded);
        }
        let constraints = (!named.everywhere.is_empty()).then(|| set(named.everywhere.join(", ")));
        let triggers = named.triggers.iter().map(|name| {
            let shards = set(of_shards(name));
            let name = catalog::quote_literal(name);
            // A node that has no shard of the table has none of them.
            let body = format!("BEGIN IF EXISTS ({}) THEN {shards}; END IF; END", on_shards(&name));
            format!("DO LANGUAGE plpgsql {}", catalog::quote_literal(&body))
        });
        let elsewhere = constraints.into_iter().chain(triggers).collect::<Vec<_>>().join("; ");
        if !elsewhere.is_empty() {
            self.room_for_settings(elsewhere.len())?;
            let home = self.epoch.snapshot.home;
            self.transaction.everywhere_but(Some(home), &elsewhere).await?;
            self.transaction.note_setting(&elsewhere);
        }
        Ok(forwarded)
    }

    /// Those of the constraints that are of tables which every node has, and of their shards.
    async fn constraints_of_herd(&mut self, names: &[ast::Node]) -> Result<Named> {
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
        let mut named = Named::default();
        for row in rows {
            let [Some(constraint), trigger, on_home, several] =
                <[Option<String>; 4]>::try_from(row).unwrap_or_default()
            else {
                continue;
            };
            named.everywhere.push(constraint);
            let Some(trigger) = trigger else { continue };
            if several.as_deref() == Some("t") {
                let message = format!(
                    "constraints \"{trigger}\" are on distributed tables of several schemas, and one is a trigger's: SET CONSTRAINTS does not tell them apart"
                );
                return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
                    .hint("Rename one of them, or SET CONSTRAINTS ALL."));
            }
            if on_home.as_deref() == Some("t") {
                named.on_home.push(of_shards(&trigger));
            }
            named.triggers.push(trigger);
        }
        Ok(named)
    }
}

/// What the names of a SET CONSTRAINTS mean beyond what home found by them.
#[derive(Default)]
struct Named {
    /// Of tables that every node has, with their schemas.
    everywhere: Vec<String>,
    /// Constraint triggers' names: their copies on shards are constraints by themselves, of the shards' schema.
    triggers: Vec<String>,
    /// Those copies that home has.
    on_home: Vec<String>,
}

fn of_shards(name: &str) -> String {
    catalog::qualified("herd_shards", name)
}

/// Whether a node has shards with a constraint trigger of that name (a literal).
fn on_shards(name: &str) -> String {
    format!(
        "SELECT FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace h ON h.oid OPERATOR(pg_catalog.=) k.connamespace \
          WHERE k.conname OPERATOR(pg_catalog.=) {name} AND k.contype OPERATOR(pg_catalog.=) 't' \
            AND h.nspname OPERATOR(pg_catalog.=) 'herd_shards'"
    )
}

/// As PostgreSQL does it (AfterTriggerSetState in trigger.c): all of that name in the first schema which has any.
fn question(schema: &str, name: &str, path: &str) -> String {
    let path = match schema {
        "" => path.to_string(),
        schema => format!("ARRAY[{}]::pg_catalog.name[]", catalog::quote_literal(schema)),
    };
    let name = catalog::quote_literal(name);
    let shards = on_shards(&name);
    let of_tables = "pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.connamespace \
         JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) c.conrelid \
         JOIN pg_catalog.pg_namespace s ON s.oid OPERATOR(pg_catalog.=) t.relnamespace \
         JOIN herd.relation r ON r.schema OPERATOR(pg_catalog.=) s.nspname AND r.name OPERATOR(pg_catalog.=) t.relname";
    format!(
        "SELECT DISTINCT pg_catalog.format('%I.%I', n.nspname, c.conname), \
                CASE WHEN c.contype OPERATOR(pg_catalog.=) 't' AND r.kind OPERATOR(pg_catalog.=) 'd' THEN c.conname END, \
                EXISTS ({shards}), \
                (SELECT pg_catalog.count(DISTINCT n.oid) OPERATOR(pg_catalog.>) 1 FROM {of_tables} \
                  WHERE c.conname OPERATOR(pg_catalog.=) {name} AND r.kind OPERATOR(pg_catalog.=) 'd') \
           FROM {of_tables} \
          WHERE c.conname OPERATOR(pg_catalog.=) {name} AND n.nspname OPERATOR(pg_catalog.=) \
               (SELECT p.name FROM pg_catalog.unnest({path}) WITH ORDINALITY AS p (name, place) \
                 WHERE EXISTS (SELECT FROM pg_catalog.pg_constraint x \
                                 JOIN pg_catalog.pg_namespace o ON o.oid OPERATOR(pg_catalog.=) x.connamespace \
                                WHERE x.conname OPERATOR(pg_catalog.=) {name} AND o.nspname OPERATOR(pg_catalog.=) p.name) \
                 ORDER BY p.place LIMIT 1)"
    )
}
