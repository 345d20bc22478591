//! Which of several functions of one name a call means, as far as the type of its result depends on that.
//!
//! As PostgreSQL does it (parse_func.c, `func_get_detail`): one that takes just the types of the arguments is meant before any
//! other. Where there is none, PostgreSQL weighs what can be made of the arguments, and nothing is said here; but for varchar,
//! which has hardly a function of its own and is text to those that take it.

use sql::ast::{self, Node};
use wire::type_oid::{TEXT, VARCHAR};

use crate::Context;

/// The type of a call's result. `type_of`: that of an argument.
pub fn returns(call: &ast::FuncCall, type_of: impl Fn(&Node) -> Option<u32>, cx: &Context) -> Option<u32> {
    let overloads = || cx.functions(&call.funcname);
    let first = overloads().next()?.returns;
    if overloads().all(|o| o.returns == first) {
        return Some(first);
    }
    // Another's function of the name may come first, and what it takes is not known.
    if call.func_variadic || overloads().any(|o| o.schema != "pg_catalog") {
        return None;
    }
    let given: Vec<u32> = call.args.iter().map(type_of).collect::<Option<_>>()?;
    let taking = |types: &[u32]| {
        let mut all = overloads().filter(|o| o.arguments.as_deref() == Some(types));
        all.next().map(|o| o.returns)
    };
    taking(&given).or_else(|| {
        let takes_varchar = overloads().filter_map(|o| o.arguments.as_ref()).any(|types| types.contains(&VARCHAR));
        let as_text = |oid: u32| if oid == VARCHAR { TEXT } else { oid };
        let texts: Vec<u32> = given.iter().copied().map(as_text).collect();
        if takes_varchar { None } else { taking(&texts) }
    })
}
