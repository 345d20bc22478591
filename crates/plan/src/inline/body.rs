//! The query of a function, and what it gives: a value, or rows of named columns. It does not know who calls it.

use std::collections::HashSet;

use catalog::Oid;
use catalog::code::Routine;
use sql::ast::{self, Node};
use sql::body::Script;
use sql::{NodeEnum, build, names, relations, search};
use wire::type_oid as oid;

use super::{closed, returned, unread};
use crate::{Context, needs};

/// What a call of it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Columns {
    Value,
    Rows,
}

/// A function's query.
#[derive(Clone)]
pub struct Body {
    /// What it is given stands as `$n` before [`super::arguments::put`].
    pub query: ast::SelectStmt,
    /// What it calls what it reads.
    pub aliases: HashSet<String>,
    /// The tables that it names without their schemas.
    pub tables: Vec<String>,
    /// The types of its parameters.
    pub parameters: Vec<ast::TypeName>,
    /// What it is given names columns around it.
    pub refers: bool,
    /// Calls that evaluate what it is given and does not read.
    pub unread: Vec<Node>,
    gives: Gives,
}

#[derive(Clone)]
enum Gives {
    /// One value of a type; NULL where the query has no row.
    Value(ast::TypeName),
    /// Rows of one column.
    Column(ast::TypeName),
    /// RETURNS TABLE.
    Columns(Vec<(String, ast::TypeName)>),
    /// SETOF a table, of which the query gives whole rows.
    Table(Vec<String>),
}

impl Body {
    /// `None`: the function is more than one query, or what it gives is not known here.
    pub fn of(routine: &Routine, columns: Columns, cx: &Context) -> Option<Body> {
        let parsed = sql::parse(&routine.definition, true).ok()?.pop()?;
        let NodeEnum::CreateFunctionStmt(f) = parsed else { return None };
        let script = Script::of(&routine.definition, 0).ok()?;
        let [(text, statement)] = &script.statements[..] else { return None };
        let named = relations::of(statement);
        let is_column = |name: &str| named.iter().filter_map(|rv| cx.relation(rv)).any(|r| r.column(name).is_some());
        let NodeEnum::SelectStmt(query) = script.with_parameters(text, statement, is_column) else { return None };
        let query = *query;
        // There would be no end of it.
        let itself = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if names::last(&f.funcname) == routine.name);
        if search::any(&query, itself) {
            return None;
        }
        let plpgsql = routine.language == "plpgsql";
        if plpgsql
            && (!script.only_returns || script.may_mean_variables(&NodeEnum::SelectStmt(Box::new(query.clone()))))
        {
            return None;
        }
        // Who may not use its schema can't name its tables either.
        let is_own = |rv: &&ast::RangeVar| cx.relation(rv).is_some_and(|r| r.schema == routine.schema);
        if !relations::of_select(&query).iter().any(is_own) || !only_reads(&query, cx) {
            return None;
        }
        let aliases = closed::aliases(&query, cx)?;
        let tables = relations::of_select(&query).into_iter().filter(|rv| rv.schemaname.is_empty());
        let tables = tables.map(|rv| rv.relname.clone()).collect();
        let parameters = f.parameters.iter().filter_map(|p| match &p.node {
            Some(NodeEnum::FunctionParameter(p)) => Some(&**p),
            _ => None,
        });
        let (mut given, mut table) = (vec![], vec![]);
        for p in parameters {
            use ast::FunctionParameterMode::{FuncParamDefault, FuncParamIn, FuncParamTable};
            let ty = p.arg_type.clone()?;
            match ast::FunctionParameterMode::try_from(p.mode) {
                Ok(FuncParamIn | FuncParamDefault) => given.push(ty),
                Ok(FuncParamTable) => table.push((p.name.clone(), ty)),
                _ => return None,
            }
        }
        let returns = f.return_type.as_ref()?;
        // PL/pgSQL makes what is of another type what it returns by rules of its own.
        if plpgsql && (!table.is_empty() || returns.setof || returned::type_of(&query, cx)? != own_type(returns)?) {
            return None;
        }
        let gives = gives(&query, returns, table, cx)?;
        let fits = columns == Columns::Rows || matches!(gives, Gives::Value(_));
        let outputs = closed::outputs(&query);
        let wanted = match &gives {
            Gives::Value(_) | Gives::Column(_) => outputs == Some(1),
            Gives::Columns(table) => outputs == Some(table.len()),
            Gives::Table(_) => true,
        };
        (fits && wanted).then_some(Body {
            query,
            aliases,
            tables,
            parameters: given,
            refers: false,
            unread: vec![],
            gives,
        })
    }

    /// How many columns its rows have.
    pub fn width(&self) -> usize {
        match &self.gives {
            Gives::Value(_) | Gives::Column(_) => 1,
            Gives::Columns(table) => table.len(),
            Gives::Table(columns) => columns.len(),
        }
    }

    /// Under this alias its one column is called as its rows are.
    pub fn is_called(&self, alias: &ast::Alias) -> bool {
        self.gives_values() && alias.colnames.is_empty()
    }

    /// A value, or rows of one column.
    pub fn gives_values(&self) -> bool {
        matches!(self.gives, Gives::Value(_) | Gives::Column(_))
    }

    /// Rows of one column.
    pub fn is_of_rows(&self) -> bool {
        matches!(self.gives, Gives::Column(_))
    }

    /// Its one value.
    pub fn value(self) -> NodeEnum {
        let Gives::Value(ty) = &self.gives else { return NodeEnum::SelectStmt(Box::new(self.query)) };
        unread::before(self.unread, one_value(self.query, ty))
    }

    /// The query whose columns are called as those of the function under this alias.
    pub fn rows(self, alias: &ast::Alias) -> ast::SelectStmt {
        let (types, own): (Vec<_>, Vec<String>) = match &self.gives {
            Gives::Value(_) => {
                let name = column_names(alias, std::slice::from_ref(&alias.aliasname)).remove(0);
                let mut select = build::select();
                select.target_list = vec![build::target(build::column(&["q", "c1"]), Some(&name))];
                select.from_clause = vec![evaluated(self.value())];
                return select;
            }
            Gives::Column(ty) => (vec![ty.clone()], vec![alias.aliasname.clone()]),
            Gives::Columns(table) => table.iter().map(|(name, ty)| (ty.clone(), name.clone())).unzip(),
            Gives::Table(columns) => (vec![], columns.clone()),
        };
        let called = column_names(alias, &own);
        let mut inner = match types.is_empty() {
            true => self.query,
            false => typed(self.query, &types),
        };
        if types.is_empty() {
            // Whole rows: each column under its name.
            let inside =
                ast::Alias { aliasname: "q".into(), colnames: called.iter().map(|c| build::string(c)).collect() };
            let mut select = build::select();
            select.target_list = vec![build::target(build::star(), None)];
            select.from_clause = vec![build::subselect(inner, Some(inside), false)];
            return select;
        }
        for (target, name) in inner.target_list.iter_mut().zip(&called) {
            if let Some(NodeEnum::ResTarget(t)) = &mut target.node {
                t.name = name.clone();
            }
        }
        inner
    }
}

