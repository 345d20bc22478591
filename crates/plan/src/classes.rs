//! Equivalence classes of columns, and the constants they are equal to. It does not know tables or SQL.

use crate::types::KeyExpr;

/// One column of one use of a table (or of an output that is not a plain column).
pub type Var = usize;

#[derive(Clone, Debug, Default)]
pub struct Classes {
    parent: Vec<Var>,
    /// For each root: sets of alternatives, each of which restricts the class (`IN` lists have many, `=` one).
    constants: Vec<Vec<Vec<KeyExpr>>>,
}

impl Classes {
    pub fn add(&mut self) -> Var {
        self.parent.push(self.parent.len());
        self.constants.push(Vec::new());
        self.parent.len() - 1
    }

    /// Makes room for the variables another copy has added.
    pub fn grow(&mut self, len: usize) {
        while self.parent.len() < len {
            self.add();
        }
    }

    pub fn len(&self) -> usize {
        self.parent.len()
    }

    pub fn is_empty(&self) -> bool {
        self.parent.is_empty()
    }

    pub fn find(&self, mut v: Var) -> Var {
        while self.parent[v] != v {
            v = self.parent[v];
        }
        v
    }

    pub fn union(&mut self, a: Var, b: Var) {
        let (a, b) = (self.find(a), self.find(b));
        if a != b {
            self.parent[b] = a;
            let moved = std::mem::take(&mut self.constants[b]);
            self.constants[a].extend(moved);
        }
    }

    pub fn same(&self, a: Var, b: Var) -> bool {
        self.find(a) == self.find(b)
    }

    pub fn restrict(&mut self, v: Var, alternatives: Vec<KeyExpr>) {
        let root = self.find(v);
        self.constants[root].push(alternatives);
    }

    /// The narrowest known set of values of `v`, if any.
    pub fn values(&self, v: Var) -> Option<&Vec<KeyExpr>> {
        let sets = &self.constants[self.find(v)];
        // One scalar beats a list; a list in the statement beats an array of unknown length.
        sets.iter().min_by_key(|s| (s.iter().any(|e| matches!(e, KeyExpr::ParamArray(_))), s.len()))
    }
}
