//! One statement of a program: it runs as if the client had sent it, and its rows come back here.

use bytes::Bytes;
use exec::{Bound, ExecError, bind_tail};
use sql::NodeEnum;
use sql::program::{Ex, Expression, Query, Slot, Target, conditions};
use wire::backend::Field;
use wire::{ErrorFields, backend, frame, sqlstate};

use super::expanded::{Expanded, expanded};
use super::records::of_field;
use super::types::Type;
use super::{Rows, Running, Text, Value};
use crate::session::{Result, Session};

/// Statements whose columns a program remembers, and the longest of them, in bytes.
const FIELDS_MAX: usize = 1000;
const FIELDS_TEXT_MAX: usize = 64 << 10;

/// What a handler catches of errors: none of the router's own refusals (PostgreSQL would not have raised them), nor what ends sessions.
pub fn is_handled(error: &ExecError, states: &[Option<String>]) -> bool {
    match error {
        ExecError::Sql(fields) | ExecError::Pool(pool::PoolError::Server(fields)) => is_caught(fields.code(), states),
        _ => false,
    }
}

fn is_caught(state: &str, states: &[Option<String>]) -> bool {
    // Not by OTHERS.
    if state == sqlstate::QUERY_CANCELED {
        return states.iter().flatten().any(|condition| conditions::is(state, condition));
    }
    // Not supported here, out of room, the node is gone, internal.
    if ["0A", "08", "53", "54", "57", "58", "XX"].contains(&state.get(..2).unwrap_or("XX")) {
        return false;
    }
    states.iter().any(|s| match s {
        None => state != sqlstate::ASSERT_FAILURE,
        Some(condition) => conditions::is(state, condition),
    })
}