/// `FROM coalesce(value) q (c1)`: in FROM, a function's value is computed for each row, as it may fail, also where nothing reads it; that of a
/// subquery is not.
fn evaluated(value: NodeEnum) -> Node {
    let coalesce = ast::CoalesceExpr { args: vec![build::node(value)], location: -1, ..Default::default() };
    let call = vec![build::node(NodeEnum::CoalesceExpr(Box::new(coalesce))), Node { node: None }];
    build::node(NodeEnum::RangeFunction(ast::RangeFunction {
        functions: vec![build::node(NodeEnum::List(ast::List { items: call }))],
        alias: Some(ast::Alias { aliasname: "q".into(), colnames: vec![build::string("c1")] }),
        ..Default::default()
    }))
}

/// `(SELECT …)`
fn one_value(mut query: ast::SelectStmt, ty: &ast::TypeName) -> NodeEnum {
    if let Some(value) = expression(&mut query) {
        return cast(value, ty).node.expect("a cast");
    }
    let one = is_one_row(&query);
    let mut select = typed(query, std::slice::from_ref(ty));
    if !one {
        select.limit_count = Some(Box::new(build::integer(1)));
        select.limit_option = ast::LimitOption::Count as i32;
    }
    NodeEnum::SubLink(Box::new(ast::SubLink {
        sub_link_type: ast::SubLinkType::ExprSublink as i32,
        subselect: Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(select))))),
        location: -1,
        ..Default::default()
    }))
}

/// `SELECT (SELECT …)` and nothing else: the query in it.
fn expression(query: &mut ast::SelectStmt) -> Option<Node> {
    let targets = std::mem::take(&mut query.target_list);
    let is_query = |n: &Node| matches!(n.node, Some(NodeEnum::SubLink(_)));
    let value = match &targets[..] {
        [target] => crate::rewrite::target_value(target).filter(|v| is_query(v) && *query == build::select()).cloned(),
        _ => None,
    };
    query.target_list = targets;
    value
}

fn column_names(alias: &ast::Alias, own: &[String]) -> Vec<String> {
    let given = names::strings(&alias.colnames);
    own.iter().enumerate().map(|(i, name)| given.get(i).map_or_else(|| name.clone(), |n| n.to_string())).collect()
}

