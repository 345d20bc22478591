//! Texts that PostgreSQL prints under locks of the relations they name: of views, rules, and of defaults with row types. What
//! somebody has locked is left out, so that loading waits for nobody (`schema/definitions.sql` says how). It does not
//! know what becomes of what was left out.

use std::collections::HashMap;

use crate::load::reading;
use crate::printed::readable;
use crate::{CatalogError, Oid, Query};

pub(super) struct Definitions(HashMap<(u8, Oid), String>);

impl Definitions {
    pub(super) async fn load<Q: Query>(q: &mut Q) -> Result<Self, CatalogError<Q::Error>> {
        let mut found = HashMap::new();
        let mut rows = reading(q, "SELECT kind, object, definition FROM herd.definitions()").await?;
        while let Some(mut row) = rows.next().await {
            found.insert((row.char(), row.number()?), readable(row.text()));
        }
        Ok(Definitions(found))
    }

    pub(super) fn of_view(&self, oid: Oid) -> Option<String> {
        self.0.get(&(b'v', oid)).cloned()
    }

    pub(super) fn of_rule(&self, oid: Oid) -> Option<String> {
        self.0.get(&(b'u', oid)).cloned()
    }

    pub(super) fn of_routine(&self, oid: Oid) -> Option<String> {
        self.0.get(&(b'f', oid)).cloned()
    }

    /// By the object id of the default itself.
    pub(super) fn of_default(&self, oid: Oid) -> Option<String> {
        self.0.get(&(b'd', oid)).cloned()
    }
}
