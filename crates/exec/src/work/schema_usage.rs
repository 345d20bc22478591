//! Whether who asks may name the tables of a statement at all: USAGE of their schemas.
//!
//! PostgreSQL asks for it where a name is looked up. A statement that names partitions looks up other names, so home is
//! asked about the client's own words first, once for each role and its settings; a GRANT or REVOKE makes plans anew. Of
//! schemas that everybody may use nobody is asked. It does not know rights to tables, which partitions have themselves.

use crate::client::Client;
use crate::error::Result;
use crate::request::Request;
use crate::router::compiled::Compiled;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// Returns home's error if who asks may not name the statement's tables.
    pub(crate) async fn may_name_tables(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<()> {
        if compiled.schemas_are_open {
            return Ok(());
        }
        let settings = self.settings_fingerprint();
        let asker = self.login.oid().map(|role| (role, settings));
        if asker.is_some_and(|a| compiled.may_be_named_by(a)) {
            return Ok(());
        }
        Box::pin(self.describe_text(&compiled.text, request.types())).await?;
        if let Some(asker) = asker {
            compiled.was_named_by(asker);
        }
        Ok(())
    }
}
