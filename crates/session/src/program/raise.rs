//! RAISE: PostgreSQL says it, on home, with the values in place.

use exec::ExecError;
use sql::program::Raise;

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
            values.push(literal(&self.value_of(running, e).await?.text)?);
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
            options.push(format!("{option} = {}", literal(&self.value_of(running, e).await?.text)?));
        }
        // The condition's name is the message where there is no other.
        if let (None, Some(name)) = (&raise.message, &raise.condition)
            && !raise.options.iter().any(|(option, _)| *option == "MESSAGE")
        {
            options.push(format!("MESSAGE = '{name}'"));
        }
        let using = if options.is_empty() { String::new() } else { format!(" USING {}", options.join(", ")) };
        let body = format!("BEGIN RAISE {} {said}{using}; END", raise.level);
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
