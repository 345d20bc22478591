//! Data-modifying WITH over several nodes: its queries and the statement itself are statements of their own, one after the other in one
//! transaction. What a WITH query returns is kept, and stands in its place in those that name it: rows of arrays, which are
//! parameters behind the client's own; of what type they are is said when they are sent, and here they are taken for text.
//!
//! PostgreSQL shows all of them the same snapshot: whoever reads a table comes before whoever writes it (`order.rs`); whoever also needs
//! what the change returns has the table's rows read before (`read_before.rs`), or it is refused. What each does alone the ordinary planner says. How rows are kept is not known here.
//!
//! A query's ways (`gather/stays.rs`) are such statements, too, which only read: a "WITH query" is then what is read before.

mod again;
mod order;
pub(crate) mod parts;
pub(crate) mod read_before;
pub(crate) mod returned;
mod touches;

use catalog::{Oid, Placement, TemporaryRelation};
use sql::ast;
use sql::{NodeEnum, clauses, relations, search};

use crate::refuse::Refusal;
use crate::steps::Steps;
use crate::table_keys::TableKeys;
use crate::text::{Piece, Text};
use crate::types::{Change, Insert, Planned, Whole};
use crate::{Context, Result};
use wire::type_oid::TEXT_ARRAY;

/// Statements that are run one after the other.
#[derive(Clone, Debug)]
pub struct InTurn {
    /// In the order in which they run.
    pub turns: Vec<Turn>,
    /// How many parameters are the client's.
    pub parameters: usize,
    /// Those behind them: columns of what a WITH query has returned, by its number and the column's.
    pub rows: Vec<(usize, usize)>,
    /// What names mean, for whoever plans them again when the types of those columns are known.
    pub search_path: Vec<String>,
    pub temporary: Vec<TemporaryRelation>,
    /// Several of them read the same table, and are to see one state of it.
    pub one_state: bool,
}

/// One of the statements.
#[derive(Clone, Debug)]
pub struct Turn {
    /// `None`: the statement itself.
    pub query: Option<WithQuery>,
    /// [`Piece::Type`] stands for the types of kept columns, by the number of the WITH query and the column's.
    pub text: Text,
    /// As far as it can be told before these types are known.
    pub plan: Planned,
}

/// What is kept of a WITH query.
#[derive(Clone, Debug)]
pub struct WithQuery {
    pub number: usize,
    pub name: String,
    /// Nobody names it: its rows are not kept.
    pub unnamed: bool,
    /// The types of columns that are a table's own, which descriptions tell without their domains.
    pub types: Vec<Option<String>>,
    /// A query with the same columns, which is never run.
    pub columns: Option<Text>,
    /// Home is to be asked for the domains of others.
    pub domains: bool,
}

/// What becomes of a statement whose WITH queries may change data. `ordinary`: its plan where one node has all of it.
pub(crate) fn of(statement: &NodeEnum, ordinary: Result<Planned>, cx: &Context, steps: &Steps) -> Result<Planned> {
    let Some(with) = clauses::with(statement).filter(|with| with.ctes.iter().any(is_run_once)) else { return ordinary };
    let modifying = with.ctes.iter().any(modifies);
    if !modifying && ordinary.as_ref().is_ok_and(|plan| plan.refusal().is_none()) {
        return ordinary;
    }
    let copies = with.ctes.iter().filter_map(body).any(|n| writes_copies(n, cx));
    let passes = match &ordinary {
        Ok(Planned::Forward(_) | Planned::Insert { rows: Insert::Row, .. }) if !copies => return ordinary,
        Ok(Planned::Query { .. } | Planned::Insert { rows: Insert::Each { .. }, .. }) => !copies,
        Ok(Planned::Modify { change: Change::Each(_) | Change::Refused(_), .. }) => !copies,
        _ => false,
    };
    let turns = in_turn(statement, with, cx, steps).or_else(|refusal| {
        let read_before = read_before::of(statement, cx).ok_or_else(|| refusal.clone())?;
        let with = clauses::with(&read_before).ok_or_else(|| refusal.clone())?;
        in_turn(&read_before, with, cx, steps).map_err(|_| refusal)
    });
    match (ordinary, turns) {
        // It says why.
        (ordinary, Err(_)) if !modifying => ordinary,
        (Ok(plan), turns) if passes => {
            Ok(Planned::InTurn { whole: plan.whole().clone(), turns: turns.map(Box::new), split: false })
        }
        (_, turns) => {
            let whole = Whole { tables: tables(statement, cx), template: false, ..Whole::on_home(true) };
            Ok(Planned::InTurn { whole, turns: turns.map(Box::new), split: true })
        }
    }
}

