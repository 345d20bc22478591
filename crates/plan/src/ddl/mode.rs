//! Which statements are utility statements of this kind, and how they stand to transactions and the catalog.

use catalog::TemporaryRelation;
use sql::NodeEnum;
use sql::ast::{self, AlterTableType, PartitionCmd};

/// How a utility statement stands to transactions and to the routers' catalogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    NotDdl,
    /// Outside of a transaction, unless the client is in one: PostgreSQL then says whether that can be.
    Plain,
    /// In a transaction; routers need not know of it.
    Uses,
    /// In a transaction that raises the epoch.
    Changes,
}

impl Mode {
    /// By the tree alone; what is not named here is taken to change the catalog.
    pub fn of(statement: &NodeEnum) -> Mode {
        use NodeEnum::*;
        match statement {
            SelectStmt(s) if s.into_clause.is_some() => Mode::Changes,
            SelectStmt(_) | InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) => Mode::NotDdl,
            TransactionStmt(_) | VariableSetStmt(_) | VariableShowStmt(_) | DiscardStmt(_) | ConstraintsSetStmt(_) => {
                Mode::NotDdl
            }
            PrepareStmt(_) | ExecuteStmt(_) | DeallocateStmt(_) | ExplainStmt(_) | CopyStmt(_) => Mode::NotDdl,
            DeclareCursorStmt(_) | FetchStmt(_) | ClosePortalStmt(_) => Mode::NotDdl,
            ListenStmt(_) | UnlistenStmt(_) | NotifyStmt(_) | CheckPointStmt(_) | LoadStmt(_) => Mode::NotDdl,
            DoStmt(_) | CallStmt(_) => Mode::NotDdl,

            CreatedbStmt(_) | DropdbStmt(_) | AlterDatabaseStmt(_) | AlterDatabaseRefreshCollStmt(_) => Mode::Plain,
            CreateTableSpaceStmt(_)
            | DropTableSpaceStmt(_)
            | AlterTableSpaceOptionsStmt(_)
            | AlterTableMoveAllStmt(_) => Mode::Plain,
            CreateSubscriptionStmt(_) | AlterSubscriptionStmt(_) | DropSubscriptionStmt(_) | AlterSystemStmt(_) => {
                Mode::Plain
            }
            ReindexStmt(_) | ClusterStmt(_) => Mode::Plain,
            VacuumStmt(v) if v.is_vacuumcmd => Mode::Plain,
            IndexStmt(i) if i.concurrent => Mode::Plain,
            DropStmt(d) if d.concurrent => Mode::Plain,
            AlterTableStmt(a) if a.cmds.iter().any(detaches_concurrently) => Mode::Plain,

            TruncateStmt(_)
            | LockStmt(_)
            | VacuumStmt(_)
            | RefreshMatViewStmt(_)
            | CommentStmt(_)
            | SecLabelStmt(_) => Mode::Uses,
            // Plans know who may name tables, of which views single columns are granted, and which functions anybody may call.
            GrantStmt(g) if is_of_schemas(g) || is_of_functions(g) || names_columns(g) => Mode::Changes,
            GrantRoleStmt(_) => Mode::Changes,
            GrantStmt(_) | AlterDefaultPrivilegesStmt(_) | AlterSeqStmt(_) => Mode::Uses,
            // Routers must know which role a name means: no connection may go on as the one it meant.
            CreateRoleStmt(_) | DropRoleStmt(_) => Mode::Changes,
            AlterRoleStmt(_) | AlterRoleSetStmt(_) | AlterDatabaseSetStmt(_) => Mode::Uses,
            CreatePublicationStmt(_) | AlterPublicationStmt(_) => Mode::Uses,
            _ => Mode::Changes,
        }
    }
}

/// Routers must load the catalog anew once the statement is committed.
pub fn changes_catalog(statement: &NodeEnum) -> bool {
    match Mode::of(statement) {
        Mode::Changes => true,
        // Unique indexes and partitions are part of a snapshot.
        Mode::Plain => {
            matches!(statement, NodeEnum::IndexStmt(_) | NodeEnum::DropStmt(_) | NodeEnum::AlterTableStmt(_))
        }
        Mode::Uses | Mode::NotDdl => false,
    }
}

