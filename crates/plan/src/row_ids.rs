//! `ctid` of a distributed table, where it only says which rows are meant: `ctid IN (SELECT ctid FROM t … LIMIT 10)`. Each shard has ctids of
//! its own, so the primary key says it in their place; what would compare it otherwise with another shard's is refused. How a statement is
//! planned is not known here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::Relation;
use sql::ast::{self, Node, a_const::Val};
use sql::walk::{self, Visit, VisitMut};
use sql::{NodeEnum, build, clauses, names, search};
use wire::type_oid;

use crate::refuse::Refusal;
use crate::table_keys::TableKeys;
use crate::types::{KeyExpr, Planned};
use crate::{Context, Result};

/// The statement with keys in place of ctids; `None`: there are none, or they say more than which rows are meant.
pub fn by_key(statement: &NodeEnum, cx: &Context) -> Option<NodeEnum> {
    if !search::any(statement, is_ctid_node) {
        return None;
    }
    let names = Names::of(statement, cx);
    let found = names.found(statement);
    let seen = found.has_seen_whole(statement);
    let Found { table, of, all, compared, given, failed, placed, .. } = found;
    let known = all.iter().all(|c| compared.contains(c) || given.contains(c));
    if failed || placed != Placed::Nowhere || !known || !given.is_empty() && seen {
        return None;
    }
    let table = table?;
    let key = table.unique.iter().find(|index| index.primary && index.plain)?;
    let columns: Vec<_> = key.columns.iter().map(|c| &table.columns[*c]).collect();
    if columns.iter().any(|c| type_oid::is_text(c.type_oid) && !c.collation_deterministic) {
        return None;
    }
    let key = columns.iter().map(|c| c.name.clone()).collect();
    let mut changed = statement.clone();
    walk::below_mut(&mut changed, &mut Replace { key, of });
    Some(changed)
}

/// Refuses a ctid that is more than shown, of rows that are in several shards: another shard's row may have the same.
pub fn refuse(statement: &NodeEnum, planned: &Planned, cx: &Context) -> Result<()> {
    if !search::any(statement, is_ctid_node) {
        return Ok(());
    }
    let names = Names::of(statement, cx);
    let found = names.found(statement);
    let shown: HashSet<_> = outputs(statement).filter_map(shown).map(std::ptr::from_ref).collect();
    // Subqueries may have it, if nobody asks them for it.
    let asked = found.of.values().any(|of| *of == Of::Derived) || found.has_seen_whole(statement);
    let is_shown = |c: &*const ast::ColumnRef| shown.contains(c) || !asked && found.given.contains(c);
    let is_used = found.placed == Placed::InGroups || !found.distributed.iter().all(is_shown);
    if !is_used || is_of_one_shard(&planned.whole().tables) {
        return Ok(());
    }
    Err(Refusal::new(
        "ctid of a distributed table is not supported where it is more than shown: each of its shards has ctids of its own",
        "Find rows by the primary key, or by one key value. Where it only says which rows are meant (ctid IN (SELECT ctid …)), a table with a primary key is enough.",
    ))
}

/// All rows that it can mean are in one shard.
fn is_of_one_shard(tables: &[TableKeys]) -> bool {
    let has_one = |t: &TableKeys| t.relation.distribution().is_some_and(|d| d.group.shards.len() == 1);
    let Some((first, others)) = tables.split_first() else { return false };
    let value = |alternatives: &Vec<KeyExpr>| match &alternatives[..] {
        [KeyExpr::ParamArray(_) | KeyExpr::CastParamArray(..)] => None,
        [KeyExpr::Literal { text, kind, cast, .. }] => {
            Some(KeyExpr::Literal { location: None, text: text.clone(), kind: *kind, cast: *cast })
        }
        [one] => Some(one.clone()),
        _ => None,
    };
    let key = |t: &TableKeys| t.columns.iter().map(value).collect::<Option<Vec<_>>>();
    let of_first = key(first).filter(|key| !key.is_empty());
    tables.iter().all(has_one) || of_first.is_some() && others.iter().all(|t| key(t) == of_first)
}

/// What the client gets to see.
fn outputs(statement: &NodeEnum) -> impl Iterator<Item = &Node> {
    let list: &[Node] = match statement {
        NodeEnum::SelectStmt(s) if tells_rows_apart(s) => &s.target_list,
        NodeEnum::InsertStmt(s) => s.returning_clause.as_ref().map_or(&[], |r| &r.exprs),
        NodeEnum::UpdateStmt(s) => s.returning_clause.as_ref().map_or(&[], |r| &r.exprs),
        NodeEnum::DeleteStmt(s) => s.returning_clause.as_ref().map_or(&[], |r| &r.exprs),
        _ => &[],
    };
    list.iter()
}

