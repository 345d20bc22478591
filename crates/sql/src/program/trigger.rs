//! A trigger's function as a program, with the variables that PL/pgSQL gives it, and what its statements are of the row that it is
//! called for: columns of that row's key become one parameter. Which tables and columns there are is not known here.

use std::collections::{HashMap, HashSet};

use super::{Ex, Expression, Kind, Program, Slot, Variable};
use crate::ast;
use crate::body::Unread;
use crate::{NodeEnum, build, names, search};

/// What it finds in its variables besides the rows (plpgsql.sgml, "Triggers on Data Changes").
const TOLD: [&str; 10] = [
    "tg_name",
    "tg_when",
    "tg_level",
    "tg_op",
    "tg_relid",
    "tg_relname",
    "tg_table_name",
    "tg_table_schema",
    "tg_nargs",
    "tg_argv",
];

/// The function of a trigger.
#[derive(Debug)]
pub struct Trigger {
    pub program: Program,
    /// The variables NEW and OLD.
    rows: [usize; 2],
    /// How many variables PL/pgSQL gives it.
    given: usize,
}

/// What is asked for: the row's columns.
#[derive(Debug)]
pub struct Row<'r> {
    /// The one that is its key.
    pub key: &'r str,
    pub columns: Vec<&'r str>,
    /// [Variables that hold it](Trigger::holding), too.
    pub held: HashSet<usize>,
}

/// A statement of it: `$1` is the row's key, wherever a column of NEW or OLD is that.
#[derive(Debug)]
pub struct Said {
    pub tree: NodeEnum,
    /// From `$2` on: the column of the row that a parameter is, if it is one.
    pub others: Vec<Option<String>>,
}

impl Trigger {
    /// Of `CREATE FUNCTION …`, as `pg_get_functiondef` prints it; none: of a function that no trigger calls.
    ///
    /// # Errors
    /// Why it is not read, in words that follow its name.
    pub fn of(statement: &NodeEnum) -> Option<Result<Trigger, Unread>> {
        let NodeEnum::CreateFunctionStmt(f) = statement else { return None };
        let returns = f.return_type.as_ref().map_or("", |t| names::last(&t.names));
        (returns == "trigger").then(|| Trigger::read(f))
    }

    fn read(f: &ast::CreateFunctionStmt) -> Result<Trigger, Unread> {
        let option = |name| crate::body::option(&f.options, name);
        let source = option("as").filter(|_| option("language").is_some_and(|l| l.eq_ignore_ascii_case("plpgsql")));
        let source = source.ok_or("is not in PL/pgSQL")?;
        let mut program = Program { name: Some(names::last(&f.funcname).to_string()), ..Program::default() };
        let rows = ["new", "old"].map(|name| (name, Kind::Record));
        let told = TOLD.map(|name| (name, Kind::Type("pg_catalog.text".into())));
        let more: Vec<_> = rows.into_iter().chain(told).collect();
        program.plpgsql_with(&source, &more)?;
        // Whoever fires it says what they are.
        if program.has_backslash {
            return Err("has a string with a backslash, which is another one without standard_conforming_strings");
        }
        let of = |name| program.variables.iter().position(|v| v.name.as_deref() == Some(name)).ok_or("can't be read");
        let rows = [of("new")?, of("old")?];
        let given = 1 + more.len();
        Ok(Trigger { program, rows, given })
    }

    /// The program, the variables NEW and OLD, and how many variables PL/pgSQL gives it, the first ones.
    pub fn into_parts(self) -> (Program, [usize; 2], usize) {
        (self.program, self.rows, self.given)
    }

    /// It puts another value into a column of NEW or OLD, or another row.
    pub fn changes(&self, column: &str) -> bool {
        let mut changed = self.program.changed.iter().map(|(place, _)| place);
        changed.any(|place| {
            self.rows.contains(&place.variable) && place.field.as_deref().is_none_or(|field| field == column)
        })
    }

    /// Declared variables that are the row's key whenever they are not NULL: nothing else is put into them. `keeps`: a value of the key is
    /// the same in a variable of that kind.
    pub fn holding(
        &self,
        resolved: &[Result<Expression, Unread>],
        row: &Row,
        keeps: impl Fn(&Kind) -> bool,
    ) -> HashSet<usize> {
        let is_key = |value: Ex| match resolved.get(value.number()) {
            Some(Ok(value)) => match self.said(value, row).tree {
                NodeEnum::SelectStmt(s) => is_only_key(&s),
                _ => false,
            },
            _ => false,
        };
        let holds = |(at, v): &(usize, &Variable)| {
            let mut changes = self.program.changed.iter().filter(|(place, _)| place.variable == *at).peekable();
            let is_given = v.first.is_some() || changes.peek().is_some();
            is_given
                && v.collation.is_none()
                && v.cursor.is_none()
                && keeps(&v.kind)
                && v.first.is_none_or(is_key)
                && changes.all(|(place, value)| place.field.is_none() && value.is_some_and(is_key))
        };
        let declared = self.program.variables.iter().enumerate().skip(self.given);
        declared.filter(holds).map(|(at, _)| at).collect()
    }

    /// A variable has fields.
    pub fn is_row(&self, variable: usize) -> bool {
        matches!(self.program.variables[variable].kind, Kind::Record | Kind::Row(_))
    }

