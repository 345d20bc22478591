//! Triggers of distributed tables, FOR EACH ROW, whose functions name distributed tables: right where each of those is colocated with the
//! trigger's table, and each statement keeps to rows whose key is that of the trigger's row. They are on the node where the trigger runs,
//! so it sees and reaches all that it would if there were one server.
//!
//! Each statement is planned as if a client sent it with NEW.key or OLD.key as a parameter ([`pinned`](crate::pinned)): both are keys of
//! rows on this node. A name without a schema may mean any table of that name, and is proved for each. What the function calls, and what
//! hangs on the tables, is judged where that is. Shards and their moves are not known here: those of colocated tables go together.

use std::collections::{BTreeSet, HashMap, HashSet};

use catalog::code::{Attached, Routine, Uses};
use catalog::{Oid, Placement, Relation};
use sql::body::{Body, Name, Unread};
use sql::program::trigger::{Row, Trigger};
use sql::program::{Expression, Kind};
use sql::{NodeEnum, names, relations, search};

use wire::type_oid;

use super::reach::Reach;
use super::{Graph, PlacementKind};
use crate::pinned::{Pin, Why, group};
use crate::{Context, Steps, keys};

/// So many tables may the names of one statement mean, all told.
const MEANINGS_MAX: usize = 16;

/// What a proof is about.
struct Proof<'g, 's> {
    graph: &'g Graph<'s>,
    table: &'g Relation,
    key: &'g catalog::Column,
    trigger: Trigger,
    path: Vec<String>,
    steps: Steps,
}

impl Graph<'_> {
    pub(super) fn is_distributed(&self, oid: Oid) -> bool {
        self.numbers.has(self.of_kind(PlacementKind::Distributed), oid)
    }

    pub(super) fn uses_distributed(&self, reach: &Reach) -> bool {
        let distributed = self.of_kind(PlacementKind::Distributed);
        reach.reads.meets(distributed) || reach.writes.meets(distributed)
    }

    /// The function of a trigger, if of distributed tables it uses rows of the key of the trigger's row alone, where it names them itself.
    pub(super) fn keeps_to_key(&self, a: &Attached, table: &Relation) -> Result<Oid, Why> {
        let functions = self.uses(a.object()).filter(|u| u.class == b'f');
        let mut routines = functions.filter_map(|u| self.routines.get(&u.oid).copied());
        let (routine, trigger) = routines.find_map(|r| Some((r, read(r)?))).ok_or("can't be read")?;
        let (Placement::Distributed(d), false) = (&table.placement, self.changed.contains_key(&table.oid)) else {
            return Err("was made before the table was distributed: create the trigger afterwards".into());
        };
        let column = |at: usize| table.columns.get(at);
        let [Some(key)] = d.key.iter().map(|at| column(*at)).collect::<Vec<_>>()[..] else {
            return Err(format!("is called for rows of \"{}\", whose key has several columns", table.name));
        };
        let trigger = trigger?;
        if trigger.program.runs_text() {
            return Err("runs statements that it puts together".into());
        }
        // A column that comes later would be meant in place of a variable.
        if trigger.program.takes_columns() {
            return Err("says that columns go before variables".into());
        }
        if trigger.changes(&key.name) {
            return Err(format!("changes {0}, or all of NEW or OLD", told(key)));
        }
        let schemas = self.snapshot.code.schemas.iter().map(|s| &s.name).chain([&routine.schema]);
        let path = std::iter::once("pg_catalog".to_string()).chain(schemas.cloned()).collect();
        Proof { graph: self, table, key, trigger, path, steps: Steps::new(Steps::SHORT) }.all()?;
        Ok(routine.oid)
    }
}

fn told(key: &catalog::Column) -> String {
    format!("NEW.{0} or OLD.{0}", key.name)
}

