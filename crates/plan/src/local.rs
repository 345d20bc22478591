//! Which levels of a query each node can answer by itself, so that the nodes' answers together are the whole answer.
//!
//! Conclusions from the facts of `levels.rs`. Nothing is concluded by hope: what is not shown to be local is refused.

use sql::ast;

use crate::apart::{Apart, Differs, Gathering, Side};
use crate::classes::{JoinDomain, Var};
use crate::levels::{Analysis, Distinct, From, Level};

/// A conclusion, or what stands against it.
type Local<T> = Result<T, Apart>;

/// Where rows are: each on the node of its key.
#[derive(Debug)]
pub struct Whereabouts {
    /// The colocation group whose shards they are on.
    pub group: i32,
    /// Each says where a row is by itself, unless it is NULL.
    pub keys: Vec<Key>,
    /// A use of a table they come from.
    pub anchor: usize,
}

/// Columns by which a level's rows are on one node.
#[derive(Clone, Debug)]
pub struct Key {
    pub columns: Vec<Var>,
    /// Rows without it, added by an outer join, may be on any node.
    pub nullable: bool,
}

/// Its rows are those of FROM, one by one.
fn is_plain(l: &Level) -> bool {
    !l.aggregates && !l.grouped && l.arms.is_none() && l.distinct != Distinct::All
}

