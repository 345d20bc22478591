//! Why the nodes can't answer a level by themselves, as a value: what is not colocated with what. Whoever could move rows
//! can ask it what to move; for the user it becomes a refusal (`refuse.rs`).

use catalog::Relation;

use crate::refuse::Refusal;

/// Why rows that a level needs together may lie on several nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Tables that are joined, but whose rows that meet may be on different nodes.
    Join { left: Side, right: Side, why: Mismatch },
    /// A subquery that reads a table whose rows may be on other nodes than those of the level above, if that reads any.
    Subquery { outer: Option<Side>, inner: Option<Side> },
    /// The arms of a set operation, other than UNION ALL of the same shards.
    SetOperation,
    /// Rows that belong together may be on several nodes: the key is not among what they are put together by.
    Spread { what: Gathering, table: Side },
    /// A local table, whose rows are on home.
    Local { table: String },
    /// Code that uses what only home has.
    Code { what: String },
    /// What has no distributed table, but could differ from node to node.
    Differs(Differs),
    /// An outer join keeps rows that every node has.
    Repeated,
    /// Not supported, wherever its rows are.
    Refused(Refusal),
}

/// A distributed table as far as colocation goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    pub table: String,
    /// Its colocation group, and the types of its key (object ids).
    pub group: i32,
    pub key_types: Vec<u32>,
}

/// Why two tables' rows that meet need not be on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The keys have other types.
    KeyTypes,
    /// The same types, but shards of their own.
    Groups,
    /// The same shards, but nothing says that their keys are equal.
    Keys,
}

/// What needs rows of equal values in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathering {
    Aggregate,
    Window,
    Distinct,
    Limit,
    /// Rows whose order something relies on.
    Order,
}

/// Why the same text may mean other rows on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// LIMIT or DISTINCT ON without an order that decides.
    Choice,
    /// An aggregate or window function that heeds the order of rows.
    Order,
    Volatile,
}

impl Side {
    /// `None`: the relation is not a distributed table.
    pub fn of(relation: &Relation) -> Option<Side> {
        let d = relation.distribution()?;
        Some(Side { table: relation.name.clone(), group: d.group.id, key_types: d.group.key_types.clone() })
    }

    /// Why rows of the two sides are not on the same nodes.
    pub fn mismatch(&self, other: &Side) -> Mismatch {
        match (self.key_types == other.key_types, self.group == other.group) {
            (false, _) => Mismatch::KeyTypes,
            (true, false) => Mismatch::Groups,
            (true, true) => Mismatch::Keys,
        }
    }
}
