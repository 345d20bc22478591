//! Which types the values of an expression may have, as far as names tell: a column is whatever has its name anywhere in the
//! statement. `None` is not known. It does not know what is concluded of it.

use catalog::FunctionKind;
use sql::ast::{self, Node, SelectStmt, a_const::Val};
use sql::walk::Visit;
use sql::{NodeEnum, names, search};
use wire::type_oid::{self, Oid};

use crate::Context;

/// A type and its modifier (-1: none).
pub type ValueType = (Oid, i32);

/// pg_type.dat
const BIT: Oid = 1560;
/// Of which only that is known that it is no number.
const OTHER: ValueType = (0, -1);
/// Names that stand for names that stand for names, and how often what is known of one is gone through again.
const NAMES_MAX: usize = 8;

/// The names on the way to an expression, each with what is known of it so far.
#[derive(Clone, Copy)]
struct Way<'w>(Option<(&'w str, &'w [ValueType], &'w Way<'w>)>);

impl Way<'_> {
    fn so_far(&self, name: &str) -> Option<&[ValueType]> {
        let (this, kinds, before) = self.0?;
        if this == name { Some(kinds) } else { before.so_far(name) }
    }

    fn len(&self) -> usize {
        self.0.map_or(0, |(_, _, before)| before.len() + 1)
    }
}

/// A statement whose names tell types.
pub struct Possible<'f> {
    cx: &'f Context<'f>,
    statement: &'f NodeEnum,
    outputs: Outputs<'f>,
    /// Strings of other bytes may be equal: a table that is named has a column of a nondeterministic collation, or the statement
    /// says a collation.
    pub collates: bool,
}

impl<'f> Possible<'f> {
    /// Reads the statement once for all expressions that are asked about.
    pub fn new(cx: &'f Context<'f>, statement: &'f NodeEnum) -> Self {
        let mut outputs = Outputs::default();
        search::visit(statement, &mut outputs);
        let column =
            |rv: &ast::RangeVar| cx.relation(rv).is_some_and(|r| r.columns.iter().any(|c| !c.collation_deterministic));
        let collates = sql::relations::of(statement).into_iter().any(column)
            || search::any(statement, |n| matches!(n, NodeEnum::CollateClause(_)));
        Possible { cx, statement, outputs, collates }
    }

    /// Of an expression; nothing at all for NULL.
    pub fn of(&self, n: &Node) -> Option<Vec<ValueType>> {
        self.deep(n, &Way(None))
    }

    fn deep(&self, n: &Node, way: &Way) -> Option<Vec<ValueType>> {
        let of = |n: &Option<Box<Node>>| n.as_deref().and_then(|n| self.deep(n, way));
        match n.node.as_ref()? {
            NodeEnum::AConst(c) => constant(c),
            NodeEnum::ColumnRef(c) => self.column(c, way),
            NodeEnum::TypeCast(t) => cast(t.type_name.as_ref()?),
            NodeEnum::AExpr(e) if e.kind == ast::AExprKind::AexprOp as i32 => match names::last(&e.name) {
                "+" | "-" | "*" | "/" | "%" => {
                    let left = if e.lexpr.is_some() { of(&e.lexpr)? } else { vec![] };
                    arithmetic(&left, &of(&e.rexpr)?)
                }
                "||" => joined(&of(&e.lexpr)?, &of(&e.rexpr)?),
                "=" | "<>" | "<" | "<=" | ">" | ">=" => self.test(names::last(&e.name)),
                "->>" | "#>>" => self.test(names::last(&e.name)).and(plain(type_oid::TEXT)),
                _ => None,
            },
            NodeEnum::BoolExpr(_) | NodeEnum::NullTest(_) | NodeEnum::BooleanTest(_) => plain(type_oid::BOOL),
            NodeEnum::CoalesceExpr(c) => self.all(&c.args, way),
            NodeEnum::MinMaxExpr(m) => self.all(&m.args, way),
            NodeEnum::CaseExpr(c) => {
                let results = c.args.iter().filter_map(|when| match &when.node {
                    Some(NodeEnum::CaseWhen(when)) => when.result.as_deref(),
                    _ => None,
                });
                together(results.chain(c.defresult.as_deref()).map(|n| self.deep(n, way)))
            }
            NodeEnum::SubLink(s) => match ast::SubLinkType::try_from(s.sub_link_type) {
                Ok(ast::SubLinkType::ExistsSublink) => plain(type_oid::BOOL),
                Ok(ast::SubLinkType::ExprSublink) => {
                    let Some(NodeEnum::SelectStmt(select)) = s.subselect.as_deref()?.node.as_ref() else { return None };
                    let [Node { node: Some(NodeEnum::ResTarget(t)) }] = &select.target_list[..] else { return None };
                    self.deep(t.val.as_deref()?, way)
                }
                _ => None,
            },
            NodeEnum::FuncCall(f) => self.call(f, way),
            _ => None,
        }
    }

