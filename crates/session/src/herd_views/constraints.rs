//! PostgreSQL's lists of constraints, without the foreign keys that a table has only because one that it refers to is split into shards: tools
//! that compare a schema with what it should be would have them dropped. Of constraints of shards nothing is left out but that they use a table's columns. Which statements read them is not known here.

use plan::{Constraints, RouterView};

/// Something in FROM of this query stands for `view`.
pub fn query(view: RouterView, which: Constraints) -> String {
    let shown = match which {
        Constraints::All => format!("v.conparentid OPERATOR(pg_catalog.=) 0 OR v.contype OPERATOR(pg_catalog.<>) 'f' OR NOT EXISTS ({TO_SHARD} WHERE r.oid OPERATOR(pg_catalog.=) v.confrelid AND {IS_SHARD})"),
        Constraints::Tables | Constraints::KeyColumns => format!("NOT EXISTS ({OF_TABLE} AND {IS_SHARD})"),
        Constraints::References => "COALESCE(v.unique_constraint_schema OPERATOR(pg_catalog.<>) 'herd_shards', true)".into(),
        Constraints::UsedColumns => "v.table_schema OPERATOR(pg_catalog.<>) 'herd_shards' AND v.constraint_schema OPERATOR(pg_catalog.<>) 'herd_shards'".into(),
    };
    let (schema, name) = (view.schema(), view.name());
    format!("SELECT FROM (SELECT v.* FROM {schema}.{name} v WHERE {shown}) AS {name}")
}

const TO_SHARD: &str =
    "SELECT FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) r.relnamespace";
const IS_SHARD: &str = "n.nspname OPERATOR(pg_catalog.=) 'herd_shards'";
/// The foreign key that a row of the information schema is about, where it is part of another.
const OF_TABLE: &str = "SELECT FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) k.conrelid \
     JOIN pg_catalog.pg_namespace s ON s.oid OPERATOR(pg_catalog.=) t.relnamespace JOIN pg_catalog.pg_class r ON r.oid OPERATOR(pg_catalog.=) k.confrelid \
     JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) r.relnamespace \
     WHERE k.contype OPERATOR(pg_catalog.=) 'f' AND k.conparentid OPERATOR(pg_catalog.<>) 0 AND s.nspname OPERATOR(pg_catalog.=) v.table_schema \
       AND t.relname OPERATOR(pg_catalog.=) v.table_name AND k.conname OPERATOR(pg_catalog.=) v.constraint_name";
