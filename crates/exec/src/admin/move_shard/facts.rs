//! What a shard's node says of it, asked on the router's own connection.

use std::sync::Arc;

use catalog::{Relation, quote_ident, quote_literal};
use pool::Conn;

use super::changes::changed;
use super::plan::{Move, Table};
use crate::error::Result;

/// One of the tables, as its shard's node has it.
pub async fn table(source: &mut Conn, relation: Arc<Relation>, of: &Move, at: usize) -> Result<Table> {
    let prefix = relation.distribution().map(|d| d.prefix.clone()).unwrap_or_default();
    let copy = format!("herd_moving_{}_{at}", of.tag);
    let mut table = Table {
        relation,
        prefix,
        copy,
        facts: String::new(),
        mark: String::new(),
        part: 0,
        trusted: false,
        unlogged: true,
        published: true,
        bytes: 0,
        columns: vec![],
        key: vec![],
    };
    let part = quote_literal(&table.part_name(of.shard));
    let facts = format!(
        "SELECT f::text, f ->> 'mark', f ->> 'part', f ->> 'trusted', f ->> 'unlogged', f ->> 'published', f ->> 'bytes' FROM herd.move_facts({}, {part}::regclass) AS f",
        table.parent()
    );
    let row = source.simple(&facts).await?.into_iter().next().unwrap_or_default();
    let mut cells = row.into_iter();
    let mut next = || cells.next().flatten().ok_or_else(changed);
    (table.facts, table.mark, table.part) = (next()?, next()?, next()?.parse().unwrap_or(0));
    (table.trusted, table.unlogged, table.published) = (next()? == "true", next()? != "false", next()? != "false");
    table.bytes = next()?.parse().unwrap_or(0);
    for (list, names) in [("columns", &mut table.columns), ("key", &mut table.key)] {
        let sql = format!(
            "SELECT n FROM jsonb_array_elements_text(nullif({}::jsonb -> '{list}', 'null')) WITH ORDINALITY AS l (n, place) ORDER BY place",
            quote_literal(&table.facts)
        );
        let rows = source.simple(&sql).await?;
        names.extend(rows.into_iter().flatten().flatten().map(|name| quote_ident(&name)));
    }
    Ok(table)
}
