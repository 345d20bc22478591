//! What a shard's node says of it, asked on the router's own connection.

use std::sync::Arc;

use catalog::{Relation, quote_ident, quote_literal};
use pool::Conn;

use super::changes::{KeyColumn, changed};
use super::plan::{Identity, Move, Part, Table};
use crate::error::Result;

/// One of the tables, as its shards' node has it.
pub async fn table(source: &mut Conn, relation: Arc<Relation>, of: &Move, at: usize) -> Result<Table> {
    let prefix = relation.distribution().map(|d| d.prefix.clone()).unwrap_or_default();
    let copy = format!("herd_moving_{}_{at}", of.tag);
    let mut table = Table { relation, prefix, copy, parts: vec![] };
    for shard in &of.shards {
        let part = part(source, &table.parent(), table.part_name(*shard)).await?;
        table.parts.push(part);
    }
    Ok(table)
}

async fn part(source: &mut Conn, parent: &str, name: String) -> Result<Part> {
    let facts = format!(
        "SELECT f::text, f ->> 'mark', f ->> 'part', f ->> 'trusted', f ->> 'unlogged', f ->> 'published', f ->> 'bytes', f ->> 'deferrable', f ->> 'identity' FROM herd.move_facts({parent}, {}::regclass) AS f",
        quote_literal(&name)
    );
    let row = source.simple(&facts).await?.into_iter().next().unwrap_or_default();
    let mut cells = row.into_iter();
    let mut next = || cells.next().flatten().ok_or_else(changed);
    let (facts, mark, oid) = (next()?, next()?, next()?.parse().unwrap_or(0));
    let (trusted, unlogged, published) = (next()? == "true", next()? != "false", next()? != "false");
    let bytes = next()?.parse().unwrap_or(0);
    let deferrable = next()? != "false";
    let identity = match next()?.as_str() {
        "plain" => Identity::Plain,
        "stored" => Identity::Stored,
        _ => Identity::Untold,
    };
    let names = |list: Vec<String>| list.iter().map(|name| quote_ident(name)).collect::<Vec<_>>();
    let columns = names(listed(source, &facts, "columns").await?);
    let generated = names(listed(source, &facts, "generated").await?);
    let key_names = names(listed(source, &facts, "key").await?);
    let operators = listed(source, &facts, "key_operators").await?;
    let types = listed(source, &facts, "key_types").await?;
    let key = key_names.into_iter().zip(operators).zip(types);
    let key = key.map(|((name, operator), of_type)| KeyColumn { name, operator, of_type }).collect();
    Ok(Part {
        name,
        facts,
        mark,
        oid,
        trusted,
        unlogged,
        published,
        bytes,
        deferrable,
        columns,
        generated,
        key,
        identity,
    })
}

/// A list among the facts.
async fn listed(source: &mut Conn, facts: &str, list: &str) -> Result<Vec<String>> {
    let sql = format!(
        "SELECT n FROM jsonb_array_elements_text(nullif({}::jsonb -> '{list}', 'null')) WITH ORDINALITY AS l (n, place) ORDER BY place",
        quote_literal(facts)
    );
    Ok(source.simple(&sql).await?.into_iter().flatten().flatten().collect())
}
