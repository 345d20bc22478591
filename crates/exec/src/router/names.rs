//! Partitions' names in errors turned back into what the user knows: table, constraint and index names.
//!
//! The names of partitions follow from the snapshot; those of their indexes are looked up on the node, only when an
//! error names one.

use std::cell::OnceCell;
use std::collections::HashMap;

use catalog::{NodeId, Placement, Relation, Snapshot};
use wire::ErrorFields;
use wire::sqlstate;

use crate::error::ExecError;
use crate::router::herd::Herd;

const SCHEMA: &str = "herd_shards";
const SCHEMA_AND_DOT: &str = "herd_shards.";
const FOREIGN_KEY_VIOLATION: &str = sqlstate::FOREIGN_KEY_VIOLATION;

/// Restores names in an error that came from `node`.
pub async fn restore(herd: &Herd, snapshot: &Snapshot, node: NodeId, fields: &mut ErrorFields) {
    if let (true, Some(constraint)) = (may_be_a_partitions(fields), fields.get(b'n').map(str::to_string))
        && let Some(parent) = parent_constraint(herd, snapshot, node, fields.get(b's'), &constraint).await
    {
        replace(fields, &constraint, &parent);
        fields.set(b'n', parent);
    }
    rename_tables(snapshot, fields);
}

/// The constraint named may be a partition's: its table is one, or it is what PostgreSQL makes of a foreign key for each
/// partition of the referenced table, on the referencing table itself (`addFkRecurseReferenced` in tablecmds.c).
fn may_be_a_partitions(fields: &ErrorFields) -> bool {
    // The first one may be without a number, if the constraint's own name is another.
    let made = |name: &str| name.ends_with(|c: char| c.is_ascii_digit()) || name.ends_with("_fkey");
    let is_made = || fields.get(b'n').is_some_and(made);
    fields.get(b's') == Some(SCHEMA) || (fields.get(b'C') == Some(FOREIGN_KEY_VIOLATION) && is_made())
}

/// Restores table names alone: no node is asked. A text is gone through once: who causes an error may put many names into it.
pub fn rename_tables(snapshot: &Snapshot, fields: &mut ErrorFields) {
    let tables = OnceCell::new();
    let name = |word: &str| table_of(snapshot, &tables, word).map(|table| table.name.as_str());
    for code in [b'M', b'D', b'H', b'W'] {
        if let Some(renamed) = fields.get(code).and_then(|text| renamed(text, name)) {
            fields.set(code, renamed);
        }
    }
    let Some(table) = fields.get(b't').and_then(|word| table_of(snapshot, &tables, word)) else { return };
    fields.set(b't', table.name.clone());
    if fields.get(b's') == Some(SCHEMA) {
        fields.set(b's', table.schema.clone());
    }
}

/// PostgreSQL speaks of a partition in what it says of a change of the schema: nobody but the herd has made it, and of its table the
/// same is said.
pub fn is_of_partition(snapshot: &Snapshot, notice: &ErrorFields) -> bool {
    // What code raises is said by this function of pl_exec.c.
    if notice.get(b'R') == Some("exec_stmt_raise") {
        return false;
    }
    let tables = OnceCell::new();
    let name = |word: &str| table_of(snapshot, &tables, word).map(|table| table.name.as_str());
    notice.get(b'M').is_some_and(|text| renamed(text, name).is_some())
}

/// Distributed tables by the prefixes of their partitions' names.
type Tables<'s> = OnceCell<HashMap<&'s str, &'s Relation>>;

/// A text with tables' names in place of partitions', if it has such. `table`: the table of a partition's name.
fn renamed<'s>(text: &str, table: impl Fn(&str) -> Option<&'s str>) -> Option<String> {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut out: Option<String> = None;
    let (mut at, mut copied) = (0, 0);
    while let Some(start) = text[at..].find(part).map(|n| at + n) {
        let end = text[start..].find(|c| !part(c)).map_or(text.len(), |n| start + n);
        if let Some(name) = table(&text[start..end]) {
            let out = out.get_or_insert_default();
            let before = &text[copied..start];
            out.push_str(before.strip_suffix(SCHEMA_AND_DOT).unwrap_or(before));
            out.push_str(name);
            copied = end;
        }
        at = end;
    }
    out.map(|out| out + &text[copied..])
}

fn replace(fields: &mut ErrorFields, from: &str, to: &str) {
    for code in [b'M', b'D', b'H', b'W'] {
        if let Some(text) = fields.get(code)
            && text.contains(from)
        {
            let text = whole_words(&text.replace(&format!("{SCHEMA}.{from}"), to), from, to);
            fields.set(code, text);
        }
    }
}

/// Replaces a name where it stands by itself, not inside a longer one.
fn whole_words(text: &str, from: &str, to: &str) -> String {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let end = at + from.len();
        let alone = !rest[..at].ends_with(part) && !rest[end..].starts_with(part);
        out.push_str(&rest[..at]);
        out.push_str(if alone { to } else { from });
        rest = &rest[end..];
    }
    out + rest
}

/// The table a partition's name belongs to.
fn table_of<'s>(snapshot: &'s Snapshot, tables: &Tables<'s>, word: &str) -> Option<&'s Relation> {
    let (prefix, number) = word.rsplit_once('_')?;
    let number = number.parse::<i32>().ok()?;
    let all = || {
        // What has partitions of its owner's has no shards, and theirs may look like some: m_2026.
        let distributed = snapshot.relations.values().filter_map(|r| Some((r.distribution()?, r)));
        distributed.filter(|(d, _)| !d.is_partitioned()).map(|(d, r)| (d.prefix.as_str(), &**r)).collect()
    };
    let table = tables.get_or_init(all).get(prefix).copied()?;
    table.distribution()?.group.shards.iter().any(|shard| shard.number == number).then_some(table)
}

