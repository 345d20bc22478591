//! A call, and a DO block: what runs, with which values, and what the client is told at its end.

use std::time::Instant;

use bytes::Bytes;
use catalog::Volatility;
use exec::{Answer, Bound, Client, ExecError, Forwarded};
use plan::programs;
use sql::NodeEnum;
use sql::ast;
use sql::program::{Expression, Kind, Program, Query, Step};
use wire::backend::Field;
use wire::{ErrorFields, sqlstate};

use super::run::{is_about_rows, literal, text};
use super::signature::{COLLATED, Signature};
use super::{Flow, Held, Running, Text, Value};
use crate::session::{Result, Session};

/// Programs in each other.
const DEPTH_MAX: u8 = 30;
/// Rows that are told at once where PostgreSQL has to write them.
const ROWS_AT_ONCE: usize = 500;

/// What is called, with what, by which statement.
struct Called<'c> {
    routine: catalog::code::Routine,
    arguments: Vec<ast::Node>,
    /// `SELECT * FROM f()`; otherwise it is called for a value, or by CALL.
    from: bool,
    procedure: bool,
    sql: &'c str,
}

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
        let call = match statement {
            NodeEnum::DoStmt(_) => None,
            _ => match programs::call(statement, &names) {
                Some(call) => {
                    let (routine, arguments) = (call.routine.clone(), call.arguments.to_vec());
                    let procedure = matches!(statement, NodeEnum::CallStmt(_));
                    Some(Called { routine, arguments, from: call.from, procedure, sql })
                }
                None if plan::called_first::of(statement, &names).is_some() => {
                    return Box::pin(self.called_first(statement, sql, bound, refusal)).await;
                }
                None => return Box::pin(self.for_each_row(statement, sql, bound, refusal)).await,
            },
        };
        let read = match &call {
            None => Program::of(statement),
            Some(call) => match definition(&call.routine) {
                Some(definition) => Program::of(&definition),
                None => return Err(refusal),
            },
        };
        let sees_once = call.as_ref().is_some_and(|c| c.routine.volatility != Volatility::Volatile);
        let program = match self.resolved(read).and_then(|p| only_rows(p, sees_once)) {
            Ok(program) => program,
            Err(why) => return Err(unless_known(refusal, why)),
        };
        let refusal = self.may_run(sees_once, refusal)?;
        self.nesting += 1;
        let done = Box::pin(self.run_program(&program, call, bound, refusal)).await;
        self.nesting -= 1;
        done
    }

    /// With what its names mean.
    pub(super) fn resolved(
        &self,
        read: std::result::Result<Program, &'static str>,
    ) -> std::result::Result<Program, &'static str> {
        let columns = |rv: &ast::RangeVar| {
            let relation = self.names().relation(rv)?.clone();
            Some(relation.columns.iter().map(|c| c.name.clone()).collect())
        };
        read.and_then(|mut program| program.resolve(&columns).map(|()| program))
    }

    /// In a transaction, which begins if there is none; the refusal, if not. `sees_once`: all that it reads is to be of one moment.
    pub(super) fn may_run(&mut self, sees_once: bool, refusal: ExecError) -> Result<ExecError> {
        if self.nesting >= DEPTH_MAX {
            return Err(ExecError::sql(sqlstate::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .hint("Functions that run over several nodes call each other too deep."));
        }
        let begin = if sees_once { "BEGIN ISOLATION LEVEL REPEATABLE READ" } else { "BEGIN" };
        match self.transaction.is_active() {
            false => self.transaction.begin(begin, false),
            true if sees_once && !self.reads_repeatably() => {
                return Err(unless_known(refusal, "is not VOLATILE, and its transaction is READ COMMITTED"));
            }
            true => {}
        }
        Ok(refusal)
    }

    async fn run_program(
        &mut self,
        program: &Program,
        call: Option<Called<'_>>,
        bound: Option<&Bound>,
        refusal: ExecError,
    ) -> Result<Forwarded> {
        let limits = self.work().limits_beside(Instant::now()).await?;
        let signature = match &call {
            None => Signature { parameters: vec![], collated: vec![], returns: None, nothing: true, set: false },
            Some(call) => match self.signature(call.routine.oid).await? {
                Ok(signature) => signature,
                Err(why) => return Err(unless_known(refusal, why)),
            },
        };
        if signature.parameters.len() != program.parameters {
            return Err(refusal);
        }
        if signature.returns.is_none() && !signature.nothing && program.outputs.is_empty() {
            return Err(unless_known(refusal, "returns a row"));
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
        let columns = match (&told, &call) {
            (Told::Rows(_), Some(_)) if signature.nothing => vec![],
            (Told::Rows(fields), Some(call)) if call.from && signature.returns.is_none() => {
                let names = self.work().type_names(fields).await?;
                fields.iter().map(|f| f.type_oid).zip(names).collect()
            }
            (Told::Rows(fields), Some(_)) if fields.len() != 1 || program.outputs.len() > 1 => {
                return Err(unless_known(refusal, "returns rows; it can be called in FROM"));
            }
            (Told::Rows(_), Some(_)) => signature.returns.clone().into_iter().collect(),
            (Told::Tag(_), _) if program.outputs.is_empty() => vec![],
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
        let mut running = match self.running(program, &signature, columns, limits).await? {
            Ok(running) => running,
            Err(why) => return Err(unless_known(refusal, why)),
        };
        let values = match &call {
            Some(call) => match self.arguments(&call.arguments, &signature, program, bound).await? {
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

    /// What holds its values while it runs; or why it can't.
    pub(super) async fn running<'p>(
        &mut self,
        program: &'p Program,
        signature: &Signature,
        columns: Vec<(u32, String)>,
        limits: exec::Limits,
    ) -> Result<std::result::Result<Running<'p>, &'static str>> {
        if !self.all_may_come() {
            let types = signature.parameters.iter().map(|(_, name)| name.as_str()).collect();
            self.work().travel_made_of(types).await?;
        }
        let types = self.types(program).await?;
        let mut first = Vec::with_capacity(program.variables.len());
        for (at, variable) in program.variables.iter().enumerate() {
            first.push(match (&variable.kind, signature.parameters.get(at)) {
                (_, Some((oid, name))) => Held::Value { oid: *oid, name: name.clone(), text: None },
                (Kind::Record, None) => Held::Record(None),
                (Kind::Own, None) => Held::Any(Value::default()),
                (Kind::Type(_) | Kind::Column(..), None) => match types.get(at).cloned().flatten() {
                    Some((oid, name)) => Held::Value { oid, name, text: None },
                    None => return Ok(Err("has variables of types that are not understood")),
                },
            });
        }
        Ok(Ok(Running {
            program,
            held: vec![],
            first,
            row_count: 0,
            found: program.variables.iter().position(|v| v.name.as_deref() == Some("found")),
            handled: vec![],
            fields: Default::default(),
            casts: Default::default(),
            limits,
            path: self.search_path.clone(),
            temporary: self.temporary.clone(),
            queries: Default::default(),
            columns,
            given: vec![],
            given_bytes: 0,
            taken: self.memory.nothing(),
        }))
    }

    /// From its beginning to its end, with these arguments; what it returns is given.
    pub(super) async fn run_once(
        &mut self,
        running: &mut Running<'_>,
        signature: &Signature,
        values: Vec<Text>,
    ) -> Result<()> {
        let program = running.program;
        running.begin(program.arguments.iter().copied().zip(values));
        let returns = !running.columns.is_empty();
        let before = running.given.len();
        let given = match program.gives_last {
            true => {
                self.last_rows(running, signature.set).await?;
                None
            }
            false => match self.block(running, &program.block).await? {
                Flow::Return(value) => value,
                Flow::Next if !returns || signature.set || !program.outputs.is_empty() => None,
                Flow::Next => {
                    return Err(ExecError::sql(
                        sqlstate::S_R_E_FUNCTION_EXECUTED_NO_RETURN_STATEMENT,
                        "control reached end of function without RETURN",
                    ));
                }
                Flow::Jump(_) => return Err(ExecError::internal("a jump out of a function")),
            },
        };
        if signature.set || running.given.len() > before {
            return Ok(());
        }
        let row = match (&running.columns[..], given) {
            _ if !program.outputs.is_empty() && !program.gives_last => running.outputs(),
            // As PostgreSQL: of a function in SQL it is NULL.
            ([], _) => vec![text("").filter(|_| !program.gives_last)],
            ([(oid, name)], Some(value)) => {
                let (oid, name) = (*oid, name.clone());
                vec![self.converted(running, value, oid, &name).await?]
            }
            (columns, _) => vec![None; columns.len()],
        };
        self.give(running, row)
    }

    /// The transaction was begun so that all statements see what is there at one moment.
    fn reads_repeatably(&self) -> bool {
        let said: Vec<String> = std::iter::once(self.transaction.last_begin())
            .chain(self.transaction.manners())
            .map(str::to_ascii_lowercase)
            .collect();
        let is = |words: &[&str]| said.iter().any(|s| words.iter().any(|w| s.contains(w)));
        is(&["repeatable read", "serializable"]) && !is(&["committed"])
    }

    /// Tells the client the result.
    pub(super) async fn tell_rows(
        &mut self,
        rows: &[Vec<Text>],
        fields: &[Field],
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let tag = format!("SELECT {}", rows.len());
        if bound.is_none_or(|b| (0..fields.len()).all(|i| b.result_format(i) == 0)) {
            if bound.is_none() {
                self.io.tell(Answer::Columns(fields));
            }
            for row in rows {
                let values: Vec<Option<&[u8]>> = row.iter().map(Option::as_deref).collect();
                self.io.tell(Answer::Row(&values));
                self.io.relieve().await?;
            }
            return Ok(Forwarded { tag, ..Default::default() });
        }
        // In binary PostgreSQL writes them.
        let names = self.work().type_names(fields).await?;
        let less = bound.map(Bound::without_values);
        for some in rows.chunks(ROWS_AT_ONCE) {
            let mut selects = Vec::with_capacity(some.len());
            for row in some {
                let values: Result<Vec<String>> =
                    row.iter().zip(&names).map(|(v, name)| Ok(format!("CAST({} AS {name})", literal(v)?))).collect();
                selects.push(format!("SELECT {}", values?.join(", ")));
            }
            self.on_home_bound(&selects.join(" UNION ALL "), less.as_ref()).await?;
        }
        Ok(Forwarded { tag, ..Default::default() })
    }

    /// A variable begins, with its first value.
    pub(super) async fn begin_variable(&mut self, running: &mut Running<'_>, at: usize) -> Result<()> {
        let variable = &running.program.variables[at];
        match &mut running.held[at] {
            Held::Value { text, .. } => *text = None,
            Held::Any(value) => value.text = None,
            Held::Record(columns) => *columns = None,
        }
        match &variable.first {
            Some(e) => self.assign_expression(running, at, e).await,
            None if variable.not_null => {
                let message = format!("variable \"{}\" must have a default value", running.name_of(at));
                Err(ExecError::sql(sqlstate::NULL_VALUE_NOT_ALLOWED, message))
            }
            None => Ok(()),
        }
    }

    /// RETURN NEXT
    pub(super) async fn return_next(&mut self, running: &mut Running<'_>, e: Option<&Expression>) -> Result<()> {
        let row = match e {
            None => running.outputs(),
            Some(e) => {
                let [(oid, name)] = &running.columns[..] else {
                    let message = "wrong result type supplied in RETURN NEXT";
                    return Err(ExecError::sql(sqlstate::DATATYPE_MISMATCH, message));
                };
                let (oid, name) = (*oid, name.clone());
                let value = self.value_of(running, e).await?;
                vec![self.converted(running, value, oid, &name).await?]
            }
        };
        self.give(running, row)
    }

    /// RETURN QUERY
    pub(super) async fn return_rows(&mut self, running: &mut Running<'_>, query: &Query) -> Result<()> {
        let rows = self.run_query(running, query).await?;
        let differ = |detail: String| {
            let message = "structure of query does not match function result type";
            ExecError::Sql(Box::new(ErrorFields::error(sqlstate::DATATYPE_MISMATCH, message).detail(detail)))
        };
        let (is, should) = (rows.fields.len(), running.columns.len());
        if let Some(i) = (0..is.min(should)).find(|i| rows.fields[*i].type_oid != running.columns[*i].0) {
            let name = self.work().type_names(&rows.fields[i..=i]).await?.pop().unwrap_or_default();
            return Err(differ(format!(
                "Returned type {name} does not match expected type {} in column \"{}\" (position {}).",
                running.columns[i].1,
                running.column_name(i, &rows.fields[i].name),
                i + 1
            )));
        }
        if is != should {
            return Err(differ(format!(
                "Number of returned columns ({is}) does not match expected column count ({should})."
            )));
        }
        let count = rows.rows.len();
        for row in rows.rows {
            self.give(running, row)?;
        }
        running.count(count as u64);
        Ok(())
    }

    /// A row more of the result, as long as there is room.
    fn give(&mut self, running: &mut Running<'_>, row: Vec<Text>) -> Result<()> {
        running.given_bytes += row.iter().map(|v| v.as_ref().map_or(0, Bytes::len) + size_of::<Text>()).sum::<usize>();
        running.taken.grow_to(running.given_bytes)?;
        running.given.push(row);
        Ok(())
    }

    /// The last statement's rows are the function's: the first, or all.
    async fn last_rows(&mut self, running: &mut Running<'_>, set: bool) -> Result<()> {
        let mut last = None;
        let program = running.program;
        for step in &program.block.steps {
            let Step::Run { statement, .. } = step else { continue };
            running.limits.check()?;
            self.unless_cancelled()?;
            last = Some(self.run_query(running, statement).await?);
        }
        let Some(mut rows) = last.filter(|_| !running.columns.is_empty()) else { return Ok(()) };
        if rows.fields.len() != running.columns.len() {
            return Err(ExecError::internal("a function's last statement has other columns than the function"));
        }
        if !set {
            rows.rows.truncate(1);
        }
        for row in rows.rows {
            let mut values = Vec::with_capacity(row.len());
            for (i, text) in row.into_iter().enumerate() {
                let (oid, name) = running.columns[i].clone();
                let value = Value { oid: rows.fields[i].type_oid, text };
                values.push(self.converted(running, value, oid, &name).await?);
            }
            self.give(running, values)?;
        }
        Ok(())
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
        let collated = |at: &usize| signature.collated.get(*at).is_some_and(|c| *c);
        let mut pairs = arguments.iter().zip(&program.arguments);
        pairs.any(|(value, at)| collated(at) && sql::search::any(value, is_volatile))
    }

    /// The types of variables that say one, with the names that they are cast by; none where that is not a plain one.
    async fn types(&mut self, program: &Program) -> Result<Vec<Option<(u32, String)>>> {
        let mut questions = vec![];
        for (at, variable) in program.variables.iter().enumerate() {
            match &variable.kind {
                Kind::Type(name) => questions.push(format!(
                    "SELECT {at}, pg_catalog.to_regtype({})::pg_catalog.oid, -1",
                    catalog::quote_literal(name)
                )),
                Kind::Column(table, column) => questions.push(format!(
                    "SELECT {at}, a.atttypid, a.atttypmod FROM pg_catalog.pg_attribute a \
                     WHERE a.attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({})::pg_catalog.oid \
                     AND a.attname OPERATOR(pg_catalog.=) ANY (pg_catalog.parse_ident({})) AND a.attnum OPERATOR(pg_catalog.>) 0",
                    catalog::quote_literal(table),
                    catalog::quote_literal(column)
                )),
                Kind::Record | Kind::Own => {}
            }
        }
        let mut types = vec![None; program.variables.len()];
        if questions.is_empty() {
            return Ok(types);
        }
        // Of text with a length, an assignment refuses what a cast would cut off.
        let sql = format!(
            "SELECT v.at, t.oid, pg_catalog.format_type(t.oid, CASE WHEN v.modifier OPERATOR(pg_catalog.>=) 0 THEN v.modifier ELSE -1 END) FROM ({}) AS v (at, type, modifier) \
             JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) v.type \
             WHERE t.typtype OPERATOR(pg_catalog.=) ANY (ARRAY['b', 'e', 'r']::pg_catalog.\"char\"[]) \
             AND (v.modifier OPERATOR(pg_catalog.<) 0 OR t.typcategory OPERATOR(pg_catalog.=) ANY (ARRAY['N', 'D']::pg_catalog.\"char\"[])) \
             AND NOT (t.oid OPERATOR(pg_catalog.=) 18 OR t.typname OPERATOR(pg_catalog.~) '^reg')",
            questions.join(" UNION ALL ")
        );
        for row in self.asked(&sql).await? {
            let of = |i: usize| {
                row.get(i).cloned().flatten().and_then(|v| String::from_utf8(v.to_vec()).ok()).unwrap_or_default()
            };
            if let (Ok(at), Ok(oid)) = (of(0).parse::<usize>(), of(1).parse()) {
                types[at] = Some((oid, of(2)));
            }
        }
        Ok(types)
    }
}

/// What made it, read again.
pub fn definition(routine: &catalog::code::Routine) -> Option<NodeEnum> {
    sql::parse(&routine.definition, true).ok().and_then(|mut s| s.pop())
}

/// Statements about rows, and nothing else; where it must `only` read, queries.
pub fn only_rows(program: Program, only: bool) -> std::result::Result<Program, &'static str> {
    let all = program.expressions();
    if !all.iter().all(|e| is_about_rows(&e.tree)) {
        return Err("runs statements that are neither queries nor changes of rows");
    }
    let reads = |e: &&Expression| match &*e.tree {
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
