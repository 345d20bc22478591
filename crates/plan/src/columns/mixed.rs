//! Numerics of which each value has its own digits behind the point: what CASE and COALESCE make of `numeric(12,2)` and `0`. PostgreSQL shows `0`
//! and `0.00` as they come, and a sum with as many digits as the longest of its values. So the value goes with an integer, how many digits
//! it has. Other files know only that it is no plain numeric, and refuse it.

use super::compare;
use super::expression::{Aggregate, Expr, Kind, Writer};
use super::types::{DIGITS_MAX, Ty};

/// A value, and how many digits it has behind the point; both are NULL together.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    /// A numeric with the most digits of all.
    pub value: Expr,
    pub scale: Expr,
    /// Which there may be.
    pub scales: Vec<u8>,
}

impl Mixed {
    fn into_expr(mut self) -> Expr {
        self.scales.sort_unstable();
        self.scales.dedup();
        match self.scales[..] {
            [_] => self.value,
            _ => Expr { ty: Ty::Mixed, kind: Kind::Mixed(Box::new(self)) },
        }
    }

    /// As a text, for who reads it as a numeric.
    pub fn write(&self, w: &mut Writer) {
        w.sql("CASE ");
        w.expression(&self.scale);
        for scale in &self.scales {
            w.sql(&format!(" WHEN {scale} THEN CAST(CAST("));
            w.expression(&self.value);
            w.sql(&format!(" AS DECIMAL({DIGITS_MAX},{scale})) AS VARCHAR)"));
        }
        w.sql(" END");
    }
}

/// One of these values, by `choose`, which is given as many as there are; `None`: they are not numbers, or all of the same digits.
pub fn one_of(values: &[Expr], choose: impl Fn(Vec<Expr>) -> Kind) -> Option<Expr> {
    let numeric = |e: &Expr| matches!(e.ty, Ty::Numeric { .. } | Ty::Mixed);
    let mut known = values.iter().filter(|e| !matches!(e.kind, Kind::Null));
    let scale_of = |e: &Expr| if let Ty::Numeric { scale, .. } = e.ty { Some(scale) } else { None };
    let first = known.next().and_then(scale_of);
    if !values.iter().any(numeric) || (first.is_some() && known.all(|e| scale_of(e) == first)) {
        return None;
    }
    let all = values.iter().map(of).collect::<Option<Vec<_>>>()?;
    let types: Vec<(u8, u8)> = all.iter().flatten().filter_map(|m| m.value.ty.as_numeric()).collect();
    let scale = types.iter().map(|(_, scale)| *scale).max()?;
    let digits = types.iter().map(|(digits, scale)| digits - scale).max()? + scale;
    // Shown with all digits there are, one is to stand before the point.
    if digits > DIGITS_MAX || scale >= DIGITS_MAX {
        return None;
    }
    let ty = Ty::Numeric { digits, scale };
    let null = |ty| Expr { ty, kind: Kind::Null };
    let each = all.iter().map(|m| m.as_ref().map_or_else(|| null(ty), |m| m.value.clone().cast(ty)));
    let value = Expr { ty, kind: choose(each.collect()) };
    let each = all.iter().map(|m| m.as_ref().map_or_else(|| null(Ty::Int4), |m| m.scale.clone()));
    let chosen = Expr { ty: Ty::Int4, kind: choose(each.collect()) };
    let scales = all.into_iter().flatten().flat_map(|m| m.scales).collect();
    Some(Mixed { value, scale: chosen, scales }.into_expr())
}

/// A number with its digits; the inner `None`: NULL.
fn of(e: &Expr) -> Option<Option<Mixed>> {
    match &e.kind {
        Kind::Mixed(mixed) if !e.has_parameters_digits() => return Some(Some(Mixed::clone(mixed))),
        Kind::Null if e.ty == Ty::Unknown || e.ty.as_numeric().is_some() => return Some(None),
        Kind::Null => return None,
        // How many digits it has is not known.
        _ if e.has_parameters_digits() => return None,
        Kind::Param(..) => return None,
        _ => {}
    }
    let value = compare::as_numeric(e.clone()).ok()?;
    let (_, scale) = value.ty.as_numeric()?;
    let digits = Expr { ty: Ty::Int4, kind: Kind::Constant(scale.to_string()) };
    let is_null = Expr::condition(Kind::Postfix(Box::new(e.clone()), "IS NULL"));
    let whens = vec![(is_null, Expr { ty: Ty::Int4, kind: Kind::Null })];
    let told = match e.is_constant() {
        true => digits,
        false => Expr { ty: Ty::Int4, kind: Kind::Case { whens, otherwise: Box::new(digits) } },
    };
    Some(Some(Mixed { value, scale: told, scales: vec![scale] }))
}

/// All of them together, of rows that pass a filter (`do_numeric_accum` in numeric.c).
pub fn sum(mixed: Mixed, filter: Option<Expr>) -> Expr {
    let Mixed { value, scale, scales } = mixed;
    let (_, most) = value.ty.as_numeric().unwrap_or_default();
    let of = |name, argument, filter| {
        Kind::Aggregate(Box::new(Aggregate { name, distinct: false, argument: Some(argument), filter }))
    };
    let ty = Ty::Numeric { digits: DIGITS_MAX, scale: most };
    let value = Expr { ty, kind: of("sum", value, filter.clone()) };
    let scale = Expr { ty: Ty::Int4, kind: of("max", scale, filter) };
    Mixed { value, scale, scales }.into_expr()
}

/// The value alone, where its digits do not matter.
pub fn value(e: Expr) -> Expr {
    match e.kind {
        Kind::Mixed(mixed) => mixed.value,
        _ => e,
    }
}