/// Rows that differ in nothing else stay apart.
fn tells_rows_apart(s: &ast::SelectStmt) -> bool {
    s.larg.is_none() && s.distinct_clause.is_empty() && s.group_clause.is_empty()
}

/// Where a ctid is meant by its place in a list of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Placed {
    Nowhere,
    InOrder,
    InGroups,
}

/// What a ctid is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// Of the table.
    Table,
    /// Of a subquery or WITH query, which has it of the table.
    Derived,
}

/// An item of FROM by its name.
type Item = (String, What);

#[derive(Clone)]
enum What {
    Table(Arc<Relation>),
    Derived,
    Other,
}

struct Found<'c, 'a> {
    names: &'c Names<'c, 'a>,
    scopes: Vec<Vec<Item>>,
    table: Option<Arc<Relation>>,
    /// Of each ctid, by its place in the text.
    of: HashMap<i32, Of>,
    all: Vec<*const ast::ColumnRef>,
    /// Those that are, or may be, of a distributed table.
    distributed: Vec<*const ast::ColumnRef>,
    /// They are only compared with each other.
    compared: HashSet<*const ast::ColumnRef>,
    /// Subqueries have them as columns.
    given: HashSet<*const ast::ColumnRef>,
    placed: Placed,
    /// What subqueries and WITH queries are called that have one.
    derived: HashSet<String>,
    failed: bool,
}

impl<'n> Visit<'n> for Found<'_, '_> {
    fn select(&mut self, s: &'n ast::SelectStmt) -> bool {
        let mut items = vec![];
        s.from_clause.iter().for_each(|item| self.names.items_of(item, &mut items));
        self.enter(items);
        self.look_at_places(s);
        self.with(s.with_clause.as_ref());
        true
    }

    fn leave_select(&mut self, _: &'n ast::SelectStmt) {
        self.scopes.pop();
    }

    fn node(&mut self, n: &'n NodeEnum) -> bool {
        match n {
            NodeEnum::AExpr(e) if names::last(&e.name) == "=" => {
                let (Some(l), Some(r)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return true };
                let sides = match ast::AExprKind::try_from(e.kind) {
                    // A row is compared with a subquery, and no subquery with another.
                    Ok(ast::AExprKind::AexprOp) if ctid(l).is_some() || ctid(r).is_some() => (one(l), one(r)),
                    Ok(ast::AExprKind::AexprOpAny) => (ctid(l), listed(r, ast::SubLinkType::ArraySublink)),
                    _ => (None, None),
                };
                self.compare(sides);
            }
            NodeEnum::SubLink(s) if s.sub_link_type == ast::SubLinkType::AnySublink as i32 => {
                let equal = s.oper_name.is_empty() || names::last(&s.oper_name) == "=";
                let test = s.testexpr.as_deref().filter(|_| equal).and_then(ctid);
                self.compare((test, s.subselect.as_deref().and_then(only_target)));
            }
            // A join by that name.
            NodeEnum::JoinExpr(j) if names::strings(&j.using_clause).contains(&"ctid") => {
                (self.failed, self.placed) = (true, Placed::InGroups);
            }
            NodeEnum::RangeSubselect(s) => s.subquery.iter().for_each(|q| self.given(q)),
            NodeEnum::ColumnRef(c) if is_ctid(c) => {
                self.all.push(std::ptr::from_ref(c));
                if self.may_be_distributed(c) {
                    self.distributed.push(std::ptr::from_ref(c));
                }
                // What was put there by others has no place.
                match self.resolve(c).filter(|_| c.location >= 0) {
                    Some(of) => self.failed |= self.of.insert(c.location, of).is_some(),
                    None => self.failed = true,
                }
            }
            _ => {}
        }
        true
    }
}

impl Found<'_, '_> {
    fn enter(&mut self, items: Vec<Item>) {
        let derived = items.iter().filter(|(_, what)| matches!(what, What::Derived));
        self.derived.extend(derived.map(|(name, _)| name.clone()));
        self.scopes.push(items);
    }

