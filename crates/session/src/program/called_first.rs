//! `SELECT … FROM f(1), t …`: functions in FROM that read tables of several nodes are called first, and the statement reads their rows in
//! their places. It does not know which statements that is right for (`plan::called_first`), nor how the functions run: each is a
//! statement of its own.

use std::collections::HashMap;

use exec::{Bound, ExecError, Forwarded};
use plan::called_first;
use sql::ast;
use sql::program::Program;
use sql::{NodeEnum, build, names, search};
use wire::backend::Field;
use wire::type_oid;

use super::call::{only_rows, unless_known};
use super::{Rows, Text, rows};
use crate::session::{Result, Session};

/// What is put in the place of an item of FROM.
struct Read {
    /// As columns and types are seen through it.
    fields: Vec<Field>,
    /// The columns of each of its functions.
    columns: Vec<Vec<Text>>,
    _rows: Vec<Rows>,
}

impl Session {
    /// `refusal`: why the statement can't be planned, which is told where it can't be run so, either.
    pub(super) async fn called_first(
        &mut self,
        statement: &NodeEnum,
        sql: &str,
        bound: Option<&Bound>,
        refusal: ExecError,
    ) -> Result<Forwarded> {
        let items: Vec<ast::RangeFunction> = match called_first::of(statement, &self.names()) {
            Some(items) => items.into_iter().cloned().collect(),
            None => return Err(refusal),
        };
        let sees_once = match self.only_read(&items).await? {
            Ok(sees_once) => sees_once,
            Err(why) => return Err(unless_known(refusal, why)),
        };
        let refusal = self.may_run(sees_once, refusal).await?;
        self.nesting += 1;
        let done = Box::pin(self.over_rows(statement, &items, sql, bound, refusal)).await;
        self.nesting -= 1;
        done
    }

    /// Whether they run, how often and in which order, then shows in nothing but errors. True: one of them sees what was there when the
    /// statement began. In words: why not.
    async fn only_read(&mut self, items: &[ast::RangeFunction]) -> Result<std::result::Result<bool, &'static str>> {
        let cx = self.names();
        let calls = items.iter().flat_map(called_first::called);
        let routines: Vec<_> = calls.filter_map(|call| plan::programs::routine(call, &cx)).cloned().collect();
        let mut sees_once = false;
        for routine in &routines {
            sees_once |= routine.volatility != catalog::Volatility::Volatile;
            let Some(definition) = self.definition(routine).await? else { return Ok(Err("can't be read")) };
            let program = match Program::of(&definition) {
                Ok(program) => program,
                Err(why) => return Ok(Err(why)),
            };
            let Ok(program) = only_rows(program, true) else {
                return Ok(Err("changes rows, and is called beside something else"));
            };
            let cx = self.names();
            let volatile = |n: &NodeEnum| match n {
                NodeEnum::FuncCall(f) => {
                    cx.functions(&f.funcname).any(|f| f.volatility == catalog::Volatility::Volatile)
                }
                _ => false,
            };
            if program.expressions.iter().any(|e| search::any(&*e.tree, volatile)) {
                return Ok(Err("calls VOLATILE functions, and is called beside something else"));
            }
        }
        Ok(Ok(sees_once))
    }

    async fn over_rows(
        &mut self,
        statement: &NodeEnum,
        items: &[ast::RangeFunction],
        sql: &str,
        bound: Option<&Bound>,
        refusal: ExecError,
    ) -> Result<Forwarded> {
        let given = bound.cloned().unwrap_or_default();
        let fields = self.work().describe_text(sql, &given.types).await?.fields.unwrap_or_default();
        let mut with = WithRows::of(&given);
        let mut places = HashMap::new();
        for item in items {
            let read = self.read_item(item, &given).await?;
            let types = self.work().type_names(&read.fields).await?;
            let Some(at) = place(item) else { return Err(refusal) };
            places.insert(at, with.read(item, read, &types)?);
        }
        let mut changed = statement.clone();
        search::each_mut(&mut changed, |n| {
            if let NodeEnum::RangeFunction(f) = n
                && let Some(read) = place(f).and_then(|at| places.remove(&at))
            {
                *n = read;
                return false;
            }
            true
        });
        let text = sql::deparse(&changed)?;
        let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let with = with.bound();
        // A row of the function as a whole is of another type.
        let types = |fields: &[Field]| fields.iter().map(|f| (f.type_oid, f.name.clone())).collect::<Vec<_>>();
        let described = self.work().describe_text(&text, &with.types).await;
        if described.map_or(true, |d| types(&d.fields.unwrap_or_default()) != types(&fields)) {
            return Err(unless_known(refusal, "is called beside something that needs its rows as a whole"));
        }
        self.may_come(&fields).await?;
        let rows = match self.nested(&tree, &text, &with).await {
            Ok(rows) => rows,
            Err(ExecError::Refused(_)) => return Err(refusal),
            Err(e) => return Err(e),
        };
        let done = match fields.is_empty() {
            true => Forwarded::default(),
            false => self.tell_rows(&rows.rows, &fields, bound).await?,
        };
        Ok(Forwarded { tag: rows.tag, ..done })
    }

    /// What its functions return.
    async fn read_item(&mut self, item: &ast::RangeFunction, given: &Bound) -> Result<Read> {
        let whole = sql::deparse(&star_of(item.clone()))?;
        let fields = self.work().describe_text(&whole, &given.types).await?.fields.unwrap_or_default();
        let (mut columns, mut taken) = (vec![], vec![]);
        for function in &item.functions {
            let alone = ast::RangeFunction { functions: vec![function.clone()], ..Default::default() };
            let (described, rows, _) = self.asked_of(star_of(alone), Some(given)).await?;
            let column = |at: usize| rows.rows.iter().map(|row| row.get(at).cloned().flatten()).collect::<Vec<_>>();
            columns.extend((0..described.len()).map(column));
            taken.push(rows);
        }
        Ok(Read { fields, columns, _rows: taken })
    }
}

