//! Reading a table's definition from home: the table itself, its columns and sequences, and what blocks it.
//!
//! The caller holds a lock on the table when what is read must still hold later (see `distribute.rs`).
//! Constraints, indexes and the like are read in `details.rs`.

use super::{Blockers, ColumnDefinition, Definition, IncomingKey, Privilege, SequenceDefinition, details, views};
use crate::load::{cells, pin_settings, restore_settings};
use crate::{CatalogError, Query, Refusal, RefusalKind, quote_literal};

/// Reads the definition of `schema.name` on home. Works inside and outside of a transaction, and leaves the session's
/// settings as they were. Fails with SQLSTATE 42P01 when there is no such relation.
pub async fn read_definition<Q: Query>(
    q: &mut Q,
    schema: &str,
    name: &str,
) -> Result<Definition, CatalogError<Q::Error>> {
    let before = pin_settings(q).await?;
    let definition = read(q, schema, name).await;
    let restored = restore_settings(q, before).await;
    let definition = definition?;
    restored?;
    Ok(definition)
}

async fn read<Q: Query>(q: &mut Q, schema: &str, name: &str) -> Result<Definition, CatalogError<Q::Error>> {
    let mut definition = read_table(q, schema, name).await?;
    read_columns(q, &mut definition).await?;
    read_privileges(q, &mut definition).await?;
    read_sequences(q, &mut definition).await?;
    read_blockers(q, &mut definition).await?;
    definition.views = views::read(q, &[definition.oid]).await?;
    let over = definition.views.iter().flat_map(|v| v.dependents.iter().cloned());
    definition.blockers.dependents.extend(over);
    details::read(q, &mut definition).await?;
    Ok(definition)
}

async fn read_table<Q: Query>(q: &mut Q, schema: &str, name: &str) -> Result<Definition, CatalogError<Q::Error>> {
    // A partitioned table has no storage parameters, persistence and tablespace of its own: its shards have them.
    let sql = format!(
        "SELECT c.oid, pg_get_userbyid(n.nspowner), pg_get_userbyid(c.relowner), c.relkind, coalesce(s.relpersistence, c.relpersistence), \
                current_setting('server_version_num'), c.relacl IS NOT NULL, c.relrowsecurity, c.relforcerowsecurity, c.relreplident, \
                (SELECT x.relname FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = c.oid AND i.indisreplident), \
                coalesce(s.reloptions, c.reloptions), \
                (SELECT t.reloptions FROM pg_class t WHERE t.oid = coalesce(s.reltoastrelid, c.reltoastrelid)), \
                (SELECT am.amname FROM pg_am am WHERE am.oid = coalesce(s.relam, c.relam) AND am.amname <> 'heap'), \
                (SELECT spcname FROM pg_tablespace t WHERE t.oid = coalesce(s.reltablespace, c.reltablespace)), \
                obj_description(c.oid, 'pg_class'), \
                EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid), \
                c.relkind <> 'p' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid), c.relispartition, c.reloftype <> 0, \
                (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = c.relowner), 'herd_moving_' || gen_random_uuid(), \
                CASE c.relkind WHEN 'p' THEN pg_get_partkeydef(c.oid) END, \
                EXISTS (SELECT FROM pg_partitioned_table p WHERE p.partrelid = c.oid AND p.partexprs IS NOT NULL), \
                u.nspname, u.relname, pg_get_expr(c.relpartbound, c.oid) \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN LATERAL (SELECT un.nspname, up.relname FROM pg_inherits ui JOIN pg_class up ON up.oid = ui.inhparent \
                            JOIN pg_namespace un ON un.oid = up.relnamespace WHERE ui.inhrelid = c.oid AND c.relispartition) u ON true \
         LEFT JOIN LATERAL (SELECT p.* FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid \
                            WHERE i.inhparent = c.oid AND c.relkind = 'p' AND p.relkind = 'r' ORDER BY p.oid LIMIT 1) s ON true \
         WHERE n.nspname = {} AND c.relname = {}",
        quote_literal(schema),
        quote_literal(name)
    );
    let Some(mut row) = cells(q, &sql).await?.next() else {
        let message = format!("relation \"{schema}.{name}\" does not exist");
        return Err(Refusal::new(RefusalKind::UndefinedTable, message, "").into());
    };
    let mut definition = Definition {
        oid: row.number()?,
        schema: schema.to_string(),
        name: name.to_string(),
        schema_owner: row.text(),
        owner: row.text(),
        kind: row.char(),
        persistence: row.char(),
        server_version: row.number()?,
        privileges: row.boolean().then(Vec::new),
        row_security: row.boolean(),
        force_row_security: row.boolean(),
        replica_identity: row.char(),
        replica_identity_index: row.opt(),
        storage_parameters: row.texts(),
        ..Definition::default()
    };
    definition.storage_parameters.extend(row.texts().into_iter().map(|option| format!("toast.{option}")));
    definition.access_method = row.opt();
    definition.tablespace = row.opt();
    definition.comment = row.opt();
    definition.blockers = Blockers {
        inherits: row.boolean(),
        has_children: row.boolean(),
        is_partition: row.boolean(),
        typed: row.boolean(),
        ..Blockers::default()
    };
    definition.owner_is_superuser = row.boolean();
    definition.aside = row.text();
    definition.partition_by = row.opt();
    definition.blockers.splits_by_expression = row.boolean();
    let parent = row.opt().zip(row.opt());
    definition.partition_of = parent.zip(row.opt()).map(|((schema, name), bound)| (schema, name, bound));
    Ok(definition)
}

