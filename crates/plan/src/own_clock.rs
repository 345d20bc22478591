//! `now()` that is somebody's own: a search path may name another schema before PostgreSQL's. Called by its schema, nobody takes it for the clock.

use sql::{NodeEnum, build, names, search};

use crate::Context;

/// What reads the clock by a name of a function (`rewrite::clock_type`).
const CLOCKS: [&str; 3] = ["now", "transaction_timestamp", "statement_timestamp"];

/// The statement with the schema's name before such calls; `None`: it has none.
pub fn qualified(statement: &NodeEnum, cx: &Context) -> Option<NodeEnum> {
    // A path that does not name PostgreSQL's own schema begins with it.
    let before = cx.search_path.iter().position(|schema| schema == "pg_catalog")?;
    let own = |name: &str| {
        let found = cx.snapshot.functions.get(name)?;
        let called = |schema: &&String| {
            found.iter().any(|f| f.schema == **schema && f.arguments.as_ref().is_some_and(Vec::is_empty))
        };
        cx.search_path[..before].iter().find(called)
    };
    if CLOCKS.iter().all(|name| own(name).is_none()) {
        return None;
    }
    let (mut changed, mut any) = (statement.clone(), false);
    search::each_mut(&mut changed, |n| {
        if let NodeEnum::FuncCall(f) = n
            && f.args.is_empty()
            && let (None, name) = names::qualified(&f.funcname)
            && CLOCKS.contains(&name)
            && let Some(schema) = own(name)
        {
            f.funcname.insert(0, build::string(schema));
            any = true;
        }
        true
    });
    any.then_some(changed)
}
