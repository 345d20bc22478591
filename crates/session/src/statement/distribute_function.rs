//! `create_distributed_function`: DDL that says by which argument a function is distributed, and the proof that it can be, by the catalog
//! as it then is. How a function is marked, and what is proved, is not known here.

use exec::{ExecError, Forwarded};
use plan::Refusal;
use plan::admin::{AdminCall, split_name};
use wire::sqlstate;

use crate::session::{Result, Session};

impl Session {
    /// Has calls of a function sent to the node of one of its arguments; whatever is wrong with that undoes it.
    pub(super) async fn distribute_function(&mut self, call: AdminCall, described: bool) -> Result<Forwarded> {
        let asked = call.distributed_function()?;
        let found = self.work().function_to_distribute(&asked).await?;
        let statement = sql::parse(&found.ddl, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        self.utility(&statement, None, &found.ddl, None).await?;
        if asked.argument.is_some() {
            let uses = plan::by_argument::prove(found.oid, &self.names())?;
            if let Some(with) = &asked.colocate_with {
                let (schema, name) = split_name(with)?;
                let other = self.epoch.snapshot.resolve(schema.as_deref(), &name, &self.search_path);
                let Some(other) = other else {
                    let message = format!("relation \"{with}\" does not exist");
                    return Err(ExecError::sql(sqlstate::UNDEFINED_TABLE, message));
                };
                let group = |r: &catalog::Relation| r.distribution().map(|d| d.group.id);
                if let Some(table) = uses.tables.iter().find(|t| group(t) != group(other)) {
                    let message =
                        format!("the function uses \"{}\", which is not colocated with \"{name}\"", table.name);
                    return Err(Refusal::new(
                        message,
                        "Leave colocate_with out: it follows from what the function uses.",
                    )
                    .into());
                }
            }
        }
        Ok(self.work().answer_void(&call, described))
    }
}
