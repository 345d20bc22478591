//! What EXPLAIN says of a plan. It does not run anything and does not know nodes' own plans.

use crate::types::*;

/// The lines that describe a plan over several nodes, without the nodes' statements.
pub fn describe(plan: &Plan) -> Vec<String> {
    let finish = |f: &Finish| match f {
        Finish::Stream(s) if s.sort.is_empty() => "append".to_string(),
        Finish::Stream(s) => {
            format!("merge by {} sort {}", s.sort.len(), if s.sort.len() == 1 { "column" } else { "columns" })
        }
        Finish::Combine { .. } => "combine one row a node".to_string(),
        Finish::Sql(text) => format!("sql: {text}"),
    };
    match &plan.multi {
        Multi::Select(m) => vec![format!("Finish: {}", finish(&m.finish))],
        Multi::Modify { .. } => vec!["Finish: add up".into()],
        Multi::Insert(i) => vec![format!("Rows: {} split by key", i.keys.len())],
        Multi::InsertSelect(i) if i.colocated.is_some() => vec!["Rows stay on their nodes".into()],
        Multi::InsertSelect(i) => vec![format!("Rows pass through the router: {}", i.source_sql)],
        Multi::Move(_) => vec!["Rows move to the nodes of their new keys".into()],
        Multi::Reference(_) => vec!["On every node".into()],
        Multi::None | Multi::Refuse(_) => vec![],
    }
}
