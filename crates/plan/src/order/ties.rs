//! What picks one of several values that are equal and look different (2 and 2.0; '1 day' and '24 hours'): max, min, DISTINCT,
//! GROUP BY, UNION and their like keep the one they meet first.
//!
//! Equal is identical for the types of [`is_identical`], for numeric(p, s) and char(n) as they are stored, and for one constant. What is
//! picked does not matter where it is only compared with something. It does not know in which order rows are met.

use std::collections::HashSet;

use sql::ast::{self, Node, SelectStmt};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names, search};
use wire::type_oid::{self, Oid};

use super::named_by_with;
use super::possible::{self, Possible, ValueType};
use crate::rewrite::{self, GroupItem};
use crate::{Context, same};

/// A statement that is searched for choices among equals.
pub struct TieSearch<'f> {
    cx: &'f Context<'f>,
    statement: &'f NodeEnum,
    possible: &'f Possible<'f>,
    /// Calls and queries of which the values are compared and nothing else (their addresses).
    compared: HashSet<usize>,
}

/// How values of an expression look that are equal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Appearance {
    /// NULL, which is not equal to anything.
    Nothing,
    Same,
    /// As its literal has it, where it is no value of another type.
    Literal,
    /// As all values of this type with this modifier.
    Scaled(ValueType),
    Varies,
}

impl<'f> TieSearch<'f> {
    /// Finds out first which values are only compared: what is picked there does not matter.
    pub fn new(cx: &'f Context<'f>, statement: &'f NodeEnum, possible: &'f Possible<'f>) -> Self {
        let mut compared = Compared { cx, found: HashSet::new() };
        walk::below(statement, &mut compared);
        TieSearch { cx, statement, possible, compared: compared.found }
    }

    /// An aggregate that picks, in the user's words.
    pub fn of_call(&self, call: &ast::FuncCall) -> Option<String> {
        let name = names::last(&call.funcname);
        let picks = matches!(name, "min" | "max") || (call.agg_distinct && name != "count");
        if !picks || !call.args.iter().any(|arg| self.varies(arg)) {
            return None;
        }
        let harmless = self.compared.contains(&address(call)) && call.args.iter().all(|arg| self.is_comparable(arg));
        let distinct = if call.agg_distinct { "DISTINCT …" } else { "" };
        (!harmless).then(|| format!("{name}({distinct}) of values that may be equal and look different"))
    }

    /// What a query keeps one of.
    pub fn of_select(&self, s: &SelectStmt) -> Option<String> {
        let told = |what: &str| Some(format!("{what} of values that may be equal and look different"));
        if s.larg.is_some() {
            let all = s.op == ast::SetOperation::SetopUnion as i32 && s.all;
            return if all || self.arms_look_same(s) { None } else { told("UNION, INTERSECT or EXCEPT") };
        }
        let distinct = s.distinct_clause.first().is_some_and(|n| n.node.is_none());
        if distinct && !s.target_list.iter().all(|t| self.looks_one_way(t, s)) && !self.is_harmless(s) {
            return told("DISTINCT");
        }
        let kept = group_items(&s.group_clause).into_iter().any(|item| self.keeps(item, s));
        if kept { told("GROUP BY") } else { None }
    }

    fn looks_one_way(&self, target: &Node, s: &SelectStmt) -> bool {
        match &target.node {
            _ if crate::rewrite::is_star(target) => {
                self.stars(s).is_some_and(|all| all.iter().all(|look| *look != Appearance::Varies))
            }
            Some(NodeEnum::ResTarget(t)) => t.val.as_deref().is_some_and(|v| !self.varies(v)),
            _ => false,
        }
    }

    /// A value of what rows are grouped by is among the results.
    fn keeps(&self, item: &Node, s: &SelectStmt) -> bool {
        match rewrite::group_item(item, s, None) {
            GroupItem::Itself => self.keeps_value(item, false, s),
            GroupItem::Output(value) => self.keeps_value(value, true, s),
            GroupItem::Unsure(value) => self.keeps_value(item, false, s) || self.keeps_value(value, true, s),
        }
    }

    fn keeps_value(&self, value: &Node, is_output: bool, s: &SelectStmt) -> bool {
        if !self.varies(value) || (self.is_harmless(s) && self.is_comparable(value)) {
            return false;
        }
        let mut used = Used { cx: self.cx, names: HashSet::new(), star: is_output };
        for n in s.target_list.iter().chain(s.having_clause.as_deref()).chain(&s.sort_clause).chain(&s.window_clause) {
            walk::walk(n, &mut used);
        }
        used.star
            || search::any(value, |n| match n {
                NodeEnum::ColumnRef(c) => names::has_star(c) || used.names.contains(names::last(&c.fields)),
                _ => false,
            })
    }

    /// What it gives is compared and nothing else.
    fn is_harmless(&self, s: &SelectStmt) -> bool {
        let comparable = |t: &Node| match &t.node {
            Some(NodeEnum::ResTarget(t)) => t.val.as_deref().is_some_and(|v| self.is_comparable(v)),
            _ => false,
        };
        self.compared.contains(&address(s))
            && possible::arms(s).iter().all(|arm| arm.target_list.iter().all(comparable))
    }

