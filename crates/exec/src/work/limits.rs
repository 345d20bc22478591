//! The shards of which a key is between two values (`key BETWEEN $1 AND $1 + 99`), for one execution. What only PostgreSQL can read, and what
//! is no value of the key's type, limits nothing here: nobody is asked.

use std::collections::BTreeSet;

use catalog::Distribution;
use key::{Bound, Located};
use plan::{KeyExpr, KeyLimit, LimitEnd, LiteralKind, TableKeys};
use wire::type_oid;

use crate::client::Client;
use crate::error::Result;
use crate::request::Request;
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::key_values::{Value, converted, evaluate};
use crate::work::shards::key_error;

/// Values of the first key column, and whether each is itself within.
#[derive(Default)]
struct Limits {
    low: Option<(Vec<u8>, bool)>,
    high: Option<(Vec<u8>, bool)>,
}

impl<C: Client> Work<'_, C> {
    /// Positions of the shards that have rows within a table's limits; `None`: nothing is known.
    pub(super) fn within(
        &self,
        compiled: &Compiled,
        request: &Request<'_>,
        table: &TableKeys,
        d: &Distribution,
    ) -> Result<Option<BTreeSet<usize>>> {
        let Limits { low, high } = limits(compiled, request, table, d)?;
        if low.is_none() && high.is_none() {
            return Ok(None);
        }
        let bounds = self.epoch.bounds(d.group.id);
        let (low, high) = (low.as_ref().map(by_reference), high.as_ref().map(by_reference));
        let within = key::overlapping(&d.group.key_types, &bounds, low, high);
        Ok(Some(within.map_err(key_error)?.into_iter().collect()))
    }

    /// The commonest case at once: the one shard, split by range of one key column, that has both ends.
    pub(super) fn one_between(
        &self,
        compiled: &Compiled,
        request: &Request<'_>,
        table: &TableKeys,
        d: &Distribution,
    ) -> Result<Option<usize>> {
        let Limits { low: Some((low, _)), high: Some((high, _)) } = limits(compiled, request, table, d)? else {
            return Ok(None);
        };
        let bounds = self.epoch.bounds(d.group.id);
        let at = |value: Vec<u8>| {
            let found = key::locate(d.group.strategy, &d.group.key_types, &bounds, &[Some(value)]);
            found.map_err(key_error)
        };
        Ok(match (at(low)?, at(high)?) {
            // What no range has is in the default shard wherever it lies.
            (Located::Shard(a), Located::Shard(b)) if a == b && matches!(bounds[a], Bound::Range { .. }) => Some(a),
            _ => None,
        })
    }
}

/// The narrowest limits that can be read here.
fn limits(compiled: &Compiled, request: &Request<'_>, table: &TableKeys, d: &Distribution) -> Result<Limits> {
    let mut limits = Limits::default();
    let Some(&ty) = d.group.key_types.first() else { return Ok(limits) };
    for limit in table.limits.iter().filter(|limit| !is_rounded(&limit.value, ty)) {
        let Some(Value::Known(Some(value))) = evaluate(compiled, request, &limit.value, ty).pop() else { continue };
        let Some(value) = added(value, limit, request, ty) else { continue };
        let (known, narrower) = match limit.end {
            LimitEnd::Low => (&mut limits.low, std::cmp::Ordering::Greater),
            LimitEnd::High => (&mut limits.high, std::cmp::Ordering::Less),
        };
        let replaces = match known {
            None => true,
            Some((before, inclusive)) => match key::compare(ty, &value, before).map_err(key_error)? {
                std::cmp::Ordering::Equal => *inclusive && !limit.inclusive,
                order => order == narrower,
            },
        };
        if replaces {
            *known = Some((value, limit.inclusive));
        }
    }
    Ok(limits)
}

/// The value, and what is added to it; `None`: that is another addition than that of integers, or no value of the key's type.
fn added(value: Vec<u8>, limit: &KeyLimit, request: &Request<'_>, ty: u32) -> Option<Vec<u8>> {
    if limit.plus == 0 {
        return Some(value);
    }
    let of = match limit.value {
        KeyExpr::Param(n) => request.types().get(n - 1).copied().unwrap_or(0),
        KeyExpr::CastParam(_, cast) => cast,
        _ => return None,
    };
    let integers = type_oid::is_integer(ty) && (type_oid::is_integer(of) || matches!(of, 0 | type_oid::UNKNOWN));
    match converted(ty, type_oid::INT8, &value) {
        Value::Known(Some(value)) if integers => {
            let sum = i64::from_be_bytes(value.try_into().ok()?).checked_add(limit.plus)?;
            match converted(type_oid::INT8, ty, &sum.to_be_bytes()) {
                Value::Known(sum) => sum,
                _ => None,
            }
        }
        _ => None,
    }
}

fn by_reference((value, inclusive): &(Vec<u8>, bool)) -> (&[u8], bool) {
    (value, *inclusive)
}

/// A number that is compared with a `real` as it is written, and would be read as the `real` next to it.
fn is_rounded(value: &KeyExpr, ty: u32) -> bool {
    ty == type_oid::FLOAT4 && matches!(value, KeyExpr::Literal { kind: LiteralKind::Number, .. })
}
