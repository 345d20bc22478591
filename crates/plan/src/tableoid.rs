//! `tableoid` of a table whose rows are in shards: each node, and each shard, has an object id of its own for it.
//!
//! `tableoid::regclass` becomes the name of the table, or of the partition by time that a row's shard is of, which the node that has the row
//! looks up. Where the object id itself would show (as a number, or in an order) it is refused: nodes have ids of their own. What levels are is
//! not known here.

use catalog::Relation;
use sql::ast::{self, Node};
use sql::walk::{self, Visit, VisitMut};
use sql::{NodeEnum, build, names, relations, search};

use crate::refuse::Refusal;
use crate::{Context, Result};

/// Of the catalog: what a row's `tableoid` is to users (`catalog/src/schema/sizes.sql`).
const LOOK_UP: [&str; 2] = ["herd", "table_of_shard"];

/// Replaces it; true if there was one. Where a node looks it up, it stands in the call that does.
pub fn replace(statement: &mut NodeEnum, cx: &Context) -> Result<bool> {
    if !search::any(statement, is_tableoid) {
        return Ok(false);
    }
    if relations::of(statement).into_iter().all(|rv| Named::of(rv, cx).table.is_none()) {
        return Ok(false);
    }
    let own = match &*statement {
        NodeEnum::SelectStmt(_) => vec![],
        NodeEnum::InsertStmt(s) => s.relation.iter().map(|rv| Named::of(rv, cx)).collect(),
        NodeEnum::UpdateStmt(s) => Named::of_write(&s.relation, &s.from_clause, cx),
        NodeEnum::DeleteStmt(s) => Named::of_write(&s.relation, &s.using_clause, cx),
        NodeEnum::MergeStmt(s) => Named::of_write(&s.relation, s.source_relation.as_deref(), cx),
        other => relations::of(other).into_iter().map(|rv| Named::of(rv, cx)).collect(),
    };
    let mut sorted = Sorted::default();
    walk::below(statement, &mut sorted);
    // A row that an outer join left out has none.
    let outer = |n: &NodeEnum| matches!(n, NodeEnum::JoinExpr(j) if j.jointype != ast::JoinType::JoinInner as i32);
    let outer = search::any(statement, outer);
    // What an INSERT reads goes into columns, of whatever type.
    let told = if matches!(statement, NodeEnum::SelectStmt(_)) { Told::Arms } else { Told::Rows };
    let (levels, told) = (vec![own], vec![told]);
    let mut replace = Replace { cx, levels, told, outer, sorted: sorted.0, replaced: false, refused: None };
    walk::below_mut(statement, &mut replace);
    replace.refused.map_or(Ok(replace.replaced), Err)
}

/// In views nodes would tell their shards.
pub fn refuse_in_views(expanded: &NodeEnum, cx: &Context) -> Result<()> {
    if search::any(expanded, is_tableoid) && replace(&mut expanded.clone(), cx)? {
        return Err(Refusal::new(
            "tableoid of a distributed table in a view is not supported: it differs from shard to shard and from node to node",
            "Select tableoid::regclass from the table itself.",
        ));
    }
    Ok(())
}

/// What a relation is called where columns name it, and which distributed table it is.
struct Named<'c> {
    schema: String,
    name: String,
    table: Option<&'c Relation>,
}

impl<'c> Named<'c> {
    fn of(rv: &ast::RangeVar, cx: &'c Context) -> Self {
        let table = cx.relation(rv).map(AsRef::as_ref).filter(|r: &&Relation| r.distribution().is_some());
        let (schema, name) = match &rv.alias {
            Some(alias) => (String::new(), alias.aliasname.clone()),
            None => (rv.schemaname.clone(), rv.relname.clone()),
        };
        Named { schema, name, table }
    }

