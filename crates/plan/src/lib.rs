//! From a statement's tree and a catalog snapshot to a plan. Pure: no I/O, no clock, no randomness.
//!
//! A statement's [`Plan`] is one of seven (`decide.rs`): *Query*, *Insert*, *Modify*, *Copy*, *Utility*, *Admin*, *Session*. The first
//! three are then [`Planned`] (`types.rs`), which holds the statement as it is, for when one node has all of it; a query's tree (`tree.rs`) says what nodes answer by themselves, which rows move, and what makes one answer
//! of them. What would need another movement of rows than gather is refused with 0A000 and a hint (`refuse.rs`).
//! This crate does not know connections, sessions or wire formats; it never looks at rows.

pub mod admin;
pub mod aggregate;
mod alike;
pub mod apart;
pub mod backends;
mod broadcast;
pub mod by_argument;
pub mod by_image;
mod by_key;
mod by_literal;
pub mod called_first;
pub mod classes;
pub mod clock_text;
pub mod code;
pub mod columns;
pub mod compared;
mod compose;
pub mod copy_from;
pub mod ddl;
pub mod decide;
mod duplicates;
pub mod explain;
pub mod expression;
pub mod fields;
mod from_names;
mod gather;
mod given;
mod hidden;
pub mod in_turn;
mod inline;
pub mod insert;
pub mod instead_of;
pub mod keys;
pub mod kind;
pub mod levels;
pub mod lift;
pub mod lists;
pub mod local;
pub mod locks;
pub mod matches;
pub mod merge_inserts;
pub mod modify;
pub mod moment;
pub mod move_rows;
pub mod narrow;
pub mod needs;
pub mod opened;
pub mod order;
mod overload;
mod padded;
mod pinned;
pub mod plain;
pub mod programs;
pub mod pull;
pub mod reads;
pub mod refuse;
pub mod rewrite;
pub mod router_views;
mod row_ids;
mod row_order;
mod rules;
pub mod same;
pub mod scope;
pub mod select;
pub mod sequences;
pub mod share;
pub mod share_rows;
pub mod sizes;
pub mod special;
pub mod splice;
pub mod stand_ins;
mod standby;
pub mod steps;
mod table_keys;
pub mod tableoid;
mod taken;
pub mod text;
mod through_views;
pub mod tree;
pub mod types;
pub mod unread;
pub mod upsert;
pub mod views;

pub use apart::Apart;
pub use broadcast::{ChangeFrom, CopiesFrom, InTwo, Made, ReadBefore, Split};
pub use columns::{ColumnPart, ColumnRead, ColumnTable, ColumnType};
pub use decide::{Decided, Does, Own, Plan, Reads, Utility};
pub use gather::{Key, Semijoin, Shuffle};
pub use in_turn::{InTurn, Turn, WithQuery};
pub use refuse::Refusal;
pub use router_views::{Constraints, RouterView};
pub use share::{Share, ShareLiteral};
pub use steps::Steps;
pub use table_keys::{KeyLimit, LimitEnd, ParameterPlus, ParameterRange, TableKeys};
pub use text::{Piece, Text};
pub use tree::*;
pub use types::*;

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{Oid, Placement, Relation, Snapshot, TemporaryRelation};
use sql::ast::RangeVar;
use sql::{NodeEnum, names, relations, search};

/// What planning may look at besides the statement.
pub struct Context<'a> {
    pub snapshot: &'a Snapshot,
    /// Schemas unqualified names are looked up in, first to last.
    pub search_path: &'a [String],
    /// The session's temporary tables and views: they hide others and live on home.
    pub temporary: &'a [TemporaryRelation],
    /// Types of the statement's parameters, as the client has declared them or PostgreSQL has inferred them; 0: not known.
    pub parameters: &'a [Oid],
    /// The temporary table that an INSERT of distributed rows goes to, as the session's connection tells.
    pub target: Option<&'a Arc<Relation>>,
    /// What stands for the views that the statement writes to; none before planning.
    pub targets: &'a [Arc<Relation>],
    /// Views that the statement's tree holds in place of their names; none before planning.
    pub views: views::Views,
    /// Long lists of the statement; none before planning.
    pub lists: lists::Lists,
    /// Rows in tables' places that are planned like tables; none but there (`gather/shuffle.rs`).
    pub stand_ins: &'a [Arc<Relation>],
    /// How much work planning may be; `None`: as much as any statement may be.
    pub steps: Option<&'a Steps>,
}

impl<'a> Context<'a> {
    /// Before planning: no views, no lists, no parameters.
    pub fn new(snapshot: &'a Snapshot, search_path: &'a [String], temporary: &'a [TemporaryRelation]) -> Self {
        let (views, lists) = (Default::default(), Default::default());
        Self {
            snapshot,
            search_path,
            temporary,
            parameters: &[],
            target: None,
            targets: &[],
            views,
            lists,
            stand_ins: &[],
            steps: None,
        }
    }

