//! What kind of statement a tree is, told once: how it stands to transactions and the catalog, whether PostgreSQL looks at it
//! before it runs, and what it may leave behind. By its tree alone: what it does (`decide.rs`), and who runs it, is not known here.

use sql::NodeEnum;
use sql::ast::TransactionStmtKind;

use crate::ddl::Mode;

/// What the session asks of a statement's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub mode: Mode,
    /// It has a plan, if nothing in it is the session's own affair.
    pub planned: bool,
    /// PostgreSQL looks at its meaning when it is told of it (analyze.c, `transformStmt`), and describes it: what is wrong with it
    /// is said then, before anybody binds parameters.
    pub analyzed: bool,
    pub joins: Joins,
    /// What it holds that runs when it runs.
    pub holds: Holds,
    /// Who looks for what it leaves in the session.
    pub leaves: FoundBy,
    /// It is neither planned nor a change of the schema, nor COPY.
    pub sessions_own: bool,
    /// It may run what it does not name: an event trigger, the code of a table's owner.
    pub changes: bool,
}

/// Whether it is part of a block that nobody has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    Always,
    /// Of that of a string of statements, not of a pipeline's.
    String,
    /// It begins or ends blocks itself.
    Never,
}

/// What a statement holds besides names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Nothing,
    /// A query, or all that stands on a table.
    Query,
    /// Expressions.
    Expressions,
}

/// Who looks for what a statement leaves in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// It does so itself, or there is nothing.
    Itself,
    /// What its cursor's query leaves was announced when that was declared.
    Cursor,
    /// Whoever runs it.
    Asked,
}

impl Kind {
    /// A change of the schema, and whatever else is not named here.
    const OTHER: Kind = Kind {
        mode: Mode::Changes,
        planned: false,
        analyzed: false,
        joins: Joins::Always,
        holds: Holds::Expressions,
        leaves: FoundBy::Asked,
        sessions_own: false,
        changes: true,
    };
    /// A statement of the session's own.
    const OWN: Kind = Kind {
        mode: Mode::NotDdl,
        holds: Holds::Nothing,
        leaves: FoundBy::Itself,
        sessions_own: true,
        changes: false,
        ..Kind::OTHER
    };
    /// The same; it stays out of a pipeline's block.
    const APART: Kind = Kind { joins: Joins::String, ..Kind::OWN };
    const PLANNED: Kind = Kind { planned: true, analyzed: true, sessions_own: false, ..Kind::OWN };

    /// By the tree alone: nothing is looked up.
    pub fn of(statement: &NodeEnum) -> Kind {
        use NodeEnum::*;
        let mode = Mode::of(statement);
        let other = Kind { mode, ..Kind::OTHER };
        match statement {
            SelectStmt(s) if s.into_clause.is_some() => Kind { analyzed: true, holds: Holds::Query, ..other },
            SelectStmt(_) | InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) => Kind::PLANNED,

            TransactionStmt(t) => Kind { joins: joins(t.kind), ..Kind::OWN },
            // What holds in a transaction alone begins none.
            VariableSetStmt(s) if !s.is_local && !s.name.to_ascii_uppercase().starts_with("TRANSACTION") => Kind::OWN,
            VariableSetStmt(_) | VariableShowStmt(_) | DiscardStmt(_) | PrepareStmt(_) | DeallocateStmt(_) => {
                Kind::APART
            }
            // What it runs is counted by itself.
            ExecuteStmt(_) => Kind { sessions_own: false, ..Kind::OWN },
            ListenStmt(_) | UnlistenStmt(_) | NotifyStmt(_) | CheckPointStmt(_) | LoadStmt(_) | DoStmt(_) => Kind::OWN,
            CallStmt(_) => Kind { analyzed: true, ..Kind::OWN },
            // A constraint that waits runs code of its own.
            ConstraintsSetStmt(_) => Kind { leaves: FoundBy::Asked, ..Kind::OWN },
            ExplainStmt(_) | DeclareCursorStmt(_) => {
                Kind { analyzed: true, holds: Holds::Query, leaves: FoundBy::Asked, ..Kind::OWN }
            }
            FetchStmt(_) | ClosePortalStmt(_) => Kind { leaves: FoundBy::Cursor, ..Kind::OWN },
            CopyStmt(_) => Kind { holds: Holds::Query, leaves: FoundBy::Asked, sessions_own: false, ..Kind::OWN },

            LockStmt(_) => Kind { leaves: FoundBy::Itself, changes: false, ..other },
            CreateTableAsStmt(_) => Kind { analyzed: true, holds: Holds::Query, ..other },
            TruncateStmt(_) => Kind { holds: Holds::Query, ..other },
            // Most of these PostgreSQL refuses in blocks; it says so itself where there is one.
            VacuumStmt(_) => Kind { joins: Joins::String, ..other },
            _ if mode == Mode::Plain => Kind { joins: Joins::String, ..other },
            // Bodies run later, and are judged by themselves.
            ViewStmt(_) | RuleStmt(_) | CreateDomainStmt(_) | CreateTrigStmt(_) | CreateFunctionStmt(_) => {
                Kind { holds: Holds::Nothing, ..other }
            }
            _ => other,
        }
    }
}

fn joins(kind: i32) -> Joins {
    use TransactionStmtKind::*;
    match TransactionStmtKind::try_from(kind) {
        Ok(TransStmtSavepoint | TransStmtRelease | TransStmtPrepare) => Joins::String,
        Ok(
            TransStmtBegin
            | TransStmtStart
            | TransStmtCommit
            | TransStmtRollback
            | TransStmtRollbackTo
            | TransStmtCommitPrepared
            | TransStmtRollbackPrepared
            | Undefined,
        )
        | Err(_) => Joins::Never,
    }
}
