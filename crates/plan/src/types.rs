//! What is planned of a query, an insert or a modification of rows. Plans hold texts and key expressions, never values: one plan serves every execution of a template.
//! What several nodes do for a query is in `tree.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{Oid, Relation, TemporaryRelation};

use crate::broadcast::{ChangeFrom, Made};
use crate::in_turn::InTurn;
use crate::refuse::Refusal;
use crate::share::Share;
use crate::table_keys::{ParameterRange, TableKeys};
use crate::text::Text;
use crate::tree::{Finish, Part, To};

/// Where a key value comes from at execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyExpr {
    /// A literal of the statement, at its byte offset, or of a view; `text` is its value in this very statement.
    Literal {
        location: Option<usize>,
        text: String,
        kind: LiteralKind,
        /// The type a cast gives it, by its object id: the text is a value of that type, whatever the key's.
        cast: Option<Oid>,
    },
    /// `$n`, from 1.
    Param(usize),
    /// `$n::type`, by its object id: what the parameter is declared to be may be another type.
    CastParam(usize, u32),
    /// `= ANY($n)`: every element of an array parameter.
    ParamArray(usize),
    /// `= ANY($n::type[])`, by the element's object id.
    CastParamArray(usize, u32),
    Null,
    /// The n-th value evaluated beforehand (see [`Evaluation`]).
    Evaluated(usize),
}

/// How a literal is written: by that PostgreSQL gives it a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralKind {
    /// A number; `text` has its sign.
    Number,
    String,
}

/// Where a partition's name is put in place of its table's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// Byte range of the table's name in the statement.
    pub start: usize,
    pub end: usize,
    /// Index into [`Whole::tables`].
    pub table: usize,
    /// The alias to add, quoted, so that the rest of the statement still finds the table by its name.
    pub alias: Option<String>,
}

/// What is done with a statement about rows. Where it goes may depend on its values: if one node has all of it, that node gets it
/// whole; the rest of a plan is for when none has.
#[derive(Clone, Debug)]
pub enum Planned {
    /// One node has all of it, whatever its values: home, or any one where only reference tables are read.
    Forward(Whole),
    /// A SELECT of distributed tables; the tree says what several nodes do.
    Query {
        whole: Whole,
        tree: Result<Finish, Refusal>,
    },
    Insert {
        whole: Whole,
        rows: Insert,
        share: Option<Box<ShareRows>>,
    },
    Modify {
        whole: Whole,
        verb: Verb,
        change: Change,
    },
    /// Data-modifying WITH: statements one after the other (see `in_turn.rs`).
    InTurn {
        whole: Whole,
        turns: Result<Box<InTurn>, Refusal>,
        /// No node can do all of it, whatever its values.
        split: bool,
    },
}

/// The statement as it is: the Part of a node that has all of it.
#[derive(Clone, Debug)]
pub struct Whole {
    /// Every use of a distributed table, with what is known of its key.
    pub tables: Vec<TableKeys>,
    /// The local and reference tables it names, by home's object ids: it waits while one of them becomes another.
    pub others: Vec<Oid>,
    /// Something in it is only on home: local tables, system catalogs, sequences.
    pub needs_home: bool,
    /// It names local tables, or calls users' own functions.
    pub local: bool,
    /// Rules may make it answer with rows of their own, which PostgreSQL sends by the simple protocol only.
    pub rules: bool,
    /// It reads reference tables (any node will do).
    pub reads_reference: bool,
    /// It may change data (so it can't be retried, and its node takes part in the commit).
    pub writes: bool,
    /// What `writes` stands for.
    pub effect: Effect,
    /// Name partitions instead of parents when all of it is on one shard. `None`: the parent must be named.
    pub splices: Option<Vec<Splice>>,
    /// What it may do with values of sequences where it runs as it is.
    pub sequences: Sequences,
    /// The plan does not depend on the values of literals other than those in `tables`.
    pub template: bool,
    /// It calls `current_setting`: a statement of its template that names the client's encoding has another plan.
    pub reads_setting: bool,
    /// It names parameters: whoever gives none gets PostgreSQL's error.
    pub names_parameters: bool,
    /// The statement to run in place of the client's text, where a node would read that differently.
    pub rewritten: Option<String>,
    /// What nobody reads was taken out of it: home is to understand the statement as it was written.
    pub unread: bool,
    /// What no node is told of, and PostgreSQL asks for the right to (see `unread.rs`).
    pub planned: Vec<Arc<Relation>>,
    /// The statement for one node on which it names no partitions, where that is not the text itself (see `lists.rs`).
    pub by_parent: Option<String>,
    /// It may travel with other clients' statements (see `share.rs`).
    pub share: Option<Share>,
    /// A read that leaves nothing in its transaction and asks nothing of it (see `plain.rs`).
    pub plain: bool,
    /// The parameters between which it reads keys (see `narrow.rs`).
    pub narrow: Option<ParameterRange>,
    /// Standbys of its nodes answer it, too (see `standby.rs`).
    pub by_standby: bool,
    /// Views whose tables several nodes read with the rights of who asks (see `views.rs`).
    pub apart_views: Vec<String>,
    /// It writes to a view by rules (see `rules.rs`): only home has them, and is asked before whether it understands the statement
    /// as it was written, and whether who asks may run it.
    pub by_rule: Option<ByRule>,
    /// It reads the clock (see `moment.rs`).
    pub clock: Option<Box<Clock>>,
    /// It changes the row that the cursor of this name stands on: it goes where that is.
    pub current_of: Option<Box<str>>,
    /// What a store is asked in its place, where it reads reference tables alone, of which any node has all.
    pub by_store: Option<Box<Finish>>,
}

