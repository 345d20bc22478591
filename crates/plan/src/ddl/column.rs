//! ADD COLUMN on tables that several nodes hold: what a default may be, so that rows come out the same as on one server.

use crate::{Refusal, clock_text, reads, rewrite, same};
use catalog::{Relation, quote_literal};
use sql::ast::{self, ConstrType, Node};
use sql::body::Body;
use sql::{NodeEnum, build, names};
use wire::sqlstate;

use super::constraint;
use super::place::{Cx, of_relation};
use super::steps::Check;

/// What adding a column comes to.
#[derive(Default)]
pub struct Added {
    /// The definition, if it had to be changed.
    pub definition: Option<ast::ColumnDef>,
    /// The default to set once the rows have theirs.
    pub later_default: Option<Node>,
    pub check: Option<Check>,
    /// It comes with a sequence.
    pub sequence: bool,
}

/// ADD COLUMN to a distributed or reference table; `Err`: one of its constraints, or its default, is not supported there.
pub fn add(cx: &Cx, table: &Relation, def: &ast::ColumnDef) -> Result<Added, Refusal> {
    let mut added = Added::default();
    let serial = def
        .type_name
        .as_ref()
        .and_then(names::plain_type)
        .is_some_and(|t| matches!(t, "serial" | "serial2" | "serial4" | "serial8" | "smallserial" | "bigserial"));
    let mut identity = false;
    for node in &def.constraints {
        let Some(NodeEnum::Constraint(c)) = &node.node else { continue };
        constraint::check(cx, table, c, Some(&def.colname))?;
        match ConstrType::try_from(c.contype) {
            Ok(ConstrType::ConstrIdentity) => identity = true,
            Ok(ConstrType::ConstrDefault) => {
                let holds = def.type_name.as_ref().is_none_or(|t| clock_text::type_may_hold(t, &cx.names()));
                if let Some(expression) = c.raw_expr.as_deref() {
                    refuse_moment(cx, expression, holds)?;
                }
                default(cx, table, def, c, &mut added);
            }
            _ => {}
        }
    }
    let said =
        |n: &Node| matches!(&n.node, Some(NodeEnum::Constraint(c)) if c.contype == ConstrType::ConstrDefault as i32);
    if table.is_reference() && !def.constraints.iter().any(said) && domains_differ(cx, def) {
        added.check = Some(differing(table, &def.colname));
    }
    if serial || identity {
        added.sequence = true;
        added.check = Some(only_if_empty(
            table,
            &format!("numbering the rows of \"{}\" over several nodes", table.name),
            &def.colname,
        ));
    }
    Ok(added)
}

/// A domain of the column's type's name has a default of its own that each copy would compute for itself.
fn domains_differ(cx: &Cx, def: &ast::ColumnDef) -> bool {
    let Some(t) = &def.type_name else { return false };
    let name = names::last(&t.names);
    let defaults = cx.snapshot.types.values().filter(|t| t.name == name).filter_map(|t| t.default.as_deref());
    defaults.into_iter().any(|d| same::text_differs(cx.snapshot, d))
}

/// A default that is a moment, which each node would read for itself as it is told of it.
pub fn refuse_moment(cx: &Cx, default: &Node, holds: bool) -> Result<(), Refusal> {
    match clock_text::is_read_at_once(default, holds, &cx.names()) {
        false => Ok(()),
        true => Err(Refusal::new(
            format!("{} as a default is not supported: each node would read it by itself", clock_text::said()),
            "Write now() or CURRENT_DATE for the time of each INSERT, or the moment itself.",
        )),
    }
}

fn default(cx: &Cx, table: &Relation, def: &ast::ColumnDef, c: &ast::Constraint, added: &mut Added) {
    let Some(expression) = c.raw_expr.as_deref() else { return };
    if reads::calls_sequence(expression) {
        added.check = Some(only_if_empty(
            table,
            &format!("numbering the rows of \"{}\" over several nodes", table.name),
            &def.colname,
        ));
    } else if table.is_reference()
        && !matches!(expression.node, Some(NodeEnum::AConst(_)))
        && differs(cx, table, expression).is_some()
    {
        // A row of a distributed table is on one node, so its value is computed once; a reference table's copies would differ.
        added.check = Some(differing(table, &def.colname));
    }
    let mut changed = def.clone();
    let mut found = false;
    for node in &mut changed.constraints {
        if let Some(NodeEnum::Constraint(c)) = &mut node.node
            && c.contype == ConstrType::ConstrDefault as i32
            && let Some(expr) = c.raw_expr.as_deref_mut().and_then(|e| e.node.take())
        {
            // Inside a node of its own, so that the expression itself can be replaced.
            let mut outer = NodeEnum::List(ast::List { items: vec![Node { node: Some(expr) }] });
            found |= rewrite::replace_now(&mut outer);
            let NodeEnum::List(mut list) = outer else { continue };
            c.raw_expr = list.items.pop().map(Box::new);
        }
    }
    if found {
        added.later_default = Some(expression.clone());
        added.definition = Some(changed);
    }
}

