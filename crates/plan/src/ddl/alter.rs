//! ALTER TABLE, and ALTER INDEX, VIEW, SEQUENCE where they share its tree.
//!
//! On a distributed table the statement goes to the parent on every node; what PostgreSQL does not do on parents is done
//! on the partitions, and what would make the nodes differ is refused.

use crate::{Refusal, clock_text, reads, rewrite};
use catalog::{Relation, RelationKind, quote_literal};
use sql::ast::{self, AlterTableCmd, AlterTableStmt, AlterTableType as T, Node, ObjectType};
use sql::{NodeEnum, names};

use super::place::{
    Cx, is_partitioned, is_view, key_columns, object_type, of_relation, partitions, regclass_exists, text, whole,
};
use super::steps::{Rights, Spread, Step};
use super::{Ddl, Decided, column, constraint, drop, index, partition};

/// ALTER TABLE, and what has the same tree: ALTER of a view, a sequence, an index or a composite type.
pub fn alter_table(cx: &Cx, a: &AlterTableStmt) -> Decided {
    let Some(rv) = &a.relation else { return Ok(Ddl::Home) };
    let name = names::table(rv);
    cx.not_ours(name)?;
    if object_type(a.objtype) == ObjectType::ObjectType {
        let guard = format!("pg_catalog.to_regtype({}) IS NOT NULL", quote_literal(&text(name)));
        return Ok(Ddl::Nodes(Box::new(cx.everywhere_if(guard))));
    }
    match cx.find(name) {
        Some(r) if r.distribution().is_some() || r.is_reference() => on_herd_table(cx, a, rv, r),
        Some(r) if is_view(r) && cx.view_is_local(r) => Ok(Ddl::Home),
        Some(r) if is_view(r) || r.kind == RelationKind::Sequence => {
            Ok(Ddl::Nodes(Box::new(cx.everywhere_if(regclass_exists(name)))))
        }
        Some(_) => on_local_table(cx, a),
        None => match cx.table_of_index(name) {
            Some(table) => index::alter(cx, a, table),
            None => Ok(Ddl::Home),
        },
    }
}

fn cmds(a: &AlterTableStmt) -> impl Iterator<Item = &AlterTableCmd> {
    a.cmds.iter().filter_map(|n| match &n.node {
        Some(NodeEnum::AlterTableCmd(c)) => Some(c.as_ref()),
        _ => None,
    })
}

/// Which form of ALTER TABLE the command is; `Undefined` if its number means none.
pub fn subtype(c: &AlterTableCmd) -> T {
    T::try_from(c.subtype).unwrap_or(T::Undefined)
}

/// A local table stays one as long as it has nothing to do with the herd's.
fn on_local_table(cx: &Cx, a: &AlterTableStmt) -> Decided {
    for c in cmds(a) {
        let def = c.def.as_deref().and_then(|d| d.node.as_ref());
        let constraints: Vec<&ast::Constraint> = match (subtype(c), def) {
            (T::AtAddConstraint, Some(NodeEnum::Constraint(c))) => vec![c],
            (T::AtAddColumn, Some(NodeEnum::ColumnDef(d))) => constraint::of_column(d).collect(),
            (T::AtAddInherit, Some(NodeEnum::RangeVar(parent))) if cx.herd_var(parent).is_some() => {
                return Err(no_children(&parent.relname));
            }
            (T::AtAttachPartition, Some(NodeEnum::PartitionCmd(p))) => match &p.name {
                Some(rv) if cx.herd_var(rv).is_some() => return Err(no_children(&rv.relname)),
                _ => continue,
            },
            _ => continue,
        };
        if let Some(target) = constraints.iter().find_map(|c| constraint::points_to_distributed(cx, c)) {
            let local = a.relation.as_ref().map_or("", |r| r.relname.as_str());
            return Err(Refusal::new(
                format!(
                    "a foreign key from local table \"{local}\" to distributed table \"{}\" is not possible: home has only some of its rows",
                    target.name
                ),
                format!(
                    "Distribute \"{local}\" first: SELECT create_distributed_table('{local}', …, colocate_with => '{}').",
                    target.name
                ),
            ));
        }
    }
    Ok(match drop::drop_sequences(cx) {
        Some(sequences) => Ddl::Nodes(Box::new(cx.home_and(vec![Step::new(cx.sql)], vec![sequences]))),
        None => Ddl::Home,
    })
}

