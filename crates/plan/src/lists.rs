//! Long lists of constants (`k IN (…)`, `k = ANY(…)`, ORs of equalities), as nodes get them.
//!
//! PostgreSQL's planner looks at each element of a list once for each partition: to prune, to guess how many rows match,
//! to find index scans. A hundred thousand elements over a node's partitions take it gigabytes, in planning that no
//! timeout ends. So where a long list stands among a level's conditions, nodes get it as what is not looked into: as
//! rows to join with, where element and column are integers or uuids, so that IN and a join mean the same `=`; else as a
//! test inside CASE. What the router knows of keys it has read before: only texts are changed here, never what is planned.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use sql::ast::{self, Node, a_const::Val};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names, search};
use wire::type_oid;

use crate::text;

/// Shorter lists are quickly planned, and pruned by.
const JOINED_MIN: usize = 500;
/// A test inside CASE finds no index: only where the list itself is what costs.
const HIDDEN_MIN: usize = 5000;
/// A list that long has at least so many bytes.
const BYTES_PER_ELEMENT: usize = 2;

/// The lists of a statement that nodes get in another form, by where they stand in its text.
#[derive(Default)]
pub struct Lists {
    /// The statement's text has the length that a long list takes.
    long: Cell<bool>,
    found: RefCell<HashMap<i32, Form>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Rows to join with; `None`: of the array's own type.
    Rows(Option<&'static str>),
    /// A parameter: rows if it is long.
    Parameter,
    Hidden,
}

impl Lists {
    /// For a statement's text; nothing is noted of one too short to have a long list.
    pub fn of(text: &str) -> Self {
        Lists { long: Cell::new(text.len() > JOINED_MIN * BYTES_PER_ELEMENT), found: RefCell::default() }
    }

    /// A condition that all rows of its level pass; `column`: the type of the column it restricts to constants, if it does.
    pub fn note(&self, condition: &Node, column: Option<u32>) {
        if let Some((location, form)) = self.form(condition, column) {
            self.found.borrow_mut().insert(location, form);
        }
    }

    fn form(&self, condition: &Node, column: Option<u32>) -> Option<(i32, Form)> {
        let element = column.and_then(element_type);
        let rows_of = |condition| {
            let list = elements(condition)?;
            element.filter(|t| is_joined(&list, t)).map(|t| Form::Rows(Some(t)))
        };
        let (location, rows) = match condition.node.as_ref()? {
            NodeEnum::AExpr(e) if e.kind == ast::AExprKind::AexprOpAny as i32 => {
                let array = e.rexpr.as_deref()?;
                if element.is_some() && is_parameter(array) {
                    return Some((e.location, Form::Parameter)).filter(|_| e.location >= 0);
                }
                (e.location, element.and_then(|t| array_form(array, t)))
            }
            NodeEnum::AExpr(e) => (e.location, rows_of(condition)),
            NodeEnum::BoolExpr(b) => (b.location, rows_of(condition)),
            _ => return None,
        };
        if location < 0 || !self.long.get() {
            return None;
        }
        let hidden = || (longest(condition) > HIDDEN_MIN).then_some(Form::Hidden);
        Some((location, rows.or_else(hidden)?))
    }

    /// The statement itself has a list that a node which has all of it should not look into.
    pub fn is_needed(&self) -> bool {
        self.found.borrow().values().any(|form| *form != Form::Parameter)
    }

    /// Puts them in the form that nodes get. `parameters`: those that may be long, too, which makes marks.
    pub fn apply(&self, tree: &mut NodeEnum, parameters: bool) {
        let found = self.found.borrow();
        if !found.is_empty() {
            walk::below_mut(tree, &mut Apply { found: &found, parameters });
        }
    }
}

/// Types of which equal values are the same whatever IN, OR or a join makes of the literals' types.
fn element_type(column: u32) -> Option<&'static str> {
    Some(match column {
        type_oid::INT2 => "int2",
        type_oid::INT4 => "int4",
        type_oid::INT8 => "int8",
        type_oid::UUID => "uuid",
        _ => return None,
    })
}

fn is_parameter(array: &Node) -> bool {
    match array.node.as_ref() {
        Some(NodeEnum::ParamRef(p)) => p.number > 0,
        Some(NodeEnum::TypeCast(t)) => {
            let of_array = t.type_name.as_ref().is_some_and(|t| !t.array_bounds.is_empty());
            of_array && t.arg.as_deref().is_some_and(is_parameter)
        }
        _ => false,
    }
}

/// `ANY('{…}')`, `ANY('{…}'::int[])` and `ANY(ARRAY[…])`.
fn array_form(array: &Node, element: &'static str) -> Option<Form> {
    let is_text =
        |n: &Node| matches!(&n.node, Some(NodeEnum::AConst(c)) if text_bytes(c) > JOINED_MIN * BYTES_PER_ELEMENT);
    match array.node.as_ref()? {
        NodeEnum::AArrayExpr(a) => {
            let all: Vec<&Node> = a.elements.iter().collect();
            is_joined(&all, element).then_some(Form::Rows(Some(element)))
        }
        NodeEnum::AConst(_) if is_text(array) => Some(Form::Rows(Some(element))),
        NodeEnum::TypeCast(t) if is_text(t.arg.as_deref()?) => {
            let of = names::last(&t.type_name.as_ref()?.names);
            let same =
                of == element || matches!(element, "int2" | "int4" | "int8") && matches!(of, "int2" | "int4" | "int8");
            same.then_some(Form::Rows(None))
        }
        _ => None,
    }
}

