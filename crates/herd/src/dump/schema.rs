//! The schema that pg_dump wrote of home, statement by statement: distributed tables become plain ones, and for a herd
//! each is distributed as soon as it is there. Everything else stays as pg_dump wrote it.
//!
//! It knows texts and trees, and no server.

use std::collections::{HashMap, HashSet};

use sql::ast::{self, RangeVar};
use sql::lexer::{Lexer, Token, TokenKind};
use sql::{NodeEnum, build, names};

use super::error::{Error, Result};
use super::manifest::Table;

/// For whom the schema is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum For {
    Plain,
    Herd,
}

/// A script of pg_dump's with the statements changed that are about distributed tables.
pub fn adapt(script: &str, tables: &[Table], to: For) -> Result<String> {
    let (head, body, tail) = without_restrict(script);
    let adapted = Adapt { tables, to }.script(body)?;
    Ok(format!("{head}{adapted}{tail}"))
}

/// What comes behind the rows, for a herd.
pub fn adapt_post_data(script: &str, tables: &[Table]) -> Result<String> {
    if !tables.iter().any(|t| t.partitioned) {
        return Ok(script.to_owned());
    }
    let (head, body, tail) = without_restrict(script);
    let adapted = Adapt { tables, to: For::Herd }.partitions_first(body)?;
    Ok(format!("{head}{adapted}{tail}"))
}

/// `\restrict KEY` at the beginning and `\unrestrict KEY` at the end are psql's, not SQL.
fn without_restrict(script: &str) -> (&str, &str, &str) {
    let begins =
        if script.starts_with("\\restrict ") { Some(0) } else { script.find("\n\\restrict ").map(|at| at + 1) };
    let Some(begins) = begins else { return ("", script, "") };
    let body = script[begins..].find('\n').map_or(script.len(), |at| begins + at + 1);
    match script.rfind("\n\\unrestrict ").filter(|end| *end + 1 >= body) {
        Some(end) => (&script[begins..body], &script[body..=end], &script[end + 1..]),
        None => ("", script, ""),
    }
}

struct Adapt<'a> {
    tables: &'a [Table],
    to: For,
}

