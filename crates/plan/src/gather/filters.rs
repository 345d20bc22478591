//! Which conditions of a statement may be asked of a table's rows before they come to home. Home asks them again: what is left
//! out here is slower, never wrong; what is taken must hold for every row that the answer needs, and can't fail.
//!
//! A condition holds for the rows of one side of a join only where those that fail it are not kept by the join all the same. Rows that are
//! known to equal a reference table's in a column need come only if one of its needed rows has that value: a *partner*.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::Relation;
use sql::ast::{self, Node, a_const::Val};
use sql::walk::{self, Visit, VisitMut};
use sql::{NodeEnum, build, names, relations, search};
use wire::type_oid;

use crate::classes::Var;
use crate::levels::{Analysis, Use};
use crate::scope::Scope;
use crate::{keys, needs, pull, views};

/// By the place where a table is named: what its rows must pass.
pub struct Filters(HashMap<*const ast::RangeVar, Vec<Node>>);

impl Filters {
    /// Of a query that was analysed: the conditions of all of its levels.
    pub fn of(a: &Analysis, select: &ast::SelectStmt) -> Self {
        let mut equal = Equal { a, found: vec![] };
        walk::select_stmt(select, &mut equal);
        let mut levels = Levels { a, equal: equal.found, partners: vec![], found: HashMap::new() };
        walk::select_stmt(select, &mut levels);
        levels.sift();
        Filters(levels.found)
    }

    /// The same of a change; `condition` is what the rows of all of its `from` must pass.
    pub fn of_change(
        a: &Analysis,
        statement: &NodeEnum,
        level: usize,
        from: &[Node],
        condition: Option<&Node>,
    ) -> Self {
        let mut equal = Equal { a, found: vec![] };
        walk::below(statement, &mut equal);
        let mut levels = Levels { a, equal: equal.found, partners: vec![], found: HashMap::new() };
        walk::below(statement, &mut levels);
        let mut conditions = vec![];
        conjuncts(condition, &mut conditions);
        from.iter().for_each(|item| levels.item(item, &conditions, level));
        levels.sift();
        Filters(levels.found)
    }

    /// The condition for the rows of a table named here.
    pub fn of_table(&self, rv: &ast::RangeVar) -> Option<Node> {
        self.0.get(&std::ptr::from_ref(rv)).filter(|passes| !passes.is_empty()).cloned().map(all)
    }
}

/// Columns that a condition somewhere in the statement compares with a constant.
struct Equal<'l, 'a, 'n> {
    a: &'l Analysis<'a>,
    found: Vec<(Var, &'n Node)>,
}

impl<'n> Visit<'n> for Equal<'_, '_, 'n> {
    fn select(&mut self, s: &'n ast::SelectStmt) -> bool {
        let level = self.a.by_node.get(&std::ptr::from_ref(s));
        let Some(scope) = level.and_then(|l| self.a.scopes.get(l)) else { return true };
        let mut conditions = vec![];
        conjuncts(s.where_clause.as_deref(), &mut conditions);
        s.from_clause.iter().for_each(|item| on(item, &mut conditions));
        for condition in conditions {
            let Some(NodeEnum::AExpr(e)) = &condition.node else { continue };
            let (Some(l), Some(r)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { continue };
            let is_equality = e.kind == ast::AExprKind::AexprOp as i32 && names::last(&e.name) == "=";
            for (column, constant) in [(l, r), (r, l)] {
                let var = names::column(column).and_then(|c| scope.resolve(&c));
                if let Some(var) = var.filter(|_| is_equality && keys::constant(constant).is_some()) {
                    self.found.push((var, constant));
                }
            }
        }
        true
    }
}

/// The conditions of an item's joins.
fn on<'n>(item: &'n Node, found: &mut Vec<&'n Node>) {
    if let Some(NodeEnum::JoinExpr(join)) = &item.node {
        conjuncts(join.quals.as_deref(), found);
        join.larg.iter().chain(&join.rarg).for_each(|side| on(side, found));
    }
}

