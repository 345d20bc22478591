//! CREATE TABLE, VIEW, MATERIALIZED VIEW, TABLE AS and SELECT INTO. A new table is local; where a view is depends on what it
//! reads.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::Refusal;
use catalog::{Placement, RelationKind};
use sql::ast::{self, Node, ObjectType};
use sql::{NodeEnum, names, relations, search};

use super::facts::Facts;
use super::place::{Cx, Name, deparse, is_herd, is_partitioned, is_view, name_of, range_vars, text};
use super::steps::Step;
use super::{Ddl, Decided, alter, constraint, materialized, partition};

/// Views within views beyond this are taken to read everything.
const DEPTH_MAX: usize = 32;

/// CREATE TABLE: a new table is on home; warns of foreign keys that see only a part of what they point to.
pub fn table(cx: &Cx, s: &ast::CreateStmt) -> Decided {
    let Some(rv) = &s.relation else { return Ok(Ddl::Home) };
    if rv.relpersistence == "t" {
        return Ok(Ddl::Home);
    }
    cx.not_made_in_ours(names::table(rv))?;
    if let Some(parent) = range_vars(&s.inh_relations).find(|p| cx.herd_var(p).is_some()) {
        if let Some(r) = cx.herd_var(parent).filter(|r| is_partitioned(r) && s.partbound.is_some()) {
            return partition::create(cx, s, r);
        }
        return Err(alter::no_children(&parent.relname));
    }
    let constraints = s.table_elts.iter().chain(&s.constraints).flat_map(|e| match &e.node {
        Some(NodeEnum::Constraint(c)) => vec![c.as_ref()],
        Some(NodeEnum::ColumnDef(d)) => constraint::of_column(d).collect(),
        _ => vec![],
    });
    let target = constraints.filter_map(|c| constraint::points_to_distributed(cx, c)).next();
    let Some(target) = target else { return Ok(Ddl::Home) };
    // The usual way to a distributed table with a foreign key: make it, then distribute it.
    let mut spread = cx.home_and(vec![Step::new(cx.sql)], vec![]);
    spread.warning = Some(format!(
        "the foreign key from \"{}\" to distributed table \"{}\" sees only the rows on home until you call create_distributed_table('{}', …)",
        rv.relname, target.name, rv.relname
    ));
    Ok(Ddl::Nodes(Box::new(spread)))
}

/// CREATE VIEW: on every node, unless it is temporary or reads what only home has. What home has but can't read by itself is made so
/// that nobody does (`sql/src/read_whole.rs`).
pub fn view(cx: &Cx, s: &ast::ViewStmt) -> Decided {
    let (Some(rv), Some(query)) = (&s.view, s.query.as_deref()) else { return Ok(Ddl::Home) };
    let name = names::table(rv);
    cx.not_made_in_ours(name)?;
    let reads = reads_of_tree(cx, query);
    if rv.relpersistence == "t" || reads.temporary {
        return match read_whole(s, query, reads)? {
            Some(own) => Ok(Ddl::Nodes(Box::new(cx.home_and(vec![Step::new(own)], vec![])))),
            None => Ok(Ddl::Home),
        };
    }
    let own = if reads.local { read_whole(s, query, reads)?.filter(|_| reads.distributed) } else { None };
    let mut view = None;
    let made = cx.made(rv);
    let elsewhere = match (reads.local, cx.find(made)) {
        // Its rights and comments are home's alone yet.
        (false, Some(old))
            if s.replace && is_view(old) && cx.view_is_local(old) && (reads.distributed || reads.reference) =>
        {
            view = Some((old.schema.clone(), old.name.clone()));
            vec![]
        }
        (false, _) => vec![Step::new(cx.sql)],
        // What took its place there reads other tables now.
        (true, Some(old)) if s.replace && is_view(old) && !cx.view_is_local(old) => {
            vec![Step::new(format!("DROP VIEW IF EXISTS {}", text(made)))]
        }
        (true, _) if own.is_none() => return Ok(Ddl::Home),
        (true, _) => vec![],
    };
    let here = own.unwrap_or_else(|| cx.sql.to_string());
    let mut spread = cx.home_and(vec![Step::new(here)], elsewhere);
    spread.unqualified = rv.schemaname.is_empty();
    spread.view = view;
    Ok(Ddl::Nodes(Box::new(spread)))
}

/// The statement that makes a temporary view which is nowhere read or written by its name, if it reads more than local tables.
/// `apart`: its query's code may not run on home.
pub fn temporary_view(cx: &Cx, s: &ast::ViewStmt, apart: bool) -> Result<Option<String>, Refusal> {
    let Some(query) = s.query.as_deref() else { return Ok(None) };
    let reads = reads_of_tree(cx, query);
    read_whole(s, query, TablesRead { distributed: reads.distributed || apart, ..reads })
}

