//! What a function is given, put into its query: constants, parameters and columns, where PostgreSQL would turn them into the types that
//! the function asks for by itself, and where they mean in the query what they mean around it.

use std::collections::HashSet;

use catalog::code::Routine;
use catalog::{FunctionKind, Oid};
use sql::ast::{self, Node, a_const::Val};
use sql::{NodeEnum, build, names, search};
use wire::type_oid as oid;

use super::body::{self, Body};
use super::unread;
use crate::{Context, given};

/// `None`: a call's arguments are not all of that kind.
pub fn put(
    mut body: Body,
    call: &ast::FuncCall,
    routine: &Routine,
    statement: &NodeEnum,
    cx: &Context,
) -> Option<Body> {
    if routine.argument_types.len() != body.parameters.len() {
        return None;
    }
    let given = given::in_order(call, routine)?;
    let own = body.gives_values().then_some(&*routine.name);
    let around = Around { statement, own, cx };
    let mut outer = vec![];
    let mut values = vec![];
    let read = read(&body.query);
    let declared = body.parameters.iter().zip(&routine.argument_types);
    for (i, ((ty, declared), value)) in declared.zip(&given).enumerate() {
        if !read.contains(&i) {
            body.unread.extend(unread::of(value, *declared, cx)?);
            values.push(value.clone());
            continue;
        }
        let from = around.type_of(value)?;
        if !becomes(&from, *declared) {
            return None;
        }
        let mut value = value.clone();
        if let Some(table) = around.table_of(&value) {
            // The query may read a table that is called so, and mean that.
            if body.aliases.contains(&table) {
                return None;
            }
            qualify(&mut value, &table);
            outer.push(i as i32 + 1);
        }
        values.push(body::cast(value, &body::plain(ty)?));
    }
    body.refers = !outer.is_empty();
    if aggregates(&body.query, &outer, cx) {
        return None;
    }
    let sizes: Vec<usize> = values.iter().map(|value| 1 + size(value) / 10).collect();
    let mut known = true;
    let mut query = NodeEnum::SelectStmt(Box::new(std::mem::take(&mut body.query)));
    search::each_mut(&mut query, |n| {
        let NodeEnum::ParamRef(p) = n else { return true };
        let number = usize::try_from(p.number).ok().and_then(|n| n.checked_sub(1)).filter(|n| *n < values.len());
        let Some((number, value)) = number.and_then(|number| Some((number, values[number].node.clone()?))) else {
            known = false;
            return false;
        };
        known &= cx.take(sizes[number]);
        *n = value;
        false
    });
    let NodeEnum::SelectStmt(query) = query else { return None };
    body.query = *query;
    known.then_some(body)
}

/// Which of its parameters a query reads, from 0.
fn read(query: &ast::SelectStmt) -> HashSet<usize> {
    let mut found = HashSet::new();
    search::each(query, |n| {
        if let NodeEnum::ParamRef(p) = n {
            found.extend(usize::try_from(p.number).ok().and_then(|n| n.checked_sub(1)));
        }
    });
    found
}

/// Whether an aggregate is given nothing but columns from around the query: it would be one of the query around it.
fn aggregates(query: &ast::SelectStmt, outer: &[i32], cx: &Context) -> bool {
    let is_outer = |n: &NodeEnum| matches!(n, NodeEnum::ParamRef(p) if outer.contains(&p.number));
    let is_own = |n: &NodeEnum| matches!(n, NodeEnum::ColumnRef(_));
    // Whose a subquery's columns are is not known here.
    let is_query = |n: &NodeEnum| matches!(n, NodeEnum::SubLink(_));
    let given = |n: &NodeEnum| match n {
        NodeEnum::FuncCall(f) if f.over.is_none() => {
            cx.functions(&f.funcname).any(|f| f.kind == FunctionKind::Aggregate)
        }
        NodeEnum::JsonArrayAgg(_) | NodeEnum::JsonObjectAgg(_) | NodeEnum::GroupingFunc(_) => true,
        _ => false,
    };
    !outer.is_empty()
        && search::any(query, |n| {
            given(n) && search::any(n, is_outer) && (search::any(n, is_query) || !search::any(n, is_own))
        })
}

/// How long a value's text is.
fn size(value: &Node) -> usize {
    let mut size = 0;
    search::each(value, |n| {
        if let NodeEnum::AConst(c) = n {
            size += match &c.val {
                Some(Val::Sval(s)) => s.sval.len(),
                Some(Val::Fval(f)) => f.fval.len(),
                _ => 0,
            };
        }
    });
    size
}

/// What a value's type is as far as it matters here.
enum Type {
    /// A string or NULL, or a parameter that nobody has declared: whatever is asked for.
    Any,
    Is(Oid),
}

struct Around<'a> {
    statement: &'a NodeEnum,
    /// The function, if what it gives in FROM has one column, which is called as it is.
    own: Option<&'a str>,
    cx: &'a Context<'a>,
}