async fn read_columns<Q: Query>(q: &mut Q, definition: &mut Definition) -> Result<(), CatalogError<Q::Error>> {
    let oid = definition.oid;
    // Not-null constraints have rows of their own since PostgreSQL 18.
    let sql = format!(
        "SELECT a.attname, a.attnum, a.atttypid, format_type(a.atttypid, a.atttypmod), t.typtype, \
                CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) END, \
                CASE WHEN a.attcollation <> t.typcollation THEN format('%I.%I', cn.nspname, co.collname) END, \
                coalesce(co.collisdeterministic, true), \
                CASE co.collprovider WHEN 'b' THEN true WHEN 'c' THEN co.collcollate IN ('C', 'POSIX') \
                     WHEN 'd' THEN (SELECT datlocprovider = 'b' OR datlocprovider = 'c' AND datcollate IN ('C', 'POSIX') \
                                    FROM pg_database WHERE datname = current_database()) ELSE co.oid IS NULL END, \
                a.attnotnull, \
                (SELECT n.conname FROM pg_constraint n WHERE n.conrelid = a.attrelid AND n.contype = 'n' AND n.conkey[1] = a.attnum), \
                pg_get_expr(d.adbin, d.adrelid), a.attgenerated, a.attidentity, \
                CASE WHEN a.attstorage <> t.typstorage THEN a.attstorage END, a.attcompression, \
                nullif(a.attstattarget, -1), array_to_string(a.attoptions, ', '), col_description(a.attrelid, a.attnum) \
         FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
         LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace \
         WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    );
    for mut row in cells(q, &sql).await? {
        definition.columns.push(ColumnDefinition {
            name: row.text(),
            attnum: row.number()?,
            type_oid: row.number()?,
            type_name: row.text(),
            type_kind: row.char(),
            base_type: row.opt(),
            collation: row.opt(),
            collation_deterministic: row.boolean(),
            collation_is_bytes: row.boolean(),
            not_null: row.boolean(),
            not_null_name: row.opt(),
            expression: row.opt(),
            generated: row.char(),
            identity: row.char(),
            storage: match row.char() {
                b'p' => Some("PLAIN"),
                b'e' => Some("EXTERNAL"),
                b'm' => Some("MAIN"),
                b'x' => Some("EXTENDED"),
                _ => None,
            },
            compression: match row.char() {
                b'p' => Some("pglz"),
                b'l' => Some("lz4"),
                _ => None,
            },
            statistics_target: row.opt_number()?,
            options: row.opt(),
            comment: row.opt(),
            privileges: Vec::new(),
        });
    }
    Ok(())
}

async fn read_privileges<Q: Query>(q: &mut Q, definition: &mut Definition) -> Result<(), CatalogError<Q::Error>> {
    let oid = definition.oid;
    let sql = format!(
        "SELECT r.attnum, CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END, \
                x.privilege_type, x.is_grantable, CASE WHEN x.grantor <> r.owner THEN quote_ident(pg_get_userbyid(x.grantor)) END \
         FROM (SELECT 0, relacl, relowner FROM pg_class WHERE oid = {oid} \
               UNION ALL SELECT -1, nspacl, nspowner FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid WHERE c.oid = {oid} \
               UNION ALL SELECT attnum, attacl, relowner FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
                          WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped) r (attnum, acl, owner), \
              aclexplode(r.acl) x"
    );
    for mut row in cells(q, &sql).await? {
        let attnum: i32 = row.number()?;
        let (grantee, privilege, grantable, grantor) = (row.text(), row.text(), row.boolean(), row.opt());
        let privilege = Privilege { grantee, privilege, grantable, grantor };
        match (attnum, definition.columns.iter_mut().find(|c| c.attnum == attnum)) {
            (-1, _) => definition.schema_privileges.push(privilege),
            (_, Some(column)) => column.privileges.push(privilege),
            (_, None) => definition.privileges.get_or_insert_default().push(privilege),
        }
    }
    Ok(())
}

