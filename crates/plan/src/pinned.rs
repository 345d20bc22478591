//! Whether a statement in code uses, of distributed tables, rows of one value of their key alone, which one of its parameters is: then the
//! node that has those rows gives what all nodes together would. Each use of such a table must be restricted to that parameter, as the
//! statement's plan has it; what a node would do otherwise than the router has it done (rows for several nodes, copies of reference tables,
//! sequences, what is only on home) is told. Whose code it is, and where the value comes from, is not known here.

use catalog::code::Uses;
use catalog::{Oid, Relation};
use sql::ast;
use sql::{NodeEnum, build, names, relations, search};

use crate::insert::target_columns;
use crate::table_keys::TableKeys;
use crate::types::{Change, Insert, KeyExpr, Planned, Sequences};
use crate::{Context, Made, Steps, keys, moment, needs};

/// The value.
pub struct Pin<'p> {
    pub cx: &'p Context<'p>,
    /// The parameter, from 1.
    pub parameter: usize,
    pub type_oid: Oid,
    /// What the code calls it.
    pub name: &'p str,
}

/// Why it is not so, in words that follow the code's name.
pub type Why = String;

impl Pin<'_> {
    /// Takes up what a statement uses.
    pub fn take(&self, plan: &Planned, tree: &NodeEnum, uses: &mut Uses) -> Result<(), Why> {
        if let Some(query) = as_query(tree) {
            return self.planned(&query, uses);
        }
        let whole = plan.whole();
        if whole.tables.is_empty() && relations::of(tree).is_empty() {
            return match needs_more(&build::node(tree.clone()), self.cx) {
                Some(what) => Err(format!("uses {what}, which not every node has")),
                None => Ok(()),
            };
        }
        if whole.sequences != Sequences::None && !self.gives_all(tree) {
            return Err("may take values of a sequence, which only home has".into());
        }
        if matches!(plan, Planned::Insert { rows: Insert::Select(_), .. })
            && let Some(halves) = self.halves(tree)
        {
            return halves.iter().try_for_each(|half| self.planned(half, uses));
        }
        self.changes(plan)?;
        if whole.needs_home {
            let local = relations::of(tree).into_iter().find(|rv| self.is_on_home(rv)).map(|rv| &*rv.relname);
            return Err(match local {
                Some(name) => format!("uses \"{name}\", which only home has"),
                None => "uses what only home has".into(),
            });
        }
        if whole.rewritten.is_some() || whole.current_of.is_some() {
            return Err("holds a statement that routers rewrite (ONLY, tableoid, cursors)".into());
        }
        // Rows of VALUES have each a key.
        if !matches!(plan, Planned::Insert { rows: Insert::Rows(_), .. }) {
            whole.tables.iter().try_for_each(|table| self.pinned(table))?;
        }
        for relation in whole.tables.iter().map(|t| &t.relation) {
            if uses.tables.iter().all(|known| known.oid != relation.oid) {
                uses.tables.push(relation.clone());
            }
        }
        uses.others.extend(&whole.others);
        uses.others.sort_unstable();
        uses.others.dedup();
        Ok(())
    }

    fn is_on_home(&self, rv: &sql::ast::RangeVar) -> bool {
        use catalog::Placement;
        matches!(self.cx.placement(rv), Some(Placement::Local) | None) && !names::table(rv).1.is_empty()
    }

    /// An INSERT that leaves nothing to columns which sequences give values to.
    fn gives_all(&self, tree: &NodeEnum) -> bool {
        use NodeEnum::{FuncCall, InsertStmt, MergeStmt, SetToDefault};
        let InsertStmt(insert) = tree else { return false };
        let Some(relation) = insert.relation.as_ref().and_then(|rv| self.cx.relation(rv)) else { return false };
        let code = &self.cx.snapshot.session_code;
        let takes = |n: &NodeEnum| match n {
            FuncCall(f) => {
                matches!(names::last(&f.funcname), "nextval" | "setval" | "currval" | "lastval")
                    || code.takes_values(names::strings(&f.funcname), self.cx.search_path)
            }
            n => matches!(n, InsertStmt(_) | MergeStmt(_) | SetToDefault(_)),
        };
        let Some(given) = given(insert, relation) else { return false };
        let missing = relation.columns.iter().enumerate().filter(|(at, _)| !given.contains(at));
        let mut missing = missing.map(|(_, c)| c);
        missing.all(|c| c.sequence.is_none() && !c.default.as_ref().is_some_and(|d| d.contains("nextval")))
            && !search::any(tree, takes)
            && relation.kind == catalog::RelationKind::Table
            && !relation.statement_triggers
            && !code.takes_values([relation.schema.as_str(), relation.name.as_str()], self.cx.search_path)
    }

    /// INSERT … SELECT whose rows all have the value as their key: the query, and an INSERT of such a row.
    fn halves(&self, tree: &NodeEnum) -> Option<[NodeEnum; 2]> {
        let NodeEnum::InsertStmt(insert) = tree else { return None };
        let relation = insert.relation.as_ref().and_then(|rv| self.cx.relation(rv))?;
        let columns = given(insert, relation)?;
        let [key] = relation.distribution()?.key[..] else { return None };
        let at = columns.iter().position(|c| *c == key)?;
        let Some(NodeEnum::SelectStmt(select)) = insert.select_stmt.as_deref().and_then(|s| s.node.as_ref()) else {
            return None;
        };
        if !self.selects(select, at) || insert.with_clause.is_some() && select.with_clause.is_some() {
            return None;
        }
        let mut query = select.clone();
        query.with_clause = query.with_clause.or_else(|| insert.with_clause.clone());
        let value = |c: usize| match c == at {
            true => build::node(NodeEnum::ParamRef(ast::ParamRef { number: self.parameter as i32, location: -1 })),
            false => build::node(NodeEnum::AConst(ast::AConst { isnull: true, location: -1, val: None })),
        };
        let row = build::node(NodeEnum::List(ast::List { items: (0..columns.len()).map(value).collect() }));
        let rows = ast::SelectStmt { values_lists: vec![row], ..build::select() };
        let mut one = insert.clone();
        (one.select_stmt, one.with_clause) = (Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(rows))))), None);
        Some([NodeEnum::SelectStmt(query), NodeEnum::InsertStmt(one)])
    }

    /// The value is what every row of a query has there.
    fn selects(&self, select: &ast::SelectStmt, at: usize) -> bool {
        if let (Some(left), Some(right)) = (&select.larg, &select.rarg) {
            return self.selects(left, at) && self.selects(right, at);
        }
        let target = |n: &ast::Node| match &n.node {
            Some(NodeEnum::ResTarget(t)) => t.val.as_deref().cloned(),
            _ => None,
        };
        let Some(targets) = select.target_list.iter().map(target).collect::<Option<Vec<_>>>() else { return false };
        let is_it = |n: &ast::Node| keys::constant(n).is_some_and(|k| self.is_it(&k));
        !targets.iter().take(at).any(is_star) && targets.get(at).is_some_and(is_it)
    }

    /// The same of a statement that has no plan yet.
    pub fn planned(&self, tree: &NodeEnum, uses: &mut Uses) -> Result<(), Why> {
        let mut tree = tree.clone();
        // The time is that of the node's transaction, in any case.
        moment::fill_source(&mut tree, self.cx);
        let text = sql::deparse(&tree).map_err(|_| "can't be read")?;
        let tree = sql::parse(&text, true).ok().and_then(|mut s| s.pop()).ok_or("can't be read")?;
        let own = Steps::new(Steps::SHORT);
        let plan = crate::plan_within(&tree, &text, self.cx, self.cx.steps.unwrap_or(&own));
        self.take(&plan.map_err(|r| format!("holds a statement that is refused: {}", r.message))?, &tree, uses)
    }

    /// What it writes is on the node.
    fn changes(&self, plan: &Planned) -> Result<(), Why> {
        let key_of = |k: &Vec<KeyExpr>| matches!(&k[..], [one] if self.is_it(one));
        match plan {
            Planned::Forward(_) | Planned::Query { .. } => Ok(()),
            Planned::Insert { rows: Insert::Row | Insert::Each { .. }, .. } => Ok(()),
            Planned::Insert { rows: Insert::Rows(i), .. } if i.evaluate.is_empty() && i.keys.iter().all(key_of) => {
                Ok(())
            }
            Planned::Modify { change: Change::Each(_) | Change::Refused(_), .. } => Ok(()),
            Planned::Modify { change: Change::From(f), .. } if matches!(f.made, Made::Each(_)) => Ok(()),
            Planned::Insert { rows: Insert::Select(_) | Insert::Copies(_), .. }
            | Planned::Modify { change: Change::Copies(_), .. }
                if let Some(copied) = plan.written().filter(|r| r.is_reference()) =>
            {
                Err(format!("writes reference table \"{}\", of which every node has a copy", copied.name))
            }
            Planned::Insert { .. } => Err(format!("inserts rows whose keys are not known to be {}", self.name)),
            Planned::Modify { .. } => Err("changes the key of rows, or copies".into()),
            Planned::InTurn { .. } => Err("holds WITH that changes rows beside another change".into()),
        }
    }

    fn is_it(&self, key: &KeyExpr) -> bool {
        match key {
            KeyExpr::Param(n) => *n == self.parameter,
            KeyExpr::CastParam(n, cast) => *n == self.parameter && keys::is_kept(self.type_oid, *cast),
            _ => false,
        }
    }

    /// The use of a table is of rows of the value alone.
    fn pinned(&self, table: &TableKeys) -> Result<(), Why> {
        let name = &table.relation.name;
        let single = table.relation.distribution().is_some_and(|d| d.key.len() == 1);
        match &table.columns[..] {
            [key] if single && !key.is_empty() && key.iter().all(|k| self.is_it(k)) => Ok(()),
            _ if !single => Err(format!("uses \"{name}\", whose key has several columns")),
            _ => Err(format!("uses \"{name}\" without a condition that its key is {}", self.name)),
        }
    }
}