impl Adapt<'_> {
    fn script(&self, body: &str) -> Result<String> {
        let wrong = |problem: String| Error::Schema { problem };
        let mut out = String::with_capacity(body.len());
        let mut dropped = admin_functions();
        let mut groups: HashMap<i32, &Table> = HashMap::new();
        for range in sql::split::split_statements(body, true).map_err(|e| wrong(e.to_string()))? {
            let text = &body[range];
            // What this parser does not know is newer than anything a distributed table needs.
            let tree = sql::parse(text, true).ok().and_then(|mut s| s.pop());
            let Some(tree) = tree else {
                out.push_str(&format!("{text};\n\n"));
                continue;
            };
            if is_herds_own(&tree, &mut dropped) {
                continue;
            }
            let filled =
                filled_by_router(&tree).or_else(|| read_by_router(&tree)).map(|view| sql::deparse(&view)).transpose();
            let statement = filled.map_err(|e| wrong(e.to_string()))?.unwrap_or_else(|| self.statement(text, &tree));
            out.push_str(&format!("{statement};\n\n"));
            if let (For::Herd, NodeEnum::CreateStmt(create)) = (self.to, &tree)
                && let Some(table) = create.relation.as_ref().and_then(|rv| self.table(rv))
            {
                // pg_dump writes tables by their names: whichever of a group comes first makes it.
                let first = table.colocation.map_or(table, |group| *groups.entry(group).or_insert(table));
                out.push_str(&format!("{};\n\n", self.distribute(table, first)));
            }
        }
        Ok(out)
    }

    fn table(&self, rv: &RangeVar) -> Option<&Table> {
        let (schema, name) = names::table(rv);
        self.tables.iter().find(|t| Some(t.schema.as_str()) == schema && t.name == name)
    }

    fn distributed(&self, rv: &RangeVar) -> bool {
        self.table(rv).is_some_and(|t| t.kind == "d")
    }

    fn is_partitioned(&self, rv: &RangeVar) -> bool {
        self.table(rv).is_some_and(|t| t.partitioned)
    }

    /// Indexes of partitions first, then those of the tables over them, which take them over: a herd knows no index of such a table
    /// ONLY, to which one of a partition could be attached.
    fn partitions_first(&self, script: &str) -> Result<String> {
        let wrong = |problem: String| Error::Schema { problem };
        let (mut first, mut then, mut over) = (String::new(), String::new(), HashSet::new());
        for range in sql::split::split_statements(script, true).map_err(|e| wrong(e.to_string()))? {
            let text = &script[range];
            let tree = sql::parse(text, true).ok().and_then(|mut s| s.pop());
            let Some(tree) = &tree else {
                then.push_str(&format!("{text};\n\n"));
                continue;
            };
            match (made_index(tree), altered(tree).filter(|rv| self.is_partitioned(rv))) {
                (index, Some(table)) => {
                    over.extend(index.map(|index| (table.schemaname.clone(), index.to_owned())));
                    then.push_str(&format!("{};\n\n", self.statement(text, tree)));
                }
                (Some(_), None) => first.push_str(&format!("{text};\n\n")),
                // Settings are for both: a tablespace, the search path.
                (None, None) if matches!(tree, NodeEnum::VariableSetStmt(_) | NodeEnum::SelectStmt(_)) => {
                    first.push_str(&format!("{text};\n\n"));
                    then.push_str(&format!("{text};\n\n"));
                }
                (None, None) if attached_to(tree).is_some_and(|index| over.contains(&index)) => {}
                (None, None) => then.push_str(&format!("{text};\n\n")),
            }
        }
        Ok(first + &then)
    }

    /// Without PARTITION BY and without ONLY, which a plain table does not need and a herd does not want. What its owner has
    /// partitioned stays so.
    fn statement(&self, text: &str, tree: &NodeEnum) -> String {
        let Some(rv) = altered(tree).filter(|rv| self.distributed(rv)) else { return text.to_owned() };
        let partitioned = self.is_partitioned(rv);
        let cut = match tree {
            NodeEnum::CreateStmt(_) if partitioned => None,
            NodeEnum::CreateStmt(s) => s.partspec.as_ref().and_then(|p| partition_by(text, p)),
            _ if partitioned && self.to == For::Plain => None,
            _ if !rv.inh => only(text, rv),
            _ => None,
        };
        match cut {
            Some((start, end)) => format!("{}{}", text[..start].trim_end(), &text[end..]).trim_end().to_owned(),
            None => text.to_owned(),
        }
    }

    /// The call that makes the table what it was. `first`: the table of its group that is distributed already, or it is itself.
    fn distribute(&self, table: &Table, first: &Table) -> String {
        let name = |t: &Table| literal(&format!("{}.{}", ident(&t.schema), ident(&t.name)));
        if table.kind == "r" {
            return format!("SELECT create_reference_table({})", name(table));
        }
        let key = table.key.iter().map(|k| ident(k)).collect::<Vec<_>>().join(", ");
        let mut call = format!("SELECT create_distributed_table({}, {}", name(table), literal(&key));
        if let Some(strategy) = &table.strategy {
            call.push_str(&format!(", strategy => {}", literal(strategy)));
        }
        if first.schema != table.schema || first.name != table.name {
            call.push_str(&format!(", colocate_with => {}", name(first)));
        } else {
            if table.private {
                call.push_str(", colocate_with => 'none'");
            }
            if !table.bounds.is_empty() {
                let bounds: Vec<String> = table.bounds.iter().map(|b| literal(b)).collect();
                call.push_str(&format!(", bounds => ARRAY[{}]", bounds.join(", ")));
            } else if let Some(count) = table.shard_count {
                call.push_str(&format!(", shard_count => {count}"));
            }
        }
        call + ")"
    }
}

/// The table that is made, altered or indexed.
fn altered(tree: &NodeEnum) -> Option<&RangeVar> {
    match tree {
        NodeEnum::CreateStmt(s) => s.relation.as_ref(),
        NodeEnum::AlterTableStmt(s) => s.relation.as_ref(),
        NodeEnum::IndexStmt(s) => s.relation.as_ref(),
        _ => None,
    }
}

