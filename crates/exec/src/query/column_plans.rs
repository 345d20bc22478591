//! What EXPLAIN shows of a read that column copies answer: the plan of one node's store for each part, asked as the rows would be
//! (`columns.rs`), and with the client's rights. How it is shown is not known here.

use catalog::NodeId;
use pool::PoolError;
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::request::Request;
use crate::router::compiled::Compiled;
use crate::work::Work;

/// What stores would do.
pub enum ColumnPlans {
    /// One plan for each part, and of which node the store is that has told it.
    Told(Vec<(NodeId, String)>),
    /// They are asked, and one of them, of before, does not tell.
    Untold,
    /// They are not asked, or can't answer: rows are read, and why.
    Rows(String),
    /// No table has a copy.
    NoCopies,
}

impl<C: Client> Work<'_, C> {
    /// The plans of stores for what they would be asked.
    pub async fn column_plans(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<ColumnPlans> {
        let Some(finish) = compiled.plan.finish() else { return Ok(ColumnPlans::NoCopies) };
        let parts = finish.parts();
        if parts.iter().all(|part| part.columns.is_none()) {
            return Ok(ColumnPlans::NoCopies);
        }
        let described = self.described(compiled, request.types()).await?;
        let rows = |why: &str| Ok(ColumnPlans::Rows(why.to_string()));
        let reads = match self.column_parts(compiled, request, finish, &parts) {
            Ok(reads) => reads,
            Err(why) => return rows(why),
        };
        let bound = described.parameters(request);
        let questions = match self.all_questions(compiled, request, (&parts, &reads), &bound).await? {
            Ok(questions) => questions,
            Err(why) => return rows(why),
        };
        // All stores have the same tables: one speaks for them.
        let mut of_parts: Vec<_> = parts.iter().map(|_| None).collect();
        for (node, (store, asked)) in questions {
            for (place, asked) in asked {
                of_parts[place].get_or_insert((node, store.clone(), asked));
            }
        }
        let questions: Vec<_> = of_parts.into_iter().flatten().collect();
        if questions.len() < parts.len() {
            return rows("there is no shard to look at");
        }
        if self.may_read(&reads).await.is_none() {
            return rows("home does not say that it may be read");
        }
        let mut plans = Vec::with_capacity(parts.len());
        for (node, store, asked) in questions {
            let said = tokio::select! {
                biased;
                () = self.client.cancelled() => return Err(ExecError::cancelled()),
                said = store.plan(&asked) => said,
            };
            match said {
                Ok(plan) => plans.push((node, plan)),
                Err(PoolError::Server(e)) if e.code() == sqlstate::SYNTAX_ERROR => return Ok(ColumnPlans::Untold),
                Err(why) => return Ok(ColumnPlans::Rows(format!("the store says: {why}"))),
            }
        }
        Ok(ColumnPlans::Told(plans))
    }
}