impl Session {
    /// The rows of what is run.
    pub(super) async fn run_query(&mut self, running: &mut Running<'_>, query: &Query) -> Result<Rows> {
        let (text, using) = match query {
            Query::Static(e) => {
                let e = running.expression(*e)?;
                return self.rows_given(running, &e).await;
            }
            Query::Dynamic(text, using) => (*text, using),
        };
        let (tree, text, values) = self.put_together(running, text, using).await?;
        if !is_about_rows(&tree) && !is_utility(&tree) {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "EXECUTE of other statements than those about rows, tables, indexes and views is not supported in a function that runs over \
                 several nodes",
            )
            .hint("Send that statement by itself."));
        }
        self.run_with(running, &tree, &text, values).await
    }

    /// The statement that EXECUTE runs, with its values.
    pub(super) async fn put_together(
        &mut self,
        running: &mut Running<'_>,
        text: Ex,
        using: &[Ex],
    ) -> Result<(NodeEnum, String, Vec<Value>)> {
        let text = self.value(running, text).await?;
        let Some(text) = text.text else {
            let message = "query string argument of EXECUTE is null";
            return Err(ExecError::sql(sqlstate::NULL_VALUE_NOT_ALLOWED, message));
        };
        let text = std::str::from_utf8(&text).map_err(|_| ExecError::internal("a text is no text"))?.to_string();
        let mut values = Vec::with_capacity(using.len());
        for e in using {
            values.push(self.value(running, *e).await?);
        }
        // No room is waited for: its program may have some.
        self.can_be_read(&text)?;
        let mut trees = sql::parse(&text, self.standard_conforming_strings())?;
        match (trees.pop(), trees.pop()) {
            (Some(tree), None) => Ok((tree, text, values)),
            _ => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "EXECUTE of several statements at once is not supported in a function that runs over several nodes",
            )
            .hint("EXECUTE them one by one.")),
        }
    }

    /// A statement with the values of what it names.
    pub(super) fn with_values(&self, running: &Running<'_>, e: Ex) -> Result<(NodeEnum, String, Vec<Value>)> {
        let e = &*running.expression(e)?;
        if let Some(Expanded { tree, text, values }) = expanded(e, running)? {
            return Ok((tree, text, values));
        }
        let values = e.uses.iter().map(|slot| running.slot(slot)).collect::<Result<Vec<_>>>()?;
        Ok(((*e.tree).clone(), e.text.clone(), values))
    }

    /// A statement's rows.
    pub(super) async fn rows_given(&mut self, running: &mut Running<'_>, e: &Expression) -> Result<Rows> {
        if let Some(Expanded { tree, text, values }) = expanded(e, running)? {
            return self.run_with(running, &tree, &text, values).await;
        }
        let values = e.uses.iter().map(|slot| running.slot(slot)).collect::<Result<Vec<_>>>()?;
        self.run_with(running, &e.tree, &e.text, values).await
    }

    /// Names mean what they meant when it began, and strings what they were read as.
    pub(super) async fn of_its_path(&mut self, running: &Running<'_>) -> Result<()> {
        if running.program.has_backslash && !self.standard_conforming_strings() {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "a function that runs over several nodes and has strings with backslashes needs standard_conforming_strings",
            )
            .hint("SET standard_conforming_strings = on, or write E'…' where backslashes are escapes."));
        }
        self.settle_path().await?;
        if *self.search_path != *running.path || self.temporary != running.temporary {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "a function that runs over several nodes can't change what its names mean (search_path, temporary tables)",
            )
            .hint("Set search_path before, or name tables with their schemas."));
        }
        Ok(())
    }

    /// What a statement gives, which is asked for once.
    pub(super) async fn fields(&mut self, running: &mut Running<'_>, text: &str, types: &[u32]) -> Result<Vec<Field>> {
        let key = (text.to_string(), types.to_vec());
        if let Some(fields) = running.fields.get(&key) {
            return Ok(fields.clone());
        }
        let fields = self.work().describe_text(text, types).await?.fields.unwrap_or_default();
        // A program may put together another text each time.
        if running.fields.len() >= FIELDS_MAX {
            running.fields.clear();
        }
        if text.len() <= FIELDS_TEXT_MAX {
            running.fields.insert(key, fields.clone());
        }
        Ok(fields)
    }

    async fn run_with(
        &mut self,
        running: &mut Running<'_>,
        tree: &NodeEnum,
        text: &str,
        values: Vec<Value>,
    ) -> Result<Rows> {
        self.of_its_path(running).await?;
        let types: Vec<u32> = values.iter().map(|v| v.oid).collect();
        let fields = self.fields(running, text, &types).await?;
        self.may_come(&fields).await?;
        let mut bound = Bound { types: types.into(), ..Bound::default() };
        bound.values = values.into_iter().map(|v| v.text).collect();
        bound.tail = bind_tail(&bound);
        let rows = self.nested(tree, text, &bound).await?;
        if is_utility(tree) {
            self.names_anew(running).await?;
        }
        Ok(Rows { fields, ..rows })
    }

    /// Values come here and go back as text: what that would change is refused.
    pub(super) async fn may_come(&mut self, fields: &[Field]) -> Result<()> {
        if fields.is_empty() || self.all_may_come() {
            return Ok(());
        }
        let mut work = self.work();
        let types = work.type_names(fields).await?;
        work.travel_made_of(types.iter().map(String::as_str).collect()).await
    }

    /// Values of any type.
    pub(super) fn all_may_come(&mut self) -> bool {
        self.work().travel_whole(std::iter::once("any")).is_ok()
    }

    /// Runs a statement inside of another.
    pub(super) async fn nested(&mut self, tree: &NodeEnum, text: &str, bound: &Bound) -> Result<Rows> {
        Box::pin(self.newest_epoch()).await?;
        self.io.catch(self.memory.nothing());
        let done = self.one_inside(tree, text, bound).await;
        let (answer, taken) = self.io.caught();
        let answer = answer.freeze();
        let mut rows = vec![];
        let mut at = 0;
        while let Ok(Some((tag, len))) = frame::peek(&answer[at..], frame::NODE_MAX) {
            let message = answer.slice(at..at + len);
            match tag {
                b'D' => {
                    let body = message.slice(frame::HEADER_LEN..);
                    let values = backend::parse_data_row(&body).map_err(|e| ExecError::internal(e.to_string()))?;
                    rows.push(values.into_iter().map(|v| v.map(|v| body.slice_ref(v))).collect());
                }
                b'T' => {}
                // Notices, above all.
                _ => self.io.out().extend_from_slice(&message),
            }
            at += len;
        }
        // What it said before it failed is told, too.
        let tag = done?;
        let values = rows.first().map_or(0, Vec::len) + 1;
        let mut taken = taken.unwrap_or_else(|| self.memory.nothing());
        taken.grow_to(answer.len() + rows.len() * values * size_of::<Text>())?;
        Ok(Rows { fields: vec![], rows, tag, _taken: Some(taken) })
    }

    async fn one_inside(&mut self, tree: &NodeEnum, text: &str, bound: &Bound) -> Result<String> {
        let decided = self.decide(tree, &bound.types)?;
        if !decided.lasts() {
            return Box::pin(self.run_tree(tree, decided, text, Some(bound))).await.map(|f| f.tag);
        }
        drop(decided);
        let compiled = match self.epoch.by_text(self.context, text, &bound.types) {
            Some(compiled) => compiled,
            None => Box::pin(self.planned(tree, text, &bound.types)).await?,
        };
        Box::pin(self.run(&compiled, text, Some(bound))).await.map(|f| f.tag)
    }

    /// The value of an expression.
    pub(super) async fn value(&mut self, running: &mut Running<'_>, e: Ex) -> Result<Value> {
        let e = running.expression(e)?;
        self.value_of(running, &e).await
    }

    pub(super) async fn value_of(&mut self, running: &mut Running<'_>, e: &Expression) -> Result<Value> {
        let mut rows = self.rows_given(running, e).await?;
        let [field] = &rows.fields[..] else {
            let message = format!("query returned {} columns", rows.fields.len());
            return Err(ExecError::sql(sqlstate::SYNTAX_ERROR, message));
        };
        if rows.rows.len() > 1 {
            return Err(ExecError::sql(sqlstate::CARDINALITY_VIOLATION, "query returned more than one row"));
        }
        // PL/pgSQL runs it as a query, whose rows ROW_COUNT tells.
        if running.program.counts() && self.is_query(running, e).await? {
            running.row_count = rows.rows.len() as u64;
        }
        let text = rows.rows.pop().and_then(|row| row.into_iter().next()).flatten();
        Ok(of_field(field, kept(text.as_ref())))
    }

    /// An expression that PL/pgSQL does not evaluate as one, but runs as a query (`exec_simple_check_plan` in pl_exec.c).
    async fn is_query(&mut self, running: &mut Running<'_>, e: &Expression) -> Result<bool> {
        if has_clauses(&e.tree) {
            return Ok(true);
        }
        if let Some(known) = running.queries.get(&e.text) {
            return Ok(*known);
        }
        let mut called = std::collections::BTreeSet::new();
        sql::search::each(&*e.tree, |n| {
            if let NodeEnum::FuncCall(f) = n {
                called.insert(catalog::quote_literal(sql::names::last(&f.funcname)));
            }
        });
        let is = match called.is_empty() {
            true => false,
            false => {
                let names: Vec<String> = called.into_iter().collect();
                let sql = format!(
                    "SELECT pg_catalog.count(*) FROM pg_catalog.pg_proc p WHERE (p.prokind OPERATOR(pg_catalog.<>) 'f' OR p.proretset) \
                     AND p.proname OPERATOR(pg_catalog.=) ANY (ARRAY[{}]::pg_catalog.name[])",
                    names.join(", ")
                );
                let row = self.asked(&sql).await?.pop().unwrap_or_default();
                row.first().and_then(|v| v.as_deref()) != Some(b"0")
            }
        };
        running.queries.insert(e.text.clone(), is);
        Ok(is)
    }

    /// A condition; NULL is not true.
    pub(super) async fn is_true(&mut self, running: &mut Running<'_>, e: Ex) -> Result<bool> {
        let value = self.value(running, e).await?;
        let value = self.converted(running, value, &Type::plain(wire::type_oid::BOOL, "pg_catalog.bool")).await?;
        Ok(value.is_some_and(|v| &*v == b"t"))
    }

    /// A number; `null`: what is said of NULL.
    pub(super) async fn number(&mut self, running: &mut Running<'_>, e: Ex, null: &str) -> Result<i32> {
        let value = self.value(running, e).await?;
        let text = self.converted(running, value, &Type::plain(wire::type_oid::INT4, "pg_catalog.int4")).await?;
        let Some(text) = text else { return Err(ExecError::sql(sqlstate::NULL_VALUE_NOT_ALLOWED, null)) };
        let number = std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok());
        number.ok_or_else(|| ExecError::internal("no number"))
    }

    /// A row into a row's variable, or its columns into others; NULLs where there is none.
    pub(super) async fn put(
        &mut self,
        running: &mut Running<'_>,
        target: &Target,
        fields: &[Field],
        row: Option<&Vec<Text>>,
    ) -> Result<()> {
        let value = |i: usize| {
            let text = kept(row.and_then(|row| row.get(i)?.as_ref()));
            fields.get(i).map_or_else(|| Value::new(wire::type_oid::TEXT, None), |f| of_field(f, text))
        };
        if let [only] = &target[..]
            && only.field.is_none()
            && running.held[only.variable].is_row()
        {
            let columns = fields.iter().enumerate().map(|(i, f)| (f.name.clone(), value(i))).collect();
            return self.put_row(running, only.variable, Some(columns)).await;
        }
        for (i, place) in target.iter().enumerate() {
            self.assign_place(running, place, value(i)).await?;
        }
        Ok(())
    }

    /// What a statement gave, where it is to go.
    pub(super) async fn into(
        &mut self,
        running: &mut Running<'_>,
        statement: &Query,
        rows: &Rows,
        into: Option<&Target>,
        strict: bool,
    ) -> Result<()> {
        let e = match statement {
            Query::Static(e) => Some(running.expression(*e)?),
            Query::Dynamic(..) => None,
        };
        let tree = e.as_ref().map(|e| &*e.tree);
        let is_query = matches!(tree, Some(NodeEnum::SelectStmt(_)));
        let mut count = backend::rows_of_tag(&rows.tag);
        match into {
            None if tree.is_some() && (is_query || !rows.fields.is_empty()) && !running.program.gives_last => {
                let e = ExecError::sql(sqlstate::SYNTAX_ERROR, "query has no destination for result data");
                return Err(match is_query {
                    true => e.hint("If you want to discard the results of a SELECT, use PERFORM instead."),
                    false => e,
                });
            }
            None => {}
            Some(_) if rows.fields.is_empty() => {
                let message = "INTO used with a command that cannot return data";
                return Err(ExecError::sql(sqlstate::SYNTAX_ERROR, message));
            }
            Some(_) if strict && rows.rows.is_empty() => {
                let fields = ErrorFields::error(sqlstate::NO_DATA_FOUND, "query returned no rows");
                return Err(ExecError::Sql(Box::new(running.with_parameters(statement, fields)?)));
            }
            Some(_) if rows.rows.len() > 1 && (strict || tree.is_some() && !is_query) => {
                let fields = ErrorFields::error(sqlstate::TOO_MANY_ROWS, "query returned more than one row")
                    .hint("Make sure the query returns a single row, or use LIMIT 1.");
                return Err(ExecError::Sql(Box::new(running.with_parameters(statement, fields)?)));
            }
            Some(target) => {
                self.put(running, target, &rows.fields, rows.rows.first()).await?;
                // A query's second row is not asked for.
                if is_query {
                    count = count.min(1);
                }
            }
        }
        running.row_count = count;
        // EXECUTE, and what is not about rows, leave FOUND as it is.
        if tree.is_some_and(|t| is_about_rows(t) && !matches!(t, NodeEnum::TruncateStmt(_))) {
            running.set_found(count > 0);
        }
        Ok(())
    }
}