/// The parent's name of a partition's index or constraint. `schema`: that of the table it is on.
async fn parent_constraint(
    herd: &Herd,
    snapshot: &Snapshot,
    node: NodeId,
    schema: Option<&str>,
    name: &str,
) -> Option<String> {
    let sql = format!(
        "WITH RECURSIVE up AS (
            SELECT c.conparentid, c.conname FROM pg_catalog.pg_constraint c
              JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace AND n.nspname = {1}
             WHERE c.conname = {0} AND c.conparentid <> 0
             UNION ALL
            SELECT p.conparentid, p.conname FROM up JOIN pg_catalog.pg_constraint p ON p.oid = up.conparentid)
         SELECT coalesce(
            (SELECT p.relname FROM pg_catalog.pg_class c
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = {1}
               JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
               JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
              WHERE c.relname = {0} AND c.relkind IN ('i', 'I') LIMIT 1),
            (SELECT conname FROM up WHERE conparentid = 0 LIMIT 1))",
        catalog::quote_literal(name),
        catalog::quote_literal(schema.unwrap_or(SCHEMA))
    );
    let target = herd.target(snapshot, node).ok()?;
    let rows = herd.own.rows(&target, &sql).await.ok()?;
    rows.into_iter().next()?.into_iter().next()?
}

/// A foreign key of a local table to a distributed one was checked against home's part of that: whether the row it
/// misses is on another node is not known.
async fn cant_be_checked(herd: &Herd, snapshot: &Snapshot, fields: &ErrorFields) -> Option<ExecError> {
    let (schema, table, constraint) = (fields.get(b's')?, fields.get(b't')?, fields.get(b'n')?);
    if fields.get(b'C') != Some(FOREIGN_KEY_VIOLATION) {
        return None;
    }
    let local = snapshot.resolve(Some(schema), table, &[]).filter(|r| matches!(r.placement, Placement::Local))?;
    // Where rows of the distributed table change, its partitions' own constraints speak, and are right: those refer to partitions. A
    // partition of the local table has one of its own, too.
    let sql = format!(
        "SELECT n.nspname, c.relname FROM pg_catalog.pg_constraint k
           JOIN pg_catalog.pg_class c ON c.oid = k.confrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
          WHERE k.conrelid = {} AND k.conname = {} AND k.contype = 'f'",
        local.oid,
        catalog::quote_literal(constraint)
    );
    let rows = herd.own.rows(&herd.config.home, &sql).await.ok()?;
    let [target_schema, target] = &rows.into_iter().next()?[..] else { return None };
    let target = snapshot.resolve(target_schema.as_deref(), target.as_deref()?, &[])?;
    target.distribution()?;
    let message = format!(
        "foreign key \"{constraint}\" of local table \"{table}\" can't be checked: home has only some rows of distributed table \"{}\"",
        target.name
    );
    let hint = format!(
        "Distribute \"{table}\" first: SELECT create_distributed_table('{table}', …, colocate_with => '{}').",
        target.name
    );
    Some(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(&hint))
}

/// Restores names in an error of this statement, wherever it came from: nodes are asked in turn.
pub async fn restore_error(herd: &Herd, snapshot: &Snapshot, error: ExecError) -> ExecError {
    let fields = error.to_fields();
    if matches!(error, ExecError::Client(_) | ExecError::Refused(_)) {
        return error;
    }
    if let Some(unchecked) = cant_be_checked(herd, snapshot, &fields).await {
        return unchecked;
    }
    let mut restored = fields.clone();
    if may_be_a_partitions(&fields) && fields.get(b'n').is_some() {
        for node in &snapshot.nodes {
            let mut attempt = fields.clone();
            restore(herd, snapshot, node.id, &mut attempt).await;
            let done = attempt.get(b'n') != fields.get(b'n');
            restored = attempt;
            if done {
                break;
            }
        }
    } else {
        rename_tables(snapshot, &mut restored);
    }
    match error {
        _ if restored == fields => error,
        ExecError::Partial(_) => ExecError::Partial(Box::new(restored)),
        _ => ExecError::Sql(Box::new(restored)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(word: &str) -> Option<&'static str> {
        let (prefix, number) = word.rsplit_once('_')?;
        number.parse::<i32>().ok()?;
        [("d", "orders"), ("order_2", "order_2")].into_iter().find(|(p, _)| *p == prefix).map(|(_, name)| name)
    }

    #[test]
    fn partitions_names_become_tables_where_they_stand_alone() {
        let text = r#"row of herd_shards.d_12 in "d_1", xd_1, d_1x, d_x, order_2_7, order_2 und é d_13"#;
        let wanted = r#"row of orders in "orders", xd_1, d_1x, d_x, order_2, order_2 und é orders"#;
        assert_eq!(renamed(text, table).as_deref(), Some(wanted));
        assert_eq!(renamed("herd_shards.other_1 and d", table), None);
    }

    /// Whoever causes an error may have it name anything any number of times.
    #[test]
    fn many_names_cost_what_their_bytes_cost() {
        let renamed = renamed(&"d_1 ".repeat(2_000_000), table).expect("renamed");
        assert_eq!(renamed.len(), 7 * 2_000_000);
    }
}