fn is_of_schemas(g: &ast::GrantStmt) -> bool {
    g.objtype == ast::ObjectType::ObjectSchema as i32
}

fn is_of_functions(g: &ast::GrantStmt) -> bool {
    use ast::ObjectType::{ObjectFunction, ObjectProcedure, ObjectRoutine};
    [ObjectFunction, ObjectProcedure, ObjectRoutine].iter().any(|o| g.objtype == *o as i32)
}

fn names_columns(g: &ast::GrantStmt) -> bool {
    g.privileges.iter().any(|p| matches!(&p.node, Some(NodeEnum::AccessPriv(p)) if !p.cols.is_empty()))
}

fn detaches_concurrently(cmd: &ast::Node) -> bool {
    let Some(NodeEnum::AlterTableCmd(c)) = &cmd.node else { return false };
    let concurrent = || {
        matches!(
            c.def.as_deref(),
            Some(ast::Node { node: Some(NodeEnum::PartitionCmd(PartitionCmd { concurrent: true, .. })) })
        )
    };
    c.subtype == AlterTableType::AtDetachPartitionFinalize as i32
        || c.subtype == AlterTableType::AtDetachPartition as i32 && concurrent()
}

/// `pg_temp.name`
pub fn in_pg_temp(name: &[ast::Node]) -> bool {
    matches!(sql::names::strings(name)[..], ["pg_temp", _])
}

/// The relation that a statement makes for its session alone.
pub fn made_temporary(statement: &NodeEnum) -> Option<&ast::RangeVar> {
    let made = match statement {
        NodeEnum::CreateStmt(c) => c.relation.as_ref(),
        NodeEnum::CreateTableAsStmt(c) => c.into.as_deref().and_then(|i| i.rel.as_ref()),
        NodeEnum::ViewStmt(v) => v.view.as_ref(),
        NodeEnum::CreateSeqStmt(s) => s.sequence.as_ref(),
        NodeEnum::SelectStmt(s) => s.into_clause.as_deref().and_then(|i| i.rel.as_ref()),
        _ => None,
    };
    made.filter(|rv| rv.relpersistence == "t" || rv.schemaname == "pg_temp")
}

/// It makes a type or domain that lives as long as the session.
pub fn makes_temporary_type(statement: &NodeEnum) -> bool {
    temporary_type(statement).is_some()
}

/// The name of that type.
pub fn temporary_type(statement: &NodeEnum) -> Option<&str> {
    let name = match statement {
        NodeEnum::CreateDomainStmt(s) => &s.domainname,
        NodeEnum::CreateEnumStmt(s) => &s.type_name,
        NodeEnum::CreateRangeStmt(s) => &s.type_name,
        NodeEnum::CompositeTypeStmt(s) => {
            let made = s.typevar.as_ref().filter(|rv| rv.schemaname == "pg_temp");
            return made.map(|rv| rv.relname.as_str());
        }
        _ => return None,
    };
    in_pg_temp(name).then(|| sql::names::last(name))
}

/// It makes a function or procedure that lives as long as the session.
pub fn makes_temporary_function(statement: &NodeEnum) -> bool {
    matches!(statement, NodeEnum::CreateFunctionStmt(s) if in_pg_temp(&s.funcname))
}

