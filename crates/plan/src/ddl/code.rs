//! Code that a utility statement runs there and then: on rows that it rewrites (ALTER … USING), in bounds of partitions, in the query
//! of a table to be. What it only keeps is judged when it is kept (`plan/src/code.rs`).

use sql::NodeEnum;

use super::place::Cx;
use crate::{Context, Result, needs};

/// `Err`: code that runs now, with the statement, must not run inside one (see `needs.rs`).
pub fn refuse(cx: &Cx) -> Result<()> {
    use NodeEnum::*;
    let context = Context::new(cx.snapshot, &cx.facts.search_path, &cx.facts.temporary);
    match cx.statement {
        ViewStmt(_) | RuleStmt(_) | CreateDomainStmt(_) | CreateTrigStmt(_) | CreateFunctionStmt(_) => Ok(()),
        CreateTableAsStmt(s) => match s.query.as_deref().and_then(|q| q.node.as_ref()) {
            Some(query) => needs::refuse_reached(query, &context),
            None => Ok(()),
        },
        SelectStmt(_) => needs::refuse_reached(cx.statement, &context),
        _ => needs::refuse_called(cx.statement, &context),
    }
}
