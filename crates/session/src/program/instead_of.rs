//! INSERT, UPDATE and DELETE of a view by INSTEAD OF triggers whose functions use tables of several nodes: the rows are found first, then the
//! functions run for each, one after the other, as PostgreSQL calls them (`ExecIRInsertTriggers` and its kin in trigger.c). What is returned is
//! computed of the rows that they have left. It does not know how a function runs.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use catalog::{Relation, Volatility};
use exec::{Bound, ExecError, Forwarded};
use sql::ast::{self, Node};
use sql::program::Program;
use sql::program::trigger::Trigger;
use sql::{NodeEnum, build, names, search};
use wire::sqlstate;
use wire::type_oid::{INT4, OID, TEXT};

use super::call::{only_rows, unless_known};
use super::records::Columns;
use super::result::Gives;
use super::run::{literal, text};
use super::signature::{Returns, Signature};
use super::types::{RowType, Type};
use super::{Flow, Held, Running, Text, Value};
use crate::session::{Result, Session};

/// pg_trigger.h: TRIGGER_TYPE_ROW and TRIGGER_TYPE_INSTEAD.
const INSTEAD_OF: i32 = 1 | 64;
/// Object ids of types (pg_type.dat).
const NAME: u32 = 19;
const TEXT_ARRAY: u32 = 1009;
/// Rows of which RETURNING is computed at once.
const ROWS_AT_ONCE: usize = 200;

/// What is done to the view.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Insert,
    Update,
    Delete,
}

impl Event {
    fn word(self) -> &'static str {
        match self {
            Event::Insert => "INSERT",
            Event::Update => "UPDATE",
            Event::Delete => "DELETE",
        }
    }

    /// Of `pg_trigger.tgtype`.
    fn bit(self) -> i32 {
        match self {
            Event::Insert => 4,
            Event::Delete => 8,
            Event::Update => 16,
        }
    }
}

/// One of the view's triggers for it.
struct Called {
    name: String,
    function: u32,
    arguments: Vec<Bytes>,
}

/// Its function: the variables NEW and OLD, and how many variables PL/pgSQL gives it.
type Read = (Program, [usize; 2], usize);

/// A row of the view as it was, as it is to be, or both.
struct Row {
    old: Option<Vec<Text>>,
    new: Option<Vec<Text>>,
}

/// The view as the functions meet it.
struct View {
    relation: Arc<Relation>,
    types: Vec<Type>,
    row: Arc<RowType>,
}

impl View {
    fn columns(&self, row: &[Text]) -> Columns {
        let named = self.relation.columns.iter().zip(&self.types).zip(row);
        named
            .map(|((column, ty), text)| {
                (column.name.clone(), Value { modifier: ty.modifier, ..Value::new(ty.oid, text.clone()) })
            })
            .collect()
    }

    /// As NEW or OLD; where there is none its columns are there, and NULL (`plpgsql_exec_trigger` in pl_exec.c).
    fn held(&self, row: Option<&[Text]>) -> Held {
        match row {
            Some(row) => Held::Record(Some(self.columns(row))),
            None => Held::Row(self.row.clone(), None),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.relation.columns.iter().position(|c| c.name == name)
    }
}

impl Session {
    /// `refusal`: why the statement can't be planned, which is told where it can't be run so, either.
    pub(super) async fn instead_of(
        &mut self,
        statement: &NodeEnum,
        sql: &str,
        bound: Option<&Bound>,
        relation: Arc<Relation>,
        refusal: ExecError,
    ) -> Result<Forwarded> {
        let event = match statement {
            NodeEnum::InsertStmt(_) => Event::Insert,
            NodeEnum::UpdateStmt(_) => Event::Update,
            _ => Event::Delete,
        };
        let triggers = self.triggers_of(&relation, event).await?;
        if triggers.is_empty() {
            return Err(refusal);
        }
        let mut programs = Vec::with_capacity(triggers.len());
        for trigger in &triggers {
            let read = self.program_of(trigger.function).map(Trigger::into_parts);
            match read.and_then(|(program, rows, given)| Ok((only_rows(program, false)?, rows, given))) {
                Ok(read) => programs.push(read),
                Err(why) => return Err(unless_known(refusal, why)),
            }
        }
        let refusal = self.may_run(false, refusal).await?;
        self.nesting += 1;
        let done =
            Box::pin(self.for_rows_of_view(statement, sql, bound, relation, event, (triggers, programs), refusal));
        let done = done.await;
        self.nesting -= 1;
        done
    }

