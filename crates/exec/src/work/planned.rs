//! Plans a statement that has come about while another one runs. What is more than a moment's work is planned on a thread apart,
//! as the session does with what clients send. It does not know what the statement is for.

use catalog::{Relation, TemporaryRelation};
use std::sync::Arc;

use plan::{Context, Planned};
use sql::NodeEnum;

use crate::error::{ExecError, Result};
use crate::router::compiled::{Compiled, Epoch};

/// The statement's plan under this catalog. `parameters`: the types of its parameters, as far as they are known; `target`: the table an INSERT of it
/// goes to, which the catalog does not have where it is a temporary one.
pub async fn planned(
    epoch: &Arc<Epoch>,
    statement: NodeEnum,
    text: &str,
    search_path: &[String],
    temporary: &[TemporaryRelation],
    parameters: &[u32],
    target: Option<&Arc<Relation>>,
) -> Result<Compiled> {
    let short = plan::Steps::new(plan::Steps::SHORT);
    let cx =
        Context { steps: Some(&short), parameters, target, ..Context::new(&epoch.snapshot, search_path, temporary) };
    let here = plan::plan(&statement, text, &cx);
    let plan = match short.is_spent() {
        false => here?,
        true => {
            let names = (search_path.to_vec(), temporary.to_vec(), parameters.to_vec());
            Box::pin(apart(epoch.clone(), statement, text.to_string(), names, target.cloned())).await?
        }
    };
    Ok(Compiled::new(plan, text, 0, None))
}

async fn apart(
    epoch: Arc<Epoch>,
    statement: NodeEnum,
    text: String,
    (search_path, temporary, parameters): (Vec<String>, Vec<TemporaryRelation>, Vec<u32>),
    target: Option<Arc<Relation>>,
) -> Result<Planned> {
    let planned = tokio::task::spawn_blocking(move || {
        let most = plan::Steps::new(plan::Steps::MOST);
        let names = Context::new(&epoch.snapshot, &search_path, &temporary);
        let own = Context { steps: Some(&most), parameters: &parameters, target: target.as_ref(), ..names };
        let planned = plan::plan(&statement, &text, &own);
        if most.is_spent() { Err(plan::Steps::refusal()) } else { planned }
    });
    Ok(planned.await.map_err(|_| ExecError::internal("planning ended in a panic"))??)
}
