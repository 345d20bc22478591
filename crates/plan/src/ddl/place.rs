//! What the names in a statement stand for: on home alone, or on every node. It asks the snapshot, nobody else.

use std::cell::OnceCell;
use std::sync::Arc;
use wire::sqlstate;

use crate::Refusal;
use catalog::{NodeId, Placement, Relation, RelationKind, Snapshot, quote_ident, quote_literal};
use sql::ast::{self, Node, RangeVar};
use sql::{NodeEnum, names};

use super::facts::Facts;
use super::steps::{NodeSteps, Spread, Step};

/// A utility statement, and what is known around it.
pub struct Cx<'a> {
    pub statement: &'a NodeEnum,
    pub sql: &'a str,
    pub snapshot: &'a Snapshot,
    pub facts: &'a Facts,
    /// A relation it has met that can't be read now: nothing that was made of it counts.
    pub locked: OnceCell<&'a Arc<Relation>>,
}

/// Schema, if given, and name of a possibly qualified name.
pub type Name<'n> = (Option<&'n str>, &'n str);

impl<'a> Cx<'a> {
    /// The id of the node with the local tables and the catalog.
    pub fn home(&self) -> NodeId {
        self.snapshot.home
    }

    /// Ids of the other nodes, in order.
    pub fn others(&self) -> Vec<NodeId> {
        self.snapshot.nodes.iter().map(|n| n.id).filter(|id| *id != self.snapshot.home).collect()
    }

    /// What a function's name can mean.
    pub fn functions<'n>(&'n self, name: Name<'n>) -> impl Iterator<Item = &'n catalog::Function> {
        self.snapshot.functions_meant(name, &self.facts.search_path)
    }