fn differing(table: &Relation, column: &str) -> Check {
    let what =
        format!("a default for the rows of reference table \"{}\" that could differ from node to node", table.name);
    only_if_empty(table, &what, column)
}

fn only_if_empty(table: &Relation, what: &str, column: &str) -> Check {
    Check {
        sql: format!("SELECT EXISTS (SELECT FROM {})", of_relation(table)),
        refusal: Refusal::new(
            format!("{what} is not supported"),
            format!(
                "Add column \"{column}\" without a default, fill it by UPDATE, then give it its default by ALTER TABLE … ALTER COLUMN … SET DEFAULT."
            ),
        ),
    }
}

/// ADD COLUMN IF NOT EXISTS was planned for a table with the column or without it; it may have got or lost one before it was locked. Refused is
/// that it has `come`, or that it has gone.
pub fn is_there(table: &Relation, column: &str, come: bool) -> Check {
    let (unless, what) = if come { ("", "come") } else { ("NOT ", "gone") };
    Check {
        sql: format!(
            "SELECT {unless}EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass \
             AND attname OPERATOR(pg_catalog.=) {} AND NOT attisdropped)",
            quote_literal(&of_relation(table)),
            quote_literal(column)
        ),
        refusal: Refusal {
            sqlstate: sqlstate::OBJECT_IN_USE,
            message: format!(
                "column \"{column}\" of \"{}\" has {what} while this ran, and nothing was done",
                table.name
            ),
            hint: Some("Run the statement again.".into()),
        },
    }
}

/// What each node would make another value of, in the user's words; the statement's time is put in already. `expression`: over
/// the columns of a table.
pub fn differs(cx: &Cx, table: &Relation, expression: &Node) -> Option<String> {
    let mut list = NodeEnum::List(ast::List { items: vec![expression.clone()] });
    rewrite::replace_now(&mut list);
    let NodeEnum::List(list) = &list else { return None };
    let mut select = build::select();
    select.target_list = list.items.iter().map(|n| build::target(n.clone(), None)).collect();
    let rv = ast::RangeVar {
        schemaname: table.schema.clone(),
        relname: table.name.clone(),
        inh: true,
        ..Default::default()
    };
    select.from_clause = vec![build::node(NodeEnum::RangeVar(rv))];
    let tree = NodeEnum::SelectStmt(Box::new(select));
    same::differs(cx.snapshot, &cx.facts.search_path, &Body::of_expression(list.items.first()?))
        .or_else(|| clock_text::read(&tree, &cx.names()))
}

/// As a literal: no name in the body ends it.
pub fn do_block(body: &str) -> String {
    format!("DO {}", quote_literal(body))
}

/// Exhausts the sequence behind a column, on nodes that are not home: values come from home alone.
pub fn exhaust_column(table: &Relation, column: &str) -> String {
    let sequence =
        format!("pg_catalog.pg_get_serial_sequence({}, {})", quote_literal(&of_relation(table)), quote_literal(column));
    exhaust(&sequence)
}

/// `sequence`: an expression of its name.
pub fn exhaust(sequence: &str) -> String {
    let body = format!(
        "DECLARE s record; BEGIN FOR s IN SELECT seqrelid::pg_catalog.regclass AS name, \
         CASE WHEN seqincrement OPERATOR(pg_catalog.<) 0 THEN seqmin ELSE seqmax END AS last FROM pg_catalog.pg_sequence \
         WHERE seqrelid OPERATOR(pg_catalog.=) {sequence}::pg_catalog.regclass LOOP \
         EXECUTE pg_catalog.format('ALTER SEQUENCE %s NO CYCLE', s.name); \
         PERFORM pg_catalog.setval(s.name, s.last, true); END LOOP; END"
    );
    do_block(&body)
}

