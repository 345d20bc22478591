//! From PostgreSQL's tree to a typed expression of DuckDB's, from below. What names mean `scope.rs` knows.
//!
//! What is not named here is refused.

use sql::NodeEnum;
use sql::ast::{self, Node};
use wire::type_oid;

use super::expression::{Expr, Kind};
use super::scope::Reader;
use super::types::Ty;
use super::{Found, aggregate, arithmetic, compare, conditional, constant, moment, own, refused, subquery};
use crate::rewrite;

/// Nodes of a tree: the texts of longer ones are no store's to read.
const NODES_MAX: usize = 10_000;
/// Nodes that are copied, and not written.
const COPIED_MAX: usize = 1_000_000;
/// Nodes within nodes.
const DEPTH_MAX: usize = 200;

fn size(e: &Expr) -> usize {
    let mut size = 0;
    e.any(&mut |_| {
        size += 1;
        false
    });
    size
}

fn too_long() -> String {
    "the statement is too long to be computed on columns".into()
}

impl Reader<'_> {
    /// An expression, whatever its type.
    pub fn expression(&self, node: &Node) -> Found<Expr> {
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > NODES_MAX {
            return Err(too_long());
        }
        if self.depth.get() >= DEPTH_MAX {
            return Err("the statement is too deep to be computed on columns".into());
        }
        self.depth.set(self.depth.get() + 1);
        let found = self.one(node);
        self.depth.set(self.depth.get() - 1);
        found
    }

    /// The same once more, for what is written several times; it counts as what was said so often.
    pub fn again(&self, e: &Expr) -> Found<Expr> {
        self.nodes.set(self.nodes.get() + size(e));
        if self.nodes.get() > NODES_MAX { Err(too_long()) } else { Ok(e.clone()) }
    }

    /// So often it may be copied to see what it is beside others.
    pub fn beside(&self, e: &Expr, others: usize) -> Found<()> {
        if size(e).saturating_mul(others) > COPIED_MAX { Err(too_long()) } else { Ok(()) }
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
                compare::like(self, word, self.expression(left)?, self.expression(right)?)
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
                let (low, high) = (self.expression(low)?, self.expression(high)?);
                // Two conditions: of what can fail beside the other, or where nothing can be between, DuckDB may compute nothing.
                let may_fail =
                    low.may_not_fit() || high.may_not_fit() || value.may_not_fit() && !are_ordered(&low, &high);
                if may_fail {
                    return Err(refused("BETWEEN of what may not fit"));
                }
                let low = compare::comparison(self, above, self.again(&value)?, low)?;
                let high = compare::comparison(self, below, value, high)?;
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
        let (operand, to) = (self.expression(arg)?, own::cast(name, self.a.cx)?);
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
            (Ty::Float4 | Ty::Int2 | Ty::Int4 | Ty::Int8, kind)
                if to == Ty::Float8 && !matches!(kind, Kind::Param(..)) =>
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

/// Constants of which the second is not less: integers, or days and moments that are written alike.
fn are_ordered(low: &Expr, high: &Expr) -> bool {
    let (Kind::Constant(low), Kind::Constant(high)) = (&low.kind, &high.kind) else { return false };
    match (low.parse::<i128>(), high.parse::<i128>()) {
        (Ok(low), Ok(high)) => low <= high,
        _ => {
            let is_day = |text: &str| {
                let shape = |(at, b): (usize, u8)| if at == 4 || at == 7 { b == b'-' } else { b.is_ascii_digit() };
                text.len() >= 10 && text.bytes().enumerate().take(10).all(shape)
            };
            let plain = |text: &str| text.bytes().skip(10).all(|b| b.is_ascii_digit() || b": .".contains(&b));
            low.len() == high.len() && [low, high].into_iter().all(|t| is_day(t) && plain(t)) && low <= high
        }
    }
}
