//! Which levels of a query each node can answer by itself, so that the nodes' answers together are the whole answer.
//!
//! Conclusions from the facts of `levels.rs`. Nothing is concluded by hope: what is not shown to be local is refused.

use sql::ast;

use crate::apart::{Apart, Differs, Gathering, Side};
use crate::levels::{Analysis, Distinct, From, Level};

/// A conclusion, or what stands against it.
type Local<T> = Result<T, Apart>;

impl Analysis<'_> {
    /// Every use of a distributed table in a level and below it.
    pub fn deep_uses(&self, level: usize) -> Vec<usize> {
        let mut uses = Vec::new();
        self.collect(level, &mut uses);
        uses
    }

    fn collect(&self, level: usize, uses: &mut Vec<usize>) {
        let l = &self.levels[level];
        l.from.iter().for_each(|f| self.collect_from(f, uses));
        l.sublinks.iter().for_each(|(s, _)| self.collect(*s, uses));
        if let Some((_, _, left, right)) = l.arms {
            self.collect(left, uses);
            self.collect(right, uses);
        }
    }

    pub fn collect_from(&self, from: &From, uses: &mut Vec<usize>) {
        match from {
            From::Use(u) => uses.push(*u),
            From::Sub { level, .. } => self.collect(*level, uses),
            From::Join { left, right, .. } => {
                self.collect_from(left, uses);
                self.collect_from(right, uses);
            }
            From::Reference | From::Home(_) | From::Anywhere => {}
        }
    }

    /// Local tables or other things of home, in a level and below it.
    pub fn deep_home(&self, level: usize) -> Option<&str> {
        let l = &self.levels[level];
        l.from
            .iter()
            .find_map(|f| self.home_in(f))
            .or_else(|| l.sublinks.iter().find_map(|(s, _)| self.deep_home(*s)))
            .or_else(|| l.arms.and_then(|(_, _, a, b)| self.deep_home(a).or_else(|| self.deep_home(b))))
    }

    fn home_in<'s>(&'s self, from: &'s From) -> Option<&'s str> {
        match from {
            From::Home(name) => Some(name),
            From::Sub { level, .. } => self.deep_home(*level),
            From::Join { left, right, .. } => self.home_in(left).or_else(|| self.home_in(right)),
            _ => None,
        }
    }

    /// Reads no distributed table.
    pub fn is_free(&self, level: usize) -> bool {
        self.deep_uses(level).is_empty()
    }

    fn same_key(&self, a: usize, b: usize, classes: usize) -> bool {
        let (a, b) = (&self.uses[a], &self.uses[b]);
        let (Some(da), Some(db)) = (a.relation.distribution(), b.relation.distribution()) else { return false };
        da.group.id == db.group.id
            && a.key.len() == b.key.len()
            && a.key.iter().zip(&b.key).all(|(x, y)| self.classes[classes].same(*x, *y))
    }

    /// FROM and WHERE of a level can be evaluated node by node. The use whose key all others equal is returned.
    pub fn colocated(&self, level: usize) -> Local<usize> {
        let l = &self.levels[level];
        if let Some(refusal) = &l.refusal {
            return Err(Apart::Refused(refusal.clone()));
        }
        let mut direct = Vec::new();
        l.from.iter().for_each(|f| self.collect_from(f, &mut direct));
        let Some(anchor) = direct.first().copied() else {
            return Err(Apart::Subquery { outer: None, inner: None });
        };
        if let Some(u) = direct.iter().find(|u| !self.same_key(anchor, **u, self.uses[**u].classes)) {
            return Err(self.not_joined(anchor, *u));
        }
        for from in &l.from {
            self.local_from(from, anchor)?;
        }
        for (sub, _) in &l.sublinks {
            self.local_sublink(*sub, anchor)?;
        }
        if let Some(home) = self.deep_home(level) {
            return Err(Apart::Local { table: home.to_string() });
        }
        Ok(anchor)
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

    fn spread(&self, what: Gathering, anchor: usize) -> Apart {
        match self.side(anchor) {
            Some(table) => Apart::Spread { what, table },
            None => Apart::Subquery { outer: None, inner: None },
        }
    }

    fn local_sublink(&self, sub: usize, anchor: usize) -> Local<()> {
        let uses = self.deep_uses(sub);
        if uses.is_empty() {
            return self.same_everywhere(sub);
        }
        match uses.iter().find(|u| !self.same_key(anchor, **u, self.uses[**u].classes)) {
            None => Ok(()),
            Some(u) => Err(Apart::Subquery { outer: self.side(anchor), inner: self.side(*u) }),
        }
    }

    /// A subquery without distributed tables must give the same rows on every node.
    fn same_everywhere(&self, level: usize) -> Local<()> {
        let l = &self.levels[level];
        if (l.limit || matches!(l.distinct, Distinct::On(_))) && !l.from.is_empty() {
            return Err(Apart::Differs(Differs::Choice));
        }
        if l.volatile {
            return Err(Apart::Differs(Differs::Volatile));
        }
        Ok(())
    }

    fn local_from(&self, from: &From, anchor: usize) -> Local<()> {
        match from {
            From::Use(_) | From::Reference | From::Anywhere => Ok(()),
            From::Home(name) => Err(Apart::Local { table: name.clone() }),
            From::Sub { level, lateral } => {
                let uses = self.deep_uses(*level);
                if uses.is_empty() {
                    self.same_everywhere(*level)
                } else if *lateral
                    && !uses.contains(&anchor)
                    && uses.iter().all(|u| self.same_key(anchor, *u, self.uses[*u].classes))
                {
                    Ok(())
                } else {
                    self.pushable(*level, false).map(|_| ())
                }
            }
            From::Join { kind, left, right } => {
                let has = |f: &From| {
                    let mut uses = Vec::new();
                    self.collect_from(f, &mut uses);
                    !uses.is_empty()
                };
                let (l, r) = (has(left), has(right));
                let repeated = match kind {
                    ast::JoinType::JoinLeft => !l && r,
                    ast::JoinType::JoinRight => l && !r,
                    ast::JoinType::JoinFull => l != r,
                    _ => false,
                };
                if repeated {
                    return Err(Apart::Repeated);
                }
                self.local_from(left, anchor)?;
                self.local_from(right, anchor)
            }
        }
    }

    /// Each node can answer this level for its own rows, and the answers laid end to end are the whole.
    /// `top`: the outermost level, whose LIMIT and ORDER BY are applied again by the finish.
    pub fn pushable(&self, level: usize, top: bool) -> Local<usize> {
        let l = &self.levels[level];
        if let Some(refusal) = &l.refusal {
            return Err(Apart::Refused(refusal.clone()));
        }
        if let Some((op, all, left, right)) = l.arms {
            if op == ast::SetOperation::SetopUnion && all && (top || !l.limit) {
                let anchor = self.pushable(left, false)?;
                let other = self.pushable(right, false)?;
                let shards = |u: usize| self.uses[u].relation.distribution().map(|d| d.group.id);
                if shards(anchor) == shards(other) {
                    return Ok(anchor);
                }
            }
            return Err(Apart::SetOperation);
        }
        let anchor = self.colocated(level)?;
        let by_key = |columns: &[Option<usize>]| self.covers_key(l, anchor, columns);
        if (l.aggregates || l.grouped) && (l.grouping_sets || !by_key(&l.group)) {
            return Err(self.spread(Gathering::Aggregate, anchor));
        }
        if !l.windows.iter().all(|w| by_key(w)) {
            return Err(self.spread(Gathering::Window, anchor));
        }
        let distinct = match &l.distinct {
            Distinct::None => true,
            Distinct::All => l.columns.as_ref().is_some_and(|c| by_key(&c.iter().map(|(_, v)| *v).collect::<Vec<_>>())),
            Distinct::On(on) => by_key(on),
        };
        if !distinct {
            return Err(self.spread(Gathering::Distinct, anchor));
        }
        if l.limit && !top {
            return Err(self.spread(Gathering::Limit, anchor));
        }
        Ok(anchor)
    }

    /// The columns include every column of the key, so that equal values are on one node.
    fn covers_key(&self, l: &Level, anchor: usize, columns: &[Option<usize>]) -> bool {
        let classes = &self.classes[l.classes];
        self.uses[anchor].key.iter().all(|k| columns.iter().flatten().any(|c| classes.same(*k, *c)))
    }
}
