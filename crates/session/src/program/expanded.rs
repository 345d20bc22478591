//! A statement with the columns of rows in their places: values of a row's own type would have another object id on each node. And with the names of
//! cursors that are open in place of their variables'. It does not know what a statement is for.

use exec::ExecError;
use sql::NodeEnum;
use sql::ast::{self, Node};
use sql::program::{Expression, Slot};
use sql::{build, search};
use wire::sqlstate;

use super::records::{Columns, value};
use super::{Held, Running, Value};
use crate::session::Result;

/// A statement with a row's columns in its place.
pub struct Expanded {
    pub tree: NodeEnum,
    pub text: String,
    pub values: Vec<Value>,
}

/// New parameters have numbers from here on, until they have been looked at: the old ones are still in the tree.
const NEW: i32 = 1 << 20;

/// What takes the place of rows, with the parameters that it makes.
struct Expander<'r, 'p> {
    e: &'r Expression,
    running: &'r Running<'p>,
    /// What each of the new parameters is: the old one, and the column of it.
    known: Vec<(i32, Option<usize>)>,
    values: Vec<Value>,
    failed: Option<ExecError>,
}

/// The statement with columns in place of rows; none: it has none. Names of cursors become those of what is open.
pub fn expanded(e: &Expression, running: &Running<'_>) -> Result<Option<Expanded>> {
    let is_row = |slot: &Slot| matches!(slot, Slot::Variable(at) if running.held[*at].is_row());
    if !e.uses.iter().any(is_row) && e.current_of.is_none() {
        return Ok(None);
    }
    let mut expander = Expander { e, running, known: vec![], values: vec![], failed: None };
    let mut tree = (*e.tree).clone();
    expander.node(&mut tree);
    search::each_mut(&mut tree, |n| expander.node(n));
    if let Some(error) = expander.failed {
        return Err(error);
    }
    let values = expander.values;
    let text = sql::deparse(&tree)?;
    let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
    Ok(Some(Expanded { tree, text, values }))
}

