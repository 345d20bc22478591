//! How deep a tree is. It does not know how much stack there is.

use pg_query::NodeEnum;
use pg_query::protobuf as ast;

use crate::walk::{self, Visit};

/// Trees up to this many nodes deep fit any thread's stack.
const SHALLOW: usize = 48;

/// Any thread has room for it.
pub fn is_shallow(statement: &NodeEnum) -> bool {
    of(statement) <= SHALLOW
}

/// Nodes on the longest way down.
pub fn of(statement: &NodeEnum) -> usize {
    let mut v = Depth::default();
    walk::below(statement, &mut v);
    v.max + 1
}

#[derive(Default)]
struct Depth {
    here: usize,
    max: usize,
}

impl Depth {
    fn down(&mut self) -> bool {
        self.here += 1;
        self.max = self.max.max(self.here);
        true
    }
}

impl<'a> Visit<'a> for Depth {
    fn node(&mut self, _: &'a NodeEnum) -> bool {
        self.down()
    }

    fn leave(&mut self, _: &'a NodeEnum) {
        self.here -= 1;
    }

    fn select(&mut self, _: &'a ast::SelectStmt) -> bool {
        self.down()
    }

    fn leave_select(&mut self, _: &'a ast::SelectStmt) {
        self.here -= 1;
    }
}
