//! RENAME and SET SCHEMA. The catalog's rows follow tables and schemas, in the same transaction.

use catalog::{Relation, RelationKind, quote_ident, quote_literal};
use sql::NodeEnum;
use sql::ast::{self, AlterObjectSchemaStmt, ObjectType as O, RenameStmt};
use sql::names;
use wire::sqlstate;

use crate::refuse::Refusal;

use super::place::{Cx, deparse, is_herd, is_view, object_type, regclass_exists, text, whole};
use super::steps::{Spread, Step};
use super::{Ddl, Decided, object};

/// ALTER … RENAME of anything: tables, columns, schemas, roles, other objects.
pub fn rename(cx: &Cx, s: &RenameStmt) -> Decided {
    let kind = object_type(s.rename_type);
    match kind {
        O::ObjectSchema => {
            cx.not_ours((Some(&s.subname), "*"))?;
            let guard = format!("pg_catalog.to_regnamespace({}) IS NOT NULL", quote_literal(&quote_ident(&s.subname)));
            let mut spread = cx.everywhere_if(guard);
            let mut tables: Vec<&Relation> = cx
                .snapshot
                .relations
                .values()
                .map(|r| r.as_ref())
                .filter(|r| r.schema == s.subname && is_herd(r))
                .collect();
            tables.sort_by(|a, b| a.name.cmp(&b.name));
            tables.iter().for_each(|r| follow(&mut spread, r, &s.newname, &r.name));
            return Ok(Ddl::Nodes(Box::new(spread)));
        }
        O::ObjectRole => return Ok(Ddl::Nodes(Box::new(cx.each_server(cx.sql)))),
        O::ObjectAttribute => {
            let Some(rv) = &s.relation else { return Ok(Ddl::Home) };
            let guard = format!("pg_catalog.to_regtype({}) IS NOT NULL", quote_literal(&text(names::table(rv))));
            return Ok(Ddl::Nodes(Box::new(cx.everywhere_if(guard))));
        }
        // Only home has them.
        O::ObjectRule => return Ok(Ddl::Home),
        _ => {}
    }
    let Some(rv) = &s.relation else {
        return object::on_object(cx, s.rename_type, s.object.as_deref());
    };
    let name = names::table(rv);
    cx.not_ours(name)?;
    let relation = cx.find(name);
    match relation {
        Some(r) if is_herd(r) => {
            let tree = NodeEnum::RenameStmt(Box::new(RenameStmt { relation: Some(whole(rv)), ..s.clone() }));
            let sql = if tree == *cx.statement { cx.sql.to_string() } else { deparse(tree)? };
            let mut spread = cx.everywhere(&sql);
            if is_relation(kind) {
                follow(&mut spread, r, &r.schema, &s.newname);
            }
            Ok(Ddl::Nodes(Box::new(spread)))
        }
        Some(r) if is_view(r) && cx.view_is_local(r) => Ok(Ddl::Home),
        Some(r) if is_view(r) || r.kind == RelationKind::Sequence => {
            Ok(Ddl::Nodes(Box::new(cx.everywhere_if(regclass_exists(name)))))
        }
        Some(_) => Ok(Ddl::Home),
        None if cx.table_of_index(name).is_some() => Ok(Ddl::Nodes(Box::new(cx.everywhere(cx.sql)))),
        None => Ok(Ddl::Home),
    }
}

/// ALTER TABLE … RENAME names any relation.
fn is_relation(kind: O) -> bool {
    matches!(
        kind,
        O::ObjectTable | O::ObjectView | O::ObjectIndex | O::ObjectSequence | O::ObjectMatview | O::ObjectForeignTable
    )
}

fn follow(spread: &mut Spread, r: &Relation, schema: &str, name: &str) {
    let parts = [&r.schema, &r.name, schema, name].map(quote_literal);
    spread.push_home(format!("SELECT herd.follow_rename({})", parts.join(", ")));
}

/// ALTER … SET SCHEMA; other nodes get the schema first where they lack it.
pub fn set_schema(cx: &Cx, s: &AlterObjectSchemaStmt) -> Decided {
    let Some(rv) = &s.relation else {
        return object::on_object(cx, s.object_type, s.object.as_deref()).map(|d| with_schema(d, &s.newschema));
    };
    let name = names::table(rv);
    cx.not_ours(name)?;
    cx.not_ours((Some(&s.newschema), name.1))?;
    match cx.find(name) {
        Some(_) if s.newschema.starts_with("pg_") || s.newschema == "information_schema" => Err(Refusal {
            sqlstate: sqlstate::INSUFFICIENT_PRIVILEGE,
            message: format!(
                "permission denied: the system catalog schema \"{}\" is not for users' tables",
                s.newschema
            ),
            hint: None,
        }),
        Some(r) if is_herd(r) => {
            let tree = NodeEnum::AlterObjectSchemaStmt(Box::new(AlterObjectSchemaStmt {
                relation: Some(whole(rv)),
                ..s.clone()
            }));
            let sql = if tree == *cx.statement { cx.sql.to_string() } else { deparse(tree)? };
            let mut spread = cx.everywhere(&sql);
            follow(&mut spread, r, &s.newschema, &r.name);
            Ok(with_schema(Ddl::Nodes(Box::new(spread)), &s.newschema))
        }
        Some(r) if is_view(r) && cx.view_is_local(r) => Ok(Ddl::Home),
        Some(r) if is_view(r) || r.kind == RelationKind::Sequence => {
            Ok(with_schema(Ddl::Nodes(Box::new(cx.everywhere_if(regclass_exists(name)))), &s.newschema))
        }
        _ => Ok(Ddl::Home),
    }
}

/// A schema that so far only local tables were in may be missing elsewhere.
fn with_schema(decided: Ddl, schema: &str) -> Ddl {
    let Ddl::Nodes(mut spread) = decided else { return decided };
    let name = quote_ident(schema);
    let missing = format!("pg_catalog.to_regnamespace({}) IS NULL", quote_literal(&name));
    let create = Step::guarded(missing, format!("CREATE SCHEMA {name}"));
    spread.nodes.iter_mut().skip(1).for_each(|n| n.steps.insert(0, create.clone()));
    Ddl::Nodes(spread)
}

/// ALTER … OWNER TO of what is not a relation.
pub fn owner(cx: &Cx, s: &ast::AlterOwnerStmt) -> Decided {
    object::on_object(cx, s.object_type, s.object.as_deref())
}