    /// One of its statements, resolved.
    pub fn said(&self, resolved: &Expression, row: &Row) -> Said {
        let mut numbers: HashMap<Slot, i32> = HashMap::new();
        let mut others = vec![];
        let mut number = |slot: Slot| {
            let field = match &slot {
                Slot::Field(row, field) if self.rows.contains(row) => Some(field.clone()),
                _ => None,
            };
            if field.as_deref() == Some(row.key) || matches!(&slot, Slot::Variable(v) if row.held.contains(v)) {
                return 1;
            }
            *numbers.entry(slot).or_insert_with(|| {
                others.push(field);
                others.len() as i32 + 1
            })
        };
        let mut tree = (*resolved.tree).clone();
        for list in lists(&mut tree) {
            self.spread(list, resolved, &row.columns, &mut number);
        }
        search::each_mut(&mut tree, |n| {
            if let NodeEnum::ParamRef(p) = n
                && let Some(slot) = slot(p, resolved)
            {
                p.number = -number(slot.clone());
            }
            true
        });
        search::each_mut(&mut tree, |n| {
            if let NodeEnum::ParamRef(p) = n {
                p.number = p.number.abs();
            }
            true
        });
        search::each_mut(&mut tree, |n| {
            if is_key_anyhow(n) {
                *n = NodeEnum::ParamRef(ast::ParamRef { number: 1, location: -1 });
            }
            true
        });
        Said { tree, others }
    }

    /// `NEW.*` among values: each of its columns.
    fn spread(
        &self,
        list: &mut Vec<ast::Node>,
        resolved: &Expression,
        columns: &[&str],
        number: &mut impl FnMut(Slot) -> i32,
    ) {
        let row_of = |n: &ast::Node| {
            let value = match n.node.as_ref()? {
                NodeEnum::ResTarget(t) => t.val.as_deref()?.node.as_ref()?,
                n => n,
            };
            let NodeEnum::AIndirection(i) = value else { return None };
            let is_star = matches!(&i.indirection[..], [ast::Node { node: Some(NodeEnum::AStar(_)) }]);
            match i.arg.as_deref()?.node.as_ref()? {
                NodeEnum::ParamRef(p) if is_star => match slot(p, resolved)? {
                    Slot::Variable(row) if self.rows.contains(row) => Some(*row),
                    _ => None,
                },
                _ => None,
            }
        };
        if !list.iter().any(|n| row_of(n).is_some()) {
            return;
        }
        let mut spread = vec![];
        for node in std::mem::take(list) {
            let Some(row) = row_of(&node) else {
                spread.push(node);
                continue;
            };
            let is_target = matches!(node.node, Some(NodeEnum::ResTarget(_)));
            spread.extend(columns.iter().map(|column| {
                let number = -number(Slot::Field(row, (*column).to_string()));
                let value = build::node(NodeEnum::ParamRef(ast::ParamRef { number, location: -1 }));
                if is_target { build::target(value, Some(column)) } else { value }
            }));
        }
        *list = spread;
    }
}

/// `SELECT $1`
fn is_only_key(s: &ast::SelectStmt) -> bool {
    let [ast::Node { node: Some(NodeEnum::ResTarget(t)) }] = &s.target_list[..] else { return false };
    let is_key = matches!(t.val.as_deref().and_then(|v| v.node.as_ref()), Some(NodeEnum::ParamRef(p)) if p.number == 1);
    let plain = ast::SelectStmt { target_list: s.target_list.clone(), ..build::select() };
    is_key && plain == *s
}

/// The values of what a statement selects or inserts.
fn lists(statement: &mut NodeEnum) -> Vec<&mut Vec<ast::Node>> {
    let query = match statement {
        NodeEnum::SelectStmt(s) => Some(&mut **s),
        NodeEnum::InsertStmt(i) => match i.select_stmt.as_deref_mut().and_then(|s| s.node.as_mut()) {
            Some(NodeEnum::SelectStmt(s)) => Some(&mut **s),
            _ => None,
        },
        _ => None,
    };
    let (mut found, mut left) = (vec![], Vec::from_iter(query));
    while let Some(s) = left.pop() {
        found.push(&mut s.target_list);
        found.extend(s.values_lists.iter_mut().filter_map(|row| match &mut row.node {
            Some(NodeEnum::List(row)) => Some(&mut row.items),
            _ => None,
        }));
        left.extend([&mut s.larg, &mut s.rarg].into_iter().flatten().map(|side| &mut **side));
    }
    found
}

/// What a parameter stands for that has not been numbered anew.
fn slot<'e>(p: &ast::ParamRef, resolved: &'e Expression) -> Option<&'e Slot> {
    usize::try_from(p.number - 1).ok().and_then(|at| resolved.uses.get(at))
}

/// COALESCE or CASE, of which each value is the key: of a row that is not there it is NULL.
fn is_key_anyhow(n: &NodeEnum) -> bool {
    let is_key = |n: &ast::Node| matches!(&n.node, Some(NodeEnum::ParamRef(p)) if p.number == 1);
    match n {
        NodeEnum::CoalesceExpr(c) => c.args.iter().all(is_key),
        NodeEnum::CaseExpr(c) => {
            let value = |n: &ast::Node| match &n.node {
                Some(NodeEnum::CaseWhen(w)) => w.result.as_deref().is_some_and(is_key),
                _ => false,
            };
            c.defresult.as_deref().is_some_and(is_key) && c.args.iter().all(value)
        }
        _ => false,
    }
}
