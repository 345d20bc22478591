//! What a plan is. Plans hold texts and key expressions, never values: one plan serves every execution of a template.

use std::sync::Arc;

use catalog::{NodeId, Relation};

use crate::refuse::Refusal;
use crate::text::Text;

/// Where a key value comes from at execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyExpr {
    /// A literal of the statement, at its byte offset; `text` is its value in this very statement.
    Literal {
        location: usize,
        text: String,
        kind: LiteralKind,
    },
    /// `$n`, from 1.
    Param(usize),
    /// `= ANY($n)`: every element of an array parameter.
    ParamArray(usize),
    Null,
    /// The n-th value evaluated beforehand (see [`Evaluation`]).
    Evaluated(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralKind {
    /// A number; `text` has its sign.
    Number,
    String,
}

/// The values the key of one use of a table can have: any of the alternatives.
#[derive(Clone, Debug)]
pub struct TableKeys {
    pub relation: Arc<Relation>,
    /// One list of alternatives for each key column; an empty list: not restricted.
    pub columns: Vec<Vec<KeyExpr>>,
}

/// Where a partition's name is put in place of its table's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// Byte range of the table's name in the statement.
    pub start: usize,
    pub end: usize,
    /// Index into [`Plan::tables`].
    pub table: usize,
    /// The alias to add so that the rest of the statement still finds the table by its name.
    pub alias: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Plan {
    /// Every use of a distributed table, with what is known of its key.
    pub tables: Vec<TableKeys>,
    /// Something in it is only on home: local tables, system catalogs, sequences.
    pub needs_home: bool,
    /// It names local tables, or calls users' own functions.
    pub local: bool,
    /// It reads reference tables (any node will do).
    pub reads_reference: bool,
    /// It may change data (so it can't be retried, and its node takes part in the commit).
    pub writes: bool,
    /// Name partitions instead of parents when all of it is on one shard. `None`: the parent must be named.
    pub splices: Option<Vec<Splice>>,
    /// The plan does not depend on the values of literals other than those in `tables`.
    pub template: bool,
    /// What to do when more than one node is concerned.
    pub multi: Multi,
    /// Set-off work before: expressions that PostgreSQL must evaluate once (volatile functions, sequences).
    pub evaluate: Vec<Evaluation>,
    /// Columns of the target, in order, for statements that write rows (see [`Multi::Insert`]).
    pub kind: StatementKind,
    /// The statement to run in place of the client's text, where a node would read that differently.
    pub rewritten: Option<String>,
    /// It may travel with other clients' statements (see `share.rs`).
    pub share: Option<Share>,
    /// Its rows may travel with those of other clients (see `share_rows.rs`).
    pub share_rows: Option<Box<ShareRows>>,
}

/// The rows of an INSERT whose values the router knows.
#[derive(Clone, Debug)]
pub struct ShareRows {
    pub relation: Arc<Relation>,
    /// The columns of each row; columns that take their values from sequences may be missing.
    pub columns: Vec<usize>,
    /// They are all columns, in order, and the statement does not name them.
    pub positional: bool,
    pub rows: Vec<Vec<Cell>>,
}

/// One value of such a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    Literal {
        location: usize,
        text: String,
        kind: LiteralKind,
    },
    /// `$n`, from 1.
    Param(usize),
    Fixed(&'static str),
    Null,
    /// The statement's time.
    Now,
}

/// How a statement travels with others: prepared, with these literals as parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub writes: bool,
    /// Of an INSERT of one row and nothing else, of which many may be one statement: the table's name as it is written.
    pub one_row: Option<String>,
    /// In the order of the text. Other literals stay where they are.
    pub literals: Vec<ShareLiteral>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLiteral {
    /// Byte offset of the constant.
    pub location: usize,
    /// The type of the column it is assigned to or compared with.
    pub type_oid: u32,
    pub kind: LiteralKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    Select,
    Insert,
    Update,
    Delete,
    Merge,
}

/// An expression evaluated once on home before the statement (see [`crate::Piece::Evaluated`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    pub expression: Text,
}

#[derive(Clone, Debug)]
pub enum Multi {
    /// Never needed: no distributed table is used.
    None,
    Refuse(Refusal),
    Select(Box<MultiSelect>),
    /// The same UPDATE or DELETE on every node; counts are added up, RETURNING rows concatenated.
    Modify {
        text: Text,
        returning: bool,
    },
    Insert(Box<SplitInsert>),
    InsertSelect(Box<InsertSelect>),
    /// An UPDATE that may change keys: rows are deleted where they are and inserted where they belong.
    Move(Box<MoveRows>),
    /// A write to a reference table: on every node.
    Reference(Box<ReferenceWrite>),
}