/// How deep AND and OR are looked into for what follows from them.
const DEPTH_MAX: usize = 4;

struct Levels<'l, 'a, 'n> {
    a: &'l Analysis<'a>,
    equal: Vec<(Var, &'n Node)>,
    /// What every node has, and other rows must meet.
    partners: Vec<Partner>,
    found: HashMap<*const ast::RangeVar, Vec<Node>>,
}

impl<'n> Visit<'n> for Levels<'_, '_, '_> {
    fn select(&mut self, s: &'n ast::SelectStmt) -> bool {
        if let Some(level) = self.a.by_node.get(&std::ptr::from_ref(s)) {
            let mut conditions = vec![];
            conjuncts(s.where_clause.as_deref(), &mut conditions);
            s.from_clause.iter().for_each(|item| self.item(item, &conditions, *level));
            conditions.iter().for_each(|condition| self.listed(condition, *level));
        }
        true
    }
}

impl Levels<'_, '_, '_> {
    /// `conditions`: what the item's rows must pass.
    fn item(&mut self, item: &Node, conditions: &[&Node], level: usize) {
        match &item.node {
            Some(NodeEnum::RangeVar(rv)) => self.table(rv, conditions, level),
            Some(NodeEnum::JoinExpr(join)) => {
                let mut on = vec![];
                conjuncts(join.quals.as_deref(), &mut on);
                let both = [conditions, &on].concat();
                let (left, right): (&[&Node], &[&Node]) = match ast::JoinType::try_from(join.jointype) {
                    Ok(ast::JoinType::JoinInner) => (&both, &both),
                    Ok(ast::JoinType::JoinLeft) => (conditions, &on),
                    Ok(ast::JoinType::JoinRight) => (&on, conditions),
                    _ => (&[], &[]),
                };
                join.larg.iter().for_each(|side| self.item(side, left, level));
                join.rarg.iter().for_each(|side| self.item(side, right, level));
            }
            _ => {}
        }
    }

    fn table(&mut self, rv: &ast::RangeVar, conditions: &[&Node], level: usize) {
        let at = std::ptr::from_ref(rv);
        let uses = self.a.ranges.get(&at).into_iter().flatten();
        let Some(of) = uses.map(|u| &self.a.uses[*u]).find(|u| u.level == level) else {
            return self.partner(rv, conditions, level);
        };
        let named = Named { relation: &of.relation, columns: &of.columns };
        let mut passes: Vec<Node> = conditions.iter().filter_map(|c| self.implied(c, named, level, 0)).collect();
        if only_use(self.a, at).is_some() {
            passes.extend(of.key.iter().filter_map(|key| self.of_key(*key, of)));
        }
        self.found.insert(at, passes);
    }

    /// A table that every node has, if the conditions say which of its rows are needed.
    fn partner(&mut self, rv: &ast::RangeVar, conditions: &[&Node], level: usize) {
        // What a view reads, who asks may have no right to.
        let relation = self.a.cx.relation(rv).filter(|_| !views::is_in_view(rv));
        let uses = self.a.references.get(&std::ptr::from_ref(rv)).map(Vec::as_slice);
        let (Some(relation), Some([columns])) = (relation, uses) else { return };
        let columns = columns.clone();
        let named = Named { relation, columns: &columns };
        let passes: Vec<Node> = conditions.iter().filter_map(|c| self.implied(c, named, level, 0)).collect();
        if !passes.is_empty() {
            self.partners.push(Partner { columns, rows: Rows::Table { relation: relation.clone(), passes } });
        }
    }

    /// A column's values are those of a subquery that says the same on every node.
    fn listed(&mut self, condition: &Node, level: usize) {
        let Some(NodeEnum::SubLink(s)) = &condition.node else { return };
        let body = s.subselect.as_deref().and_then(|q| q.node.as_ref());
        let (Some(NodeEnum::SelectStmt(body)), Some(scope)) = (body, self.a.scopes.get(&level)) else { return };
        let column = listed_column(self.a, s, scope);
        let inside = self.a.by_node.get(&std::ptr::from_ref(body.as_ref()));
        if let (Some(column), Some(inside)) = (column, inside)
            && self.is_steady(body, *inside)
        {
            self.partners.push(Partner { columns: vec![column], rows: Rows::Query(body.clone()) });
        }
    }

    /// The subquery reads what every node has, by names that mean the same wherever it stands, and nothing of what is around it.
    fn is_steady(&self, body: &ast::SelectStmt, level: usize) -> bool {
        let a = self.a;
        let whole = |rv: &ast::RangeVar| {
            // Without a schema it may be a WITH query's name elsewhere.
            a.cx.relation(rv).is_some_and(|r| r.is_reference())
                && !views::is_in_view(rv)
                && (!rv.schemaname.is_empty() || a.named.is_empty())
        };
        let volatile = a.levels.iter().any(|l| l.volatile || l.locking);
        let outside = a.scopes.get(&level).is_none_or(|scope| pull::refers_outside(body, scope));
        let free = a.is_free(level) && a.deep_home(level).is_none() && a.same_everywhere(level).is_ok();
        free && !volatile
            && !outside
            && body.with_clause.is_none()
            && relations::of_select(body).iter().all(|rv| whole(rv))
    }

    /// Rows that are known to be equal to a partner's in a column are needed only where that is needed itself.
    fn sift(&mut self) {
        for (at, passes) in &mut self.found {
            let Some(of) = only_use(self.a, *at) else { continue };
            for partner in &self.partners {
                if !self.a.cx.take(of.columns.len() * partner.columns.len()) {
                    return;
                }
                let equal = of.columns.iter().enumerate().find_map(|(own, v)| {
                    let same = |p: &Var| self.a.classes.same(of.classes, *v, *p);
                    Some((own, partner.columns.iter().position(same)?))
                });
                // Of no collation, of which the two might have others.
                let known = |of: u32| type_oid::is_integer(of) || matches!(of, type_oid::UUID | type_oid::DATE);
                if let Some((own, theirs)) = equal.filter(|(own, _)| known(of.relation.columns[*own].type_oid)) {
                    if !self.a.cx.take(partner.nodes()) {
                        return;
                    }
                    passes.push(partner.has(&of.relation.columns[own].name, theirs));
                }
            }
        }
    }

    /// Where a row's shard is known to be that of a constant which another column is compared with, its key is that constant.
    fn of_key(&self, key: Var, of: &Use) -> Option<Node> {
        let values = self.a.classes.values(of.classes, key)?;
        let [value] = &values[..] else { return None };
        let is_it = |(var, node): &&(Var, &Node)| {
            *var != key
                && self.a.classes.same(of.classes, *var, key)
                && keys::constant(node).as_ref().is_some_and(|c| c == value)
        };
        let (_, constant) = self.equal.iter().find(is_it)?;
        let column = of.columns.iter().position(|c| *c == key)?;
        let column = &of.relation.columns[column];
        let known = type_oid::is_integer(column.type_oid) || type_oid::is_text(column.type_oid);
        known.then(|| build::own_operator("=", build::column(&[&column.name]), (*constant).clone()))
    }

    /// What the condition says of the table's rows alone: all of it, or what follows from each of its alternatives.
    fn implied(&self, condition: &Node, of: Named, level: usize, depth: usize) -> Option<Node> {
        if let Some(own) = self.own(condition, of, level) {
            return Some(own);
        }
        let Some(NodeEnum::BoolExpr(b)) = condition.node.as_ref().filter(|_| depth < DEPTH_MAX) else { return None };
        let parts = b.args.iter().map(|arg| self.implied(arg, of, level, depth + 1));
        match ast::BoolExprType::try_from(b.boolop) {
            Ok(ast::BoolExprType::AndExpr) => {
                let known: Vec<Node> = parts.flatten().collect();
                (!known.is_empty()).then(|| all(known))
            }
            Ok(ast::BoolExprType::OrExpr) => parts.collect::<Option<Vec<Node>>>().map(build::or),
            _ => None,
        }
    }

    /// The condition by the table's own names of its columns, if it is of them alone and can't fail.
    fn own(&self, condition: &Node, of: Named, level: usize) -> Option<Node> {
        let scope = self.a.scopes.get(&level)?;
        let column = |n: &Node| {
            let v = scope.resolve(&names::column(n)?)?;
            of.columns.iter().position(|c| *c == v)
        };
        let test = Test { a: self.a, of, column: &column };
        if !test.passes(condition) || needs::find(condition, self.a.cx, |_| true).is_some() {
            return None;
        }
        let mut own = condition.clone();
        let named = |n: &Node| column(n).map(|c| build::column(&[&of.relation.columns[c].name]));
        struct Rename<F>(F);
        impl<F: Fn(&Node) -> Option<Node>> VisitMut for Rename<F> {
            fn node(&mut self, n: &mut NodeEnum) -> bool {
                if let Some(Node { node: Some(new) }) = (self.0)(&build::node(n.clone())) {
                    *n = new;
                    return false;
                }
                true
            }
        }
        walk::walk_mut(&mut own, &mut Rename(named));
        Some(own)
    }
}

