//! UPDATE, DELETE and MERGE that read other tables than nodes can look up by themselves: what they read there is read before
//! anything is written, and goes to every node that has rows of the target; there the statement runs over its own rows of the
//! target, with those rows in the places of what was read.
//!
//! A row of the target is on one node, and all it is compared with is the same on every node: so each node finds for its rows
//! what one PostgreSQL would. What could come out differently on two nodes (LIMIT, volatile functions, aggregates that heed an
//! order) is in a subquery of its own, which is read once, or is asked for each row of the target by itself; otherwise there is no plan.
//! A local table is changed on home, where all of it is: the same with rows in the places of distributed tables alone. So is a reference
//! table, whose other copies take home's rows over by a key.
//!
//! What came out is judged as any change is (`modify.rs`): over rows that every node has, it must be one that each node can make by
//! itself. How rows travel is not known here, nor whether home understands the statement that comes out: the executor asks it.

mod clauses;
mod places;
mod split;
mod steady;
mod unmatched;

use std::sync::Arc;

use catalog::Relation;
use sql::ast::{self, Node};
use sql::{NodeEnum, build, relations, search};

use crate::classes::Var;
use crate::gather::{Filters, Used};
use crate::levels::Analysis;
use crate::merge_inserts::{self, SourceKeys};
use crate::refuse::Refusal;
use crate::scope::system_column;
use crate::text;
use crate::tree::{Part, Recipients, To};
use crate::types::{ByKey, Change, InPlace, MoveRows, Planned};
use crate::{Result, by_image, compared, modify, move_rows, rewrite, unread};

use clauses::{Clauses, expressions_mut, from_mut, returned};
pub use unmatched::InTwo;

/// A query that is read before a change, for all nodes that make it.
#[derive(Clone, Debug)]
pub struct ReadBefore {
    pub plan: Planned,
    pub sql: String,
}

/// A change over rows that are read beforehand.
#[derive(Clone, Debug)]
pub struct ChangeFrom {
    /// [`crate::Piece::Rows`] counts them.
    pub reads: Vec<ReadBefore>,
    /// Where their rows go: to the target's nodes, or home.
    pub to: To,
    /// What is done over those rows.
    pub made: Made,
    /// Rows of one of the reads that do not go to all of these nodes.
    pub split: Option<Split>,
}

/// The source of a MERGE that inserts: each row goes to the node of its shard.
#[derive(Clone, Debug)]
pub struct Split {
    /// Which of the reads.
    pub read: usize,
    /// Its last columns, which the statement does not see: the keys rows go by.
    pub keys: usize,
    /// Behind these it says whether they go by them: others go to all nodes.
    pub some: bool,
    /// Whose shards they are.
    pub relation: Arc<Relation>,
    /// Nodes without rows have something to do as well.
    pub everywhere: bool,
}

/// A change over rows that are read beforehand, on each node of its target.
#[derive(Clone, Debug)]
pub enum Made {
    /// The statement.
    Each(Part),
    /// An UPDATE that may change keys.
    Move(Box<MoveRows>),
    /// One whose rows can't be moved: it is made if they stay.
    Stay(Box<InPlace>),
    /// Of a reference table, on home.
    Copies(Box<CopiesFrom>),
    /// A MERGE whose rows that match nothing go elsewhere.
    InTwo(Box<InTwo>),
}

/// A change of a reference table over rows that are read beforehand: made on home, which the other copies take over.
#[derive(Clone, Debug)]
pub struct CopiesFrom {
    pub relation: Arc<Relation>,
    /// The statement for home, again.
    pub part: Part,
    pub by_key: ByKey,
    /// See [`crate::ReferenceWrite::tied`].
    pub tied: Vec<Arc<Relation>>,
    /// Why it can't be made for a role that may not read the table.
    pub unreturned: Refusal,
}

impl Split {
    /// How many of the columns that are read the statement does not see: the last ones.
    pub fn hidden(&self) -> usize {
        self.keys + usize::from(self.some)
    }
}