/// The name of an index that it makes, by itself or for a constraint.
fn made_index(tree: &NodeEnum) -> Option<&str> {
    match tree {
        NodeEnum::IndexStmt(s) => Some(&s.idxname),
        NodeEnum::AlterTableStmt(s) => s.cmds.iter().find_map(|cmd| match &cmd.node {
            Some(NodeEnum::AlterTableCmd(c)) => match c.def.as_deref()?.node.as_ref()? {
                NodeEnum::Constraint(c) => {
                    use ast::ConstrType::{ConstrExclusion, ConstrPrimary, ConstrUnique};
                    let kinds = [ConstrPrimary, ConstrUnique, ConstrExclusion];
                    kinds.contains(&c.contype()).then_some(c.conname.as_str())
                }
                _ => None,
            },
            _ => None,
        }),
        _ => None,
    }
}

/// The schema and name of the index that takes over another one: ALTER INDEX … ATTACH PARTITION.
fn attached_to(tree: &NodeEnum) -> Option<(String, String)> {
    let NodeEnum::AlterTableStmt(s) = tree else { return None };
    let rv = s.relation.as_ref().filter(|_| s.objtype() == ast::ObjectType::ObjectIndex)?;
    let attaches = |cmd: &ast::Node| matches!(&cmd.node, Some(NodeEnum::AlterTableCmd(c)) if c.subtype() == ast::AlterTableType::AtAttachPartition);
    s.cmds.iter().any(attaches).then(|| (rv.schemaname.clone(), rv.relname.clone()))
}

/// What a herd has put outside of its own schema, and what is said of it: event triggers whose function is in schema herd, which
/// `dropped` remembers, and the functions that tell who calls them past a router that they are a router's, which it has from the beginning.
fn is_herds_own(tree: &NodeEnum, dropped: &mut HashSet<String>) -> bool {
    match tree {
        NodeEnum::CreateEventTrigStmt(s) if names::strings(&s.funcname).first() == Some(&"herd") => {
            dropped.insert(s.trigname.clone());
            true
        }
        NodeEnum::CreateFunctionStmt(s) => {
            let types = s.parameters.iter().filter_map(|p| match &p.node {
                Some(NodeEnum::FunctionParameter(p)) => p.arg_type.as_ref(),
                _ => None,
            });
            dropped.contains(&signature(&s.funcname, types))
        }
        NodeEnum::AlterEventTrigStmt(s) => dropped.contains(&s.trigname),
        NodeEnum::AlterOwnerStmt(s) => about(s.object.as_deref(), dropped),
        NodeEnum::CommentStmt(s) => about(s.object.as_deref(), dropped),
        NodeEnum::GrantStmt(s) => s.objects.iter().any(|object| about(Some(object), dropped)),
        _ => false,
    }
}

/// A materialized view that a router fills, as its user made it.
fn filled_by_router(tree: &NodeEnum) -> Option<NodeEnum> {
    let NodeEnum::CreateTableAsStmt(create) = tree else { return None };
    let query = sql::materialized::query(create.query.as_deref()?.node.as_ref()?)?;
    let mut create = create.clone();
    create.query = Some(Box::new(ast::Node { node: Some(NodeEnum::SelectStmt(Box::new(query.clone()))) }));
    Some(NodeEnum::CreateTableAsStmt(create))
}

/// A view that home alone has, and routers read, as its user made it.
fn read_by_router(tree: &NodeEnum) -> Option<NodeEnum> {
    let NodeEnum::ViewStmt(view) = tree else { return None };
    let definition = view.query.as_deref()?.node.as_ref()?;
    let (query, _) = sql::read_whole::query(definition)?;
    let mut made = view.clone();
    if let (NodeEnum::SelectStmt(around), true) = (definition, view.aliases.is_empty()) {
        made.aliases = around
            .target_list
            .iter()
            .filter_map(sql::read_whole::column_name)
            .map(|name| build::string(&name))
            .collect();
    }
    made.query = Some(Box::new(ast::Node { node: Some(NodeEnum::SelectStmt(Box::new(query.clone()))) }));
    Some(NodeEnum::ViewStmt(made))
}

/// The signatures of the herd's functions in schema public. No other function can have one of them.
fn admin_functions() -> HashSet<String> {
    let statements = catalog::ADMIN_FUNCTIONS.map(|function| format!("DROP FUNCTION public.{function}"));
    let trees = statements.iter().filter_map(|sql| sql::parse(sql, true).ok()?.pop());
    let objects = trees.filter_map(|tree| match tree {
        NodeEnum::DropStmt(s) => s.objects.into_iter().next()?.node,
        _ => None,
    });
    objects.filter_map(|object| signature_of(&object)).collect()
}