/// Of `x IN (SELECT …)` the column, if it is one of this very level: others' rows need not pass what stands here.
pub(super) fn listed_column(a: &Analysis, s: &ast::SubLink, scope: &Scope) -> Option<Var> {
    let equal = s.sub_link_type == ast::SubLinkType::AnySublink as i32 && a.is_equality(&s.oper_name);
    let own =
        |test: &&Node| names::column(test).and_then(|parts| scope.place(&parts)).is_some_and(|(hops, ..)| hops == 0);
    scope.resolve(&names::column(s.testexpr.as_deref().filter(|_| equal).filter(own)?)?)
}

/// The conditions that all hold where `node` does.
pub(super) fn conjuncts<'n>(node: Option<&'n Node>, found: &mut Vec<&'n Node>) {
    match node.and_then(|n| n.node.as_ref()) {
        Some(NodeEnum::BoolExpr(b)) if b.boolop == ast::BoolExprType::AndExpr as i32 => {
            b.args.iter().for_each(|arg| conjuncts(Some(arg), found));
        }
        _ => found.extend(node),
    }
}

/// The use of a table that is named here; `None`: who names the WITH query that it is in besides may need other rows.
fn only_use<'l>(a: &'l Analysis, at: *const ast::RangeVar) -> Option<&'l Use> {
    match a.ranges.get(&at)?[..] {
        [u] => Some(&a.uses[u]),
        _ => None,
    }
}