/// The statement drops the column, which PostgreSQL does before it adds any.
fn drops(cx: &Cx, column: &str) -> bool {
    let NodeEnum::AlterTableStmt(a) = cx.statement else { return false };
    let is = |n: &Node| matches!(&n.node, Some(NodeEnum::AlterTableCmd(c)) if subtype(c) == T::AtDropColumn && c.name == column);
    a.cmds.iter().any(is)
}

/// The refusal of inheritance with a distributed table.
pub fn no_children(table: &str) -> Refusal {
    Refusal::new(
        format!("\"{table}\" is distributed over the herd and cannot take part in inheritance or be a partition"),
        "Call undistribute_table() first, or keep the tables apart.",
    )
}

/// What the subcommands come to, one list for each place they run in.
#[derive(Default)]
struct Parts {
    home: Vec<Node>,
    others: Vec<Node>,
    partitions: Vec<Node>,
    /// Afterwards, on every node.
    then: Vec<Node>,
    /// Afterwards, on every node but home.
    exhaust: Vec<String>,
    checks: Vec<super::Check>,
    mirror: bool,
    identities: bool,
    makes_index: bool,
    new_owner: Option<String>,
}

fn on_herd_table(cx: &Cx, a: &AlterTableStmt, rv: &ast::RangeVar, r: &Relation) -> Decided {
    if is_partitioned(r) {
        if let Some(attach) = cmds(a).find_map(|c| partition::attach(cx, c, r)) {
            return attach;
        }
        if !cmds(a).any(|c| subtype(c) == T::AtDetachPartition) {
            partition::refuse_only(rv, r)?;
        }
    }
    let mut parts = Parts::default();
    for c in cmds(a) {
        parts.add(cx, r, c)?;
    }
    let alter = |relation: ast::RangeVar, cmds: &[Node]| -> Result<Option<Step>, Refusal> {
        let tree = AlterTableStmt { relation: Some(relation), cmds: cmds.to_vec(), ..a.clone() };
        if cmds.is_empty() {
            return Ok(None);
        }
        if NodeEnum::AlterTableStmt(tree.clone()) == *cx.statement {
            return Ok(Some(Step::new(cx.sql)));
        }
        Ok(Some(Step::new(crate::Text::of(&NodeEnum::AlterTableStmt(tree))?)))
    };
    let table = if r.distribution().is_some() { whole(rv) } else { rv.clone() };
    let mut spread = cx.home_and(vec![], vec![]);
    spread.nodes.extend(cx.others().into_iter().map(|node| super::NodeSteps { node, steps: vec![] }));
    for n in &mut spread.nodes {
        let own = if n.node == cx.home() { &parts.home } else { &parts.others };
        n.steps.extend(alter(table.clone(), own)?);
        for partition in partitions(r, n.node) {
            let name = partition.strip_prefix("herd_shards.").unwrap_or(&partition).trim_matches('"').to_string();
            let rv = ast::RangeVar { schemaname: "herd_shards".into(), relname: name, inh: true, ..rv.clone() };
            n.steps.extend(alter(rv, &parts.partitions)?);
        }
        n.steps.extend(alter(table.clone(), &parts.then)?);
        if n.node != cx.home() {
            n.steps.extend(parts.exhaust.iter().map(Step::new));
        }
    }
    if parts.mirror && r.distribution().is_some() {
        mirror(&mut spread, r);
    }
    if parts.identities {
        spread.push_home(column::grant_identities(r));
    }
    spread.checks = parts.checks;
    if r.distribution().is_some() && (parts.new_owner.is_some() || parts.makes_index) {
        spread.rights = Some(Rights { table: of_relation(r), new_owner: parts.new_owner });
    }
    spread.constraints_of = cmds(a).any(makes_constraint).then(|| of_relation(r));
    if parts.home.is_empty() {
        spread.tag = Some("ALTER TABLE");
    }
    Ok(Ddl::Nodes(Box::new(spread)))
}

