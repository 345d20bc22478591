//! From PostgreSQL's tree to a typed expression of DuckDB's, from below. Names are those of the tables in FROM.
//!
//! What is not named here is refused.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use catalog::{ColumnCopy, Relation, UniqueIndex};
use sql::ast::{self, Node};
use sql::{NodeEnum, names};
use wire::type_oid;

use super::expression::{Column, Expr, Kind};
use super::types::Ty;
use super::{Found, aggregate, arithmetic, compare, conditional, constant, moment, own, refused, subquery};
use crate::levels::Analysis;
use crate::{Context, rewrite};

/// Nodes of a tree: the texts of longer ones are no store's to read.
const NODES_MAX: usize = 10_000;
/// Nodes within nodes.
const DEPTH_MAX: usize = 200;
/// SELECTs within SELECTs: what DuckDB takes to make joins of them is four times as long for every three more.
const WITHIN_MAX: usize = 6;
/// What every table has besides its columns, and copies have not.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"];

/// Reads the expressions of a Part.
pub struct Reader<'a> {
    pub cx: &'a Context<'a>,
    pub a: &'a Analysis<'a>,
    /// The uses of distributed tables that the Part reads.
    pub uses: &'a [usize],
    /// All that are read, by number, whichever SELECT reads them.
    tables: RefCell<Vec<Rc<Table<'a>>>>,
    /// The numbers of those that can be named here, of the SELECTs from the outermost one inwards.
    levels: RefCell<Vec<Vec<usize>>>,
    nodes: Cell<usize>,
    depth: Cell<usize>,
    /// SELECTs within one another.
    within: Cell<usize>,
    /// Where an aggregate may stand.
    pub aggregates: Cell<bool>,
    /// Where a subquery may.
    pub subqueries: Cell<bool>,
}

/// What a SELECT reads, as its expressions name it.
pub struct Table<'a> {
    pub source: Source<'a>,
    /// Its alias, or else its name.
    pub shown: String,
    /// It has an alias: its schema is not named.
    pub renamed: bool,
}

/// What a [`Table`] is.
pub enum Source<'a> {
    Copy {
        relation: &'a Arc<Relation>,
        copy: &'a ColumnCopy,
    },
    /// A subquery of FROM, by its columns.
    Query(Vec<Output>),
}

/// A subquery's column.
pub struct Output {
    pub name: String,
    pub ty: Ty,
    /// As of a [`Column`].
    pub bytes: bool,
    pub deterministic: bool,
}

impl Table<'_> {
    /// The table, if it is one.
    pub fn relation(&self) -> Option<&Arc<Relation>> {
        match &self.source {
            Source::Copy { relation, .. } => Some(relation),
            Source::Query(_) => None,
        }
    }

    /// Its columns' names.
    pub fn names(&self) -> Vec<&str> {
        match &self.source {
            Source::Copy { relation, .. } => relation.columns.iter().map(|c| c.name.as_str()).collect(),
            Source::Query(outputs) => outputs.iter().map(|o| o.name.as_str()).collect(),
        }
    }

    /// The column leads an index of the nodes'.
    pub fn is_indexed(&self, name: &str) -> bool {
        let Source::Copy { relation, copy } = self.source else { return false };
        let at = relation.column(name);
        let unique = |index: &UniqueIndex| index.columns.first().copied() == at;
        copy.indexed.iter().any(|c| c == name) || relation.unique.iter().any(unique)
    }
}

impl<'a> Reader<'a> {
    /// With no tables yet.
    pub fn new(a: &'a Analysis<'a>, uses: &'a [usize]) -> Self {
        let (tables, levels, nodes, depth, within, aggregates, subqueries) = Default::default();
        Reader { cx: a.cx, a, uses, tables, levels, nodes, depth, within, aggregates, subqueries }
    }

