//! Bounds of range and list shards as a user gives them.

use key::{Bound, PartitionStrategy};

use crate::bound_text::BoundText;
use crate::definition::Definition;
use crate::load::{binary_bounds, pin_settings, restore_settings};
use crate::{CatalogError, Colocation, Query, Refusal, RefusalKind, Shard, Snapshot};

/// A bound as text and in binary.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardBound {
    /// `FOR VALUES …` or `DEFAULT`.
    pub text: String,
    pub bound: Bound,
}

/// Reads bounds such as `FROM (1) TO (10)`, `IN ('de', 'at')` or `DEFAULT` for a table's key. Literals only; those of
/// `timestamptz` without a time zone are UTC. Asks the server for values that only it can read.
pub async fn read_bounds<Q: Query>(
    q: &mut Q,
    definition: &Definition,
    columns: &[String],
    strategy: PartitionStrategy,
    texts: &[String],
) -> Result<Vec<ShardBound>, CatalogError<Q::Error>> {
    let key_types = definition.check_key(columns, strategy)?;
    let parsed = texts.iter().map(|text| BoundText::parse(text)).collect::<Result<Vec<_>, _>>()?;
    for (bound, text) in parsed.iter().zip(texts) {
        let fits = match bound {
            BoundText::Hash { .. } => false,
            BoundText::Range { .. } => strategy == PartitionStrategy::Range,
            BoundText::List { .. } => strategy == PartitionStrategy::List,
            BoundText::Default => strategy != PartitionStrategy::Hash,
        };
        if !fits {
            let message = format!("the bound {text} does not fit a table distributed by {}", strategy_name(strategy));
            return Err(Refusal::new(RefusalKind::InvalidParameter, message, "").into());
        }
    }
    let before = pin_settings(q).await?;
    let bounds = binary_bounds(q, &key_types, parsed.iter()).await;
    let restored = restore_settings(q, before).await;
    let bounds = bounds?;
    restored?;
    let both = parsed.iter().zip(bounds);
    Ok(both.map(|(text, bound)| ShardBound { text: text.clause(), bound }).collect())
}

/// The bound of a shard as a partition's definition has it: `FOR VALUES …` or `DEFAULT`.
pub fn shard_bound_sql(snapshot: &Snapshot, group: &Colocation, shard: &Shard) -> String {
    let text = snapshot.bound_texts.get(&group.id).and_then(|texts| texts.get(&shard.number));
    match (&shard.bound, text) {
        (Bound::Hash { modulus, remainder }, _) => hash_bound_sql(*modulus, *remainder),
        (Bound::Default, _) | (_, None) => "DEFAULT".to_string(),
        (_, Some(text)) => text.clone(),
    }
}

pub(super) fn hash_bound_sql(modulus: u32, remainder: u32) -> String {
    BoundText::Hash { modulus, remainder }.clause()
}

pub(super) fn strategy_name(strategy: PartitionStrategy) -> &'static str {
    match strategy {
        PartitionStrategy::Hash => "hash",
        PartitionStrategy::Range => "range",
        PartitionStrategy::List => "list",
    }
}
