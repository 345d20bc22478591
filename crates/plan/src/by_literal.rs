//! Calls of which a literal's value decides what is done: such a plan holds for its own text, and for no other statement of its template. What keys
//! literals are, templates find again by themselves; what a call comes to is not known here.

use catalog::code::TAKE_TYPES;
use sql::{NodeEnum, names, search};

use crate::{backends, sizes};

/// Whether a statement has such a call.
pub fn decides(statement: &NodeEnum) -> bool {
    search::any(statement, |n| match n {
        NodeEnum::FuncCall(f) => {
            let name = names::last(&f.funcname);
            TAKE_TYPES.contains(&name) || sizes::NAMES.contains(&name) || backends::is_encoding(f)
        }
        _ => false,
    })
}

/// Whether it reads a setting: of a client's own, `client_encoding`, another plan tells (`backends.rs`).
pub fn reads_setting(statement: &NodeEnum) -> bool {
    search::any(
        statement,
        |n| matches!(n, NodeEnum::FuncCall(f) if names::last(&f.funcname) == backends::READS_SETTING),
    )
}