impl Around<'_> {
    /// `None`: not a constant, a parameter or a column, or one whose type is not known here.
    fn type_of(&self, value: &Node) -> Option<Type> {
        Some(match value.node.as_ref()? {
            NodeEnum::AConst(c) if c.isnull => Type::Any,
            NodeEnum::AConst(c) => match c.val.as_ref()? {
                Val::Sval(_) => Type::Any,
                Val::Ival(_) => Type::Is(oid::INT4),
                Val::Fval(f) if f.fval.parse::<i64>().is_ok() => Type::Is(oid::INT8),
                Val::Fval(_) => Type::Is(oid::NUMERIC),
                Val::Boolval(_) => Type::Is(oid::BOOL),
                Val::Bsval(_) => return None,
            },
            NodeEnum::ParamRef(p) => {
                let number = usize::try_from(p.number).ok()?.checked_sub(1)?;
                match self.cx.parameters.get(number).copied().unwrap_or(0) {
                    0 => Type::Any,
                    declared => Type::Is(declared),
                }
            }
            NodeEnum::TypeCast(t) => {
                self.type_of(t.arg.as_deref()?)?;
                Type::Is(body::own_type(t.type_name.as_ref()?)?)
            }
            NodeEnum::ColumnRef(c) => Type::Is(self.column(&names::strings(&c.fields), names::has_star(c))?),
            _ => return None,
        })
    }

    /// The type of a column of the only table in the statement that can have it.
    fn column(&self, parts: &[&str], has_star: bool) -> Option<Oid> {
        let rv = self.table(parts).filter(|_| !has_star)?;
        let relation = self.cx.relation(rv)?;
        relation.column(parts.last()?).map(|i| relation.columns[i].type_oid)
    }

    /// What the table is called whose column a value names.
    fn table_of(&self, value: &Node) -> Option<String> {
        let parts = search::find(value, |n| match n {
            NodeEnum::ColumnRef(c) => Some(names::strings(&c.fields)),
            _ => None,
        })?;
        self.table(&parts).map(called)
    }

    /// A call in FROM of the function itself, whose one column has another name.
    fn is_own(&self, f: &ast::RangeFunction, column: &[&str]) -> bool {
        let call = match &f.functions[..] {
            [Node { node: Some(NodeEnum::List(call)) }] => call.items.first().and_then(|n| n.node.as_ref()),
            _ => None,
        };
        let Some(NodeEnum::FuncCall(call)) = call else { return false };
        let name = names::last(&call.funcname);
        let called = match &f.alias {
            Some(alias) if alias.colnames.is_empty() => vec![alias.aliasname.as_str()],
            Some(alias) => names::strings(&alias.colnames),
            None => vec![name],
        };
        let other = !f.ordinality && column.iter().all(|c| !called.contains(c));
        other && self.own == Some(name) && f.coldeflist.is_empty()
    }

    fn table(&self, parts: &[&str]) -> Option<&ast::RangeVar> {
        let mut named: Vec<&ast::RangeVar> = vec![];
        search::each_relation(self.statement, |rv| named.push(rv));
        let rv = match parts {
            [_] => {
                // Other names around it may be of something else than tables.
                let others = |n: &NodeEnum| {
                    use NodeEnum::{CommonTableExpr, RangeFunction, RangeSubselect, RangeTableFunc};
                    match n {
                        RangeFunction(f) => !self.is_own(f, parts),
                        n => matches!(n, RangeSubselect(_) | RangeTableFunc(_) | CommonTableExpr(_)),
                    }
                };
                match named[..] {
                    [rv] if !search::any(self.statement, others) => rv,
                    _ => return None,
                }
            }
            [table, _] => {
                let mut of = named.iter().filter(|rv| called(rv) == *table);
                let is_other = |n: &NodeEnum| match n {
                    NodeEnum::RangeSubselect(s) => s.alias.as_ref().is_some_and(|a| a.aliasname == *table),
                    NodeEnum::CommonTableExpr(c) => c.ctename == *table,
                    NodeEnum::JoinExpr(j) => j.alias.is_some() || j.join_using_alias.is_some(),
                    NodeEnum::RangeFunction(f) => f.alias.as_ref().is_none_or(|a| a.aliasname == *table),
                    _ => false,
                };
                match (of.next(), of.next()) {
                    (Some(rv), None) if !search::any(self.statement, is_other) => rv,
                    _ => return None,
                }
            }
            _ => return None,
        };
        // A WITH query may have its name.
        let is_query = |n: &NodeEnum| matches!(n, NodeEnum::CommonTableExpr(c) if c.ctename == rv.relname);
        let is_table = !rv.schemaname.is_empty() || !search::any(self.statement, is_query);
        (is_table && rv.alias.as_ref().is_none_or(|a| a.colnames.is_empty())).then_some(rv)
    }
}

fn called(rv: &ast::RangeVar) -> String {
    rv.alias.as_ref().map_or_else(|| rv.relname.clone(), |a| a.aliasname.clone())
}

/// Names the column of a value with its table.
fn qualify(value: &mut Node, table: &str) {
    match &mut value.node {
        Some(NodeEnum::TypeCast(t)) => t.arg.as_deref_mut().into_iter().for_each(|arg| qualify(arg, table)),
        Some(NodeEnum::ColumnRef(c)) if c.fields.len() == 1 => c.fields.insert(0, build::string(table)),
        _ => {}
    }
}

/// Whether PostgreSQL turns one into the other where a function is called (pg_cast.dat: implicit casts).
fn becomes(from: &Type, to: Oid) -> bool {
    let Type::Is(from) = from else { return true };
    let wide = |t: Oid| match t {
        oid::INT2 => 1,
        oid::INT4 => 2,
        oid::INT8 => 3,
        oid::NUMERIC => 4,
        oid::FLOAT4 => 5,
        oid::FLOAT8 => 6,
        _ => 0,
    };
    *from == to
        || wide(*from) > 0 && wide(*from) < wide(to)
        || matches!((*from, to), (oid::VARCHAR, oid::TEXT) | (oid::DATE, oid::TIMESTAMP | oid::TIMESTAMPTZ))
        || matches!((*from, to), (oid::TIMESTAMP, oid::TIMESTAMPTZ))
}
