//! One node's part of a utility statement, and the small things that running any part needs. It does not know what the
//! other nodes do.

use txn::Participant;
use wire::sqlstate;

use plan::ddl::Step;

use crate::error::{ExecError, Result};
use crate::now::Now;
use crate::render::Fill;
use crate::request::Bound;

/// What runs on a node that is not home.
pub struct Elsewhere {
    pub steps: Vec<Step>,
    pub now: Now,
    pub before: Vec<String>,
    pub after: Vec<String>,
    /// The schema that a new object without one goes to.
    pub schema: Option<String>,
}

impl Elsewhere {
    /// Runs `before`, each step whose guard holds, and `after`; an error first if the search path leads to another schema here.
    pub async fn run(&self, p: &mut Participant) -> Result<()> {
        if let Some(schema) = &self.schema {
            let rows = p.lane.rows("SELECT pg_catalog.current_schema()").await?;
            let here = rows.into_iter().next().and_then(|r| r.into_iter().next().flatten()).unwrap_or_default();
            if here != *schema && schema.starts_with("pg_temp_") {
                let message = "making an object in pg_temp because the search path begins with it is not supported";
                return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
                    .hint("Write pg_temp in front of its name."));
            }
            if here != *schema {
                return Err(ExecError::sql(
                    sqlstate::INVALID_SCHEMA_NAME,
                    format!("schema \"{schema}\", which the search path leads to, does not exist on every node"),
                )
                .hint("Create the schema on every node, or name another one that exists."));
            }
        }
        for sql in &self.before {
            p.lane.run(sql).await?;
        }
        for step in &self.steps {
            if holds(p, step).await? {
                p.lane.run(&sql_of(step, &self.now)).await?;
            }
        }
        for sql in &self.after {
            p.lane.run(sql).await?;
        }
        Ok(())
    }
}

/// The step's text with the statement's timestamp.
pub fn sql_of(step: &Step, now: &Now) -> String {
    Fill::new(&Bound::default(), now).statement([&step.text]).sql
}

/// Whether the step's guard says that it is to be run; one without a guard always is.
pub async fn holds(p: &mut Participant, step: &Step) -> Result<bool> {
    match &step.guard {
        Some(guard) => Ok(is_true(&p.lane.rows(&format!("SELECT {guard}")).await?)),
        None => Ok(true),
    }
}

/// Whether the first value of the first row is true; no row and NULL are not.
pub fn is_true(rows: &[catalog::Row]) -> bool {
    rows.first().and_then(|r| r.first()?.as_deref()) == Some("t")
}

/// SQL that gives a setting its value for the rest of the transaction; `None`: its default.
pub fn restore_setting(name: &str, value: Option<&str>) -> String {
    match value {
        Some(v) => format!("SET LOCAL {name} = {}", catalog::quote_literal(v)),
        None => format!("SET LOCAL {name} TO DEFAULT"),
    }
}