/// INSERT of one row with a subquery in it, as INSERT … SELECT of that row: what it reads and writes is the same.
fn as_query(tree: &NodeEnum) -> Option<NodeEnum> {
    let NodeEnum::InsertStmt(insert) = tree else { return None };
    let Some(NodeEnum::SelectStmt(rows)) = insert.select_stmt.as_deref().and_then(|s| s.node.as_ref()) else {
        return None;
    };
    let [ast::Node { node: Some(NodeEnum::List(row)) }] = &rows.values_lists[..] else { return None };
    let is_default = |n: &ast::Node| matches!(n.node, Some(NodeEnum::SetToDefault(_)));
    let reads = |n: &ast::Node| search::any(n, |n| matches!(n, NodeEnum::SubLink(_)));
    if !row.items.iter().any(reads) || row.items.iter().any(is_default) || !rows.sort_clause.is_empty() {
        return None;
    }
    let target_list = row.items.iter().map(|value| build::target(value.clone(), None)).collect();
    let query = ast::SelectStmt { values_lists: vec![], target_list, ..(**rows).clone() };
    let mut insert = insert.clone();
    insert.select_stmt = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(query)))));
    Some(NodeEnum::InsertStmt(insert))
}

/// Whether expressions need what not every node has.
pub fn needs_more(node: &ast::Node, cx: &Context) -> Option<String> {
    needs::find(node, cx, |n| n.herd || n.home).map(|n| n.what)
}