    fn look_at_places(&mut self, s: &ast::SelectStmt) {
        let is_at = |n: &Node, at: usize| {
            let n = match &n.node {
                Some(NodeEnum::SortBy(by)) => by.node.as_deref(),
                _ => Some(n),
            };
            matches!(n.and_then(|n| n.node.as_ref()), Some(NodeEnum::AConst(ast::AConst { val: Some(Val::Ival(i)), .. })) if i.ival == at as i32 + 1)
        };
        for at in (0..s.target_list.len()).filter(|at| target(&s.target_list[*at]).is_some()) {
            let grouped = |n: &Node| is_at(n, at) || search::any(n, |n| matches!(n, NodeEnum::GroupingSet(_)));
            let placed = match () {
                () if s.group_clause.iter().chain(&s.distinct_clause).any(grouped) => Placed::InGroups,
                () if s.sort_clause.iter().any(|n| is_at(n, at)) => Placed::InOrder,
                () => Placed::Nowhere,
            };
            if placed > self.placed {
                self.placed = placed;
            }
        }
    }

    /// All columns of something, or a whole row of what has a ctid of the table, are asked for.
    fn has_seen_whole(&self, statement: &NodeEnum) -> bool {
        !self.derived.is_empty()
            && search::any(statement, |n| match n {
                NodeEnum::ColumnRef(c) if names::has_star(c) => true,
                NodeEnum::ColumnRef(c) => matches!(names::strings(&c.fields)[..], [one] if self.derived.contains(one)),
                _ => false,
            })
    }

    fn compare(&mut self, sides: (Option<&ast::ColumnRef>, Option<&ast::ColumnRef>)) {
        if let (Some(l), Some(r)) = sides {
            self.compared.extend([std::ptr::from_ref(l), std::ptr::from_ref(r)]);
        }
    }

    fn with(&mut self, with: Option<&ast::WithClause>) {
        for cte in with.iter().flat_map(|w| &w.ctes) {
            if let Some(NodeEnum::CommonTableExpr(c)) = &cte.node {
                match c.aliascolnames.is_empty() {
                    true => c.ctequery.iter().for_each(|q| self.given(q)),
                    false => self.failed |= search::any(cte, is_ctid_node),
                }
            }
        }
    }

    /// What a subquery gives by the name of ctid.
    fn given(&mut self, query: &Node) {
        let Some(NodeEnum::SelectStmt(s)) = &query.node else { return };
        if !tells_rows_apart(s) {
            return;
        }
        for target in s.target_list.iter().filter_map(target) {
            self.given.insert(std::ptr::from_ref(target));
        }
    }

    fn may_be_distributed(&self, c: &ast::ColumnRef) -> bool {
        let is = |(_, what): &Item| matches!(what, What::Table(_));
        match names::strings(&c.fields)[..] {
            [_] => self.scopes.iter().flatten().any(is),
            [.., name, _] => self.scopes.iter().flatten().any(|item| item.0 == name && is(item)),
            [] => false,
        }
    }

    fn resolve(&mut self, c: &ast::ColumnRef) -> Option<Of> {
        let what = match names::strings(&c.fields)[..] {
            [_] => match &self.scopes.last()?[..] {
                [(_, what)] => what,
                _ => return None,
            },
            [name, _] => &self.scopes.iter().rev().flatten().find(|(alias, _)| alias == name)?.1,
            _ => return None,
        };
        match what.clone() {
            What::Derived => Some(Of::Derived),
            What::Table(table) => {
                let known = self.table.get_or_insert_with(|| table.clone());
                (known.oid == table.oid && table.through.is_none()).then_some(Of::Table)
            }
            What::Other => None,
        }
    }
}

/// What names mean in FROM.
struct Names<'c, 'a> {
    cx: &'c Context<'a>,
    /// WITH queries, wherever they are, and whether they have a ctid.
    queries: HashMap<String, bool>,
}

impl<'c, 'a> Names<'c, 'a> {
    fn of(statement: &NodeEnum, cx: &'c Context<'a>) -> Self {
        let mut queries: HashMap<String, bool> = HashMap::new();
        search::each(statement, |n| {
            if let NodeEnum::CommonTableExpr(c) = n {
                let gives = c.aliascolnames.is_empty() && c.ctequery.as_deref().is_some_and(gives);
                // Of two that are called so either may be meant.
                *queries.entry(c.ctename.clone()).or_insert(gives) &= gives;
            }
        });
        Names { cx, queries }
    }

    fn found(&self, statement: &NodeEnum) -> Found<'_, 'a> {
        let mut found = Found {
            names: self,
            scopes: vec![],
            table: None,
            of: HashMap::new(),
            all: vec![],
            distributed: vec![],
            compared: HashSet::new(),
            given: HashSet::new(),
            placed: Placed::Nowhere,
            derived: HashSet::new(),
            failed: false,
        };
        found.enter(self.top(statement));
        found.with(clauses::with(statement));
        walk::below(statement, &mut found);
        found
    }

