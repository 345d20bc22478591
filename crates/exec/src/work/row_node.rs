//! The node a row of a distributed table belongs to, by the key's values as a client wrote them. PostgreSQL is not asked: what the router
//! can't read is refused.

use catalog::{NodeId, Relation};
use key::{Bound, Located};
use wire::sqlstate;

use crate::error::{ExecError, Result};
use crate::work::shards::key_error;

/// The node of a distributed table's row; `None`: its key has no place, or is none.
pub fn node_of(relation: &Relation, bounds: &[Bound], keys: &[Option<&[u8]>], binary: bool) -> Result<Option<NodeId>> {
    let d = relation.distribution().ok_or_else(|| ExecError::internal("not a distributed table"))?;
    let mut values = Vec::with_capacity(keys.len());
    for (i, value) in keys.iter().enumerate() {
        let ty = d.group.key_types[i];
        // What a view hides is NULL.
        let (Some(v), Some(column)) = (value, relation.columns.get(d.key[i])) else {
            values.push(None);
            continue;
        };
        let v = match binary {
            true => v.to_vec(),
            false => {
                let text = std::str::from_utf8(v).map_err(|_| {
                    ExecError::sql(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\"")
                })?;
                match key::parse_text(ty, text) {
                    Ok(v) => v,
                    Err(e @ key::KeyError::NeedsServer) => {
                        return Err(ExecError::sql(
                            sqlstate::FEATURE_NOT_SUPPORTED,
                            format!(
                                "the value \"{text}\" of the distribution key \"{}\" can't be read by the router: {e}",
                                column.name
                            ),
                        )
                        .hint("Write dates and times in ISO form, with an offset where they have a time zone."));
                    }
                    Err(_) => return Ok(None),
                }
            }
        };
        match key::fit(ty, column.typmod, v) {
            Ok(v) => values.push(Some(v)),
            Err(_) => return Ok(None),
        }
    }
    let located = key::locate(d.group.strategy, &d.group.key_types, bounds, &values).map_err(key_error)?;
    Ok(match located {
        Located::Shard(s) => Some(d.group.shards[s].node),
        Located::Nowhere => None,
    })
}