/// Where its first function is called, which is in one place alone.
fn place(f: &ast::RangeFunction) -> Option<i32> {
    called_first::called(f).next().map(|call| call.location)
}

/// `SELECT *` of it.
fn star_of(item: ast::RangeFunction) -> NodeEnum {
    let mut select = build::select();
    select.target_list = vec![build::target(build::star(), None)];
    select.from_clause = vec![build::node(NodeEnum::RangeFunction(item))];
    NodeEnum::SelectStmt(Box::new(select))
}

/// The statement's parameters, and behind them the rows of what was called, one array a column.
struct WithRows {
    bound: Bound,
    types: Vec<u32>,
    formats: Vec<i16>,
}

impl WithRows {
    fn of(given: &Bound) -> Self {
        let formats = (0..given.values.len()).map(|i| given.format(i)).collect();
        WithRows { bound: given.clone(), types: given.types.to_vec(), formats }
    }

    /// A query of its rows, by the names that the item has.
    fn read(&mut self, item: &ast::RangeFunction, read: Read, types: &[String]) -> Result<NodeEnum> {
        let (mut arrays, mut names, mut targets) = (vec![], vec![], vec![]);
        let width = read.columns.len();
        for (at, column) in read.columns.into_iter().enumerate() {
            self.types.push(type_oid::TEXT_ARRAY);
            self.formats.push(0);
            self.bound.values.push(Some(rows::list(&column)));
            arrays.push(format!("pg_catalog.unnest(${}::pg_catalog.text[])", self.types.len()));
            names.push(format!("c{at}"));
            let (Some(type_name), Some(field)) = (types.get(at), read.fields.get(at)) else { continue };
            let name = catalog::quote_ident(&field.name);
            targets.push(format!("\"herd: rows\".c{at}::{type_name} AS {name}"));
        }
        // Behind all of them.
        if let Some(field) = read.fields.get(width).filter(|_| item.ordinality) {
            targets.push(format!("\"herd: rows\".c{width} AS {}", catalog::quote_ident(&field.name)));
        }
        names.push(format!("c{width}"));
        let name = match (&item.alias, called_first::called(item).next()) {
            (Some(alias), _) => alias.aliasname.clone(),
            (None, Some(call)) => names::last(&call.funcname).to_string(),
            (None, None) => return Err(ExecError::internal("FROM without a function")),
        };
        let text = format!(
            "SELECT * FROM (SELECT {} FROM ROWS FROM ({}) WITH ORDINALITY AS \"herd: rows\"({})) AS {}",
            targets.join(", "),
            arrays.join(", "),
            names.join(", "),
            catalog::quote_ident(&name)
        );
        match sql::parse(&text, true)?.pop() {
            Some(NodeEnum::SelectStmt(mut s)) => match s.from_clause.pop().and_then(|n| n.node) {
                Some(read) => Ok(read),
                None => Err(ExecError::internal("no rows to read")),
            },
            _ => Err(ExecError::internal("no rows to read")),
        }
    }

    fn bound(self) -> Bound {
        Bound { types: self.types.into(), formats: self.formats.into(), ..self.bound }.for_columns(vec![])
    }
}