    /// Those of a FROM list; what subqueries name is theirs.
    fn of_items(items: &[&Node], cx: &'c Context) -> Vec<Self> {
        let mut found = vec![];
        for item in items {
            match &item.node {
                Some(NodeEnum::RangeVar(rv)) => found.push(Named::of(rv, cx)),
                Some(NodeEnum::RangeTableSample(s)) => {
                    found.extend(s.relation.iter().flat_map(|n| Named::of_items(&[n], cx)));
                }
                Some(NodeEnum::JoinExpr(j)) => {
                    found.extend(j.larg.iter().chain(&j.rarg).flat_map(|n| Named::of_items(&[n], cx)));
                }
                _ => {}
            }
        }
        found
    }

    fn of_write<'n>(
        target: &Option<ast::RangeVar>,
        items: impl IntoIterator<Item = &'n Node>,
        cx: &'c Context,
    ) -> Vec<Self> {
        target
            .iter()
            .map(|rv| Named::of(rv, cx))
            .chain(Named::of_items(&items.into_iter().collect::<Vec<_>>(), cx))
            .collect()
    }
}

fn refusal() -> Refusal {
    Refusal::new(
        "tableoid of a distributed table is not supported here: it differs from shard to shard and from node to node",
        "Write tableoid::regclass, with its table before it where there are several, and tableoid::regclass::text in subqueries and where rows are sorted by it.",
    )
}

/// A column of that name, with or without its table before it.
pub fn is_tableoid(n: &NodeEnum) -> bool {
    matches!(n, NodeEnum::ColumnRef(c) if names::strings(&c.fields).last() == Some(&"tableoid"))
}

/// What is selected, by where it stands, of which rows are sorted by its name or place.
#[derive(Default)]
struct Sorted(Vec<i32>);

impl<'n> Visit<'n> for Sorted {
    fn select(&mut self, s: &'n ast::SelectStmt) -> bool {
        let targets = s.target_list.iter().filter_map(|n| match &n.node {
            Some(NodeEnum::ResTarget(t)) => Some(&**t),
            _ => None,
        });
        let targets: Vec<_> = targets.collect();
        for item in s.sort_clause.iter().chain(&s.distinct_clause) {
            let item = match &item.node {
                Some(NodeEnum::SortBy(by)) => by.node.as_deref().and_then(|n| n.node.as_ref()),
                other => other.as_ref(),
            };
            match item {
                Some(NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Ival(place)), .. })) => {
                    let at = usize::try_from(place.ival).ok().and_then(|n| n.checked_sub(1));
                    // Behind a star it may be any.
                    let star = targets.iter().any(|t| t.val.as_deref().is_some_and(is_star));
                    let meant = targets.iter().enumerate().filter(|(n, _)| star || at == Some(*n));
                    self.0.extend(meant.map(|(_, t)| t.location));
                }
                Some(NodeEnum::ColumnRef(c)) if c.fields.len() == 1 => {
                    let name = names::last(&c.fields);
                    let meant = targets.iter().filter(|t| match (&*t.name, t.val.as_deref()) {
                        ("", Some(value)) => names::figure_column(value) == name,
                        (given, _) => given == name,
                    });
                    self.0.extend(meant.map(|t| t.location));
                }
                _ => {}
            }
        }
        true
    }
}

fn is_star(n: &Node) -> bool {
    matches!(&n.node, Some(NodeEnum::ColumnRef(c)) if names::has_star(c))
}

/// Who gets what a level selects.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    /// The client, row by row.
    Rows,
    /// The client, of the levels right below: the statement's own, or the arms of a set operation.
    Arms,
    /// Another level, which may look at it as an object id.
    Inside,
}

struct Replace<'c> {
    cx: &'c Context<'c>,
    /// What each level has in FROM, the innermost last.
    levels: Vec<Vec<Named<'c>>>,
    /// The same of what it selects; in front of all, the statement.
    told: Vec<Told>,
    outer: bool,
    /// Where what is selected stands that rows are sorted by.
    sorted: Vec<i32>,
    replaced: bool,
    refused: Option<Refusal>,
}

