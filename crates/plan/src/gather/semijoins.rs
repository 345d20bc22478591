//! Semijoins: rows of one child that are needed only where they meet a row of another. That one is read first, and its values go along when
//! the nodes are asked for the rest, which an index may serve there.
//!
//! What is said here is true of any rows; whether it saves anything is not known (`exec/src/query/ways.rs`). Home joins as without.

use catalog::Oid;
use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, build};

use super::Gather;
use super::filters::{conjuncts, listed_column};
use super::shuffle::kind;
use crate::classes::Var;
use crate::levels::{Analysis, Use};
use crate::scope::Scope;
use crate::text::{self, Text};
use crate::tree::{Part, Recipients};

/// How many are looked at.
const SEMIJOINS_MAX: usize = 16;
/// Columns of one of them: more leave few rows less.
const COLUMNS_MAX: usize = 3;

/// One child's rows by another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semijoin {
    /// Of which fewer rows come.
    pub child: usize,
    /// What its table calls the columns that must meet the partner's.
    pub names: Vec<String>,
    /// Which child is read before.
    pub partner: usize,
    /// Its columns.
    pub columns: Vec<usize>,
    /// What nodes are asked for the child's rows: [`crate::Piece::Rows`] counts semijoins, whose rows are the values of those columns.
    pub text: Text,
}

/// Those of a query whose tables' rows come home.
pub fn of(a: &Analysis, query: &ast::SelectStmt, parts: &[Part], gather: &Gather) -> Vec<Semijoin> {
    let mut listed = Listed { a, found: vec![] };
    walk::select_stmt(query, &mut listed);
    let partners: Vec<(usize, Vec<Option<Var>>)> = gather.columns_of_parts(a);
    let mut found = vec![];
    for (child, own) in gather.tables.iter().filter(|(_, own)| is_read_once(a, parts, own.relation.oid)) {
        // Who names a WITH query that it is in besides may need other rows.
        let (&[u], Some(query)) = (&own.uses[..], &own.query) else { continue };
        for (partner, columns) in partners.iter().filter(|(partner, _)| partner != child) {
            if !a.cx.take(own.relation.columns.len() * (columns.len() + listed.found.len())) {
                return vec![];
            }
            let met = met(a, &a.uses[u], columns, &listed.found);
            if met.is_empty() || found.len() == SEMIJOINS_MAX {
                continue;
            }
            let names: Vec<_> = met.iter().map(|(column, _)| own.relation.columns[*column].name.clone()).collect();
            if let Some(text) = text(a, query, &names, found.len()) {
                let columns = met.into_iter().map(|(_, column)| column).collect();
                found.push(Semijoin { child: *child, names, partner: *partner, columns, text });
            }
        }
    }
    found
}

/// Columns whose values are among those of a subquery's only column, in all rows that its level keeps.
struct Listed<'l, 'a> {
    a: &'l Analysis<'a>,
    found: Vec<(Var, Var)>,
}

impl<'n> Visit<'n> for Listed<'_, '_> {
    fn select(&mut self, s: &'n ast::SelectStmt) -> bool {
        let level = self.a.by_node.get(&std::ptr::from_ref(s));
        if let Some(scope) = level.and_then(|level| self.a.scopes.get(level)) {
            let mut conditions = vec![];
            conjuncts(s.where_clause.as_deref(), &mut conditions);
            let found = conditions.into_iter().filter_map(|condition| self.listed(condition, scope));
            self.found.extend(found.collect::<Vec<_>>());
        }
        true
    }
}

impl Listed<'_, '_> {
    fn listed(&self, condition: &Node, scope: &Scope) -> Option<(Var, Var)> {
        let Some(NodeEnum::SubLink(s)) = &condition.node else { return None };
        let column = listed_column(self.a, s, scope)?;
        let Some(NodeEnum::SelectStmt(body)) = s.subselect.as_deref().and_then(|q| q.node.as_ref()) else {
            return None;
        };
        let level = *self.a.by_node.get(&std::ptr::from_ref(body.as_ref()))?;
        match &self.a.levels[level].columns.as_ref()?[..] {
            [(_, Some(of))] => Some((column, *of)),
            _ => None,
        }
    }
}

/// One child alone has the table's rows: read at two moments they may differ.
fn is_read_once(a: &Analysis, parts: &[Part], table: Oid) -> bool {
    let reads = |part: &&Part| {
        let Recipients::Shards(uses) = &part.target;
        uses.iter().any(|u| a.uses[*u].relation.oid == table)
    };
    parts.iter().filter(reads).count() == 1
}

/// Columns of a table, and those of a partner's rows that they are known to equal where the table is named.
fn met(a: &Analysis, u: &Use, partner: &[Option<Var>], listed: &[(Var, Var)]) -> Vec<(usize, usize)> {
    let kind_of = |v: Var| a.types[v].and_then(|(oid, _)| kind(oid));
    let equal = |(c, own): (usize, &Var)| {
        let kind_here = kind_of(*own)?;
        let same = |v: &Var| a.classes.same(u.classes, *own, *v);
        let is_listed = |v: &Var| listed.iter().any(|(of, within)| within == v && same(of));
        let meets = |v: &Option<Var>| v.is_some_and(|v| kind_of(v) == Some(kind_here) && (same(&v) || is_listed(&v)));
        Some((c, partner.iter().position(meets)?))
    };
    u.columns.iter().enumerate().filter_map(equal).take(COLUMNS_MAX).collect()
}

/// The child's query for rows that have some of the values.
fn text(a: &Analysis, query: &ast::SelectStmt, names: &[String], number: usize) -> Option<Text> {
    let mut query = query.clone();
    let mut columns: Vec<Node> = names.iter().map(|name| build::column(&[name])).collect();
    let value = match columns.len() {
        1 => columns.remove(0),
        _ => build::row(columns),
    };
    let within = build::within(value, text::rows(number));
    query.where_clause = Some(Box::new(match query.where_clause.take() {
        Some(condition) => build::and(vec![*condition, within]),
        None => within,
    }));
    a.cx.text(NodeEnum::SelectStmt(Box::new(query))).ok()
}
