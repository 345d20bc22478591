//! Whether all that a routine does is on the node of its distribution argument's value: each of its statements is planned as if a client
//! sent it with that argument as a parameter, and every distributed table in it must be restricted to that parameter.
//!
//! What a node would do otherwise than the router has it done is refused (`pinned.rs`), and so is what is not known before it runs.

use std::sync::Arc;

use catalog::Relation;
use catalog::code::{ByArgument, Routine, Uses};
use key::PartitionStrategy;
use sql::body::{Body, Script};
use sql::{NodeEnum, names, relations};
use wire::type_oid;

use crate::code::LookupPath;
use crate::pinned::{Pin, group, needs_more};
use crate::{Context, Refusal, Result, Steps, keys, needs};

/// What the routine uses: distributed tables are colocated, and there is one at least.
pub fn uses(routine: &Routine, by: &ByArgument, cx: &Context, steps: &Steps) -> Result<Arc<Uses>> {
    let proofs = &cx.snapshot.code.proofs;
    // What is temporary hides tables.
    let lasts = cx.temporary.is_empty();
    if let Some(known) = proofs.get(routine.oid, cx.search_path).filter(|_| lasts) {
        return Ok(known);
    }
    let own;
    let path = match LookupPath::of(routine, sql::body::search_paths(&routine.definition)) {
        LookupPath::Own(path) => {
            own = path;
            &own[..]
        }
        LookupPath::Path(path) => path,
        LookupPath::Callers(_) if routine.path.is_none() => cx.search_path,
        LookupPath::Callers(_) | LookupPath::Anywhere => {
            return Err(refusal(routine, "looks names up along a path that is not known before it runs"));
        }
    };
    let own = Context::new(cx.snapshot, path, cx.temporary).with_parameters(&routine.argument_types);
    let found = Arc::new(Proof { routine, by, cx: &Context { steps: Some(steps), ..own } }.uses(steps)?);
    if lasts {
        proofs.put(routine.oid, cx.search_path, found.clone());
    }
    Ok(found)
}

fn refusal(routine: &Routine, why: &str) -> Refusal {
    Refusal::new(
        format!("{}() can't run on the node of its distribution argument: it {why}", routine.name),
        "Compare the key of every distributed table in it with that argument, and leave the rest to statements of their own.",
    )
}

struct Proof<'p> {
    routine: &'p Routine,
    by: &'p ByArgument,
    cx: &'p Context<'p>,
}