/// A view with rules that a statement writes to.
#[derive(Clone, Debug)]
pub struct ByRule {
    pub view: String,
    pub oid: catalog::Oid,
    /// Why it is nothing that can be planned: home must have an error.
    pub wrong: bool,
}

/// What has to be known to give a statement its transaction's time.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Its target, if columns of that have defaults that read the clock.
    pub relation: Option<Arc<Relation>>,
    /// What its names mean, for whoever plans it again.
    pub search_path: Vec<String>,
    pub temporary: Vec<TemporaryRelation>,
}

/// What a statement that does more than read may leave in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Writes,
    /// Functions may write, lock or notify: the node knows.
    MayWrite,
    /// Locks of rows.
    Locks,
}

impl Whole {
    /// What one node is asked by the tables' own names, where that is not the client's text.
    pub fn own_text(&self) -> Option<&str> {
        self.by_parent.as_deref().or(self.rewritten.as_deref())
    }
}

/// What a statement may do with a session's values of sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sequences {
    #[default]
    None,
    /// currval, lastval
    Read,
    /// Defaults of columns take values from these, by their object ids; nothing else does.
    Take(Arc<[catalog::Oid]>),
    /// nextval, setval, or code that may call them.
    Any,
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

/// An expression evaluated once on home before the statement (see [`crate::Piece::Evaluated`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    pub expression: Text,
    /// The column it is for (index into the relation's columns).
    pub column: usize,
}

/// What an INSERT writes, and how it gets there.
#[derive(Clone, Debug)]
pub enum Insert {
    /// One row whose key is in the statement: it goes as it is.
    Row,
    /// `VALUES` whose rows go to their shards.
    Rows(SplitInsert),
    /// `SELECT` whose rows stay where they are: the statement on every node concerned.
    Each { relation: Arc<Relation>, part: Part },
    /// `SELECT` whose rows pass through the router.
    Select(Box<InsertSelect>),
    /// Into every copy of a reference table.
    Copies(ReferenceWrite),
}

/// What an UPDATE, DELETE or MERGE does when more than one node is concerned.
#[derive(Clone, Debug)]
pub enum Change {
    Refused(Refusal),
    /// The same statement on every node concerned; counts are added up, RETURNING rows concatenated.
    Each(Part),
    /// An UPDATE that may change keys: rows are deleted where they are and inserted where they belong.
    Move(Box<MoveRows>),
    /// One whose rows can't be moved: it is made if they stay where they are.
    Stay(Box<InPlace>),
    /// The same over rows that are read beforehand.
    From(Box<ChangeFrom>),
    /// Every copy of a reference table.
    Copies(ReferenceWrite),
}

/// The command whose tag counts the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Update,
    Delete,
    Merge,
}

/// How a plan is called where it is counted and explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Route,
    Scatter,
    Reference,
    Refused,
}

/// An UPDATE that sets keys, and fails if it would change one (see `move_rows/stays.rs`).
#[derive(Clone, Debug)]
pub struct InPlace {
    pub part: Part,
    /// What that failure means.
    pub otherwise: Refusal,
}

/// See `move_rows.rs`.
#[derive(Clone, Debug)]
pub struct MoveRows {
    /// `DELETE … RETURNING` the new rows' `columns`, and what goes with them.
    pub delete: Part,
    /// Rows with their new keys.
    pub insert: InsertRows,
    /// The client gets what the INSERT gives back.
    pub returning: bool,
    /// A query of what goes with the new rows, behind their columns, if anything does.
    pub beside: Option<Text>,
    /// Of a table with row-level security: new rows must be visible to the UPDATE, as they must to the INSERT.
    pub is_visible: bool,
    /// The UPDATE where it is found that rows can't be moved, as in [`InPlace`].
    pub in_place: Option<Part>,
    pub relation: Arc<Relation>,
    pub columns: Vec<usize>,
    /// What the UPDATE sets.
    pub set: Vec<usize>,
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
    /// What PostgreSQL must evaluate once, before (volatile functions, sequences).
    pub evaluate: Vec<Evaluation>,
    pub returning: bool,
}