impl ChangeFrom {
    /// What each node of the target gets.
    pub fn each(&self) -> &Part {
        match &self.made {
            Made::Each(part) => part,
            Made::Move(m) => &m.delete,
            Made::Stay(s) => &s.part,
            Made::Copies(c) => &c.part,
            Made::InTwo(m) => m.matched.as_ref().unwrap_or(&m.inserts),
        }
    }
}

/// A change in the making.
struct Broadcast<'p, 'a> {
    a: &'p Analysis<'a>,
    used: Used,
    filters: Filters,
    /// The target's columns.
    target: &'p [Var],
    with: Option<&'a ast::WithClause>,
    /// Home alone makes the change.
    on_home: bool,
    /// Subqueries that nodes answer for their rows of the target.
    kept: Vec<usize>,
    /// Volatile functions in it.
    volatile: bool,
    reads: Vec<ReadBefore>,
    split: Option<Split>,
}

/// What is read, and the statement over it.
/// `why`: what stands against the same statement on every node.
pub fn plan<'a>(a: &Analysis<'a>, statement: &'a NodeEnum, level: usize, why: Refusal) -> Result<ChangeFrom> {
    if let Some(refusal) = &a.levels[level].refusal {
        return Err(refusal.clone());
    }
    let on_home = !matches!(a.levels[level].from.first(), Some(crate::levels::From::Use(_)));
    let kept = if on_home { None } else { a.kept(level) };
    let inserts = match merge_inserts::of(a, statement, level) {
        Ok(inserts) => inserts,
        Err(refusal) => return unmatched::plan(a, statement, level, &refusal),
    };
    let away = inserts.as_ref().is_some_and(|keys| !keys.is_at_home(a, level));
    let kept = kept.map(|(items, subs)| (if away { vec![] } else { items }, subs));
    let all_apart = || plan_with(a, statement, level, &why, (vec![], vec![]), inserts.as_ref());
    match kept.filter(|(items, subs)| items.contains(&true) || !subs.is_empty()) {
        // What nodes could join may hang on what has become rows: then it becomes rows as well.
        Some(kept) => plan_with(a, statement, level, &why, kept, inserts.as_ref()).or_else(|_| all_apart()),
        None => all_apart(),
    }
}

fn plan_with<'a>(
    a: &Analysis<'a>,
    statement: &'a NodeEnum,
    level: usize,
    why: &Refusal,
    (items, kept): (Vec<bool>, Vec<usize>),
    inserts: Option<&SourceKeys>,
) -> Result<ChangeFrom> {
    let Some(clauses) = Clauses::of(statement) else { return Err(why.clone()) };
    let target = match a.levels[level].from.first() {
        Some(crate::levels::From::Use(u)) => Some(*u),
        _ => None,
    };
    let mut b = Broadcast::new(a, statement, level, (&clauses, target), kept, why)?;
    let mut out = statement.clone();
    b.with_queries(clauses.with, sql::clauses::with_mut(&mut out).and_then(Option::as_mut))?;
    for (i, (item, out)) in clauses.from.iter().zip(from_mut(&mut out)).enumerate() {
        match inserts {
            _ if items.get(i).is_some_and(|kept| *kept) => {}
            Some(keys) => {
                let relation = a.uses[keys.used].relation.clone();
                let everywhere = merge_inserts::takes_unfound(statement);
                b.split(item, out, Keys { keys: keys.expressions.clone(), unmatched: None, relation, everywhere })?;
            }
            None => b.item(item, out)?,
        }
    }
    b.expressions(&clauses.expressions, expressions_mut(&mut out))?;
    b.used.rename(&mut out);
    match target {
        Some(_) => b.each_can(&out, why)?,
        None if b.reads_distributed(&out) => return Err(why.clone()),
        None => {}
    }
    let found = Recipients::Shards(target.into_iter().collect());
    let relation = target.map(|u| &a.uses[u].relation);
    let changed = match (statement, relation) {
        (NodeEnum::UpdateStmt(u), Some(r)) => move_rows::changed_key(u, r, a, level),
        _ => None,
    };
    let made = match (&out, relation) {
        (NodeEnum::UpdateStmt(u), Some(r)) if let Some(key) = changed => {
            // Its rows are inserted by a statement that has rows of its own.
            if returned(&u.returning_clause).any(crate::compose::has_sublink) {
                return Err(why.clone());
            }
            match move_rows::change(u, r, key, found, (a, level))? {
                Change::Move(m) => Made::Move(Box::new(MoveRows { in_place: None, ..*m })),
                Change::Stay(s) => Made::Stay(s),
                _ => return Err(why.clone()),
            }
        }
        _ => {
            rewrite::replace_now(&mut out);
            match sql::clauses::target(&out).and_then(|rv| a.cx.relation(rv)).filter(|r| r.is_reference()) {
                Some(copied) => Made::Copies(Box::new(b.copies(out, copied, why)?)),
                None => Made::Each(Part { text: a.cx.text(out)?, target: found, columns: None }),
            }
        }
    };
    let to = if b.on_home { To::Gather } else { To::Broadcast };
    Ok(ChangeFrom { reads: b.reads, to, made, split: b.split })
}

