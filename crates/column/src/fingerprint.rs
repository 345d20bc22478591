//! What says that a table is still the one that was copied: names, columns, files, partitions, replica identity, and that it is
//! published as it was. Changes that no row tells of (a rewrite, a partition that came or went) change it. It does not know
//! copies.

use catalog::{Row, quote_literal};

use crate::error::{Error, Result};

/// What a table is at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub schema: String,
    pub name: String,
    /// md5 of the names of its leaf partitions, sorted by bytes, between commas.
    pub shards: String,
    /// Empty: not all of its changes are published.
    pub fingerprint: String,
}

/// All of it is read in the statement's snapshot: functions such as pg_partition_tree would look at what is there by now.
/// A partition that was detached and attached again has another xmin in pg_inherits: it was not published meanwhile. Labels of an enum may change
/// while no row does.
const SQL: &str = r#"WITH RECURSIVE tree (oid, how) AS (
    SELECT $OID::oid, ''
    UNION ALL
    SELECT i.inhrelid, ROW(i.inhparent, i.inhdetachpending, i.xmin)::text FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid
), rels AS (
    SELECT t.how, c.oid, c.relname, n.nspname, c.relkind, c.relpersistence, c.relfilenode, c.relreplident
    FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace
)
SELECT n.nspname, c.relname,
    (SELECT md5(coalesce(string_agg(relname::text, ',' ORDER BY relname::text COLLATE "C"), '')) FROM rels WHERE relkind <> 'p'),
    md5(ROW(
        (SELECT array_agg(ROW(r.*)::text ORDER BY r.oid) FROM rels r),
        (SELECT array_agg(ROW(a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attcollation, a.attisdropped, a.attgenerated, t.xmin,
                (SELECT array_agg(e.enumlabel ORDER BY e.oid) FROM pg_enum e WHERE e.enumtypid = t.oid))::text ORDER BY a.attnum)
            FROM pg_attribute a LEFT JOIN pg_type t ON t.oid = a.atttypid AND t.oid >= 16384 WHERE a.attrelid = c.oid AND a.attnum > 0),
        (SELECT array_agg(ROW(i.indexrelid, i.indrelid, i.indisprimary, i.indisreplident, i.indkey)::text ORDER BY i.indexrelid)
            FROM pg_index i JOIN rels r ON r.oid = i.indrelid WHERE i.indisprimary OR i.indisreplident),
        (SELECT ROW(p.oid, p.xmin, pr.oid, pr.xmin)::text FROM pg_publication p JOIN pg_publication_rel pr ON pr.prpubid = p.oid
            WHERE p.pubname = $PUBLICATION AND pr.prrelid = c.oid),
        (c.relrowsecurity, c.relforcerowsecurity)::text
    )::text),
    EXISTS (SELECT FROM pg_publication p JOIN pg_publication_rel pr ON pr.prpubid = p.oid
        WHERE p.pubname = $PUBLICATION AND pr.prrelid = c.oid AND pr.prqual IS NULL AND pr.prattrs IS NULL
            AND p.pubviaroot AND p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate),
    pg_current_snapshot()
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $OID::oid"#;

/// What [`answer`] reads; behind that comes the snapshot in which it is so.
pub const COLUMNS: usize = 5;

/// The question for a table, by its oid, and the publication it is in.
pub fn question(relation: u32, publication: &str) -> String {
    SQL.replace("$OID", &relation.to_string()).replace("$PUBLICATION", &quote_literal(publication))
}

/// What it is answered; `None`: there is no such table.
pub fn answer(rows: &[Row]) -> Result<Option<Facts>> {
    match rows.first().map(Vec::as_slice) {
        None => Ok(None),
        Some([Some(schema), Some(name), Some(shards), Some(fingerprint), Some(published), ..]) => Ok(Some(Facts {
            schema: schema.clone(),
            name: name.clone(),
            shards: shards.clone(),
            fingerprint: if published == "t" { fingerprint.clone() } else { String::new() },
        })),
        Some(_) => Err(Error::surprise("the node does not say what a table is")),
    }
}
