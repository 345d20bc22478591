//! Splits aggregates: each node aggregates its rows, the finish aggregates the partial results.
//!
//! Only where the result is the same by construction. Everything else is left to `pull.rs`.

use std::rc::Rc;

use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names, search};

use catalog::FunctionKind;

use crate::Result;
use crate::columns::Rows;
use crate::compose::{Composer, part_column};
use crate::expression;
use crate::levels::Analysis;
use crate::padded::Padded;
use crate::pull;
use crate::rewrite;
use crate::scope::Scope;
use crate::text;
use crate::tree::AddFunction;
use wire::type_oid;

/// The finish of an aggregate query, or `None` if it does not split. `padded`: nodes have rows that they should not have.
pub fn split<'p, 'a>(
    c: &mut Composer<'p, 'a>,
    s: &'p ast::SelectStmt,
    level: usize,
    padded: Option<Padded<'p, 'a>>,
) -> Result<Option<ast::SelectStmt>> {
    let l = &c.a.levels[level];
    if !(l.aggregates || l.grouped) || l.grouping_sets || !l.windows.is_empty() || l.locking || l.volatile {
        return Ok(None);
    }
    let scope = pull::scope_of(c, level)?;
    let Ok(mut finish) = pull::upper(s, &scope) else { return Ok(None) };
    let originals: Vec<Node> = finish.group_clause.iter().map(|g| grouped(g, &finish).clone()).collect();
    let Ok(group) = originals.iter().map(|g| text(g, &scope)).collect::<std::result::Result<Vec<_>, _>>() else {
        return Ok(None);
    };
    if padded.as_ref().is_some_and(|padded| !originals.iter().all(|g| padded.is_own(g))) {
        return Ok(None);
    }
    let mut splitter = Splitter {
        a: c.a,
        level,
        part: c.parts.len(),
        scope: scope.clone(),
        group,
        group_nodes: originals.iter().filter_map(|g| Some(nodes(g.node.as_ref()?, usize::MAX))).collect(),
        partials: vec![],
        texts: vec![],
        padded,
        failed: false,
    };
    let adds = can_add_up(&finish, c.a, &scope);
    pull::each_upper(&mut finish, &mut |n| walk::walk_mut(n, &mut Top { s: &mut splitter }));
    if splitter.failed {
        return Ok(None);
    }
    finish.group_clause = (0..originals.len()).map(part_column).collect();
    let width = originals.len() as i32;
    let mut part = build::select();
    part.with_clause = s.with_clause.clone();
    part.from_clause = s.from_clause.clone();
    part.where_clause = s.where_clause.clone();
    // Positions: a constant among them would be read as one.
    part.group_clause = (1..=width).map(build::integer).collect();
    part.target_list = originals.into_iter().chain(splitter.partials).map(|n| build::target(n, None)).collect();
    if part.target_list.is_empty() {
        return Ok(None);
    }
    let first = c.parts.is_empty();
    let from = c.add_part_of(part, c.a.deep_uses(level), Rows::AddedUp)?;
    finish.from_clause = vec![from];
    if first && level == 0 {
        c.adds = adds;
    }
    Ok(Some(finish))
}

/// The expression an item of GROUP BY stands for.
fn grouped<'n>(item: &'n Node, s: &'n ast::SelectStmt) -> &'n Node {
    match rewrite::output_position(item, s) {
        Some(_) if names::column(item).is_some() => item,
        Some(n) => {
            let target = usize::try_from(n - 1).ok().and_then(|n| s.target_list.get(n));
            target.and_then(rewrite::target_value).unwrap_or(item)
        }
        None => item,
    }
}

/// All targets are count, sum, min or max, and nothing else is asked: the router may add up integers itself.
fn can_add_up(s: &ast::SelectStmt, a: &Analysis, scope: &Scope) -> Option<Vec<AddFunction>> {
    let plain = s.group_clause.is_empty()
        && s.having_clause.is_none()
        && s.sort_clause.is_empty()
        && s.distinct_clause.is_empty();
    if !plain || s.limit_count.is_some() || s.limit_offset.is_some() {
        return None;
    }
    let mut texts = Vec::new();
    let all = s
        .target_list
        .iter()
        .map(|t| {
            let value = crate::rewrite::target_value(t)?;
            let NodeEnum::FuncCall(f) = value.node.as_ref()? else { return None };
            // Equal targets share one partial column: left to SQL.
            let text = text(value, scope).ok()?;
            if texts.contains(&text) || f.agg_distinct || !f.agg_order.is_empty() || f.over.is_some() {
                return None;
            }
            texts.push(text);
            match names::last(&f.funcname) {
                "count" => Some(AddFunction::Sum),
                "sum" => Some(AddFunction::Sum),
                "min" => Some(AddFunction::Min),
                "max" => Some(AddFunction::Max),
                _ => None,
            }
        })
        .collect::<Option<Vec<_>>>()?;
    a.levels[0].sublinks.is_empty().then_some(all)
}