impl<'c> Replace<'c> {
    /// The distributed table that a `tableoid` is of; `None`: another one's, which is left as it is.
    fn table(&mut self, column: &NodeEnum) -> Option<&'c Relation> {
        let NodeEnum::ColumnRef(c) = column else { return None };
        let parts = names::strings(&c.fields);
        let is_meant = |n: &&Named| match parts[..] {
            [_] => true,
            [name, _] => n.name == name,
            [schema, name, _] => n.name == name && n.schema == schema,
            _ => false,
        };
        let level = self.levels.iter().rev().find(|level| level.iter().any(|n| is_meant(&n)))?;
        let mut meant = level.iter().filter(is_meant);
        match (meant.next(), meant.next()) {
            (Some(one), None) => one.table,
            (Some(one), Some(other)) if [one, other].into_iter().chain(meant).any(|n| n.table.is_some()) => {
                self.refused.get_or_insert_with(refusal);
                None
            }
            _ => None,
        }
    }

    /// Nodes would sort by ids of their own.
    fn refuse_order(&mut self, value: &Node) {
        let Some(NodeEnum::TypeCast(cast)) = &value.node else { return };
        let Some(column) = cast.arg.as_deref().and_then(|a| a.node.as_ref()).filter(|n| is_tableoid(n)) else { return };
        if self.table(column).is_some_and(|table| self.looks_up(table)) {
            self.refused.get_or_insert_with(refusal);
        }
    }

    /// What is a regclass stays one.
    fn as_regclass(&mut self, n: &mut NodeEnum) {
        let NodeEnum::TypeCast(cast) = n else { return };
        let Some(column) = cast.arg.as_deref().and_then(|a| a.node.clone()) else { return };
        if let Some(table) = self.table(&column) {
            cast.arg = Some(Box::new(self.regclass(&column, table)));
        }
    }

    /// What it says differs from row to row.
    fn looks_up(&self, table: &Relation) -> bool {
        self.outer || table.distribution().is_some_and(|d| d.is_partitioned())
    }

    /// As a regclass.
    fn regclass(&mut self, column: &NodeEnum, table: &Relation) -> Node {
        self.replaced = true;
        if !self.looks_up(table) {
            let name = format!("{}.{}", catalog::quote_ident(&table.schema), catalog::quote_ident(&table.name));
            return build::cast(build::text(&name), "regclass");
        }
        let column = Node { node: Some(column.clone()) };
        build::node(NodeEnum::FuncCall(Box::new(ast::FuncCall {
            funcname: LOOK_UP.map(build::string).to_vec(),
            args: vec![column],
            funcformat: ast::CoercionForm::CoerceExplicitCall as i32,
            location: -1,
            ..Default::default()
        })))
    }
}