fn text_bytes(c: &ast::AConst) -> usize {
    match &c.val {
        Some(Val::Sval(s)) => s.sval.len(),
        _ => 0,
    }
}

/// The constants of IN, or of ORs of equalities with one column.
fn elements(condition: &Node) -> Option<Vec<&Node>> {
    match condition.node.as_ref()? {
        NodeEnum::AExpr(e) if e.kind == ast::AExprKind::AexprIn as i32 => match e.rexpr.as_deref()?.node.as_ref()? {
            NodeEnum::List(l) => Some(l.items.iter().collect()),
            _ => None,
        },
        NodeEnum::AExpr(e) if e.kind == ast::AExprKind::AexprOp as i32 => Some(vec![e.rexpr.as_deref()?]),
        NodeEnum::BoolExpr(b) if b.boolop == ast::BoolExprType::OrExpr as i32 => {
            let mut all = Vec::with_capacity(b.args.len());
            for arg in &b.args {
                all.extend(elements(arg)?);
            }
            Some(all)
        }
        _ => None,
    }
}

/// Many, and each read as it is read beside a column of that type.
fn is_joined(list: &[&Node], element: &str) -> bool {
    let integers = element != "uuid";
    let plain = |n: &&Node| match n.node.as_ref() {
        Some(NodeEnum::AConst(c)) => match &c.val {
            _ if c.isnull => true,
            Some(Val::Ival(_)) => integers,
            Some(Val::Fval(f)) => integers && f.fval.parse::<i64>().is_ok(),
            // An unknown literal takes the column's type only where all do.
            Some(Val::Sval(_)) => !integers,
            _ => false,
        },
        _ => false,
    };
    // An array of NULLs alone is one of texts.
    let null = |n: &&Node| matches!(&n.node, Some(NodeEnum::AConst(c)) if c.isnull);
    list.len() > JOINED_MIN && list.iter().all(plain) && (!integers || !list.iter().all(null))
}

/// The longest list below a condition.
fn longest(condition: &Node) -> usize {
    let mut longest = 0;
    search::each(condition, |n| {
        longest = longest.max(match n {
            NodeEnum::List(l) => l.items.len(),
            NodeEnum::AArrayExpr(a) => a.elements.len(),
            NodeEnum::AConst(c) => text_bytes(c) / (2 * BYTES_PER_ELEMENT),
            _ => 0,
        });
    });
    longest
}

struct Apply<'f> {
    found: &'f HashMap<i32, Form>,
    parameters: bool,
}

impl VisitMut for Apply<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        let location = match n {
            NodeEnum::AExpr(e) => e.location,
            NodeEnum::BoolExpr(b) => b.location,
            _ => return true,
        };
        match self.found.get(&location) {
            None => return true,
            Some(Form::Rows(element)) => {
                if let Some(joined) = joined(n, *element) {
                    *n = joined;
                }
            }
            Some(Form::Parameter) => {
                if let (NodeEnum::AExpr(e), true) = (n, self.parameters)
                    && let Some(array) = e.rexpr.take()
                    && let Some(number) = parameter(&array)
                {
                    e.rexpr = Some(Box::new(text::array(number, *array)));
                }
            }
            Some(Form::Hidden) => *n = hidden(n.clone()),
        }
        false
    }
}

fn parameter(array: &Node) -> Option<usize> {
    match array.node.as_ref()? {
        NodeEnum::ParamRef(p) => usize::try_from(p.number).ok(),
        NodeEnum::TypeCast(t) => parameter(t.arg.as_deref()?),
        _ => None,
    }
}

/// `column = ANY (SELECT unnest(array))`, by PostgreSQL's own `=`: no other was noted.
fn joined(condition: &NodeEnum, element: Option<&str>) -> Option<NodeEnum> {
    let node = build::node(condition.clone());
    let column = match condition {
        NodeEnum::AExpr(e) => e.lexpr.clone()?,
        NodeEnum::BoolExpr(b) => match b.args.first()?.node.as_ref()? {
            NodeEnum::AExpr(e) => e.lexpr.clone()?,
            _ => return None,
        },
        _ => return None,
    };
    let array = match (elements(&node), condition) {
        (Some(list), _) => build::array(list.into_iter().cloned().collect()),
        (None, NodeEnum::AExpr(e)) => e.rexpr.as_deref()?.clone(),
        _ => return None,
    };
    // Integers of another size are compared as they are: a cast could be out of range.
    let given = !matches!(array.node, Some(NodeEnum::AConst(_)));
    let array = match element {
        Some("uuid") => build::array_cast(array, "uuid"),
        Some(element) if !given => build::array_cast(array, element),
        _ => array,
    };
    let mut select = build::select();
    select.target_list = vec![build::target(build::own_call("unnest", vec![array]), None)];
    Some(NodeEnum::SubLink(Box::new(ast::SubLink {
        sub_link_type: ast::SubLinkType::AnySublink as i32,
        testexpr: Some(column),
        oper_name: build::own_name("="),
        subselect: Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(select))))),
        location: -1,
        ..Default::default()
    })))
}

/// `CASE WHEN condition THEN true END`: where only what is true passes it is the same.
fn hidden(condition: NodeEnum) -> NodeEnum {
    build::when(build::node(condition), build::cast(build::text("t"), "bool"))
}