    /// What a statement that is no query names beside its subqueries.
    fn top(&self, statement: &NodeEnum) -> Vec<Item> {
        let mut items = vec![];
        let (target, from) = match statement {
            NodeEnum::UpdateStmt(u) => (u.relation.as_ref(), &u.from_clause[..]),
            NodeEnum::DeleteStmt(d) => (d.relation.as_ref(), &d.using_clause[..]),
            NodeEnum::InsertStmt(i) => (i.relation.as_ref(), &[][..]),
            NodeEnum::MergeStmt(m) => {
                (m.relation.as_ref(), m.source_relation.as_deref().map_or(&[][..], std::slice::from_ref))
            }
            _ => (None, &[][..]),
        };
        items.extend(target.map(|rv| self.item_of(rv)));
        from.iter().for_each(|item| self.items_of(item, &mut items));
        items
    }

    fn items_of(&self, item: &Node, items: &mut Vec<Item>) {
        match &item.node {
            Some(NodeEnum::RangeVar(rv)) => items.push(self.item_of(rv)),
            Some(NodeEnum::RangeSubselect(s)) => {
                let alias = s.alias.as_ref().filter(|a| a.colnames.is_empty());
                let alias = alias.filter(|_| s.subquery.as_deref().is_some_and(gives));
                items.push(alias.map_or((String::new(), What::Other), |a| (a.aliasname.clone(), What::Derived)));
            }
            Some(NodeEnum::JoinExpr(j)) if j.alias.is_none() => {
                j.larg.iter().chain(&j.rarg).for_each(|side| self.items_of(side, items));
            }
            _ => items.push((String::new(), What::Other)),
        }
    }

    fn item_of(&self, rv: &ast::RangeVar) -> Item {
        let renamed = rv.alias.as_ref().is_some_and(|a| !a.colnames.is_empty());
        let query = self.queries.get(&rv.relname).filter(|_| rv.schemaname.is_empty());
        let what = match self.cx.relation(rv) {
            _ if renamed => What::Other,
            None if query == Some(&true) => What::Derived,
            Some(r) if query.is_none() && r.distribution().is_some() => What::Table(r.clone()),
            _ => What::Other,
        };
        (rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname).clone(), what)
    }
}

fn is_ctid_node(n: &NodeEnum) -> bool {
    matches!(n, NodeEnum::ColumnRef(c) if is_ctid(c))
}

fn is_ctid(c: &ast::ColumnRef) -> bool {
    names::strings(&c.fields).last() == Some(&"ctid")
}

fn ctid(n: &Node) -> Option<&ast::ColumnRef> {
    match &n.node {
        Some(NodeEnum::ColumnRef(c)) if is_ctid(c) => Some(c),
        _ => None,
    }
}

fn target(n: &Node) -> Option<&ast::ColumnRef> {
    match &n.node {
        Some(NodeEnum::ResTarget(t)) if matches!(&*t.name, "" | "ctid") => t.val.as_deref().and_then(ctid),
        _ => None,
    }
}

/// A ctid that the client gets to see, by whatever name, and as a text.
fn shown(n: &Node) -> Option<&ast::ColumnRef> {
    fn value(n: &Node) -> Option<&ast::ColumnRef> {
        match &n.node {
            Some(NodeEnum::TypeCast(t)) => t.arg.as_deref().and_then(value),
            _ => ctid(n),
        }
    }
    match &n.node {
        Some(NodeEnum::ResTarget(t)) => t.val.as_deref().and_then(value),
        _ => None,
    }
}

/// A query has a ctid as a column.
fn gives(query: &Node) -> bool {
    matches!(&query.node, Some(NodeEnum::SelectStmt(s)) if s.target_list.iter().any(|t| target(t).is_some()))
}

/// The ctid that is the only column of a query.
fn only_target(query: &Node) -> Option<&ast::ColumnRef> {
    match &query.node {
        Some(NodeEnum::SelectStmt(s)) if s.larg.is_none() && s.target_list.len() == 1 => target(&s.target_list[0]),
        _ => None,
    }
}

fn listed(n: &Node, kind: ast::SubLinkType) -> Option<&ast::ColumnRef> {
    match &n.node {
        Some(NodeEnum::SubLink(s)) if s.sub_link_type == kind as i32 => s.subselect.as_deref().and_then(only_target),
        _ => None,
    }
}