impl VisitMut for Replace<'_> {
    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        self.levels.push(Named::of_items(&s.from_clause.iter().collect::<Vec<_>>(), self.cx));
        let outermost = self.told.last() == Some(&Told::Arms);
        self.told.push(match (outermost, s.larg.is_some()) {
            (true, true) if s.with_clause.is_none() => Told::Arms,
            (true, false) => Told::Rows,
            _ => Told::Inside,
        });
        // Groups are the same whosever ids they have.
        for item in &mut s.group_clause {
            if let Some(column) = item.node.clone().filter(is_tableoid)
                && let Some(table) = self.table(&column)
            {
                *item = self.regclass(&column, table);
            } else if let Some(item) = item.node.as_mut().filter(|n| is_regclass(n)) {
                self.as_regclass(item);
            }
        }
        true
    }

    fn leave_select(&mut self, _: &mut ast::SelectStmt) {
        self.levels.pop();
        self.told.pop();
    }

    fn node(&mut self, n: &mut NodeEnum) -> bool {
        match n {
            NodeEnum::ResTarget(t) => {
                let Some(value) = t.val.as_deref() else { return true };
                if self.sorted.contains(&t.location) {
                    self.refuse_order(value);
                }
                // Its column keeps its name.
                if t.name.is_empty() && value.node.as_ref().is_some_and(is_cast) {
                    t.name = names::figure_column(value);
                }
                let told = self.told.last() != Some(&Told::Inside);
                match t.val.as_deref_mut().and_then(|v| v.node.as_mut()) {
                    Some(value) if told && is_regclass(value) => {
                        self.as_regclass(value);
                        false
                    }
                    _ => true,
                }
            }
            NodeEnum::SortBy(by) => {
                if let Some(value) = by.node.as_deref() {
                    self.refuse_order(value);
                }
                match by.node.as_deref_mut().and_then(|v| v.node.as_mut()) {
                    Some(value) if is_regclass(value) => {
                        self.as_regclass(value);
                        false
                    }
                    _ => true,
                }
            }
            // As a name it is the same wherever it is said.
            NodeEnum::TypeCast(cast)
                if cast.arg.as_deref().and_then(|a| a.node.as_ref()).is_some_and(is_regclass)
                    && cast.type_name.as_ref().and_then(names::plain_type).is_some_and(is_text) =>
            {
                if let Some(arg) = cast.arg.as_deref_mut().and_then(|a| a.node.as_mut()) {
                    self.as_regclass(arg);
                }
                false
            }
            NodeEnum::TypeCast(cast) if cast.arg.as_deref().and_then(|a| a.node.as_ref()).is_some_and(is_tableoid) => {
                let Some(column) = cast.arg.as_deref().and_then(|a| a.node.as_ref()) else { return true };
                if self.table(column).is_some() {
                    self.refused.get_or_insert_with(refusal);
                }
                false
            }
            // Whether it is the one or the other's does not depend on whose ids they are.
            NodeEnum::AExpr(e) if is_equality(e) => {
                for side in [&mut e.lexpr, &mut e.rexpr].into_iter().flatten() {
                    if let Some(column) = side.node.clone().filter(is_tableoid)
                        && let Some(table) = self.table(&column)
                    {
                        **side = self.regclass(&column, table);
                    } else if let Some(side) = side.node.as_mut().filter(|n| is_regclass(n)) {
                        self.as_regclass(side);
                    }
                }
                true
            }
            _ if is_looked_up(n) => false,
            _ if is_tableoid(n) => {
                if self.table(n).is_some() {
                    self.refused.get_or_insert_with(refusal);
                }
                false
            }
            _ => true,
        }
    }
}

/// The call that a node looks it up by.
pub fn is_looked_up(n: &NodeEnum) -> bool {
    matches!(n, NodeEnum::FuncCall(f) if names::strings(&f.funcname) == LOOK_UP)
}

/// `tableoid = 'name'::regclass`: with a number, or a bare constant, it would be an id.
fn is_equality(e: &ast::AExpr) -> bool {
    let is_operator = e.kind == ast::AExprKind::AexprOp as i32 && matches!(names::last(&e.name), "=" | "<>");
    // Not a number: it would be another's on each node.
    let says_table = |n: &Option<Box<Node>>| match n.as_deref().and_then(|n| n.node.as_ref()) {
        Some(NodeEnum::TypeCast(c)) => c.type_name.as_ref().and_then(names::plain_type) == Some("regclass"),
        Some(n) => is_tableoid(n),
        None => false,
    };
    is_operator && says_table(&e.lexpr) && says_table(&e.rexpr)
}

/// `tableoid::regclass`
fn is_regclass(n: &NodeEnum) -> bool {
    let NodeEnum::TypeCast(cast) = n else { return false };
    cast.type_name.as_ref().and_then(names::plain_type) == Some("regclass")
        && cast.arg.as_deref().and_then(|a| a.node.as_ref()).is_some_and(is_tableoid)
}

fn is_text(name: &str) -> bool {
    matches!(name, "text" | "varchar" | "name")
}

/// A cast of it, or a cast of that.
fn is_cast(n: &NodeEnum) -> bool {
    let NodeEnum::TypeCast(cast) = n else { return false };
    cast.arg.as_deref().and_then(|a| a.node.as_ref()).is_some_and(|a| is_tableoid(a) || is_cast(a))
}