    fn all(&self, nodes: &[Node], way: &Way) -> Option<Vec<ValueType>> {
        together(nodes.iter().map(|n| self.deep(n, way)))
    }

    /// What a comparison gives, unless users made operators of that name.
    fn test(&self, name: &str) -> Option<Vec<ValueType>> {
        if self.cx.snapshot.code.operators.iter().any(|o| o.name == name) {
            return None;
        }
        plain(type_oid::BOOL)
    }

    fn call(&self, f: &ast::FuncCall, way: &Way) -> Option<Vec<ValueType>> {
        let name = names::last(&f.funcname);
        let overloads: Vec<_> = self.cx.functions(&f.funcname).collect();
        let arguments = || self.all(&f.args, way);
        if !overloads.iter().any(|f| f.user_defined) {
            match name {
                "min" | "max" => return arguments(),
                "abs" | "mod" | "generate_series" => return arguments().map(unmodified),
                "date_trunc" => return self.deep(f.args.get(1)?, way).map(unmodified),
                "sum" => return summed(&arguments()?),
                "avg" => return arithmetic(&summed(&arguments()?)?, &[(type_oid::NUMERIC, -1)]),
                // Of an integer they are floats; with a number of digits, numeric.
                "round" | "trunc" if f.args.len() == 2 => return plain(type_oid::NUMERIC),
                "round" | "trunc" | "ceil" | "ceiling" | "floor" => {
                    let numeric = arguments()?.iter().all(|(oid, _)| *oid == type_oid::NUMERIC);
                    return numeric.then_some(vec![(type_oid::NUMERIC, -1)]);
                }
                "lower" | "upper" => {
                    let text = arguments()?.iter().all(|(oid, _)| is_string(*oid));
                    return text.then_some(vec![(type_oid::TEXT, -1)]);
                }
                _ => {}
            }
        }
        let returned: Vec<ValueType> = overloads.iter().map(|f| (f.returns, -1)).collect();
        (!returned.is_empty() && !returned.iter().any(|(oid, _)| type_oid::is_pseudo(*oid))).then_some(returned)
    }

    /// Whatever has that name in the statement.
    fn column(&self, c: &ast::ColumnRef, way: &Way) -> Option<Vec<ValueType>> {
        let parts = names::strings(&c.fields);
        let name = *parts.last()?;
        let snapshot = self.cx.snapshot;
        let of_row = || snapshot.functions.get(name).is_some_and(|all| all.iter().any(|f| f.of_row));
        if way.len() > NAMES_MAX || names::has_star(c) || self.outputs.unknown || (parts.len() > 1 && of_row()) {
            return None;
        }
        if let Some(kinds) = way.so_far(name) {
            return (!kinds.is_empty()).then(|| kinds.to_vec());
        }
        if let [table, _] = parts[..]
            && let Some(kinds) = self.stored_in(table, name)
        {
            return Some(kinds);
        }
        let base = self.stored(name, parts.len() == 1)?;
        let mut known = base.clone();
        // `max(v) AS v`: what v may be adds to what v may be.
        for _ in 0..NAMES_MAX {
            let way = Way(Some((name, &known, way)));
            let mut all = base.clone();
            for (_, value) in self.outputs.all.iter().filter(|(given, value)| given == name && !is_column(value, name))
            {
                all.extend(self.deep(value, &way)?);
            }
            all.extend(self.given(name, &way)?);
            all.sort_unstable();
            all.dedup();
            if all == known {
                return (!all.is_empty() && !self.has_columns_of_code()).then_some(all);
            }
            known = all;
        }
        None
    }

