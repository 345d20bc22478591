//! DROP of everything. Home says whether it can be; the other nodes then drop what they have of it.

use std::sync::Arc;

use crate::Refusal;
use catalog::{Relation, RelationKind, quote_literal};
use sql::ast::{self, AlterTableType, DropBehavior, DropStmt, Node, ObjectType as O};
use sql::{NodeEnum, names};

use super::place::{Cx, Name, deparse, is_partitioned, name_of, object_type, strings_of};
use super::steps::{Spread, Step};
use super::{Ddl, Decided, subtype};

/// Takes tables that are gone out of the catalog.
const FORGET: &str = "SELECT herd.forget_dropped()";

/// DROP: all of it on home, and on the other nodes those objects that they may have.
pub fn drop(cx: &Cx, s: &DropStmt) -> Decided {
    let objects: Vec<(Vec<&str>, &Node)> = s.objects.iter().map(|o| (strings_of(o), o)).collect();
    let kind = object_type(s.remove_type);
    match kind {
        O::ObjectTable
        | O::ObjectView
        | O::ObjectSequence
        | O::ObjectIndex
        | O::ObjectMatview
        | O::ObjectForeignTable => {
            for name in objects.iter().filter_map(|(o, _)| name_of(o)) {
                cx.not_ours(name)?;
            }
        }
        O::ObjectSchema => {
            if let Some(schema) = objects.iter().flat_map(|(o, _)| o).find(|s| matches!(**s, "herd" | "herd_shards")) {
                cx.not_ours((Some(schema), "*"))?;
            }
        }
        _ => {}
    }
    let elsewhere: Vec<Node> = match kind {
        // Of one that was replaced on home the other nodes have what it was.
        O::ObjectTable => pick(&objects, |name| {
            cx.find(name).is_some_and(|r| super::place::is_herd(r) || cx.snapshot.replaced.contains(&r.oid))
        }),
        O::ObjectIndex => return drop_index(cx, s, pick(&objects, |name| cx.table_of_index(name).is_some())),
        // A node may have less than the snapshot knows; IF EXISTS is enough.
        O::ObjectView => pick(&objects, |name| {
            !is_temporary(cx, name)
                && cx.find(name).is_none_or(|r| r.kind == RelationKind::View && !cx.view_is_local(r))
        }),
        O::ObjectSequence => pick(&objects, |name| !is_temporary(cx, name)),
        O::ObjectTrigger | O::ObjectPolicy | O::ObjectRule => {
            let on = |o: &[&str]| {
                o.split_last()
                    .and_then(|(_, table)| name_of(table))
                    .and_then(|t| cx.find(t))
                    .is_some_and(|r| super::place::is_herd(r) || super::place::is_view(r) && !cx.view_is_local(r))
            };
            objects.iter().filter(|(o, _)| on(o)).map(|(_, n)| (*n).clone()).collect()
        }
        O::ObjectForeignTable => vec![],
        O::ObjectMatview | O::ObjectEventTrigger | O::ObjectFdw | O::ObjectForeignServer => return Ok(Ddl::Home),
        O::ObjectPublication | O::ObjectSubscription | O::ObjectTablespace | O::ObjectDatabase => return Ok(Ddl::Home),
        _ => s.objects.clone(),
    };
    let sequences = drop_sequences(cx);
    let mut spread = match (elsewhere.is_empty(), sequences) {
        (true, None) => return Ok(Ddl::Home),
        (true, Some(sequences)) => cx.home_and(vec![Step::new(cx.sql)], vec![sequences]),
        (false, sequences) => {
            let mut spread = with_elsewhere(cx, s, elsewhere)?;
            spread.nodes.iter_mut().skip(1).for_each(|n| n.steps.extend(sequences.clone()));
            spread
        }
    };
    if kind == O::ObjectTable || s.behavior == DropBehavior::DropCascade as i32 {
        spread.push_home(FORGET);
    }
    Ok(Ddl::Nodes(Box::new(spread)))
}

/// Tables of which a statement drops all columns, or the one named, with all that depends on them.
pub fn cascading(statement: &NodeEnum) -> Vec<(Name<'_>, Option<&str>)> {
    let cascades = |behavior: i32| behavior == DropBehavior::DropCascade as i32;
    match statement {
        NodeEnum::DropStmt(s)
            if cascades(s.behavior) && matches!(object_type(s.remove_type), O::ObjectTable | O::ObjectForeignTable) =>
        {
            s.objects.iter().filter_map(|o| name_of(&strings_of(o))).map(|name| (name, None)).collect()
        }
        NodeEnum::AlterTableStmt(a) => {
            let dropped = a.cmds.iter().filter_map(|n| match &n.node {
                Some(NodeEnum::AlterTableCmd(c))
                    if subtype(c) == AlterTableType::AtDropColumn && cascades(c.behavior) =>
                {
                    Some(c.name.as_str())
                }
                _ => None,
            });
            a.relation.iter().flat_map(|rv| dropped.clone().map(|c| (names::table(rv), Some(c)))).collect()
        }
        _ => vec![],
    }
}

