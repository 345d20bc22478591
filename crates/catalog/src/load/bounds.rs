//! Colocation groups and their shards; bounds from text to binary.
//!
//! What has not changed is taken from a snapshot at hand: home gives a group another version with each change of its shards, by chance, so that
//! what was rolled back, or stood in another server's catalog, can't pass for it. Which texts only the server can read is the `key` crate's knowledge; the order of values is, too.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use key::{Bound, Datum, KeyError, PartitionStrategy};

use super::ahead::Ahead;
use crate::bound_text::{BoundText, Edge};
use crate::load::{cells, slowly};
use crate::{CatalogError, Colocation, Oid, Query, Refusal, RefusalKind, Shard, Snapshot, quote_literal};

/// Shards are read of groups that `previous` does not have, or has in another version.
pub(super) async fn load<Q: Query>(
    q: &mut Ahead<'_, Q>,
    snapshot: &mut Snapshot,
    previous: Option<&Snapshot>,
) -> Result<(), CatalogError<Q::Error>> {
    let mut new = BTreeMap::new();
    for mut row in cells(q, "SELECT id, strategy, key_types, private, moves, version FROM herd.colocation").await? {
        let id = row.number()?;
        let strategy = match row.text().as_str() {
            "hash" => PartitionStrategy::Hash,
            "range" => PartitionStrategy::Range,
            "list" => PartitionStrategy::List,
            other => return Err(CatalogError::Corrupt(format!("unknown strategy \"{other}\" in herd.colocation"))),
        };
        let key_types = row.numbers()?;
        if row.boolean() {
            snapshot.private_groups.insert(id);
        }
        snapshot.moves.insert(id, row.number()?);
        let version = row.text();
        match previous.filter(|p| p.group_versions.get(&id) == Some(&version)) {
            Some(previous) => {
                snapshot.groups.extend(previous.groups.get(&id).map(|group| (id, group.clone())));
                snapshot.bound_texts.extend(previous.bound_texts.get(&id).map(|texts| (id, texts.clone())));
            }
            None => drop(new.insert(id, Colocation { id, strategy, key_types, shards: Vec::new() })),
        }
        snapshot.group_versions.insert(id, version);
    }
    if !new.is_empty() {
        load_shards(q, snapshot, &mut new, previous.is_some()).await?;
    }
    snapshot.groups.extend(new.into_iter().map(|(id, group)| (id, Arc::new(group))));
    Ok(())
}

/// Of these groups: `some` are not all there are. A version is read with the shards of which it is: in a transaction that sees others' commits they may
/// be newer than what was read before.
async fn load_shards<Q: Query>(
    q: &mut Ahead<'_, Q>,
    snapshot: &mut Snapshot,
    groups: &mut BTreeMap<i32, Colocation>,
    some: bool,
) -> Result<(), CatalogError<Q::Error>> {
    let ids = || groups.keys().map(i32::to_string).collect::<Vec<_>>().join(",");
    let only = if some { format!(" WHERE s.colocation = ANY ('{{{}}}')", ids()) } else { String::new() };
    let sql = format!(
        "SELECT s.colocation, g.version, s.number, s.node, s.bound FROM herd.shard s JOIN herd.colocation g ON g.id = s.colocation{only} \
         ORDER BY s.colocation, s.number"
    );
    let mut of_groups: BTreeMap<i32, Vec<(i32, i32, BoundText)>> = BTreeMap::new();
    let mut texts: HashMap<i32, HashMap<i32, String>> = HashMap::new();
    let mut rows = slowly(q.now(&sql).await?);
    while let Some(mut row) = rows.next().await {
        let (group, version) = (row.number()?, row.text());
        let (number, node, text) = (row.number()?, row.number()?, row.text());
        let bound = BoundText::parse(&text)?;
        if !matches!(bound, BoundText::Hash { .. }) {
            texts.entry(group).or_default().insert(number, text);
        }
        let shards = of_groups.entry(group).or_default();
        if shards.is_empty() {
            snapshot.group_versions.insert(group, version);
        }
        shards.push((number, node, bound));
    }
    for (group_id, shards) in of_groups {
        // One that came between the two questions has no row here yet; with its table it is loaded again.
        let Some(group) = groups.get_mut(&group_id) else {
            snapshot.group_versions.remove(&group_id);
            continue;
        };
        let bounds = binary_bounds(q, &group.key_types, shards.iter().map(|(.., text)| text)).await?;
        let place = |((number, node, _), bound): ((i32, i32, BoundText), Bound)| Shard { number, node, bound };
        group.shards = shards.into_iter().zip(bounds).map(place).collect();
    }
    snapshot.bound_texts.extend(texts.into_iter().map(|(group, texts)| (group, Arc::new(texts))));
    Ok(())
}