    /// Of a column of the one table, in the whole statement, that is called so.
    fn stored_in(&self, called: &str, name: &str) -> Option<Vec<ValueType>> {
        let is = |alias: &Option<ast::Alias>| alias.as_ref().is_some_and(|a| a.aliasname == called);
        let other = |n: &NodeEnum| match n {
            NodeEnum::RangeSubselect(s) => is(&s.alias),
            NodeEnum::RangeFunction(f) => is(&f.alias),
            NodeEnum::JoinExpr(j) => is(&j.alias) || is(&j.join_using_alias),
            NodeEnum::RangeTableFunc(_) | NodeEnum::JsonTable(_) => true,
            NodeEnum::CommonTableExpr(c) => c.ctename == called,
            _ => false,
        };
        let mut named = sql::relations::of(self.statement)
            .into_iter()
            .filter(|rv| rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname) == called);
        let rv = named.next()?;
        let plain = rv.alias.as_ref().is_none_or(|a| a.colnames.is_empty());
        let mut all = 0;
        search::each_relation(self.statement, |rv| {
            all += usize::from(rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname) == called);
        });
        if named.next().is_some() || all > 1 || !plain || search::any(self.statement, other) {
            return None;
        }
        let column = self.cx.relation(rv)?.columns.iter().find(|c| c.name == name)?;
        Some(vec![self.base((column.type_oid, column.typmod))])
    }

    /// Of the columns of that name that tables have.
    fn stored(&self, name: &str, unqualified: bool) -> Option<Vec<ValueType>> {
        let mut all = vec![];
        for rv in sql::relations::of(self.statement) {
            let alias = rv.alias.as_ref();
            let is_row = alias.map_or(rv.relname.as_str(), |a| a.aliasname.as_str()) == name && unqualified;
            if is_row || alias.is_some_and(|a| names::strings(&a.colnames).contains(&name)) {
                return None;
            }
            let relation = self.cx.relation(rv);
            for column in relation.into_iter().flat_map(|r| r.columns.iter()).filter(|c| c.name == name) {
                all.push(self.base((column.type_oid, column.typmod)));
            }
        }
        all.sort_unstable();
        all.dedup();
        Some(all)
    }

    /// The type under a domain.
    fn base(&self, kind: ValueType) -> ValueType {
        let mut kind = kind;
        while let Some(domain) = self.cx.snapshot.types.get(&kind.0).filter(|t| t.kind == b'd') {
            kind = (domain.base, -1);
        }
        kind
    }

    /// A function of users' own, or one of several columns, stands in FROM: they have names that are not known here.
    fn has_columns_of_code(&self) -> bool {
        let gives = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(c) if self.cx.functions(&c.funcname).any(|f| f.user_defined && f.returns_set));
        let record = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(c) if self.cx.functions(&c.funcname).any(|f| f.returns == type_oid::RECORD));
        search::any(self.statement, |n| match n {
            NodeEnum::RangeFunction(f) if f.coldeflist.is_empty() => f.functions.iter().any(|f| search::any(f, record)),
            _ => gives(n),
        })
    }

    /// What lists of column names behind an alias, or of a WITH query, give that name to.
    fn given(&self, name: &str, way: &Way) -> Option<Vec<ValueType>> {
        let has = |names: &[Node]| names::strings(names).contains(&name);
        let mut kinds = vec![];
        let mut renamed = |names: &[Node], query: Option<&Node>| {
            let found = self.renamed(names, query, name, way);
            found.is_none_or(|found| {
                kinds.extend(found);
                false
            })
        };
        let mut functions = vec![];
        let unknown = search::any(self.statement, |n| match n {
            NodeEnum::RangeSubselect(s) => s.alias.as_ref().is_some_and(|a| {
                a.aliasname == name || has(&a.colnames) && renamed(&a.colnames, s.subquery.as_deref())
            }),
            NodeEnum::RangeFunction(f) => {
                let defined = |c: &Node| matches!(&c.node, Some(NodeEnum::ColumnDef(c)) if c.colname == name);
                if f.coldeflist.iter().any(defined)
                    || f.functions
                        .iter()
                        .any(|n| search::any(n, |n| matches!(n, NodeEnum::ColumnDef(c) if c.colname == name)))
                {
                    return true;
                }
                let Some(alias) = f.alias.as_ref() else { return false };
                if !has(&alias.colnames) && alias.aliasname != name {
                    return false;
                }
                functions.push(f);
                false
            }
            NodeEnum::RangeTableFunc(_) | NodeEnum::JsonTable(_) => true,
            NodeEnum::CommonTableExpr(c) => has(&c.aliascolnames) && renamed(&c.aliascolnames, c.ctequery.as_deref()),
            NodeEnum::JoinExpr(j) => {
                j.alias.as_ref().is_some_and(|a| has(&a.colnames) || a.aliasname == name)
                    || j.join_using_alias.as_ref().is_some_and(|a| a.aliasname == name)
            }
            _ => false,
        });
        let functions = together(functions.into_iter().map(|f| self.scalar(f, name, way)));
        kinds.extend(functions.filter(|_| !unknown)?);
        Some(kinds)
    }

    /// What a query gives under a name from a list in its alias.
    fn renamed(&self, names: &[Node], query: Option<&Node>, name: &str, way: &Way) -> Option<Vec<ValueType>> {
        let at = names::strings(names).iter().position(|n| *n == name)?;
        let Some(NodeEnum::SelectStmt(s)) = query?.node.as_ref() else { return None };
        let mut kinds = vec![];
        for arm in arms(s) {
            let mut values = vec![];
            if arm.target_list.iter().any(crate::rewrite::is_star) {
                return None;
            }
            values.extend(targets(arm).nth(at).map(|(_, value)| value));
            for row in &arm.values_lists {
                let Some(NodeEnum::List(l)) = &row.node else { return None };
                values.push(l.items.get(at)?);
            }
            for value in values.into_iter().filter(|v| !is_column(v, name)) {
                kinds.extend(self.deep(value, way)?);
            }
        }
        Some(kinds)
    }

    /// The one column of a function in FROM that gives single values: `generate_series(…) AS name`.
    fn scalar(&self, f: &ast::RangeFunction, name: &str, way: &Way) -> Option<Vec<ValueType>> {
        let alias = f.alias.as_ref()?;
        let named = names::strings(&alias.colnames);
        let [Node { node: Some(NodeEnum::List(l)) }] = &f.functions[..] else { return None };
        let call = l.items.first()?;
        let Some(NodeEnum::FuncCall(c)) = &call.node else { return None };
        let plain = f.coldeflist.is_empty() && !f.ordinality && named.len() <= 1;
        let known = self.cx.functions(&c.funcname).all(|f| !f.user_defined && f.kind == FunctionKind::Function);
        let one = plain && known && named.first().is_none_or(|n| *n == name);
        let kinds = self.deep(call, way).filter(|_| one)?;
        (!kinds.iter().any(|(oid, _)| *oid == type_oid::RECORD)).then_some(kinds)
    }
}

