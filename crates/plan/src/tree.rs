//! What several nodes do for a query: Parts that nodes answer by themselves, Exchanges that move their rows, and a Finish
//! that makes one answer of them. EXPLAIN, Describe and the executor read the same tree. It does not know how rows travel.

use catalog::Placement;

use crate::columns::ColumnRead;
use crate::gather::{Semijoin, Shuffle};
use crate::in_turn::InTurn;
use crate::text::Text;
use crate::types::Planned;

/// A text for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub text: Text,
    pub target: Recipients,
    /// What of it the nodes' column copies answer; `None`: no table of it has any.
    pub columns: Option<ColumnRead>,
}

/// Who gets a Part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// The nodes with shards that these uses of tables can mean: indexes into [`crate::Whole::tables`].
    Shards(Vec<usize>),
}

/// Rows of a child move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub rows: ChildRows,
    pub to: To,
}

/// Whose rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildRows {
    Part(Part),
    Finish(Box<Finish>),
}

/// Where rows move. Those of a query's tree go home, those of its [`Statement::ways`] to all nodes, those of its [`Statement::shuffle`] as that
/// says; other places are those of INSERT … SELECT, and of changes that read other tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To home.
    Gather,
    /// To all nodes.
    Broadcast,
    /// Each to the node of its shard in this colocation group.
    Shuffle { group: i32 },
}

impl To {
    /// Where the rows of a table are.
    pub fn of(placement: &Placement) -> To {
        match placement {
            Placement::Local => To::Gather,
            Placement::Reference => To::Broadcast,
            Placement::Distributed(d) => To::Shuffle { group: d.group.id },
        }
    }
}

/// What is done with rows that come together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// They pass on as they come, node after node.
    PassOn {
        rows: Part,
        slice: Slice,
    },
    Merge(Merge),
    AddUp(AddUp),
    Statement(Statement),
}

impl Planned {
    /// What becomes of the rows of several nodes, or of those of a store.
    pub fn finish(&self) -> Option<&Finish> {
        match self {
            Planned::Query { tree, .. } => tree.as_ref().ok(),
            Planned::Forward(whole) => whole.by_store.as_deref(),
            Planned::Insert { .. } | Planned::Modify { .. } | Planned::InTurn { .. } => None,
        }
    }
}

impl Finish {
    /// Every Part below.
    pub fn parts(&self) -> Vec<&Part> {
        match self {
            Finish::PassOn { rows, .. } | Finish::Merge(Merge { rows, .. }) | Finish::AddUp(AddUp { rows, .. }) => {
                vec![rows]
            }
            Finish::Statement(s) => s.children.iter().flat_map(Exchange::parts).collect(),
        }
    }

    /// What PostgreSQL finishes it with, or would.
    pub fn texts(&self) -> Vec<&Text> {
        match self {
            Finish::PassOn { .. } => vec![],
            Finish::Merge(merge) => merge.otherwise.iter().collect(),
            Finish::AddUp(add_up) => vec![&add_up.otherwise],
            Finish::Statement(s) => {
                let below = s.children.iter().filter_map(|child| match &child.rows {
                    ChildRows::Part(_) => None,
                    ChildRows::Finish(finish) => Some(finish.texts()),
                });
                below.flatten().chain([&s.text]).collect()
            }
        }
    }
}

impl Exchange {
    /// Every Part below.
    pub fn parts(&self) -> Vec<&Part> {
        match &self.rows {
            ChildRows::Part(part) => vec![part],
            ChildRows::Finish(finish) => finish.parts(),
        }
    }
}

/// LIMIT and OFFSET: constants, or `$n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub limit: Option<Count>,
    pub offset: Option<Count>,
    /// Rows are locked as they are taken: no more of them are than there must be.
    pub locks: bool,
}

/// LIMIT or OFFSET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Constant(u64),
    Param(usize),
}

/// Sorted rows are merged by hidden columns behind the visible ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    pub rows: Part,
    /// The hidden columns, in order.
    pub sort: Vec<SortKey>,
    pub slice: Slice,
    /// Strings may be compared by bytes.
    pub bytewise: bool,
    /// The same by PostgreSQL, over the same rows gathered: where the router can't compare a sort column's type.
    pub otherwise: Option<Text>,
}

/// One expression of ORDER BY, as a hidden column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    pub descending: bool,
    pub nulls_first: bool,
}

/// One row a node of counts, sums, minima and maxima, added up by the router where all are integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddUp {
    pub rows: Part,
    pub functions: Vec<AddFunction>,
    /// The same by PostgreSQL, over the same rows gathered.
    pub otherwise: Text,
}

/// How the nodes' values of one column become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddFunction {
    Sum,
    Min,
    Max,
}

/// PostgreSQL finishes: a statement over its children's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub text: Text,
    /// [`crate::Piece::Rows`] counts them.
    pub children: Vec<Exchange>,
    /// It reads local tables itself.
    pub reads_home: bool,
    /// All it reads there any connection of the user's sees that is in no transaction.
    pub reads_what_all_see: bool,
    /// It has rows in tables' places: runs only if home says of it what it says of the client's statement.
    pub as_described: bool,
    /// Of its first children, by which columns it looks up their rows one after the other: an index helps there.
    pub lookups: Vec<Vec<usize>>,
    /// Why rows come home that nodes could not join by themselves, in words for a user.
    pub why: Option<String>,
    /// By which others' rows those of its children can be fewer: which of them pay is seen when it runs.
    pub semijoins: Vec<Semijoin>,
    /// The same with some tables' rows where they are: which moves less is seen when it runs.
    pub ways: Vec<InTurn>,
    /// The same with rows that go to nodes by what they are joined by.
    pub shuffle: Option<Shuffle>,
}
