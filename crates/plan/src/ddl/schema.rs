//! CREATE SCHEMA, which may make tables and views in it and grant rights to them. Tables are local at first; of the rest other nodes get what
//! would be there if it had been made alone.

use sql::ast::{self, CreateSchemaStmt, Node, ObjectType as O};
use sql::{NodeEnum, names, relations};

use super::facts::Facts;
use super::place::{Cx, Name, deparse, name_of, object_type, range_vars, strings_of};
use super::steps::Step;
use super::{Ddl, Decided, alter, create, grant};
use crate::Refusal;

/// CREATE SCHEMA: on every node, with those of its elements that are.
pub fn create(cx: &Cx, s: &CreateSchemaStmt) -> Decided {
    if s.schema_elts.is_empty() {
        return Ok(Ddl::Nodes(Box::new(cx.everywhere(cx.sql))));
    }
    let elements = Elements::of(cx, s);
    let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
    for element in s.schema_elts.iter().filter_map(|e| e.node.as_ref()) {
        let (own, is_everywhere) = elements.element(cx, element)?;
        let node = Node { node: Some(own) };
        elsewhere.extend(is_everywhere.then(|| node.clone()));
        here.push(node);
    }
    let text = |schema_elts: Vec<Node>| {
        let tree = NodeEnum::CreateSchemaStmt(CreateSchemaStmt { schema_elts, ..s.clone() });
        if tree == *cx.statement { Ok(cx.sql.to_string()) } else { deparse(tree) }
    };
    Ok(Ddl::Nodes(Box::new(cx.home_and(vec![Step::new(text(here)?)], vec![Step::new(text(elsewhere)?)]))))
}

/// What the names of a schema's elements mean to each other.
struct Elements<'s> {
    schema: &'s str,
    views: Vec<&'s ast::ViewStmt>,
    /// Tables and sequences, which only home has.
    local: Vec<&'s str>,
    /// The schema is looked in first.
    facts: Facts,
}

impl<'s> Elements<'s> {
    fn of(cx: &Cx, s: &'s CreateSchemaStmt) -> Self {
        // Without a name it has that of its owner.
        let schema = match (&s.authrole, s.schemaname.is_empty()) {
            (Some(role), true) => &role.rolename,
            _ => &s.schemaname,
        };
        let mut facts = Facts { creation_schema: schema.clone(), taken: None, ..cx.facts.clone() };
        facts.search_path.insert(0, schema.clone());
        let mut elements = Elements { schema, views: vec![], local: vec![], facts };
        for element in s.schema_elts.iter().filter_map(|e| e.node.as_ref()) {
            let local = match element {
                NodeEnum::CreateStmt(table) => table.relation.as_ref(),
                NodeEnum::CreateSeqStmt(sequence) => sequence.sequence.as_ref(),
                NodeEnum::ViewStmt(view) => {
                    elements.views.push(view);
                    None
                }
                _ => None,
            };
            elements.local.extend(local.map(|rv| rv.relname.as_str()));
        }
        elements
    }

    /// What home makes of it, and whether other nodes do so, too.
    fn element(&self, cx: &Cx, element: &NodeEnum) -> Result<(NodeEnum, bool), Refusal> {
        let mut meant = element.clone();
        if matches!(element, NodeEnum::ViewStmt(_)) {
            relations::replace(&mut meant, &mut |n| self.name_local(n));
        }
        let sql = deparse(meant.clone())?;
        let within =
            Cx { statement: &meant, sql: &sql, snapshot: cx.snapshot, facts: &self.facts, locked: Default::default() };
        let made = self.made(&within, &meant)?;
        if let Some(relation) = within.locked.get() {
            return Err(Refusal::locked(&relation.name));
        }
        Ok(if made.0 == meant { (element.clone(), made.1) } else { made })
    }

    /// Elsewhere in the path there may be tables of the names of these, which are not meant.
    fn name_local(&self, n: &mut Node) {
        if let Some(NodeEnum::RangeVar(rv)) = &mut n.node
            && rv.schemaname.is_empty()
            && self.is_local((None, &rv.relname))
            && !self.facts.temporary.iter().any(|t| *t == *rv.relname)
        {
            rv.schemaname = self.schema.to_string();
        }
    }

    fn is_local(&self, (schema, name): Name) -> bool {
        schema.is_none_or(|schema| schema == self.schema) && self.local.contains(&name)
    }