/// A query that changes, locks and counts nothing, and gives the same however often it is asked.
fn only_reads(query: &ast::SelectStmt, cx: &Context) -> bool {
    let changes = |n: &NodeEnum| match n {
        NodeEnum::RangeFunction(_) | NodeEnum::RangeTableFunc(_) | NodeEnum::JsonTable(_) => true,
        NodeEnum::InsertStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_) | NodeEnum::MergeStmt(_) => true,
        NodeEnum::LockingClause(_) | NodeEnum::IntoClause(_) | NodeEnum::RangeTableSample(_) => true,
        NodeEnum::FuncCall(f) => {
            let mut meant = cx.functions(&f.funcname).peekable();
            meant.peek().is_none()
                || meant.any(|f| f.volatility == catalog::Volatility::Volatile && !f.reads_herd_tables || f.returns_set)
        }
        n => needs::of(n, cx).is_some_and(|need| need.home),
    };
    query.into_clause.is_none() && !search::any(query, changes)
}

/// An aggregate's one row.
fn is_one_row(query: &ast::SelectStmt) -> bool {
    let plain = query.group_clause.is_empty()
        && query.having_clause.is_none()
        && query.distinct_clause.is_empty()
        && query.limit_count.is_none()
        && query.limit_offset.is_none()
        && query.larg.is_none();
    const ONE: [&str; 5] = ["count", "sum", "avg", "min", "max"];
    let is_aggregate = |t: &Node| match crate::rewrite::target_value(t).and_then(|v| v.node.as_ref()) {
        Some(NodeEnum::FuncCall(f)) => ONE.contains(&names::last(&f.funcname)) && f.over.is_none(),
        _ => false,
    };
    plain && query.target_list.iter().all(is_aggregate)
}

/// The query with its columns cast. What it sorts, groups, cuts and sets together stays as it is.
fn typed(query: ast::SelectStmt, types: &[ast::TypeName]) -> ast::SelectStmt {
    let simple = query.larg.is_none()
        && query.values_lists.is_empty()
        && query.distinct_clause.is_empty()
        && query.sort_clause.is_empty()
        && query.group_clause.is_empty()
        && query.limit_count.is_none()
        && query.limit_offset.is_none();
    if simple {
        let mut query = query;
        for (target, ty) in query.target_list.iter_mut().zip(types) {
            if let Some(NodeEnum::ResTarget(t)) = &mut target.node {
                t.val = t.val.take().map(|v| Box::new(cast(*v, ty)));
            }
        }
        return query;
    }
    let column = |i: usize| format!("c{}", i + 1);
    let colnames = (0..types.len()).map(|i| build::string(&column(i))).collect();
    let mut select = build::select();
    select.target_list = types
        .iter()
        .enumerate()
        .map(|(i, ty)| build::target(cast(build::column(&["q", &column(i)]), ty), Some(&column(i))))
        .collect();
    select.from_clause = vec![build::subselect(query, Some(ast::Alias { aliasname: "q".into(), colnames }), false)];
    select
}

fn gives(
    query: &ast::SelectStmt,
    returns: &ast::TypeName,
    table: Vec<(String, ast::TypeName)>,
    cx: &Context,
) -> Option<Gives> {
    if !table.is_empty() {
        let columns = table.into_iter().map(|(name, ty)| Some((name, plain(&ty)?)));
        return columns.collect::<Option<_>>().map(Gives::Columns);
    }
    if let Some(one) = plain(&ast::TypeName { setof: false, ..returns.clone() }) {
        return Some(if returns.setof { Gives::Column(one) } else { Gives::Value(one) });
    }
    // `SELECT * FROM t` or `SELECT t.* FROM t`, of SETOF t.
    let (schema, name) = names::qualified(&returns.names);
    let [Node { node: Some(NodeEnum::RangeVar(rv)) }] = &query.from_clause[..] else { return None };
    let relation = cx.relation(rv)?;
    let schema = schema.or(relation.schema.eq("public").then_some("public"))?;
    let [target] = &query.target_list[..] else { return None };
    let whole = crate::rewrite::is_star(target) && rv.alias.as_ref().is_none_or(|a| a.colnames.is_empty());
    let is_it = relation.name == name && relation.schema == schema && returns.setof;
    (whole && is_it).then(|| Gives::Table(relation.columns.iter().map(|c| c.name.clone()).collect()))
}

/// A type of PostgreSQL's own of which there are values, by its whole name: no search path leads to another.
pub fn plain(ty: &ast::TypeName) -> Option<ast::TypeName> {
    own_type(ty)?;
    // A function's types have no length.
    let names = build::own_name(names::plain_type(ty)?);
    Some(ast::TypeName { names, typemod: -1, location: -1, ..Default::default() })
}

/// Which type it is, if it is one of those.
pub fn own_type(ty: &ast::TypeName) -> Option<Oid> {
    match names::plain_type(ty)? {
        "time" => Some(oid::TIME),
        "interval" => Some(oid::INTERVAL),
        name => oid::named(name),
    }
}

/// `value::type`
pub fn cast(value: Node, ty: &ast::TypeName) -> Node {
    build::node(NodeEnum::TypeCast(Box::new(ast::TypeCast {
        arg: Some(Box::new(value)),
        type_name: Some(ty.clone()),
        location: -1,
    })))
}
