//! What EXPLAIN shows of a read that column copies answer: the plan of one node's store for each part, asked as the rows would be
//! (`columns.rs`), and with the client's rights. How it is shown is not known here.

use catalog::NodeId;
use plan::Planned;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::request::Request;
use crate::router::compiled::Compiled;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// The plans of stores for what they would be asked, one for each part, and of which node the store is that has told it. `None`: they are not
    /// asked, as rows are read, or one of them does not say.
    pub async fn column_plans(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
    ) -> Result<Option<Vec<(NodeId, String)>>> {
        let Planned::Query { tree: Ok(finish), .. } = &compiled.plan else { return Ok(None) };
        let parts = finish.parts();
        if parts.is_empty() || parts.iter().any(|part| part.columns.is_none()) {
            return Ok(None);
        }
        let described = self.described(compiled, request.types()).await?;
        let Some(reads) = self.column_parts(compiled, request, finish, &parts) else {
            return Ok(None);
        };
        let bound = described.parameters(request);
        let Some(questions) = self.all_questions(compiled, request, (&parts, &reads), &bound).await? else {
            return Ok(None);
        };
        // All stores have the same tables: one speaks for them.
        let questions: Vec<_> = questions.into_iter().filter_map(|asked| asked.into_iter().next()).collect();
        if questions.len() < parts.len() || self.may_read(&reads).await.is_none() {
            return Ok(None);
        }
        let mut plans = Vec::with_capacity(parts.len());
        for (node, store, asked) in questions {
            let said = tokio::select! {
                biased;
                () = self.client.cancelled() => return Err(ExecError::cancelled()),
                said = store.plan(&asked) => said,
            };
            let Ok(plan) = said else { return Ok(None) };
            plans.push((node, plan));
        }
        Ok(Some(plans))
    }
}
