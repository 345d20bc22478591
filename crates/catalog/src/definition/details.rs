//! Reading what hangs on a table: constraints, indexes, triggers, policies, extended statistics.

use super::{Constraint, Definition, ForeignKey, Index, Policy, Statistics, Trigger};
use crate::load::cells;
use crate::{CatalogError, Oid, Query};

pub(super) async fn read<Q: Query>(q: &mut Q, definition: &mut Definition) -> Result<(), CatalogError<Q::Error>> {
    let oid = definition.oid;
    definition.constraints = constraints(q, oid).await?;
    definition.indexes = indexes(q, oid).await?;
    definition.triggers = triggers(q, oid).await?;
    definition.policies = policies(q, oid).await?;
    definition.statistics = statistics(q, oid).await?;
    Ok(())
}

async fn constraints<Q: Query>(q: &mut Q, oid: Oid) -> Result<Vec<Constraint>, CatalogError<Q::Error>> {
    // Of an exclusion constraint the columns compared with "=", as a partition key must be. Constraints with a parent are
    // the copies PostgreSQL keeps for foreign keys to partitioned tables.
    let sql = format!(
        "SELECT k.conname, k.contype, pg_get_constraintdef(k.oid), \
                ARRAY(SELECT a.attname FROM unnest(k.conkey) WITH ORDINALITY u (attnum, i) \
                      JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum \
                      WHERE k.contype <> 'x' OR (SELECT o.oprname = '=' FROM pg_operator o WHERE o.oid = k.conexclop[u.i]) ORDER BY u.i), \
                pg_get_constraintdef(k.oid) LIKE '% NOT VALID', k.connoinherit, array_to_string(x.reloptions, ', '), fn.nspname, f.relname, \
                ARRAY(SELECT a.attname FROM unnest(k.confkey) WITH ORDINALITY u (attnum, i) \
                      JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.attnum ORDER BY u.i), \
                obj_description(k.oid, 'pg_constraint'), CASE WHEN k.contype IN ('p', 'u', 'x') THEN obj_description(x.oid, 'pg_class') END \
         FROM pg_constraint k LEFT JOIN pg_class x ON x.oid = k.conindid AND k.contype IN ('p', 'u', 'x') \
         LEFT JOIN pg_class f ON f.oid = k.confrelid LEFT JOIN pg_namespace fn ON fn.oid = f.relnamespace \
         WHERE k.conrelid = {oid} AND k.contype IN ('c', 'p', 'u', 'x', 'f') AND k.conparentid = 0 \
         ORDER BY position(k.contype::text IN 'cpuxf'), k.conname"
    );
    let mut constraints = Vec::new();
    for mut row in cells(q, &sql).await? {
        let mut constraint = Constraint {
            name: row.text(),
            kind: row.char(),
            text: row.text(),
            columns: row.texts(),
            not_valid: row.boolean(),
            no_inherit: row.boolean(),
            index_parameters: row.opt(),
            foreign: None,
            comment: None,
            index_comment: None,
        };
        let (schema, table, columns) = (row.opt(), row.text(), row.texts());
        constraint.foreign = schema.map(|schema| ForeignKey { schema, table, columns });
        constraint.comment = row.opt();
        constraint.index_comment = row.opt();
        constraints.push(constraint);
    }
    Ok(constraints)
}

async fn indexes<Q: Query>(q: &mut Q, oid: Oid) -> Result<Vec<Index>, CatalogError<Q::Error>> {
    let sql = format!(
        "SELECT x.relname, i.indisunique, pg_get_indexdef(i.indexrelid), \
                ARRAY(SELECT a.attname FROM unnest(i.indkey::int2[]) WITH ORDINALITY u (attnum, n) \
                      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum \
                      WHERE u.n <= i.indnkeyatts ORDER BY u.n), \
                obj_description(i.indexrelid, 'pg_class') \
         FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid \
         WHERE i.indrelid = {oid} AND i.indisvalid \
           AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x')) \
         ORDER BY x.relname"
    );
    let mut indexes = Vec::new();
    for mut row in cells(q, &sql).await? {
        indexes.push(Index {
            name: row.text(),
            unique: row.boolean(),
            text: row.text(),
            columns: row.texts(),
            comment: row.opt(),
        });
    }
    Ok(indexes)
}

async fn triggers<Q: Query>(q: &mut Q, oid: Oid) -> Result<Vec<Trigger>, CatalogError<Q::Error>> {
    let sql = format!(
        "SELECT tgname, pg_get_triggerdef(oid), tgtype & 1 = 1, tgoldtable IS NOT NULL OR tgnewtable IS NOT NULL, \
                tgenabled, obj_description(oid, 'pg_trigger') \
         FROM pg_trigger WHERE tgrelid = {oid} AND NOT tgisinternal AND tgparentid = 0 ORDER BY tgname"
    );
    let mut triggers = Vec::new();
    for mut row in cells(q, &sql).await? {
        triggers.push(Trigger {
            name: row.text(),
            text: row.text(),
            row: row.boolean(),
            transition_tables: row.boolean(),
            enabled: row.char(),
            comment: row.opt(),
        });
    }
    Ok(triggers)
}

async fn policies<Q: Query>(q: &mut Q, oid: Oid) -> Result<Vec<Policy>, CatalogError<Q::Error>> {
    let sql = format!(
        "SELECT polname, polpermissive, polcmd, \
                ARRAY(SELECT CASE r WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(r)) END FROM unnest(polroles) r), \
                pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid), obj_description(oid, 'pg_policy') \
         FROM pg_policy WHERE polrelid = {oid} ORDER BY polname"
    );
    let mut policies = Vec::new();
    for mut row in cells(q, &sql).await? {
        policies.push(Policy {
            name: row.text(),
            permissive: row.boolean(),
            command: match row.char() {
                b'r' => "SELECT",
                b'a' => "INSERT",
                b'w' => "UPDATE",
                b'd' => "DELETE",
                _ => "ALL",
            },
            roles: row.texts(),
            using: row.opt(),
            check: row.opt(),
            comment: row.opt(),
        });
    }
    Ok(policies)
}

async fn statistics<Q: Query>(q: &mut Q, oid: Oid) -> Result<Vec<Statistics>, CatalogError<Q::Error>> {
    let sql = format!(
        "SELECT n.nspname, s.stxname, pg_get_userbyid(s.stxowner), pg_get_statisticsobjdef(s.oid), \
                nullif(s.stxstattarget, -1), obj_description(s.oid, 'pg_statistic_ext') \
         FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace WHERE s.stxrelid = {oid} ORDER BY 1, 2"
    );
    let mut statistics = Vec::new();
    for mut row in cells(q, &sql).await? {
        statistics.push(Statistics {
            schema: row.text(),
            name: row.text(),
            owner: row.text(),
            text: row.text(),
            target: row.opt_number()?,
            comment: row.opt(),
        });
    }
    Ok(statistics)
}