    fn arms_look_same(&self, s: &SelectStmt) -> bool {
        let arms: Option<Vec<_>> = possible::arms(s).into_iter().map(|arm| self.columns(arm)).collect();
        let same = arms.is_some_and(|arms| {
            (0..arms.iter().map(Vec::len).max().unwrap_or(0)).all(|i| {
                let looks: Vec<Appearance> = arms
                    .iter()
                    .map(|arm| arm.get(i).copied().unwrap_or(Appearance::Varies))
                    .filter(|l| *l != Appearance::Nothing)
                    .collect();
                let scaled = looks.iter().any(|l| matches!(l, Appearance::Scaled(_)));
                !looks.contains(&Appearance::Varies) && (!scaled || looks.iter().all(|l| *l == looks[0]))
            })
        });
        same || self.is_harmless(s)
    }

    /// How each column looks of what a query that is no UNION gives.
    fn columns(&self, s: &SelectStmt) -> Option<Vec<Appearance>> {
        let mut looks: Vec<Appearance> = vec![];
        for (at, row) in s.values_lists.iter().enumerate() {
            let Some(NodeEnum::List(l)) = &row.node else { return None };
            for (i, value) in l.items.iter().enumerate() {
                let look = self.look(value);
                match looks.get_mut(i) {
                    None => looks.push(look),
                    Some(before) if *before == Appearance::Nothing || *before == look => *before = look,
                    Some(_) if look == Appearance::Nothing => {}
                    Some(before) => {
                        let plain = |l: Appearance| matches!(l, Appearance::Same | Appearance::Literal);
                        *before =
                            if at > 0 && plain(*before) && plain(look) { Appearance::Same } else { Appearance::Varies };
                    }
                }
            }
        }
        for target in &s.target_list {
            match &target.node {
                _ if crate::rewrite::is_star(target) => looks.extend(self.stars(s)?),
                // One value for all rows may be another one in another arm.
                Some(NodeEnum::ResTarget(t)) => looks.push(self.look(t.val.as_deref()?)),
                _ => return None,
            }
        }
        Some(looks)
    }

    /// Of all columns of the tables in FROM.
    fn stars(&self, s: &SelectStmt) -> Option<Vec<Appearance>> {
        let mut looks = vec![];
        for item in &s.from_clause {
            let Some(NodeEnum::RangeVar(rv)) = &item.node else { return None };
            let relation = self.cx.relation(rv).filter(|_| !named_by_with(self.statement, &rv.relname))?;
            looks.extend(relation.columns.iter().map(|c| self.look_of(&[(c.type_oid, c.typmod)])));
        }
        Some(looks)
    }

    /// Several values of it, in the rows of one query, may be equal and look different.
    fn varies(&self, n: &Node) -> bool {
        let constant = !search::any(n, |n| match n {
            NodeEnum::ColumnRef(_) | NodeEnum::SubLink(_) => true,
            NodeEnum::FuncCall(f) => {
                let mut all = self.cx.functions(&f.funcname).peekable();
                all.peek().is_none() || all.any(|f| f.returns_set)
            }
            _ => false,
        });
        !constant && self.look(n) == Appearance::Varies
    }

    fn look(&self, n: &Node) -> Appearance {
        self.possible.of(n).map_or(Appearance::Varies, |kinds| self.look_of(&kinds))
    }

    fn look_of(&self, kinds: &[ValueType]) -> Appearance {
        let Some(first) = kinds.first() else { return Appearance::Nothing };
        let scaled = matches!(first.0, type_oid::NUMERIC | type_oid::BPCHAR) && first.1 >= 0;
        if kinds.iter().all(|(oid, _)| *oid == type_oid::UNKNOWN) {
            Appearance::Literal
        } else if kinds.iter().all(|(oid, _)| self.is_identical(*oid)) {
            Appearance::Same
        } else if scaled && kinds.iter().all(|k| k == first) {
            Appearance::Scaled(*first)
        } else {
            Appearance::Varies
        }
    }

    /// Values of the type that are equal are the same, byte by byte (the `=` of its default operator class).
    fn is_identical(&self, oid: Oid) -> bool {
        is_identical(oid, self.possible.collates)
            || self.cx.snapshot.types.get(&oid).is_some_and(|t| match t.kind {
                b'e' => true,
                b'a' => self.is_identical(t.base),
                _ => false,
            })
    }

    /// A comparison of it with another value comes out the same, however it looks.
    fn is_comparable(&self, n: &Node) -> bool {
        use type_oid::{FLOAT4, FLOAT8, INTERVAL, NUMERIC};
        let comparable =
            |oid: Oid| matches!(oid, NUMERIC | FLOAT4 | FLOAT8 | INTERVAL) || is_identical(oid, self.possible.collates);
        self.possible.of(n).is_some_and(|kinds| kinds.iter().all(|(oid, _)| comparable(*oid)))
    }
}

