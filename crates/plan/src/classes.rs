//! What is known of columns where: which are equal, and which constants they are equal to, or between. It does not know tables or SQL.
//!
//! Knowledge belongs to *places* of the statement, join domains in PostgreSQL's words. The conditions of a level hold for all of its rows; what an outer join's condition says holds
//! only for the rows of the side it may leave out, and what a subquery says only inside. So a place has what it was told and
//! what the places around it were, never the other way round.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::steps::Steps;
use crate::table_keys::KeyLimit;
use crate::types::KeyExpr;

/// One column of one use of a table (or of an output that is not a plain column).
pub type Var = usize;

/// A place in the statement inside which equalities hold, or, as PostgreSQL calls that (pathnodes.h), a join domain.
pub type JoinDomain = usize;

/// All that was told, place by place.
#[derive(Debug)]
pub struct Classes<'a> {
    /// What drawing conclusions is counted by.
    steps: Option<&'a Steps>,
    places: Vec<Told>,
    /// What follows from what a place and those around it were told.
    drawn: RefCell<HashMap<JoinDomain, Rc<Drawn>>>,
}

#[derive(Debug, Default)]
struct Told {
    around: Option<JoinDomain>,
    equal: Vec<(Var, Var)>,
    /// Sets of alternatives, each of which restricts the variable (`IN` lists have many, `=` one).
    constants: Vec<(Var, Rc<Vec<KeyExpr>>)>,
    limits: Vec<(Var, KeyLimit)>,
}

#[derive(Debug, Default)]
struct Drawn {
    parent: HashMap<Var, Var>,
    constants: HashMap<Var, Vec<Rc<Vec<KeyExpr>>>>,
    limits: HashMap<Var, Vec<(Var, KeyLimit)>>,
}

impl<'a> Classes<'a> {
    /// Nothing is known yet.
    pub fn new(steps: Option<&'a Steps>) -> Self {
        Classes { steps, places: vec![Told::default()], drawn: RefCell::default() }
    }
}

impl Classes<'_> {
    /// The statement itself.
    pub const WHOLE: JoinDomain = 0;

    /// A new place that knows what the one around it does.
    pub fn inside(&mut self, around: JoinDomain) -> JoinDomain {
        self.places.push(Told { around: Some(around), ..Told::default() });
        self.places.len() - 1
    }

    /// A place of which nothing around it says anything.
    pub fn alone(&mut self) -> JoinDomain {
        self.places.push(Told::default());
        self.places.len() - 1
    }

    /// From now on the two are equal in `place`, and in the places inside it.
    pub fn union(&mut self, place: JoinDomain, a: Var, b: Var) {
        self.drawn.borrow_mut().clear();
        self.places[place].equal.push((a, b));
    }

    /// From now on the variable has one of these values in `place`, and in the places inside it.
    pub fn restrict(&mut self, place: JoinDomain, v: Var, alternatives: Vec<KeyExpr>) {
        self.drawn.borrow_mut().clear();
        self.places[place].constants.push((v, Rc::new(alternatives)));
    }

    /// From now on the variable is within this limit in `place`, and in the places inside it.
    pub fn limit(&mut self, place: JoinDomain, v: Var, limit: KeyLimit) {
        self.drawn.borrow_mut().clear();
        self.places[place].limits.push((v, limit));
    }

    /// Whether the two are known to be equal in `place`, by what it and the places around it were told.
    pub fn same(&self, place: JoinDomain, a: Var, b: Var) -> bool {
        let drawn = self.drawn(place);
        drawn.find(a) == drawn.find(b)
    }

    /// The narrowest known set of values of `v`, if any.
    pub fn values(&self, place: JoinDomain, v: Var) -> Option<Rc<Vec<KeyExpr>>> {
        let drawn = self.drawn(place);
        // One scalar beats a list; a list in the statement beats an array of unknown length.
        let narrow = |s: &&Rc<Vec<KeyExpr>>| {
            (s.iter().any(|e| matches!(e, KeyExpr::ParamArray(_) | KeyExpr::CastParamArray(..))), s.len())
        };
        drawn.constants.get(&drawn.find(v))?.iter().min_by_key(narrow).cloned()
    }

    /// All known limits of `v`, and which of the variables that are equal to it each was told of.
    pub fn limits(&self, place: JoinDomain, v: Var) -> Vec<(Var, KeyLimit)> {
        let drawn = self.drawn(place);
        drawn.limits.get(&drawn.find(v)).cloned().unwrap_or_default()
    }

    fn drawn(&self, place: JoinDomain) -> Rc<Drawn> {
        if let Some(drawn) = self.drawn.borrow().get(&place) {
            return drawn.clone();
        }
        let chain: Vec<&Told> =
            std::iter::successors(Some(&self.places[place]), |p| p.around.map(|a| &self.places[a])).collect();
        let mut drawn = Drawn::default();
        let told: usize = chain.iter().map(|p| 1 + p.equal.len() + p.constants.len() + p.limits.len()).sum();
        if self.steps.is_some_and(|left| !left.take(told)) {
            return Rc::new(drawn);
        }
        for (a, b) in chain.iter().rev().flat_map(|p| &p.equal) {
            let (a, b) = (drawn.find(*a), drawn.find(*b));
            if a != b {
                drawn.parent.insert(b, a);
            }
        }
        for (v, alternatives) in chain.iter().rev().flat_map(|p| &p.constants) {
            let root = drawn.find(*v);
            drawn.constants.entry(root).or_default().push(alternatives.clone());
        }
        for (v, limit) in chain.iter().rev().flat_map(|p| &p.limits) {
            let root = drawn.find(*v);
            drawn.limits.entry(root).or_default().push((*v, limit.clone()));
        }
        let drawn = Rc::new(drawn);
        self.drawn.borrow_mut().insert(place, drawn.clone());
        drawn
    }
}

impl Drawn {
    fn find(&self, mut v: Var) -> Var {
        while let Some(parent) = self.parent.get(&v) {
            v = *parent;
        }
        v
    }
}
