//! Tables, views, foreign tables and sequences, with unique indexes and placement; their columns come from [`super::columns`].
//!
//! Does not judge what can be done with them.

use std::collections::HashMap;
use std::sync::Arc;

use super::ahead::Ahead;
use super::columns::{self, Elsewhere, KeptColumns};
use super::definitions::Definitions;
use super::facts::NOT_SYSTEM;
use crate::load::{Cells, reading};
use crate::snapshot::LOCKED;
use crate::{
    CatalogError, Column, ColumnCopy, Distribution, Oid, Placement, Query, Relation, RelationKind, Snapshot,
    UniqueIndex, View,
};

/// A relation on its way into the snapshot, with its key by attribute numbers.
struct Draft {
    relation: Relation,
    key: Vec<i32>,
}

/// `before`: of a snapshot at hand.
pub(super) async fn load<Q: Query>(
    q: &mut Ahead<'_, Q>,
    snapshot: &mut Snapshot,
    definitions: &Definitions,
    before: Option<&KeptColumns>,
) -> Result<(), CatalogError<Q::Error>> {
    let mut drafts = load_relations(q, snapshot, definitions).await?;
    let has_columns = |d: &&Draft| d.relation.kind != RelationKind::Sequence;
    let of_columns: Vec<Oid> = drafts.values().filter(has_columns).map(|d| d.relation.oid).collect();
    let (types, collation_is_bytes) = (&snapshot.types, snapshot.collation_is_bytes);
    let elsewhere = Elsewhere { types, definitions, sequences: sequences(&drafts), collation_is_bytes };
    let kept = columns::load(q, &of_columns, &elsewhere, before, &mut snapshot.locked).await?;
    for read in of_columns.iter().filter_map(|oid| kept.read(*oid)) {
        snapshot.own_collations |= read.own_collations;
        snapshot.unlike_bytes |= read.unlike_bytes;
    }
    let no_columns: Arc<[Column]> = Arc::from([]);
    for (oid, draft) in &mut drafts {
        draft.relation.columns = kept.of(*oid).unwrap_or(&no_columns).clone();
    }
    load_unique_indexes(q, &mut drafts, &kept).await?;
    for mut draft in drafts.into_values() {
        if let Placement::Distributed(distribution) = &mut draft.relation.placement {
            let position = |attnum: &i32| kept.read(draft.relation.oid)?.attnums.iter().position(|a| a == attnum);
            let key: Option<Vec<usize>> = draft.key.iter().map(position).collect();
            let types = |key: &Vec<usize>| key.iter().map(|k| draft.relation.columns[*k].type_oid).collect::<Vec<_>>();
            match key.filter(|k| types(k) == distribution.group.key_types) {
                Some(key) => distribution.key = key,
                None => {
                    draft.relation.placement = Placement::Local;
                    draft.relation.column_copy = None;
                    snapshot.replaced.insert(draft.relation.oid);
                }
            }
        }
        let relation = draft.relation;
        snapshot.relations.insert((relation.schema.clone(), relation.name.clone()), Arc::new(relation));
    }
    snapshot.columns = kept;
    Ok(())
}

/// Their object ids by their names, quoted and qualified.
fn sequences(drafts: &HashMap<Oid, Draft>) -> HashMap<String, Oid> {
    let of = |d: &Draft| (crate::qualified(&d.relation.schema, &d.relation.name), d.relation.oid);
    drafts.values().filter(|d| d.relation.kind == RelationKind::Sequence).map(of).collect()
}