/// A ctid, or a subquery that stands for one.
fn one(n: &Node) -> Option<&ast::ColumnRef> {
    ctid(n).or_else(|| listed(n, ast::SubLinkType::ExprSublink))
}

struct Replace {
    key: Vec<String>,
    /// By the place in the text.
    of: HashMap<i32, Of>,
}

impl VisitMut for Replace {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        // Keys of several columns are rows: these stand before the subquery that they are compared with.
        if let NodeEnum::AExpr(e) = n
            && e.kind == ast::AExprKind::AexprOp as i32
            && e.rexpr.as_deref().and_then(ctid).is_some()
            && e.lexpr.as_deref().and_then(|l| listed(l, ast::SubLinkType::ExprSublink)).is_some()
        {
            std::mem::swap(&mut e.lexpr, &mut e.rexpr);
        }
        // An array of them there is not.
        if let NodeEnum::AExpr(e) = n
            && e.kind == ast::AExprKind::AexprOpAny as i32
            && e.lexpr.as_deref().and_then(ctid).is_some()
            && let (Some(test), Some(Node { node: Some(NodeEnum::SubLink(list)) })) =
                (e.lexpr.take(), e.rexpr.take().map(|r| *r))
        {
            let sub_link_type = ast::SubLinkType::AnySublink as i32;
            *n = NodeEnum::SubLink(Box::new(ast::SubLink { sub_link_type, testexpr: Some(test), ..*list }));
        }
        if let NodeEnum::ColumnRef(c) = n
            && is_ctid(c)
        {
            let mut columns = self.columns(c);
            let key = if columns.len() == 1 { columns.remove(0) } else { build::row(columns) };
            key.node.into_iter().for_each(|node| *n = node);
            return false;
        }
        true
    }

    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        // Others keep their places in the list.
        let mut behind = vec![];
        for item in &mut s.target_list {
            let Some(c) = target(item) else { continue };
            let mut columns = self.columns(c).into_iter().enumerate();
            let named = |(i, column): (usize, Node)| build::target(column, Some(&own_name(i)));
            if let Some(first) = columns.next().map(named) {
                *item = first;
            }
            behind.extend(columns.map(named));
        }
        s.target_list.extend(behind);
        true
    }
}

impl Replace {
    /// The key's columns where a ctid was.
    fn columns(&self, c: &ast::ColumnRef) -> Vec<Node> {
        let mut names = names::strings(&c.fields);
        names.pop();
        let derived = self.of.get(&c.location) == Some(&Of::Derived);
        let own = |(i, key): (usize, &String)| if derived { own_name(i) } else { key.clone() };
        let column = |own: String| build::column(&names.iter().copied().chain([&*own]).collect::<Vec<_>>());
        self.key.iter().enumerate().map(own).map(column).collect()
    }
}

/// What a subquery calls the key's columns: nobody else calls any so.
fn own_name(column: usize) -> String {
    format!("%ctid{column}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(sql: &str, key: &[&str], derived: &[&str]) -> String {
        let mut tree = sql::parse(sql, true).unwrap().remove(0);
        let key = key.iter().map(|k| k.to_string()).collect();
        let of = derived.iter().map(|name| (sql.find(name).unwrap() as i32, Of::Derived)).collect();
        walk::below_mut(&mut tree, &mut Replace { key, of });
        sql::deparse(&tree).unwrap()
    }

    #[test]
    fn a_key_stands_where_a_ctid_stood() {
        assert_eq!(
            replaced("DELETE FROM t WHERE ctid IN (SELECT ctid FROM t LIMIT 2)", &["id"], &[]),
            r#"DELETE FROM t WHERE id IN (SELECT id AS "%ctid0" FROM t LIMIT 2)"#
        );
        assert_eq!(
            replaced("DELETE FROM t WHERE t.ctid = ANY (ARRAY(SELECT x.ctid FROM t x))", &["a", "b"], &[]),
            r#"DELETE FROM t WHERE (t.a, t.b) IN (SELECT x.a AS "%ctid0", x.b AS "%ctid1" FROM t x)"#
        );
        assert_eq!(
            replaced("DELETE FROM t USING (SELECT ctid FROM t) d WHERE t.ctid = d.ctid", &["a", "b"], &["d.ctid"]),
            r#"DELETE FROM t USING (SELECT a AS "%ctid0", b AS "%ctid1" FROM t) d WHERE (t.a, t.b) = (d."%ctid0", d."%ctid1")"#
        );
    }
}