/// See `move_rows.rs`.
#[derive(Clone, Debug)]
pub struct MoveRows {
    /// `DELETE … RETURNING` the new rows' `columns`.
    pub delete: Text,
    /// Rows with their new keys.
    pub insert: InsertRows,
    pub relation: Arc<Relation>,
    pub columns: Vec<usize>,
}

/// A query each node answers in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub text: Text,
    /// Uses (indexes into [`Plan::tables`]) whose shards say which nodes are asked.
    pub tables: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiSelect {
    pub parts: Vec<Part>,
    pub finish: Finish,
    /// The finish must run on home (it uses local tables).
    pub on_home: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Rows of the one part, node after node or merged by hidden sort columns behind the visible ones.
    Stream(Stream),
    /// One row a node of counts, sums, minima and maxima, combined by the router where all are integers.
    Combine { functions: Vec<Combine>, otherwise: Text },
    /// PostgreSQL finishes: a statement over the parts' rows.
    Sql(Text),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    Sum,
    Min,
    Max,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Sort keys: the hidden columns behind the visible ones, in order.
    pub sort: Vec<SortKey>,
    /// LIMIT and OFFSET as expressions to evaluate: constants, or `$n`.
    pub limit: Option<Count>,
    pub offset: Option<Count>,
    /// The same by SQL, where the router can't compare the sort columns' type.
    pub otherwise: Option<Text>,
    /// Strings may be compared by bytes.
    pub bytewise: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Constant(u64),
    Param(usize),
}

/// `INSERT … VALUES` whose rows go to their shards.
#[derive(Clone, Debug)]
pub struct SplitInsert {
    pub relation: Arc<Relation>,
    /// What is before, and what behind the rows.
    pub head: Text,
    pub tail: Text,
    /// The rows, each with its parentheses.
    pub rows: Vec<Text>,
    /// The key of each row.
    pub keys: Vec<Vec<KeyExpr>>,
    pub returning: bool,
}

/// `INSERT … SELECT` whose rows pass through the router.
#[derive(Clone, Debug)]
pub struct InsertSelect {
    pub relation: Arc<Relation>,
    /// Same shards on both sides: the statement as it is on every node.
    pub colocated: Option<Text>,
    pub source: Box<Plan>,
    pub source_sql: String,
    /// Target columns (index into the relation's columns), in the order the source gives them.
    pub columns: Vec<usize>,
    pub insert: InsertRows,
    pub returning: bool,
    /// The tail makes rows replace those with their primary key (see `upsert.rs`): of equal rows the last one counts.
    pub upsert: bool,
}

/// An INSERT of rows that come from elsewhere: `INSERT INTO t (…) SELECT`, rows, `ON CONFLICT … RETURNING …` or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsertRows {
    pub head: Text,
    pub tail: Text,
}

impl InsertRows {
    /// Of a tree whose source is the mark of child 0's rows.
    pub fn of(tree: &sql::NodeEnum) -> crate::Result<Self> {
        let failed = || Refusal::bare("internal: INSERT could not be taken apart");
        let (head, tail) = Text::of(tree)?.split_at(&crate::Piece::Rows(0)).ok_or_else(failed)?;
        Ok(InsertRows { head, tail })
    }
}

#[derive(Clone, Debug)]
pub struct ReferenceWrite {
    pub relation: Arc<Relation>,
    /// The statement is deterministic: run it on every node. Otherwise `Err` says why not.
    pub everywhere: Result<Text, Refusal>,
    /// INSERT only: run on home, which returns all columns; those rows are copied to the others.
    pub by_rows: Option<Text>,
    pub returning: bool,
    /// What of those rows is returned: a query over child 0.
    pub returned: Option<Text>,
}

impl Plan {
    /// All of it on home.
    pub fn home() -> Self {
        Plan {
            tables: Vec::new(),
            needs_home: true,
            local: false,
            reads_reference: false,
            writes: true,
            splices: None,
            template: true,
            multi: Multi::None,
            evaluate: Vec::new(),
            kind: StatementKind::Select,
            rewritten: None,
            share: None,
            share_rows: None,
        }
    }

    /// The strategy's name where the statement needs several nodes.
    pub fn multi_strategy(&self) -> &'static str {
        match &self.multi {
            Multi::None => "route",
            Multi::Refuse(_) => "refused",
            Multi::Reference(_) => "reference",
            _ => "scatter",
        }
    }

    /// The home node alone is concerned, whatever the values.
    pub fn only_home(&self) -> bool {
        self.tables.is_empty() && matches!(self.multi, Multi::None)
    }

    pub fn node_of(&self, table: usize, shard: i32) -> Option<NodeId> {
        let d = self.tables[table].relation.distribution()?;
        d.group.shards.iter().find(|s| s.number == shard).map(|s| s.node)
    }
}
