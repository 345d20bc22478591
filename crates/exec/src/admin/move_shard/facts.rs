//! What a shard's node says of it, asked on the router's own connection.

use std::sync::Arc;

use catalog::{Relation, quote_ident, quote_literal};
use pool::Conn;

use super::changes::changed;
use super::plan::{Move, Part, Table};
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
        "SELECT f::text, f ->> 'mark', f ->> 'part', f ->> 'trusted', f ->> 'unlogged', f ->> 'published', f ->> 'bytes', f ->> 'deferrable' FROM herd.move_facts({parent}, {}::regclass) AS f",
        quote_literal(&name)
    );
    let row = source.simple(&facts).await?.into_iter().next().unwrap_or_default();
    let mut cells = row.into_iter();
    let mut next = || cells.next().flatten().ok_or_else(changed);
    let (facts, mark, oid) = (next()?, next()?, next()?.parse().unwrap_or(0));
    let (trusted, unlogged, published) = (next()? == "true", next()? != "false", next()? != "false");
    let bytes = next()?.parse().unwrap_or(0);
    let deferrable = next()? != "false";
    let (columns, key) = (vec![], vec![]);
    let mut part = Part { name, facts, mark, oid, trusted, unlogged, published, bytes, deferrable, columns, key };
    for (list, names) in [("columns", &mut part.columns), ("key", &mut part.key)] {
        let sql = format!(
            "SELECT n FROM jsonb_array_elements_text(nullif({}::jsonb -> '{list}', 'null')) WITH ORDINALITY AS l (n, place) ORDER BY place",
            quote_literal(&part.facts)
        );
        let rows = source.simple(&sql).await?;
        names.extend(rows.into_iter().flatten().flatten().map(|name| quote_ident(&name)));
    }
    Ok(part)
}
