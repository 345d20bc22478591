//! Views with one row for a table, whose parts on the nodes are added up: `herd.table_sizes` and `herd.stat_tables`. Of a distributed
//! table all parts count; of a reference table home's copy, and of a local one home's table. What a part is, nodes know
//! (`catalog/src/schema/sizes.sql`).

use catalog::{NodeId, Relation, quote_literal};
use plan::RouterView;

/// How a column of several rows becomes one.
#[derive(Clone, Copy)]
enum Added {
    /// Parts of a distributed table, or home's.
    Parts,
    /// Parts on all nodes, copies among them.
    All,
    Latest,
}

const SIZES: [(&str, Added); 6] = [
    ("rows", Added::Parts),
    ("main_bytes", Added::Parts),
    ("table_bytes", Added::Parts),
    ("toast_bytes", Added::Parts),
    ("index_bytes", Added::Parts),
    ("total_bytes", Added::Parts),
];

const STATISTICS: [(&str, Added); 20] = [
    ("seq_scan", Added::All),
    ("seq_tup_read", Added::All),
    ("idx_scan", Added::All),
    ("idx_tup_fetch", Added::All),
    ("n_tup_ins", Added::Parts),
    ("n_tup_upd", Added::Parts),
    ("n_tup_del", Added::Parts),
    ("n_tup_hot_upd", Added::Parts),
    ("n_live_tup", Added::Parts),
    ("n_dead_tup", Added::Parts),
    ("n_mod_since_analyze", Added::Parts),
    ("n_ins_since_vacuum", Added::Parts),
    ("last_vacuum", Added::Latest),
    ("last_autovacuum", Added::Latest),
    ("last_analyze", Added::Latest),
    ("last_autoanalyze", Added::Latest),
    ("vacuum_count", Added::Parts),
    ("autovacuum_count", Added::Parts),
    ("analyze_count", Added::Parts),
    ("autoanalyze_count", Added::Parts),
];

/// The rows of `view` that nodes have said, in JSON as a term of SQL, with the node of each.
pub fn rows(view: &str, said: &str) -> String {
    format!(
        "SELECT r.*, (e.part OPERATOR(pg_catalog.->>) 'node')::pg_catalog.int4 AS at_node \
         FROM pg_catalog.jsonb_array_elements({said}) AS e (part), LATERAL pg_catalog.jsonb_populate_record(NULL::{view}, e.part) AS r"
    )
}

/// How `view` is made of them.
pub fn body(view: RouterView, home: NodeId) -> String {
    let sizes = view == RouterView::TableSizes;
    let (schema, name) = if sizes { ("schema", "name") } else { ("schemaname", "relname") };
    let columns: &[(&str, Added)] = if sizes { &SIZES } else { &STATISTICS };
    let added: Vec<String> = columns.iter().map(|(column, how)| add(column, *how)).collect();
    let partition_of = "pg_catalog.min(p.partition_of) FILTER (WHERE p.at_home) AS partition_of, ";
    let copies = ", CASE WHEN p.placed OPERATOR(pg_catalog.=) 'r' THEN pg_catalog.sum(p.total_bytes)::pg_catalog.int8 END AS copies_bytes";
    format!(
        "SELECT pg_catalog.max(p.relid) FILTER (WHERE p.at_home) AS relid, p.{schema}, p.{name}, \
         CASE WHEN p.placed OPERATOR(pg_catalog.=) 'd' THEN 'distributed' WHEN p.placed OPERATOR(pg_catalog.=) 'r' THEN 'reference' ELSE 'local' END AS kind, \
         {}CASE WHEN p.placed OPERATOR(pg_catalog.=) 'd' THEN pg_catalog.sum(p.shards)::pg_catalog.int8 END AS shards, {}{} \
         FROM (SELECT r.*, k.kind AS placed, r.at_node OPERATOR(pg_catalog.=) {home} AS at_home \
               FROM rows r LEFT JOIN herd.relation k ON k.schema OPERATOR(pg_catalog.=) r.{schema} AND k.name OPERATOR(pg_catalog.=) r.{name}) p \
         WHERE p.at_home OR p.placed IS NOT NULL GROUP BY p.{schema}, p.{name}, p.placed",
        if sizes { partition_of } else { "" },
        added.join(", "),
        if sizes { copies } else { "" },
    )
}

fn add(column: &str, how: Added) -> String {
    match how {
        Added::Parts => format!(
            "(pg_catalog.sum(p.{column}) FILTER (WHERE p.at_home OR p.placed OPERATOR(pg_catalog.=) 'd'))::pg_catalog.int8 AS {column}"
        ),
        Added::All => format!("pg_catalog.sum(p.{column})::pg_catalog.int8 AS {column}"),
        Added::Latest => format!("pg_catalog.max(p.{column}) AS {column}"),
    }
}

/// What nodes are asked for, where it is sizes of these tables alone.
pub fn of_tables(tables: &[&Relation]) -> String {
    let one = |r: &&Relation| {
        let (schema, name) = (quote_literal(&r.schema), quote_literal(&r.name));
        format!("v.schema OPERATOR(pg_catalog.=) {schema} AND v.name OPERATOR(pg_catalog.=) {name}")
    };
    match tables.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", tables.iter().map(one).collect::<Vec<_>>().join(" OR ")),
    }
}