/// Of which more than columns is asked.
fn unfit(statement: &NodeEnum, why: &Refusal) -> Refusal {
    let system = |n: &NodeEnum| system_column(n).is_some();
    match search::any(statement, system) {
        true => Refusal::new(
            "system columns (ctid, tableoid and so on) in a change that reads other tables, or its own, over several nodes are not supported",
            "Nodes have the same ctids: find rows by their primary key.",
        ),
        false => why.clone(),
    }
}

/// By what rows of a MERGE's source go to nodes.
struct Keys {
    /// The values of the key, by the source's columns.
    keys: Vec<Node>,
    /// Which rows go by them; `None`: all.
    unmatched: Option<Node>,
    relation: Arc<Relation>,
    /// See [`Split::everywhere`].
    everywhere: bool,
}

impl<'p, 'a> Broadcast<'p, 'a> {
    /// Nothing has been read. `why`: what stands against the statement as it is.
    fn new(
        a: &'p Analysis<'a>,
        statement: &'a NodeEnum,
        level: usize,
        (clauses, target): (&Clauses<'a>, Option<usize>),
        kept: Vec<usize>,
        why: &Refusal,
    ) -> Result<Self> {
        let used =
            Used::of_change(a, statement).filter(|used| !used.has_rows()).ok_or_else(|| unfit(statement, why))?;
        let filters = Filters::of_change(a, statement, level, clauses.from, clauses.condition);
        Ok(Broadcast {
            a,
            used,
            filters,
            target: target.map_or(&[], |u| &a.uses[u].columns),
            with: clauses.with,
            on_home: target.is_none(),
            kept,
            volatile: a.levels.iter().any(|l| l.volatile),
            reads: vec![],
            split: None,
        })
    }

    /// Each node can make what came out by itself.
    fn each_can(&self, out: &NodeEnum, why: &Refusal) -> Result<()> {
        let mut after = Analysis::new(self.a.cx);
        after.judged = true;
        let target = modify::analyse(&mut after, out, None)?;
        after.finish_pending()?;
        if let Some(what) = &after.needs_home {
            return Err(modify::on_home_alone(what));
        }
        match after.levels[target.level].refusal.is_some() {
            true => Err(why.clone()),
            false => Ok(after.colocated(target.level).map(|_| ())?),
        }
    }

    /// The change of a reference table, and what the other copies make of home's rows.
    fn copies(&self, out: NodeEnum, relation: &Arc<Relation>, why: &Refusal) -> Result<CopiesFrom> {
        let cx = self.a.cx;
        let by_key = by_image::or_by_key(&out, relation, cx)?.ok_or_else(|| why.clone())?;
        let part = Part { text: by_key.on_home.clone(), target: Recipients::Shards(vec![]), columns: None };
        let tied = compared::tied(&out, relation, cx);
        Ok(CopiesFrom { relation: relation.clone(), part, by_key, tied, unreturned: why.clone() })
    }

    fn reads_distributed(&self, out: &NodeEnum) -> bool {
        relations::of(out).iter().any(|rv| self.a.cx.relation(rv).is_some_and(|r| r.distribution().is_some()))
    }

    /// WITH queries are read by themselves, and keep their names.
    fn with_queries(&mut self, with: Option<&'a ast::WithClause>, out: Option<&mut ast::WithClause>) -> Result<()> {
        let (Some(with), Some(out)) = (with, out) else { return Ok(()) };
        for (i, (cte, out)) in with.ctes.iter().zip(&mut out.ctes).enumerate() {
            let (Some(NodeEnum::CommonTableExpr(cte)), Some(NodeEnum::CommonTableExpr(out))) =
                (&cte.node, &mut out.node)
            else {
                continue;
            };
            let Some(NodeEnum::SelectStmt(body)) = cte.ctequery.as_deref().and_then(|q| q.node.as_ref()) else {
                continue;
            };
            if !self.a.by_node.contains_key(&std::ptr::from_ref(body.as_ref())) || self.stays(body) {
                continue;
            }
            let mut query = build::select();
            query.target_list = vec![build::target(build::star(), None)];
            query.from_clause = vec![build::range_var("", &cte.ctename, None)];
            let mut seen = with.clone();
            if !with.recursive {
                seen.ctes.truncate(i + 1);
            }
            query.with_clause = Some(seen);
            let rows = self.read(query)?;
            out.ctequery = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(rows)))));
            (out.search_clause, out.cycle_clause) = (None, None);
            out.aliascolnames.clear();
        }
        Ok(())
    }

    /// Has a query read beforehand; its rows are a query.
    fn read(&mut self, query: ast::SelectStmt) -> Result<ast::SelectStmt> {
        let cx = self.a.cx;
        let mut statement = NodeEnum::SelectStmt(Box::new(query));
        cx.views.fold(&mut statement);
        if let Some((changed, _)) = unread::without_unread(&statement, cx) {
            statement = changed;
        }
        let sql = sql::deparse(&statement)?;
        let known = self.reads.iter().position(|r| r.sql == sql);
        let known = known.filter(|n| !self.volatile && self.split.as_ref().is_none_or(|s| s.read != *n));
        let number = match known {
            Some(number) => number,
            None => {
                let tree = sql::parse(&sql, true)?.pop().unwrap_or(statement);
                let mut plan = crate::plan(&tree, &sql, cx)?.as_source()?;
                if let Some(refusal) = plan.refusal() {
                    return Err(refusal.clone());
                }
                let sql = plan.whole_mut().rewritten.take().unwrap_or(sql);
                self.reads.push(ReadBefore { plan, sql });
                self.reads.len() - 1
            }
        };
        Ok(text::rows(number))
    }

    /// The same of a query that may name WITH queries of the statement: it takes them along.
    fn read_with(&mut self, mut query: ast::SelectStmt) -> Result<ast::SelectStmt> {
        let Some(with) = self.with.filter(|_| relations::of_select(&query).iter().any(|rv| self.is_with_query(rv)))
        else {
            return self.read(query);
        };
        if self.volatile {
            return Err(Refusal::new(
                "a WITH query beside volatile functions, which a subquery of this change reads once more, is not supported over several nodes",
                "Say LIMIT, or what else chooses rows, in the WITH query itself.",
            ));
        }
        if query.with_clause.is_some() {
            // Each has names of its own.
            let inner = std::mem::replace(&mut query, build::select());
            query.target_list = vec![build::target(build::star(), None)];
            query.from_clause = vec![build::subselect(inner, Some(build::alias("w")), false)];
        }
        query.with_clause = Some(with.clone());
        self.read(query)
    }

    /// The name is one of the statement's own WITH queries.
    fn is_with_query(&self, rv: &ast::RangeVar) -> bool {
        rv.schemaname.is_empty() && self.with.is_some_and(|with| crate::compose::names_query(with, &rv.relname))
    }
}