/// A table by its columns' variables.
#[derive(Clone, Copy)]
struct Named<'n> {
    relation: &'n Relation,
    columns: &'n [Var],
}

/// What every node has, of which some rows are needed.
struct Partner {
    columns: Vec<Var>,
    rows: Rows,
}

enum Rows {
    Table {
        relation: Arc<Relation>,
        passes: Vec<Node>,
    },
    /// Of one column.
    Query(Box<ast::SelectStmt>),
}

impl Partner {
    /// How long its rows' query is.
    fn nodes(&self) -> usize {
        let mut found = 0;
        let mut count = |_: &NodeEnum| {
            found += 1;
            false
        };
        match &self.rows {
            Rows::Query(query) => _ = search::any(&**query, &mut count),
            Rows::Table { passes, .. } => passes.iter().for_each(|pass| _ = search::any(pass, &mut count)),
        }
        found
    }

    /// The column is that of a row which passes.
    fn has(&self, column: &str, theirs: usize) -> Node {
        let rows = match &self.rows {
            Rows::Query(query) => (**query).clone(),
            Rows::Table { relation, passes } => {
                let mut rows = build::select();
                rows.target_list = vec![build::target(build::column(&[&relation.columns[theirs].name]), None)];
                rows.from_clause = vec![build::range_var(&relation.schema, &relation.name, None)];
                rows.where_clause = Some(Box::new(all(passes.clone())));
                rows
            }
        };
        build::within(build::column(&[column]), rows)
    }
}