    /// What names in its expressions mean.
    pub fn names(&self) -> crate::Context<'_> {
        crate::Context::new(self.snapshot, &self.facts.search_path, &self.facts.temporary)
    }

    /// A table, view or sequence the snapshot knows; temporary ones hide others.
    pub fn find(&self, (schema, name): Name) -> Option<&'a Arc<Relation>> {
        if schema.is_none() && self.facts.temporary.iter().any(|t| t == name) {
            return None;
        }
        let found = self.snapshot.resolve(schema, name, &self.facts.search_path);
        if let Some(relation) = found.filter(|r| self.snapshot.locked.contains(&r.oid)) {
            self.locked.get_or_init(|| relation);
        }
        found
    }

    /// The relation whose rows a type's name means.
    pub fn rows_of(&self, name: Name) -> Option<&'a Arc<Relation>> {
        self.find(name).filter(|_| name.0.is_some() || !self.facts.types.contains(&text(name)))
    }

    /// The name of what is to be made, with the schema that it is made in: others of the path may have one of that name.
    pub fn made<'n>(&'n self, rv: &'n RangeVar) -> Name<'n> {
        let (schema, name) = names::table(rv);
        let temporary = (rv.relpersistence == "t").then_some("pg_temp");
        let first = Some(without_number(&self.facts.creation_schema)).filter(|s| !s.is_empty());
        (schema.or(temporary).or(first), name)
    }

    /// Home has a relation of the name of what is to be made.
    pub fn is_taken(&self, (schema, name): Name) -> bool {
        self.facts.taken.as_deref() == Some(text((schema, name)).as_str())
            || schema.is_some() && self.find((schema, name)).is_some()
    }

    /// A distributed or reference table.
    pub fn herd(&self, name: Name) -> Option<&'a Arc<Relation>> {
        self.find(name).filter(|r| is_herd(r))
    }

    /// The distributed or reference table that is named.
    pub fn herd_var(&self, rv: &RangeVar) -> Option<&'a Arc<Relation>> {
        self.herd(names::table(rv))
    }

    /// The distributed or reference table an index is on, if home said so.
    pub fn table_of_index(&self, name: Name) -> Option<&'a Arc<Relation>> {
        let (schema, table) = self.facts.indexes.get(&text(name))?;
        self.snapshot.relations.get(&(schema.clone(), table.clone())).filter(|r| is_herd(r))
    }

    /// The view reads a local table or a system catalog, itself or through other views: only home has it.
    pub fn view_is_local(&self, view: &Relation) -> bool {
        view.view.as_ref().is_some_and(|v| super::create::reads_of_text(self, &v.query).local)
    }

    /// Objects of the router's own are not for clients to change, whether the statement says where they are or `search_path` does: what is in
    /// those schemas the snapshot does not know, so a name that may be found there first is taken to be.
    pub fn not_ours(&self, name: Name) -> Result<(), Refusal> {
        let (None, bare) = name else { return self.not_in_ours(name) };
        if self.facts.temporary.iter().any(|t| t == bare) {
            return Ok(());
        }
        let index = self.facts.indexes.get(&text(name)).map(|(schema, _)| schema);
        let found = self.snapshot.resolve(None, bare, &self.facts.search_path).map(|r| &r.schema).or(index);
        let stop = |schema: &&String| is_ours(schema) || found == Some(*schema);
        match self.facts.search_path.iter().find(stop).filter(|schema| is_ours(schema)) {
            Some(schema) => Err(belongs_to_us(schema, bare)),
            None => Ok(()),
        }
    }

    /// The same of something that is to be made.
    pub fn not_made_in_ours(&self, (schema, name): Name) -> Result<(), Refusal> {
        let first = self.facts.search_path.iter().find(|s| *s != "pg_catalog" && !s.starts_with("pg_temp"));
        self.not_in_ours((schema.or(first.map(String::as_str)), name))
    }

    fn not_in_ours(&self, (schema, name): Name) -> Result<(), Refusal> {
        schema.filter(|s| is_ours(s)).map_or(Ok(()), |schema| Err(belongs_to_us(schema, name)))
    }

    /// The same text on every node.
    pub fn everywhere(&self, sql: &str) -> Spread {
        self.home_and(vec![Step::new(sql)], vec![Step::new(sql)])
    }

    /// Steps for home, and others for each other node.
    pub fn home_and(&self, home: Vec<Step>, others: Vec<Step>) -> Spread {
        let mut nodes = vec![NodeSteps { node: self.home(), steps: home }];
        if !others.is_empty() {
            nodes.extend(self.others().into_iter().map(|node| NodeSteps { node, steps: others.clone() }));
        }
        Spread { nodes, ..Spread::default() }
    }

    /// The client's text on home, and on the others where the condition holds.
    pub fn everywhere_if(&self, guard: String) -> Spread {
        self.home_and(vec![Step::new(self.sql)], vec![Step::guarded(guard, self.sql)])
    }

    /// The client's text once on each server: roles belong to servers, and nodes may be databases of one.
    pub fn each_server(&self, others_sql: &str) -> Spread {
        let mut spread = self.home_and(vec![Step::new(self.sql)], vec![Step::new(others_sql)]);
        let mut seen = Vec::new();
        spread.nodes.retain(|n| {
            let server = self.snapshot.node(n.node).map(|n| (n.host.clone(), n.port));
            let new = !seen.contains(&server);
            seen.push(server);
            new
        });
        spread
    }
}

fn is_ours(schema: &str) -> bool {
    matches!(schema, "herd" | "herd_shards")
}

fn belongs_to_us(schema: &str, name: &str) -> Refusal {
    Refusal {
        sqlstate: sqlstate::INSUFFICIENT_PRIVILEGE,
        message: format!("permission denied: \"{schema}.{name}\" belongs to pgherd"),
        hint: Some("Name the distributed table itself; its shards follow.".into()),
    }
}

/// Other nodes than home have the relation, or a part of it.
pub fn is_on_nodes(r: &Relation, snapshot: &Snapshot) -> bool {
    let facts = Facts::default();
    let statement = NodeEnum::NotifyStmt(ast::NotifyStmt::default());
    let cx = Cx { statement: &statement, sql: "", snapshot, facts: &facts, locked: OnceCell::default() };
    is_herd(r) || is_view(r) && !cx.view_is_local(r)
}

/// It is distributed or a reference table.
pub fn is_herd(r: &Relation) -> bool {
    !matches!(r.placement, Placement::Local)
}