fn in_turn(statement: &NodeEnum, with: &ast::WithClause, cx: &Context, steps: &Steps) -> Result<InTurn> {
    let parts = parts::of(statement, with, cx)?;
    let parameters = parameters(statement);
    let mut made = parts::Made::new(parts, parameters, cx)?;
    // Each is held against each.
    if !cx.take(with.ctes.len().pow(2)) {
        return Err(Steps::refusal());
    }
    let order = order::of(&made.touches(cx), &cx.snapshot.code.tied)?;
    let types = types(cx, parameters, made.rows.len());
    let mut turns = Vec::with_capacity(order.len());
    for part in order {
        let (query, text) = made.turn(part)?;
        let sql = sql(&text, &|number, column| made.type_of(number, column));
        let tree = sql::parse(&sql, true)?.pop().ok_or_else(|| Refusal::bare("internal: an empty statement"))?;
        let own = Context { parameters: &types, steps: Some(steps), target: cx.target, ..names(cx) };
        turns.push(Turn { query, text, plan: crate::plan(&tree, &sql, &own)? });
    }
    let (search_path, temporary) = (cx.search_path.to_vec(), cx.temporary.to_vec());
    Ok(InTurn { turns, parameters, rows: made.rows, search_path, temporary, one_state: false })
}

/// How many parameters a statement has.
pub(crate) fn parameters(statement: &impl search::Tree) -> usize {
    let mut most = 0;
    search::each(statement, |n| {
        if let NodeEnum::ParamRef(p) = n {
            most = most.max(usize::try_from(p.number).unwrap_or(0));
        }
    });
    most
}

/// The types of the client's parameters, as far as they are known, and of so many columns that are kept.
pub(crate) fn types(cx: &Context, parameters: usize, kept: usize) -> Vec<Oid> {
    let mut types: Vec<Oid> = cx.parameters.iter().copied().take(parameters).collect();
    types.resize(parameters, 0);
    types.resize(parameters + kept, TEXT_ARRAY);
    types
}

/// What names mean, before planning.
pub(crate) fn names<'a>(cx: &Context<'a>) -> Context<'a> {
    Context { steps: cx.steps, ..Context::new(cx.snapshot, cx.search_path, cx.temporary) }
}

/// A turn's text with these types, its parameters as they are.
pub(crate) fn sql(text: &Text, type_of: &dyn Fn(usize, usize) -> String) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Sql(sql) => sql.clone(),
        Piece::Param(n) => format!("${n}"),
        Piece::Type { child, column } => type_of(*child, *column),
        Piece::Now | Piece::Evaluated(_) | Piece::Rows(_) | Piece::Array(_) => String::new(),
    };
    text.pieces().iter().map(piece).collect()
}

/// By what they say: the rest follows from that.
impl PartialEq for InTurn {
    fn eq(&self, other: &Self) -> bool {
        let texts = |all: &InTurn| all.turns.iter().map(|turn| turn.text.clone()).collect::<Vec<_>>();
        texts(self) == texts(other) && self.rows == other.rows
    }
}

impl Eq for InTurn {}

impl InTurn {
    /// A text with the types of kept columns, and the parameters that it names, which are numbered anew.
    pub fn numbered(text: &Text, type_of: &dyn Fn(usize, usize) -> String) -> (String, Vec<usize>) {
        let mut named: Vec<usize> = vec![];
        let mut numbered = String::new();
        for piece in text.pieces() {
            match piece {
                Piece::Param(n) => {
                    let known = named.iter().position(|own| own == n);
                    let at = known.unwrap_or_else(|| {
                        named.push(*n);
                        named.len() - 1
                    });
                    numbered.push_str(&format!("${}", at + 1));
                }
                piece => numbered.push_str(&sql(&Text::from(piece.clone()), type_of)),
            }
        }
        (numbered, named)
    }
}

fn body(cte: &ast::Node) -> Option<&NodeEnum> {
    match &cte.node {
        Some(NodeEnum::CommonTableExpr(c)) => c.ctequery.as_deref()?.node.as_ref(),
        _ => None,
    }
}

/// A WITH query that PostgreSQL runs once, whoever names it: it changes something, or locks the first rows of many.
fn is_run_once(cte: &ast::Node) -> bool {
    let named = matches!(&cte.node, Some(NodeEnum::CommonTableExpr(c)) if !c.aliascolnames.is_empty());
    modifies(cte) || matches!(body(cte), Some(NodeEnum::SelectStmt(s)) if locks_few(s) && !named)
}

/// Of the rows that it could lock it takes some.
fn locks_few(s: &ast::SelectStmt) -> bool {
    !s.locking_clause.is_empty() && (s.limit_count.is_some() || s.limit_offset.is_some())
}

fn modifies(cte: &ast::Node) -> bool {
    body(cte).is_some_and(|n| !matches!(n, NodeEnum::SelectStmt(_)))
}

fn writes_copies(statement: &NodeEnum, cx: &Context) -> bool {
    let Some(target) = clauses::target(statement) else { return false };
    touches::tables(target, cx).iter().any(|t| t.relation.as_ref().is_some_and(|r| r.is_reference()))
}

/// The distributed tables it names, with keys of any value.
pub(crate) fn tables(statement: &NodeEnum, cx: &Context) -> Vec<TableKeys> {
    let named = relations::of(statement).into_iter().flat_map(|rv| touches::tables(rv, cx));
    let keys = named.filter_map(|t| {
        let relation = t.relation?;
        let Placement::Distributed(d) = &relation.placement else { return None };
        let columns = vec![vec![]; d.key.len()];
        Some(TableKeys { relation, columns, limits: vec![], written: false })
    });
    keys.collect()
}