    /// One of all that are read.
    pub fn table(&self, number: usize) -> Rc<Table<'a>> {
        self.tables.borrow()[number].clone()
    }

    /// All that are read so far.
    pub fn tables(&self) -> Vec<Rc<Table<'a>>> {
        self.tables.borrow().clone()
    }

    /// How many that are.
    pub fn count(&self) -> usize {
        self.tables.borrow().len()
    }

    /// One more, which can be named from now on.
    pub fn add(&self, table: Table<'a>) -> usize {
        let number = self.count();
        self.tables.borrow_mut().push(Rc::new(table));
        self.levels.borrow_mut().last_mut().into_iter().for_each(|level| level.push(number));
        number
    }

    /// The numbers of what this SELECT's FROM names, so far.
    pub fn level(&self) -> Vec<usize> {
        self.levels.borrow().last().cloned().unwrap_or_default()
    }

    /// Reads a SELECT within another one. `sees`: it can name what those around it read.
    pub fn within<R>(&self, sees: bool, read: impl FnOnce() -> R) -> Found<R> {
        if self.within.get() >= WITHIN_MAX {
            return Err("subqueries within so many others are not computed on columns".into());
        }
        self.within.set(self.within.get() + 1);
        let around = self.levels.borrow().clone();
        self.levels.replace(if sees { around.clone() } else { vec![] }).clear();
        self.levels.borrow_mut().push(vec![]);
        let (aggregates, subqueries) = (self.aggregates.replace(false), self.subqueries.replace(false));
        let done = read();
        self.levels.replace(around).clear();
        self.aggregates.set(aggregates);
        self.subqueries.set(subqueries);
        self.within.set(self.within.get() - 1);
        Ok(done)
    }

    /// An expression, whatever its type.
    pub fn expression(&self, node: &Node) -> Found<Expr> {
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > NODES_MAX {
            return Err("the statement is too long to be computed on columns".into());
        }
        if self.depth.get() >= DEPTH_MAX {
            return Err("the statement is too deep to be computed on columns".into());
        }
        self.depth.set(self.depth.get() + 1);
        let found = self.one(node);
        self.depth.set(self.depth.get() - 1);
        found
    }

    /// True or false: what WHERE, AND and their like are given.
    pub fn condition(&self, node: &Node) -> Found<Expr> {
        let e = self.expression(node)?;
        match (e.ty, &e.kind) {
            (Ty::Bool, _) => Ok(e),
            (Ty::Unknown, Kind::Null) => Ok(Expr { ty: Ty::Bool, ..e }),
            _ => Err(refused("a condition that is no boolean")),
        }
    }

    fn one(&self, node: &Node) -> Found<Expr> {
        let Some(node) = node.node.as_ref() else { return Err(refused("an empty expression")) };
        match node {
            NodeEnum::ColumnRef(c) => self.column(c),
            NodeEnum::AConst(c) => constant::literal(c),
            NodeEnum::ParamRef(p) => self.parameter(p.number),
            NodeEnum::TypeCast(c) => self.cast(c),
            NodeEnum::AExpr(e) => self.operator(e),
            NodeEnum::BoolExpr(b) => self.boolean(b),
            NodeEnum::NullTest(t) => self.null_test(t),
            NodeEnum::BooleanTest(t) => self.boolean_test(t),
            NodeEnum::CaseExpr(c) => conditional::case(self, c),
            NodeEnum::CoalesceExpr(c) => conditional::coalesce(self, c),
            NodeEnum::MinMaxExpr(m) => conditional::greatest_or_least(self, m),
            node if rewrite::clock_type(node).is_some() => moment::now(node),
            NodeEnum::FuncCall(f) => aggregate::call(self, f),
            NodeEnum::SubLink(s) => subquery::of_condition(self, s),
            NodeEnum::CollateClause(_) => Err(refused("COLLATE")),
            NodeEnum::GroupingFunc(_) => Err(refused("GROUPING")),
            NodeEnum::RowExpr(_) => Err(refused("a row")),
            NodeEnum::AArrayExpr(_) => Err(refused("an array")),
            NodeEnum::AIndirection(_) => Err(refused("a part of a value")),
            _ => Err(refused("an expression of this kind")),
        }
    }

    fn column(&self, c: &ast::ColumnRef) -> Found<Expr> {
        let parts = names::strings(&c.fields);
        let (schema, table, name) = match parts[..] {
            [name] => (None, None, name),
            [table, name] => (None, Some(table), name),
            [schema, table, name] => (Some(schema), Some(table), name),
            _ => return Err(refused(&parts.join("."))),
        };
        // An inner table has it, where an outer SELECT has a column of that name.
        if SYSTEM_COLUMNS.contains(&name) {
            return Err(refused(name));
        }
        let is = |t: &Table| {
            let in_schema = |schema| !t.renamed && t.relation().is_some_and(|r| schema == r.schema);
            table.is_none_or(|name| t.shown == name) && schema.is_none_or(in_schema)
        };
        // The nearest SELECT that has a table of this name, or else the column.
        for level in self.levels.borrow().iter().rev() {
            let named: Vec<usize> = level.iter().copied().filter(|n| is(&self.table(*n))).collect();
            let mut found = vec![];
            for n in &named {
                let names = self.table(*n);
                found.extend(names.names().iter().enumerate().filter(|(_, own)| **own == name).map(|(at, _)| (*n, at)));
            }
            match found[..] {
                [(table, at)] if !names::has_star(c) => return self.of_position(table, at),
                [] if table.is_none() || named.is_empty() => {}
                _ => break,
            }
        }
        Err(refused(&parts.join(".")))
    }

    /// A name without a table's means a column of what this SELECT reads.
    pub fn has_column(&self, name: &str) -> bool {
        self.level().into_iter().any(|n| self.table(n).names().contains(&name))
    }

    /// The column of a table at a position.
    pub fn of_position(&self, table: usize, at: usize) -> Found<Expr> {
        let named = self.table(table);
        let (relation, copy) = match &named.source {
            Source::Copy { relation, copy } => (relation, copy),
            Source::Query(outputs) => {
                let Output { ty, bytes, deterministic, .. } = outputs[at];
                let kind = Kind::Column(Column { table, name: subquery::output(at), bytes, deterministic });
                return Ok(Expr { ty, kind });
            }
        };
        let column = &relation.columns[at];
        if !copy.columns.contains(&column.name) || column.generated {
            return Err(format!("column \"{}\" is not in the column copy", column.name));
        }
        let (bytes, deterministic) = (column.collation_is_bytes, column.collation_deterministic);
        let kind = Kind::Column(Column { table, name: column.name.clone(), bytes, deterministic });
        Ok(Expr { ty: Ty::of_column(column), kind })
    }

    /// Of the type the client has declared, or of none yet.
    fn parameter(&self, number: i32) -> Found<Expr> {
        let n = usize::try_from(number).ok().filter(|n| *n > 0).ok_or_else(|| refused("a parameter"))?;
        match self.cx.parameters.get(n - 1).copied().unwrap_or_default() {
            0 | type_oid::UNKNOWN => Ok(Expr { ty: Ty::Unknown, kind: Kind::Param(n, 0) }),
            oid => {
                let ty = Ty::of_oid(oid).ok_or_else(|| refused(&format!("a parameter of the type of ${n}")))?;
                Ok(Expr { ty, kind: Kind::Param(n, oid) })
            }
        }
    }

    fn operator(&self, e: &ast::AExpr) -> Found<Expr> {
        use ast::AExprKind::*;
        let kind = ast::AExprKind::try_from(e.kind).unwrap_or(Undefined);
        let (left, right) = (e.lexpr.as_deref(), e.rexpr.as_deref());
        match (kind, left, right) {
            (AexprOp, Some(left), Some(right)) => {
                let name = own::operator(&e.name, self.cx)?;
                if let Some(interval) = moment::interval(right)? {
                    return moment::shifted(name, self.expression(left)?, interval);
                }
                let (left, right) = (self.expression(left)?, self.expression(right)?);
                // What it means is a setting's to say (`transformAExprOp` in parse_expr.c).
                if name == "=" && [&left, &right].into_iter().any(Expr::is_bare_null) {
                    return Err(refused("= NULL, of which transform_null_equals makes IS NULL,"));
                }
                match compare::sign(name) {
                    Some(sign) => compare::comparison(self, sign, left, right),
                    None => arithmetic::operator(name, left, right),
                }
            }
            (AexprOp, None, Some(operand)) => {
                arithmetic::sign(own::operator(&e.name, self.cx)?, self.expression(operand)?)
            }
            (AexprDistinct | AexprNotDistinct, Some(left), Some(right)) => {
                own::operator(&e.name, self.cx)?;
                let word = if kind == AexprDistinct { "IS DISTINCT FROM" } else { "IS NOT DISTINCT FROM" };
                compare::comparison(self, word, self.expression(left)?, self.expression(right)?)
            }
            (AexprNullif, Some(left), Some(right)) => {
                own::operator(&e.name, self.cx)?;
                conditional::nullif(self, self.expression(left)?, self.expression(right)?)
            }
            (AexprIn, Some(left), Some(right)) => {
                let word = if own::operator(&e.name, self.cx)? == "=" { "IN" } else { "NOT IN" };
                compare::list(self, word, left, right)
            }
            (AexprLike, Some(left), Some(right)) => {
                let word = if own::operator(&e.name, self.cx)? == "~~" { "LIKE" } else { "NOT LIKE" };
                compare::like(word, self.expression(left)?, self.expression(right)?)
            }
            (AexprBetween | AexprNotBetween, Some(value), Some(Node { node: Some(NodeEnum::List(bounds)) })) => {
                let [low, high] = &bounds.items[..] else { return Err(refused("BETWEEN")) };
                let (above, below, word) = match kind {
                    AexprBetween => (">=", "<=", "AND"),
                    _ => ("<", ">", "OR"),
                };
                own::is_own(above, self.cx)?;
                own::is_own(below, self.cx)?;
                let value = self.expression(value)?;
                // It is written twice.
                let mut size = 0;
                value.any(&mut |_| {
                    size += 1;
                    false
                });
                self.nodes.set(self.nodes.get() + size);
                let low = compare::comparison(self, above, value.clone(), self.expression(low)?)?;
                let high = compare::comparison(self, below, value, self.expression(high)?)?;
                Ok(Expr::condition(Kind::Infix(word, vec![low, high])))
            }
            (AexprIlike, Some(left), Some(right)) => {
                let word = if own::operator(&e.name, self.cx)? == "~~*" { "ILIKE" } else { "NOT ILIKE" };
                compare::like_folded(self, word, self.expression(left)?, self.expression(right)?)
            }
            (AexprSimilar, ..) => Err(refused("SIMILAR TO")),
            (AexprOpAny | AexprOpAll, Some(left), Some(Node { node: Some(NodeEnum::AArrayExpr(array)) })) => {
                let word = match (kind, own::operator(&e.name, self.cx)?) {
                    (AexprOpAny, "=") => "IN",
                    (AexprOpAll, "<>") => "NOT IN",
                    _ => return Err(refused("a comparison with an array")),
                };
                compare::array(self, word, left, &array.elements)
            }
            (AexprOpAny | AexprOpAll, ..) => Err(refused("a comparison with an array")),
            _ => Err(refused("an operator of this kind")),
        }
    }

    fn boolean(&self, b: &ast::BoolExpr) -> Found<Expr> {
        let operands = b.args.iter().map(|arg| self.condition(arg)).collect::<Found<Vec<_>>>()?;
        // PostgreSQL looks at them one after another; DuckDB begins with the one that it takes to be quicker, and would not see the rows of which another can't be computed.
        if operands.len() > 1 && operands.iter().any(Expr::may_not_fit) {
            return Err(refused("a condition that can fail beside others"));
        }
        Ok(Expr::condition(match (ast::BoolExprType::try_from(b.boolop), &operands[..]) {
            (Ok(ast::BoolExprType::AndExpr), _) => Kind::Infix("AND", operands),
            (Ok(ast::BoolExprType::OrExpr), _) => Kind::Infix("OR", operands),
            (Ok(ast::BoolExprType::NotExpr), [operand]) => Kind::Prefix("NOT", Box::new(operand.clone())),
            _ => return Err(refused("a condition of this kind")),
        }))
    }

    fn null_test(&self, t: &ast::NullTest) -> Found<Expr> {
        let operand = self.expression(t.arg.as_deref().ok_or_else(|| refused("IS NULL"))?)?;
        if t.argisrow || matches!(operand.ty, Ty::Own | Ty::Unknown) {
            return Err(refused(&format!("IS NULL of {}", operand.ty.name())));
        }
        let is_null = t.nulltesttype == ast::NullTestType::IsNull as i32;
        Ok(Expr::condition(Kind::Postfix(Box::new(operand), if is_null { "IS NULL" } else { "IS NOT NULL" })))
    }

    fn boolean_test(&self, t: &ast::BooleanTest) -> Found<Expr> {
        let operand = self.condition(t.arg.as_deref().ok_or_else(|| refused("IS TRUE"))?)?;
        let word = match ast::BoolTestType::try_from(t.booltesttype) {
            Ok(ast::BoolTestType::IsTrue) => "IS TRUE",
            Ok(ast::BoolTestType::IsNotTrue) => "IS NOT TRUE",
            Ok(ast::BoolTestType::IsFalse) => "IS FALSE",
            Ok(ast::BoolTestType::IsNotFalse) => "IS NOT FALSE",
            Ok(ast::BoolTestType::IsUnknown) => "IS UNKNOWN",
            Ok(ast::BoolTestType::IsNotUnknown) => "IS NOT UNKNOWN",
            _ => return Err(refused("a test of this kind")),
        };
        Ok(Expr::condition(Kind::Postfix(Box::new(operand), word)))
    }

    fn cast(&self, c: &ast::TypeCast) -> Found<Expr> {
        let (Some(arg), Some(name)) = (c.arg.as_deref(), &c.type_name) else { return Err(refused("a cast")) };
        let (operand, to) = (self.expression(arg)?, own::cast(name)?);
        let refuse = || refused(&format!("a cast of {} to {}", operand.ty.name(), to.name()));
        match (operand.ty, &operand.kind) {
            (Ty::Unknown, _) => compare::settle(operand, to),
            // A modifier that is not written is none: the value stays as it is, and text loses its blanks.
            (from, _) if from == to || (from.is_string() && to.is_text()) => Ok(Expr { ty: to, ..operand }),
            (Ty::Numeric { .. }, _) if matches!(to, Ty::Numeric { .. }) => Ok(operand),
            (from, Kind::Constant(text)) if from.is_integer() && to.is_integer() => {
                let (ty, text) = constant::read(text, to).ok_or_else(refuse)?;
                Ok(Expr { ty, kind: Kind::Constant(text) })
            }
            (from, Kind::Constant(text)) if from.is_integer() && matches!(to, Ty::Numeric { .. }) => {
                let (ty, text) = constant::read(text, to).ok_or_else(refuse)?;
                Ok(Expr { ty, kind: Kind::Constant(text) })
            }
            (from, Kind::Constant(text)) if from.as_numeric().is_some() && to == Ty::Float8 => {
                let (ty, text) = constant::read(text, to).ok_or_else(refuse)?;
                Ok(Expr { ty, kind: Kind::Constant(text) })
            }
            (from, _) if from.is_integer() && to.is_integer() => Ok(operand.cast(to).computed()),
            (from, kind)
                if (from.is_integer() || from == Ty::Bool) && to.is_text() && !matches!(kind, Kind::Param(..)) =>
            {
                Ok(operand.cast(to))
            }
            // The day in which it is; an infinity is one.
            (Ty::Timestamp, kind) if to == Ty::Date && !matches!(kind, Kind::Param(..)) => Ok(operand.cast(to)),
            (from, _) if from.is_integer() && matches!(to, Ty::Numeric { .. }) => {
                let (digits, scale) = from.as_numeric().ok_or_else(refuse)?;
                Ok(operand.cast(Ty::Numeric { digits, scale }))
            }
            _ => Err(refuse()),
        }
    }
}
