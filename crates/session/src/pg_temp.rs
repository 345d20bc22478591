//! The session's temporary schema: which relations and types are in it, and which of them hide others of their name.
//!
//! Relations that hide others are known to the planner. A type counts on home alone: other nodes would take the one it hides, wherever
//! it is named (views and code among it), so nothing is planned in such a session. (Row types of temporary tables stand in no
//! statement for other nodes: those name the table, or fail there.)
//!
//! Its connection to home tells. It is asked again whenever that can have changed: behind each statement that changes a
//! schema, and where such changes were undone, or dropped what was ON COMMIT DROP. It does not know who makes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use catalog::{
    Column, Placement, Relation, RelationKind, Snapshot, TemporaryDefinition, TemporaryRelation, TemporaryView,
};
use exec::ExecError;
use plan::ddl::Mode;
use plan::kind::{Holds, Kind};
use sql::NodeEnum;
use wire::sqlstate;

use crate::activity::Pins;
use crate::session::{Result, Session};

/// What is temporary, as it was last asked.
#[derive(Default)]
pub struct PgTemp {
    pub told: Told,
    pub made: Made,
    /// The transaction has changed what is in it.
    changed: bool,
    /// Where there are views.
    views: Option<Box<OwnViews>>,
}

/// Its views.
#[derive(Default)]
struct OwnViews {
    list: Vec<TemporaryDefinition>,
    /// They were so under that catalog; `None`: code may have changed them since.
    epoch: Option<u64>,
    /// Another one each time that code may have changed them.
    mark: u64,
}

/// PostgreSQL makes the schema when something is first put into it, and keeps it then, whatever is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Made {
    #[default]
    No,
    /// In the transaction, at that depth of savepoints.
    Now(usize),
    Yes,
}