/// Who may insert may take the values of identity columns: the router calls nextval() in the client's name.
pub fn grant_identities(table: &Relation) -> String {
    let body = format!(
        "DECLARE g record; BEGIN FOR g IN SELECT s.oid::pg_catalog.regclass AS sequence, \
         CASE WHEN a.grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option, CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0 THEN 'PUBLIC' ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END AS role \
         FROM pg_catalog.pg_class t JOIN pg_catalog.pg_depend d ON d.refobjid OPERATOR(pg_catalog.=) t.oid AND d.deptype OPERATOR(pg_catalog.=) 'i' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass \
         JOIN pg_catalog.pg_class s ON s.oid OPERATOR(pg_catalog.=) d.objid AND s.relkind OPERATOR(pg_catalog.=) 'S', \
         LATERAL (SELECT h.grantee, pg_catalog.bool_or(h.is_grantable) AS grantable FROM ({INSERTERS}) h GROUP BY 1) a \
         WHERE t.oid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass AND a.grantee OPERATOR(pg_catalog.<>) t.relowner \
         AND NOT EXISTS (SELECT FROM pg_catalog.aclexplode(s.relacl) y WHERE y.privilege_type OPERATOR(pg_catalog.=) 'USAGE' \
             AND y.grantee OPERATOR(pg_catalog.=) a.grantee AND (y.is_grantable OR NOT a.grantable)) LOOP \
         EXECUTE pg_catalog.format('GRANT USAGE ON SEQUENCE %s TO %s%s', g.sequence, g.role, g.option); END LOOP; END",
        quote_literal(&of_relation(table))
    );
    do_block(&body)
}

/// Who may insert into table `t`, or into columns of it.
const INSERTERS: &str = "SELECT x.grantee, x.is_grantable FROM pg_catalog.aclexplode(t.relacl) x WHERE x.privilege_type OPERATOR(pg_catalog.=) 'INSERT' \
     UNION ALL SELECT x.grantee, x.is_grantable FROM pg_catalog.pg_attribute c, pg_catalog.aclexplode(c.attacl) x \
     WHERE c.attrelid OPERATOR(pg_catalog.=) t.oid AND x.privilege_type OPERATOR(pg_catalog.=) 'INSERT'";

/// Takes them back from those of `roles` (object ids) who may insert no more, or may no longer let others do so.
pub fn revoke_identities(table: &Relation, roles: &[String]) -> String {
    let body = format!(
        "DECLARE g record; BEGIN FOR g IN SELECT s.oid::pg_catalog.regclass AS sequence, \
         CASE WHEN EXISTS (SELECT FROM ({INSERTERS}) h WHERE h.grantee OPERATOR(pg_catalog.=) u.grantee) THEN 'GRANT OPTION FOR ' ELSE '' END AS option, \
         CASE WHEN u.grantee OPERATOR(pg_catalog.=) 0 THEN 'PUBLIC' ELSE u.grantee::pg_catalog.regrole::pg_catalog.text END AS role \
         FROM pg_catalog.pg_class t JOIN pg_catalog.pg_depend d ON d.refobjid OPERATOR(pg_catalog.=) t.oid AND d.deptype OPERATOR(pg_catalog.=) 'i' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass \
         JOIN pg_catalog.pg_class s ON s.oid OPERATOR(pg_catalog.=) d.objid AND s.relkind OPERATOR(pg_catalog.=) 'S', \
         LATERAL (SELECT y.grantee, pg_catalog.bool_or(y.is_grantable) AS grantable FROM pg_catalog.aclexplode(s.relacl) y \
             WHERE y.privilege_type OPERATOR(pg_catalog.=) 'USAGE' GROUP BY 1) u \
         WHERE t.oid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass AND u.grantee OPERATOR(pg_catalog.<>) t.relowner \
         AND u.grantee OPERATOR(pg_catalog.=) ANY (ARRAY[{}]::pg_catalog.oid[]) \
         AND NOT EXISTS (SELECT FROM ({INSERTERS}) h WHERE h.grantee OPERATOR(pg_catalog.=) u.grantee AND (h.is_grantable OR NOT u.grantable)) LOOP \
         EXECUTE pg_catalog.format('REVOKE %sUSAGE ON SEQUENCE %s FROM %s CASCADE', g.option, g.sequence, g.role); END LOOP; END",
        quote_literal(&of_relation(table)),
        roles.join(", ")
    );
    do_block(&body)
}