    /// In the order in which PostgreSQL calls them.
    async fn triggers_of(&mut self, view: &Relation, event: Event) -> Result<Vec<Called>> {
        let sql = format!(
            "SELECT t.tgname, t.tgfoid::pg_catalog.oid, pg_catalog.encode(t.tgargs, 'hex') FROM pg_catalog.pg_trigger t \
             WHERE t.tgrelid OPERATOR(pg_catalog.=) '{}'::pg_catalog.oid AND NOT t.tgisinternal AND t.tgenabled OPERATOR(pg_catalog.<>) 'D' \
             AND t.tgenabled OPERATOR(pg_catalog.<>) 'R' AND (t.tgtype OPERATOR(pg_catalog.&) '{INSTEAD_OF}'::pg_catalog.int2) OPERATOR(pg_catalog.=) {INSTEAD_OF} \
             AND (t.tgtype OPERATOR(pg_catalog.&) '{}'::pg_catalog.int2) OPERATOR(pg_catalog.<>) 0 ORDER BY t.tgname",
            view.oid,
            event.bit()
        );
        let mut triggers = vec![];
        for row in self.work().ask_home(&sql).await? {
            let [Some(name), Some(function), Some(arguments)] = &row[..] else {
                return Err(ExecError::internal("an unreadable trigger"));
            };
            let arguments = wire::hex::decode(arguments).ok_or_else(|| ExecError::internal("unreadable arguments"))?;
            let mut arguments: Vec<Bytes> = arguments.split(|b| *b == 0).map(Bytes::copy_from_slice).collect();
            arguments.pop();
            let function = function.parse().map_err(|_| ExecError::internal("an unreadable trigger"))?;
            triggers.push(Called { name: name.clone(), function, arguments });
        }
        Ok(triggers)
    }

    fn program_of(&self, function: u32) -> std::result::Result<Trigger, &'static str> {
        let routines = &self.epoch.snapshot.code.routines;
        let routine =
            routines.iter().find(|r| r.oid == function).ok_or("has a trigger whose function can't be read")?;
        if !routine.open || routine.opaque || routine.volatility != Volatility::Volatile {
            return Err(
                "has a trigger whose function is SECURITY DEFINER, has settings of its own, is not VOLATILE, or not everybody's to execute",
            );
        }
        let definition = sql::parse(&routine.definition, true).ok().and_then(|mut s| s.pop());
        let unread = "has a trigger whose function can't be read";
        definition.as_ref().and_then(Trigger::of).ok_or(unread)?
    }