    /// The same with the types of the statement's parameters.
    pub fn with_parameters(self, parameters: &'a [Oid]) -> Self {
        Self { parameters, ..self }
    }

    /// Counts work, see [`Steps::take`].
    pub(crate) fn take(&self, steps: usize) -> bool {
        self.steps.is_none_or(|left| left.take(steps))
    }

    /// Has something done without which the statement is planned as well, see [`Steps::aside`].
    pub(crate) fn aside<T>(&self, most: u32, work: impl FnOnce() -> T) -> Option<T> {
        match self.steps {
            Some(steps) => steps.aside(most, work),
            // Nobody plans so but tests.
            None => Steps::new(Steps::MOST).aside(most, work),
        }
    }

    /// What a function's name can mean here.
    pub fn functions<'c>(&'c self, name: &'c [sql::ast::Node]) -> impl Iterator<Item = &'c catalog::Function> {
        self.snapshot.functions_meant(names::qualified(name), self.search_path)
    }

    /// The schema of the path, other than PostgreSQL's own, that has an operator of this name.
    pub(crate) fn others_operator(&self, name: &str) -> Option<&String> {
        self.snapshot.own_operators.get(name)?.iter().find(|schema| self.search_path.contains(schema))
    }

    /// An operator that is named without a schema is PostgreSQL's own.
    pub(crate) fn is_own_operator(&self, name: &str) -> bool {
        self.others_operator(name).is_none()
    }

    /// It calls a function that may give another value each time.
    pub(crate) fn calls_volatile(&self, n: &NodeEnum) -> bool {
        let NodeEnum::FuncCall(f) = n else { return false };
        self.functions(&f.funcname).any(|f| f.volatility == catalog::Volatility::Volatile)
    }

    /// The text of a tree for nodes.
    pub(crate) fn text(&self, mut tree: NodeEnum) -> Result<Text> {
        self.lists.apply(&mut tree, true);
        if !self.stand_ins.is_empty() {
            stand_ins::put_rows(&mut tree);
        }
        self.views.text(tree)
    }

    /// Where a table's rows are; `None`: nothing the catalog has, as a temporary table or one of PostgreSQL's own.
    pub fn placement(&self, rv: &RangeVar) -> Option<&'a Placement> {
        self.relation(rv).map(|r| &r.placement)
    }

    /// What the catalog has by this name, unless a temporary table hides it.
    pub fn relation(&self, rv: &RangeVar) -> Option<&'a Arc<Relation>> {
        if let Some(table) = stand_ins::named(rv, self.stand_ins) {
            return Some(table);
        }
        let (schema, name) = names::table(rv);
        let found = self.snapshot.resolve(schema, name, self.search_path).filter(|_| !self.is_temporary(rv))?;
        self.targets.iter().find(|t| through_views::is_named(t, found)).or(Some(found))
    }

    /// A temporary table that is given rows of distributed ones.
    pub fn takes_distributed<'s>(&self, statement: &'s NodeEnum) -> Option<&'s str> {
        let NodeEnum::InsertStmt(insert) = statement else { return None };
        let target = insert.relation.as_ref().filter(|rv| rv.schemaname == "pg_temp" || self.is_temporary(rv))?;
        let distributed = |rv: &&RangeVar| {
            let relation = self.relation(rv);
            relation.is_some_and(|r| r.distribution().is_some() || r.kind == catalog::RelationKind::View)
                || !std::ptr::eq(*rv, target) && opened::temporary(rv, self).is_some()
        };
        relations::of(statement).iter().any(distributed).then_some(target.relname.as_str())
    }

    /// A temporary table of the session's, by its name alone.
    pub fn is_temporary(&self, rv: &RangeVar) -> bool {
        rv.schemaname.is_empty() && self.temporary.iter().any(|t| *t == *rv.relname)
    }
}

pub use reads::reads_clock;

pub type Result<T> = std::result::Result<T, Refusal>;

/// Plans a SELECT, INSERT, UPDATE, DELETE, MERGE, VALUES or TABLE statement.
pub fn plan(statement: &NodeEnum, text: &str, cx: &Context) -> Result<Planned> {
    let most = Steps::new(Steps::MOST);
    let steps = cx.steps.unwrap_or(&most);
    let mut planned = match by_argument::plan(statement, cx, steps) {
        Some(planned) => planned,
        None => plan_within(statement, text, cx, steps),
    };
    if let Ok(planned) = &mut planned {
        let whole = planned.whole_mut();
        whole.template &= !by_literal::decides(statement);
        whole.reads_setting = by_literal::reads_setting(statement);
        whole.names_parameters = text.contains('$') && search::any(statement, |n| matches!(n, NodeEnum::ParamRef(_)));
    }
    // What came out without the rest may be anything.
    if steps.is_spent() { Err(Steps::refusal()) } else { planned }
}

