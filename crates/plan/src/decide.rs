//! What a statement is: its [`Plan`] is one of seven, decided once, from its tree and what names mean.
//!
//! A query, an insert or a modification of rows is then planned ([`crate::plan`], [`Planned`](crate::Planned)); of COPY and
//! utility statements, what nodes do is decided where they run (`copy_from.rs`, [`crate::ddl::classify`]). How any of them is run is
//! not known here.

use sql::NodeEnum;
use sql::ast::{self, ObjectType};

use crate::admin::{self, AdminCall};
use crate::ddl::{self, Mode};
use crate::kind::Kind;
use crate::router_views::RouterView;
use crate::special::{Special, special};
use crate::{Context, Refusal, Result, backends, by_argument, instead_of, programs};

/// What is done with a statement: one of seven.
#[derive(Debug)]
pub enum Plan<'s> {
    /// SELECT, VALUES and TABLE.
    Query(Does),
    Insert(Does),
    /// UPDATE, DELETE, MERGE, and CALL of a procedure that is distributed by an argument.
    Modify(Does),
    Copy(&'s ast::CopyStmt),
    Utility(Utility<'s>),
    /// A function that routers run themselves; or what is wrong with the call, or with where it stands.
    Admin(Result<AdminCall>),
    Session(Own<'s>),
}

impl Plan<'_> {
    /// Whether it is about rows, and may give some.
    pub fn gives_rows(&self) -> bool {
        matches!(self, Plan::Query(_) | Plan::Insert(_) | Plan::Modify(_) | Plan::Copy(_))
    }
}

/// What a statement about rows does besides.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Does {
    pub special: Special,
    /// It gives rows of distributed tables to a temporary one, whose columns are nobody else's, and may be others next time.
    pub fills_temporary: bool,
}

