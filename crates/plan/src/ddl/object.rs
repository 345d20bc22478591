//! What is not a table but what tables need: schemas, types, functions, extensions, roles… They are on every node.
//! And statements about any object that is only named: COMMENT, SECURITY LABEL, OWNER TO.

use crate::Refusal;
use catalog::{RelationKind, quote_literal};
use sql::ast::{self, Node, ObjectType as O};
use sql::{NodeEnum, names, search};

use super::place::{Cx, Name, is_herd, is_view, name_of, object_type, regclass_exists, strings_of, text};
use super::{Ddl, Decided, column, drop, rename, role, schema};
use crate::clock_text;

fn nodes(spread: super::Spread) -> Decided {
    Ok(Ddl::Nodes(Box::new(spread)))
}

/// Statements about one object of a kind that the statement names.
pub fn on_object(cx: &Cx, kind: i32, object: Option<&Node>) -> Decided {
    let kind = object_type(kind);
    let parts = object.map(strings_of).unwrap_or_default();
    let Some(name) = name_of(&parts) else { return Ok(Ddl::Home) };
    let relation = match kind {
        O::ObjectTable
        | O::ObjectView
        | O::ObjectMatview
        | O::ObjectForeignTable
        | O::ObjectSequence
        | O::ObjectIndex => Some(name),
        O::ObjectColumn | O::ObjectTabconstraint | O::ObjectTrigger | O::ObjectPolicy | O::ObjectRule => {
            parts.split_last().and_then(|(_, table)| name_of(table))
        }
        _ => None,
    };
    match (relation, kind) {
        // Only home has them.
        (_, O::ObjectRule) => Ok(Ddl::Home),
        (Some(name), _) => on_relation(cx, name),
        (
            None,
            O::ObjectMatview | O::ObjectForeignTable | O::ObjectEventTrigger | O::ObjectFdw | O::ObjectForeignServer,
        ) => Ok(Ddl::Home),
        (
            None,
            O::ObjectPublication
            | O::ObjectSubscription
            | O::ObjectTablespace
            | O::ObjectDatabase
            | O::ObjectLargeobject,
        ) => Ok(Ddl::Home),
        (None, O::ObjectUserMapping) => Ok(Ddl::Home),
        (None, O::ObjectRole) => nodes(cx.each_server(cx.sql)),
        (None, _) => match guard(kind, object, name) {
            Some(guard) => nodes(cx.everywhere_if(guard)),
            None => nodes(cx.everywhere(cx.sql)),
        },
    }
}

fn on_relation(cx: &Cx, name: Name) -> Decided {
    cx.not_ours(name)?;
    match cx.find(name) {
        Some(r) if is_herd(r) => nodes(cx.everywhere(cx.sql)),
        Some(r) if is_view(r) && cx.view_is_local(r) => Ok(Ddl::Home),
        Some(r) if is_view(r) || r.kind == RelationKind::Sequence => nodes(cx.everywhere_if(regclass_exists(name))),
        None if cx.table_of_index(name).is_some() => nodes(cx.everywhere(cx.sql)),
        _ => Ok(Ddl::Home),
    }
}

/// As [`on_object`], for a list of names.
pub fn named(cx: &Cx, kind: O, name: &[Node]) -> Decided {
    let list = Node { node: Some(NodeEnum::List(ast::List { items: name.to_vec() })) };
    on_object(cx, kind as i32, Some(&list))
}

/// The condition that a node has the object at all: it may have been made on home before there was a herd.
pub fn guard(kind: O, object: Option<&Node>, name: Name) -> Option<String> {
    let literal = quote_literal(&text(name));
    Some(match kind {
        O::ObjectSchema => format!("pg_catalog.to_regnamespace({literal}) IS NOT NULL"),
        O::ObjectType | O::ObjectDomain | O::ObjectDomconstraint => {
            // Of a domain's constraint, the object is a list of the domain and the constraint's name.
            let domain = match object.and_then(|o| o.node.as_ref()) {
                Some(NodeEnum::List(l)) if kind == O::ObjectDomconstraint => {
                    let parts = l.items.first().map(strings_of).unwrap_or_default();
                    quote_literal(&text(name_of(&parts)?))
                }
                _ => literal,
            };
            format!("pg_catalog.to_regtype({domain}) IS NOT NULL")
        }
        O::ObjectFunction | O::ObjectProcedure | O::ObjectRoutine | O::ObjectAggregate => {
            format!(
                "EXISTS (SELECT FROM pg_catalog.pg_proc WHERE proname OPERATOR(pg_catalog.=) {})",
                quote_literal(name.1)
            )
        }
        O::ObjectStatisticExt => {
            format!(
                "EXISTS (SELECT FROM pg_catalog.pg_statistic_ext WHERE stxname OPERATOR(pg_catalog.=) {})",
                quote_literal(name.1)
            )
        }
        _ => return None,
    })
}