/// Relations (`t`; views are `v`), and types: those that hide one of PostgreSQL's own (`z`), and others (`y`).
pub const NAMES: &str = "SELECT relname AS name, CASE relkind WHEN 'v' THEN 'v' ELSE 't' END AS kind FROM pg_catalog.pg_class \
         WHERE relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
     UNION ALL SELECT t.typname, CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_type b WHERE b.typname OPERATOR(pg_catalog.=) t.typname \
             AND b.typnamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace) THEN 'z' ELSE 'y' END \
         FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.typrelid \
         WHERE t.typnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
           AND (t.typtype OPERATOR(pg_catalog.=) ANY ('{d,e,r,m}'::pg_catalog.\"char\"[]) OR c.relkind OPERATOR(pg_catalog.=) 'c') \
     ORDER BY 1, 2";

/// What [`NAMES`] has told.
#[derive(Default, PartialEq, Eq)]
pub struct Told {
    /// Of all relations, indexes among them; whether it is a view.
    pub names: Vec<(String, bool)>,
    /// Domains, enums, ranges and composite types; whether one of PostgreSQL's own has that name.
    pub types: Vec<(String, bool)>,
}

impl Told {
    fn has_views(&self) -> bool {
        self.names.iter().any(|(_, view)| *view)
    }

    /// A row of [`NAMES`].
    pub fn add(&mut self, name: &str, kind: &str) {
        match kind {
            "t" | "v" => self.names.push((name.to_string(), kind == "v")),
            kind => self.types.push((name.to_string(), kind == "z")),
        }
    }
}

impl PgTemp {
    /// All relations that are there, and which of them an unqualified name means: not those that the search path finds before `pg_temp`.
    /// `role`: who reads its views.
    pub fn relations(&self, snapshot: &Snapshot, path: &[String], role: &str) -> Vec<TemporaryRelation> {
        let before = path.iter().position(|s| s == "pg_temp").map_or(&[][..], |at| &path[..at]);
        let found = |name: &String| !before.is_empty() && snapshot.resolve(None, name, before).is_some();
        let relation = |(name, _): &(String, bool)| TemporaryRelation {
            name: name.clone(),
            hides: !found(name),
            view: self.view(name, role).map(Arc::new),
        };
        self.told.names.iter().map(relation).collect()
    }

    /// A view over distributed or reference tables.
    fn view(&self, name: &str, role: &str) -> Option<TemporaryView> {
        let view = self.views.as_ref()?.list.iter().find(|v| v.name == name)?;
        let definition = sql::parse(&view.definition, true).ok()?.pop()?;
        let (query, whole) = sql::read_whole::query(&definition)?;
        let query = sql::deparse(&NodeEnum::SelectStmt(Box::new(query.clone()))).ok()?;
        let of_another = (view.owner != role).then(|| view.owner.clone());
        Some(TemporaryView { query, columns: view.columns.clone(), whole, of_another })
    }

    /// What the session's plans depend on besides what is hidden.
    pub fn mark(&self) -> u64 {
        self.views.as_ref().map_or(0, |v| v.mark)
    }

    /// A type that hides a permanent one.
    fn hides_type(&self, snapshot: &Snapshot) -> Option<&str> {
        let hides = |(name, builtin): &&(String, bool)| *builtin || snapshot.types.values().any(|t| t.name == *name);
        self.told.types.iter().find(hides).map(|(name, _)| name.as_str())
    }

    /// No relation or type is known to be in it; the schema may be there.
    pub fn is_empty(&self) -> bool {
        self.told == Told::default()
    }

    /// From now on nothing is known to be in it; the schema may be there.
    pub fn clear(&mut self) {
        self.told = Told::default();
        self.views = None;
    }

    /// Something has been put into it.
    fn is_made(&mut self, depth: Option<usize>) {
        if self.made == Made::No {
            self.made = depth.map_or(Made::Yes, Made::Now);
        }
    }

    fn is_undone(&mut self, depth: usize) {
        if matches!(self.made, Made::Now(at) if at >= depth) {
            self.made = Made::No;
        }
    }

    /// A savepoint is released: what was done behind it belongs to the one around it.
    pub fn is_released(&mut self, depth: usize) {
        if let Made::Now(at) = &mut self.made {
            *at = depth.min(*at);
        }
    }

    fn has_ended(&mut self, committed: bool) {
        self.changed = false;
        if let Made::Now(_) = self.made {
            self.made = if committed { Made::Yes } else { Made::No };
        }
    }
}

impl Session {
    /// A statement puts something into it: the connection is kept from now on.
    pub fn use_pg_temp(&mut self) {
        self.pin_home(Pins::TEMPORARY);
    }

    /// Behind a statement that may have changed what is in it; `makes`: it has put something in.
    pub async fn pg_temp_changed(&mut self, makes: bool) -> Result<()> {
        if self.pins & Pins::TEMPORARY == 0 {
            return Ok(());
        }
        let active = self.transaction.is_active();
        if makes {
            self.pg_temp.is_made(active.then(|| self.transaction.depth()));
        }
        self.pg_temp.changed |= active;
        self.read_pg_temp().await
    }

    /// Code has run on home's connection, which has told what is there.
    pub fn pg_temp_told(&mut self, told: Told) {
        if told != Told::default() {
            self.use_pg_temp();
            let active = self.transaction.is_active();
            self.pg_temp.is_made(active.then(|| self.transaction.depth()));
        }
        let same = self.pg_temp.told == told;
        self.pg_temp.changed |= self.transaction.is_active() && !same;
        if told.has_views() || self.pg_temp.told.has_views() {
            static TOLD: AtomicU64 = AtomicU64::new(1);
            let mark = TOLD.fetch_add(1, Ordering::Relaxed);
            self.pg_temp.views = Some(Box::new(OwnViews { mark, ..OwnViews::default() }));
        }
        self.pg_temp.told = told;
    }

    /// Before names are looked up: what its views are made of changes with what they read.
    pub async fn settle_temporary_views(&mut self) -> Result<()> {
        let Some(views) = &self.pg_temp.views else { return Ok(()) };
        if views.epoch == Some(self.epoch.serial) || self.transaction.has_failed() {
            return Ok(());
        }
        self.read_temporary_views().await?;
        self.refresh_context();
        Ok(())
    }

    async fn read_temporary_views(&mut self) -> Result<()> {
        if !self.pg_temp.told.has_views() {
            self.pg_temp.views = None;
            return Ok(());
        }
        let home = self.epoch.snapshot.home;
        let list = match self.transaction.get(home) {
            Some(p) => catalog::read_temporary_views(&mut p.lane).await.map_err(exec::catalog_error)?,
            None => match self.pin.take() {
                Some(mut lane) => {
                    let views = catalog::read_temporary_views(&mut lane).await;
                    self.pin.put_back(lane);
                    views.map_err(exec::catalog_error)?
                }
                // They are asked for again: what is not known now may be there.
                None => return Ok(()),
            },
        };
        let (mark, epoch) = (self.pg_temp.mark(), Some(self.epoch.serial));
        self.pg_temp.views = Some(Box::new(OwnViews { list, epoch, mark }));
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT, at what is the transaction's depth now.
    pub async fn pg_temp_undone(&mut self) -> Result<()> {
        self.pg_temp.is_undone(self.transaction.depth());
        match self.pg_temp.changed {
            true => self.read_pg_temp().await,
            false => Ok(()),
        }
    }

    /// The transaction is over, and its connections are back.
    pub async fn pg_temp_settled(&mut self, committed: bool) {
        let changed = self.pg_temp.changed;
        self.pg_temp.has_ended(committed);
        // A connection that does not answer is lost, and with it the session.
        if changed && self.read_pg_temp().await.is_err() {
            self.pg_temp.clear();
        }
    }

    /// Before a statement that may be for other nodes.
    pub fn refuse_hidden_type(&self, statement: &NodeEnum, kind: Kind) -> Result<()> {
        if self.pg_temp.told.types.is_empty() {
            return Ok(());
        }
        let on_home = !kind.planned && kind.mode == Mode::NotDdl && kind.holds == Holds::Nothing;
        if on_home || matches!(statement, NodeEnum::DropStmt(_) | NodeEnum::RenameStmt(_)) {
            return Ok(());
        }
        match self.pg_temp.hides_type(&self.epoch.snapshot) {
            Some(name) => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!(
                    "this session has a type in pg_temp that hides the type \"{name}\", which other nodes would take"
                ),
            )
            .hint("Drop it, or give it a name of its own.")),
            None => Ok(()),
        }
    }

    /// Asks the connection whose schema it is. No rows: there is none.
    async fn ask_pg_temp(&mut self, sql: &str) -> Result<Vec<catalog::Row>> {
        let home = self.epoch.snapshot.home;
        if let Some(p) = self.transaction.get(home) {
            return Ok(p.lane.rows(sql).await?);
        }
        let Some(mut lane) = self.pin.take() else { return Ok(vec![]) };
        let rows = lane.rows(sql).await;
        self.pin.put_back(lane);
        Ok(rows?)
    }

    /// A temporary table, as far as rows for it must know it.
    pub async fn temporary_table(&mut self, name: &str) -> Result<Option<Arc<Relation>>> {
        let sql = format!(
            "SELECT c.oid, c.relrowsecurity, c.relhastriggers, a.attname, a.atttypid, a.atttypmod, \
                    pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated OPERATOR(pg_catalog.<>) '' \
             FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid \
             WHERE c.relname OPERATOR(pg_catalog.=) {} AND c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
               AND c.relkind OPERATOR(pg_catalog.=) ANY ('{{r,p}}'::pg_catalog.\"char\"[]) \
               AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped ORDER BY a.attnum",
            catalog::quote_literal(name)
        );
        let rows = self.ask_pg_temp(&sql).await?;
        let text = |row: &catalog::Row, i: usize| row.get(i).cloned().flatten().unwrap_or_default();
        let Some(first) = rows.first() else { return Ok(None) };
        let column = |row: &catalog::Row| Column {
            name: text(row, 3),
            type_oid: text(row, 4).parse().unwrap_or_default(),
            typmod: text(row, 5).parse().unwrap_or(-1),
            type_name: text(row, 6),
            not_null: text(row, 7) == "t",
            default: None,
            sequence: None,
            sequence_oid: 0,
            identity: 0,
            generated: text(row, 8) == "t",
            collation: 0,
            collation_is_bytes: false,
            collation_deterministic: false,
        };
        Ok(Some(Arc::new(Relation {
            oid: text(first, 0).parse().unwrap_or_default(),
            schema: "pg_temp".into(),
            name: name.into(),
            kind: RelationKind::Table,
            placement: Placement::Local,
            columns: rows.iter().map(column).collect(),
            view: None,
            unique: vec![],
            row_security: text(first, 1) == "t",
            schema_is_open: true,
            statement_triggers: false,
            rules: false,
            triggers: text(first, 2) == "t",
            refers_to_itself: false,
            checked_at_commit: false,
            through: None,
            column_copy: None,
        })))
    }

    async fn read_pg_temp(&mut self) -> Result<()> {
        let rows = self.ask_pg_temp(NAMES).await?;
        let mut told = Told::default();
        for row in &rows {
            if let [Some(name), Some(kind)] = &row[..] {
                told.add(name, kind);
            }
        }
        self.pg_temp.told = told;
        self.read_temporary_views().await?;
        self.refresh_context();
        Ok(())
    }
}