/// Asks home for the sequences of these columns that defaults of other tables take values of. `table`: quoted.
pub fn sequences_of(table: &str, column: Option<&str>) -> String {
    let column =
        column.map_or("true".to_string(), |c| format!("a.attname OPERATOR(pg_catalog.=) {}", quote_literal(c)));
    format!(
        " UNION ALL (WITH RECURSIVE fallen AS (SELECT pg_catalog.to_regclass({})::pg_catalog.oid AS oid UNION \
             SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN fallen f ON i.inhparent OPERATOR(pg_catalog.=) f.oid) \
         SELECT 'sequence', pg_catalog.format('%I.%I', n.nspname, s.relname), NULL, NULL FROM fallen f \
         JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) f.oid \
         JOIN pg_catalog.pg_depend d ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass \
             AND d.refobjid OPERATOR(pg_catalog.=) f.oid AND d.refobjsubid OPERATOR(pg_catalog.=) a.attnum \
             AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass AND d.deptype OPERATOR(pg_catalog.=) ANY ('{{a,i}}'::pg_catalog.\"char\"[]) \
         JOIN pg_catalog.pg_class s ON s.oid OPERATOR(pg_catalog.=) d.objid AND s.relkind OPERATOR(pg_catalog.=) 'S' \
             AND s.relpersistence OPERATOR(pg_catalog.<>) 't' \
             AND EXISTS (SELECT FROM pg_catalog.pg_depend u JOIN pg_catalog.pg_attrdef t ON t.oid OPERATOR(pg_catalog.=) u.objid \
                          WHERE u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_attrdef'::pg_catalog.regclass \
                            AND u.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass AND u.refobjid OPERATOR(pg_catalog.=) s.oid \
                            AND t.adrelid OPERATOR(pg_catalog.<>) ALL (SELECT oid FROM fallen)) \
         JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) s.relnamespace WHERE {column})",
        quote_literal(table)
    )
}

/// Other nodes have sequences of local columns where defaults of the herd's tables name them: they and the defaults go there, too.
pub fn drop_sequences(cx: &Cx) -> Option<Step> {
    let sequences = &cx.facts.sequences;
    (!sequences.is_empty()).then(|| Step::new(format!("DROP SEQUENCE IF EXISTS {} CASCADE", sequences.join(", "))))
}

/// Home drops the session's own, whatever the other nodes would find of that name.
fn is_temporary(cx: &Cx, (schema, name): Name) -> bool {
    match schema {
        Some(schema) => schema == "pg_temp",
        None => cx.facts.temporary.iter().any(|t| t == name),
    }
}

fn pick(objects: &[(Vec<&str>, &Node)], wanted: impl Fn(Name) -> bool) -> Vec<Node> {
    objects.iter().filter(|(o, _)| name_of(o).is_some_and(&wanted)).map(|(_, n)| (*n).clone()).collect()
}

fn with_elsewhere(cx: &Cx, s: &DropStmt, objects: Vec<Node>) -> Result<Spread, Refusal> {
    let tree = NodeEnum::DropStmt(DropStmt { objects, missing_ok: true, ..s.clone() });
    let sql = if tree == *cx.statement { cx.sql.to_string() } else { deparse(tree)? };
    Ok(cx.home_and(vec![Step::new(cx.sql)], vec![Step::new(sql)]))
}

fn drop_index(cx: &Cx, s: &DropStmt, elsewhere: Vec<Node>) -> Decided {
    if elsewhere.is_empty() {
        return Ok(Ddl::Home);
    }
    if !s.concurrent {
        return Ok(Ddl::Nodes(Box::new(with_elsewhere(cx, s, elsewhere)?)));
    }
    let tables: Vec<_> = elsewhere.iter().filter_map(|o| cx.table_of_index(name_of(&strings_of(o))?)).collect();
    drop_concurrently(cx, s, elsewhere, &tables)
}

/// PostgreSQL can't do it to a partitioned table, nor to several servers at once: over the nodes it is one transaction, whose
/// locks are had for a moment only.
fn drop_concurrently(cx: &Cx, s: &DropStmt, elsewhere: Vec<Node>, tables: &[&Arc<Relation>]) -> Decided {
    let refuse = |what: &str| Err(Refusal::new(format!("DROP INDEX CONCURRENTLY does not support {what}"), ""));
    if s.objects.len() > 1 {
        return refuse("dropping multiple objects");
    }
    if s.behavior == DropBehavior::DropCascade as i32 {
        return refuse("CASCADE");
    }
    if let Some(table) = tables.iter().find(|t| is_partitioned(t)) {
        return Err(Refusal::new(
            format!("cannot drop an index of partitioned table \"{}\" concurrently", table.name),
            "Use DROP INDEX, perhaps after SET lock_timeout: it needs its lock for a moment only.",
        ));
    }
    let plain = DropStmt { concurrent: false, ..s.clone() };
    let home = deparse(NodeEnum::DropStmt(plain.clone()))?;
    let others = deparse(NodeEnum::DropStmt(DropStmt { objects: elsewhere, missing_ok: true, ..plain }))?;
    Ok(Ddl::Nodes(Box::new(cx.home_and(vec![Step::new(home)], vec![Step::new(others)]))))
}

/// DROP OWNED and REASSIGN OWNED.
pub fn owned(cx: &Cx) -> Decided {
    let mut spread = cx.everywhere(cx.sql);
    spread.push_home(FORGET);
    Ok(Ddl::Nodes(Box::new(spread)))
}

/// Roles: home's own words on home; other servers drop what they have.
pub fn roles(cx: &Cx, s: &ast::DropRoleStmt) -> Decided {
    let sql = deparse(NodeEnum::DropRoleStmt(ast::DropRoleStmt { missing_ok: true, ..s.clone() }))?;
    let named = s.roles.iter().filter_map(|r| match &r.node {
        Some(NodeEnum::RoleSpec(role)) if !role.rolename.is_empty() => Some(role.rolename.clone()),
        _ => None,
    });
    Ok(Ddl::Nodes(Box::new(Spread { leaving: named.collect(), ..cx.each_server(&sql) })))
}
