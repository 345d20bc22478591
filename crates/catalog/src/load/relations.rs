//! Tables, views, foreign tables and sequences, with columns, unique indexes and placement.
//!
//! Does not judge what can be done with them.

use std::collections::HashMap;
use std::sync::Arc;

use super::definitions::Definitions;
use super::facts::NOT_SYSTEM;
use crate::load::reading;
use crate::snapshot::LOCKED;
use crate::{
    CatalogError, Column, Distribution, Oid, Placement, Query, Relation, RelationKind, Snapshot, UniqueIndex, View,
};

/// A relation on its way into the snapshot: its attribute numbers are needed until all parts are together.
struct Draft {
    relation: Relation,
    attnums: Vec<i32>,
    key: Vec<i32>,
}

pub(super) async fn load<Q: Query>(
    q: &mut Q,
    snapshot: &mut Snapshot,
    definitions: &Definitions,
) -> Result<(), CatalogError<Q::Error>> {
    let mut drafts = load_relations(q, snapshot, definitions).await?;
    snapshot.own_collations = load_columns(q, &mut drafts, snapshot, definitions).await?;
    load_unique_indexes(q, &mut drafts).await?;
    name_sequences(&mut drafts);
    for mut draft in drafts.into_values() {
        if let Placement::Distributed(distribution) = &mut draft.relation.placement {
            let position = |attnum: &i32| draft.attnums.iter().position(|a| a == attnum);
            let key: Option<Vec<usize>> = draft.key.iter().map(position).collect();
            let types = |key: &Vec<usize>| key.iter().map(|k| draft.relation.columns[*k].type_oid).collect::<Vec<_>>();
            match key.filter(|k| types(k) == distribution.group.key_types) {
                Some(key) => distribution.key = key,
                None => {
                    draft.relation.placement = Placement::Local;
                    snapshot.replaced.insert(draft.relation.oid);
                }
            }
        }
        let relation = draft.relation;
        snapshot.relations.insert((relation.schema.clone(), relation.name.clone()), Arc::new(relation));
    }
    Ok(())
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
    let sql = format!(
        "SELECT c.oid, n.nspname, c.relname, c.relkind, h.kind, h.colocation, h.prefix, CASE WHEN h.key IS NOT NULL THEN array_to_string(h.key, ' ') \
                WHEN p.partstrat::text = left(g.strategy, 1) THEN p.partattrs::text END, \
                CASE WHEN h.key IS NOT NULL THEN {parts} END, c.relispartition, \
                {barrier}, {invoker}, EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attacl IS NOT NULL), \
                CASE c.relkind WHEN 'm' THEN {filled} ELSE false END, \
                c.relrowsecurity, EXISTS (SELECT FROM aclexplode(n.nspacl) a WHERE a.grantee = 0 AND a.privilege_type = 'USAGE'), \
                EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN') \
                OR EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal \
                           AND (t.tgtype & 1 = 0 OR t.tgoldtable IS NOT NULL OR t.tgnewtable IS NOT NULL)), \
                EXISTS (SELECT FROM pg_trigger t WHERE NOT t.tgisinternal AND (t.tgrelid = c.oid OR c.relkind = 'p' \
                            AND (h.kind IS NULL OR h.key IS NOT NULL) AND t.tgrelid IN ({below}))), \
                EXISTS (SELECT FROM pg_constraint f WHERE f.conrelid = c.oid AND f.confrelid = c.oid AND f.contype = 'f') \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_partitioned_table p ON p.partrelid = c.oid \
         LEFT JOIN herd.relation h ON h.schema = n.nspname AND h.name = c.relname \
              AND c.relkind = CASE h.kind WHEN 'd' THEN 'p' ELSE 'r' END \
         LEFT JOIN herd.colocation g ON g.id = h.colocation \
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
        let (barrier, invoker, column_grants) = (row.boolean(), row.boolean(), row.boolean());
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
            security_invoker: invoker,
            column_grants,
            filled_by_router,
        });
        let relation = Relation {
            oid,
            schema,
            name,
            kind,
            placement,
            columns: Vec::new(),
            view,
            unique: Vec::new(),
            row_security: row.boolean(),
            schema_is_open: row.boolean(),
            statement_triggers: row.boolean(),
            triggers: row.boolean(),
            refers_to_itself: row.boolean(),
            through: None,
        };
        drafts.insert(oid, Draft { relation, attnums: Vec::new(), key });
    }
    Ok(drafts)
}

