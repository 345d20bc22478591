//! Passwords in CREATE and ALTER ROLE: hashed here, once for all nodes, by as many rounds as the session has set. Who sets many
//! waits for them alone. It does not know how roles come to the nodes.

use plan::ddl::with_verifier;
use sql::NodeEnum;
use wire::scram::SCRAM_ITERATIONS;
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::roles::ITERATIONS;
use crate::work::Work;

/// More take longer than a second, of a processor that others share.
const ITERATIONS_MAX: u32 = 1_000_000;

impl<C: Client> Work<'_, C> {
    /// The statement with a verifier in place of its clear password.
    pub async fn hashed(&mut self, statement: &NodeEnum) -> Result<Option<NodeEnum>> {
        let said = self.ask_home(&format!("SELECT {ITERATIONS}")).await?;
        let said = said.into_iter().flatten().next().flatten();
        let iterations = said.and_then(|n| n.parse().ok()).unwrap_or(SCRAM_ITERATIONS);
        if iterations > ITERATIONS_MAX {
            let error = format!("scram_iterations is {iterations}: more than {ITERATIONS_MAX} can't be counted here");
            return Err(ExecError::sql(sqlstate::PROGRAM_LIMIT_EXCEEDED, error)
                .hint("Give the role a verifier in place of its password: psql's \\password makes one."));
        }
        let mut salt = [0; 16];
        rand::fill(&mut salt[..]);
        if iterations <= SCRAM_ITERATIONS {
            return Ok(with_verifier(statement, &salt, iterations));
        }
        let statement = statement.clone();
        let hashed = tokio::task::spawn_blocking(move || with_verifier(&statement, &salt, iterations)).await;
        hashed.map_err(|e| ExecError::internal(format!("hashing a password: {e}")))
    }
}
