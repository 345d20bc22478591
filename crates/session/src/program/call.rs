//! A call, and a DO block: what runs, with which values, and what the client is told at its end.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::Volatility;
use exec::{Bound, ExecError, Forwarded};
use plan::programs::{self, once};
use sql::NodeEnum;
use sql::ast;
use sql::program::{Expression, Program};
use wire::backend::Field;
use wire::sqlstate;

use super::result::Gives;
use super::run::{is_about_rows, is_utility};
use super::signature::{COLLATED, Returns, Signature};
use super::{Held, Running, Text};
use crate::session::{Result, Session};

/// Programs in each other.
const DEPTH_MAX: u8 = 30;

/// What is called, with what, by which statement.
struct Called<'c> {
    routine: catalog::code::Routine,
    arguments: Vec<ast::Node>,
    /// `SELECT * FROM f()`; otherwise it is called for a value, or by CALL.
    from: bool,
    procedure: bool,
    sql: &'c str,
}

/// What variables hold first, and what expressions mean.
pub type Beginning = (Vec<Held>, Vec<std::result::Result<Arc<Expression>, &'static str>>);

/// How it is told to the client.
enum Told {
    /// The tag alone.
    Tag(&'static str),
    Rows(Vec<Field>),
}

impl Session {
    /// Runs it statement by statement. `refusal`: why it can't be run whole, which is told where it can't be run so, either.
    pub(crate) async fn by_steps(
        &mut self,
        statement: &NodeEnum,
        sql: &str,
        bound: Option<&Bound>,
        refusal: ExecError,
    ) -> Result<Forwarded> {
        let names = self.names();
        if let Some(view) = plan::instead_of::written(statement, &names) {
            let view = view.clone();
            return Box::pin(self.instead_of(statement, sql, bound, view, refusal)).await;
        }
        let call = match statement {
            NodeEnum::DoStmt(_) => None,
            _ => match programs::call(statement, &names) {
                Some(call) => {
                    let (routine, arguments) = (call.routine.clone(), call.arguments.to_vec());
                    let procedure = matches!(statement, NodeEnum::CallStmt(_));
                    Some(Called { routine, arguments, from: call.from, procedure, sql })
                }
                None => {
                    let null = |number: i32| {
                        let at = usize::try_from(number - 1).ok();
                        bound.zip(at).and_then(|(b, at)| b.values.get(at)).is_none_or(Option::is_none)
                    };
                    let first = once::made_first(statement, &names, &null);
                    return match first.filter(|_| programs::per_row(statement, &names).is_none()) {
                        Some(volatile) => Box::pin(self.calls_first(statement, bound, !volatile, refusal)).await,
                        None if plan::called_first::of(statement, &names).is_some() => {
                            Box::pin(self.called_first(statement, sql, bound, refusal)).await
                        }
                        None => Box::pin(self.for_each_row(statement, sql, bound, refusal)).await,
                    };
                }
            },
        };
        let read = match &call {
            None => Program::of(statement),
            Some(call) => match self.definition(&call.routine).await? {
                Some(definition) => Program::of(&definition),
                None => return Err(refusal),
            },
        };
        let sees_once = call.as_ref().is_some_and(|c| c.routine.volatility != Volatility::Volatile);
        let program = match read.and_then(|p| only_rows(p, sees_once)) {
            Ok(program) => program,
            Err(why) => return Err(unless_known(refusal, why)),
        };
        let refusal = self.may_run(sees_once, refusal).await?;
        self.nesting += 1;
        let done = Box::pin(self.run_program(program, call, bound, refusal)).await;
        self.nesting -= 1;
        done
    }

    /// In a transaction, which begins if there is none; the refusal, if not. `sees_once`: all that it reads is to be of one moment.
    pub(super) async fn may_run(&mut self, sees_once: bool, refusal: ExecError) -> Result<ExecError> {
        if self.nesting >= DEPTH_MAX {
            return Err(ExecError::sql(sqlstate::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .hint("Functions that run over several nodes call each other too deep."));
        }
        let begin = if sees_once { "BEGIN ISOLATION LEVEL REPEATABLE READ" } else { "BEGIN" };
        match self.transaction.is_active() {
            false => self.transaction.begin(begin, false),
            true if sees_once && !self.work().manner().await?.repeatable => {
                return Err(unless_known(refusal, "is not VOLATILE, and its transaction is READ COMMITTED"));
            }
            true => {}
        }
        Ok(refusal)
    }

    async fn run_program(
        &mut self,
        program: Program,
        call: Option<Called<'_>>,
        bound: Option<&Bound>,
        refusal: ExecError,
    ) -> Result<Forwarded> {
        let checks = |v: &str| !["", "none"].contains(&v.trim().to_ascii_lowercase().as_str());
        if self.settings.get("plpgsql.extra_errors").is_some_and(checks) {
            return Err(unless_known(refusal, "is to be checked by plpgsql.extra_errors"));
        }
        let signature = match &call {
            None => Signature { parameters: vec![], returns: Returns::Nothing, set: false, strict: false },
            Some(call) => match self.signature(call.routine.oid).await? {
                Ok(signature) => signature,
                Err(why) => return Err(unless_known(refusal, why)),
            },
        };
        if signature.parameters.len() != program.parameters {
            return Err(refusal);
        }
        let told = match &call {
            None => Told::Tag("DO"),
            Some(call) => {
                let types: &[u32] = bound.map_or(&[], |b| &b.types);
                // PostgreSQL says whether it can be called so.
                let described = self.work().describe_text(call.sql, types).await?;
                match call.procedure {
                    true => Told::Tag("CALL"),
                    false => Told::Rows(described.fields.unwrap_or_default()),
                }
            }
        };
        let gives = match (&told, &call) {
            (Told::Rows(fields), Some(call)) => {
                match self.gives(&program, &signature, call.from.then_some(fields)).await? {
                    Ok(gives) => gives,
                    Err(why) => return Err(unless_known(refusal, why)),
                }
            }
            (Told::Tag(_), _) if program.outputs.is_empty() => Gives::default(),
            _ => return Err(unless_known(refusal, "is a procedure with OUT parameters")),
        };
        if call.is_none() {
            let usage = "SELECT pg_catalog.has_language_privilege('plpgsql', 'USAGE')";
            let row = self.asked(usage).await?.pop().unwrap_or_default();
            if row.first().and_then(|v| v.as_deref()) != Some(b"t") {
                let message = "permission denied for language plpgsql";
                return Err(ExecError::sql(sqlstate::INSUFFICIENT_PRIVILEGE, message));
            }
        }
        let first = match self.begins(&program, &signature).await? {
            Ok(first) => first,
            Err(why) => return Err(unless_known(refusal, why)),
        };
        let mut running = self.running(&program, first, gives);
        let values = match &call {
            Some(call) => match self.arguments(&call.arguments, &signature, &program, bound).await? {
                Some(values) => values,
                None => return Err(unless_known(refusal, COLLATED)),
            },
            None => vec![],
        };
        self.run_once(&mut running, &signature, values).await?;
        match told {
            Told::Tag(tag) => Ok(Forwarded { tag: tag.into(), ..Default::default() }),
            Told::Rows(fields) => self.tell_rows(&running.given, &fields, bound).await,
        }
    }

    /// What its variables hold when it begins, and what its names mean; or why it can't run.
    pub(super) async fn begins(
        &mut self,
        program: &Program,
        signature: &Signature,
    ) -> Result<std::result::Result<Beginning, &'static str>> {
        if !self.all_may_come() {
            let types = signature.parameters.iter().map(|p| p.ty.name.as_str()).collect();
            self.work().travel_made_of(types).await?;
        }
        let Some(first) = self.empty(program, signature).await? else {
            return Ok(Err("has variables of types that are not understood"));
        };
        let temporary = self.temporary_columns().await?;
        let expressions = self.resolved(program, &first, &temporary);
        // What it makes itself is not there yet.
        let unclear = expressions.iter().find_map(|e| e.as_ref().err().copied());
        match unclear.filter(|_| !program.runs_text() && !program.expressions.iter().any(|e| is_utility(&e.tree))) {
            Some(why) => Ok(Err(why)),
            None => Ok(Ok((first, expressions))),
        }
    }

    /// Its expressions, with what their names mean.
    fn resolved(
        &self,
        program: &Program,
        held: &[Held],
        temporary: &HashMap<String, Vec<String>>,
    ) -> Vec<std::result::Result<Arc<Expression>, &'static str>> {
        let columns = |rv: &ast::RangeVar| {
            if let ("" | "pg_temp", Some(columns)) = (rv.schemaname.as_str(), temporary.get(&rv.relname)) {
                return Some(columns.clone());
            }
            let relation = self.names().relation(rv)?.clone();
            Some(relation.columns.iter().map(|c| c.name.clone()).collect())
        };
        program.resolved(&columns, &|at| held[at].is_row()).into_iter().map(|e| e.map(Arc::new)).collect()
    }

    /// Something was made, changed or dropped.
    pub(super) async fn names_anew(&mut self, running: &mut Running<'_>) -> Result<()> {
        self.settle_path().await?;
        running.made = true;
        running.temporary.clone_from(&self.temporary);
        running.fields.clear();
        running.row_types.clear();
        let temporary = self.temporary_columns().await?;
        running.expressions = self.resolved(running.program, &running.first, &temporary);
        Ok(())
    }

    /// The columns of the session's own temporary tables, which no catalog of the herd has.
    async fn temporary_columns(&mut self) -> Result<HashMap<String, Vec<String>>> {
        let mut columns: HashMap<String, Vec<String>> = HashMap::new();
        if self.temporary.is_empty() {
            return Ok(columns);
        }
        let sql = "SELECT c.relname, a.attname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid \
                   WHERE c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped";
        for row in self.asked(sql).await? {
            let mut texts =
                row.into_iter().map(|v| v.map(|v| String::from_utf8_lossy(&v).into_owned()).unwrap_or_default());
            if let (Some(table), Some(column)) = (texts.next(), texts.next()) {
                columns.entry(table).or_default().push(column);
            }
        }
        Ok(columns)
    }

    /// What holds its values while it runs.
    pub(super) fn running<'p>(
        &self,
        program: &'p Program,
        (first, expressions): Beginning,
        gives: Gives,
    ) -> Running<'p> {
        Running {
            program,
            held: vec![],
            first,
            expressions,
            made: false,
            row_count: 0,
            handled: vec![],
            fields: Default::default(),
            row_types: Default::default(),
            casts: Default::default(),
            path: self.search_path.clone(),
            temporary: self.temporary.clone(),
            queries: Default::default(),
            gives,
            given: vec![],
            given_bytes: 0,
            taken: self.memory.nothing(),
            holds: self.memory.nothing(),
        }
    }

    /// What it is given, as values of the arguments' types; `None`: one is compared by a collation of its own.
    async fn arguments(
        &mut self,
        arguments: &[ast::Node],
        signature: &Signature,
        program: &Program,
        bound: Option<&Bound>,
    ) -> Result<Option<Vec<Text>>> {
        if arguments.is_empty() {
            return Ok(Some(vec![]));
        }
        if self.is_collated_once(arguments, signature, program) {
            return Ok(None);
        }
        let sql = format!("SELECT {}", signature.arguments(arguments, program)?.join(", "));
        let tree = sql::parse(&sql, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let given = bound.cloned().unwrap_or_default().for_columns(vec![]);
        let mut rows = self.nested(&tree, &sql, &given).await?;
        match (rows.rows.pop(), rows.rows.pop()) {
            (Some(row), None) => Ok(signature.given(row, program)),
            _ => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "a function that runs over several nodes can't be called with arguments that return sets",
            )
            .hint("Call it for each of their rows.")),
        }
    }

    /// A VOLATILE text: to be asked for its collation, too, would make it another value.
    fn is_collated_once(&self, arguments: &[ast::Node], signature: &Signature, program: &Program) -> bool {
        let names = self.names();
        let is_volatile = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if names.functions(&f.funcname).any(|f| f.volatility == Volatility::Volatile));
        let collated = |at: &usize| signature.parameters.get(*at).is_some_and(|p| p.collated);
        let mut pairs = arguments.iter().zip(&program.arguments);
        pairs.any(|(value, at)| collated(at) && sql::search::any(value, is_volatile))
    }
}