impl Analysis<'_> {
    /// Every use of a distributed table in a level and below it.
    pub fn deep_uses(&self, level: usize) -> Vec<usize> {
        let mut uses = Vec::new();
        self.collect(level, &mut uses);
        uses
    }

    fn collect(&self, level: usize, uses: &mut Vec<usize>) {
        if !self.cx.take(1) {
            return;
        }
        let l = &self.levels[level];
        l.from.iter().for_each(|f| self.collect_from(f, uses));
        l.sublinks.iter().for_each(|(s, _)| self.collect(*s, uses));
        if let Some((_, _, left, right)) = l.arms {
            self.collect(left, uses);
            self.collect(right, uses);
        }
    }

    /// Uses of tables in an item of FROM, those of its subqueries included.
    pub fn collect_from(&self, from: &From, uses: &mut Vec<usize>) {
        match from {
            From::Use(u) => uses.push(*u),
            From::Sub { level, .. } => self.collect(*level, uses),
            From::Join { left, right, .. } => {
                self.collect_from(left, uses);
                self.collect_from(right, uses);
            }
            From::Reference | From::Home(_) | From::Anywhere | From::Once => {}
        }
    }

    /// Local tables or code that only home can run, in a level and below it.
    pub fn deep_home(&self, level: usize) -> Option<Apart> {
        let above = self.levels[level].home_above.as_ref();
        self.home_below(level).or_else(|| above.map(|what| Apart::Code { what: what.clone() }))
    }

    /// The same without what is evaluated above FROM and WHERE, but for subqueries there.
    fn home_below(&self, level: usize) -> Option<Apart> {
        let l = &self.levels[level];
        l.from
            .iter()
            .find_map(|f| self.home_in(f))
            .or_else(|| l.sublinks.iter().find_map(|(s, _)| self.deep_home(*s)))
            .or_else(|| l.arms.and_then(|(_, _, a, b)| self.deep_home(a).or_else(|| self.deep_home(b))))
            .or_else(|| l.home_below.as_ref().map(|what| Apart::Code { what: what.clone() }))
    }

    fn home_in(&self, from: &From) -> Option<Apart> {
        match from {
            From::Home(name) => Some(Apart::Local { table: name.clone() }),
            From::Sub { level, .. } => self.deep_home(*level),
            From::Join { left, right, .. } => self.home_in(left).or_else(|| self.home_in(right)),
            _ => None,
        }
    }

    /// Reads no distributed table.
    pub fn is_free(&self, level: usize) -> bool {
        self.deep_uses(level).is_empty()
    }

    fn is_at(&self, key: &Key, u: usize, place: JoinDomain) -> bool {
        self.same_vars(&key.columns, &self.uses[u].key, place)
    }

    /// Each of the columns is equal to the other's of its place.
    pub fn same_vars(&self, a: &[Var], b: &[Var], place: JoinDomain) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| self.classes.same(place, *x, *y))
    }

    /// FROM and WHERE of a level can be evaluated node by node: where its rows are.
    pub fn colocated(&self, level: usize) -> Local<Whereabouts> {
        let l = &self.levels[level];
        if let Some(refusal) = &l.refusal {
            return Err(Apart::Refused(refusal.clone()));
        }
        let mut all = None;
        for from in &l.from {
            let next = self.spread_from(from, all.as_ref())?;
            all = self.joined(all, next, ast::JoinType::JoinInner, l.classes, l.joined)?;
        }
        let Some(all) = all else { return Err(Apart::Subquery { outer: None, inner: None }) };
        for (sub, _) in &l.sublinks {
            self.local_sublink(*sub, &all)?;
        }
        match self.home_below(level) {
            Some(home) => Err(home),
            None => Ok(all),
        }
    }

    /// Which items of a change's FROM, behind its target, nodes can join with the target by themselves, and which of its
    /// subqueries they can answer for its rows.
    pub fn kept(&self, level: usize) -> Option<(Vec<bool>, Vec<usize>)> {
        let l = &self.levels[level];
        let mut items = l.from.iter();
        let mut all = self.spread_from(items.next()?, None).ok()?;
        let mut kept = vec![];
        for from in items {
            let mut uses = vec![];
            self.collect_from(from, &mut uses);
            let next = || -> Local<Option<Whereabouts>> {
                let next = self.spread_from(from, all.as_ref())?;
                let now = all.as_ref().map(|w| Whereabouts { keys: w.keys.clone(), ..*w });
                self.joined(now, next, ast::JoinType::JoinInner, l.classes, l.joined)
            };
            let joined = if uses.is_empty() || self.home_in(from).is_some() { None } else { next().ok() };
            kept.push(joined.is_some());
            all = joined.unwrap_or(all);
        }
        let all = all?;
        let local =
            |s: &usize| !self.is_free(*s) && self.local_sublink(*s, &all).is_ok() && self.deep_home(*s).is_none();
        Some((kept, l.sublinks.iter().map(|(s, _)| *s).filter(local).collect()))
    }

    /// Each row of the level finds all that the subquery has to say of it on its own node.
    fn local_sublink(&self, sub: usize, rows: &Whereabouts) -> Local<()> {
        self.same_everywhere(sub)?;
        if self.is_free(sub) {
            return Ok(());
        }
        match self.stray(sub, rows) {
            None => Ok(()),
            Some(u) => Err(Apart::Subquery { outer: self.side(rows.anchor), inner: self.side(u) }),
        }
    }

    /// The first of what a level reads that is not read by the key of the row it is evaluated for.
    fn stray(&self, level: usize, rows: &Whereabouts) -> Option<usize> {
        self.deep_uses(level).into_iter().find(|u| {
            let here = self.uses[*u].relation.distribution().is_some_and(|d| d.group.id == rows.group);
            !here || !rows.keys.iter().any(|k| self.is_at(k, *u, self.uses[*u].classes))
        })
    }

    fn side(&self, u: usize) -> Option<Side> {
        Side::of(&self.uses[u].relation)
    }

    fn not_joined(&self, left: usize, right: usize) -> Apart {
        match (self.side(left), self.side(right)) {
            (Some(left), Some(right)) => Apart::Join { why: left.mismatch(&right), left, right },
            (outer, inner) => Apart::Subquery { outer, inner },
        }
    }

    fn spread(&self, what: Gathering, rows: &Whereabouts) -> Apart {
        match self.side(rows.anchor) {
            Some(table) => Apart::Spread { what, table },
            None => Apart::Subquery { outer: None, inner: None },
        }
    }

    /// Where an item's rows are; `None`: the same everywhere. `before`: the items a LATERAL one sees.
    fn spread_from(&self, from: &From, before: Option<&Whereabouts>) -> Local<Option<Whereabouts>> {
        match from {
            From::Use(u) => Ok(self.uses[*u].relation.distribution().map(|d| Whereabouts {
                group: d.group.id,
                keys: vec![Key { columns: self.uses[*u].key.clone(), nullable: false }],
                anchor: *u,
            })),
            From::Reference | From::Anywhere => Ok(None),
            From::Once => Err(Apart::Differs(Differs::Volatile)),
            From::Home(name) => Err(Apart::Local { table: name.clone() }),
            From::Sub { level, .. } if self.is_free(*level) => self.same_everywhere(*level).map(|()| None),
            From::Sub { level, lateral: true } if before.is_some_and(|rows| self.stray(*level, rows).is_none()) => {
                self.same_everywhere(*level).map(|()| None)
            }
            From::Sub { level, .. } => self.pushed(*level, false).map(Some),
            From::Join { kind, place, on, left, right } => {
                let l = self.spread_from(left, before)?;
                let r = self.spread_from(right, l.as_ref().or(before))?;
                self.joined(l, r, *kind, *place, *on)
            }
        }
    }

    /// Where an item's rows are by itself: `Some(None)`: the same everywhere.
    pub fn spread_item(&self, from: &From) -> Option<Option<Whereabouts>> {
        self.spread_from(from, None).ok()
    }

    /// An item's rows are the same on every node.
    pub fn is_everywhere(&self, from: &From) -> bool {
        matches!(self.spread_from(from, None), Ok(None))
    }

    /// Where the rows of a join are: on the node of each of its sides that is there.
    fn joined(
        &self,
        left: Option<Whereabouts>,
        right: Option<Whereabouts>,
        kind: ast::JoinType,
        place: JoinDomain,
        on: JoinDomain,
    ) -> Local<Option<Whereabouts>> {
        let keeps = |side: &str| match (kind, side) {
            (ast::JoinType::JoinInner, _) => true,
            (ast::JoinType::JoinLeft, side) => side == "left",
            (ast::JoinType::JoinRight, side) => side == "right",
            _ => false,
        };
        let (left, right) = match (left, right) {
            (None, None) => return Ok(None),
            (Some(one), None) if keeps("left") => return Ok(Some(one)),
            (None, Some(one)) if keeps("right") => return Ok(Some(one)),
            (Some(l), Some(r)) => (l, r),
            // Rows that find no other do not pass.
            (left, right) if self.is_reduced(on) && kind != ast::JoinType::JoinFull => return Ok(left.or(right)),
            // Every node has the rows of the side that is kept, and would keep them.
            _ => {
                return Err(Apart::Repeated);
            }
        };
        let together = left.group == right.group
            && left.keys.iter().any(|l| right.keys.iter().any(|r| self.same_vars(&l.columns, &r.columns, on)));
        if !together {
            return Err(self.not_joined(left.anchor, right.anchor));
        }
        // Left out, a side's key is NULL, wherever the row is; unless a condition needs it all the same.
        let after = |own: &[Key], other: &[Key], kept: bool| -> Vec<Key> {
            let needed = |k: &Key| other.iter().any(|o| !o.nullable && self.same_vars(&k.columns, &o.columns, place));
            own.iter()
                .map(|k| Key { columns: k.columns.clone(), nullable: (k.nullable || !kept) && !needed(k) })
                .collect()
        };
        let (keep_left, keep_right) = (keeps("left"), keeps("right"));
        let mut keys = after(&left.keys, if keep_right || keep_left { &right.keys } else { &[] }, keep_left);
        keys.extend(after(&right.keys, if keep_right || keep_left { &left.keys } else { &[] }, keep_right));
        let anchor = if keep_left { left.anchor } else { right.anchor };
        Ok(Some(Whereabouts { group: left.group, keys, anchor }))
    }

    /// The rows of an item of the level's FROM are where a row of `group` with these columns as its key would be.
    pub fn is_item_at(&self, level: usize, from: &From, group: i32, columns: &[Var]) -> bool {
        let Ok(Some(rows)) = self.spread_from(from, None) else { return false };
        let place = self.levels[level].classes;
        rows.group == group && rows.keys.iter().any(|k| !k.nullable && self.same_vars(&k.columns, columns, place))
    }

    /// The use whose node a level's rows are on, where each node can answer it, see `pushed`.
    pub fn pushable(&self, level: usize, top: bool) -> Local<usize> {
        self.pushed(level, top).map(|s| s.anchor)
    }

    /// The level's rows are where a row of `group` with these output columns as its key would be.
    pub fn is_keyed_by(&self, level: usize, group: i32, columns: &[Var]) -> bool {
        let l = &self.levels[level];
        let Ok(rows) = self.pushed(level, false) else { return false };
        rows.group == group && rows.keys.iter().any(|k| !k.nullable && self.same_vars(&k.columns, columns, l.classes))
    }

    /// Each node can answer this level for its own rows, and the answers laid end to end are the whole.
    /// `top`: the outermost level, whose LIMIT and ORDER BY are applied again by the finish.
    fn pushed(&self, level: usize, top: bool) -> Local<Whereabouts> {
        let l = &self.levels[level];
        if let Some(refusal) = &l.refusal {
            return Err(Apart::Refused(refusal.clone()));
        }
        if let Some((op, all, left, right)) = l.arms {
            // Those of LIMIT and OFFSET.
            let known = l
                .sublinks
                .iter()
                .all(|(s, _)| self.is_free(*s) && self.deep_home(*s).is_none() && self.same_everywhere(*s).is_ok());
            if op == ast::SetOperation::SetopUnion && all && (top || !l.limit) && known {
                let one = self.pushed(left, false)?;
                if one.group == self.pushed(right, false)?.group {
                    // Which arm a row is of nobody tells: it has no key.
                    return Ok(Whereabouts { keys: vec![], ..one });
                }
            }
            return Err(Apart::SetOperation);
        }
        let rows = self.colocated(level)?;
        if let Some(what) = &l.home_above {
            return Err(Apart::Code { what: what.clone() });
        }
        let by_key = |columns: &[Option<Var>]| self.covers_key(l, &rows, columns);
        if (l.aggregates || l.grouped) && (l.grouping_sets || !by_key(&l.group)) {
            return Err(self.spread(Gathering::Aggregate, &rows));
        }
        if !l.windows.iter().all(|w| by_key(w)) {
            return Err(self.spread(Gathering::Window, &rows));
        }
        let distinct = match &l.distinct {
            Distinct::None => true,
            Distinct::All => l.columns.as_ref().is_some_and(|c| by_key(&c.iter().map(|(_, v)| *v).collect::<Vec<_>>())),
            Distinct::On(on) => by_key(on),
        };
        if !distinct {
            return Err(self.spread(Gathering::Distinct, &rows));
        }
        if l.limit && !top {
            return Err(self.spread(Gathering::Limit, &rows));
        }
        // Equal keys are on one node, in the order that node's subquery gives.
        let by_keys = if l.aggregates || l.grouped { by_key(&l.group) } else { true };
        if self.relies_on_order(level, top, by_keys) {
            return Err(self.spread(Gathering::Order, &rows));
        }
        Ok(rows)
    }

    /// What the level answers depends on the order of the subquery it reads, which is lost where nodes' answers are laid end to
    /// end. SQL does not promise that order, but PostgreSQL keeps it, and its users count on it.
    /// `top`: its rows are seen in the order they come. `by_keys`: groups and partitions are each on one node.
    pub fn relies_on_order(&self, level: usize, top: bool, by_keys: bool) -> bool {
        let l = &self.levels[level];
        let cuts = l.limit || matches!(l.distinct, Distinct::On(_));
        let relies = (l.order_sensitive && !by_keys) || (is_plain(l) && !l.sorted && (top || cuts));
        relies && self.read_alone(level).is_some_and(|sub| self.gives_order(sub))
    }

    /// The level's rows come in an order that the statement asks for.
    pub fn gives_order(&self, level: usize) -> bool {
        let l = &self.levels[level];
        l.sorted || (is_plain(l) && self.read_alone(level).is_some_and(|sub| self.gives_order(sub)))
    }

    /// The only subquery that a level reads, beside what is the same everywhere.
    fn read_alone(&self, level: usize) -> Option<usize> {
        fn subs(from: &From, found: &mut Vec<Option<usize>>) {
            match from {
                From::Sub { level, .. } => found.push(Some(*level)),
                From::Join { left, right, .. } => {
                    subs(left, found);
                    subs(right, found);
                }
                From::Use(_) | From::Home(_) => found.push(None),
                From::Reference | From::Anywhere | From::Once => {}
            }
        }
        let mut found = vec![];
        self.levels[level].from.iter().for_each(|f| subs(f, &mut found));
        match found[..] {
            [sub] => sub.filter(|s| !self.is_free(*s)),
            _ => None,
        }
    }

    /// Rows of a level with equal values in these columns are on one node.
    pub fn tells_nodes_apart(&self, level: usize, columns: &[Option<Var>]) -> bool {
        self.colocated(level).is_ok_and(|rows| self.covers_key(&self.levels[level], &rows, columns))
    }

    /// The columns include every column of a key that is not NULL anywhere, so that equal values are on one node.
    fn covers_key(&self, l: &Level, rows: &Whereabouts, columns: &[Option<Var>]) -> bool {
        let has = |k: &Var| columns.iter().flatten().any(|c| self.classes.same(l.classes, *k, *c));
        rows.keys.iter().any(|key| !key.nullable && key.columns.iter().all(has))
    }
}
