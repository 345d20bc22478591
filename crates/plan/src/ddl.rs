//! Utility statements over a herd: what each node runs, decided from tree, snapshot and a few facts of home alone.
//!
//! 1. [`Mode`]: may it run in a transaction, does it change the catalog?
//! 2. [`facts`]: what home must be asked first (which table an index is on, whether the snapshot is stale)
//! 3. [`classify`]: one file for each sort of statement
//! 4. [`locks`], [`renewed`]: what is locked before it runs, and whose statements are planned anew behind it
//!
//! What only home has (local tables and what hangs on them) stays on home, in the client's own words. What the tables of the
//! herd need (schemas, types, functions, roles…) is on every node. It does not know how the steps are run.

mod alter;
mod attached;
mod code;
mod column;
mod concurrently;
mod constraint;
mod create;
mod drop;
pub mod facts;
mod grant;
mod in_use;
mod index;
mod inert;
mod list;
mod lock;
mod materialized;
mod mode;
mod object;
mod partition;
pub mod place;
mod rename;
mod renew;
mod rest;
mod role;
mod schema;
mod sequence;
mod steps;
mod temporary_code;

pub use alter::subtype;
pub use create::{TablesRead, reads_of_query};
pub use facts::Facts;
pub use in_use::{NotInUse, used};
pub use inert::inert;
pub use lock::{LockMode, Right, TableLocks, locks, reaches_others, read_by, with_partitions};
pub use materialized::Materialized;
pub use mode::{
    Mode, changes_catalog, checks_rows, command, in_pg_temp, is_temporary, keeps_rows, made_temporary,
    makes_temporary_function, makes_temporary_type, temporary_type,
};
pub use partition::Partition;
pub use place::is_on_nodes;
pub(crate) use place::object_type;
pub use renew::{Renewed, renewed};
pub use rest::loses_partitions;
pub use role::{tells_password, with_verifier};
pub use steps::{Check, NodeSteps, Rights, Spread, Step};
pub use temporary_code::uses_temporary_code;

use crate::Refusal;
use catalog::Snapshot;
use sql::NodeEnum;
use sql::ast;

use place::Cx;

/// How a utility statement runs.
#[derive(Clone, Debug)]
pub enum Ddl {
    /// Not of this kind: the session or the planner knows what to do.
    NotDdl,
    /// Everything it is about is on home: the client's own text there.
    Home,
    /// In one transaction over the nodes.
    Nodes(Box<Spread>),
    /// On each node by itself: PostgreSQL does not run it in a transaction block.
    Autocommit(Box<Spread>),
    /// `CREATE TABLE … AS` over distributed tables: the empty table on home, then its rows through the router.
    CreateTableAs {
        create: String,
        insert: String,
    },
    /// A materialized view over distributed tables is made, or filled anew: home's own, with rows through the router.
    Materialize(Box<Materialized>),
    /// A table becomes a partition of one whose partitions are distributed.
    Partition(Box<Partition>),
    Refuse(Refusal),
}

/// Decides. `sql` is the text of this one statement.
pub fn classify(statement: &NodeEnum, sql: &str, snapshot: &Snapshot, facts: &Facts) -> Ddl {
    if Mode::of(statement) == Mode::NotDdl {
        return Ddl::NotDdl;
    }
    let cx = Cx { statement, sql, snapshot, facts, locked: Default::default() };
    let decided = match code::inlined(&cx) {
        Some(statement) => match sql::deparse(&statement) {
            Ok(sql) => return classify(&statement, &sql, snapshot, facts),
            Err(e) => Err(e.into()),
        },
        None => code::refuse(&cx).and_then(|()| decide(&cx)),
    };
    match cx.locked.get() {
        Some(relation) => Ddl::Refuse(Refusal::locked(&relation.name)),
        None => decided.unwrap_or_else(Ddl::Refuse),
    }
}

/// The statement that makes a temporary view which is nowhere read or written by its name, if it reads more than local tables.
/// `apart`: its query's code may not run on home.
pub fn temporary_view(
    statement: &NodeEnum,
    view: &sql::ast::ViewStmt,
    snapshot: &Snapshot,
    facts: &Facts,
    apart: bool,
) -> Result<Option<String>, Refusal> {
    let cx = Cx { statement, sql: "", snapshot, facts, locked: Default::default() };
    let made = create::temporary_view(&cx, view, apart)?;
    cx.locked.get().map_or(Ok(made), |relation| Err(Refusal::locked(&relation.name)))
}

type Decided = Result<Ddl, Refusal>;

fn decide(cx: &Cx) -> Decided {
    use NodeEnum::*;
    match cx.statement {
        AlterTableStmt(s) => alter::alter_table(cx, s),
        RenameStmt(s) => rename::rename(cx, s),
        AlterObjectSchemaStmt(s) => rename::set_schema(cx, s),
        DropStmt(s) => drop::drop(cx, s),
        TruncateStmt(s) => list::truncate(cx, s),
        LockStmt(s) => list::lock(cx, s),
        VacuumStmt(s) => list::vacuum(cx, s),
        ClusterStmt(s) => list::cluster(cx, s),
        ReindexStmt(s) => index::reindex(cx, s),
        IndexStmt(s) => index::create(cx, s),
        GrantStmt(s) => grant::grant(cx, s),
        CommentStmt(s) => object::on_object(cx, s.objtype, s.object.as_deref()),
        SecLabelStmt(s) => object::on_object(cx, s.objtype, s.object.as_deref()),
        CreateSeqStmt(s) => sequence::create(cx, s),
        AlterSeqStmt(s) => sequence::alter(cx, s),
        CreateTrigStmt(s) => attached::trigger(cx, s),
        RuleStmt(s) => attached::rule(cx, s),
        CreatePolicyStmt(s) => attached::policy(cx, s.table.as_ref(), [s.qual.as_deref(), s.with_check.as_deref()]),
        AlterPolicyStmt(s) => attached::policy(cx, s.table.as_ref(), [s.qual.as_deref(), s.with_check.as_deref()]),
        CreateStatsStmt(s) => attached::statistics(cx, s),
        AlterStatsStmt(s) => object::named(cx, ast::ObjectType::ObjectStatisticExt, &s.defnames),
        CreateStmt(s) => create::table(cx, s),
        CreateForeignTableStmt(s) => match &s.base_stmt {
            Some(base) => create::table(cx, base),
            None => Ok(Ddl::Home),
        },
        ViewStmt(s) => create::view(cx, s),
        CreateTableAsStmt(s) => create::table_as(cx, s),
        RefreshMatViewStmt(_) => materialized::refresh(cx),
        SelectStmt(s) => create::select_into(cx, s),
        _ => object::other(cx),
    }
}