fn is_column(n: &Node, name: &str) -> bool {
    matches!(&n.node, Some(NodeEnum::ColumnRef(c)) if names::last(&c.fields) == name)
}

/// What queries inside of the statement give, by its name.
#[derive(Default)]
struct Outputs<'a> {
    all: Vec<(String, &'a Node)>,
    /// An arm of UNION, INTERSECT or EXCEPT has a star: which values go by which name is not known.
    unknown: bool,
}

impl<'a> Visit<'a> for Outputs<'a> {
    fn select(&mut self, s: &'a SelectStmt) -> bool {
        let arms = arms(s);
        // Columns of UNION take their names from the first arm, and their values from all.
        let named: Vec<String> = match arms.first() {
            Some(first) => targets(first).map(|(name, _)| name).collect(),
            None => return true,
        };
        self.unknown |= arms.len() > 1 && arms.iter().any(|a| a.target_list.iter().any(crate::rewrite::is_star));
        for arm in arms {
            self.all.extend(named.iter().cloned().zip(targets(arm).map(|(_, value)| value)));
            for row in &arm.values_lists {
                let Some(NodeEnum::List(l)) = &row.node else { continue };
                let names = (1..).map(|i| named.get(i - 1).cloned().unwrap_or_else(|| format!("column{i}")));
                self.all.extend(names.zip(&l.items));
            }
        }
        true
    }
}

/// The queries a UNION, INTERSECT or EXCEPT is made of; of another query itself.
pub fn arms(s: &SelectStmt) -> Vec<&SelectStmt> {
    let (mut arms, mut todo) = (vec![], vec![s]);
    while let Some(s) = todo.pop() {
        match (s.larg.as_deref(), s.rarg.as_deref()) {
            (Some(l), Some(r)) => todo.extend([r, l]),
            _ => arms.push(s),
        }
    }
    arms
}

fn targets(s: &SelectStmt) -> impl Iterator<Item = (String, &Node)> {
    s.target_list.iter().filter_map(|t| {
        let Some(NodeEnum::ResTarget(t)) = &t.node else { return None };
        let value = t.val.as_deref()?;
        Some((if t.name.is_empty() { names::figure_column(value) } else { t.name.clone() }, value))
    })
}

fn plain(oid: Oid) -> Option<Vec<ValueType>> {
    Some(vec![(oid, -1)])
}

fn together(all: impl Iterator<Item = Option<Vec<ValueType>>>) -> Option<Vec<ValueType>> {
    let mut kinds = vec![];
    for found in all {
        kinds.extend(found?);
    }
    Some(kinds)
}

fn unmodified(kinds: Vec<ValueType>) -> Vec<ValueType> {
    kinds.into_iter().map(|(oid, _)| (oid, -1)).collect()
}