/// It may make a constraint whose name PostgreSQL chooses.
fn makes_constraint(c: &AlterTableCmd) -> bool {
    match c.def.as_deref().and_then(|d| d.node.as_ref()) {
        Some(NodeEnum::Constraint(k)) => k.conname.is_empty(),
        _ => matches!(subtype(c), T::AtAddColumn | T::AtSetNotNull),
    }
}

/// Gives the partitions what their parent has.
pub fn mirror(spread: &mut Spread, r: &Relation) {
    spread.push(format!("SELECT herd.mirror_partitions({}::pg_catalog.regclass)", quote_literal(&of_relation(r))));
}

impl Parts {
    fn both(&mut self, c: &AlterTableCmd) {
        let node = node(c.clone());
        self.home.push(node.clone());
        self.others.push(node);
    }

    fn add(&mut self, cx: &Cx, r: &Relation, c: &AlterTableCmd) -> Result<(), Refusal> {
        let def = c.def.as_deref().and_then(|d| d.node.as_ref());
        match (subtype(c), def) {
            (T::AtAddColumn, Some(NodeEnum::ColumnDef(d))) => return self.add_column(cx, r, c, d),
            (T::AtAddConstraint, Some(NodeEnum::Constraint(k))) => {
                constraint::check(cx, r, k, None)?;
                self.makes_index |= constraint::makes_index(k);
            }
            (T::AtChangeOwner, _) => self.new_owner = c.newowner.as_ref().map(|role| role.rolename.clone()),
            (T::AtAlterColumnType, Some(NodeEnum::ColumnDef(d))) => return self.change_type(cx, r, c, d),
            (T::AtColumnDefault, Some(_)) => {
                let column = r.columns.iter().find(|k| k.name == c.name);
                if let Some(default) = c.def.as_deref() {
                    column::refuse_moment(cx, default, column.is_none_or(|k| clock_text::may_hold(k.type_oid)))?;
                }
            }
            (T::AtDropColumn, _) => refuse_key(r, &c.name, "dropped")?,
            (T::AtAddIdentity, _) => {
                self.exhaust.push(column::exhaust_column(r, &c.name));
                self.identities = true;
            }
            (T::AtSetIdentity, Some(NodeEnum::List(l))) => {
                // Elsewhere the sequence stays exhausted; only how the column takes values is the same.
                let how = l
                    .items
                    .iter()
                    .filter(|o| matches!(&o.node, Some(NodeEnum::DefElem(d)) if d.defname == "generated"));
                let how: Vec<Node> = how.cloned().collect();
                self.home.push(node(c.clone()));
                if !how.is_empty() {
                    let list = NodeEnum::List(ast::List { items: how });
                    self.others
                        .push(node(AlterTableCmd { def: Some(Box::new(Node { node: Some(list) })), ..c.clone() }));
                }
                return Ok(());
            }
            (T::AtDetachPartition, _) if is_partitioned(r) => {
                partition::detach(c).iter().for_each(|c| self.both(c));
                return Ok(());
            }
            (T::AtAttachPartition | T::AtDetachPartition | T::AtDetachPartitionFinalize, _) => {
                return Err(Refusal::new(
                    format!("the partitions of \"{}\" are the herd's shards", r.name),
                    "They are made and moved by the router; to split a table by something else, call undistribute_table() first.",
                ));
            }
            (T::AtAddInherit | T::AtDropInherit | T::AtAddOf | T::AtDropOf, _) => return Err(no_children(&r.name)),
            _ => {}
        }
        match r.distribution() {
            Some(_) => self.on_distributed(r, c),
            None => {
                self.both(c);
                Ok(())
            }
        }
    }