/// The columns that an INSERT gives values, in their order.
fn given(insert: &ast::InsertStmt, relation: &Relation) -> Option<Vec<usize>> {
    let columns = target_columns(insert, relation).ok()?;
    if !insert.cols.is_empty() {
        return Some(columns);
    }
    let Some(NodeEnum::SelectStmt(s)) = insert.select_stmt.as_deref().and_then(|s| s.node.as_ref()) else {
        return None;
    };
    let mut first = s;
    while let Some(left) = &first.larg {
        first = left;
    }
    let width = match first.values_lists.first().map(|row| &row.node) {
        Some(Some(NodeEnum::List(row))) if !row.items.iter().any(is_star) => row.items.len(),
        None if !first.target_list.iter().any(is_star) => first.target_list.len(),
        _ => return None,
    };
    columns.get(..width).map(<[usize]>::to_vec)
}

/// It stands for several values, perhaps.
fn is_star(value: &ast::Node) -> bool {
    match &value.node {
        Some(NodeEnum::ResTarget(t)) => t.val.as_deref().is_some_and(is_star),
        Some(NodeEnum::ColumnRef(c)) => names::has_star(c),
        n => matches!(n, None | Some(NodeEnum::AIndirection(_))),
    }
}

/// Tables whose rows of one value are on one node have the same.
pub fn group(relation: &Relation) -> Option<i32> {
    relation.distribution().map(|d| d.group.id)
}
