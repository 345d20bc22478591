//! RAISE and ASSERT: PostgreSQL says it, on home, with the values in place.

use exec::ExecError;
use sql::program::{Ex, Raise};

use super::Running;
use super::run::literal;
use crate::session::{Result, Session};

impl Session {
    pub(super) async fn raise(&mut self, running: &mut Running<'_>, raise: &Raise) -> Result<()> {
        if raise.is_again() {
            return Err(match running.handled.last() {
                Some(error) => ExecError::Sql(Box::new(error.to_fields())),
                None => ExecError::sql(
                    wire::sqlstate::STACKED_DIAGNOSTICS_ACCESSED_WITHOUT_ACTIVE_HANDLER,
                    "RAISE without parameters cannot be used outside an exception handler",
                ),
            });
        }
        let mut said = String::new();
        let mut values = Vec::with_capacity(raise.values.len());
        for e in &raise.values {
            values.push(literal(&self.value(running, *e).await?.text)?);
        }
        match (&raise.message, &raise.condition) {
            (Some(message), _) => {
                said += &catalog::quote_literal(message);
                values.iter().for_each(|v| said += &format!(", {v}"));
            }
            (None, Some(state)) => said += &format!("SQLSTATE '{}'", first_state(state)),
            (None, None) => {}
        }
        let mut options = vec![];
        for (option, e) in &raise.options {
            let value = self.value(running, *e).await?;
            options.push(format!("{option} = {}", literal(&value.text)?));
        }
        // The condition's name is the message where there is no other.
        if let (None, Some(name)) = (&raise.message, &raise.condition)
            && !raise.options.iter().any(|(option, _)| *option == "MESSAGE")
        {
            options.push(format!("MESSAGE = '{name}'"));
        }
        let using = if options.is_empty() { String::new() } else { format!(" USING {}", options.join(", ")) };
        self.said(&format!("RAISE {} {said}{using}", raise.level)).await
    }

    /// ASSERT: the setting that turns it off is home's to know, too.
    pub(super) async fn assert(&mut self, running: &mut Running<'_>, condition: Ex, message: Option<Ex>) -> Result<()> {
        let sql = "SELECT pg_catalog.current_setting('plpgsql.check_asserts', true)";
        let row = self.asked(sql).await?.pop().unwrap_or_default();
        if row.first().and_then(|v| v.as_deref()) == Some(b"off") || self.is_true(running, condition).await? {
            return Ok(());
        }
        let text = match message {
            Some(e) => self.value(running, e).await?.text,
            None => None,
        };
        let message = match &text {
            Some(text) => std::str::from_utf8(text).unwrap_or_default(),
            None => "assertion failed",
        };
        Err(ExecError::sql(wire::sqlstate::ASSERT_FAILURE, message))
    }

    async fn said(&mut self, statement: &str) -> Result<()> {
        let body = format!("BEGIN {statement}; END");
        let sql = format!("DO LANGUAGE plpgsql {}", catalog::quote_literal(&body));
        self.io.catch(self.memory.nothing());
        let done = self.on_home_described(&sql, false).await;
        let (notices, _) = self.io.caught();
        self.io.out().extend_from_slice(&notices);
        done.map(drop)
    }
}

fn first_state(condition: &str) -> &str {
    sql::program::conditions::states(condition).first().copied().unwrap_or(condition)
}