/// Not among them: numeric (scale), float (-0), interval (30 days are a month), char without a length (blanks), jsonb and
/// what is made of numeric, types of users' own, whose `=` may mean anything.
pub fn is_identical(oid: Oid, collates: bool) -> bool {
    use type_oid::*;
    // pg_type.dat: arrays of such types compare their bounds, too (array_cmp); ranges of what can be counted have one form.
    const ARRAYS: [Oid; 9] = [
        BOOL_ARRAY,
        BYTEA_ARRAY,
        INT2_ARRAY,
        INT4_ARRAY,
        INT8_ARRAY,
        TIMESTAMP_ARRAY,
        DATE_ARRAY,
        TIMESTAMPTZ_ARRAY,
        UUID_ARRAY,
    ];
    const TEXT_ARRAYS: [Oid; 2] = [TEXT_ARRAY, VARCHAR_ARRAY];
    const RANGES: [Oid; 3] = [INT4RANGE, DATERANGE, INT8RANGE];
    let plain = is_integer(oid)
        || matches!(
            oid,
            BOOL | BYTEA | CHAR | OID | TID | XID | CID | XID8 | DATE | TIME | TIMETZ | TIMESTAMP | TIMESTAMPTZ
        )
        || matches!(oid, UUID | PG_LSN | MACADDR | MACADDR8 | INET | CIDR | UNKNOWN);
    let text = is_text(oid) || oid == NAME || TEXT_ARRAYS.contains(&oid);
    plain || ARRAYS.contains(&oid) || RANGES.contains(&oid) || oid == MONEY || (text && !collates)
}

/// What is grouped by, in GROUPING SETS, too.
fn group_items(clause: &[Node]) -> Vec<&Node> {
    let (mut items, mut todo): (Vec<&Node>, Vec<&Node>) = (vec![], clause.iter().collect());
    while let Some(n) = todo.pop() {
        match &n.node {
            Some(NodeEnum::GroupingSet(g)) => todo.extend(&g.content),
            Some(NodeEnum::RowExpr(r)) => todo.extend(&r.args),
            Some(NodeEnum::List(l)) => todo.extend(&l.items),
            _ => items.push(n),
        }
    }
    items
}

/// Names of columns outside of the arguments of aggregates, which are each row's own.
struct Used<'c, 'n> {
    cx: &'c Context<'c>,
    names: HashSet<&'n str>,
    star: bool,
}

impl<'n> Visit<'n> for Used<'_, 'n> {
    fn node(&mut self, n: &'n NodeEnum) -> bool {
        match n {
            NodeEnum::ColumnRef(c) => {
                self.star |= names::has_star(c);
                self.names.insert(names::last(&c.fields));
                true
            }
            NodeEnum::FuncCall(f) => {
                f.over.is_some()
                    || !same::is_unordered_aggregate(names::last(&f.funcname))
                    || self.cx.functions(&f.funcname).any(|f| f.user_defined)
            }
            _ => true,
        }
    }
}

/// Operands of comparisons.
struct Compared<'c> {
    cx: &'c Context<'c>,
    found: HashSet<usize>,
}

impl<'n> Visit<'n> for Compared<'_> {
    fn node(&mut self, n: &'n NodeEnum) -> bool {
        match n {
            NodeEnum::AExpr(e) if self.compares(names::last(&e.name)) => {
                e.lexpr.iter().chain(&e.rexpr).for_each(|n| self.operand(n));
            }
            NodeEnum::SubLink(s) => {
                let by = names::last(&s.oper_name);
                let list = matches!(
                    ast::SubLinkType::try_from(s.sub_link_type),
                    Ok(ast::SubLinkType::AnySublink | ast::SubLinkType::AllSublink)
                );
                if let (true, Some(select)) =
                    (list && self.compares(if by.is_empty() { "=" } else { by }), &s.subselect)
                {
                    self.query(select);
                }
            }
            _ => {}
        }
        true
    }
}

impl Compared<'_> {
    /// PostgreSQL's own.
    fn compares(&self, name: &str) -> bool {
        matches!(name, "=" | "<>" | "<" | "<=" | ">" | ">=")
            && !self.cx.snapshot.code.operators.iter().any(|o| o.name == name)
    }

    fn operand(&mut self, n: &Node) {
        match &n.node {
            Some(NodeEnum::FuncCall(f)) => {
                self.found.insert(address(f.as_ref()));
            }
            Some(NodeEnum::SubLink(s)) if s.sub_link_type == ast::SubLinkType::ExprSublink as i32 => {
                s.subselect.iter().for_each(|select| self.query(select));
            }
            _ => {}
        }
    }

    fn query(&mut self, n: &Node) {
        let Some(NodeEnum::SelectStmt(s)) = &n.node else { return };
        let mut todo = vec![s.as_ref()];
        while let Some(s) = todo.pop() {
            self.found.insert(address(s));
            todo.extend(s.larg.as_deref().into_iter().chain(s.rarg.as_deref()));
            for t in &s.target_list {
                if let Some(NodeEnum::ResTarget(t)) = &t.node
                    && let Some(value) = t.val.as_deref()
                {
                    self.operand(value);
                }
            }
        }
    }
}

fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of) as usize
}