/// A type that was written without a length.
fn type_named(written: &str) -> Option<Oid> {
    let NodeEnum::SelectStmt(s) = sql::parse(&format!("SELECT NULL::{written}"), true).ok()?.pop()? else {
        return None;
    };
    let [sql::ast::Node { node: Some(NodeEnum::ResTarget(t)) }] = &s.target_list[..] else { return None };
    let NodeEnum::TypeCast(cast) = t.val.as_deref()?.node.as_ref()? else { return None };
    let of = cast.type_name.as_ref().filter(|of| of.typmods.is_empty())?;
    type_oid::named(names::plain_type(of)?)
}

/// A column, as it is written in front of %TYPE.
fn column_named(table: &str, column: &str) -> Option<(Name, String)> {
    let tree = sql::parse(&format!("SELECT {column} FROM {table}"), true).ok()?.pop()?;
    let [rv] = relations::of(&tree)[..] else { return None };
    let (schema, name) = names::table(rv);
    let column = search::find(&tree, |n| match n {
        NodeEnum::ColumnRef(c) => Some(names::last(&c.fields).to_string()),
        _ => None,
    })?;
    Some(((schema.map(str::to_string), name.to_string()), column))
}

/// A function's code; none: no trigger calls it.
pub(super) fn read(routine: &Routine) -> Option<Result<Trigger, Why>> {
    let tree = sql::parse(&routine.definition, true).ok().and_then(|mut s| s.pop())?;
    let trigger = Trigger::of(&tree)?;
    Some(if routine.opaque { Err("is too long to be read".into()) } else { trigger.map_err(Why::from) })
}

impl Proof<'_, '_> {
    fn all(&self) -> Result<(), Why> {
        let columns = |rv: &sql::ast::RangeVar| {
            let (schema, name) = names::table(rv);
            let found: Vec<_> = self.meant(&(schema.map(str::to_string), name.to_string()));
            let columns = found.iter().flat_map(|r| r.columns.iter().map(|c| c.name.clone())).collect();
            (!found.is_empty()).then_some(columns)
        };
        let program = &self.trigger.program;
        let resolved = program.resolved(&columns, &|at| self.trigger.is_row(at));
        let columns = self.table.columns.iter().map(|c| c.name.as_str()).collect();
        let mut row = Row { key: &self.key.name, columns, held: HashSet::new() };
        row.held = self.trigger.holding(&resolved, &row, |kind| self.keeps(kind));
        let mut all = program.expressions.iter().zip(resolved);
        all.try_for_each(|(written, resolved)| self.statement(written, resolved, &row))
    }

    /// A value of the key is the same in a variable of that kind: it is of a type without a length.
    fn keeps(&self, kind: &Kind) -> bool {
        let is_kept = |of: Oid| keys::is_kept(self.key.type_oid, of);
        match kind {
            Kind::Type(written) => type_named(written).is_some_and(is_kept),
            Kind::Column(table, column) => {
                let Some((table, column)) = column_named(table, column) else { return false };
                let meant = self.meant(&table);
                let of = |r: &&Relation| r.columns.iter().find(|c| c.name == column).map_or(0, |c| c.type_oid);
                let plain = |of: Oid| type_oid::is_integer(of) || of == type_oid::UUID;
                !meant.is_empty() && meant.iter().map(of).all(|of| plain(of) && is_kept(of))
            }
            _ => false,
        }
    }

    /// Relations that a name can mean.
    fn meant(&self, name: &Name) -> Vec<&Relation> {
        self.graph.found(name).filter_map(|oid| self.graph.relations.get(&oid).map(|r| &***r)).collect()
    }