    fn made(&self, cx: &Cx, element: &NodeEnum) -> Result<(NodeEnum, bool), Refusal> {
        let own = || element.clone();
        match element {
            NodeEnum::CreateStmt(table) => match range_vars(&table.inh_relations).find_map(|rv| cx.herd_var(rv)) {
                Some(parent) => Err(alter::no_children(&parent.name)),
                None => Ok((own(), false)),
            },
            NodeEnum::ViewStmt(view) => {
                let reads = view.query.as_deref().map(relations::of_node).unwrap_or_default();
                if let Some(other) = reads.into_iter().find_map(|rv| self.view(names::table(rv))) {
                    return Err(apart(&format!(
                        "a view that reads view \"{}\", made in the same CREATE SCHEMA,",
                        name(other)
                    )));
                }
                if self.schema.is_empty() {
                    return Err(apart("CREATE VIEW in CREATE SCHEMA that does not say its name"));
                }
                view_made(cx, view)
            }
            NodeEnum::GrantStmt(s) => self.granted(cx, s).map(|everywhere| (own(), everywhere)),
            NodeEnum::CreateTrigStmt(t) => match t.relation.as_ref().and_then(|rv| self.view(names::table(rv))) {
                Some(view) => {
                    Err(apart(&format!("a trigger of view \"{}\", made in the same CREATE SCHEMA,", name(view))))
                }
                None => Ok((own(), false)),
            },
            _ => Ok((own(), false)),
        }
    }

    /// Whether other nodes have what rights are granted to.
    fn granted(&self, cx: &Cx, s: &ast::GrantStmt) -> Result<bool, Refusal> {
        let objects: Vec<_> = s.objects.iter().map(strings_of).collect();
        if object_type(s.objtype) == O::ObjectSchema && objects.iter().all(|o| o[..] == [self.schema]) {
            return Ok(true);
        }
        // Of all that this schema has: what there is of views, and the rest is local.
        if s.targtype == ast::GrantTargetType::AclTargetAllInSchema as i32
            && objects.iter().all(|o| o[..] == [self.schema])
        {
            let made = self.views.iter().map(|v| Ok(self.element(cx, &NodeEnum::ViewStmt(Box::new((*v).clone())))?.1));
            let everywhere: Vec<bool> = made.collect::<Result<_, Refusal>>()?;
            return match everywhere.contains(&true) {
                false => Ok(false),
                true => Err(apart("GRANT in CREATE SCHEMA on what other nodes have, too,")),
            };
        }
        let (mut everywhere, mut others) = (Vec::new(), Vec::new());
        for (node, object) in s.objects.iter().zip(&objects) {
            match name_of(object).map(|name| (self.view(name), self.is_local(name))) {
                Some((Some(view), _)) => {
                    let statement = NodeEnum::ViewStmt(Box::new(view.clone()));
                    everywhere.push(self.element(cx, &statement)?.1);
                }
                Some((None, true)) => everywhere.push(false),
                _ => others.push(node.clone()),
            }
        }
        if others.is_empty() && everywhere.iter().all(|e| *e) {
            return Ok(true);
        }
        let is_home = others.is_empty()
            || matches!(grant::grant(cx, &ast::GrantStmt { objects: others, ..s.clone() })?, Ddl::Home);
        match is_home && !everywhere.contains(&true) {
            true => Ok(false),
            false => Err(apart("GRANT in CREATE SCHEMA on what other nodes have, too,")),
        }
    }

    /// The element of that name.
    fn view(&self, (schema, name): Name) -> Option<&'s ast::ViewStmt> {
        let is = |v: &&ast::ViewStmt| v.view.as_ref().is_some_and(|rv| rv.relname == name);
        self.views.iter().copied().filter(|_| schema.is_none_or(|schema| schema == self.schema)).find(is)
    }
}

fn view_made(cx: &Cx, view: &ast::ViewStmt) -> Result<(NodeEnum, bool), Refusal> {
    let spread = match create::view(cx, view)? {
        Ddl::Nodes(spread) => spread,
        _ => return Ok((cx.statement.clone(), false)),
    };
    let is_everywhere = spread.nodes.len() > 1;
    let text = spread.nodes.iter().find(|n| n.node == cx.home()).and_then(|n| n.steps.first());
    let tree = match text.map(|step| step.text.to_string()).filter(|text| text != cx.sql) {
        Some(text) => sql::parse(&text, true)?.pop(),
        None => None,
    };
    Ok((tree.unwrap_or_else(|| cx.statement.clone()), is_everywhere))
}

fn name(view: &ast::ViewStmt) -> &str {
    view.view.as_ref().map_or("", |rv| rv.relname.as_str())
}

fn apart(what: &str) -> Refusal {
    Refusal::new(format!("{what} is not supported"), "CREATE SCHEMA first, then the rest in statements of their own.")
}