/// All statements that no other file knows.
pub fn other(cx: &Cx) -> Decided {
    use NodeEnum::*;
    match cx.statement {
        AlterOwnerStmt(s) => rename::owner(cx, s),
        DropOwnedStmt(_) | ReassignOwnedStmt(_) => drop::owned(cx),
        DropRoleStmt(s) => drop::roles(cx, s),
        CreateRoleStmt(_) | AlterRoleStmt(_) | GrantRoleStmt(_) => nodes(cx.each_server(cx.sql)),
        AlterRoleSetStmt(s) => role::set(cx, s),
        AlterDatabaseSetStmt(s) => role::database_set(cx, s),
        CreateSchemaStmt(s) => schema::create(cx, s),
        CreateFunctionStmt(s) => function(cx, s),
        AlterFunctionStmt(s) => match &s.func {
            Some(f) => on_object(cx, s.objtype, Some(&Node { node: Some(ObjectWithArgs(f.clone())) })),
            None => Ok(Ddl::Home),
        },
        AlterObjectDependsStmt(s) => match &s.relation {
            Some(rv) => on_relation(cx, names::table(rv)),
            None => on_object(cx, s.object_type, s.object.as_deref()),
        },
        AlterEnumStmt(s) => named(cx, O::ObjectType, &s.type_name),
        AlterTypeStmt(s) => named(cx, O::ObjectType, &s.type_name),
        AlterDomainStmt(s) => {
            // 'T' is SET DEFAULT (parsenodes.h).
            if let Some(default) = s.def.as_deref().filter(|_| s.subtype == "T") {
                domain_default(cx, default, None)?;
            }
            named(cx, O::ObjectDomain, &s.type_name)
        }
        DefineStmt(s) => defined(cx, s.defnames.len() < 2),
        CompositeTypeStmt(s) => defined(cx, s.typevar.as_ref().is_some_and(|t| t.schemaname.is_empty())),
        CreateEnumStmt(s) => defined(cx, s.type_name.len() < 2),
        CreateRangeStmt(s) => defined(cx, s.type_name.len() < 2),
        CreateDomainStmt(s) => {
            for n in &s.constraints {
                if let Some(Constraint(c)) = &n.node
                    && c.contype == ast::ConstrType::ConstrDefault as i32
                    && let Some(default) = c.raw_expr.as_deref()
                {
                    domain_default(cx, default, s.type_name.as_ref())?;
                }
            }
            defined(cx, s.domainname.len() < 2)
        }
        CreateExtensionStmt(_) => defined(cx, true),
        CreateCastStmt(_) | CreateConversionStmt(_) | CreateTransformStmt(_) | CreateAmStmt(_) | CreatePlangStmt(_) => {
            defined(cx, false)
        }
        CreateOpClassStmt(_)
        | CreateOpFamilyStmt(_)
        | AlterOpFamilyStmt(_)
        | AlterOperatorStmt(_)
        | AlterCollationStmt(_) => defined(cx, false),
        AlterExtensionStmt(_) | AlterExtensionContentsStmt(_) | AlterDefaultPrivilegesStmt(_) => defined(cx, false),
        AlterTsdictionaryStmt(_) | AlterTsconfigurationStmt(_) => defined(cx, false),
        CreatePublicationStmt(s) => publication(cx, &s.pubobjects, s.for_all_tables),
        AlterPublicationStmt(s) => publication(cx, &s.pubobjects, s.for_all_tables),
        CreateSubscriptionStmt(_) => Err(on_each("CREATE SUBSCRIPTION")),
        AlterSystemStmt(_) => Err(on_each("ALTER SYSTEM")),
        AlterTableMoveAllStmt(_) => Err(on_each("ALTER … ALL IN TABLESPACE")),
        // Databases, tablespaces, foreign servers, event triggers, materialized views: home's own affair.
        _ => Ok(Ddl::Home),
    }
}

