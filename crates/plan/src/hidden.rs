//! What of PostgreSQL's own a search path hides: schemas that it names before pg_catalog, with types of such names, or functions that read as if
//! they told the time. Planning reads both by their names, so they get their schemas first.

use sql::ast::{self, Node};
use sql::{NodeEnum, build, search};

use crate::{Context, rewrite};

/// Gives such names their schemas. True if there were any.
pub fn qualify(tree: &mut NodeEnum, cx: &Context) -> bool {
    let mut found = false;
    search::each_mut(tree, |n| {
        if let Some(schema) = meant(n, cx).map(str::to_string) {
            let names = match n {
                NodeEnum::TypeCast(c) => c.type_name.as_mut().map(|t| &mut t.names),
                NodeEnum::FuncCall(f) => Some(&mut f.funcname),
                _ => None,
            };
            if let Some(names) = names {
                names.insert(0, build::string(&schema));
                found = true;
            }
        }
        true
    });
    found
}

/// Whether there are any. Most paths name nothing before pg_catalog, and no statement is looked through for them.
pub fn any(tree: &NodeEnum, cx: &Context) -> bool {
    !before(cx).is_empty() && search::any(tree, |n| meant(n, cx).is_some())
}

fn before<'c>(cx: &'c Context) -> &'c [String] {
    let at = cx.search_path.iter().position(|schema| schema == "pg_catalog").unwrap_or_default();
    &cx.search_path[..at]
}

/// The schema of what a name without one means, if that is not PostgreSQL's own.
fn meant<'c>(n: &NodeEnum, cx: &'c Context) -> Option<&'c str> {
    let mut before = before(cx).iter();
    let schema = match n {
        NodeEnum::TypeCast(c) => {
            let name = unqualified(&c.type_name.as_ref()?.names)?;
            let snapshot = cx.snapshot;
            before.find(|schema| {
                snapshot.relations.contains_key(&(schema.to_string(), name.to_string()))
                    || snapshot.types.values().any(|t| t.schema == **schema && t.name == name)
            })
        }
        NodeEnum::FuncCall(f) if rewrite::clock_type(n).is_some() => {
            let name = unqualified(&f.funcname)?;
            let own = cx.snapshot.functions.get(name)?;
            let meant = |f: &catalog::Function| f.arguments.as_ref().is_none_or(Vec::is_empty);
            before.find(|schema| own.iter().any(|f| f.schema == **schema && meant(f)))
        }
        _ => None,
    };
    schema.map(String::as_str)
}

fn unqualified(name: &[Node]) -> Option<&str> {
    match name {
        [Node { node: Some(NodeEnum::String(ast::String { sval })) }] => Some(sval),
        _ => None,
    }
}
