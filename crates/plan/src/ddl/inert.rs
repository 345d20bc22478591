//! Changes that add no code and give no name in anybody's code another meaning, so that nothing need be judged once they are
//! made: plain columns, plain tables whose name nobody's code has, indexes of plain columns.
//!
//! What is not known to be of this kind is not. It does not know how code is judged (`crate::code`).

use catalog::{Relation, Snapshot};
use memchr::memmem::Finder;
use sql::NodeEnum;
use sql::ast::{self, AlterTableType as T, ConstrType, Node, ObjectType};
use sql::names;
use wire::type_oid;

use super::place::object_type;
use super::{Facts, subtype};

/// Types whose values PostgreSQL compares by functions of its own: nobody else can make a default operator class for them.
const PLAIN: &[&str] = &[
    "bool",
    "bpchar",
    "bytea",
    "char",
    "date",
    "float4",
    "float8",
    "int2",
    "int4",
    "int8",
    "interval",
    "name",
    "numeric",
    "oid",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "uuid",
    "varchar",
];

/// True where no code runs, comes to be or goes by the change: it needs no judge.
pub fn inert(statement: &NodeEnum, snapshot: &Snapshot, facts: &Facts) -> bool {
    // Event triggers run with any change.
    if snapshot.code.unnamed.iter().any(|u| u.what == "event trigger") {
        return false;
    }
    let column = |n: &Node| matches!(&n.node, Some(NodeEnum::ColumnDef(d)) if is_plain_column(d, snapshot));
    let added = |n: &Node| column(n) && is_no_keys_name(n, snapshot);
    match statement {
        NodeEnum::AlterTableStmt(s) => {
            object_type(s.objtype) == ObjectType::ObjectTable
                && s.cmds.iter().all(|n| match &n.node {
                    Some(NodeEnum::AlterTableCmd(c)) => {
                        subtype(c) == T::AtAddColumn && c.def.as_deref().is_some_and(added)
                    }
                    _ => false,
                })
        }
        NodeEnum::CreateStmt(s) => {
            let Some(rv) = &s.relation else { return false };
            let element = |n: &Node| match &n.node {
                Some(NodeEnum::Constraint(c)) => is_plain_constraint(c),
                _ => column(n),
            };
            rv.relpersistence == "p"
                && s.inh_relations.is_empty()
                && s.of_typename.is_none()
                && s.partspec.is_none()
                && s.partbound.is_none()
                && s.access_method.is_empty()
                && s.table_elts.iter().all(element)
                && s.constraints.iter().all(element)
                && is_nobodys_word(&rv.relname, snapshot)
        }
        NodeEnum::IndexStmt(s) => {
            let table = s
                .relation
                .as_ref()
                .map(names::table)
                .filter(|(schema, name)| schema.is_some() || !facts.temporary.iter().any(|t| t == *name));
            let table = table.and_then(|(schema, name)| snapshot.resolve(schema, name, &facts.search_path));
            let params = || s.index_params.iter().chain(&s.index_including_params);
            !s.concurrent
                && s.where_clause.is_none()
                && s.exclude_op_names.is_empty()
                && matches!(&*s.access_method, "" | "btree" | "hash")
                && table.is_some_and(|r| params().all(|n| is_plain_key(n, r)))
        }
        _ => false,
    }
}

/// Of triggers' code it was proved which columns its names mean ([`crate::code`], `same_key.rs`).
fn is_no_keys_name(n: &Node, snapshot: &Snapshot) -> bool {
    let distributed = |r: &Relation| r.distribution().is_some() && r.triggers;
    let Some(NodeEnum::ColumnDef(d)) = &n.node else { return false };
    !snapshot.relations.values().any(|r| distributed(r)) || is_nobodys_word(&d.colname, snapshot)
}

fn is_plain_column(d: &ast::ColumnDef, snapshot: &Snapshot) -> bool {
    let plain = d.type_name.as_ref().and_then(names::plain_type).is_some_and(|name| PLAIN.contains(&name));
    // A user's type of that name may be meant.
    let ours = |t: &ast::TypeName| {
        matches!(names::strings(&t.names)[..], ["pg_catalog", _])
            || names::plain_type(t).is_some_and(|name| !snapshot.types.values().any(|u| u.name == name))
    };
    plain
        && d.type_name.as_ref().is_some_and(ours)
        && d.coll_clause.is_none()
        && d.raw_default.is_none()
        && d.identity.is_empty()
        && d.generated.is_empty()
        && d.constraints.iter().all(|n| matches!(&n.node, Some(NodeEnum::Constraint(c)) if is_plain_constraint(c)))
}

fn is_plain_constraint(c: &ast::Constraint) -> bool {
    match ConstrType::try_from(c.contype) {
        Ok(
            ConstrType::ConstrNull | ConstrType::ConstrNotnull | ConstrType::ConstrPrimary | ConstrType::ConstrUnique,
        ) => true,
        Ok(ConstrType::ConstrDefault) => {
            matches!(c.raw_expr.as_deref(), Some(Node { node: Some(NodeEnum::AConst(_)) }))
        }
        _ => false,
    }
}