fn read_whole(s: &ast::ViewStmt, query: &Node, reads: TablesRead) -> Result<Option<String>, Refusal> {
    let Some(text) = query.node.as_ref().filter(|_| reads.distributed || reads.reference) else { return Ok(None) };
    if s.with_check_option != ast::ViewCheckOption::NoCheckOption as i32 {
        return Err(Refusal::new(
            "WITH CHECK OPTION of a view that only home has, over distributed or reference tables, is not supported: nobody writes through it",
            "Leave WITH CHECK OPTION out, or make the view one that is not temporary and reads no local tables.",
        ));
    }
    let definition = sql::read_whole::definition(&sql::deparse(text)?, !reads.distributed);
    let definition = sql::parse(&definition, true)?.pop();
    let made = ast::ViewStmt { query: Some(Box::new(Node { node: definition })), ..s.clone() };
    deparse(NodeEnum::ViewStmt(Box::new(made))).map(Some)
}

/// The refusal of what would need home and the other nodes at once; `what`: "a view", "a function".
pub fn mixed(what: &str) -> Refusal {
    Refusal::new(
        format!("{what} over both distributed and local tables is not supported"),
        "Make the local tables reference tables with create_reference_table().",
    )
}

/// CREATE TABLE … AS and CREATE MATERIALIZED VIEW: over distributed tables the rows come through the router.
pub fn table_as(cx: &Cx, s: &ast::CreateTableAsStmt) -> Decided {
    let (Some(into), Some(query)) = (s.into.as_deref(), s.query.as_deref()) else { return Ok(Ddl::Home) };
    let Some(rv) = &into.rel else { return Ok(Ddl::Home) };
    cx.not_made_in_ours(names::table(rv))?;
    if has_parameters(query) {
        return Err(Refusal::new(
            "parameters in CREATE TABLE … AS are not supported",
            "Write the values as literals; or CREATE TABLE, then INSERT … SELECT.",
        ));
    }
    if !reads_of_tree(cx, query).distributed {
        refuse_writes(cx, query)?;
        return Ok(Ddl::Home);
    }
    let made = cx.made(rv);
    let exists = s.if_not_exists && cx.is_taken(made);
    let materialized = super::place::object_type(s.objtype) == ObjectType::ObjectMatview;
    if exists || into.skip_data && !materialized {
        return Ok(Ddl::Home);
    }
    if materialized {
        return materialized::create(cx, s);
    }
    let create = without_data(s)?;
    let Some(query) = &query.node else { return Ok(Ddl::Home) };
    // Whatever the path finds before it.
    let insert = format!("INSERT INTO {} {}", text(made), sql::deparse(query)?);
    Ok(Ddl::CreateTableAs { create, insert })
}

/// The same statement WITH NO DATA. Its query stands in parentheses: `IS JSON` at the end of one would take WITH for its own.
pub fn without_data(s: &ast::CreateTableAsStmt) -> Result<String, Refusal> {
    let mut filled = s.clone();
    if let Some(into) = filled.into.as_deref_mut() {
        into.skip_data = false;
    }
    let query = s.query.as_deref().and_then(|q| q.node.as_ref()).map(sql::deparse).transpose()?.unwrap_or_default();
    let text = deparse(NodeEnum::CreateTableAsStmt(Box::new(filled)))?;
    match text.strip_suffix(&query) {
        Some(head) => Ok(format!("{head}({query}) WITH NO DATA")),
        None => Err(Refusal::bare("internal: CREATE … AS does not end with its query")),
    }
}

fn has_parameters(query: &Node) -> bool {
    search::any(query, |n| matches!(n, NodeEnum::ParamRef(_)))
}

/// WITH may change tables, and on home it would change home's copy alone.
fn refuse_writes(cx: &Cx, query: &Node) -> Result<(), Refusal> {
    let Some(statement) = &query.node else { return Ok(()) };
    let writes = sql::body::Body::of_statement(statement).writes;
    let names = cx.names();
    let through = |v: &catalog::View| crate::views::reads_herd(&v.query, &names);
    let found = writes.iter().filter_map(|(schema, name)| cx.find((schema.as_deref(), name)));
    let herd = found.into_iter().find(|r| is_herd(r) || r.view.as_ref().is_some_and(through));
    match herd {
        None => Ok(()),
        Some(r) => Err(Refusal::new(
            format!("changing \"{}\", which several nodes hold, in WITH is not supported here", r.name),
            "Run it as a statement of its own in one transaction with the other.",
        )),
    }
}

/// `SELECT … INTO t` is `CREATE TABLE t AS SELECT …`.
pub fn select_into(cx: &Cx, s: &ast::SelectStmt) -> Decided {
    let mut query = s.clone();
    let Some(into) = query.into_clause.take() else { return Ok(Ddl::NotDdl) };
    let as_table = ast::CreateTableAsStmt {
        query: Some(Box::new(Node { node: Some(NodeEnum::SelectStmt(Box::new(query))) })),
        into: Some(into),
        objtype: ObjectType::ObjectTable as i32,
        is_select_into: false,
        if_not_exists: false,
    };
    table_as(cx, &as_table)
}

