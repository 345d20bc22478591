//! What is in a session's temporary schema, as far as its statements must know it: names, and the queries of views over distributed
//! and reference tables. Such a view is on home alone, where `herd.read_whole()` keeps it from being read by its name
//! (`sql/src/read_whole.rs`); statements get its query in its place. It does not know who may read one.

use std::sync::Arc;

use crate::load::{cells, pin_settings, restore_settings};
use crate::printed::readable;
use crate::{CatalogError, Query};

/// A relation of the session's own. It equals a name that means it where it stands without a schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TemporaryRelation {
    pub name: String,
    /// Its name hides others: the search path finds nothing of that name before it. Code may have a path of its own.
    pub hides: bool,
    /// It is a view over distributed or reference tables.
    pub view: Option<Arc<TemporaryView>>,
}

/// A temporary view over distributed or reference tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TemporaryView {
    /// Its query, whose names are as PostgreSQL prints them for who looks in `pg_catalog` and `pg_temp` alone.
    pub query: String,
    pub columns: Vec<String>,
    /// Home has all that it reads.
    pub whole: bool,
    /// Its owner, if that is not the role which the session has now: the view's tables are read with the owner's rights.
    pub of_another: Option<String>,
}

/// A temporary view as home has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemporaryDefinition {
    pub name: String,
    pub owner: String,
    /// `pg_get_viewdef`.
    pub definition: String,
    pub columns: Vec<String>,
}

impl TemporaryRelation {
    /// A table, an index, a sequence, or a view over what is local.
    pub fn named(name: impl Into<String>) -> Self {
        TemporaryRelation { name: name.into(), hides: true, view: None }
    }
}

impl PartialEq<str> for TemporaryRelation {
    fn eq(&self, name: &str) -> bool {
        self.hides && self.name == name
    }
}

/// The views of a session that is in no failed transaction.
pub async fn read_temporary_views<Q: Query>(q: &mut Q) -> Result<Vec<TemporaryDefinition>, CatalogError<Q::Error>> {
    let before = pin_settings(q).await?;
    let views = read(q).await;
    let restored = restore_settings(q, before).await;
    let views = views?;
    restored?;
    Ok(views)
}

async fn read<Q: Query>(q: &mut Q) -> Result<Vec<TemporaryDefinition>, CatalogError<Q::Error>> {
    let sql = "SELECT c.relname, pg_get_userbyid(c.relowner), pg_get_viewdef(c.oid), \
                      ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 ORDER BY a.attnum) \
                 FROM pg_class c WHERE c.relnamespace = pg_my_temp_schema() AND c.relkind = 'v' ORDER BY 1";
    let rows = cells(q, sql).await?;
    let view = |mut row: crate::cells::Cells| TemporaryDefinition {
        name: row.text(),
        owner: row.text(),
        definition: readable(row.text()),
        columns: row.texts(),
    };
    Ok(rows.map(view).collect())
}