/// `INSERT … SELECT` whose rows pass through the router.
#[derive(Clone, Debug)]
pub struct InsertSelect {
    pub relation: Arc<Relation>,
    pub source: Planned,
    pub source_sql: String,
    /// Sequences the source may take values from (see [`crate::sequences::taken`]).
    pub source_takes: Option<Vec<String>>,
    /// It locks rows, to the end of the transaction.
    pub source_locks: bool,
    /// What the target may do with sequences, beside what its source does.
    pub target_uses: Sequences,
    /// What the source's names mean, for whoever plans it again with casts around it.
    pub search_path: Vec<String>,
    pub temporary: Vec<TemporaryRelation>,
    /// The source names something temporary, which is on the session's own connection.
    pub reads_temporary: bool,
    /// Where its rows go.
    pub to: To,
    /// Target columns (index into the relation's columns), in the order the source gives them.
    pub columns: Vec<usize>,
    /// Those of which the source gives a part: where among them, and an expression of the part's type.
    pub parts: Vec<(usize, String)>,
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
    /// The list of columns by itself, as the head has it.
    pub columns: Text,
}

impl InsertRows {
    /// Of a tree whose source is the mark of child 0's rows.
    pub fn of(tree: &sql::NodeEnum) -> crate::Result<Self> {
        let failed = || Refusal::bare("internal: INSERT could not be taken apart");
        let (head, tail) = Text::of(tree)?.split_at(&crate::Piece::Rows(0)).ok_or_else(failed)?;
        let columns = match tree {
            sql::NodeEnum::InsertStmt(insert) => crate::insert::parts::written(&insert.cols)?,
            _ => Text::default(),
        };
        Ok(InsertRows { head, tail, columns })
    }
}

/// A change of a reference table: the same on all copies, or computed once.
#[derive(Clone, Debug)]
pub struct ReferenceWrite {
    pub relation: Arc<Relation>,
    /// The statement is deterministic: run it on every node. Otherwise `Err` says why not: its values are computed once,
    /// by one of the ways below, or not at all.
    pub everywhere: Result<Text, Refusal>,
    /// It reads other rows than those it changes: computed once where there are other nodes and a way to do so.
    pub reads_others: bool,
    /// Which rows it changes depends on what others commit in that moment: where nobody sees whether the copies chose the same ones,
    /// other writers are stopped.
    pub chooses: bool,
    /// Parameters that are read as moments whatever their type: one that names a moment is read once, or not at all.
    pub moments: BTreeSet<usize>,
    /// Made on home, whose rows the others take over by a key.
    pub by_key: Option<Box<ByKey>>,
    /// INSERT only: run on home, which returns all columns; those rows are copied to the others.
    pub by_rows: Option<Text>,
    /// The same rows for who may not read the table: read as a query of their own, they go to all nodes.
    pub unread: Option<Box<InsertSelect>>,
    /// What of those rows is returned: a query over child 0.
    pub returned: Option<Text>,
    /// Made on every node, which all return what they have written.
    pub compared: Option<Box<Compared>>,
    /// Tables that foreign keys' actions may come to, whose triggers may make other rows on each node: compared afterwards.
    pub tied: Vec<Arc<Relation>>,
}

/// A change of a reference table whose rows are compared (see `compared.rs`).
#[derive(Clone, Debug)]
pub struct Compared {
    /// The statement: it returns, behind what the client wants returned, all columns.
    pub text: Text,
    /// Triggers that read tables decide what is written: it must not go unseen.
    pub by_triggers: bool,
}

/// A change of a reference table made on home, which the other copies take over (see `by_key.rs`).
#[derive(Clone, Debug)]
pub struct ByKey {
    /// The statement: it returns, behind what the client wants returned, what the copies need of each row it writes.
    pub on_home: Text,
    /// The types of what they need, one a column.
    pub types: Vec<String>,
    /// The same change of such rows, which are child 0.
    pub on_copies: Text,
}

impl Planned {
    /// Forwarded to home, whatever it is.
    pub fn home(writes: bool) -> Self {
        Planned::Forward(Whole::on_home(writes))
    }