/// All of them hold.
fn all(mut conditions: Vec<Node>) -> Node {
    match conditions.len() {
        1 => conditions.remove(0),
        _ => build::and(conditions),
    }
}

struct Test<'t, 'a> {
    a: &'t Analysis<'a>,
    of: Named<'t>,
    column: &'t dyn Fn(&Node) -> Option<usize>,
}

impl Test<'_, '_> {
    fn passes(&self, node: &Node) -> bool {
        match &node.node {
            Some(NodeEnum::BoolExpr(b)) => b.args.iter().all(|arg| self.passes(arg)),
            Some(NodeEnum::NullTest(t)) => t.arg.as_deref().is_some_and(|arg| (self.column)(arg).is_some()),
            Some(NodeEnum::BooleanTest(t)) => t.arg.as_deref().is_some_and(|arg| self.is_boolean(arg)),
            Some(NodeEnum::ColumnRef(_)) => self.is_boolean(node),
            Some(NodeEnum::AExpr(e)) => self.compares(e),
            _ => false,
        }
    }

    fn is_boolean(&self, node: &Node) -> bool {
        (self.column)(node).is_some_and(|c| self.of.relation.columns[c].type_oid == type_oid::BOOL)
    }

    fn compares(&self, e: &ast::AExpr) -> bool {
        use ast::AExprKind::*;
        let (Some(left), Some(right)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return false };
        let operator = match names::qualified(&e.name) {
            (None | Some("pg_catalog"), name) => name,
            _ => return false,
        };
        let compares = matches!(operator, "=" | "<>" | "<" | ">" | "<=" | ">=");
        match ast::AExprKind::try_from(e.kind) {
            Ok(AexprOp) => {
                let sides = [left, right];
                let columns = sides.iter().filter(|side| self.is_compared(side)).count();
                let constants = sides.iter().filter(|side| is_constant(side)).count();
                compares && columns > 0 && columns + constants == 2
            }
            Ok(AexprIn | AexprOpAny) => compares && self.is_compared(left) && is_list(right),
            Ok(AexprBetween | AexprNotBetween) => {
                let all = |n: &Node| matches!(&n.node, Some(NodeEnum::List(l)) if l.items.iter().all(is_constant));
                self.is_compared(left) && all(right)
            }
            Ok(AexprLike | AexprIlike) => self.is_text(left) && is_pattern(right),
            _ => false,
        }
    }

    /// A column of a type whose comparisons are PostgreSQL's own and never fail, or what is computed of one as safely.
    fn is_compared(&self, node: &Node) -> bool {
        if let Some(column) = self.computed(node) {
            return self.is_compared(column);
        }
        use type_oid::*;
        let known = |of: u32| {
            is_integer(of)
                || is_text(of)
                || matches!(of, BOOL | BYTEA | BPCHAR | DATE | TIME | TIMESTAMP | TIMESTAMPTZ | NUMERIC | UUID)
                || matches!(of, FLOAT4 | FLOAT8)
        };
        let Some(c) = (self.column)(node) else { return false };
        // Behind other schemas in the path, PostgreSQL's own operators may be hidden.
        let own = !self.a.cx.search_path.iter().skip(1).any(|s| s == "pg_catalog");
        own && known(self.of.relation.columns[c].type_oid)
    }

    fn is_text(&self, node: &Node) -> bool {
        let text = |c: usize| {
            let column = &self.of.relation.columns[c];
            (type_oid::is_text(column.type_oid) || column.type_oid == type_oid::BPCHAR)
                && column.collation_deterministic
        };
        match self.computed(node) {
            Some(column) => !self.is_number(node) && self.is_text(column),
            None => self.is_compared(node) && (self.column)(node).is_some_and(text),
        }
    }