fn signature_of(object: &NodeEnum) -> Option<String> {
    let NodeEnum::ObjectWithArgs(f) = object else { return None };
    let types = f.objargs.iter().filter_map(|a| match &a.node {
        Some(NodeEnum::TypeName(t)) => Some(t),
        _ => None,
    });
    Some(signature(&f.objname, types))
}

fn signature<'a>(name: &[ast::Node], types: impl Iterator<Item = &'a ast::TypeName>) -> String {
    let types = types.map(|t| {
        let own = names::strings(&t.names).last().copied().unwrap_or_default().to_owned();
        own + &"[]".repeat(t.array_bounds.len())
    });
    format!("{}({})", names::strings(name).join("."), types.collect::<Vec<_>>().join(", "))
}

/// The object of a statement is one of these: a function or an event trigger (nothing else is named like that).
fn about(object: Option<&ast::Node>, dropped: &HashSet<String>) -> bool {
    match object.and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::String(s)) => dropped.contains(&s.sval),
        Some(object) => signature_of(object).is_some_and(|signature| dropped.contains(&signature)),
        None => false,
    }
}

/// From PARTITION to the bracket that closes its list of columns.
fn partition_by(text: &str, spec: &ast::PartitionSpec) -> Option<(usize, usize)> {
    let start = usize::try_from(spec.location).ok()?;
    let mut depth = 0;
    for token in Lexer::starting_at(text, start, true) {
        let token = token.ok()?;
        match token.kind {
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') if depth == 1 => return Some((start, token.end)),
            TokenKind::Punct(b')') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// ONLY before the table's name, and the space behind it.
fn only(text: &str, rv: &RangeVar) -> Option<(usize, usize)> {
    let name = usize::try_from(rv.location).ok()?;
    let before: Vec<Token> = Lexer::new(text, true).map_while(|t| t.ok()).take_while(|t| t.start < name).collect();
    let token = before.last().filter(|t| text[t.start..t.end].eq_ignore_ascii_case("only"))?;
    // One blank stays in front of what was before.
    let from = text[..token.start].trim_end().len();
    Some((from, token.end))
}

fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    crate::local::literal(text)
}

/// The roles of a pg_dumpall script that a server has already are left as they are there.
pub fn without_roles(script: &str, there: &HashSet<String>) -> Result<String> {
    let (head, body, tail) = without_restrict(script);
    let mut out = String::new();
    for range in sql::split::split_statements(body, true).map_err(|e| Error::Schema { problem: e.to_string() })? {
        let text = &body[range];
        let tree = sql::parse(text, true).ok().and_then(|mut s| s.pop());
        let about = match &tree {
            Some(NodeEnum::CreateRoleStmt(s)) => Some(s.role.as_str()),
            Some(NodeEnum::AlterRoleStmt(s)) => s.role.as_ref().map(|r| r.rolename.as_str()),
            Some(NodeEnum::AlterRoleSetStmt(s)) => s.role.as_ref().map(|r| r.rolename.as_str()),
            _ => None,
        };
        if about.is_none_or(|role| !there.contains(role)) {
            out.push_str(&format!("{text};\n"));
        }
    }
    Ok(format!("{head}{out}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> Vec<Table> {
        let table = |name: &str, kind: &str, key: &[&str]| Table {
            schema: "public".into(),
            name: name.into(),
            kind: kind.into(),
            colocation: (kind == "d").then_some(1),
            private: false,
            strategy: (kind == "d").then(|| "hash".into()),
            key: key.iter().map(|k| (*k).to_owned()).collect(),
            shard_count: Some(8),
            bounds: vec![],
            partitioned: false,
        };
        vec![table("a", "d", &["Ke y"]), table("b\"c", "d", &["k"]), table("r", "r", &[])]
    }

    #[test]
    fn distributed_tables_become_plain() {
        let script = "\\restrict x\n\nCREATE TABLE public.a (\"Ke y\" int, s text DEFAULT ')'::text)\nPARTITION BY HASH (\"Ke y\");\n\
                      CREATE TABLE public.local (a int)\nPARTITION BY RANGE (a);\n\
                      ALTER TABLE ONLY public.a ADD CONSTRAINT p PRIMARY KEY (\"Ke y\");\n\
                      ALTER TABLE ONLY public.local ADD CONSTRAINT p PRIMARY KEY (a);\n\
                      CREATE INDEX i ON ONLY public.a USING btree (s);\n\n\\unrestrict x\n";
        let plain = adapt(script, &tables(), For::Plain).unwrap();
        assert!(plain.starts_with("\\restrict x\n") && plain.ends_with("\\unrestrict x\n"), "{plain}");
        assert!(plain.contains("(\"Ke y\" int, s text DEFAULT ')'::text);"), "{plain}");
        assert!(plain.contains("CREATE TABLE public.local (a int)\nPARTITION BY RANGE (a);"), "{plain}");
        assert!(plain.contains("ALTER TABLE public.a ADD CONSTRAINT"), "{plain}");
        assert!(plain.contains("ALTER TABLE ONLY public.local ADD"), "{plain}");
        assert!(plain.contains("CREATE INDEX i ON public.a USING btree (s);"), "{plain}");
    }

    #[test]
    fn a_herd_distributes_them() {
        let script = "CREATE TABLE public.\"b\"\"c\" (k int);\nCREATE TABLE public.a (\"Ke y\" int);\nCREATE TABLE public.r (k int);";
        let herd = adapt(script, &tables(), For::Herd).unwrap();
        let calls: Vec<&str> = herd.lines().filter(|line| line.starts_with("SELECT")).collect();
        assert_eq!(
            calls,
            [
                "SELECT create_distributed_table('\"public\".\"b\"\"c\"', '\"k\"', strategy => 'hash', shard_count => 8);",
                "SELECT create_distributed_table('\"public\".\"a\"', '\"Ke y\"', strategy => 'hash', colocate_with => '\"public\".\"b\"\"c\"');",
                "SELECT create_reference_table('\"public\".\"r\"');",
            ]
        );
    }

    fn by_time() -> Vec<Table> {
        let table = |name: &str| Table { name: name.into(), key: vec!["k".into()], ..tables().remove(0) };
        vec![Table { partitioned: true, ..table("m") }, table("m_1")]
    }

    #[test]
    fn what_is_partitioned_stays_so() {
        let script = "CREATE TABLE public.m (k int, at int)\nPARTITION BY RANGE (at);\nCREATE TABLE public.m_1 (k int, at int)\nPARTITION BY HASH (k);\n\
                      ALTER TABLE ONLY public.m ATTACH PARTITION public.m_1 FOR VALUES FROM (1) TO (2);";
        let plain = adapt(script, &by_time(), For::Plain).unwrap();
        assert!(plain.contains("PARTITION BY RANGE") && !plain.contains("PARTITION BY HASH"), "{plain}");
        assert!(plain.contains("ALTER TABLE ONLY public.m ATTACH"), "{plain}");
        let herd = adapt(&plain, &by_time(), For::Herd).unwrap();
        let lines: Vec<&str> =
            herd.lines().filter(|line| line.starts_with("SELECT") || line.starts_with("ALTER")).collect();
        assert_eq!(
            lines,
            [
                "SELECT create_distributed_table('\"public\".\"m\"', '\"k\"', strategy => 'hash', shard_count => 8);",
                "SELECT create_distributed_table('\"public\".\"m_1\"', '\"k\"', strategy => 'hash', colocate_with => '\"public\".\"m\"');",
                "ALTER TABLE public.m ATTACH PARTITION public.m_1 FOR VALUES FROM (1) TO (2);",
            ]
        );
    }

    #[test]
    fn a_herd_makes_indexes_of_partitions_first() {
        let script = "SET x = 1;\n--\n-- Name: m m_pkey; Type: CONSTRAINT\n--\n\nALTER TABLE ONLY public.m ADD CONSTRAINT m_pkey PRIMARY KEY (k, at);\n\
                      COMMENT ON INDEX public.m_pkey IS 'x';\nALTER TABLE public.m_1 ADD CONSTRAINT m_1_pkey PRIMARY KEY (k, at);\n\
                      CREATE INDEX i ON public.other USING btree (a);\nALTER INDEX public.m_pkey ATTACH PARTITION public.m_1_pkey;\n\
                      ALTER INDEX public.other_i ATTACH PARTITION public.other_1_i;";
        let herd = adapt_post_data(script, &by_time()).unwrap();
        let lines: Vec<&str> = herd.lines().filter(|line| line.ends_with(';')).collect();
        assert_eq!(
            lines,
            [
                "SET x = 1;",
                "ALTER TABLE public.m_1 ADD CONSTRAINT m_1_pkey PRIMARY KEY (k, at);",
                "CREATE INDEX i ON public.other USING btree (a);",
                "SET x = 1;",
                "ALTER TABLE public.m ADD CONSTRAINT m_pkey PRIMARY KEY (k, at);",
                "COMMENT ON INDEX public.m_pkey IS 'x';",
                "ALTER INDEX public.other_i ATTACH PARTITION public.other_1_i;",
            ]
        );
        assert_eq!(adapt_post_data(script, &tables()).unwrap(), script);
    }

    #[test]
    fn what_a_herd_has_put_there_stays_behind() {
        let script = "CREATE EVENT TRIGGER h ON ddl_command_end EXECUTE FUNCTION herd.f();\nALTER EVENT TRIGGER h OWNER TO postgres;\n\
                      CREATE EVENT TRIGGER mine ON ddl_command_end EXECUTE FUNCTION public.f();\n\
                      CREATE FUNCTION public.citus_add_node(a text, b integer) RETURNS integer LANGUAGE sql AS $$ SELECT herd.refuse_admin_call('u') $$;\n\
                      ALTER FUNCTION public.citus_add_node(a text, b integer) OWNER TO postgres;\nCOMMENT ON FUNCTION public.citus_add_node(a text, b integer) IS 'x';\n\
                      REVOKE ALL ON FUNCTION public.citus_add_node(a text, b integer) FROM PUBLIC;\nCOMMENT ON FUNCTION public.citus_add_node(text) IS 'x';\n\
                      CREATE FUNCTION public.create_distributed_table(a regclass, b text, c text, d text, e integer, f text, g text[]) RETURNS void LANGUAGE sql AS '';\n\
                      CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS $$ /* herd.refuse_admin_call( */ SELECT 1 $$;";
        let plain = adapt(script, &tables(), For::Plain).unwrap();
        let kept: Vec<&str> =
            plain.lines().filter(|line| !line.is_empty()).map(|l| &l[..l.find(' ').unwrap()]).collect();
        assert_eq!(kept, ["CREATE", "COMMENT", "CREATE"], "{plain}");
        assert!(plain.contains("public.mine()"), "{plain}");
    }

    #[test]
    fn materialized_views_have_their_own_queries() {
        let script = "CREATE MATERIALIZED VIEW public.m AS\n SELECT rows.a\n   FROM herd.materialized() rows(a integer)\nUNION ALL\n SELECT query.a\n   FROM ( SELECT t.a\n           FROM public.t) query\n  WHERE false\n  WITH NO DATA;\n\
                      CREATE MATERIALIZED VIEW public.n AS\n SELECT 1 AS a\n  WITH NO DATA;";
        let plain = adapt(script, &tables(), For::Plain).unwrap();
        assert!(
            plain.starts_with("CREATE MATERIALIZED VIEW public.m AS SELECT t.a FROM public.t  WITH NO DATA;\n"),
            "{plain}"
        );
        assert!(plain.contains("CREATE MATERIALIZED VIEW public.n AS\n SELECT 1 AS a\n  WITH NO DATA;"), "{plain}");
    }

    #[test]
    fn views_that_routers_read_have_their_own_queries() {
        let script = "CREATE VIEW public.v AS\n SELECT query.id,\n    query.n AS number\n   FROM ( SELECT d.id,\n            l.n\n           FROM public.d,\n            public.l) query\n  WHERE herd.read_whole(false);";
        let plain = adapt(script, &tables(), For::Plain).unwrap();
        assert_eq!(plain, "CREATE VIEW public.v (id, number) AS SELECT d.id, l.n FROM public.d, public.l;\n\n");
    }

    #[test]
    fn roles_that_are_there_are_not_changed() {
        let script = "CREATE ROLE postgres;\nALTER ROLE postgres WITH PASSWORD 'x';\nCREATE ROLE app;\nGRANT a TO b;";
        let out = without_roles(script, &HashSet::from(["postgres".to_owned()])).unwrap();
        assert_eq!(out, "CREATE ROLE app;\nGRANT a TO b;\n");
    }
}
