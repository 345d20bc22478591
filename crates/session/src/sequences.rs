//! `currval` and `lastval` of values the router took for the session (`exec::Sequences`): they stand in the statement as
//! constants. Those that its connection to home remembers PostgreSQL answers there; where a statement's other nodes would need
//! them they are asked before. It does not know how values are taken.

use std::sync::Arc;
use wire::sqlstate;

use catalog::Oid;
use exec::{Compiled, ExecError};
use plan::{Insert, Planned};
use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, SyntaxError, build, names};

use crate::session::{Result, Session};

impl Session {
    /// The statement with what the router knows in place; `None`: it knows nothing.
    pub fn with_values_seen(&self, statement: &NodeEnum) -> Result<Option<(Arc<NodeEnum>, String)>> {
        if self.sequences.seen().is_empty() {
            return Ok(None);
        }
        let (mut seen, mut last) = (self.sequences.seen().to_vec(), self.sequences.last().cloned());
        match plan::sequences::used(statement, &self.names()) {
            plan::Sequences::None | plan::Sequences::Read => {}
            // Taken by the statement itself, perhaps before it asks.
            plan::Sequences::Take(sequences) => {
                seen.retain(|(oid, _)| !sequences.contains(oid));
                last = None;
            }
            plan::Sequences::Any => return Ok(None),
        }
        put(statement, |call| known(call, &seen, last.as_ref())).map(Some)
    }

    /// The statement with the values home has for what it asks, as constants: other nodes can't be asked. They don't change
    /// while it runs, but for those of sequences it takes from itself: these it asks by itself. `None`: it asks nothing
    /// that can be asked before.
    pub async fn with_values_of_home(&mut self, statement: &NodeEnum) -> Result<Option<(Arc<NodeEnum>, String)>> {
        let Some(taken) = plan::sequences::taken(statement, &self.names()) else { return Ok(None) };
        let snapshot = self.epoch.snapshot.clone();
        let is_own = |call: &ast::FuncCall| snapshot.functions(names::last(&call.funcname)).any(|f| f.user_defined);
        let mut calls = vec![];
        sql::search::each(statement, |n| {
            if let NodeEnum::FuncCall(call) = n
                && plan::sequences::reads(call)
                && !is_own(call)
                && (!call.args.is_empty() || taken.is_empty())
                && call.args.iter().all(is_constant)
            {
                calls.push(call);
            }
        });
        let mut values: Vec<(String, String)> = vec![];
        for call in calls {
            let text = text_of(call)?;
            if !values.iter().any(|(known, _)| *known == text)
                && let Some(value) = self.value_of_home(call, &text, &taken).await?
            {
                values.push((text, value));
            }
        }
        if values.is_empty() {
            return Ok(None);
        }
        let of = |call: &ast::FuncCall| {
            let text = text_of(call)?;
            let value = values.iter().find(|(call, _)| *call == text);
            Ok(value.map(|(_, value)| format!("{}::pg_catalog.int8", catalog::quote_literal(value))))
        };
        put(statement, of).map(Some)
    }

    /// The value of currval('…') or lastval(), as the session would be told. `None`: of one of the sequences `taken`.
    async fn value_of_home(&mut self, call: &ast::FuncCall, text: &str, taken: &[String]) -> Result<Option<String>> {
        let text = match (&call.args[..], taken) {
            ([], _) | (_, []) => format!("SELECT {text}"),
            ([sequence, ..], _) => {
                let sequence = sql::deparse_expr(sequence)?;
                let same = |name: &String| {
                    format!("({sequence})::pg_catalog.regclass OPERATOR(pg_catalog.=) {name}::pg_catalog.regclass")
                };
                let own = taken.iter().map(same).collect::<Vec<_>>().join(" OR ");
                format!("SELECT CASE WHEN NOT ({own}) THEN {text} END")
            }
        };
        let asking = sql::parse(&text, true)?.pop();
        let seen = asking.map(|asking| self.with_values_seen(&asking)).transpose()?.flatten();
        let text = seen.map_or(text, |(_, text)| text);
        let home = self.epoch.snapshot.home;
        let mut work = self.work();
        work.uses = plan::Sequences::Read;
        let mut p = work.lane(home).await?;
        let rows = p.lane.rows(&text).await;
        work.put_back(p).await;
        let rows = rows.map_err(|e| Session::no_value(e.into()))?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten())
    }

    /// What names in a statement mean now.
    pub fn names(&self) -> plan::Context<'_> {
        plan::Context::new(&self.epoch.snapshot, &self.search_path, &self.temporary)
    }

    /// The same beside a statement's parameters.
    pub fn names_with<'a>(&'a self, bound: Option<&'a exec::Bound>) -> plan::Context<'a> {
        self.names().with_parameters(bound.map_or(&[], |b| &b.types))
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
}