    /// The string column of which PostgreSQL's own function computes what is here: it fails for no value.
    fn computed<'n>(&self, node: &'n Node) -> Option<&'n Node> {
        let Some(NodeEnum::FuncCall(call)) = &node.node else { return None };
        let integer = |n: &Node| match &n.node {
            Some(NodeEnum::AConst(ast::AConst { val: Some(Val::Ival(i)), .. })) => Some(i.ival),
            _ => None,
        };
        let (column, rest) = call.args.split_first()?;
        let rest: Vec<i32> = rest.iter().map(integer).collect::<Option<_>>()?;
        let known = match (names::qualified(&call.funcname), &rest[..]) {
            ((None | Some("pg_catalog"), name), rest) => match (name, rest) {
                ("lower" | "upper" | "length" | "char_length", []) | ("left" | "right", [_]) => true,
                ("substring" | "substr", [_]) => true,
                ("substring" | "substr", [_, length]) => *length >= 0,
                _ => false,
            },
            _ => false,
        };
        let of = self.of.relation.columns[(self.column)(column)?].type_oid;
        let plain = call.over.is_none() && call.agg_filter.is_none() && !call.agg_star && !call.func_variadic;
        let own = self.a.cx.functions(&call.funcname).all(|f| !f.user_defined);
        (known && plain && own && (type_oid::is_text(of) || of == type_oid::BPCHAR)).then_some(column)
    }

    fn is_number(&self, node: &Node) -> bool {
        matches!(&node.node, Some(NodeEnum::FuncCall(call)) if names::last(&call.funcname).ends_with("length"))
    }
}

/// A constant, or one that PostgreSQL computes while it plans: it fails for each node as for the whole statement, or nowhere.
fn is_constant(node: &Node) -> bool {
    keys::constant(node).is_some() || matches!(&node.node, Some(NodeEnum::AExpr(_))) && is_computed(node, 0)
}

/// Sums, differences and products of numbers, dates, timestamps without time zone and intervals that are written out.
fn is_computed(node: &Node, depth: usize) -> bool {
    match &node.node {
        Some(NodeEnum::AExpr(e)) if e.kind == ast::AExprKind::AexprOp as i32 && depth < DEPTH_MAX => {
            let known = matches!(names::qualified(&e.name), (None | Some("pg_catalog"), "+" | "-" | "*"));
            let sides = [e.lexpr.as_deref(), e.rexpr.as_deref()];
            known && sides.iter().all(|side| side.is_some_and(|side| is_computed(side, depth + 1)))
        }
        Some(NodeEnum::AConst(c)) => matches!(c.val, Some(Val::Ival(_) | Val::Fval(_))),
        Some(NodeEnum::TypeCast(t)) => {
            let is_text =
                |n: &Node| matches!(&n.node, Some(NodeEnum::AConst(ast::AConst { val: Some(Val::Sval(_)), .. })));
            let of = t.type_name.as_ref().filter(|of| of.array_bounds.is_empty() && !of.setof && !of.pct_type);
            let known = of.is_some_and(|of| {
                matches!(names::strings(&of.names)[..], ["pg_catalog", "timestamp" | "interval" | "date"] | ["date"])
            });
            known && t.arg.as_deref().is_some_and(is_text)
        }
        _ => false,
    }
}

fn is_list(node: &Node) -> bool {
    match &node.node {
        Some(NodeEnum::List(l)) => l.items.iter().all(|i| keys::constant(i).is_some()),
        _ => keys::list(node).is_some(),
    }
}

/// A pattern that does not end in the middle of an escape.
fn is_pattern(node: &Node) -> bool {
    let plain = |n: &NodeEnum| match n {
        NodeEnum::AConst(ast::AConst { val: Some(Val::Sval(s)), .. }) => !s.sval.contains('\\'),
        _ => false,
    };
    node.node.as_ref().is_some_and(plain) && !search::any(node, |n| matches!(n, NodeEnum::FuncCall(_)))
}
