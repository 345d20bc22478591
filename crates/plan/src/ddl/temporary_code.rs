//! Code in pg_temp that something is made of: it would run unseen, and go with its session. It does not know who calls what.

use catalog::code::is_temporary;
use sql::ast::{self, Node};
use sql::{NodeEnum, names, search};

use super::mode::is_temporary as is_of_pg_temp;

/// A change of the schema names a function or operator of pg_temp, and is not about such a function itself.
pub fn uses_temporary_code(statement: &NodeEnum) -> bool {
    let of_temporary = |name: &[Node]| matches!(names::strings(name)[..], [schema, _, ..] if is_temporary(schema));
    let named = |n: &NodeEnum| match n {
        NodeEnum::FuncCall(f) => of_temporary(&f.funcname),
        NodeEnum::AExpr(e) => of_temporary(&e.name),
        NodeEnum::ObjectWithArgs(o) => of_temporary(&o.objname),
        NodeEnum::CreateTrigStmt(t) => of_temporary(&t.funcname),
        NodeEnum::CreateEventTrigStmt(t) => of_temporary(&t.funcname),
        _ => false,
    };
    let with = |o: &Option<ast::ObjectWithArgs>| o.as_ref().is_some_and(|o| of_temporary(&o.objname));
    let own = match statement {
        NodeEnum::CreateFunctionStmt(f) => {
            // Its own defaults and body.
            return search::any(statement, named) && !of_temporary(&f.funcname);
        }
        NodeEnum::AlterFunctionStmt(_) | NodeEnum::DropStmt(_) => {
            return !is_of_pg_temp(statement, &[]) && search::any(statement, named);
        }
        NodeEnum::CreateCastStmt(c) => with(&c.func),
        // What an aggregate or operator is made of is written as if it were a type.
        NodeEnum::DefineStmt(d) => search::any(
            &NodeEnum::DefineStmt(d.clone()),
            |n| matches!(n, NodeEnum::TypeName(t) if of_temporary(&t.names)),
        ),
        _ => false,
    };
    own || named(statement) || search::any(statement, named)
}