/// Whether a plan fails, or reads elsewhere, for want of values that home's connection remembers.
pub fn asks_elsewhere(compiled: &Result<Compiled>) -> bool {
    match compiled {
        Err(e) => e.code() == sqlstate::FEATURE_NOT_SUPPORTED,
        Ok(compiled) => match &compiled.plan {
            Planned::Query { tree, .. } => tree.is_err(),
            Planned::Modify { .. } | Planned::InTurn { .. } => true,
            Planned::Insert { rows, .. } => matches!(rows, Insert::Select(_)),
            Planned::Forward(_) => false,
        },
    }
}

/// What stands for currval(…) or lastval() of values the router took. Who may not ask, or asks of one that is gone, is told so by PostgreSQL.
fn known(call: &ast::FuncCall, seen: &[(Oid, String)], last: Option<&(Oid, String)>) -> Asked<Option<String>> {
    let value = |oid: &Oid, value: &str| {
        format!(
            "CASE WHEN pg_catalog.has_sequence_privilege('{oid}'::pg_catalog.oid, 'USAGE, SELECT'::pg_catalog.text) \
             THEN '{value}'::pg_catalog.int8 ELSE pg_catalog.currval('{oid}'::pg_catalog.regclass) END"
        )
    };
    Ok(match (names::last(&call.funcname), &call.args[..]) {
        ("lastval", []) => last.map(|(oid, last)| value(oid, last)),
        ("currval", [sequence]) if !seen.is_empty() => {
            let sequence = sql::deparse_expr(sequence)?;
            let known: String = seen
                .iter()
                .map(|(oid, seen)| format!(" WHEN '{oid}'::pg_catalog.oid THEN {}", value(oid, seen)))
                .collect();
            let else_asked = format!("pg_catalog.currval({sequence})");
            Some(format!("CASE ({sequence})::pg_catalog.regclass::pg_catalog.oid{known} ELSE {else_asked} END"))
        }
        _ => None,
    })
}

fn text_of(call: &ast::FuncCall) -> Asked<String> {
    sql::deparse_expr(&build::node(NodeEnum::FuncCall(Box::new(call.clone()))))
}

/// The same wherever the statement runs, and whatever its rows are.
fn is_constant(argument: &Node) -> bool {
    match argument.node.as_ref() {
        Some(NodeEnum::AConst(_)) => true,
        Some(NodeEnum::TypeCast(t)) => t.arg.as_deref().is_some_and(is_constant),
        Some(NodeEnum::FuncCall(f)) => {
            names::last(&f.funcname) == "pg_get_serial_sequence" && f.args.iter().all(is_constant)
        }
        _ => false,
    }
}

type Asked<T> = std::result::Result<T, SyntaxError>;

/// The statement with texts in place of calls of currval and lastval.
fn put(
    statement: &NodeEnum,
    value: impl FnMut(&ast::FuncCall) -> Asked<Option<String>>,
) -> Result<(Arc<NodeEnum>, String)> {
    let mut changed = statement.clone();
    let mut put = Put { value, failed: None };
    walk::below_mut(&mut changed, &mut put);
    if let Some(e) = put.failed {
        return Err(e.into());
    }
    let text = sql::deparse(&changed)?;
    let changed = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("an empty statement"))?;
    Ok((Arc::new(changed), text))
}

struct Put<F> {
    value: F,
    failed: Option<SyntaxError>,
}

impl<F: FnMut(&ast::FuncCall) -> Asked<Option<String>>> Put<F> {
    fn value(&mut self, call: &ast::FuncCall) -> Asked<Option<NodeEnum>> {
        let Some(text) = (self.value)(call)? else { return Ok(None) };
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

impl<F: FnMut(&ast::FuncCall) -> Asked<Option<String>>> VisitMut for Put<F> {
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