/// Plans what a statement was changed into, by the text that nodes are sent.
fn plan_rewritten(changed: NodeEnum, cx: &Context, steps: &Steps) -> Result<Planned> {
    let text = sql::deparse(&changed)?;
    let tree = sql::parse(&text, true)?.pop().unwrap_or(changed);
    let mut plan = plan_within(&tree, &text, cx, steps)?;
    let whole = plan.whole_mut();
    // What is planned may have been changed once more.
    (whole.template, whole.rewritten) = (false, whole.rewritten.take().or(Some(text)));
    Ok(plan)
}

fn plan_within(statement: &NodeEnum, text: &str, cx: &Context, steps: &Steps) -> Result<Planned> {
    if let Some((ruled, by_rule)) = rules::of(statement, has_with(text), cx)? {
        let mut plan = match ruled {
            rules::Ruled::Nothing | rules::Ruled::Wrong => Planned::home(true),
            rules::Ruled::Action(tree) => plan_rewritten(*tree, cx, steps)?,
        };
        plan.whole_mut().by_rule = Some(by_rule);
        return Ok(plan);
    }
    if let Some((tree, views)) = opened::views(statement, cx)? {
        let mut plan = plan_rewritten(tree, cx, steps)?;
        plan.whole_mut().apart_views.extend(views);
        return Ok(plan);
    }
    views::refuse_locked(statement, cx)?;
    if let Some(tree) = inline::calls(statement, cx) {
        return plan_rewritten(tree, cx, steps);
    }
    needs::refuse_reached(statement, cx)?;
    if from_names::may_be(statement, cx) {
        let mut changed = statement.clone();
        if from_names::qualify(&mut changed, cx, steps)? {
            return plan_rewritten(changed, cx, steps);
        }
    }
    if may_have_ctid(text)
        && let Some(tree) = row_ids::by_key(statement, cx)
    {
        return plan_rewritten(tree, cx, steps);
    }
    if let Some(tree) = taken::by_key(statement, cx) {
        return plan_rewritten(tree, cx, steps);
    }
    let original = cx;
    let targets = match through_views::of(statement, has_with(text), cx)? {
        through_views::Targets::Tables(targets) => targets,
        through_views::Targets::Fails => return Ok(Planned::home(true)),
    };
    let of_views = Context { targets: &targets, views: views::Views::default(), lists: lists::Lists::default(), ..*cx };
    let cx = if targets.is_empty() { cx } else { &of_views };
    let needs = Needs::of(statement, text, cx);
    if needs.rewriting {
        // ONLY the table: for its users it has no partitions.
        let mut changed = statement.clone();
        let mut unread = false;
        if hidden::qualify(&mut changed, cx)
            || rewrite::drop_only(&mut changed, cx)
            || tableoid::replace(&mut changed, original)?
            || fields::replace(&mut changed, cx)
            || row_order::replace(&mut changed)
            || moment::fill_source(&mut changed, cx)
            || insert::sets::replace(&mut changed, cx)?
            || insert::overriding::replace(&mut changed, cx)?
            || {
                unread = has_with(text) && unread::drop_unread(&mut changed, cx);
                unread
            }
        {
            let mut plan = plan_rewritten(changed, original, steps)?;
            plan.whole_mut().unread |= unread;
            plan.whole_mut().planned = if has_with(text) { unread::planned(statement, original)? } else { vec![] };
            return Ok(plan);
        }
    }
    let mut expanded = Cow::Borrowed(statement);
    let views = if needs.views { views::expand(expanded.to_mut(), cx)? } else { views::Views::default() };
    let cx = &Context { views, lists: lists::Lists::of(text), steps: Some(steps), ..*cx };
    let expanded = expanded.as_ref();
    if needs.views {
        tableoid::refuse_in_views(expanded, cx)?;
    }
    let ordinary = match expanded {
        NodeEnum::SelectStmt(s) => select::plan(s, expanded, text, cx),
        NodeEnum::InsertStmt(s) => insert::plan(s, expanded, text, cx),
        NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_) | NodeEnum::MergeStmt(_) => modify::plan(expanded, text, cx),
        _ => Ok(Planned::home(true)),
    };
    let mut plan = if has_with(text) { in_turn::of(statement, ordinary, cx, steps) } else { ordinary }?;
    if needs.views || may_have_ctid(text) {
        row_ids::refuse(expanded, &plan, original)?;
    }
    locks::at_home(&mut plan, expanded, cx)?;
    if plan.whole().needs_home || plan.whole().reads_reference {
        plan.whole_mut().others = others(expanded, cx);
    }
    if cx.lists.is_needed() {
        let mut changed = statement.clone();
        cx.lists.apply(&mut changed, false);
        let whole = plan.whole_mut();
        (whole.template, whole.by_parent) = (false, Some(sql::deparse(&changed)?));
    }
    if matches!(&plan, Planned::Insert { rows: Insert::Select(_), .. }) && needs::statement_runs_text(statement, cx) {
        return Err(Refusal::new(
            "INSERT … SELECT from code that puts statements together into a table of several nodes is not supported: its rows \
             are read where nobody sees what that code touches",
            "Write its rows into a local or temporary table first.",
        ));
    }
    plan.whole_mut().apart_views.extend(cx.views.taken_apart());
    plan.whole_mut().planned = if has_with(text) { unread::planned(statement, cx)? } else { vec![] };
    plan.whole_mut().clock = moment::of(statement, expanded, cx);
    plan.whole_mut().local = plan.whole().needs_home && names_local(expanded, cx);
    plan.whole_mut().rules = plan.whole().local && may_have_rules(statement, cx);
    plan.whole_mut().sequences = sequences::used(expanded, cx);
    plan.whole_mut().share = share::of(statement, &plan, cx);
    plan.whole_mut().plain = plain::of(statement, &plan, cx);
    // What asks for the settings that it runs under gets the session's.
    plan.whole_mut().narrow = plan.whole().plain.then(|| narrow::of(statement, &plan, cx)).flatten();
    plan.whole_mut().by_standby = standby::of(expanded, &plan, cx);
    let together = share_rows::of(statement, &plan, cx);
    if let Planned::Insert { share, .. } = &mut plan {
        *share = together.map(Box::new);
    }
    Ok(plan)
}