async fn load_relations<Q: Query>(
    q: &mut Q,
    snapshot: &mut Snapshot,
    definitions: &Definitions,
) -> Result<HashMap<Oid, Draft>, CatalogError<Q::Error>> {
    // tgtype & 1: FOR EACH ROW (TRIGGER_TYPE_ROW in catalog/pg_trigger.h).
    // A row of herd.relation counts only while the relation is still what it says.
    let option = |name: &str| {
        format!(
            "EXISTS (SELECT FROM pg_options_to_table(c.reloptions) o \
                     WHERE CASE o.option_name WHEN '{name}' THEN o.option_value::boolean END)"
        )
    };
    let checks = "EXISTS (SELECT FROM pg_options_to_table(c.reloptions) o WHERE o.option_name = 'check_option')";
    // pg_partition_tree() would lock them all.
    let below = "WITH RECURSIVE tree (oid) AS (SELECT c.oid UNION ALL \
                 SELECT i.inhrelid FROM tree b JOIN pg_inherits i ON i.inhparent = b.oid) SELECT oid FROM tree";
    let (barrier, invoker) = (option("security_barrier"), option("security_invoker"));
    // Its definition can't be read while it is being refreshed.
    let filled = "EXISTS (SELECT FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid WHERE r.ev_class = c.oid AND d.classid = 'pg_rewrite'::regclass \
                  AND d.refclassid = 'pg_proc'::regclass AND d.refobjid = to_regprocedure('herd.materialized()'))";
    let parts = "ARRAY(SELECT o.prefix FROM pg_inherits i JOIN pg_class b ON b.oid = i.inhrelid JOIN pg_namespace m ON m.oid = b.relnamespace \
                 JOIN herd.relation o ON o.schema = m.nspname AND o.name = b.relname AND o.kind = 'd' \
                 WHERE i.inhparent = c.oid ORDER BY b.oid)";
    let indexed = "ARRAY(SELECT DISTINCT a.attname::text FROM pg_index i JOIN pg_class b ON b.oid = i.indexrelid JOIN pg_am m ON m.oid = b.relam \
                   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] \
                   WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL AND m.amname IN ('btree', 'hash'))";
    let sql = format!(
        "SELECT c.oid, n.nspname, c.relname, c.relkind, h.kind, h.colocation, h.prefix, CASE WHEN h.key IS NOT NULL THEN array_to_string(h.key, ' ') \
                WHEN p.partstrat::text = left(g.strategy, 1) THEN p.partattrs::text END, \
                CASE WHEN h.key IS NOT NULL THEN {parts} END, c.relispartition, \
                {barrier}, {checks}, {invoker}, EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attacl IS NOT NULL), \
                CASE c.relkind WHEN 'm' THEN {filled} ELSE false END, \
                c.relrowsecurity, EXISTS (SELECT FROM aclexplode(n.nspacl) a WHERE a.grantee = 0 AND a.privilege_type = 'USAGE'), \
                EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN'), \
                EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal \
                        AND (t.tgtype & 1 = 0 OR t.tgoldtable IS NOT NULL OR t.tgnewtable IS NOT NULL)), \
                EXISTS (SELECT FROM pg_trigger t WHERE NOT t.tgisinternal AND (t.tgrelid = c.oid OR c.relkind = 'p' \
                            AND (h.kind IS NULL OR h.key IS NOT NULL) AND t.tgrelid IN ({below}))), \
                EXISTS (SELECT FROM pg_constraint f WHERE f.conrelid = c.oid AND f.confrelid = c.oid AND f.contype = 'f'), \
                c.oid IN (SELECT f.conrelid FROM pg_constraint f WHERE f.condeferred UNION ALL SELECT f.confrelid FROM pg_constraint f WHERE f.condeferred), \
                k.id, k.columns, k.order_by, CASE WHEN k.id IS NOT NULL THEN {indexed} END \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_partitioned_table p ON p.partrelid = c.oid \
         LEFT JOIN herd.relation h ON h.schema = n.nspname AND h.name = c.relname \
              AND c.relkind = CASE h.kind WHEN 'd' THEN 'p' ELSE 'r' END \
         LEFT JOIN herd.colocation g ON g.id = h.colocation \
         LEFT JOIN herd.column_copy k ON k.relation = c.oid AND h.kind IS NOT NULL \
         WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm', 'S') AND c.relpersistence <> 't' AND {NOT_SYSTEM}"
    );
    let mut drafts = HashMap::new();
    let mut rows = reading(q, &sql).await?;
    while let Some(mut row) = rows.next().await {
        let (oid, schema, name) = (row.number()?, row.text(), row.text());
        let kind = match row.char() {
            b'v' => RelationKind::View,
            b'm' => RelationKind::MaterializedView,
            b'f' => RelationKind::ForeignTable,
            b'S' => RelationKind::Sequence,
            _ => RelationKind::Table,
        };
        let (herd_kind, group, prefix): (u8, Option<i32>, String) = (row.char(), row.opt_number()?, row.text());
        let (key, parts, is_part) = (row.numbers()?, row.opt_texts(), row.boolean());
        let mut placement = match (herd_kind, group) {
            (b'r', _) => Placement::Reference,
            (b'd', Some(group)) => {
                let Some(group) = snapshot.groups.get(&group) else {
                    return Err(CatalogError::Corrupt(format!(
                        "herd.relation names colocation group {group}, which does not exist"
                    )));
                };
                Placement::Distributed(Distribution {
                    key: Vec::new(),
                    group: group.clone(),
                    prefix,
                    partitions: None,
                    is_part,
                })
            }
            _ => Placement::Local,
        };
        if let Placement::Distributed(d) = &mut placement {
            d.partitions = parts.map(Arc::from);
        }
        let (barrier, checks) = (row.boolean(), row.boolean());
        let (invoker, column_grants) = (row.boolean(), row.boolean());
        let filled_by_router = row.boolean();
        let view = matches!(kind, RelationKind::View | RelationKind::MaterializedView).then(|| View {
            query: definitions.of_view(oid).unwrap_or_else(|| {
                // Who reads a materialized view has no need of its query.
                if kind == RelationKind::View {
                    snapshot.locked.insert(oid);
                }
                LOCKED.to_string()
            }),
            materialized: kind == RelationKind::MaterializedView,
            security_barrier: barrier,
            check_option: checks,
            security_invoker: invoker,
            column_grants,
            filled_by_router,
        });
        let (row_security, schema_is_open, rules) = (row.boolean(), row.boolean(), row.boolean());
        let relation = Relation {
            oid,
            schema,
            name,
            kind,
            placement,
            columns: Arc::from([]),
            view,
            unique: Vec::new(),
            row_security,
            schema_is_open,
            statement_triggers: row.boolean() || rules,
            rules,
            triggers: row.boolean(),
            refers_to_itself: row.boolean(),
            checked_at_commit: row.boolean(),
            through: None,
            column_copy: column_copy(&mut row)?,
        };
        drafts.insert(oid, Draft { relation, key });
    }
    Ok(drafts)
}

