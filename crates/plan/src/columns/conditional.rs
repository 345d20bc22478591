//! CASE, COALESCE, NULLIF, GREATEST and LEAST: one of several values, which PostgreSQL makes one type of (`select_common_type` in parse_coerce.c).

use sql::NodeEnum;
use sql::ast;

use super::aggregate;
use super::collation;
use super::compare;
use super::expression::{Expr, Kind};
use super::mixed;
use super::scope::Reader;
use super::types::Ty;
use super::{Found, refused};

/// `CASE WHEN …`, `CASE value WHEN …`
pub fn case(r: &Reader, c: &ast::CaseExpr) -> Found<Expr> {
    let value = c.arg.as_deref().map(|arg| r.expression(arg)).transpose()?;
    if let Some(value) = &value {
        super::own::is_own("=", r.cx)?;
        // PostgreSQL takes it for a text, whatever it is compared to.
        if value.ty == Ty::Unknown {
            return Err(refused("CASE of a constant"));
        }
    }
    let (mut conditions, mut results) = (vec![], vec![]);
    for when in &c.args {
        let Some(NodeEnum::CaseWhen(when)) = &when.node else { return Err(refused("CASE")) };
        let (Some(condition), Some(result)) = (when.expr.as_deref(), when.result.as_deref()) else {
            return Err(refused("CASE"));
        };
        conditions.push(match &value {
            Some(value) => compare::comparison(r, "=", r.again(value)?, r.expression(condition)?)?,
            None => r.condition(condition)?,
        });
        results.push(r.expression(result)?);
    }
    results.push(match c.defresult.as_deref() {
        Some(other) => r.expression(other)?,
        None => Expr { ty: Ty::Unknown, kind: Kind::Null },
    });
    let chosen = mixed::one_of(&results, |mut each| {
        // There is one more than conditions.
        let otherwise = each.pop().unwrap_or(Expr { ty: Ty::Int4, kind: Kind::Null });
        Kind::Case { whens: conditions.iter().cloned().zip(each).collect(), otherwise: Box::new(otherwise) }
    });
    if let Some(chosen) = chosen {
        return guarded(chosen, conditions.iter().any(Expr::may_not_fit));
    }
    let (ty, mut results) = common(r, results, "CASE")?;
    let otherwise = Box::new(results.pop().ok_or_else(|| refused("CASE"))?);
    let may_fail = conditions.iter().any(Expr::may_not_fit);
    let whens = conditions.into_iter().zip(results).collect();
    guarded(Expr { ty, kind: Kind::Case { whens, otherwise } }, may_fail)
}

/// DuckDB knows between which values a choice lies, and whether it is NULL: where that is all that is asked of it, conditions are not looked at, and
/// nobody hears that one can't be computed.
fn guarded(choice: Expr, may_fail: bool) -> Found<Expr> {
    match choice.ty {
        _ if !may_fail => Ok(choice),
        ty if ty.is_integer() => Ok(choice.computed()),
        _ => Err(refused("a choice by what may not fit")),
    }
}

/// `COALESCE(…)`
pub fn coalesce(r: &Reader, c: &ast::CoalesceExpr) -> Found<Expr> {
    let values = c.args.iter().map(|arg| r.expression(arg)).collect::<Found<Vec<_>>>()?;
    if let Some(chosen) = mixed::one_of(&values, |each| Kind::Call("coalesce", each)) {
        return Ok(chosen);
    }
    let (ty, values) = common(r, values, "COALESCE")?;
    Ok(Expr { ty, kind: Kind::Call("coalesce", values) })
}

/// `GREATEST(…)`, `LEAST(…)`
pub fn greatest_or_least(r: &Reader, m: &ast::MinMaxExpr) -> Found<Expr> {
    let name = if m.op == ast::MinMaxOp::IsGreatest as i32 { "greatest" } else { "least" };
    let values = m.args.iter().map(|arg| r.expression(arg)).collect::<Found<Vec<_>>>()?;
    let (ty, values) = common(r, values, &name.to_uppercase())?;
    values.iter().try_for_each(|v| aggregate::is_ordered(r, v))?;
    Ok(Expr { ty, kind: Kind::Call(name, values) })
}

/// `NULLIF(left, right)`: the left as the operator takes it, unless they are equal.
pub fn nullif(r: &Reader, left: Expr, right: Expr) -> Found<Expr> {
    let (left, right) = compare::settled(left, right)?;
    let (left, right) = compare::alike(r, left, right, false)?;
    let ty = match left.ty {
        Ty::Varchar => Ty::Text,
        Ty::Bpchar(_) | Ty::Float4 | Ty::Float8 => return Err(refused(&format!("NULLIF of {}", left.ty.name()))),
        ty => ty,
    };
    if left.ty.is_string() && collation::of(r, &[&left, &right])? != collation::of(r, &[&left])? {
        // Its value has the collation of both.
        return Err(refused("NULLIF of texts of different collations"));
    }
    let equal = Expr::condition(Kind::Infix("=", vec![r.again(&left)?, right]));
    let null = Expr { ty, kind: Kind::Null };
    let may_fail = equal.may_not_fit();
    guarded(Expr { ty, kind: Kind::Case { whens: vec![(equal, null)], otherwise: Box::new(left) } }, may_fail)
}

/// The values as one type. Of text and varchar PostgreSQL takes the one it looks at first: they are not mixed. Numerics must have as many digits behind the point each: PostgreSQL leaves them theirs.
fn common(r: &Reader, values: Vec<Expr>, what: &str) -> Found<(Ty, Vec<Expr>)> {
    let of = |a: Ty, b: Ty| match (a, b) {
        _ if a == b => Some(a),
        (Ty::Numeric { digits: x, scale }, Ty::Numeric { digits: y, scale: other }) if scale == other => {
            Some(Ty::Numeric { digits: x.max(y), scale })
        }
        _ => a.wider(b),
    };
    let mut ty: Option<Ty> = None;
    for value in values.iter().filter(|v| v.ty != Ty::Unknown) {
        let together = ty.map_or(Some(value.ty), |ty| of(ty, value.ty));
        ty = Some(together.ok_or_else(|| refused(&format!("{what} of values of different types")))?);
    }
    // Constants alone are texts.
    let mut ty = ty.unwrap_or(Ty::Text);
    if matches!(ty, Ty::Bpchar(_) | Ty::Float4 | Ty::Float8 | Ty::Bytea | Ty::Opaque | Ty::Own) {
        return Err(refused(&format!("{what} of {}", ty.name())));
    }
    let settled = |v: Expr| match v.ty {
        Ty::Unknown => compare::settle(v, ty),
        _ => Ok(v),
    };
    let values = values.into_iter().map(settled).collect::<Found<Vec<_>>>()?;
    collation::of(r, &values.iter().collect::<Vec<_>>())?;
    for value in &values {
        ty = of(ty, value.ty).ok_or_else(|| refused(&format!("{what} of numbers with different scales")))?;
    }
    let values = values.into_iter().map(|v| if ty.is_integer() { v.cast(ty) } else { v }).collect();
    Ok((ty, values))
}