    #[expect(clippy::too_many_arguments, reason = "one statement and what was found out of it")]
    async fn for_rows_of_view(
        &mut self,
        statement: &NodeEnum,
        sql: &str,
        bound: Option<&Bound>,
        relation: Arc<Relation>,
        event: Event,
        (triggers, programs): (Vec<Called>, Vec<Read>),
        refusal: ExecError,
    ) -> Result<Forwarded> {
        let types: &[u32] = bound.map_or(&[], |b| &b.types);
        let described = self.work().describe_text(sql, types).await?;
        let given = Bound { types: described.params[..].into(), ..bound.cloned().unwrap_or_default() };
        if self.work().home_lets(sql, &given, relation.oid).await? {
            let message = format!("cannot execute {} in a read-only transaction", event.word());
            return Err(ExecError::sql(sqlstate::READ_ONLY_SQL_TRANSACTION, message));
        }
        let mut of_view = Vec::with_capacity(relation.columns.len());
        for column in &relation.columns[..] {
            of_view.push(self.type_of(column.type_oid, column.typmod).await?);
        }
        let columns = relation.columns.iter().map(|c| c.name.clone()).zip(of_view.iter().cloned()).collect();
        let row = RowType { name: catalog::qualified(&relation.schema, &relation.name), columns };
        let view = View { relation, types: of_view, row: Arc::new(row) };
        if !self.all_may_come() {
            let types = view.types.iter().map(|t| t.name.as_str()).collect();
            self.work().travel_made_of(types).await?;
        }
        let returning = match statement {
            NodeEnum::InsertStmt(s) => &s.returning_clause,
            NodeEnum::UpdateStmt(s) => &s.returning_clause,
            NodeEnum::DeleteStmt(s) => &s.returning_clause,
            _ => &None,
        };
        if let Some(returning) = returning
            && let Err(why) = self.may_return(returning, statement, &view)
        {
            return Err(unless_known(refusal, why));
        }
        let signature = Signature { parameters: vec![], returns: Returns::Nothing, set: false, strict: false };
        let mut ready = Vec::with_capacity(programs.len());
        for ((program, rows, told), called) in programs.iter().zip(&triggers) {
            let first = match self.begins(program, &signature).await? {
                Ok(first) => first,
                Err(why) => return Err(unless_known(refusal, why)),
            };
            let named = view.relation.columns.iter().map(|c| c.name.clone());
            let gives =
                Gives { columns: named.zip(view.types.iter().cloned()).collect(), row: Some(None), whole: false };
            ready.push((self.running(program, first, gives), (*rows, *told), called));
        }
        let Some((running, ..)) = ready.first_mut() else { return Err(refusal) };
        let given = given.for_columns(vec![]);
        let found = match statement {
            NodeEnum::InsertStmt(s) => self.rows_to_insert(running, s, &view, &given).await?,
            NodeEnum::UpdateStmt(s) => {
                let from = (s.relation.as_ref(), &s.from_clause[..], s.where_clause.as_deref());
                self.rows_to_change(from, Some(&s.target_list), s.with_clause.is_some(), &view, &given).await?
            }
            NodeEnum::DeleteStmt(s) => {
                let from = (s.relation.as_ref(), &s.using_clause[..], s.where_clause.as_deref());
                self.rows_to_change(from, None, s.with_clause.is_some(), &view, &given).await?
            }
            _ => Err("is no write"),
        };
        let (found, _taken) = match found {
            Ok(found) => found,
            Err(why) => return Err(unless_known(refusal, why)),
        };
        let mut count = 0_u64;
        let (mut left, mut kept, mut bytes) = (vec![], self.memory.nothing(), 0);
        for mut row in found {
            self.keep_time().await?;
            let mut goes_on = true;
            for (running, rows, called) in &mut ready {
                goes_on = self.call_trigger(running, *rows, called, &view, event, &mut row).await?;
                if !goes_on {
                    break;
                }
            }
            if goes_on {
                count += 1;
                if returning.is_some() {
                    let row = if event == Event::Delete { row.old } else { row.new }.unwrap_or_default();
                    bytes += row.iter().map(|v| v.as_ref().map_or(0, Bytes::len) + size_of::<Text>()).sum::<usize>();
                    kept.grow_to(bytes)?;
                    left.push(row);
                }
            }
        }
        let tag = match event {
            Event::Insert => format!("INSERT 0 {count}"),
            _ => format!("{} {count}", event.word()),
        };
        if let Some(returning) = returning {
            let rows = self.returned_of_view(returning, statement, &view, &left, &given).await?;
            let fields = described.fields.unwrap_or_default();
            self.tell_rows(&rows, &fields, bound).await?;
        }
        Ok(Forwarded { tag, ..Default::default() })
    }