/// The text of an expression with each column spelled one way.
pub fn text(node: &Node, scope: &Scope) -> std::result::Result<String, sql::SyntaxError> {
    struct Spell<'s, 'a>(&'s Scope<'a>);
    impl VisitMut for Spell<'_, '_> {
        fn node(&mut self, n: &mut NodeEnum) -> bool {
            if let NodeEnum::ColumnRef(c) = n
                && !names::has_star(c)
            {
                let spelled = pull::canonical(c, self.0);
                c.fields = vec![build::string(&spelled)];
            }
            true
        }
    }
    let mut node = node.clone();
    walk::walk_mut(&mut node, &mut Spell(scope));
    sql::deparse_expr(&node)
}

struct Splitter<'p, 'a> {
    a: &'p Analysis<'a>,
    level: usize,
    /// Number of the part these partial results will be in.
    part: usize,
    scope: Rc<Scope<'a>>,
    group: Vec<String>,
    /// How many nodes each of them has.
    group_nodes: Vec<usize>,
    partials: Vec<Node>,
    texts: Vec<String>,
    padded: Option<Padded<'p, 'a>>,
    failed: bool,
}

struct Top<'s, 'p, 'a> {
    s: &'s mut Splitter<'p, 'a>,
}

impl VisitMut for Top<'_, '_, '_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        if matches!(n, NodeEnum::ResTarget(_) | NodeEnum::SortBy(_)) {
            return true;
        }
        self.s.visit(n)
    }

    fn select(&mut self, _: &mut ast::SelectStmt) -> bool {
        self.s.failed = true;
        false
    }
}

impl Splitter<'_, '_> {
    /// Rewrites a node; `false` when it is done and nothing below is to be visited.
    fn visit(&mut self, n: &mut NodeEnum) -> bool {
        if self.failed {
            return false;
        }
        let constant =
            matches!(n, NodeEnum::AConst(_) | NodeEnum::ParamRef(_) | NodeEnum::String(_) | NodeEnum::TypeName(_));
        if constant {
            return !matches!(n, NodeEnum::AConst(_));
        }
        if !self.group.is_empty()
            && is_expression(n)
            && self.may_be_grouped(n)
            && let Ok(spelled) = text(&build::node(n.clone()), &self.scope)
            && let Some(i) = self.group.iter().position(|g| *g == spelled)
        {
            self.replace(n, part_column(i));
            return false;
        }
        match n {
            NodeEnum::FuncCall(f) if self.is_aggregate(f) => {
                match self.aggregate(&f.clone()) {
                    Some(new) => self.replace(n, new),
                    None => self.failed = true,
                }
                false
            }
            NodeEnum::SubLink(s) if s.testexpr.is_none() && self.stands_alone(s) => false,
            NodeEnum::ColumnRef(_)
            | NodeEnum::GroupingFunc(_)
            | NodeEnum::SubLink(_)
            | NodeEnum::JsonArrayAgg(_)
            | NodeEnum::JsonObjectAgg(_) => {
                self.failed = true;
                false
            }
            _ => true,
        }
    }

    /// It has as many nodes as an expression of GROUP BY. Its text is made of those alone, which takes by far longer.
    fn may_be_grouped(&self, n: &NodeEnum) -> bool {
        let nodes = nodes(n, self.group_nodes.iter().max().copied().unwrap_or_default());
        self.group_nodes.contains(&nodes) && self.a.cx.take(nodes)
    }

    /// The finish computes it as it is.
    fn stands_alone(&self, s: &ast::SubLink) -> bool {
        let body = s.subselect.as_deref().and_then(|q| q.node.as_ref());
        matches!(body, Some(NodeEnum::SelectStmt(body)) if pull::stands_alone(body, &self.scope))
    }

    fn replace(&self, n: &mut NodeEnum, new: Node) {
        if let Some(new) = new.node {
            *n = new;
        }
    }

    fn is_aggregate(&self, f: &ast::FuncCall) -> bool {
        f.agg_star || f.agg_within_group || self.a.cx.functions(&f.funcname).any(|x| x.kind == FunctionKind::Aggregate)
    }