impl Running<'_> {
    /// An error with the values that its statement was given, where the program asks for that (`#print_strict_params`).
    fn with_parameters(&self, statement: &Query, fields: ErrorFields) -> Result<ErrorFields> {
        let Query::Static(e) = statement else { return Ok(fields) };
        let e = self.expression(*e)?;
        let uses = &e.uses;
        if !self.program.tells_parameters || uses.is_empty() {
            return Ok(fields);
        }
        let mut variables: Vec<usize> = uses.iter().map(|slot| slot.variable()).collect();
        variables.sort_unstable();
        let mut said = Vec::with_capacity(variables.len());
        for at in variables {
            let text = self.slot(&Slot::Variable(at))?.text;
            let text = text.map(|t| String::from_utf8_lossy(&t).replace('\'', "''"));
            let value = text.map_or_else(|| "NULL".to_string(), |t| format!("'{t}'"));
            said.push(format!("{} = {value}", self.name_of(at)));
        }
        Ok(fields.detail(format!("parameters: {}", said.join(", "))))
    }
}

/// What else a program may run: it is as if the client sent it in a transaction.
pub fn is_utility(tree: &NodeEnum) -> bool {
    use sql::NodeEnum::{
        AlterTableStmt, CommentStmt, CreateSchemaStmt, CreateSeqStmt, CreateStmt, CreateTableAsStmt, DeclareCursorStmt,
        DropStmt, ExplainStmt, GrantStmt, IndexStmt, RenameStmt, ViewStmt,
    };
    match tree {
        IndexStmt(i) => !i.concurrent,
        DropStmt(d) => !d.concurrent,
        CreateTableAsStmt(c) => !c.is_select_into,
        AlterTableStmt(_) | CommentStmt(_) | CreateSchemaStmt(_) | CreateSeqStmt(_) | CreateStmt(_)
        | DeclareCursorStmt(_) | ExplainStmt(_) | GrantStmt(_) | RenameStmt(_) | ViewStmt(_) => true,
        _ => false,
    }
}

