//! The server and the herd as such: version, collation, epoch, nodes, types.

use super::columns::COLLATION;
use crate::load::{cells, reading, rows};
use crate::{CatalogError, Node, Oid, Query, Snapshot, UserType};

/// Schemas whose relations and types are not the user's.
pub(super) const NOT_SYSTEM: &str =
    "n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'herd', 'herd_shards')";

pub(super) async fn load<Q: Query>(q: &mut Q) -> Result<Snapshot, CatalogError<Q::Error>> {
    // The herd's tables may be missing, so they are not read in the same query. Of what others change meanwhile, nothing is read
    // before the epoch.
    let sql = "SELECT current_setting('server_version_num'), \
               EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proacl IS NOT NULL AND p.provolatile <> 'v' \
                       AND NOT has_function_privilege('public', p.oid, 'EXECUTE') \
                       AND NOT EXISTS (SELECT FROM pg_init_privs i WHERE i.objoid = p.oid AND i.classoid = 'pg_proc'::regclass)), \
               datlocprovider = 'b' OR datlocprovider = 'c' AND datcollate IN ('C', 'POSIX') AND lower('I') = 'i' AND upper('i') = 'I', \
               to_regclass('herd.relation') IS NOT NULL \
               FROM pg_database WHERE datname = current_database()";
    let Some(mut row) = cells(q, sql).await?.next() else {
        return Err(CatalogError::Corrupt("pg_database does not list the current database".into()));
    };
    let mut snapshot = Snapshot {
        server_version: row.number()?,
        builtins_revoked: row.boolean(),
        collation_is_bytes: row.boolean(),
        ..Snapshot::default()
    };
    if !row.boolean() {
        return Err(CatalogError::NotHome);
    }
    // No operator has a blank in its name.
    let sql = "SELECT h.id, e.epoch, e.kinds, \
               ARRAY(SELECT DISTINCT concat(oprname, ' ', n.nspname) FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace \
                     WHERE n.nspname <> 'pg_catalog' AND oprleft < 16384 AND oprright < 16384), \
               pg_my_temp_schema() = 0 AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgdeferrable AND NOT tgisinternal \
                   AND tgrelid NOT IN ('herd.relation'::regclass, 'herd.node'::regclass)) \
               FROM herd.herd h, herd.epoch e";
    let Some(mut row) = cells(q, sql).await?.next() else {
        return Err(CatalogError::Corrupt("herd.herd or herd.epoch has no row".into()));
    };
    snapshot.herd_id = row.text();
    snapshot.epoch = row.number()?;
    snapshot.kinds = row.number()?;
    for own in row.texts() {
        let (name, schema) = own.split_once(' ').unwrap_or_default();
        if name == "=" {
            snapshot.own_equality.push(schema.to_string());
        }
        snapshot.own_operators.entry(name.to_string()).or_default().push(schema.to_string());
    }
    snapshot.anyones = row.boolean();

    for row in rows(q, "SELECT id, name, host, port, database, is_home FROM herd.node ORDER BY id").await? {
        let mut row = crate::cells::Cells::of(row);
        let node =
            Node { id: row.number()?, name: row.text(), host: row.text(), port: row.number()?, database: row.text() };
        if row.boolean() {
            snapshot.home = node.id;
        }
        snapshot.nodes.push(node);
    }
    if snapshot.node(snapshot.home).is_none() {
        return Err(CatalogError::Corrupt("herd.node has no home".into()));
    }
    Ok(snapshot)
}

/// Types that are a relation's rows, each with that relation.
pub(super) type RowTypes = Vec<(Oid, Oid)>;

/// All but the fields of what is a relation's row: those are its columns ([`take_fields`]).
pub(super) async fn load_types<Q: Query>(
    q: &mut Q,
    snapshot: &mut Snapshot,
) -> Result<RowTypes, CatalogError<Q::Error>> {
    // An array type is recognised by its element pointing back at it. A domain has taken over the default of the domain under it
    // (`DefineDomain` in typecmds.c). One that names a row's type would wait for whoever has that table locked: as it was written.
    let sql = format!(
        "SELECT t.oid, n.nspname, t.typname, CASE WHEN e.oid IS NOT NULL THEN 'a' ELSE t.typtype END, \
                CASE WHEN e.oid IS NOT NULL THEN e.oid ELSE t.typbasetype END, \
                CASE WHEN t.typtype <> 'd' THEN NULL WHEN herd.names_rows(t.typdefaultbin::text) THEN t.typdefault \
                     ELSE pg_get_expr(t.typdefaultbin, 0) END, \
                (SELECT array_to_string(array_agg(a.atttypid ORDER BY a.attnum), ',') FROM pg_attribute a \
                  WHERE a.attrelid = t.typrelid AND r.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped), \
                CASE WHEN r.relkind <> 'c' THEN r.oid END, \
                CASE WHEN t.typtype = 'd' THEN (SELECT {COLLATION} FROM pg_collation co WHERE co.oid = t.typcollation) \
                     WHEN r.relkind = 'c' THEN (SELECT string_agg(DISTINCT {COLLATION}, '') FROM pg_attribute a \
                          JOIN pg_collation co ON co.oid = a.attcollation WHERE a.attrelid = t.typrelid AND NOT a.attisdropped) END \
         FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace \
         LEFT JOIN pg_class r ON r.oid = t.typrelid AND t.typtype = 'c' \
         LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid \
         WHERE t.typtype <> 'p' AND {NOT_SYSTEM}"
    );
    let mut row_types = vec![];
    let mut rows = reading(q, &sql).await?;
    while let Some(mut row) = rows.next().await {
        let oid = row.number()?;
        let (schema, name, kind, base) = (row.text(), row.text(), row.char(), row.number()?);
        let default = row.opt();
        let fields = row.opt().map(|f| f.split(',').filter_map(|oid| oid.parse().ok()).collect()).unwrap_or_default();
        let user_type = UserType { schema, name, kind, base, default, fields };
        snapshot.types.insert(oid, user_type);
        row_types.extend(row.opt_number()?.map(|relation| (oid, relation)));
        let collations = row.opt().unwrap_or_default();
        snapshot.own_collations |= collations.contains(['y', 'n']);
        snapshot.unlike_bytes |= collations.contains('n');
    }
    Ok(row_types)
}

/// When columns are known.
pub(super) fn take_fields(snapshot: &mut Snapshot, row_types: RowTypes) {
    for (oid, relation) in row_types {
        if let (Some(t), Some(columns)) = (snapshot.types.get_mut(&oid), snapshot.columns.of(relation)) {
            t.fields = columns.iter().map(|c| c.type_oid).collect();
        }
    }
}