    fn statement(&self, written: &Expression, resolved: Result<Expression, Unread>, row: &Row) -> Result<(), Why> {
        use NodeEnum::{DeleteStmt, InsertStmt, MergeStmt, SelectStmt, UpdateStmt};
        let named = Body::of_statement(&written.tree).reads;
        if !named.iter().flat_map(|name| self.graph.found(name)).any(|oid| self.graph.is_distributed(oid)) {
            return Ok(());
        }
        match &*written.tree {
            SelectStmt(s) if s.into_clause.is_none() => {}
            InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) => {}
            _ => return Err("runs statements that are neither queries nor changes of rows".into()),
        }
        let said = self.trigger.said(&resolved?, row);
        let column = |name: &str| self.table.columns.iter().find(|c| c.name == name);
        let type_of = |name: &Option<String>| name.as_deref().and_then(column).map_or(0, |c| c.type_oid);
        let types: Vec<Oid> = std::iter::once(self.key.type_oid).chain(said.others.iter().map(type_of)).collect();
        self.meanings(&said.tree)?.into_iter().try_for_each(|tree| self.planned(&tree, &types))
    }

    /// The statement with every table that its names can mean.
    fn meanings(&self, tree: &NodeEnum) -> Result<Vec<NodeEnum>, Why> {
        let unqualified = relations::of(tree).into_iter().filter(|rv| rv.schemaname.is_empty());
        let unqualified: BTreeSet<&str> = unqualified.map(|rv| rv.relname.as_str()).collect();
        let mut all: Vec<HashMap<&str, &str>> = vec![HashMap::new()];
        for name in unqualified {
            let meant = self.meant(&(None, name.to_string()));
            let is_with = |n: &NodeEnum| matches!(n, NodeEnum::CommonTableExpr(c) if c.ctename == name);
            if meant.is_empty() {
                continue;
            }
            if search::any(tree, is_with) {
                return Err(format!("has a WITH query of the name of a table (\"{name}\")"));
            }
            all = all
                .iter()
                .flat_map(|known| {
                    meant.iter().map(|r| {
                        let mut known = known.clone();
                        known.insert(name, r.schema.as_str());
                        known
                    })
                })
                .collect();
            if all.len() > MEANINGS_MAX {
                return Err("names tables without their schemas, of which too many are meant".into());
            }
        }
        let qualified = |schemas: &HashMap<&str, &str>| {
            let mut tree = tree.clone();
            search::each_relation_mut(&mut tree, |rv| {
                if let Some(schema) = schemas.get(rv.relname.as_str()).filter(|_| rv.schemaname.is_empty()) {
                    rv.schemaname = (*schema).to_string();
                }
            });
            tree
        };
        Ok(all.iter().map(qualified).collect())
    }

    fn planned(&self, tree: &NodeEnum, types: &[Oid]) -> Result<(), Why> {
        let cx = Context::new(self.graph.snapshot, &self.path, &[]).with_parameters(types);
        let cx = Context { steps: Some(&self.steps), ..cx };
        let (mut uses, name) = (Uses::default(), told(self.key));
        Pin { cx: &cx, parameter: 1, type_oid: self.key.type_oid, name: &name }.planned(tree, &mut uses)?;
        let is_lock = |n: &NodeEnum| matches!(n, NodeEnum::LockingClause(_));
        if !uses.others.is_empty() && search::any(tree, is_lock) {
            return Err("locks rows of a reference table, of which every node has a copy".into());
        }
        let named = relations::of(tree).into_iter().filter_map(|rv| cx.relation(rv));
        let mut distributed = named.filter(|r| self.graph.is_distributed(r.oid));
        if let Some(other) = distributed.find(|r| uses.tables.iter().all(|used| used.oid != r.oid)) {
            return Err(format!("uses \"{}\" in a way that is not known", other.name));
        }
        uses.tables.iter().try_for_each(|used| self.colocated(used))
    }

    /// Rows of a value are where those of the trigger's table are.
    fn colocated(&self, used: &Relation) -> Result<(), Why> {
        if group(used).is_none() || group(used) != group(self.table) {
            return Err(format!("uses \"{}\", which is not colocated with \"{}\"", used.name, self.table.name));
        }
        let keys = used.distribution().into_iter().flat_map(|d| &d.key);
        let is_same = |at: &usize| used.columns.get(*at).is_some_and(|c| keys::is_kept(self.key.type_oid, c.type_oid));
        match keys.clone().all(is_same) {
            true => Ok(()),
            false => Err(format!("uses \"{}\", whose key is of another type than {}", used.name, told(self.key))),
        }
    }
}