fn on_each(what: &str) -> Refusal {
    Refusal::new(
        format!("{what} is not supported through the router"),
        "Connect to each node directly and run it there.",
    )
}

/// Each node that is told of a domain's default would read a moment in it by itself.
fn domain_default(cx: &Cx, default: &Node, of: Option<&ast::TypeName>) -> Result<(), Refusal> {
    let holds = of.is_none_or(|t| clock_text::type_may_hold(t, &cx.names()));
    if cx.others().is_empty() { Ok(()) } else { column::refuse_moment(cx, default, holds) }
}

/// A new object, on every node unless it needs something that only home has.
fn defined(cx: &Cx, unqualified: bool) -> Decided {
    if uses_local_type(cx) {
        return Ok(Ddl::Home);
    }
    let mut spread = cx.everywhere(cx.sql);
    spread.unqualified = unqualified;
    nodes(spread)
}

fn function(cx: &Cx, s: &ast::CreateFunctionStmt) -> Decided {
    let body = s.sql_body.as_deref().map(|b| super::create::reads_of_tree(cx, b)).unwrap_or_default();
    if uses_local_type(cx) || body.local {
        if body.distributed {
            return Err(super::create::mixed("a function"));
        }
        return Ok(Ddl::Home);
    }
    let mut spread = cx.everywhere(cx.sql);
    spread.unqualified = s.funcname.len() < 2;
    // Its body may name local tables, which other nodes do not have: home has checked it.
    spread.settings = &[("check_function_bodies", "off")];
    nodes(spread)
}

/// The types that a statement names, and whether each is the relation of a column's type (`t.c%TYPE`). Texts of functions are not looked into.
pub fn types_named(statement: &NodeEnum) -> Vec<(Name<'_>, bool)> {
    let mut types: Vec<&ast::TypeName> = vec![];
    search::each(statement, |n| match n {
        NodeEnum::TypeName(t) => types.push(t),
        NodeEnum::FunctionParameter(p) => types.extend(p.arg_type.as_ref()),
        NodeEnum::ColumnDef(d) => types.extend(d.type_name.as_ref()),
        NodeEnum::TypeCast(t) => types.extend(t.type_name.as_ref()),
        _ => {}
    });
    match statement {
        NodeEnum::CreateFunctionStmt(s) => types.extend(s.return_type.as_ref()),
        NodeEnum::CreateDomainStmt(s) => types.extend(s.type_name.as_ref()),
        NodeEnum::CreateCastStmt(s) => types.extend(s.sourcetype.iter().chain(s.targettype.as_ref())),
        _ => {}
    }
    let mut named = Vec::new();
    for t in types {
        let mut parts = names::strings(&t.names);
        if t.pct_type {
            parts.pop();
        }
        named.extend(name_of(&parts).map(|name| (name, t.pct_type)));
    }
    named
}

/// The row type of a local or temporary table exists on home alone.
fn uses_local_type(cx: &Cx) -> bool {
    types_named(cx.statement).into_iter().any(|(name, of_column)| {
        let temporary = name.0.is_none() && cx.facts.temporary.iter().any(|t| t == name.1);
        temporary
            || if of_column { cx.find(name) } else { cx.rows_of(name) }.is_some_and(|r| {
                !is_herd(r) && r.kind != RelationKind::Sequence && (!is_view(r) || cx.view_is_local(r))
            })
    })
}

/// Home has only some of the rows of the herd's tables.
fn publication(cx: &Cx, objects: &[Node], all: bool) -> Decided {
    let herd = objects.iter().any(|o| match &o.node {
        Some(NodeEnum::PublicationObjSpec(p)) => match p.pubtable.as_ref().and_then(|t| t.relation.as_ref()) {
            Some(rv) => cx.herd_var(rv).is_some(),
            // Of a whole schema.
            None => true,
        },
        _ => false,
    });
    if all || herd {
        return Err(Refusal::new(
            "a publication of tables that are on several nodes is not supported through the router",
            "Connect to each node directly and create it there: each node publishes the rows it has.",
        ));
    }
    Ok(Ddl::Home)
}