/// An ordinary view, not a materialized one.
pub fn is_view(r: &Relation) -> bool {
    r.kind == RelationKind::View
}

/// The names of a distributed table's key columns.
pub fn key_columns(r: &Relation) -> Vec<&str> {
    r.distribution().map(|d| d.key.iter().map(|k| r.columns[*k].name.as_str()).collect()).unwrap_or_default()
}

/// The table is split by its owner, and each of its partitions is distributed.
pub fn is_partitioned(r: &Relation) -> bool {
    r.distribution().is_some_and(|d| d.is_partitioned())
}

/// The partition that a command of ALTER TABLE takes away.
pub fn detached(cmd: &Node) -> Option<&RangeVar> {
    match &cmd.node {
        Some(NodeEnum::AlterTableCmd(c)) if super::subtype(c) == ast::AlterTableType::AtDetachPartition => {
            match c.def.as_deref()?.node.as_ref()? {
                NodeEnum::PartitionCmd(p) => p.name.as_ref(),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The partitions of a distributed table on a node, quoted.
pub fn partitions(r: &Relation, node: NodeId) -> Vec<String> {
    let Some(d) = r.distribution().filter(|d| !d.is_partitioned()) else { return vec![] };
    d.group.shards.iter().filter(|s| s.node == node).map(|s| d.partition(s.number)).collect()
}

/// The schema as its session names it: `pg_temp_3` is `pg_temp`.
pub fn without_number(schema: &str) -> &str {
    if schema.starts_with("pg_temp_") { "pg_temp" } else { schema }
}

/// A name as it was written, quoted.
pub fn text((schema, name): Name) -> String {
    match schema {
        Some(s) => catalog::qualified(s, name),
        None => quote_ident(name),
    }
}

/// Its name with its schema, quoted where needed.
pub fn of_relation(r: &Relation) -> String {
    catalog::qualified(&r.schema, &r.name)
}

/// The last two of a list of names; a database's name in front is left off.
pub fn name_of<'n>(parts: &[&'n str]) -> Option<Name<'n>> {
    match parts {
        [.., schema, name] => Some((Some(schema), name)),
        [name] => Some((None, name)),
        [] => None,
    }
}

/// The name in a node that is a list of strings, a type's name, a function with its arguments or a single string.
pub fn strings_of(object: &Node) -> Vec<&str> {
    match &object.node {
        Some(NodeEnum::List(l)) => names::strings(&l.items),
        Some(NodeEnum::TypeName(t)) => names::strings(&t.names),
        Some(NodeEnum::ObjectWithArgs(o)) => names::strings(&o.objname),
        Some(NodeEnum::String(s)) => vec![s.sval.as_str()],
        Some(NodeEnum::RangeVar(rv)) => {
            let (schema, name) = names::table(rv);
            schema.into_iter().chain([name]).collect()
        }
        _ => vec![],
    }
}

/// A condition for nodes: a relation of that name is there.
pub fn regclass_exists(name: Name) -> String {
    format!("pg_catalog.to_regclass({}) IS NOT NULL", quote_literal(&text(name)))
}

/// `ALTER TABLE ONLY` and the like mean the whole table to a user, who sees no partitions.
pub fn whole(rv: &RangeVar) -> RangeVar {
    RangeVar { inh: true, ..rv.clone() }
}

/// The statement's text; `Err` where libpg_query can't write it.
pub fn deparse(node: NodeEnum) -> Result<String, Refusal> {
    Ok(sql::deparse(&node)?)
}

/// The relations named in a list; its other nodes are passed over.
pub fn range_vars(nodes: &[Node]) -> impl Iterator<Item = &RangeVar> {
    nodes.iter().filter_map(|n| match &n.node {
        Some(NodeEnum::RangeVar(rv)) => Some(rv),
        _ => None,
    })
}

/// An object type as trees have it; `Undefined` if the number means none.
pub fn object_type(number: i32) -> ast::ObjectType {
    ast::ObjectType::try_from(number).unwrap_or(ast::ObjectType::Undefined)
}