fn column_copy<E: std::error::Error>(row: &mut Cells) -> Result<Option<Arc<ColumnCopy>>, CatalogError<E>> {
    let id = row.opt_number()?;
    let mut names = || row.opt_texts().unwrap_or_default();
    let (columns, order_by, indexed) = (names(), names(), names());
    Ok(id.map(|id| Arc::new(ColumnCopy { id, columns, order_by, indexed })))
}

async fn load_unique_indexes<Q: Query>(
    q: &mut Q,
    drafts: &mut HashMap<Oid, Draft>,
    kept: &KeptColumns,
) -> Result<(), CatalogError<Q::Error>> {
    let sql = format!(
        "SELECT i.indrelid, x.relname, i.indnkeyatts, i.indkey, i.indisprimary, \
                i.indimmediate AND NOT i.indclass::oid[] && ARRAY(SELECT oid FROM pg_opclass WHERE NOT opcdefault OR oid >= 16384) \
         FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_namespace n ON n.oid = x.relnamespace \
         WHERE i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND {NOT_SYSTEM} \
         ORDER BY i.indrelid, i.indisprimary DESC, x.relname"
    );
    let mut rows = reading(q, &sql).await?;
    while let Some(mut row) = rows.next().await {
        let oid = row.number()?;
        let (Some(draft), Some(read)) = (drafts.get_mut(&oid), kept.read(oid)) else { continue };
        let name = row.text();
        let key_columns: usize = row.number()?;
        // indkey lists the INCLUDE columns, too; those are not unique.
        let attnums: Vec<i32> = row.numbers()?;
        let position = |attnum: &i32| read.attnums.iter().position(|a| a == attnum);
        let Some(columns) = attnums.iter().take(key_columns).map(position).collect() else { continue };
        draft.relation.unique.push(UniqueIndex { name, columns, primary: row.boolean(), plain: row.boolean() });
    }
    Ok(())
}