/// What a program may run about rows.
pub fn is_about_rows(tree: &NodeEnum) -> bool {
    use sql::NodeEnum::{DeleteStmt, InsertStmt, MergeStmt, SelectStmt, TruncateStmt, UpdateStmt};
    match tree {
        SelectStmt(s) => s.into_clause.is_none(),
        InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) | TruncateStmt(_) => true,
        _ => false,
    }
}

/// A query's clauses, or a query inside.
fn has_clauses(tree: &NodeEnum) -> bool {
    let NodeEnum::SelectStmt(s) = tree else { return true };
    let plain = s.from_clause.is_empty()
        && s.where_clause.is_none()
        && s.group_clause.is_empty()
        && s.having_clause.is_none()
        && s.limit_count.is_none()
        && s.limit_offset.is_none()
        && s.sort_clause.is_empty()
        && s.distinct_clause.is_empty()
        && s.with_clause.is_none()
        && s.larg.is_none()
        && s.target_list.len() == 1;
    !plain || sql::search::any(tree, |n| matches!(n, NodeEnum::SubLink(_)))
}

/// A value by itself, without the rest of its answer.
fn kept(text: Option<&Bytes>) -> Text {
    text.map(|text| Bytes::copy_from_slice(text))
}

/// A text as a constant.
pub fn literal(text: &Text) -> Result<String> {
    match text {
        None => Ok("NULL".into()),
        Some(text) => {
            let text = std::str::from_utf8(text).map_err(|_| ExecError::internal("a value is no text"))?;
            Ok(catalog::quote_literal(text))
        }
    }
}

/// The same, of bytes.
pub fn text(value: &str) -> Text {
    Some(Bytes::copy_from_slice(value.as_bytes()))
}