/// What a query reads, itself or through views.
#[derive(Clone, Copy, Debug, Default)]
pub struct TablesRead {
    pub distributed: bool,
    pub reference: bool,
    /// Local tables, or system catalogs, which tell of one node.
    pub local: bool,
    pub temporary: bool,
}

/// What kinds of tables a query reads, itself or through views.
pub fn reads_of_tree(cx: &Cx, query: &Node) -> TablesRead {
    let mut tables = Tables::default();
    tables.names.extend(relations::of_node(query).into_iter().map(names::table));
    search::each(query, |n| tables.used(n));
    tables.resolve(cx, 0, &mut HashMap::new())
}

/// The same of a query's text.
pub fn reads_of_text(cx: &Cx, query: &str) -> TablesRead {
    reads_of_view(cx, query, 0, &mut HashMap::new())
}

/// The same of a view's query, as the catalog has it.
pub fn reads_of_query(snapshot: &catalog::Snapshot, query: &str) -> TablesRead {
    let (facts, statement) = (Facts::default(), NodeEnum::SelectStmt(Box::default()));
    let cx = Cx { statement: &statement, sql: "", snapshot, facts: &facts, locked: OnceCell::new() };
    reads_of_text(&cx, query)
}

/// `known`: what was found out of views, each of which may be named by many others.
fn reads_of_view(cx: &Cx, query: &str, depth: usize, known: &mut HashMap<String, TablesRead>) -> TablesRead {
    let Ok(statements) = sql::parse(query, true) else { return TablesRead { local: true, ..TablesRead::default() } };
    // Whatever its tables have become since, only home has it, and can't read it.
    if statements.iter().any(|s| sql::read_whole::query(s).is_some_and(|(_, whole)| !whole)) {
        return TablesRead { distributed: true, local: true, ..TablesRead::default() };
    }
    let mut tables = Tables::default();
    statements.iter().for_each(|s| {
        if let NodeEnum::SelectStmt(select) = s {
            tables.names.extend(relations::of_select(select).into_iter().map(names::table));
            search::each(&**select, |n| tables.used(n));
        }
    });
    tables.resolve(cx, depth, known)
}

#[derive(Default)]
struct Tables<'n> {
    names: Vec<Name<'n>>,
    functions: Vec<Name<'n>>,
    types: Vec<Name<'n>>,
}

impl<'n> Tables<'n> {
    fn used(&mut self, n: &'n NodeEnum) {
        match n {
            NodeEnum::FuncCall(f) => self.functions.push(names::qualified(&f.funcname)),
            NodeEnum::TypeCast(t) => {
                self.types.extend(t.type_name.as_ref().and_then(|t| name_of(&names::strings(&t.names))));
            }
            _ => {}
        }
    }

    fn resolve(&self, cx: &Cx, depth: usize, known: &mut HashMap<String, TablesRead>) -> TablesRead {
        let mut reads = TablesRead::default();
        if depth > DEPTH_MAX {
            return TablesRead { distributed: true, local: true, ..TablesRead::default() };
        }
        for name in &self.names {
            let own = cx.facts.temporary.iter().find(|t| **t == *name.1).filter(|_| name.0.is_none());
            if own.is_some() || name.0 == Some("pg_temp") {
                let named = own.or_else(|| cx.facts.temporary.iter().find(|t| t.name == name.1));
                let view = named.and_then(|t| t.view.as_ref());
                reads.temporary = true;
                reads.distributed |= view.is_some_and(|v| !v.whole);
                reads.reference |= view.is_some_and(|v| v.whole);
                continue;
            }
            match cx.find(*name).map(|r| (&r.placement, r.kind, r)) {
                Some((Placement::Distributed(_), ..)) => reads.distributed = true,
                Some((Placement::Reference, ..)) => reads.reference = true,
                Some((Placement::Local, RelationKind::View, r)) => {
                    let name = catalog::qualified(&r.schema, &r.name);
                    let inner = known.get(&name).copied().unwrap_or_else(|| {
                        reads_of_view(cx, r.view.as_ref().map_or("", |v| &v.query), depth + 1, known)
                    });
                    known.insert(name, inner);
                    reads.distributed |= inner.distributed;
                    reads.reference |= inner.reference;
                    reads.local |= inner.local;
                }
                Some(_) | None => reads.local = true,
            }
        }
        // A function that uses the herd's tables would, in a view, run on one node.
        let mut functions = self.functions.iter().flat_map(|f| cx.functions(*f));
        // What needs home, and the row types of local tables, may be on home alone.
        let of_home = functions.any(|f| f.needs_home)
            || self.types.iter().any(|t| cx.rows_of(*t).is_some_and(|r| !is_herd(r) && r.kind == RelationKind::Table));
        reads.local |= of_home && !reads.distributed;
        reads.distributed |= self.functions.iter().any(|f| cx.functions(*f).any(|f| f.reads_herd_tables));
        reads
    }
}
