//! Code that a utility statement runs there and then: on rows that it rewrites (ALTER … USING), in bounds of partitions, in the query
//! of a table to be. What it only keeps is judged when it is kept (`plan/src/code.rs`).

use sql::ast::ObjectType;
use sql::{NodeEnum, build};

use super::place::{Cx, object_type};
use crate::{Context, Result, inline, needs, opened};

/// A statement that makes a table of a query without the calls of functions that their queries can replace (see `inline.rs`). A view
/// keeps what it was made of.
pub fn inlined(cx: &Cx) -> Option<NodeEnum> {
    let context = Context::new(cx.snapshot, &cx.facts.search_path, &cx.facts.temporary);
    match cx.statement {
        NodeEnum::CreateTableAsStmt(s) if object_type(s.objtype) == ObjectType::ObjectTable => {
            let query @ NodeEnum::SelectStmt(_) = s.query.as_deref()?.node.as_ref()? else { return None };
            let opened = opened::views(query, &context).ok().flatten();
            let query = inline::calls(opened.as_ref().map_or(query, |(opened, _)| opened), &context)?;
            let mut made = s.clone();
            made.query = Some(Box::new(build::node(query)));
            Some(NodeEnum::CreateTableAsStmt(made))
        }
        NodeEnum::SelectStmt(s) if s.into_clause.is_some() => inline::calls(cx.statement, &context),
        _ => None,
    }
}

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