impl Proof<'_> {
    fn refuse<T>(&self, why: impl AsRef<str>) -> Result<T> {
        Err(refusal(self.routine, why.as_ref()))
    }

    fn uses(&self, steps: &Steps) -> Result<Uses> {
        if self.routine.opaque {
            return self.refuse("is too long to be read");
        }
        let definition = &self.routine.definition;
        let script = Script::of(definition, self.by.number).or_else(|why| self.refuse(why))?;
        if let Some(what) = script.defaults.iter().find_map(|e| needs_more(e, self.cx)) {
            return self.refuse(format!("has defaults that use {what}, which not every node has"));
        }
        let body = Body::of_definition(definition);
        if body.unknown || body.words.is_some() {
            return self.refuse("runs what is not known before");
        }
        if let Some((_, name)) = body.types.iter().find(|t| needs::type_needs_more(t, self.cx)) {
            return self.refuse(format!("uses type {name}, whose code not every node can run"));
        }
        if let Some((_, name)) = body.types.iter().find(|t| self.is_row_of_home(t)) {
            return self.refuse(format!("uses the row type of \"{name}\", which only home has"));
        }
        if script.definer && self.routine.path.is_none() {
            return self
                .refuse("is SECURITY DEFINER and looks names up along its caller's path (SET search_path for it)");
        }
        let mut uses = Uses::default();
        for (text, statement) in &script.statements {
            self.statement(&script, text, statement, &mut uses, steps)?;
        }
        let Some(table) = uses.tables.first() else { return self.refuse("uses no distributed table, and need not") };
        if let Some(other) = uses.tables.iter().find(|t| group(t) != group(table)) {
            let (first, second) = (&table.name, &other.name);
            return self.refuse(format!("uses \"{first}\" and \"{second}\", which are not colocated"));
        }
        self.of_type(table)?;
        Ok(uses)
    }

    fn is_row_of_home(&self, (schema, name): &(Option<String>, String)) -> bool {
        use catalog::{Placement, RelationKind};
        let local = |r: &Relation| matches!(r.placement, Placement::Local) && r.kind != RelationKind::Sequence;
        let schemas = schema.as_slice().iter().chain(if schema.is_none() { self.cx.search_path } else { &[] });
        let mut meant = schemas.filter_map(|s| self.cx.snapshot.relations.get(&(s.clone(), name.clone())));
        meant.any(|r| local(r))
    }

    /// A value means the same to the function as to the key.
    fn of_type(&self, table: &Relation) -> Result<()> {
        let Some(d) = table.distribution() else { return Ok(()) };
        let (argument, key) = (self.by.type_oid, d.group.key_types.first().copied().unwrap_or(0));
        let read = |t| type_oid::is_integer(t) || type_oid::is_text(t) || t == type_oid::UUID;
        match d.group.strategy == PartitionStrategy::Hash || read(key) {
            _ if !(read(argument) && keys::is_kept(argument, key)) => {
                self.refuse(format!("is distributed by an argument of another type than the key of \"{}\"", table.name))
            }
            true => Ok(()),
            false => self.refuse("is distributed by a type whose values the router does not read"),
        }
    }

    /// What a statement uses.
    fn statement(
        &self,
        script: &Script,
        text: &str,
        statement: &NodeEnum,
        uses: &mut Uses,
        steps: &Steps,
    ) -> Result<()> {
        use NodeEnum::*;
        match statement {
            SelectStmt(s) if s.into_clause.is_none() => {}
            InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) => {}
            _ => return self.refuse("runs statements that are neither queries nor changes of rows"),
        }
        let named = relations::of(statement);
        if let Some(rv) = named.iter().find(|rv| self.may_be_another(rv)) {
            return self.refuse(format!("names \"{}\", which several schemas of its path have", rv.relname));
        }
        let is_column = |name: &str| {
            let mut read = named.iter().filter_map(|rv| self.cx.relation(rv));
            read.any(|r| r.column(name).is_some())
        };
        let tree = script.with_parameters(text, statement, is_column);
        let text = sql::deparse(&tree)?;
        let Some(tree) = sql::parse(&text, true)?.pop() else { return Ok(()) };
        // The node runs what other functions do, not what would stand in their calls' place.
        let plan = needs::refuse_reached(&tree, self.cx)
            .and_then(|()| crate::plan_within(&tree, &text, self.cx, steps))
            .or_else(|r| self.refuse(format!("holds a statement that is refused: {}", r.message)))?;
        if let Some(name) = super::leaves(&tree, |_| true, self.cx) {
            return self.refuse(format!("calls {name}(), which may change what names mean"));
        }
        let name = format!("argument {}", self.by.number);
        let pin = Pin { cx: self.cx, parameter: self.by.number, type_oid: self.by.type_oid, name: &name };
        pin.take(&plan, &tree, uses).or_else(|why| self.refuse(why))
    }

    /// Schemas of a path that is set for the routine are passed over where whoever runs it may not use them.
    fn may_be_another(&self, rv: &sql::ast::RangeVar) -> bool {
        let (schema, name) = names::table(rv);
        let relations = &self.cx.snapshot.relations;
        let has = |s: &&String| relations.contains_key(&(s.to_string(), name.to_string()));
        self.routine.path.is_some() && schema.is_none() && self.cx.search_path.iter().filter(has).count() > 1
    }
}