/// Turns bounds into binary form, in order. Asks the server, once, for the values that only it can read.
pub(crate) async fn binary_bounds<Q: Query>(
    q: &mut Q,
    key_types: &[Oid],
    bounds: impl Iterator<Item = &BoundText> + Clone,
) -> Result<Vec<Bound>, CatalogError<Q::Error>> {
    let mut known: HashMap<(Oid, String), Vec<u8>> = HashMap::new();
    let mut unknown: HashSet<(Oid, String)> = HashSet::new();
    for (oid, text) in bounds.clone().flat_map(|bound| literals(bound, key_types)) {
        match key::parse_text(oid, text) {
            Ok(value) => drop(known.insert((oid, text.to_string()), value)),
            Err(KeyError::NeedsServer) => drop(unknown.insert((oid, text.to_string()))),
            Err(error) => {
                return Err(Refusal::new(RefusalKind::InvalidParameter, format!("partition bound: {error}"), "").into());
            }
        }
    }
    ask_server(q, unknown, &mut known).await?;
    bounds.map(|bound| binary(bound, key_types, &known).map_err(CatalogError::from)).collect()
}

/// The literals of a bound, each with its type. Columns beyond the key are left to [`binary`] to refuse.
fn literals<'a>(bound: &'a BoundText, key_types: &[Oid]) -> Vec<(Oid, &'a str)> {
    match bound {
        BoundText::Hash { .. } | BoundText::Default => Vec::new(),
        BoundText::List { values } => {
            let oid = key_types.first().copied().unwrap_or(0);
            values.iter().flatten().map(|text| (oid, text.as_str())).collect()
        }
        BoundText::Range { from, to } => [from, to]
            .into_iter()
            .flat_map(|edges| key_types.iter().zip(edges))
            .filter_map(|(oid, edge)| match edge {
                Edge::Value(text) => Some((*oid, text.as_str())),
                Edge::MinValue | Edge::MaxValue => None,
            })
            .collect(),
    }
}

async fn ask_server<Q: Query>(
    q: &mut Q,
    unknown: HashSet<(Oid, String)>,
    known: &mut HashMap<(Oid, String), Vec<u8>>,
) -> Result<(), CatalogError<Q::Error>> {
    if unknown.is_empty() {
        return Ok(());
    }
    let oids: HashSet<String> = unknown.iter().map(|(oid, _)| oid.to_string()).collect();
    let oids = oids.into_iter().collect::<Vec<_>>().join(", ");
    // By typname: format_type's "character" would be read as character(1).
    let sql = format!(
        "SELECT oid, typsend::regproc, 'pg_catalog.' || quote_ident(typname) FROM pg_catalog.pg_type WHERE oid IN ({oids})"
    );
    let mut types: HashMap<Oid, (String, String)> = HashMap::new();
    for mut row in cells(q, &sql).await? {
        types.insert(row.number()?, (row.text(), row.text()));
    }

    let unknown: Vec<_> = unknown.into_iter().collect();
    let mut selects = Vec::with_capacity(unknown.len());
    for (i, (oid, text)) in unknown.iter().enumerate() {
        let Some((send, name)) = types.get(oid) else {
            return Err(CatalogError::Corrupt(format!("herd.colocation names type {oid}, which does not exist")));
        };
        selects.push(format!("SELECT {i}, encode({send}(CAST({} AS {name})), 'hex')", quote_literal(text)));
    }
    for mut row in cells(q, &selects.join(" UNION ALL ")).await? {
        let (i, hex): (usize, String) = (row.number()?, row.text());
        let value =
            wire::hex::decode(&hex).ok_or_else(|| CatalogError::Corrupt(format!("\"{hex}\" is not hexadecimal")))?;
        known.insert(unknown[i].clone(), value);
    }
    Ok(())
}

fn binary(bound: &BoundText, key_types: &[Oid], known: &HashMap<(Oid, String), Vec<u8>>) -> Result<Bound, Refusal> {
    let wrong_count = || {
        let message =
            format!("the partition bound {bound} does not have one value for each of {} key columns", key_types.len());
        Refusal::new(RefusalKind::InvalidParameter, message, "")
    };
    let value = |oid: Oid, text: &String| known.get(&(oid, text.clone())).cloned().ok_or_else(wrong_count);
    let edges = |edges: &[Edge]| -> Result<Vec<Datum>, Refusal> {
        if edges.len() != key_types.len() {
            return Err(wrong_count());
        }
        let datum = |(oid, edge): (&Oid, &Edge)| match edge {
            Edge::MinValue => Ok(Datum::MinValue),
            Edge::MaxValue => Ok(Datum::MaxValue),
            Edge::Value(text) => value(*oid, text).map(Datum::Value),
        };
        key_types.iter().zip(edges).map(datum).collect()
    };
    Ok(match bound {
        BoundText::Hash { modulus, remainder } => Bound::Hash { modulus: *modulus, remainder: *remainder },
        BoundText::Default => Bound::Default,
        BoundText::Range { from, to } => Bound::Range { from: edges(from)?, to: edges(to)? },
        BoundText::List { values } => {
            let [oid] = key_types else { return Err(wrong_count()) };
            let values = values.iter().map(|v| v.as_ref().map(|text| value(*oid, text)).transpose());
            Bound::List { values: values.collect::<Result<_, _>>()? }
        }
    })
}