impl Expander<'_, '_> {
    /// Whether what is inside is to be looked at, too.
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        match n {
            NodeEnum::CurrentOfExpr(c) => {
                if let Some(at) = self.e.current_of
                    && let Held::Value { text: Some(name), .. } = &self.running.held[at]
                {
                    c.cursor_name = String::from_utf8_lossy(name).into_owned();
                }
            }
            NodeEnum::SelectStmt(s) => self.targets(&mut s.target_list),
            NodeEnum::List(l) => self.list(&mut l.items),
            NodeEnum::RowExpr(r) => self.list(&mut r.args),
            NodeEnum::FuncCall(f) => self.list(&mut f.args),
            // One of the new ones.
            NodeEnum::ParamRef(p) if p.number > NEW => p.number -= NEW,
            NodeEnum::ParamRef(p) => {
                let number = p.number;
                match self.parameter(number) {
                    Ok(new) => *n = new,
                    Err(e) => self.failed = Some(e),
                }
                return false;
            }
            _ => {}
        }
        true
    }

    fn slot(&self, number: i32) -> Option<&Slot> {
        usize::try_from(number - 1).ok().and_then(|at| self.e.uses.get(at))
    }

    /// The row that a parameter is, and its columns.
    fn row(&self, number: i32) -> Option<(usize, Option<Columns>)> {
        match self.slot(number)? {
            Slot::Variable(at) if self.running.held[*at].is_row() => Some((*at, self.running.held[*at].columns())),
            _ => None,
        }
    }

    /// The row whose columns are meant by `(row).*`.
    fn starred(&mut self, n: &Node) -> Option<Vec<(String, Node)>> {
        let Some(NodeEnum::AIndirection(i)) = &n.node else { return None };
        let [Node { node: Some(NodeEnum::AStar(_)) }] = &i.indirection[..] else { return None };
        let Some(NodeEnum::ParamRef(p)) = i.arg.as_deref().and_then(|a| a.node.as_ref()) else { return None };
        let (_, columns) = self.row(p.number)?;
        let Some(columns) = columns else {
            self.failed = Some(ExecError::sql(sqlstate::WRONG_OBJECT_TYPE, "record type has not been registered"));
            return None;
        };
        let number = p.number;
        Some(self.of_columns(number, columns))
    }

    fn of_columns(&mut self, number: i32, columns: Columns) -> Vec<(String, Node)> {
        let mut made = Vec::with_capacity(columns.len());
        for (column, (name, value)) in columns.into_iter().enumerate() {
            made.push((name, build::node(self.made((number, Some(column)), value))));
        }
        made
    }

    fn made(&mut self, which: (i32, Option<usize>), value: Value) -> NodeEnum {
        let at = self.known.iter().position(|k| *k == which).unwrap_or_else(|| {
            self.known.push(which);
            self.values.push(value);
            self.known.len() - 1
        });
        NodeEnum::ParamRef(ast::ParamRef { number: at as i32 + 1, location: -1 })
    }

    /// What comes into a parameter's place.
    fn parameter(&mut self, number: i32) -> Result<NodeEnum> {
        let slot = self.slot(number).cloned().ok_or_else(|| ExecError::internal("a parameter of nothing"))?;
        let Some((at, columns)) = self.row(number) else {
            let value = self.running.slot(&slot)?;
            return Ok(self.made((number, None), value));
        };
        let held = &self.running.held[at];
        let columns = columns.filter(|_| !held.is_null()).map(|columns| self.of_columns(number, columns));
        let (columns, ty) = match (columns, held) {
            (Some(columns), Held::Row(ty, _)) => {
                (build::row(columns.into_iter().map(|(_, value)| value).collect()), ty.name.as_str())
            }
            (Some(columns), _) => return Ok(named_row(columns)),
            (None, Held::Row(ty, _)) => (null(), ty.name.as_str()),
            (None, _) => (null(), "pg_catalog.record"),
        };
        let mut cast = sql::parse(&format!("SELECT CAST(NULL AS {ty})"), true)?;
        let cast = cast.pop().as_ref().and_then(value).cloned();
        match cast {
            Some(NodeEnum::TypeCast(cast)) => {
                Ok(NodeEnum::TypeCast(Box::new(ast::TypeCast { arg: Some(Box::new(columns)), ..*cast })))
            }
            _ => Err(ExecError::internal("a type without a name")),
        }
    }

    fn targets(&mut self, targets: &mut Vec<Node>) {
        let mut all = Vec::with_capacity(targets.len());
        for target in std::mem::take(targets) {
            let value = match &target.node {
                Some(NodeEnum::ResTarget(t)) => t.val.as_deref().cloned(),
                _ => None,
            };
            match value.and_then(|value| self.starred(&value)) {
                Some(columns) => {
                    all.extend(columns.into_iter().map(|(name, value)| build::target(kept(value), Some(&name))));
                }
                None => all.push(target),
            }
        }
        *targets = all;
    }

    fn list(&mut self, items: &mut Vec<Node>) {
        let mut all = Vec::with_capacity(items.len());
        for item in std::mem::take(items) {
            match self.starred(&item) {
                Some(columns) => all.extend(columns.into_iter().map(|(_, value)| kept(value))),
                None => all.push(item),
            }
        }
        *items = all;
    }
}

/// A parameter that will be looked at.
fn kept(mut parameter: Node) -> Node {
    if let Some(NodeEnum::ParamRef(p)) = &mut parameter.node {
        p.number += NEW;
    }
    parameter
}

fn null() -> Node {
    build::node(NodeEnum::AConst(ast::AConst { isnull: true, val: None, location: -1 }))
}

/// A row whose columns have names: `(SELECT r FROM (SELECT a AS x, b AS y) r)`.
fn named_row(columns: Vec<(String, Node)>) -> NodeEnum {
    let targets = columns.into_iter().map(|(name, value)| build::target(value, Some(&name))).collect();
    let inner = ast::SelectStmt { target_list: targets, ..build::select() };
    let from = build::subselect(inner, Some(build::alias("herd: row")), false);
    let outer = ast::SelectStmt {
        target_list: vec![build::target(build::column(&["herd: row"]), None)],
        from_clause: vec![from],
        ..build::select()
    };
    build::scalar(outer)
}