async fn load_columns<Q: Query>(
    q: &mut Q,
    drafts: &mut HashMap<Oid, Draft>,
    snapshot: &mut Snapshot,
    definitions: &Definitions,
) -> Result<bool, CatalogError<Q::Error>> {
    // A default names no columns; said with its table, pg_get_expr would wait for whoever has that locked.
    // A collation of provider "d" is the database's. The builtin provider orders by code points, which is UTF-8's
    // order of bytes (src/backend/utils/adt/pg_locale_builtin.c).
    // A partition's identity column takes its values where its parent's does.
    let identity = "SELECT sn.nspname, s.relname FROM pg_attribute o \
                 JOIN pg_depend e ON e.classid = 'pg_class'::regclass AND e.refclassid = 'pg_class'::regclass AND e.deptype = 'i' \
                      AND e.refobjid = o.attrelid AND e.refobjsubid = o.attnum \
                 JOIN pg_class s ON s.oid = e.objid AND s.relkind = 'S' JOIN pg_namespace sn ON sn.oid = s.relnamespace \
                 WHERE o.attname = a.attname AND o.attrelid = c.oid OR o.attname = a.attname AND c.relispartition AND o.attrelid IN ( \
                       WITH RECURSIVE up (oid) AS (SELECT c.oid UNION ALL SELECT i.inhparent FROM up u JOIN pg_inherits i ON i.inhrelid = u.oid) \
                       SELECT oid FROM up) LIMIT 1";
    let sql = format!(
        "SELECT c.oid, a.attnum, a.attname, a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod), a.attnotnull, \
                d.oid, CASE WHEN NOT herd.names_rows(d.adbin::text) THEN pg_get_expr(d.adbin, 0) END, \
                q.nspname, q.relname, \
                a.attidentity, a.attgenerated <> '', \
                CASE WHEN a.attcollation = 0 THEN 'y' WHEN co.collprovider = 'd' THEN 'd' WHEN co.collprovider = 'b' THEN 'y' \
                     WHEN co.collprovider = 'c' AND co.collcollate IN ('C', 'POSIX') THEN 'y' ELSE 'n' END, \
                coalesce(co.collisdeterministic, true), coalesce(co.collprovider <> 'd', false) \
         FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.attgenerated = '' \
         LEFT JOIN pg_collation co ON co.oid = a.attcollation \
         LEFT JOIN LATERAL ({identity}) q ON a.attidentity <> '' \
         WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND c.relpersistence <> 't' AND {NOT_SYSTEM} \
           AND a.attnum > 0 AND NOT a.attisdropped \
         ORDER BY c.oid, a.attnum"
    );
    let mut own_collations = false;
    let mut rows = reading(q, &sql).await?;
    while let Some(mut row) = rows.next().await {
        let oid = row.number()?;
        let Some(draft) = drafts.get_mut(&oid) else { continue };
        draft.attnums.push(row.number()?);
        let mut column = Column {
            name: row.text(),
            type_oid: row.number()?,
            typmod: row.number()?,
            type_name: row.text(),
            not_null: row.boolean(),
            default: None,
            sequence: None,
            sequence_oid: 0,
            identity: 0,
            generated: false,
            collation_is_bytes: false,
            collation_deterministic: true,
        };
        if let Some(default) = row.opt_number()? {
            column.default = row.opt().or_else(|| definitions.of_default(default));
            if column.default.is_none() {
                snapshot.locked.insert(oid);
            }
        } else {
            row.opt();
            column.default = snapshot.types.get(&column.type_oid).and_then(|t| t.default.clone());
        }
        let identity_sequence = row.opt().zip(row.opt());
        column.sequence = match &identity_sequence {
            Some((schema, name)) => Some(crate::qualified(schema, name)),
            None => column.default.as_deref().and_then(sequence_of_default),
        };
        column.identity = row.char();
        column.generated = row.boolean();
        if column.generated {
            column.default = None;
        }
        column.collation_is_bytes = match row.char() {
            b'd' => snapshot.collation_is_bytes,
            answer => answer == b'y',
        };
        column.collation_deterministic = row.boolean();
        own_collations |= row.boolean();
        draft.relation.columns.push(column);
    }
    Ok(own_collations)
}

/// Names may change behind a session that took values: it knows sequences by their object ids.
fn name_sequences(drafts: &mut HashMap<Oid, Draft>) {
    let of = |d: &Draft| (crate::qualified(&d.relation.schema, &d.relation.name), d.relation.oid);
    let sequences: HashMap<String, Oid> =
        drafts.values().filter(|d| d.relation.kind == RelationKind::Sequence).map(of).collect();
    for column in drafts.values_mut().flat_map(|d| &mut d.relation.columns) {
        let oid = column.sequence.as_ref().and_then(|name| sequences.get(name));
        column.sequence_oid = oid.copied().unwrap_or_default();
    }
}

/// The sequence of a default that is nothing but `nextval('…'::regclass)`; quoted and qualified, as `regclass` prints it.
fn sequence_of_default(default: &str) -> Option<String> {
    let literal = default.strip_prefix("nextval('")?.strip_suffix("'::regclass)")?;
    let name = literal.replace("''", "'");
    // More than one literal: an expression of several calls.
    (name.matches('\'').count() * 2 == literal.matches('\'').count()).then_some(name)
}

async fn load_unique_indexes<Q: Query>(
    q: &mut Q,
    drafts: &mut HashMap<Oid, Draft>,
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
        let Some(draft) = drafts.get_mut(&oid) else { continue };
        let name = row.text();
        let key_columns: usize = row.number()?;
        // indkey lists the INCLUDE columns, too; those are not unique.
        let attnums: Vec<i32> = row.numbers()?;
        let position = |attnum: &i32| draft.attnums.iter().position(|a| a == attnum);
        let Some(columns) = attnums.iter().take(key_columns).map(position).collect() else { continue };
        draft.relation.unique.push(UniqueIndex { name, columns, primary: row.boolean(), plain: row.boolean() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::sequence_of_default;

    #[test]
    fn sequences_of_defaults() {
        for (default, want) in [
            ("nextval('public.t_id_seq'::regclass)", Some("public.t_id_seq")),
            ("nextval('public.\"it''s\"'::regclass)", Some("public.\"it's\"")),
            ("nextval('public.a'::regclass) + nextval('public.b'::regclass)", None),
            ("(nextval('public.a'::regclass) * 2)", None),
            ("0", None),
        ] {
            assert_eq!(sequence_of_default(default).as_deref(), want);
        }
    }
}