    fn on_distributed(&mut self, r: &Relation, c: &AlterTableCmd) -> Result<(), Refusal> {
        match subtype(c) {
            // PostgreSQL has nowhere to keep these on a parent.
            T::AtSetRelOptions | T::AtResetRelOptions | T::AtReplaceRelOptions if !is_partitioned(r) => {
                self.partitions.push(node(c.clone()));
                return Ok(());
            }
            // Kept on the parent for partitions to come; those that are there are not reached.
            T::AtSetCompression => self.partitions.push(node(c.clone())),
            T::AtChangeOwner | T::AtReplicaIdentity | T::AtEnableRowSecurity | T::AtDisableRowSecurity => {
                self.mirror = true
            }
            T::AtForceRowSecurity
            | T::AtNoForceRowSecurity
            | T::AtSetStatistics
            | T::AtSetOptions
            | T::AtResetOptions => self.mirror = true,
            T::AtSetLogged
            | T::AtSetUnLogged
            | T::AtSetTableSpace
            | T::AtSetAccessMethod
            | T::AtClusterOn
            | T::AtDropCluster => {
                return Err(Refusal::new(
                    format!("this form of ALTER TABLE is not supported on distributed table \"{}\"", r.name),
                    "Call undistribute_table(), change the table, and distribute it again.",
                ));
            }
            _ => {}
        }
        self.both(c);
        Ok(())
    }

    fn add_column(&mut self, cx: &Cx, r: &Relation, c: &AlterTableCmd, d: &ast::ColumnDef) -> Result<(), Refusal> {
        if c.missing_ok && r.column(&d.colname).is_some() && !drops(cx, &d.colname) {
            // PostgreSQL says so, and looks at nothing else of it.
            self.both(c);
            self.checks.push(column::is_there(r, &d.colname, false));
            return Ok(());
        }
        let added = column::add(cx, r, d)?;
        match added.definition {
            Some(definition) => {
                self.both(&AlterTableCmd {
                    def: Some(Box::new(Node { node: Some(NodeEnum::ColumnDef(Box::new(definition))) })),
                    ..c.clone()
                });
            }
            None => self.both(c),
        }
        let new = r.column(&d.colname).is_none();
        if c.missing_ok && new && (added.later_default.is_some() || added.check.is_some()) {
            self.checks.push(column::is_there(r, &d.colname, true));
        }
        if let Some(expression) = added.later_default {
            self.then.push(node(AlterTableCmd {
                subtype: T::AtColumnDefault as i32,
                name: d.colname.clone(),
                def: Some(Box::new(expression)),
                behavior: ast::DropBehavior::DropRestrict as i32,
                ..Default::default()
            }));
        }
        self.checks.extend(added.check);
        if added.sequence {
            self.exhaust.push(column::exhaust_column(r, &d.colname));
            self.identities = true;
        }
        Ok(())
    }

    fn change_type(&mut self, cx: &Cx, r: &Relation, c: &AlterTableCmd, d: &ast::ColumnDef) -> Result<(), Refusal> {
        refuse_key(r, &c.name, "given another type")?;
        let Some(using) = d.raw_default.as_deref() else {
            self.both(c);
            return Ok(());
        };
        if reads::calls_sequence(using) {
            return Err(Refusal::new(
                format!(
                    "values of a sequence in USING, on \"{}\", which several nodes hold, are not supported",
                    r.name
                ),
                "Add a new column, fill it by UPDATE, drop the old one and rename the new.",
            ));
        }
        let mut tree = NodeEnum::AlterTableCmd(Box::new(c.clone()));
        rewrite::replace_now(&mut tree);
        if r.is_reference()
            && let Some(what) = column::differs(cx, r, using)
        {
            return Err(Refusal::new(
                format!(
                    "{what} in USING, on reference table \"{}\", is not supported: it could differ from node to node",
                    r.name
                ),
                "Add a new column, fill it by UPDATE, drop the old one and rename the new.",
            ));
        }
        let NodeEnum::AlterTableCmd(changed) = tree else { return Ok(()) };
        self.both(&changed);
        Ok(())
    }
}

fn node(c: AlterTableCmd) -> Node {
    Node { node: Some(NodeEnum::AlterTableCmd(Box::new(c))) }
}

fn refuse_key(r: &Relation, column: &str, what: &str) -> Result<(), Refusal> {
    if !key_columns(r).contains(&column) {
        return Ok(());
    }
    Err(Refusal::new(
        format!("column \"{column}\" is the key of distributed table \"{}\" and cannot be {what}", r.name),
        "Call undistribute_table(), change the table, and distribute it by the new key.",
    ))
}
