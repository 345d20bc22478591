//! GRANT and REVOKE. Partitions, which statements may name directly, get the privileges of their parents.

use crate::Refusal;
use catalog::{Relation, RelationKind};
use sql::NodeEnum;
use sql::ast::{GrantStmt, GrantTargetType, Node, ObjectType as O, RoleSpecType};

use super::place::{Cx, deparse, is_herd, is_view, name_of, object_type, strings_of};
use super::steps::{Spread, Step};
use super::{Ddl, Decided, alter, column, object, role};

/// GRANT and REVOKE of privileges, for each object where it is.
pub fn grant(cx: &Cx, s: &GrantStmt) -> Decided {
    let kind = object_type(s.objtype);
    let target = GrantTargetType::try_from(s.targtype).unwrap_or(GrantTargetType::Undefined);
    let objects: Vec<(Vec<&str>, &Node)> = s.objects.iter().map(|o| (strings_of(o), o)).collect();
    if target == GrantTargetType::AclTargetAllInSchema {
        return all_in_schema(cx, s, kind, &objects);
    }
    match kind {
        O::ObjectTable | O::ObjectSequence => on_relations(cx, s, &objects),
        O::ObjectDatabase => match &objects[..] {
            [(parts, _)] if parts.len() == 1 => role::in_databases(cx, parts[0], |name| {
                let objects = vec![sql::build::string(&name)];
                NodeEnum::GrantStmt(GrantStmt { objects, ..s.clone() })
            }),
            _ => Ok(Ddl::Home),
        },
        O::ObjectTablespace | O::ObjectLargeobject | O::ObjectForeignServer | O::ObjectFdw => Ok(Ddl::Home),
        O::ObjectParameterAcl => Ok(Ddl::Nodes(Box::new(cx.each_server(cx.sql)))),
        _ => {
            let others = one_by_one(cx, s, kind, &objects)?;
            Ok(Ddl::Nodes(Box::new(cx.home_and(vec![Step::new(cx.sql)], others))))
        }
    }
}

/// A statement for each object, where the node has it.
fn one_by_one(cx: &Cx, s: &GrantStmt, kind: O, objects: &[(Vec<&str>, &Node)]) -> Result<Vec<Step>, Refusal> {
    let mut steps = Vec::new();
    for (parts, object) in objects {
        let sql = if objects.len() == 1 { cx.sql.to_string() } else { only(s, vec![(*object).clone()])? };
        let guard = name_of(parts).and_then(|name| object::guard(kind, Some(object), name));
        steps.push(Step { guard, ..Step::new(sql) });
    }
    Ok(steps)
}

fn only(s: &GrantStmt, objects: Vec<Node>) -> Result<String, Refusal> {
    deparse(NodeEnum::GrantStmt(GrantStmt { objects, ..s.clone() }))
}

fn on_relations(cx: &Cx, s: &GrantStmt, objects: &[(Vec<&str>, &Node)]) -> Decided {
    let (mut tables, mut known, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (parts, object) in objects {
        let Some(name) = name_of(parts) else { continue };
        cx.not_ours(name)?;
        match cx.find(name) {
            Some(r) if is_herd(r) => {
                tables.push((*object).clone());
                known.push(r.as_ref());
            }
            Some(r) if is_view(r) && cx.view_is_local(r) => {}
            Some(r) if is_view(r) || r.kind == RelationKind::Sequence => {
                let sql = if objects.len() == 1 { cx.sql.to_string() } else { only(s, vec![(*object).clone()])? };
                others.push(Step::guarded(super::place::regclass_exists(name), sql));
            }
            _ => {}
        }
    }
    if !tables.is_empty() {
        let sql = if tables.len() == objects.len() { cx.sql.to_string() } else { only(s, tables)? };
        others.insert(0, Step::new(sql));
    }
    if others.is_empty() {
        return Ok(Ddl::Home);
    }
    let mut spread = cx.home_and(vec![Step::new(cx.sql)], others);
    follow(&mut spread, s, &known);
    Ok(Ddl::Nodes(Box::new(spread)))
}

fn follow(spread: &mut Spread, s: &GrantStmt, tables: &[&Relation]) {
    for r in tables {
        if r.distribution().is_some() {
            alter::mirror(spread, r);
        }
        if r.columns.iter().any(|c| c.identity != 0) {
            spread.push_home(match s.is_grant {
                true => column::grant_identities(r),
                false => column::revoke_identities(r, &grantees(s)),
            });
        }
    }
}

/// Object ids of those it names.
fn grantees(s: &GrantStmt) -> Vec<String> {
    let oid = |name: &str| format!("{name}::pg_catalog.regrole::pg_catalog.oid");
    let own = |who: &str| oid(&format!("pg_catalog.quote_ident({who}::pg_catalog.text)"));
    let roles = s.grantees.iter().filter_map(|node| match &node.node {
        Some(NodeEnum::RoleSpec(role)) => Some(role),
        _ => None,
    });
    let each = roles.map(|role| match RoleSpecType::try_from(role.roletype).unwrap_or(RoleSpecType::Undefined) {
        RoleSpecType::RolespecPublic => "'0'".to_string(),
        RoleSpecType::RolespecSessionUser => own("session_user"),
        RoleSpecType::RolespecCurrentRole | RoleSpecType::RolespecCurrentUser => own("current_user"),
        RoleSpecType::RolespecCstring | RoleSpecType::Undefined => {
            oid(&catalog::quote_literal(&catalog::quote_ident(&role.rolename)))
        }
    });
    each.collect()
}

fn all_in_schema(cx: &Cx, s: &GrantStmt, kind: O, objects: &[(Vec<&str>, &Node)]) -> Decided {
    let mut others = Vec::new();
    for (parts, object) in objects {
        let Some(name) = name_of(parts) else { continue };
        let sql = if objects.len() == 1 { cx.sql.to_string() } else { only(s, vec![(*object).clone()])? };
        others.push(Step { guard: object::guard(O::ObjectSchema, None, name), ..Step::new(sql) });
    }
    let mut spread = cx.home_and(vec![Step::new(cx.sql)], others);
    if kind == O::ObjectTable {
        let mut tables: Vec<&Relation> = cx.snapshot.relations.values().map(|r| r.as_ref()).collect();
        tables.retain(|r| is_herd(r) && objects.iter().any(|(parts, _)| parts.last() == Some(&r.schema.as_str())));
        tables.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        follow(&mut spread, s, &tables);
    }
    Ok(Ddl::Nodes(Box::new(spread)))
}