    /// The statement as one node would run it, whatever the plan.
    pub fn whole(&self) -> &Whole {
        let (Planned::Forward(whole)
        | Planned::Query { whole, .. }
        | Planned::Insert { whole, .. }
        | Planned::Modify { whole, .. }
        | Planned::InTurn { whole, .. }) = self;
        whole
    }

    pub(crate) fn whole_mut(&mut self) -> &mut Whole {
        let (Planned::Forward(whole)
        | Planned::Query { whole, .. }
        | Planned::Insert { whole, .. }
        | Planned::Modify { whole, .. }
        | Planned::InTurn { whole, .. }) = self;
        whole
    }

    /// It goes as it is, whatever its values.
    pub fn is_whole(&self) -> bool {
        matches!(self, Planned::Forward(_) | Planned::Insert { rows: Insert::Row, .. })
    }

    /// The table whose rows it writes somewhere else than where it reads.
    pub fn written(&self) -> Option<&Arc<Relation>> {
        match self {
            Planned::Insert { rows: Insert::Rows(i), .. } => Some(&i.relation),
            Planned::Insert { rows: Insert::Select(i), .. } => Some(&i.relation),
            Planned::Insert { rows: Insert::Copies(w), .. } | Planned::Modify { change: Change::Copies(w), .. } => {
                Some(&w.relation)
            }
            Planned::Modify { change: Change::From(from), .. } => match &from.made {
                Made::Copies(copies) => Some(&copies.relation),
                Made::Each(_) | Made::Move(_) | Made::Stay(_) | Made::InTwo(_) => None,
            },
            Planned::Forward(_)
            | Planned::Query { .. }
            | Planned::Insert { .. }
            | Planned::Modify { .. }
            | Planned::InTurn { .. } => None,
        }
    }

    /// How its rows may travel with those of other clients (see `share_rows.rs`).
    pub fn share_rows(&self) -> Option<&ShareRows> {
        match self {
            Planned::Insert { share, .. } => share.as_deref(),
            Planned::Forward(_) | Planned::Query { .. } | Planned::Modify { .. } | Planned::InTurn { .. } => None,
        }
    }

    /// The plan of a query whose rows another statement gets: one statement.
    pub fn as_source(self) -> crate::Result<Planned> {
        match self {
            Planned::InTurn { turns, .. } => Err(turns.err().unwrap_or_else(Refusal::not_moved)),
            one => Ok(one),
        }
    }

    /// Why several nodes can't do it.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Planned::Query { tree: Err(refusal), .. }
            | Planned::Modify { change: Change::Refused(refusal), .. }
            | Planned::InTurn { turns: Err(refusal), .. } => Some(refusal),
            Planned::Forward(_)
            | Planned::Query { .. }
            | Planned::Insert { .. }
            | Planned::Modify { .. }
            | Planned::InTurn { .. } => None,
        }
    }

    /// What is done where one node does not have all of it.
    pub fn strategy(&self) -> Strategy {
        match self {
            Planned::Forward(_) | Planned::Insert { rows: Insert::Row, .. } => Strategy::Route,
            Planned::Query { tree: Err(_), .. }
            | Planned::Modify { change: Change::Refused(_), .. }
            | Planned::InTurn { turns: Err(_), .. } => Strategy::Refused,
            Planned::Insert { rows: Insert::Copies(_), .. } | Planned::Modify { change: Change::Copies(_), .. } => {
                Strategy::Reference
            }
            Planned::Modify { change: Change::From(from), .. } if matches!(from.made, Made::Copies(_)) => {
                Strategy::Reference
            }
            Planned::Query { .. } | Planned::Insert { .. } | Planned::Modify { .. } | Planned::InTurn { .. } => {
                Strategy::Scatter
            }
        }
    }
}

impl Whole {
    /// All of it on home.
    pub fn on_home(writes: bool) -> Self {
        Whole {
            tables: Vec::new(),
            others: Vec::new(),
            needs_home: true,
            local: false,
            rules: false,
            reads_reference: false,
            writes,
            effect: Effect::Writes,
            sequences: Sequences::Any,
            splices: None,
            template: true,
            names_parameters: false,
            reads_setting: false,
            rewritten: None,
            unread: false,
            planned: vec![],
            by_parent: None,
            share: None,
            plain: false,
            narrow: None,
            by_standby: false,
            apart_views: vec![],
            by_rule: None,
            clock: None,
            current_of: None,
            by_store: None,
        }
    }
}

impl Verb {
    /// As command tags have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Update => "UPDATE",
            Verb::Delete => "DELETE",
            Verb::Merge => "MERGE",
        }
    }
}

impl Strategy {
    /// As EXPLAIN names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Strategy::Route => "route",
            Strategy::Scatter => "scatter",
            Strategy::Reference => "reference",
            Strategy::Refused => "refused",
        }
    }
}