/// Statements that are the session's own affair.
#[derive(Debug)]
pub enum Own<'s> {
    /// BEGIN, COMMIT, ROLLBACK, SAVEPOINT, PREPARE TRANSACTION and their kin.
    Transaction(&'s ast::TransactionStmt),
    /// SET and RESET.
    Set(&'s ast::VariableSetStmt),
    Show(&'s ast::VariableShowStmt),
    Discard(&'s ast::DiscardStmt),
    /// SET CONSTRAINTS
    Constraints(&'s ast::ConstraintsSetStmt),
    Prepare(&'s ast::PrepareStmt),
    Execute(&'s ast::ExecuteStmt),
    Deallocate(&'s ast::DeallocateStmt),
    Declare(&'s ast::DeclareCursorStmt),
    /// FETCH and MOVE.
    Fetch(&'s ast::FetchStmt),
    Close(&'s ast::ClosePortalStmt),
    Explain(&'s ast::ExplainStmt),
    Listen,
    Unlisten,
    Notify,
    Checkpoint,
    Load,
    /// DO and CALL, and a SELECT that is nothing but the call of a function which no node can run whole.
    Code,
}

/// DDL and what else is neither about rows nor the session's own.
#[derive(Debug)]
pub enum Utility<'s> {
    Refused(Refusal),
    /// LOCK TABLE
    Lock(&'s ast::LockStmt),
    /// It makes something for its session alone.
    Temporary(Temporary),
    /// Outside of a transaction, unless the client is in one: PostgreSQL then says whether that can be.
    Alone,
    /// In a transaction; the catalog stays what it is.
    Uses,
    /// In a transaction that changes the catalog.
    Changes,
}

/// What is made for a session alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporary {
    Relation,
    /// A type, a domain, a function.
    Type,
}

/// A statement's plan, with what else its tree says at once.
#[derive(Debug)]
pub struct Decided<'s> {
    pub plan: Plan<'s>,
    pub kind: Kind,
    /// What it reads of what the router writes into it.
    pub reads: Reads,
}

/// What a statement reads that no node knows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub views: Vec<RouterView>,
    /// It speaks of backends as clients know them (see `backends.rs`).
    pub backends: bool,
}

impl<'s> Decided<'s> {
    /// `cx` has the types of the statement's parameters, if they are known.
    pub fn of(statement: &'s NodeEnum, cx: &Context) -> Self {
        let (kind, plan) = (Kind::of(statement), Plan::of(statement, cx));
        let reads = if plan.may_read(statement) { Reads::of(statement, cx) } else { Reads::default() };
        Decided { plan, kind, reads }
    }

    /// It is about rows and nothing else: planned once, for every execution of its text.
    pub fn lasts(&self) -> bool {
        self.reads == Reads::default() && self.plan.rows().is_some_and(|does| *does == Does::default())
    }
}

impl Reads {
    fn of(statement: &NodeEnum, cx: &Context) -> Self {
        Reads { views: RouterView::read_by(statement, cx), backends: backends::are_named(statement) }
    }
}

impl<'s> Plan<'s> {
    /// The one place that tells statements apart.
    fn of(statement: &'s NodeEnum, cx: &Context) -> Self {
        use NodeEnum::*;
        let does =
            || Does { special: special(statement, cx), fills_temporary: cx.takes_distributed(statement).is_some() };
        // A query is part of it.
        let around = |plan| match admin::called_inside(statement, cx) {
            Some(refusal) => Plan::Admin(Err(refusal)),
            None => plan,
        };
        match statement {
            SelectStmt(s) => match admin::recognise(s, cx) {
                Some(call) => Plan::Admin(call),
                None if programs::is_run(statement, cx) => Plan::Session(Own::Code),
                None if s.into_clause.is_some() => around(Plan::Utility(Utility::of(statement))),
                None => Plan::Query(does()).of_rows(),
            },
            InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_)
                if programs::is_run(statement, cx) || instead_of::written(statement, cx).is_some() =>
            {
                Plan::Session(Own::Code)
            }
            InsertStmt(_) => Plan::Insert(does()).of_rows(),
            UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) => Plan::Modify(does()).of_rows(),
            CopyStmt(c) => around(Plan::Copy(c)),
            CreateTableAsStmt(_) => around(Plan::Utility(Utility::of(statement))),

            TransactionStmt(t) => Plan::Session(Own::Transaction(t)),
            VariableSetStmt(s) => Plan::Session(Own::Set(s)),
            VariableShowStmt(s) => Plan::Session(Own::Show(s)),
            DiscardStmt(d) => Plan::Session(Own::Discard(d)),
            ConstraintsSetStmt(s) => Plan::Session(Own::Constraints(s)),
            PrepareStmt(p) => Plan::Session(Own::Prepare(p)),
            ExecuteStmt(e) => Plan::Session(Own::Execute(e)),
            DeallocateStmt(d) => Plan::Session(Own::Deallocate(d)),
            DeclareCursorStmt(d) => around(Plan::Session(Own::Declare(d))),
            FetchStmt(f) => Plan::Session(Own::Fetch(f)),
            ClosePortalStmt(c) => Plan::Session(Own::Close(c)),
            ExplainStmt(e) => around(Plan::Session(Own::Explain(e))),
            ListenStmt(_) => Plan::Session(Own::Listen),
            UnlistenStmt(_) => Plan::Session(Own::Unlisten),
            NotifyStmt(_) => Plan::Session(Own::Notify),
            CheckPointStmt(_) => Plan::Session(Own::Checkpoint),
            LoadStmt(_) => Plan::Session(Own::Load),
            CallStmt(_) if by_argument::calls(statement, cx) => Plan::Modify(does()).of_rows(),
            DoStmt(_) | CallStmt(_) => Plan::Session(Own::Code),

            _ => Plan::Utility(Utility::of(statement)),
        }
    }

    /// A statement about rows calls none of the functions that routers run.
    fn of_rows(self) -> Self {
        match self.rows().and_then(|does| does.special.calls_admin.as_deref()) {
            Some(function) => Plan::Admin(Err(admin::not_alone(function))),
            None => self,
        }
    }

    /// Of a statement about rows: what it does besides.
    pub fn rows(&self) -> Option<&Does> {
        match self {
            Plan::Query(does) | Plan::Insert(does) | Plan::Modify(does) => Some(does),
            Plan::Copy(_) | Plan::Utility(_) | Plan::Admin(_) | Plan::Session(_) => None,
        }
    }

    /// It runs a query now, or keeps one as a view's.
    fn may_read(&self, statement: &NodeEnum) -> bool {
        match self {
            Plan::Query(_) | Plan::Insert(_) | Plan::Modify(_) | Plan::Copy(_) => true,
            Plan::Admin(_) => false,
            Plan::Session(own) => matches!(own, Own::Explain(_) | Own::Declare(_)),
            Plan::Utility(_) => {
                use NodeEnum::{CreateTableAsStmt, SelectStmt, ViewStmt};
                matches!(statement, CreateTableAsStmt(_) | SelectStmt(_) | ViewStmt(_))
            }
        }
    }
}

impl<'s> Utility<'s> {
    fn of(statement: &'s NodeEnum) -> Self {
        use NodeEnum::{
            AlterDatabaseRefreshCollStmt, AlterDatabaseStmt, CreatedbStmt, DropdbStmt, LockStmt as LockTable,
        };
        match statement {
            LockTable(lock) => return Utility::Lock(lock),
            CreatedbStmt(_) | DropdbStmt(_) | AlterDatabaseStmt(_) | AlterDatabaseRefreshCollStmt(_) => {
                return Utility::Refused(one_database());
            }
            _ => {}
        }
        if ddl::made_temporary(statement).is_some() {
            return Utility::Temporary(Temporary::Relation);
        }
        if ddl::makes_temporary_type(statement) || ddl::makes_temporary_function(statement) {
            return Utility::Temporary(Temporary::Type);
        }
        match Mode::of(statement) {
            Mode::Plain => Utility::Alone,
            Mode::Uses => Utility::Uses,
            Mode::Changes | Mode::NotDdl => Utility::Changes,
        }
    }
}

/// Statements around a query, which nodes are not sent as they are: values stand in them in place of parameters.
pub fn wraps_query(statement: &NodeEnum) -> bool {
    match statement {
        NodeEnum::ExplainStmt(_) => true,
        NodeEnum::CreateTableAsStmt(_) => !keeps_query(statement),
        _ => false,
    }
}

/// Statements that keep a query, and run it later or never.
pub fn keeps_query(statement: &NodeEnum) -> bool {
    match statement {
        NodeEnum::CreateTableAsStmt(s) => s.objtype == ObjectType::ObjectMatview as i32,
        NodeEnum::ViewStmt(_) => true,
        _ => false,
    }
}

fn one_database() -> Refusal {
    Refusal::new(
        "a herd serves one database: CREATE, DROP and ALTER DATABASE are not supported through the router",
        "Make the database on every node directly, and run a herd of its own (`herd router`) for it.",
    )
}