    /// Calls one for a row; whether it lets the row be.
    async fn call_trigger(
        &mut self,
        running: &mut Running<'_>,
        ([new, old], told): ([usize; 2], usize),
        called: &Called,
        view: &View,
        event: Event,
        row: &mut Row,
    ) -> Result<bool> {
        let program = running.program;
        running.begin(std::iter::empty());
        running.held[new] = view.held(row.new.as_deref());
        running.held[old] = view.held(row.old.as_deref());
        for (at, variable) in program.variables.iter().enumerate().take(told) {
            let (oid, value) = match variable.name.as_deref().unwrap_or_default() {
                "tg_name" => (NAME, called.name.clone()),
                "tg_when" => (TEXT, "INSTEAD OF".into()),
                "tg_level" => (TEXT, "ROW".into()),
                "tg_op" => (TEXT, event.word().into()),
                "tg_relid" => (OID, view.relation.oid.to_string()),
                "tg_relname" | "tg_table_name" => (NAME, view.relation.name.clone()),
                "tg_table_schema" => (NAME, view.relation.schema.clone()),
                "tg_nargs" => (INT4, called.arguments.len().to_string()),
                "tg_argv" => (TEXT_ARRAY, array(&called.arguments)),
                _ => continue,
            };
            running.held[at] = Held::Any(Value::new(oid, text(&value)));
        }
        let returned = match self.block(running, &program.block).await? {
            Flow::Return(Some(row)) => row,
            Flow::Return(None) => None,
            Flow::Next => {
                return Err(ExecError::sql(
                    sqlstate::S_R_E_FUNCTION_EXECUTED_NO_RETURN_STATEMENT,
                    "control reached end of trigger procedure without RETURN",
                ));
            }
            Flow::Jump(_) => return Err(ExecError::internal("a jump out of a function")),
        };
        let Some(returned) = returned else { return Ok(false) };
        if event != Event::Delete {
            row.new = Some(returned);
        }
        Ok(true)
    }