fn is_plain_key(n: &Node, table: &Relation) -> bool {
    let Some(NodeEnum::IndexElem(e)) = &n.node else { return false };
    let column = table.column(&e.name).map(|at| &table.columns[at]);
    e.expr.is_none()
        && e.opclass.is_empty()
        && e.collation.is_empty()
        && column
            .is_some_and(|c| c.type_oid < type_oid::FIRST_NORMAL_OBJECT_ID && PLAIN.contains(&plain_name(c.type_oid)))
}

/// As pg_type names them.
fn plain_name(oid: catalog::Oid) -> &'static str {
    use wire::type_oid::*;
    match oid {
        BOOL => "bool",
        BYTEA => "bytea",
        CHAR => "char",
        NAME => "name",
        INT8 => "int8",
        INT2 => "int2",
        INT4 => "int4",
        TEXT => "text",
        OID => "oid",
        FLOAT4 => "float4",
        FLOAT8 => "float8",
        BPCHAR => "bpchar",
        VARCHAR => "varchar",
        DATE => "date",
        TIME => "time",
        TIMESTAMP => "timestamp",
        TIMESTAMPTZ => "timestamptz",
        INTERVAL => "interval",
        TIMETZ => "timetz",
        NUMERIC => "numeric",
        UUID => "uuid",
        _ => "",
    }
}

/// Code is bound to what it names when it runs: in bodies a new name may take the place of another.
fn is_nobodys_word(name: &str, snapshot: &Snapshot) -> bool {
    if name.contains(['"', '\'']) {
        return false;
    }
    let name = name.to_lowercase();
    let is_there = Finder::new(&name);
    // Letters may be written by their numbers there.
    let by_numbers = Finder::new("u&\"");
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let one_word = name.chars().all(|c| in_word(Some(c)));
    let names_it = |text: &str| {
        is_there.find_iter(text.as_bytes()).any(|at| {
            let (before, behind) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
            !(one_word && (in_word(before) || in_word(behind)))
        })
    };
    snapshot.code.routines.iter().all(|r| {
        let unread = r.definition.is_empty() && !matches!(r.language.as_str(), "c" | "internal");
        let text = r.definition.to_lowercase();
        !unread && by_numbers.find(text.as_bytes()).is_none() && !names_it(&text)
    })
}

#[cfg(test)]
mod tests {
    use catalog::code::{Routine, Unnamed};
    use catalog::{Snapshot, Volatility};

    use super::super::Facts;
    use super::inert;

    fn snapshot() -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.code.routines.push(Routine {
            oid: 16400,
            schema: "public".into(),
            name: "f".into(),
            language: "plpgsql".into(),
            definition: "CREATE FUNCTION f() … BEGIN RETURN (SELECT count(*) FROM Orders); END".into(),
            volatility: Volatility::Volatile,
            opaque: false,
            owner: 10,
            path: None,
            arity: (0, 0),
            by_argument: None,
            open: false,
            argument_types: vec![],
        });
        snapshot
    }

    fn is_inert(sql: &str, snapshot: &Snapshot) -> bool {
        inert(&sql::parse(sql, true).unwrap().pop().unwrap(), snapshot, &Facts::default())
    }

    #[test]
    fn plain_columns_and_tables_are() {
        let snapshot = snapshot();
        for sql in [
            "alter table t add column a int",
            "alter table if exists t add a text not null default 'x', add b numeric(8, 2) unique",
            "create table t (a int primary key, b varchar(10) default 'b', c timestamptz not null, unique (b, c))",
            "create table if not exists s.t (a bigint)",
        ] {
            assert!(is_inert(sql, &snapshot), "{sql}");
        }
    }

    #[test]
    fn what_may_run_code_or_take_a_name_is_not() {
        let snapshot = snapshot();
        for sql in [
            "alter table t add column a int default f()",
            "alter table t add column a int default 1 + 1",
            "alter table t add column a int check (a > 0)",
            "alter table t add column a mood",
            "alter table t add column a int generated always as (1) stored",
            "alter table t add column a int generated always as identity",
            "alter table t add column a serial",
            "alter table t add column a int references u",
            "alter table t add column a text collate c",
            "alter table t add column a int, alter column b set default f()",
            "alter table t drop column a",
            "create table orders (a int)",
            "create table t (a int) partition by hash (a)",
            "create table t (like u)",
            "create table t () inherits (u)",
            "create table t partition of u default",
            "create table t (a int, exclude using gist (a with =))",
            "create temp table t (a int)",
            "create index on t (a)",
            "create view v as select 1",
            "create function g() returns int language sql as 'select 1'",
            "drop table t",
        ] {
            assert!(!is_inert(sql, &snapshot), "{sql}");
        }
    }

    #[test]
    fn event_triggers_run_with_all_changes() {
        let mut snapshot = snapshot();
        snapshot.code.unnamed.push(Unnamed {
            routine: 16400,
            what: "event trigger".into(),
            name: "e".into(),
            types: vec![],
        });
        assert!(!is_inert("alter table t add column a int", &snapshot));
    }
}
