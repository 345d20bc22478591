//! Whether names mean PostgreSQL's own operators, functions and types. Somebody may have made others that come first, or that fit better.

use sql::ast::{self, Node};
use sql::names;
use wire::type_oid::{self, FIRST_NORMAL_OBJECT_ID};

use super::types::Ty;
use super::{Found, refused};
use crate::Context;

/// An operator's name, if it can mean PostgreSQL's own alone.
pub fn operator<'n>(name: &'n [Node], cx: &Context) -> Found<&'n str> {
    match names::qualified(name) {
        (Some("pg_catalog"), name) => Ok(name),
        (None, name) => is_own(name, cx).map(|()| name),
        (Some(schema), name) => Err(refused(&format!("operator {schema}.{name}"))),
    }
}

/// The same of one that has no name in the statement: `=` of IN.
pub fn is_own(name: &str, cx: &Context) -> Found<()> {
    match cx.others_operator(name) {
        None => Ok(()),
        Some(schema) => Err(format!("schema \"{schema}\" of the search path has an operator {name} of its own")),
    }
}

/// A function's name, if it can mean PostgreSQL's own alone. Of those in other schemas only the ones do not matter that take a type of
/// somebody's own.
pub fn function<'n>(call: &'n ast::FuncCall, cx: &Context) -> Found<&'n str> {
    let (schema, name) = names::qualified(&call.funcname);
    if schema.is_some_and(|s| s != "pg_catalog") || cx.functions(&call.funcname).next().is_none() {
        return Err(refused(&format!("{name}()")));
    }
    let takes_own = |types: &Vec<u32>| types.iter().any(|oid| *oid >= FIRST_NORMAL_OBJECT_ID);
    let other = |f: &catalog::Function| f.schema != "pg_catalog" && !f.arguments.as_ref().is_some_and(takes_own);
    match cx.functions(&call.funcname).find(|f| other(f)) {
        None => Ok(name),
        Some(f) => Err(format!("schema \"{}\" of the search path has a function {name} of its own", f.schema)),
    }
}

/// The type of a cast, without a modifier, if its name can mean PostgreSQL's own alone.
pub fn cast(name: &ast::TypeName, cx: &Context) -> Found<Ty> {
    let called = names::last(&name.names);
    let alone = name.names.len() == 1;
    if alone
        && (cx.snapshot.code.builtin_types.contains(called) || cx.snapshot.types.values().any(|t| t.name == called))
    {
        return Err(format!("there is another type \"{called}\""));
    }
    let plain = names::plain_type(name).filter(|_| name.typmods.is_empty());
    let ty = plain.and_then(type_oid::named).and_then(Ty::of_oid);
    ty.ok_or_else(|| refused(&format!("a cast to {called}")))
}
