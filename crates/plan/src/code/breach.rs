//! How code breaks the rule, as a value: two catalogs are compared by it, and the client reads it as a refusal. It does not
//! know how that is found out.

use catalog::{Oid, Relation, RelationKind};

use super::PlacementKind;
use crate::refuse::Refusal;

/// Some code, named as clients know it, and what it does that it must not.
pub(super) struct Breach {
    pub subject: String,
    pub how: How,
    /// The relation that it must not use, if it is that.
    pub relation: Option<Oid>,
    /// Of a trigger that may use rows of its row's key: what it does besides, in words that follow its function's name.
    pub why: Option<String>,
}

/// What code does that it must not where it runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum How {
    /// It uses a relation of which its node has a part, a copy or nothing.
    Uses {
        writes: bool,
        kind: PlacementKind,
        is_sequence: bool,
        name: String,
    },
    TakesSequenceValues,
    Notifies,
    /// It puts statements together.
    RunsText,
    ChangesCatalog,
    /// By what is named, it could do another thing on each node.
    Varies(String),
    TransitionTables,
    /// By this name a trigger asks which table it is on.
    AsksTable(String),
    /// It names `tableoid` of a table of this kind.
    AsksTableoid(PlacementKind),
    /// A foreign key sets the column to its default, which nodes of such a table can't compute.
    SetsDefault {
        column: String,
        kind: PlacementKind,
    },
}

const APART: &str =
    "Do that work in the application's transaction: statements sent through the router reach all nodes.";
const SHARED: &str = "Make it a reference table with create_reference_table() if it is only read; or do that work in the application's transaction.";

impl Breach {
    /// One that is not the use of a relation.
    pub fn new(subject: &str, how: How) -> Self {
        Breach { subject: subject.to_string(), how, relation: None, why: None }
    }

    /// The use of a relation; `kind`: where that is taken to be, whatever the snapshot says.
    pub fn uses(subject: &str, relation: &Relation, kind: PlacementKind, writes: bool) -> Self {
        let is_sequence = relation.kind == RelationKind::Sequence;
        let how = How::Uses { writes, kind, is_sequence, name: relation.name.clone() };
        Breach { relation: Some(relation.oid), ..Breach::new(subject, how) }
    }

    /// What makes it the same breach in another catalog, where what it names may have been made anew.
    pub fn key(&self) -> (&str, &How) {
        (&self.subject, &self.how)
    }

    /// As the client reads it, with what to do instead.
    pub fn refusal(&self) -> Refusal {
        let (what, hint) = self.how.told();
        let hint = match (&self.why, &self.how) {
            (Some(why), How::Uses { kind: PlacementKind::Distributed, .. }) => {
                format!(
                    "A trigger may use rows of its row's own key, in colocated tables; but its function {why}. {hint}"
                )
            }
            _ => hint.into(),
        };
        Refusal::new(format!("{} {what}", self.subject), hint)
    }
}

impl How {
    /// The words behind the subject, and what to do instead.
    fn told(&self) -> (String, &'static str) {
        match self {
            How::Uses { writes, kind, is_sequence, name } => {
                let (why, hint) = match (writes, kind) {
                    (true, PlacementKind::Reference) => ("one copy would differ from the others", APART),
                    (true, PlacementKind::Distributed) => ("it would reach only the rows that are on its node", APART),
                    (false, PlacementKind::Distributed) => ("it would see only the rows that are on its node", APART),
                    (true, PlacementKind::Local) => ("only home has it", APART),
                    (false, _) => ("only home has it", SHARED),
                };
                let verb = if *writes { "writes" } else { "reads" };
                let what = if *is_sequence { "sequence" } else { "table" };
                (format!("{verb} {} {what} \"{name}\": {why}", kind.word()), hint)
            }
            How::TakesSequenceValues => (
                "takes values from a sequence: only home has them".into(),
                "Let a column's DEFAULT take them: the router asks home for those.",
            ),
            How::Notifies => (
                "notifies listeners: on other nodes than home nobody listens".into(),
                "Send NOTIFY, or call pg_notify(), through the router, in the transaction that writes.",
            ),
            How::RunsText => (
                "runs statements that it puts together: what they name can't be known to be on its node".into(),
                "Write the statements out in place of EXECUTE.",
            ),
            How::ChangesCatalog => (
                "runs statements that change the catalog: only the node where it runs would have what they make".into(),
                "Send those statements through the router by themselves: they reach all nodes.",
            ),
            How::Varies(by) => (
                format!("uses {by}, which could differ from node to node"),
                "Set the value in the statement, or by the column's DEFAULT, which is evaluated once.",
            ),
            How::TransitionTables => (
                "has transition tables: they would hold the rows of one node, not the statement's".into(),
                "Use a trigger FOR EACH ROW, or do that work in the application's transaction.",
            ),
            How::AsksTable(name) => (
                format!(
                    "asks for {}: for rows that is a partition of the table, with a name of its own",
                    name.to_uppercase()
                ),
                "Give the table's name to the trigger as an argument: EXECUTE FUNCTION f('name'), and read TG_ARGV[0].",
            ),
            How::AsksTableoid(kind) => {
                let why = match kind {
                    PlacementKind::Distributed => "that of a row is its shard's, and not the table's",
                    _ => "each node has another one for the table",
                };
                (format!("names tableoid: {why}"), "Write the table's name, or a constant, in its place.")
            }
            How::SetsDefault { column, kind } => {
                let why = match kind {
                    PlacementKind::Distributed => "comes from a sequence: only home has its values",
                    _ => "could differ from node to node",
                };
                (
                    format!("sets \"{column}\" to its default, which {why}"),
                    "Let the key SET NULL, or give the column a constant as its default.",
                )
            }
        }
    }
}
