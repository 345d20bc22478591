//! A query whose tables' rows could all come home, the other way round: one table, and what the statement joins with it by the keys of both,
//! stays where it is; what is needed of the others is read before, and so are subqueries that stand by themselves, each as a statement of
//! its own, and goes with the query to the nodes. Those answer it as if the rows were constants, and
//! may add up what they have.
//!
//! Which of the ways moves least is not known here: there is one for each table that may stay, and whoever runs the query knows how large
//! they are.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use catalog::Oid;
use sql::NodeEnum;
use sql::ast;
use sql::walk::{self, VisitMut};

use super::{Facts, Gather, may_move};
use crate::compose::{Composer, direct_uses};
use crate::in_turn::parts::kept_rows;
use crate::in_turn::{self, InTurn, Turn, WithQuery, names};
use crate::levels::Analysis;
use crate::text::{self, Piece, Text};
use crate::tree::Part;
use crate::{Context, Result, Steps, select};

/// How many tables are tried.
const TRIED_MAX: usize = 4;
/// What they may take of planning, all together.
const STEPS_MAX: u32 = Steps::SHORT / 2;

/// The ways there are, each as statements one after the other that only read.
pub fn ways<'a>(a: &Analysis<'a>, query: &'a ast::SelectStmt, level: usize, facts: &Rc<Facts>) -> Vec<InTurn> {
    a.cx.aside(STEPS_MAX, || all(a, query, level, facts)).unwrap_or_default()
}

fn all<'a>(a: &Analysis<'a>, query: &'a ast::SelectStmt, level: usize, facts: &Rc<Facts>) -> Vec<InTurn> {
    if !may_move(a, facts) {
        return vec![];
    }
    let mut tried: Vec<BTreeSet<usize>> = vec![];
    for u in a.levels.iter().flat_map(|l| l.from.iter().flat_map(direct_uses)) {
        let stays = beside(a, u);
        if stays.len() < a.uses.len() && !tried.contains(&stays) && tried.len() < TRIED_MAX {
            tried.push(stays);
        }
    }
    tried.into_iter().filter_map(|stays| way(a, query, level, Gather::new(facts, stays))).collect()
}

/// The use, and those of its group that the statement joins with it by their keys.
fn beside(a: &Analysis, u: usize) -> BTreeSet<usize> {
    let group = |u: usize| a.uses[u].relation.distribution().map(|d| d.group.id);
    let joined = |v: usize| {
        let places = [a.uses[u].classes, a.uses[v].classes];
        places.iter().any(|place| a.same_vars(&a.uses[u].key, &a.uses[v].key, *place))
    };
    (0..a.uses.len()).filter(|v| *v == u || group(u) == group(*v) && joined(*v)).collect()
}

fn way<'a>(a: &Analysis<'a>, query: &'a ast::SelectStmt, level: usize, gather: Gather) -> Option<InTurn> {
    let mut composer = Composer::new(a);
    composer.gather = Some(gather);
    let out = composer.taken(query, level).ok().filter(|_| !composer.uses_home && !composer.parts.is_empty())?;
    let mut out = NodeEnum::SelectStmt(Box::new(out));
    let gather = composer.gather.as_ref()?;
    if gather.by.iter().any(|by| !by.is_empty()) {
        // Rows that were sent have no index: home makes one for rows that are looked up one by one.
        return None;
    }
    gather.facts.used.rename(&mut out);
    let parameters = in_turn::parameters(query);
    let mut places = Places { types: &composer.types, first: HashMap::new(), rows: vec![], parameters, failed: false };
    walk::below_mut(&mut out, &mut places);
    let rows = (!places.failed).then_some(places.rows)?;
    let text = a.cx.text(out).ok()?;
    let reads = composer.parts.into_iter().zip(composer.types).enumerate();
    let mut turns: Vec<Turn> = reads.map(|(n, (part, types))| read(n, part, types?, a.cx)).collect::<Option<_>>()?;
    let of_text = |_, _| "pg_catalog.text".to_string();
    let types = in_turn::types(a.cx, parameters, rows.len());
    let cx = Context { parameters: &types, ..names(a.cx) };
    turns.push(Turn { query: None, plan: itself(&text, &of_text, &cx).ok().flatten()?, text });
    let one_state = read_twice(&turns);
    let (search_path, temporary) = (a.cx.search_path.to_vec(), a.cx.temporary.to_vec());
    Some(InTurn { turns, parameters, rows, search_path, temporary, one_state })
}

/// Several of them read the same table, or reference tables.
fn read_twice(turns: &[Turn]) -> bool {
    let mut read = BTreeSet::new();
    turns.iter().map(|turn| turn.plan.whole()).any(|whole| {
        let tables: BTreeSet<Option<Oid>> = whole.tables.iter().map(|table| Some(table.relation.oid)).collect();
        let references = whole.reads_reference.then_some(None);
        tables.into_iter().chain(references).filter(|table| !read.insert(*table)).count() > 0
    })
}

/// The plan of the query over rows that were read; `None`: nodes can't answer that, either.
fn itself(text: &Text, type_of: &dyn Fn(usize, usize) -> String, cx: &Context) -> Result<Option<crate::Planned>> {
    let sql = in_turn::sql(text, type_of);
    let Some(tree) = sql::parse(&sql, true)?.pop() else { return Ok(None) };
    if !select::is_answered(&tree, cx)? {
        return Ok(None);
    }
    crate::plan(&tree, &sql, cx).map(Some)
}

/// A part as a statement that is run before.
fn read(number: usize, part: Part, types: Vec<Option<String>>, cx: &Context) -> Option<Turn> {
    let known = |p: &Piece| matches!(p, Piece::Sql(_) | Piece::Param(_));
    let text = Some(part.text).filter(|text| text.pieces().iter().all(known))?;
    let domains = types.iter().any(Option::is_none);
    let columns = Some(text.clone());
    let query = WithQuery { number, name: String::new(), unnamed: false, types, columns, domains };
    let sql = in_turn::sql(&text, &|_, _| String::new());
    let tree = sql::parse(&sql, true).ok()?.pop()?;
    let plan = crate::plan(&tree, &sql, &Context { parameters: cx.parameters, ..names(cx) }).ok()?;
    let plan = Some(plan).filter(|plan| plan.refusal().is_none())?;
    Some(Turn { query: Some(query), text, plan })
}

/// Rows that were read go where the tables were.
struct Places<'w> {
    types: &'w [Option<Vec<Option<String>>>],
    /// The number of each read's first parameter.
    first: HashMap<usize, usize>,
    rows: Vec<(usize, usize)>,
    parameters: usize,
    failed: bool,
}

impl VisitMut for Places<'_> {
    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        let Some(number) = text::rows_of(s) else { return true };
        let Some(width) = self.types.get(number).and_then(|types| types.as_ref().map(Vec::len)) else {
            self.failed = true;
            return false;
        };
        let next = self.parameters + self.rows.len();
        let first = *self.first.entry(number).or_insert_with(|| {
            self.rows.extend((0..width).map(|column| (number, column)));
            next
        });
        let names: Vec<String> = (0..width).map(|i| format!("c{i}")).collect();
        match kept_rows(&names, number, first) {
            Ok(rows) => *s = rows,
            Err(_) => self.failed = true,
        }
        false
    }
}
