//! A call, and a DO block: what runs, with which values, and what the client is told at its end.

use std::time::Instant;

use exec::{Bound, ExecError, Forwarded, bind_tail};
use plan::programs;
use sql::NodeEnum;
use sql::ast;
use sql::program::{Kind, Program};
use wire::{sqlstate, type_oid};

use super::run::{literal, text};
use super::{Flow, Held, Running, Text, Value};
use crate::session::{Result, Session};

/// Programs in each other.
const DEPTH_MAX: u8 = 30;

/// What the catalog says of a function or procedure.
struct Signature {
    arguments: Vec<(u32, String)>,
    /// None: it returns nothing.
    returns: Option<(u32, String)>,
}

impl Session {
    /// Runs it statement by statement. `refusal`: why it can't be run whole, which is told where it can't be run so, either.
    pub(crate) async fn by_steps(
        &mut self,
        statement: &NodeEnum,
        bound: Option<&Bound>,
        refusal: ExecError,
    ) -> Result<Forwarded> {
        let names = self.names();
        let call = match statement {
            NodeEnum::DoStmt(_) => None,
            _ => match programs::call(statement, &names) {
                Some(call) => Some((call.routine.clone(), call.arguments.to_vec(), call.column.to_string())),
                None => return Err(refusal),
            },
        };
        let read = match &call {
            None => Program::of(statement),
            Some((routine, ..)) => match sql::parse(&routine.definition, true).ok().and_then(|mut s| s.pop()) {
                Some(definition) => Program::of(&definition),
                None => return Err(refusal),
            },
        };
        let columns = |rv: &ast::RangeVar| {
            let relation = self.names().relation(rv)?.clone();
            Some(relation.columns.iter().map(|c| c.name.clone()).collect())
        };
        let resolved = read.and_then(|mut program| program.resolve(&columns).map(|()| program));
        let program = match resolved.and_then(only_rows) {
            Ok(program) => program,
            Err(why) => return Err(unless_known(refusal, why)),
        };
        if self.nesting >= DEPTH_MAX {
            return Err(ExecError::sql(sqlstate::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .hint("Functions that run over several nodes call each other too deep."));
        }
        self.nesting += 1;
        if !self.transaction.is_active() {
            self.transaction.begin("BEGIN", false);
        }
        let done = Box::pin(self.run_program(&program, call, bound, refusal)).await;
        self.nesting -= 1;
        done
    }

    async fn run_program(
        &mut self,
        program: &Program,
        call: Option<(catalog::code::Routine, Vec<ast::Node>, String)>,
        bound: Option<&Bound>,
        refusal: ExecError,
    ) -> Result<Forwarded> {
        let limits = self.work().limits_beside(Instant::now()).await?;
        let signature = match &call {
            None => Signature { arguments: vec![], returns: None },
            Some((routine, ..)) => match self.signature(routine.oid).await? {
                Ok(signature) => signature,
                Err(why) => return Err(unless_known(refusal, why)),
            },
        };
        if signature.arguments.len() != program.arguments {
            return Err(refusal);
        }
        let types = self.types(program).await?;
        let mut running = Running {
            program,
            held: Vec::with_capacity(program.variables.len()),
            row_count: 0,
            found: None,
            handled: vec![],
            fields: Default::default(),
            casts: Default::default(),
            limits,
            blocks: 0,
        };
        for (at, variable) in program.variables.iter().enumerate() {
            running.held.push(match (&variable.kind, signature.arguments.get(at)) {
                (_, Some((oid, name))) => Held::Value { oid: *oid, name: name.clone(), text: None },
                (Kind::Record, None) => Held::Record(None),
                (Kind::Own, None) => Held::Any(Value::default()),
                (Kind::Type(_) | Kind::Column(..), None) => match types.get(at).cloned().flatten() {
                    Some((oid, name)) => Held::Value { oid, name, text: None },
                    None => return Err(unless_known(refusal, "has variables of types that are not understood")),
                },
            });
        }
        running.found = program.variables.iter().position(|v| v.name.as_deref() == Some("found"));
        running.set_found(false);
        if let Some((_, arguments, _)) = &call {
            let values = self.arguments(arguments, &signature, bound).await?;
            for (held, value) in running.held.iter_mut().zip(values) {
                if let Held::Value { text, .. } = held {
                    *text = value;
                }
            }
        }
        for (at, variable) in program.variables.iter().enumerate() {
            match &variable.first {
                Some(e) => {
                    let value = self.value_of(&mut running, e).await?;
                    self.assign(&mut running, at, value).await?;
                }
                None if variable.not_null => {
                    let message = format!("variable \"{}\" must have a default value", running.name_of(at));
                    return Err(ExecError::sql(sqlstate::NULL_VALUE_NOT_ALLOWED, message));
                }
                None => {}
            }
        }
        let given = match program.gives_last {
            true => self.last_value(&mut running, signature.returns.is_some()).await?,
            false => match self.block(&mut running, &program.block).await? {
                Flow::Return(value) => value,
                Flow::Next if signature.returns.is_none() => None,
                Flow::Next => {
                    return Err(ExecError::sql(
                        sqlstate::S_R_E_FUNCTION_EXECUTED_NO_RETURN_STATEMENT,
                        "control reached end of function without RETURN",
                    ));
                }
                Flow::Jump(_) => return Err(ExecError::internal("a jump out of a function")),
            },
        };
        let Some((_, _, column)) = &call else {
            return Ok(Forwarded { tag: "DO".into(), ..Default::default() });
        };
        if column.is_empty() {
            return Ok(Forwarded { tag: "CALL".into(), ..Default::default() });
        }
        let (name, value) = match signature.returns {
            // As PostgreSQL: of a function in SQL it is NULL.
            None => ("pg_catalog.void".to_string(), text("").filter(|_| !program.gives_last)),
            Some((oid, name)) => {
                let value = match given {
                    Some(value) => self.converted(&mut running, value, oid, &name).await?,
                    None => None,
                };
                (name, value)
            }
        };
        let sql = format!("SELECT CAST({} AS {name}) AS {}", literal(&value)?, catalog::quote_ident(column));
        let less = bound.map(Bound::without_values);
        self.on_home_bound(&sql, less.as_ref()).await
    }

    /// The value of the last statement, which is the function's.
    async fn last_value(&mut self, running: &mut Running<'_>, returns: bool) -> Result<Option<Value>> {
        let mut last = None;
        let program = running.program;
        for step in &program.block.steps {
            let sql::program::Step::Run { statement, .. } = step else { continue };
            running.limits.check()?;
            last = Some(self.rows_given(running, statement).await?);
        }
        let Some(mut rows) = last.filter(|_| returns) else { return Ok(None) };
        let Some(field) = rows.fields.first().filter(|_| rows.fields.len() == 1) else { return Ok(None) };
        let oid = field.type_oid;
        rows.rows.truncate(1);
        Ok(rows.rows.pop().map(|row| Value { oid, text: row.into_iter().next().flatten() }))
    }

    /// What it is given, as values of the arguments' types.
    async fn arguments(
        &mut self,
        arguments: &[ast::Node],
        signature: &Signature,
        bound: Option<&Bound>,
    ) -> Result<Vec<Text>> {
        if arguments.is_empty() {
            return Ok(vec![]);
        }
        let mut values = Vec::with_capacity(arguments.len());
        for (value, (_, name)) in arguments.iter().zip(&signature.arguments) {
            values.push(format!("CAST({} AS {name})", sql::deparse_expr(value)?));
        }
        let sql = format!("SELECT {}", values.join(", "));
        let tree = sql::parse(&sql, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let mut given = bound.cloned().unwrap_or_default();
        given.result_formats.clear();
        given.tail = bind_tail(&given);
        let (mut rows, _) = self.nested(&tree, &sql, &given).await?;
        Ok(rows.pop().unwrap_or_default())
    }

    /// What the catalog says of it; or why it can't be run.
    async fn signature(&mut self, oid: u32) -> Result<std::result::Result<Signature, &'static str>> {
        let sql = format!(
            "SELECT p.prosecdef OR p.proisstrict OR p.proretset OR p.proconfig IS NOT NULL OR p.provariadic OPERATOR(pg_catalog.<>) 0, \
             pg_catalog.has_function_privilege(p.oid, 'EXECUTE'), p.prorettype, pg_catalog.format_type(p.prorettype, NULL), \
             r.typtype OPERATOR(pg_catalog.=) ANY (ARRAY['b', 'e', 'r']::pg_catalog.\"char\"[]), p.proname, \
             a.type, pg_catalog.format_type(a.type, NULL) FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_type r ON r.oid OPERATOR(pg_catalog.=) p.prorettype \
             LEFT JOIN pg_catalog.unnest(p.proargtypes) WITH ORDINALITY AS a (type, n) ON true \
             WHERE p.oid OPERATOR(pg_catalog.=) {oid} ORDER BY a.n"
        );
        let rows = self.asked(&sql).await?;
        let of = |row: &[Text], i: usize| {
            row.get(i).cloned().flatten().and_then(|v| String::from_utf8(v.to_vec()).ok()).unwrap_or_default()
        };
        let Some(first) = rows.first() else { return Ok(Err("is not there any more")) };
        if of(first, 1) != "t" {
            let message = format!("permission denied for function {}", of(first, 5));
            return Err(ExecError::sql(sqlstate::INSUFFICIENT_PRIVILEGE, message));
        }
        if of(first, 0) != "f" {
            return Ok(Err("is SECURITY DEFINER or STRICT, has settings of its own, or returns a set"));
        }
        let number = |row: &[Text], i: usize| of(row, i).parse::<u32>().unwrap_or(0);
        let returns = match number(first, 2) {
            type_oid::VOID | 0 => None,
            _ if of(first, 4) != "t" => return Ok(Err("returns a row, a domain or a pseudo-type")),
            oid => Some((oid, of(first, 3))),
        };
        let arguments = rows.iter().filter(|row| number(row, 6) != 0).map(|row| (number(row, 6), of(row, 7)));
        Ok(Ok(Signature { arguments: arguments.collect(), returns }))
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
            "SELECT v.at, t.oid, pg_catalog.format_type(t.oid, NULLIF(v.modifier, -1)) FROM ({}) AS v (at, type, modifier) \
             JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) v.type \
             WHERE t.typtype OPERATOR(pg_catalog.=) ANY (ARRAY['b', 'e', 'r']::pg_catalog.\"char\"[]) \
             AND (v.modifier OPERATOR(pg_catalog.<) 0 OR t.typcategory OPERATOR(pg_catalog.=) ANY (ARRAY['N', 'D', 'T']::pg_catalog.\"char\"[]))",
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

/// Statements about rows, and nothing else.
fn only_rows(program: Program) -> std::result::Result<Program, &'static str> {
    use sql::NodeEnum::{DeleteStmt, InsertStmt, MergeStmt, SelectStmt, UpdateStmt};
    let is_rows = |tree: &NodeEnum| match tree {
        SelectStmt(s) => s.into_clause.is_none(),
        InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) => true,
        _ => false,
    };
    match program.expressions().iter().all(|e| is_rows(&e.tree)) {
        true => Ok(program),
        false => Err("runs statements that are neither queries nor changes of rows"),
    }
}

/// The refusal, with why it can't be run statement by statement.
fn unless_known(refusal: ExecError, why: &str) -> ExecError {
    match refusal {
        ExecError::Refused(mut r) => {
            r.message = format!("{} (and can't be run statement by statement: it {why})", r.message);
            ExecError::Refused(r)
        }
        other => other,
    }
}
