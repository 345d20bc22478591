//! The views of which a router writes the rows into a statement, as one node knows its own part of them, or nothing: which
//! statements read them. What their rows are is not known here.

use sql::ast::RangeVar;
use sql::{NodeEnum, relations, search};

use crate::{Context, backends, scope, sizes};

/// Views that every node has of itself, which the router joins over all nodes, and those of which it alone knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterView {
    /// PostgreSQL's view of sessions: a node knows its connections with routers.
    Activity,
    ColumnCopies,
    ColumnStores,
    /// Of these PostgreSQL has rows that nobody has made.
    Constraints(Constraints),
    /// PostgreSQL's view of a session's cursors: home knows those that it has itself.
    Cursors,
    Locks,
    /// PostgreSQL's view of a session's prepared statements: a node knows those of one of its connections.
    Prepared,
    Progress,
    Replicas,
    Sessions,
    /// Statistics of tables over all nodes.
    StatTables,
    /// What tables take on all nodes.
    TableSizes,
    Transactions,
    Verify,
}

/// Where constraints are listed: a foreign key to a distributed table is there once more for each of home's shards of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraints {
    /// `pg_constraint`
    All,
    /// Those of the information schema: `table_constraints`, `key_column_usage`, `referential_constraints`, `constraint_column_usage`.
    Tables,
    KeyColumns,
    References,
    UsedColumns,
}

impl RouterView {
    const ALL: [RouterView; 18] = {
        use RouterView::*;
        [
            Activity,
            ColumnCopies,
            ColumnStores,
            Constraints(self::Constraints::All),
            Constraints(self::Constraints::Tables),
            Constraints(self::Constraints::KeyColumns),
            Constraints(self::Constraints::References),
            Constraints(self::Constraints::UsedColumns),
            Cursors,
            Locks,
            Prepared,
            Progress,
            Replicas,
            Sessions,
            StatTables,
            TableSizes,
            Transactions,
            Verify,
        ]
    };

    /// Its name, without the schema.
    pub const fn name(self) -> &'static str {
        match self {
            RouterView::Activity => "pg_stat_activity",
            RouterView::ColumnCopies => "column_copies",
            RouterView::ColumnStores => "column_stores",
            RouterView::Constraints(Constraints::All) => "pg_constraint",
            RouterView::Constraints(Constraints::Tables) => "table_constraints",
            RouterView::Constraints(Constraints::KeyColumns) => "key_column_usage",
            RouterView::Constraints(Constraints::References) => "referential_constraints",
            RouterView::Constraints(Constraints::UsedColumns) => "constraint_column_usage",
            RouterView::Cursors => "pg_cursors",
            RouterView::Locks => "locks",
            RouterView::Prepared => "pg_prepared_statements",
            RouterView::Progress => "progress",
            RouterView::Replicas => "replicas",
            RouterView::Sessions => "sessions",
            RouterView::StatTables => "stat_tables",
            RouterView::TableSizes => "table_sizes",
            RouterView::Transactions => "transactions",
            RouterView::Verify => "verify",
        }
    }

    /// The schema it is in.
    pub const fn schema(self) -> &'static str {
        match self {
            RouterView::Activity
            | RouterView::Constraints(Constraints::All)
            | RouterView::Cursors
            | RouterView::Prepared => "pg_catalog",
            RouterView::Constraints(_) => "information_schema",
            RouterView::ColumnCopies
            | RouterView::ColumnStores
            | RouterView::Locks
            | RouterView::Progress
            | RouterView::Replicas
            | RouterView::Sessions
            | RouterView::StatTables
            | RouterView::TableSizes
            | RouterView::Transactions
            | RouterView::Verify => "herd",
        }
    }

    /// Views over it may be made: they are over a node's own, for those who look at that.
    pub const fn may_be_kept(self) -> bool {
        matches!(self, RouterView::Activity | RouterView::Constraints(_))
    }

    /// Which of the views a relation's name means.
    pub fn meant(rv: &RangeVar, cx: &Context) -> Option<RouterView> {
        let named =
            |v: &RouterView| v.name() == rv.relname && (rv.schemaname == v.schema() || rv.schemaname.is_empty());
        let view = Self::ALL.into_iter().find(named)?;
        if !rv.schemaname.is_empty() {
            return Some(view);
        }
        let at = cx.search_path.iter().position(|schema| *schema == view.schema())?;
        let before = cx.snapshot.resolve(None, &rv.relname, &cx.search_path[..at]);
        (before.is_none() && !cx.is_temporary(rv)).then_some(view)
    }

    /// The views a statement reads, itself or by a function that says what one has, each once, by their names. What a node knows of its own backends goes with the node's own view of
    /// them.
    pub fn read_by(statement: &NodeEnum, cx: &Context) -> Vec<RouterView> {
        let sampled = |n: &NodeEnum| match n {
            NodeEnum::RangeTableSample(t) => match t.relation.as_deref().and_then(|r| r.node.as_ref()) {
                Some(NodeEnum::RangeVar(rv)) => Self::meant(rv, cx).is_some(),
                _ => false,
            },
            _ => false,
        };
        if search::any(statement, sampled) {
            // Of a view there is no sample, says PostgreSQL.
            return vec![];
        }
        let mut read: Vec<_> = relations::of(statement).into_iter().filter_map(|rv| Self::meant(rv, cx)).collect();
        if sizes::are_asked(statement, cx) {
            read.push(RouterView::TableSizes);
        }
        read.sort_unstable_by_key(|v| v.name());
        read.dedup();
        if read.contains(&RouterView::Activity) && backends::reads_of_node(statement) {
            read.retain(|v| *v != RouterView::Activity);
        }
        // A table's own rows have what a query of them has not.
        if cx.snapshot.groups.is_empty() || search::any(statement, |n| scope::system_column(n).is_some()) {
            read.retain(|v| !matches!(v, RouterView::Constraints(_)));
        }
        read
    }
}