/// The tables it names that are not distributed.
fn others(statement: &NodeEnum, cx: &Context) -> Vec<Oid> {
    let named = relations::of(statement).into_iter().filter_map(|rv| cx.relation(rv));
    named.filter(|r| r.distribution().is_none()).map(|r| r.oid).collect()
}

/// What has to be changed in a statement's tree. Most need nothing, and large ones are not copied for it.
struct Needs {
    /// There may be ONLY, tableoid, WITH, a row's function or a row of sets in it, or it leaves the time to nodes, or names what hides
    /// PostgreSQL's own.
    rewriting: bool,
    /// It names views.
    views: bool,
}

impl Needs {
    fn of(statement: &NodeEnum, text: &str, cx: &Context) -> Self {
        let mut rewriting =
            has_with(text) || search::any(statement, tableoid::is_tableoid) || fields::has_call(statement, cx);
        search::each_relation(statement, |rv| rewriting |= !rv.inh);
        rewriting |= row_order::any(statement);
        rewriting |= moment::fills(statement, cx) || hidden::any(statement, cx) || insert::sets::is_set(statement, cx);
        rewriting |= insert::overriding::is_overriding(statement, cx);
        let views = relations::of(statement).into_iter().any(|rv| cx.relation(rv).is_some_and(|r| r.view.is_some()));
        Needs { rewriting, views }
    }
}

/// WITH may be in the text: most have none, and are not looked through for it.
fn has_with(text: &str) -> bool {
    has_word(text, b"with")
}

/// The same of ctid, which can also be written by its code points.
fn may_have_ctid(text: &str) -> bool {
    has_word(text, b"ctid") || has_word(text, b"u&\"")
}

fn has_word(text: &str, word: &[u8]) -> bool {
    text.as_bytes().windows(word.len()).any(|w| w.eq_ignore_ascii_case(word))
}

/// Whether what the statement writes to may have rules. A view may stand for a table that has some.
fn may_have_rules(statement: &NodeEnum, cx: &Context) -> bool {
    let target = match statement {
        NodeEnum::InsertStmt(s) => s.relation.as_ref(),
        NodeEnum::UpdateStmt(s) => s.relation.as_ref(),
        NodeEnum::DeleteStmt(s) => s.relation.as_ref(),
        _ => None,
    };
    target.and_then(|rv| cx.relation(rv)).is_some_and(|r| r.statement_triggers || r.kind == catalog::RelationKind::View)
}

/// Whether a local table is named, or a function that may use some. A table that the snapshot does not know may be one that
/// has just got its name.
fn names_local(statement: &NodeEnum, cx: &Context) -> bool {
    let named = relations::of(statement).into_iter().any(|rv| {
        let (schema, name) = names::table(rv);
        let system = schema
            .map_or(name.starts_with("pg_"), |s| s.starts_with("pg_") || s == "information_schema" || s == "herd");
        !cx.is_temporary(rv) && (!system || cx.relation(rv).is_some())
    });
    let own = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if cx.functions(&f.funcname).any(|f| f.schema != "pg_catalog"));
    named || search::any(statement, own)
}