impl Session {
    /// What made it, read again. Of a body that is stored parsed the catalog has but the names: home prints it.
    pub(super) async fn definition(&mut self, routine: &catalog::code::Routine) -> Result<Option<NodeEnum>> {
        let read = |text: &str| sql::parse(text, true).ok().and_then(|mut s| s.pop());
        let is_names = |n: &NodeEnum| matches!(n, NodeEnum::CreateFunctionStmt(f) if !f.replace);
        match read(&routine.definition) {
            Some(names) if is_names(&names) => {
                let sql = format!("SELECT pg_catalog.pg_get_functiondef({})", routine.oid);
                let rows = self.work().ask_home(&sql).await?;
                Ok(rows
                    .into_iter()
                    .next()
                    .and_then(|row| row.into_iter().next().flatten())
                    .and_then(|text| read(&text)))
            }
            definition => Ok(definition),
        }
    }
}

/// Statements about rows, and nothing else; where it must `only` read, queries.
pub fn only_rows(program: Program, only: bool) -> std::result::Result<Program, &'static str> {
    let all = &program.expressions;
    if !all.iter().all(|e| is_about_rows(&e.tree) || is_utility(&e.tree)) {
        return Err("runs statements that are about neither rows, tables, indexes nor views");
    }
    let reads = |e: &Expression| match &*e.tree {
        NodeEnum::SelectStmt(_) => !sql::search::any(&*e.tree, |n| {
            use sql::NodeEnum::{DeleteStmt, InsertStmt, LockingClause, MergeStmt, UpdateStmt};
            matches!(n, InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) | LockingClause(_))
        }),
        _ => false,
    };
    if only && !all.iter().all(reads) {
        return Err("changes or locks rows and is not VOLATILE");
    }
    if only && program.runs_text() {
        return Err("puts statements together and is not VOLATILE");
    }
    Ok(program)
}

/// The refusal, with why it can't be run statement by statement.
pub fn unless_known(refusal: ExecError, why: &str) -> ExecError {
    match refusal {
        ExecError::Refused(mut r) => {
            r.message = format!("{} (and can't be run statement by statement: it {why})", r.message);
            ExecError::Refused(r)
        }
        other => other,
    }
}
