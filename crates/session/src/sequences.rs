//! `currval` and `lastval` of values the router took for the session (`exec::Sequences`): they stand in the statement as
//! constants. Those that its connection to home remembers PostgreSQL answers there. It does not know how values are taken.

use std::sync::Arc;
use wire::sqlstate;

use exec::ExecError;
use sql::ast::Node;
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, SyntaxError, names};

use crate::session::{Result, Session};

impl Session {
    /// The statement with what the router knows in place; `None`: it knows nothing.
    pub fn with_values_seen(&self, statement: &NodeEnum) -> Result<Option<(Arc<NodeEnum>, String)>> {
        if self.sequences.seen().is_empty() {
            return Ok(None);
        }
        let cx = plan::Context {
            snapshot: &self.epoch.snapshot,
            search_path: &self.search_path,
            temporary: &self.temporary,
            views: Default::default(),
            lists: Default::default(),
        };
        let (mut seen, mut last) = (self.sequences.seen().to_vec(), self.sequences.last());
        match plan::sequences::used(statement, &cx) {
            plan::Sequences::None | plan::Sequences::Read => {}
            // Taken by the statement itself, perhaps before it asks.
            plan::Sequences::Take(names) => {
                seen.retain(|(name, _)| !names.contains(name));
                last = None;
            }
            plan::Sequences::Any => return Ok(None),
        }
        let mut changed = statement.clone();
        let mut put = Put { seen, last, failed: None };
        walk::below_mut(&mut changed, &mut put);
        if let Some(e) = put.failed {
            return Err(e.into());
        }
        let text = sql::deparse(&changed)?;
        let changed = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("an empty statement"))?;
        Ok(Some((Arc::new(changed), text)))
    }

    /// PostgreSQL knows no value here. The session may have taken one where nothing remembers it.
    pub fn no_value(error: ExecError) -> ExecError {
        match error.code().as_str() {
            sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE => error.hint(
                "A herd may lend the connection that remembers it to others, or take values for many sessions at once. \
                 Use RETURNING, or ask in the transaction that took the value.",
            ),
            _ => error,
        }
    }

    /// DISCARD SEQUENCES, or the end of the session.
    pub fn forget_sequences(&mut self) {
        let snapshot = &self.epoch.snapshot;
        if let Ok(home) = self.router.herd.target(snapshot, snapshot.home) {
            self.router.herd.pools.forget(&home, &self.login, self.sequences.number());
        }
        self.sequences.lose();
    }
}

struct Put<'s> {
    seen: Vec<(String, String)>,
    last: Option<&'s str>,
    failed: Option<SyntaxError>,
}

impl Put<'_> {
    fn value(&self, call: &sql::ast::FuncCall) -> std::result::Result<Option<NodeEnum>, SyntaxError> {
        let text = match (names::last(&call.funcname), &call.args[..]) {
            ("lastval", []) => match self.last {
                Some(value) => format!("{value}::pg_catalog.int8"),
                None => return Ok(None),
            },
            ("currval", [sequence]) if !self.seen.is_empty() => {
                let sequence = sql::deparse_expr(sequence)?;
                let known: String = self
                    .seen
                    .iter()
                    .map(|(name, value)| {
                        let name = catalog::quote_literal(name);
                        format!(" WHEN {name}::pg_catalog.regclass THEN {value}::pg_catalog.int8")
                    })
                    .collect();
                let else_asked = format!("pg_catalog.currval({sequence})");
                format!("CASE ({sequence})::pg_catalog.regclass{known} ELSE {else_asked} END")
            }
            _ => return Ok(None),
        };
        let Some(NodeEnum::SelectStmt(select)) = sql::parse(&format!("SELECT {text}"), true)?.pop() else {
            return Ok(None);
        };
        Ok(match select.target_list.into_iter().next().and_then(|t| t.node) {
            Some(NodeEnum::ResTarget(t)) => t.val.and_then(|v| v.node),
            _ => None,
        })
    }

    fn name_kept(target: &mut sql::ast::ResTarget) {
        let figured = target.val.as_deref().map(|v: &Node| names::figure_column(v));
        if target.name.is_empty()
            && let Some(name) = figured.filter(|n| n == "currval" || n == "lastval")
        {
            target.name = name;
        }
    }
}

impl VisitMut for Put<'_> {
    fn node(&mut self, node: &mut NodeEnum) -> bool {
        match node {
            NodeEnum::ResTarget(target) => Self::name_kept(target),
            NodeEnum::FuncCall(call) if plan::sequences::reads(call) => match self.value(call) {
                Ok(Some(value)) => {
                    *node = value;
                    return false;
                }
                Ok(None) => {}
                Err(e) => self.failed = Some(e),
            },
            _ => {}
        }
        true
    }
}
