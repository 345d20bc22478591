//! What PostgreSQL refuses for a table that a query of the same session still reads (`CheckTableNotInUse` in its tablecmds.c; 55006).
//!
//! What is dropped is not here, however that comes about: it is seen when it is gone. Who reads what is not known here either.

use catalog::{quote_ident, quote_literal};
use sql::NodeEnum;
use sql::ast::{self, AlterTableType as T, Node, ObjectType as O};
use sql::names;

use super::place::{object_type, range_vars, text};
use super::subtype;

const OWNER: &str = "pg_catalog.pg_has_role(c.relowner, 'USAGE')";

/// A statement that looks whether tables are in use.
pub struct NotInUse<'s> {
    /// What it does, in PostgreSQL's words.
    pub what: &'static str,
    /// Nothing is looked at before but names and rights. Otherwise all else has gone well when this is looked at.
    pub first: bool,
    tables: Vec<&'s ast::RangeVar>,
    /// Of `pg_class` as `c`: the named table may be asked for, and is of the right kind.
    may: String,
    /// The tables that inherit from them count, too.
    children: bool,
    /// So do those that refer to them.
    referring: bool,
    /// So do those to which constraints of these names refer.
    constraints: Vec<&'s str>,
}

impl<'s> NotInUse<'s> {
    /// `None`: the statement looks for no such thing.
    pub fn of(statement: &'s NodeEnum) -> Option<Self> {
        let of = |what, table: &'s Option<ast::RangeVar>| NotInUse {
            what,
            first: false,
            tables: table.iter().collect(),
            may: "true".to_string(),
            children: false,
            referring: false,
            constraints: vec![],
        };
        Some(match statement {
            NodeEnum::TruncateStmt(s) => NotInUse {
                first: true,
                tables: range_vars(&s.relations).collect(),
                may: "pg_catalog.has_table_privilege(c.oid, 'TRUNCATE')".to_string(),
                children: true,
                referring: s.behavior == ast::DropBehavior::DropCascade as i32,
                ..of("TRUNCATE", &None)
            },
            NodeEnum::AlterTableStmt(s) => {
                let kinds = match object_type(s.objtype) {
                    O::ObjectTable => "r,p,v,m,f",
                    O::ObjectMatview => "m",
                    O::ObjectForeignTable => "f",
                    _ => return None,
                };
                let kind = format!("c.relkind OPERATOR(pg_catalog.=) ANY ('{{{kinds}}}'::pg_catalog.\"char\"[])");
                NotInUse {
                    first: true,
                    may: format!("{OWNER} AND {kind}"),
                    children: true,
                    constraints: s.cmds.iter().filter_map(dropped_constraint).collect(),
                    ..of("ALTER TABLE", &s.relation)
                }
            }
            NodeEnum::IndexStmt(s) if !s.concurrent => {
                NotInUse { first: true, may: OWNER.to_string(), ..of("CREATE INDEX", &s.relation) }
            }
            NodeEnum::ClusterStmt(s) => of("CLUSTER", &s.relation),
            NodeEnum::RefreshMatViewStmt(s) => of("REFRESH MATERIALIZED VIEW", &s.relation),
            NodeEnum::CreateStmt(s) if s.partbound.is_some() => {
                NotInUse { tables: range_vars(&s.inh_relations).collect(), ..of("CREATE TABLE .. PARTITION OF", &None) }
            }
            _ => return None,
        })
    }

    /// SQL for home. Its row, if there is one, says which table is in use; a NULL in its place, that the statement will find something
    /// else first. `used`: an array of object ids.
    pub fn question(&self, used: &str) -> String {
        let named = |(n, rv): (usize, &&ast::RangeVar)| {
            let name = quote_literal(&text(names::table(rv)));
            format!("({n}, pg_catalog.to_regclass({name})::pg_catalog.oid, {})", rv.inh)
        };
        let named: Vec<_> = self.tables.iter().enumerate().map(named).collect();
        let mut reached = vec!["SELECT NULL::pg_catalog.oid WHERE false".to_string()];
        if self.children {
            let children = "SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE r.inh AND i.inhparent OPERATOR(pg_catalog.=) r.oid";
            reached.push(children.to_string());
        }
        let of_constraints = |column: &str, of: &str| {
            format!(
                "SELECT k.{column} FROM pg_catalog.pg_constraint k \
                 WHERE k.contype OPERATOR(pg_catalog.=) 'f'::pg_catalog.\"char\" AND k.{of} OPERATOR(pg_catalog.=) r.oid"
            )
        };
        if self.referring {
            reached.push(of_constraints("conrelid", "confrelid"));
        }
        if !self.constraints.is_empty() {
            let names: Vec<_> = self.constraints.iter().map(|name| quote_literal(name)).collect();
            let referred = of_constraints("confrelid", "conrelid");
            let names = names.join(", ");
            reached.push(format!(
                "{referred} AND k.conname OPERATOR(pg_catalog.=) ANY (ARRAY[{names}]::pg_catalog.name[])"
            ));
        }
        format!(
            "WITH RECURSIVE o (n, oid, inh) AS (VALUES {named}), \
             r (n, named, oid, inh) AS (SELECT o.n, o.oid, o.oid, o.inh FROM o \
               UNION SELECT r.n, r.named, x.oid, r.inh FROM r CROSS JOIN LATERAL ({reached}) AS x (oid)), \
             f AS (SELECT r.n, r.oid OPERATOR(pg_catalog.<>) r.named AS further, c.relname, r.oid OPERATOR(pg_catalog.=) ANY ({used}) AS used, \
                 r.oid IS NULL OR r.oid OPERATOR(pg_catalog.=) r.named AND NOT ({may}) AS fails \
               FROM r LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) r.oid) \
             SELECT CASE WHEN f.fails THEN NULL ELSE f.relname END FROM f WHERE f.fails OR f.used ORDER BY f.n, f.further LIMIT 1",
            named = named.join(", "),
            reached = reached.join(" UNION ALL "),
            may = self.may,
        )
    }
}

/// Of tables, by their object ids, and the session's temporary ones of these names, with what inherits from them: an array.
pub fn used(oids: &[catalog::Oid], temporary: &[String]) -> String {
    let oids = oids.iter().map(|oid| format!("{oid}::pg_catalog.oid"));
    let temporary = temporary.iter().map(|name| {
        let name = quote_literal(&format!("pg_temp.{}", quote_ident(name)));
        format!("pg_catalog.to_regclass({name})::pg_catalog.oid")
    });
    let named = oids.chain(temporary).collect::<Vec<_>>().join(", ");
    format!(
        "ARRAY(WITH RECURSIVE u (oid) AS (SELECT pg_catalog.unnest(ARRAY[{named}]::pg_catalog.oid[]) UNION \
         SELECT i.inhrelid FROM u JOIN pg_catalog.pg_inherits i ON i.inhparent OPERATOR(pg_catalog.=) u.oid) SELECT u.oid FROM u)"
    )
}

fn dropped_constraint(cmd: &Node) -> Option<&str> {
    match &cmd.node {
        Some(NodeEnum::AlterTableCmd(c)) if subtype(c) == T::AtDropConstraint => Some(&c.name),
        _ => None,
    }
}
