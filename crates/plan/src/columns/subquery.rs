//! Subqueries: of FROM, and of conditions (EXISTS, IN, and totals, which are one value). What they read is as it is in FROM: nodes have it together, or it
//! would be no Part.
//!
//! Nothing in them may fail to be computed: of which rows PostgreSQL would do so depends on how it runs them.

use sql::NodeEnum;
use sql::ast;
use sql::names;

use super::expression::{Expr, Kind, Writer};
use super::from::{self, From};
use super::scope::{Output, Reader, Source, Table};
use super::select::Select;
use super::{Found, aggregate, collation, compare, refused};

/// A SELECT, translated.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub select: Select,
    pub from: Vec<From>,
}

/// A subquery of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Subquery {
    /// What stands in front of it.
    pub left: Option<Expr>,
    word: &'static str,
    query: Query,
}

/// What a subquery's column is called, by its place.
pub fn output(at: usize) -> String {
    format!("c{at}")
}

impl Query {
    /// A SELECT, on a level of its own.
    pub fn read(r: &Reader, s: &ast::SelectStmt) -> Found<Query> {
        let other = [
            (s.with_clause.is_some(), "WITH"),
            (s.larg.is_some() || s.rarg.is_some(), "UNION and its like"),
            (!s.values_lists.is_empty(), "VALUES"),
            (!s.locking_clause.is_empty(), "FOR UPDATE and its like"),
            (s.into_clause.is_some(), "INTO"),
            (!s.window_clause.is_empty(), "a window"),
            (s.limit_option == ast::LimitOption::WithTies as i32, "WITH TIES"),
        ];
        if let Some((_, what)) = other.into_iter().find(|(is, _)| *is) {
            return Err(refused(what));
        }
        let from = from::read(&s.from_clause, r)?;
        let select = Select::of(r, s)?;
        select.is_first_of_all(&from)?;
        // PostgreSQL looks at them below a join, or beside the conditions of a subquery, in an order of its own; DuckDB joins with a subquery of a condition,
        // and computes nothing for those of its rows that are not there.
        let condition = select.condition.as_ref();
        let mut fails = condition.is_some_and(Expr::may_not_fit);
        from.iter().for_each(|item| item.conditions(&mut |on| fails |= on.may_not_fit()));
        let joins = condition.is_some_and(|c| c.any(&mut |e| matches!(e.kind, Kind::Subquery(_))));
        match fails && (joins || !matches!(from[..], [From::Table { .. }])) {
            true => Err(refused("a condition that can fail beside others")),
            false => Ok(Query { select, from }),
        }
    }

    /// In DuckDB's words, within another.
    pub fn write(&self, w: &mut Writer) {
        self.select.write(&self.from, w, true);
    }

    /// What has no order, and can be computed of any row.
    fn is_plain(&self) -> Found<()> {
        let s = &self.select;
        if !s.order.is_empty() || s.limit.is_some() {
            return Err(refused("a subquery in an order"));
        }
        let all = s.targets.iter().map(|(_, e)| e).chain(&s.condition).chain(&s.groups).chain(&s.having);
        match all.into_iter().any(Expr::may_not_fit) {
            true => Err(refused("a subquery that can fail")),
            false => Ok(()),
        }
    }
}

fn select(node: Option<&ast::Node>) -> Found<&ast::SelectStmt> {
    match node.and_then(|n| n.node.as_ref()) {
        Some(NodeEnum::SelectStmt(s)) => Ok(s),
        _ => Err(refused("a subquery of this kind")),
    }
}

/// One of FROM, with what can be named of it.
pub fn of_from<'a>(r: &Reader<'a>, s: &ast::RangeSubselect) -> Found<(Table<'a>, Query)> {
    let Some(alias) = s.alias.as_ref().filter(|_| !s.lateral) else {
        return Err(refused("LATERAL, or a subquery without a name"));
    };
    let inner = select(s.subquery.as_deref())?;
    let query = r.within(false, || Query::read(r, inner))?;
    query.is_plain()?;
    let renamed: Vec<&str> = names::strings(&alias.colnames);
    if renamed.len() > query.select.targets.len() {
        return Err(refused("a subquery with more names than columns"));
    }
    let mut outputs = Vec::with_capacity(query.select.targets.len());
    for (at, (name, e)) in query.select.targets.iter().enumerate() {
        if e.ty.oid().is_none() {
            return Err(refused(&format!("a subquery's column of {}", e.ty.name())));
        }
        outputs.push(Output {
            name: renamed.get(at).map_or_else(|| name.clone(), |name| (*name).to_string()),
            ty: e.ty,
            collation: collation::of(r, &[e])?,
        });
    }
    Ok((Table { source: Source::Query(outputs), shown: alias.aliasname.clone(), renamed: true }, query))
}

/// One of a condition.
pub fn of_condition(r: &Reader, s: &ast::SubLink) -> Found<Expr> {
    if !r.subqueries.get() {
        return Err(refused("a subquery in this place"));
    }
    let kind = ast::SubLinkType::try_from(s.sub_link_type).unwrap_or_default();
    let left = match (kind, s.testexpr.as_deref()) {
        (ast::SubLinkType::AnySublink, Some(left)) => {
            let is_in = s.oper_name.is_empty() || super::own::operator(&s.oper_name, r.cx)? == "=";
            if !is_in {
                return Err(refused("a comparison with a subquery"));
            }
            super::own::is_own("=", r.cx)?;
            Some(r.expression(left)?)
        }
        _ => None,
    };
    let inner = select(s.subselect.as_deref())?;
    let mut query = r.within(true, || Query::read(r, inner))?;
    query.is_plain()?;
    let made = |left, word, query| Kind::Subquery(Box::new(Subquery { left, word, query }));
    match (kind, left) {
        (ast::SubLinkType::ExistsSublink, None) => Ok(Expr::condition(made(None, "EXISTS", query))),
        (ast::SubLinkType::AnySublink, Some(left)) => {
            let [(_, value)] = &mut query.select.targets[..] else { return Err(refused("IN of rows")) };
            let (left, right) = compare::settled(left, value.clone())?;
            let (left, right) = compare::alike(r, left, right, false)?;
            // What groups are made by stays as it is.
            if right != *value && (query.select.distinct || !query.select.groups.is_empty()) {
                return Err(refused("IN of groups of another type"));
            }
            *value = right;
            Ok(Expr::condition(made(Some(left), "IN", query)))
        }
        (ast::SubLinkType::ExprSublink, None) => {
            let s = &query.select;
            let one = s.groups.is_empty() && s.having.is_none() && !s.distinct && s.groups_rows();
            let [(_, value)] = &s.targets[..] else { return Err(refused("a subquery of several columns")) };
            if !one || value.ty.is_string() || aggregate::is_grouped(value).is_err() {
                return Err(refused("a subquery that is no total"));
            }
            Ok(Expr { ty: value.ty, kind: made(None, "", query) })
        }
        _ => Err(refused("a subquery of this kind")),
    }
}

impl Subquery {
    /// In DuckDB's words.
    pub fn write(&self, w: &mut Writer) {
        w.sql("(");
        if let Some(left) = &self.left {
            w.expression(left);
            w.sql(" ");
        }
        w.sql(self.word);
        w.sql(" (");
        self.query.write(w);
        w.sql("))");
    }
}