    fn aggregate(&mut self, f: &ast::FuncCall) -> Option<Node> {
        if !f.agg_order.is_empty() || f.agg_within_group || f.func_variadic || f.over.is_some() {
            return None;
        }
        let qualified = names::strings(&f.funcname);
        if qualified.len() > 1 && qualified[0] != "pg_catalog" {
            return None;
        }
        let name = *qualified.last()?;
        if self.a.cx.functions(&f.funcname).any(|x| x.user_defined) {
            return None;
        }
        // The smallest of the distinct is the smallest of all; equal keys are on one node.
        let smallest = matches!(name, "min" | "max" | "bool_and" | "bool_or" | "every");
        if f.agg_distinct && !smallest && !self.is_key(&f.args) {
            return None;
        }
        let idempotent = smallest || matches!(name, "bit_and" | "bit_or");
        if self.padded.as_ref().is_some_and(|padded| !padded.is_passed_over(f, idempotent)) {
            return None;
        }
        if smallest && matches!(f.args.first().and_then(|arg| arg.node.as_ref()), Some(NodeEnum::RowExpr(_))) {
            // What a node would say has no type to travel as: the row's values come.
            return None;
        }
        match name {
            "count" => {
                let c = self.partial(own(f, name));
                Some(build::cast(build::own_call("sum", vec![c]), "int8"))
            }
            "sum" | "min" | "max" | "bool_and" | "bool_or" | "every" | "bit_and" | "bit_or" | "bit_xor" => {
                let column = self.next();
                let p = self.partial(own(f, name));
                let column = position(&p).unwrap_or(column);
                let again = build::own_call(name, vec![p]);
                // sum(int4) is a bigint, but the sum of those a numeric: the partial's own type is the result's.
                Some(if name == "sum" { text::cast(again, self.part, column) } else { again })
            }
            "avg" => self.average(f),
            _ => None,
        }
    }

    /// Equal values are on one node, so that the distinct ones of all nodes are those of each together.
    fn is_key(&self, args: &[Node]) -> bool {
        let vars: Vec<_> = args.iter().map(|arg| self.a.var(arg, &self.scope)).collect();
        self.a.tells_nodes_apart(self.level, &vars)
    }

    /// avg is the sum of the sums by the sum of the counts; how they are divided depends on the argument's type.
    fn average(&mut self, f: &ast::FuncCall) -> Option<Node> {
        let [arg] = &f.args[..] else { return None };
        let (arg, float) = match expression::type_of(arg, self.a, &self.scope)? {
            type_oid::INT8 | type_oid::INT2 | type_oid::INT4 | type_oid::NUMERIC => (arg.clone(), false),
            type_oid::FLOAT4 | type_oid::FLOAT8 => (build::cast(arg.clone(), "float8"), true),
            _ => return None,
        };
        let of_arg = ast::FuncCall { args: vec![arg], ..f.clone() };
        let sum = self.partial(own(&of_arg, "sum"));
        let count = self.partial(own(&of_arg, "count"));
        let total = build::own_call("sum", vec![sum]);
        let number = build::own_call("sum", vec![count]);
        let some = build::own_operator("<>", number.clone(), build::integer(0));
        let average = if float {
            build::own_operator("/", total, build::cast(number, "float8"))
        } else {
            build::own_operator("/", build::cast(total, "numeric"), number)
        };
        Some(build::node(build::when(some, average)))
    }

    fn next(&self) -> usize {
        self.group.len() + self.partials.len()
    }

    /// The part's column for a partial aggregate; equal ones share it.
    fn partial(&mut self, node: Node) -> Node {
        let spelled = text(&node, &self.scope).unwrap_or_default();
        if let Some(i) = self.texts.iter().position(|t| *t == spelled && !t.is_empty()) {
            return part_column(self.group.len() + i);
        }
        let column = part_column(self.next());
        self.partials.push(node);
        self.texts.push(spelled);
        column
    }
}

/// The call of PostgreSQL's own aggregate, which is what the statement's name was found to mean.
fn own(f: &ast::FuncCall, name: &str) -> Node {
    build::node(NodeEnum::FuncCall(Box::new(ast::FuncCall { funcname: build::own_name(name), ..f.clone() })))
}

fn position(column: &Node) -> Option<usize> {
    names::column(column)?.last()?.strip_prefix('c')?.parse().ok()
}

fn is_expression(n: &NodeEnum) -> bool {
    matches!(
        n,
        NodeEnum::ColumnRef(_)
            | NodeEnum::AExpr(_)
            | NodeEnum::FuncCall(_)
            | NodeEnum::TypeCast(_)
            | NodeEnum::CaseExpr(_)
            | NodeEnum::CoalesceExpr(_)
            | NodeEnum::BoolExpr(_)
            | NodeEnum::NullTest(_)
            | NodeEnum::BooleanTest(_)
            | NodeEnum::MinMaxExpr(_)
            | NodeEnum::AIndirection(_)
            | NodeEnum::CollateClause(_)
            | NodeEnum::AArrayExpr(_)
            | NodeEnum::RowExpr(_)
    )
}

/// How many nodes an expression has, without those of names; not counted on beyond `most`.
fn nodes(n: &NodeEnum, most: usize) -> usize {
    let mut found = 0;
    search::any(n, |n| {
        found += usize::from(!matches!(n, NodeEnum::String(_)));
        found > most
    });
    found
}