async fn read_sequences<Q: Query>(q: &mut Q, definition: &mut Definition) -> Result<(), CatalogError<Q::Error>> {
    let oid = definition.oid;
    // Owned sequences depend on the column ('a', identity 'i'); of others, the column's default depends on the sequence.
    let sql = format!(
        "WITH owned AS (SELECT objid AS seq, refobjsubid AS attnum, deptype = 'i' AS identity FROM pg_depend \
                        WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND refobjid = {oid} \
                          AND refobjsubid > 0 AND deptype IN ('a', 'i')), \
              used AS (SELECT e.refobjid AS seq FROM pg_attrdef d JOIN pg_depend e ON e.classid = 'pg_attrdef'::regclass AND e.objid = d.oid \
                       WHERE d.adrelid = {oid} AND e.refclassid = 'pg_class'::regclass AND e.deptype = 'n') \
         SELECT n.nspname, c.relname, pg_get_userbyid(c.relowner), format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, \
                s.seqmax, s.seqcache, s.seqcycle, c.relpersistence = 'u', a.attname, coalesce(o.identity, false) \
         FROM (SELECT seq FROM owned UNION SELECT seq FROM used) x \
         JOIN pg_class c ON c.oid = x.seq AND c.relkind = 'S' JOIN pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_sequence s ON s.seqrelid = c.oid LEFT JOIN owned o ON o.seq = x.seq \
         LEFT JOIN pg_attribute a ON a.attrelid = {oid} AND a.attnum = o.attnum ORDER BY 1, 2"
    );
    for mut row in cells(q, &sql).await? {
        definition.sequences.push(SequenceDefinition {
            schema: row.text(),
            name: row.text(),
            owner: row.text(),
            type_name: row.text(),
            start: row.text(),
            increment: row.text(),
            min: row.text(),
            max: row.text(),
            cache: row.text(),
            cycle: row.boolean(),
            unlogged: row.boolean(),
            owned_by: row.opt(),
            identity: row.boolean(),
        });
    }
    Ok(())
}

async fn read_blockers<Q: Query>(q: &mut Q, definition: &mut Definition) -> Result<(), CatalogError<Q::Error>> {
    let oid = definition.oid;
    // Whatever depends normally ('n') on the table or its row type, and is neither a part of the table itself nor a view over it.
    let sql = format!(
        "SELECT 'rule', r.rulename, NULL, NULL, NULL FROM pg_rewrite r WHERE r.ev_class = {oid} AND r.rulename <> '_RETURN' \
         UNION ALL SELECT 'publication', p.pubname, NULL, NULL, NULL FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = {oid} \
         UNION ALL SELECT 'key', n.nspname, c.relname, k.conname, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid \
                   JOIN pg_namespace n ON n.oid = c.relnamespace \
                   WHERE k.contype = 'f' AND k.confrelid = {oid} AND k.conrelid <> {oid} AND k.conparentid = 0 \
         UNION ALL SELECT DISTINCT 'dependent', coalesce(pg_describe_object('pg_class'::regclass, v.ev_class, 0), pg_describe_object(d.classid, d.objid, 0)), NULL, NULL, NULL \
                   FROM pg_depend d LEFT JOIN pg_rewrite v ON d.classid = 'pg_rewrite'::regclass AND v.oid = d.objid AND v.rulename = '_RETURN' \
                   LEFT JOIN pg_class vc ON vc.oid = v.ev_class \
                   WHERE d.deptype = 'n' \
                     AND (d.refclassid = 'pg_class'::regclass AND d.refobjid = {oid} AND vc.relkind IS DISTINCT FROM 'v' \
                          OR d.refclassid = 'pg_type'::regclass AND d.refobjid IN (SELECT t.oid FROM pg_type t JOIN pg_class c ON t.oid = c.reltype OR t.typelem = c.reltype WHERE c.oid = {oid})) \
                     AND d.classid <> 'pg_constraint'::regclass AND d.classid <> 'pg_attrdef'::regclass \
                     AND NOT (d.classid = 'pg_policy'::regclass AND EXISTS (SELECT FROM pg_policy p WHERE p.oid = d.objid AND p.polrelid = {oid})) \
                     AND NOT (d.classid = 'pg_trigger'::regclass AND EXISTS (SELECT FROM pg_trigger t WHERE t.oid = d.objid AND t.tgrelid = {oid})) \
                     AND NOT (d.classid = 'pg_rewrite'::regclass AND EXISTS (SELECT FROM pg_rewrite r WHERE r.oid = d.objid AND r.ev_class = {oid})) \
                     AND NOT (d.classid = 'pg_class'::regclass AND (d.objid = {oid} OR EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = d.objid AND h.inhparent = {oid})))"
    );
    let blockers = &mut definition.blockers;
    for mut row in cells(q, &sql).await? {
        match row.text().as_str() {
            "rule" => blockers.rules.push(row.text()),
            "publication" => blockers.publications.push(row.text()),
            "key" => blockers.referenced_by.push(IncomingKey {
                schema: row.text(),
                table: row.text(),
                constraint: row.text(),
                text: row.text(),
            }),
            _ => blockers.dependents.push(row.text()),
        }
    }
    Ok(())
}
