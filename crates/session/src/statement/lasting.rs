//! What statements that go by their tree may leave in the session, whatever their kind: EXPLAIN ANALYZE, COPY, a cursor and DDL run
//! what they hold; and which of them are watched for it. SELECT and its like, DO and CALL look for it themselves.
//!
//! A change of the schema is taken to leave something on its connections in any case: they are reset before others get them.

use std::time::Instant;

use exec::{Bound, ExecError, Forwarded};
use plan::code::Watched;
use plan::ddl::Mode;
use plan::kind::{FoundBy, Holds};
use plan::special::{Special, special};
use plan::{Decided, Own, Plan, Utility};
use sql::ast;
use sql::{NodeEnum, build};
use wire::sqlstate;

use crate::activity::Pins;
use crate::left_behind::Code;
use crate::metrics::CountedAs;
use crate::session::{Result, Session};

impl Session {
    /// Runs a statement that goes by its tree.
    pub async fn run_tree(
        &mut self,
        statement: &NodeEnum,
        decided: Decided<'_>,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        if !matches!(decided.plan, Plan::Session(Own::Transaction(_))) {
            self.reads_still()?;
        }
        let named = self.executed_by_name(statement).await?;
        let made_empty = named.is_some() && is_made_empty(statement);
        let (statement, sql, decided) = match &named {
            Some((tree, text)) => (tree, &**text, self.decide(tree, bound.map_or(&[], |b| &b.types))?),
            None => (statement, sql, decided),
        };
        let kind = decided.kind;
        self.refuse_hidden_type(statement, kind)?;
        let asks = kind.holds == Holds::Query || kind.leaves == FoundBy::Asked;
        let special = match asks {
            true => special(statement, &self.names_with(bound)),
            false => Special::default(),
        };
        let watched = self.watches(statement, &decided, &special)?;
        let before = self.watch(watched.then_some(Watched::Text)).await?;
        let code = self.lasting(&decided, special, bound)?;
        let scope = code.map(|code| self.code_begins(code, self.loads_at_home(&decided.plan)));
        self.taint |= kind.changes || matches!(decided.plan, Plan::Admin(_));
        let started = kind.sessions_own.then(Instant::now);
        self.transaction.takes_no_snapshot = self.takes_no_snapshot(&decided.plan);
        let result = Box::pin(self.run_plan(statement, decided, sql, bound)).await;
        self.transaction.takes_no_snapshot = false;
        if let Some(started) = started {
            self.router.metrics.statement(CountedAs::Other, started.elapsed());
        }
        self.taint = false;
        let result = match scope {
            Some(scope) => self.code_ends(scope, result).await,
            None => result,
        };
        if result.is_ok() {
            self.watched(before).await?;
        }
        // PostgreSQL has executed it, for no rows.
        result.map(|done| if made_empty { Forwarded { tag: "SELECT 0".into(), ..done } } else { done })
    }

    /// What a transaction that reads repeatably may say before its snapshot is taken, so that it sees what was committed by the time it
    /// has a lock. (On a connection of the session's own, LOCK looks at what is temporary by a query.)
    fn takes_no_snapshot(&self, plan: &Plan) -> bool {
        match plan {
            Plan::Utility(Utility::Lock(_)) => self.pin.is_free(),
            Plan::Session(Own::Set(s)) => {
                s.kind == ast::VariableSetKind::VarSetValue as i32
                    && !crate::named_roles::SETTINGS.iter().any(|(name, _)| name.eq_ignore_ascii_case(&s.name))
            }
            Plan::Session(Own::Show(_) | Own::Listen | Own::Unlisten | Own::Notify | Own::Constraints(_)) => true,
            _ => false,
        }
    }

    /// It holds code that may use any table, by text it puts together.
    fn watches(&self, statement: &NodeEnum, decided: &Decided, special: &Special) -> Result<bool> {
        let named = match decided.kind.holds {
            Holds::Query => {
                special.refused()?;
                special.watched
            }
            // What hangs on a table runs when its rows are checked once more.
            Holds::Expressions => {
                let names = self.names();
                let altered = plan::ddl::checks_rows(statement);
                if altered.is_some() && plan::needs::catches(statement, &names) {
                    return Err(plan::code::caught().into());
                }
                altered.is_some_and(|rv| plan::needs::relation_runs_text(rv, true, &names))
                    || plan::special::calls_text(statement, &names)
            }
            Holds::Nothing => false,
        };
        let too_late = matches!(decided.plan, Plan::Session(Own::Declare(_))) || decided.kind.mode == Mode::Plain;
        match named && too_late {
            true => Err(exec::code::unwatched()),
            false => Ok(named),
        }
    }

    /// EXPLAIN EXECUTE and CREATE TABLE AS EXECUTE with the statement in place of its name, which no node knows.
    async fn executed_by_name(&mut self, statement: &NodeEnum) -> Result<Option<(NodeEnum, String)>> {
        let query = match statement {
            NodeEnum::ExplainStmt(e) => &e.query,
            NodeEnum::CreateTableAsStmt(c) => &c.query,
            _ => return Ok(None),
        };
        let Some(NodeEnum::ExecuteStmt(x)) = query.as_deref().and_then(|q| q.node.as_ref()) else { return Ok(None) };
        let text = self.executed_text(x).await?;
        let Some(tree) = sql::parse(&text, true)?.pop() else { return Ok(None) };
        let is_select = matches!(tree, NodeEnum::SelectStmt(_));
        let query = Some(Box::new(build::node(tree)));
        let whole = match statement {
            NodeEnum::ExplainStmt(e) => NodeEnum::ExplainStmt(Box::new(ast::ExplainStmt { query, ..(**e).clone() })),
            NodeEnum::CreateTableAsStmt(c) if is_select => {
                NodeEnum::CreateTableAsStmt(Box::new(ast::CreateTableAsStmt { query, ..(**c).clone() }))
            }
            _ => return Err(ExecError::sql(sqlstate::WRONG_OBJECT_TYPE, "prepared statement is not a SELECT")),
        };
        let text = sql::deparse(&whole)?;
        Ok(Some((whole, text)))
    }

    fn lasting(&mut self, decided: &Decided, special: Special, bound: Option<&Bound>) -> Result<Option<Code>> {
        match decided.kind.leaves {
            FoundBy::Itself => return Ok(None),
            FoundBy::Cursor => return Ok(self.code.clone().filter(|_| self.transaction.is_active())),
            FoundBy::Asked => {}
        }
        if special.pins {
            self.pin_home(Pins::LOCK);
        }
        // What can't run in a transaction is not looked at afterwards, but its connections are reset.
        let alone = decided.kind.mode == Mode::Plain;
        if alone || !(special.pins || special.leaves.anything(true)) {
            return Ok(None);
        }
        let mut code = self.code_of(special.leaves, bound)?;
        if let Plan::Copy(c) = decided.plan {
            let known = &self.epoch.snapshot.session_code;
            let takes = |rv: &ast::RangeVar| known.takes_values([&*rv.schemaname, &*rv.relname], &self.search_path);
            code.sequences = c.relation.as_ref().is_some_and(takes);
        }
        Ok(Some(code))
    }

    /// COPY FROM a file or the client into a table that home has whole.
    fn loads_at_home(&self, plan: &Plan) -> bool {
        let Plan::Copy(c) = plan else { return false };
        let Some(rv) = c.relation.as_ref().filter(|_| c.is_from) else { return false };
        let (schema, name) = sql::names::table(rv);
        let found = self.epoch.snapshot.resolve(schema, name, &self.search_path);
        found.is_none_or(|r| r.distribution().is_none() && !r.is_reference())
    }
}

/// CREATE TABLE … WITH NO DATA, whatever is there.
fn is_made_empty(statement: &NodeEnum) -> bool {
    match statement {
        NodeEnum::CreateTableAsStmt(c) => !c.if_not_exists && c.into.as_deref().is_some_and(|into| into.skip_data),
        _ => false,
    }
}