/// It is about nothing but the session's temporary tables, types and functions: no router need hear of it.
pub fn is_temporary(statement: &NodeEnum, temporary: &[TemporaryRelation]) -> bool {
    let known = |rv: &ast::RangeVar| {
        rv.schemaname == "pg_temp" || rv.schemaname.is_empty() && temporary.iter().any(|t| *t == *rv.relname)
    };
    let var = |rv: &Option<ast::RangeVar>| rv.as_ref().is_some_and(known);
    let all = |nodes: &[ast::Node]| {
        !nodes.is_empty() && nodes.iter().all(|n| matches!(&n.node, Some(NodeEnum::RangeVar(rv)) if known(rv)))
    };
    match statement {
        s if makes_temporary_type(s) || makes_temporary_function(s) => true,
        NodeEnum::AlterFunctionStmt(s) => s.func.as_ref().is_some_and(|f| in_pg_temp(&f.objname)),
        NodeEnum::DropStmt(s) if is_function(s.remove_type) => {
            let named = |n: &ast::Node| matches!(&n.node, Some(NodeEnum::ObjectWithArgs(f)) if in_pg_temp(&f.objname));
            s.objects.iter().all(named)
        }
        NodeEnum::AlterDomainStmt(s) => in_pg_temp(&s.type_name),
        NodeEnum::AlterEnumStmt(s) => in_pg_temp(&s.type_name),
        NodeEnum::DropStmt(s)
            if s.remove_type == ast::ObjectType::ObjectDomain as i32
                || s.remove_type == ast::ObjectType::ObjectType as i32 =>
        {
            let named = |n: &ast::Node| matches!(&n.node, Some(NodeEnum::TypeName(t)) if in_pg_temp(&t.names));
            s.objects.iter().all(named)
        }
        NodeEnum::AlterTableStmt(s) => var(&s.relation),
        NodeEnum::IndexStmt(s) => var(&s.relation),
        NodeEnum::RenameStmt(s) => var(&s.relation),
        NodeEnum::TruncateStmt(s) => all(&s.relations),
        NodeEnum::LockStmt(s) => all(&s.relations),
        NodeEnum::DropStmt(s) if is_relation(s.remove_type) => {
            let named = |o: &ast::Node| match &super::place::strings_of(o)[..] {
                [name] => temporary.iter().any(|t| t == *name),
                [schema, _] => *schema == "pg_temp",
                _ => false,
            };
            s.objects.iter().all(named)
        }
        _ => false,
    }
}

fn is_function(kind: i32) -> bool {
    use ast::ObjectType::{ObjectFunction, ObjectProcedure, ObjectRoutine};
    [ObjectFunction, ObjectProcedure, ObjectRoutine].iter().any(|k| kind == *k as i32)
}

fn is_relation(kind: i32) -> bool {
    use ast::ObjectType::{ObjectIndex, ObjectSequence, ObjectTable, ObjectView};
    [ObjectTable, ObjectView, ObjectSequence, ObjectIndex].iter().any(|k| kind == *k as i32)
}

/// The command's name, for PostgreSQL's own error message.
pub fn command(statement: &NodeEnum) -> &'static str {
    use sql::ast::ReindexObjectType as Kind;
    match statement {
        NodeEnum::IndexStmt(_) => "CREATE INDEX CONCURRENTLY",
        NodeEnum::DropStmt(_) => "DROP INDEX CONCURRENTLY",
        NodeEnum::ReindexStmt(r) => match Kind::try_from(r.kind) {
            Ok(Kind::ReindexObjectSchema) => "REINDEX SCHEMA",
            Ok(Kind::ReindexObjectDatabase) => "REINDEX DATABASE",
            Ok(Kind::ReindexObjectSystem) => "REINDEX SYSTEM",
            _ => "REINDEX CONCURRENTLY",
        },
        NodeEnum::VacuumStmt(_) => "VACUUM",
        NodeEnum::ClusterStmt(_) => "CLUSTER",
        NodeEnum::AlterTableStmt(_) => "ALTER TABLE ... DETACH CONCURRENTLY",
        _ => "this command",
    }
}

/// The table all of whose rows are checked once more, by what is there already.
pub fn checks_rows(statement: &NodeEnum) -> Option<&ast::RangeVar> {
    let checks = |command: &ast::Node| {
        let Some(NodeEnum::AlterTableCmd(c)) = &command.node else { return false };
        matches!(
            AlterTableType::try_from(c.subtype),
            Ok(AlterTableType::AtValidateConstraint | AlterTableType::AtAlterColumnType)
        )
    };
    match statement {
        NodeEnum::AlterTableStmt(a) if a.cmds.iter().any(checks) => a.relation.as_ref(),
        _ => None,
    }
}

/// A table that is made keeps its rows, and itself, when a transaction ends.
pub fn keeps_rows(statement: &NodeEnum) -> bool {
    use ast::OnCommitAction::{OncommitDeleteRows, OncommitDrop};
    let into = match statement {
        NodeEnum::CreateTableAsStmt(c) => c.into.as_deref(),
        NodeEnum::SelectStmt(s) => s.into_clause.as_deref(),
        _ => None,
    };
    into.is_some_and(|i| i.on_commit != OncommitDrop as i32 && i.on_commit != OncommitDeleteRows as i32)
}