fn constant(c: &ast::AConst) -> Option<Vec<ValueType>> {
    match c.val.as_ref() {
        _ if c.isnull => Some(vec![]),
        Some(Val::Ival(_)) => plain(type_oid::INT4),
        Some(Val::Fval(f)) => plain(if f.fval.parse::<i64>().is_ok() { type_oid::INT8 } else { type_oid::NUMERIC }),
        Some(Val::Boolval(_)) => plain(type_oid::BOOL),
        Some(Val::Sval(_)) => plain(type_oid::UNKNOWN),
        Some(Val::Bsval(_)) => plain(BIT),
        None => plain(type_oid::INT4),
    }
}

fn cast(t: &ast::TypeName) -> Option<Vec<ValueType>> {
    let oid = type_named(names::plain_type(t)?)?;
    Some(vec![(oid, modifier(oid, &t.typmods))])
}

/// As a cast has it, without its schema; of some of PostgreSQL's own types.
pub fn type_named(name: &str) -> Option<Oid> {
    Some(match name {
        "interval" => type_oid::INTERVAL,
        "time" => type_oid::TIME,
        "timetz" => type_oid::TIMETZ,
        "oid" => type_oid::OID,
        "bpchar" => type_oid::BPCHAR,
        // What the grammar leaves as it is written where the text says so by hand.
        "smallint" => type_oid::INT2,
        "int" | "integer" => type_oid::INT4,
        "bigint" => type_oid::INT8,
        "decimal" => type_oid::NUMERIC,
        _ => return type_oid::named(name),
    })
}

/// numeric.c (`make_numeric_typmod`), varchar.c: of the types of which it tells how values look.
fn modifier(oid: Oid, written: &[Node]) -> i32 {
    let number = |n: &Node| match &n.node {
        Some(NodeEnum::AConst(ast::AConst { val: Some(Val::Ival(i)), .. })) => Some(i.ival),
        _ => None,
    };
    let numbers: Option<Vec<i32>> = written.iter().map(number).collect();
    match (oid, numbers.as_deref()) {
        (type_oid::NUMERIC, Some([precision])) => (precision << 16) + 4,
        (type_oid::NUMERIC, Some([precision, scale])) => ((precision << 16) | (scale & 0x7ff)) + 4,
        (type_oid::BPCHAR, Some([length])) => length + 4,
        _ => -1,
    }
}

fn is_integer(oid: Oid) -> bool {
    type_oid::is_integer(oid) || oid == type_oid::UNKNOWN
}

fn is_string(oid: Oid) -> bool {
    type_oid::is_text(oid) || oid == type_oid::UNKNOWN
}

/// Floats, money, of which quotients are floats, and types of users' own, that may be made of them.
pub fn may_be_float(oid: Oid) -> bool {
    matches!(oid, type_oid::FLOAT4 | type_oid::FLOAT8 | type_oid::MONEY) || oid >= type_oid::FIRST_NORMAL_OBJECT_ID
}

/// `+ - * / %`
fn arithmetic(left: &[ValueType], right: &[ValueType]) -> Option<Vec<ValueType>> {
    let mut all = left.iter().chain(right);
    if all.clone().all(|(oid, _)| is_integer(*oid)) {
        plain(type_oid::INT8)
    } else if all.clone().all(|(oid, _)| is_integer(*oid) || *oid == type_oid::NUMERIC) {
        plain(type_oid::NUMERIC)
    } else {
        all.all(|(oid, _)| !may_be_float(*oid)).then_some(vec![OTHER])
    }
}

/// `||`
fn joined(left: &[ValueType], right: &[ValueType]) -> Option<Vec<ValueType>> {
    use type_oid::*;
    let scalar =
        |oid: Oid| is_string(oid) || is_number(oid) || matches!(oid, BOOL | DATE | TIMESTAMP | TIMESTAMPTZ | UUID);
    let one_is_text = [left, right].iter().any(|side| side.iter().all(|(oid, _)| is_string(*oid)));
    (one_is_text && left.iter().chain(right).all(|(oid, _)| scalar(*oid))).then_some(vec![(TEXT, -1)])
}

/// The sum of integers is one, whatever its type.
fn summed(kinds: &[ValueType]) -> Option<Vec<ValueType>> {
    if kinds.iter().all(|(oid, _)| type_oid::is_integer(*oid)) {
        return plain(type_oid::INT8);
    }
    let summed = |oid| matches!(oid, type_oid::NUMERIC | type_oid::INTERVAL) || type_oid::is_integer(oid);
    kinds.iter().all(|(oid, _)| summed(*oid)).then(|| unmodified(kinds.to_vec()))
}