    /// The rows that an INSERT gives; or why that can't be told.
    async fn rows_to_insert(
        &mut self,
        running: &mut Running<'_>,
        s: &ast::InsertStmt,
        view: &View,
        given: &Bound,
    ) -> Result<std::result::Result<(Vec<Row>, Option<exec::Taken>), &'static str>> {
        if s.on_conflict_clause.is_some() || s.with_clause.is_some() || s.r#override > 1 {
            return Ok(Err("has ON CONFLICT, WITH or OVERRIDING"));
        }
        let mut columns = vec![];
        for column in &s.cols {
            let Some(NodeEnum::ResTarget(t)) = &column.node else { return Ok(Err("names no columns")) };
            match view.position(&t.name).filter(|_| t.indirection.is_empty()) {
                Some(at) => columns.push(at),
                None => return Ok(Err("gives parts of values")),
            }
        }
        if columns.is_empty() {
            columns = (0..view.types.len()).collect();
        }
        let all: Vec<usize> = (0..view.types.len()).collect();
        let has_default = |at: &&usize| view.relation.columns[**at].default.is_some();
        let Some(source) = s.select_stmt.as_deref().and_then(|n| n.node.as_ref()) else {
            return Ok(match all.iter().any(|at| has_default(&at)) {
                true => Err("takes a default of the view's own"),
                false => Ok((vec![Row { old: None, new: Some(vec![None; all.len()]) }], None)),
            });
        };
        let NodeEnum::SelectStmt(select) = source else { return Ok(Err("is of no query")) };
        let is_default = |v: &Node| matches!(v.node, Some(NodeEnum::SetToDefault(_)));
        let lists: Vec<&[Node]> = select.values_lists.iter().map(items).collect();
        let width = lists.iter().map(|l| l.len()).max();
        let missing = |at: &usize| {
            let place = columns.iter().position(|c| c == at).filter(|place| width.is_none_or(|w| *place < w));
            place.is_none_or(|place| lists.iter().any(|l| l.get(place).is_some_and(is_default)))
        };
        if all.iter().filter(has_default).any(missing) {
            return Ok(Err("takes a default of the view's own"));
        }
        if !lists.is_empty() {
            let bare = ast::SelectStmt {
                values_lists: vec![],
                limit_option: build::select().limit_option,
                ..(**select).clone()
            };
            if bare != build::select() {
                return Ok(Err("has VALUES with clauses of their own"));
            }
            let mut rows = Vec::with_capacity(lists.len());
            for list in &lists {
                let mut values = Vec::with_capacity(all.len());
                for at in &all {
                    let value = columns.iter().position(|c| c == at).and_then(|place| list.get(place));
                    values.push(match value.filter(|v| !is_default(v)) {
                        Some(value) => view.types[*at].cast(&sql::deparse_expr(value)?),
                        None => format!("CAST(NULL AS {})", view.types[*at].name),
                    });
                }
                rows.push(values.join(", "));
            }
            let text = match &rows[..] {
                [one] => format!("SELECT {one}"),
                _ => format!("VALUES ({})", rows.join("), (")),
            };
            let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
            let found = self.nested(&tree, &text, given).await?;
            let rows = found.rows.into_iter().map(|new| Row { old: None, new: Some(new) }).collect();
            return Ok(Ok((rows, found._taken)));
        }
        let text = sql::deparse(source)?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let fields = self.work().describe_text(&text, &given.types).await?.fields.unwrap_or_default();
        self.may_come(&fields).await?;
        if fields.len() > columns.len() {
            return Ok(Err("gives more columns than there are"));
        }
        let found = self.nested(&tree, &text, given).await?;
        let mut rows = Vec::with_capacity(found.rows.len());
        for values in found.rows {
            let mut new = vec![None; all.len()];
            for ((field, at), text) in fields.iter().zip(&columns).zip(values) {
                let ty = view.types[*at].clone();
                new[*at] = self.converted(running, super::records::of_field(field, text), &ty).await?;
            }
            rows.push(Row { old: None, new: Some(new) });
        }
        Ok(Ok((rows, found._taken)))
    }

    /// The rows of the view that an UPDATE or DELETE finds, and what they are to be; or why that can't be told.
    async fn rows_to_change(
        &mut self,
        (relation, from, condition): (Option<&ast::RangeVar>, &[Node], Option<&Node>),
        set: Option<&[Node]>,
        with: bool,
        view: &View,
        given: &Bound,
    ) -> Result<std::result::Result<(Vec<Row>, Option<exec::Taken>), &'static str>> {
        let Some(rv) = relation.filter(|rv| rv.inh && !with) else { return Ok(Err("has ONLY or WITH queries")) };
        if condition.is_some_and(|c| matches!(c.node, Some(NodeEnum::CurrentOfExpr(_)))) {
            return Ok(Err("is about a cursor's row"));
        }
        let called = rv.alias.as_ref().map_or(&*rv.relname, |a| &*a.aliasname);
        let mut target_list: Vec<Node> = view
            .relation
            .columns
            .iter()
            .enumerate()
            .map(|(i, c)| build::target(build::column(&[called, &c.name]), Some(&format!("old {i}"))))
            .collect();
        let mut changed = HashMap::new();
        for target in set.unwrap_or_default() {
            let Some(NodeEnum::ResTarget(t)) = &target.node else { return Ok(Err("sets no columns")) };
            let (Some(at), Some(value)) = (view.position(&t.name), t.val.as_deref()) else {
                return Ok(Err("sets no columns"));
            };
            if !t.indirection.is_empty() || matches!(value.node, Some(NodeEnum::MultiAssignRef(_))) {
                return Ok(Err("sets parts of values, or several at once"));
            }
            let ty = &view.types[at];
            let value = match &value.node {
                Some(NodeEnum::SetToDefault(_)) if view.relation.columns[at].default.is_some() => {
                    return Ok(Err("takes a default of the view's own"));
                }
                Some(NodeEnum::SetToDefault(_)) => format!("CAST(NULL AS {})", ty.name),
                _ => ty.cast(&sql::deparse_expr(value)?),
            };
            let parsed = sql::parse(&format!("SELECT {value} AS \"new {at}\""), true)?.pop();
            let Some(NodeEnum::SelectStmt(parsed)) = parsed else { return Ok(Err("sets what can't be read")) };
            changed.insert(at, target_list.len());
            target_list.extend(parsed.target_list);
        }
        let view_itself = build::node(NodeEnum::RangeVar(rv.clone()));
        let select = ast::SelectStmt {
            target_list,
            from_clause: std::iter::once(view_itself).chain(from.iter().cloned()).collect(),
            where_clause: condition.cloned().map(Box::new),
            ..build::select()
        };
        let text = sql::deparse(&NodeEnum::SelectStmt(Box::new(select)))?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let found = match self.nested(&tree, &text, given).await {
            Err(e) if e.code() == sqlstate::INSUFFICIENT_PRIVILEGE => {
                return Ok(Err("needs your own right to SELECT from the view"));
            }
            found => found?,
        };
        let width = view.types.len();
        let row = |row: Vec<Text>| {
            let old: Vec<Text> = row.iter().take(width).cloned().collect();
            let value = |at: usize| changed.get(&at).map_or_else(|| old[at].clone(), |place| row[*place].clone());
            let new = set.map(|_| (0..width).map(value).collect());
            Row { new, old: Some(old) }
        };
        if found.rows.iter().any(|row| row.len() != width + changed.len()) {
            return Err(ExecError::internal("a row has another number of columns than described"));
        }
        Ok(Ok((found.rows.into_iter().map(row).collect(), found._taken)))
    }

    /// It can be computed of the rows that are left alone.
    fn may_return(
        &self,
        returning: &ast::ReturningClause,
        statement: &NodeEnum,
        view: &View,
    ) -> std::result::Result<(), &'static str> {
        let (called, alone) = called(statement);
        if !returning.options.is_empty() {
            return Err("has RETURNING WITH");
        }
        let names = self.names();
        let strange = |n: &NodeEnum| match n {
            NodeEnum::SubLink(_) => true,
            NodeEnum::FuncCall(f) => {
                let mut meant = names.functions(&f.funcname).peekable();
                meant.peek().is_none() || meant.any(|f| f.volatility != Volatility::Immutable)
            }
            NodeEnum::ColumnRef(c) => {
                let star = names::has_star(c);
                match names::strings(&c.fields)[..] {
                    [] => !(star && alone),
                    [of] if star => of != called,
                    [column] => !alone || view.position(column).is_none(),
                    [of, column] => star || of != called || view.position(column).is_none(),
                    _ => true,
                }
            }
            _ => false,
        };
        match returning.exprs.iter().any(|e| search::any(e, strange)) {
            true => Err(
                "has RETURNING of something else than the view's columns and PostgreSQL's immutable functions of them",
            ),
            false => Ok(()),
        }
    }

    async fn returned_of_view(
        &mut self,
        returning: &ast::ReturningClause,
        statement: &NodeEnum,
        view: &View,
        rows: &[Vec<Text>],
        given: &Bound,
    ) -> Result<Vec<Vec<Text>>> {
        let (called, _) = called(statement);
        let columns: Vec<String> = view.relation.columns.iter().map(|c| catalog::quote_ident(&c.name)).collect();
        let mut returned = Vec::with_capacity(rows.len());
        for some in rows.chunks(ROWS_AT_ONCE) {
            let mut lists = Vec::with_capacity(some.len());
            for row in some {
                let cast = |(v, ty): (&Text, &Type)| Ok(format!("CAST({} AS {})", literal(v)?, ty.name));
                lists.push(row.iter().zip(&view.types).map(cast).collect::<Result<Vec<_>>>()?.join(", "));
            }
            let from = format!(
                "SELECT 1 FROM (VALUES ({})) AS {} ({})",
                lists.join("), ("),
                catalog::quote_ident(called),
                columns.join(", ")
            );
            let Some(NodeEnum::SelectStmt(mut select)) = sql::parse(&from, true)?.pop() else {
                return Err(ExecError::internal("no statement"));
            };
            select.target_list.clone_from(&returning.exprs);
            let text = sql::deparse(&NodeEnum::SelectStmt(select))?;
            let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
            returned.extend(self.nested(&tree, &text, given).await?.rows);
        }
        Ok(returned)
    }
}

/// What the view is called in the statement, and whether it is alone there.
fn called(statement: &NodeEnum) -> (&str, bool) {
    let (rv, alone) = match statement {
        NodeEnum::InsertStmt(s) => (s.relation.as_ref(), true),
        NodeEnum::UpdateStmt(s) => (s.relation.as_ref(), s.from_clause.is_empty()),
        NodeEnum::DeleteStmt(s) => (s.relation.as_ref(), s.using_clause.is_empty()),
        _ => (None, true),
    };
    (rv.map_or("", |rv| rv.alias.as_ref().map_or(&*rv.relname, |a| &*a.aliasname)), alone)
}

fn items(list: &Node) -> &[Node] {
    match &list.node {
        Some(NodeEnum::List(l)) => &l.items,
        _ => &[],
    }
}

/// TG_ARGV, whose first element is number 0.
fn array(arguments: &[Bytes]) -> String {
    if arguments.is_empty() {
        return "{}".into();
    }
    let quoted = |a: &Bytes| {
        let text = String::from_utf8_lossy(a).replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{text}\"")
    };
    let all: Vec<String> = arguments.iter().map(quoted).collect();
    format!("[0:{}]={{{}}}", arguments.len() - 1, all.join(","))
}
