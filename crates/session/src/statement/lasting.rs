//! What statements that go by their tree may leave in the session, whatever their kind: EXPLAIN ANALYZE, COPY, a cursor and DDL run
//! what they hold; and which of them are watched for it. SELECT and its like, DO and CALL look for it themselves.
//!
//! A change of the schema is taken to leave something on its connections in any case: they are reset before others get them.

use std::sync::Arc;

use exec::{Bound, Forwarded};
use plan::ddl::Mode;
use sql::ast;
use sql::{NodeEnum, build};

use crate::activity::Pins;
use crate::code::Code;
use crate::session::{Result, Session};
use crate::special;

impl Session {
    /// Runs a statement that goes by its tree.
    pub async fn run_tree(&mut self, statement: &Arc<NodeEnum>, sql: &str, bound: Option<&Bound>) -> Result<Forwarded> {
        let named = self.explained_by_name(statement).await?;
        let (statement, sql) = named.as_ref().map_or((statement, sql), |(tree, text)| (tree, &**text));
        let watched = self.watches(statement)?;
        let before = if watched { Some(self.watch().await?) } else { None };
        let code = self.lasting(statement, bound)?;
        let scope = code.map(|code| self.code_begins(code, self.loads_at_home(statement)));
        self.taint |= is_change(statement);
        let result = Box::pin(self.run_kind(statement, sql, bound)).await;
        self.taint = false;
        let result = match scope {
            Some(scope) => self.code_ends(scope, result).await,
            None => result,
        };
        if let Some(before) = before
            && result.is_ok()
        {
            self.watched(before).await?;
        }
        result
    }

    /// It holds code that may use any table, by text it puts together.
    fn watches(&self, statement: &NodeEnum) -> Result<bool> {
        use NodeEnum::*;
        let find = || special::special(statement, &self.epoch.snapshot).watched;
        let named = match statement {
            ExplainStmt(_) | CopyStmt(_) | CreateTableAsStmt(_) | TruncateStmt(_) | DeclareCursorStmt(_) => find(),
            SelectStmt(s) if s.into_clause.is_some() => find(),
            ViewStmt(_) | RuleStmt(_) | CreateDomainStmt(_) | CreateTrigStmt(_) | CreateFunctionStmt(_) => false,
            _ if Mode::of(statement) == Mode::NotDdl => false,
            _ => special::calls_text(statement, &self.epoch.snapshot),
        };
        let too_late = matches!(statement, DeclareCursorStmt(_)) || Mode::of(statement) == Mode::Plain;
        match named && too_late {
            true => Err(exec::code::unwatched()),
            false => Ok(named),
        }
    }

    /// EXPLAIN EXECUTE with the statement in place of its name, which no node knows.
    async fn explained_by_name(&mut self, statement: &NodeEnum) -> Result<Option<(Arc<NodeEnum>, String)>> {
        let NodeEnum::ExplainStmt(e) = statement else { return Ok(None) };
        let Some(NodeEnum::ExecuteStmt(x)) = e.query.as_deref().and_then(|q| q.node.as_ref()) else { return Ok(None) };
        let text = self.executed_text(x).await?;
        let Some(tree) = sql::parse(&text, true)?.pop() else { return Ok(None) };
        let whole = NodeEnum::ExplainStmt(Box::new(ast::ExplainStmt {
            query: Some(Box::new(build::node(tree))),
            ..(**e).clone()
        }));
        let text = sql::deparse(&whole)?;
        Ok(Some((Arc::new(whole), text)))
    }

    fn lasting(&mut self, statement: &NodeEnum, bound: Option<&Bound>) -> Result<Option<Code>> {
        use NodeEnum::*;
        match statement {
            TransactionStmt(_) | VariableSetStmt(_) | VariableShowStmt(_) | DiscardStmt(_) | PrepareStmt(_)
            | ExecuteStmt(_) | DeallocateStmt(_) | ListenStmt(_) | UnlistenStmt(_) | NotifyStmt(_)
            | CheckPointStmt(_) | LoadStmt(_) | DoStmt(_) | CallStmt(_) | InsertStmt(_) | UpdateStmt(_)
            | DeleteStmt(_) | MergeStmt(_) | LockStmt(_) => return Ok(None),
            SelectStmt(s) if s.into_clause.is_none() => return Ok(None),
            // What a cursor's query leaves was announced when it was declared.
            FetchStmt(_) | ClosePortalStmt(_) => {
                return Ok(self.code.clone().filter(|_| self.transaction.is_active()));
            }
            _ => {}
        }
        let special = special::special(statement, &self.epoch.snapshot);
        if special.pins {
            self.pin_home(Pins::LOCK);
        }
        // What can't run in a transaction is not looked at afterwards, but its connections are reset.
        let alone = Mode::of(statement) == Mode::Plain;
        if alone || !(special.pins || special.leaves.anything(true)) {
            return Ok(None);
        }
        let mut code = self.code_of(special.leaves, bound)?;
        if let CopyStmt(c) = statement {
            let known = &self.epoch.snapshot.session_code.sequences;
            code.sequences = c.relation.as_ref().is_some_and(|rv| known.contains(&rv.relname));
        }
        Ok(Some(code))
    }

    /// COPY FROM a file or the client into a table that home has whole.
    fn loads_at_home(&self, statement: &NodeEnum) -> bool {
        let NodeEnum::CopyStmt(c) = statement else { return false };
        let Some(rv) = c.relation.as_ref().filter(|_| c.is_from) else { return false };
        let (schema, name) = sql::names::table(rv);
        let found = self.epoch.snapshot.resolve(schema, name, &self.search_path);
        found.is_none_or(|r| r.distribution().is_none() && !r.is_reference())
    }
}

/// It may run what it does not name: an event trigger, the code of a table's owner.
fn is_change(statement: &NodeEnum) -> bool {
    let ddl = Mode::of(statement) != Mode::NotDdl && !matches!(statement, NodeEnum::LockStmt(_));
    ddl || exec::recognise(statement).is_some()
}
