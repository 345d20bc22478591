//! Statements that leave something behind in a session: which functions and statements do, and what follows from it.

use catalog::{Snapshot, Volatility};
use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

/// What a statement does besides giving rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Special {
    /// `set_config('name', …, false)`: the setting's name.
    pub set_config: Vec<String>,
    /// It takes something that belongs to the connection: an advisory lock, a large object.
    pub pins: bool,
    /// `set_config($1, …)`.
    pub sets_unknown: bool,
    /// It calls a function of a user's own, which may have set anything.
    pub taints: bool,
    /// It calls a function that may use any table, by text it puts together.
    pub watched: bool,
}

impl Special {
    pub fn is_plain(&self) -> bool {
        *self == Special::default()
    }
}

pub fn special(statement: &NodeEnum, snapshot: &Snapshot) -> Special {
    let mut find = Find { snapshot, special: Special::default() };
    walk::below(statement, &mut find);
    find.special
}

struct Find<'s> {
    snapshot: &'s Snapshot,
    special: Special,
}

impl<'a> Visit<'a> for Find<'_> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        let NodeEnum::FuncCall(f) = n else { return true };
        let name = names::last(&f.funcname);
        if name == "set_config" {
            let local = f.args.get(2).is_some_and(is_true);
            match f.args.first().and_then(string) {
                Some(setting) if !local => self.special.set_config.push(setting.to_ascii_lowercase()),
                Some(_) => {}
                None => self.special.sets_unknown = true,
            }
        }
        let session_lock = (name.starts_with("pg_advisory_") || name.starts_with("pg_try_advisory_"))
            && !name.contains("_xact")
            && !name.contains("unlock");
        self.special.pins |= session_lock;
        self.special.taints |=
            self.snapshot.functions(name).any(|f| f.user_defined && f.volatility == Volatility::Volatile);
        self.special.watched |= self.snapshot.functions(name).any(|f| f.dynamic);
        true
    }
}

fn string(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Sval(s)), .. }) => Some(&s.sval),
        NodeEnum::TypeCast(t) => string(t.arg.as_deref()?),
        _ => None,
    }
}

fn is_true(node: &Node) -> bool {
    matches!(&node.node, Some(NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Boolval(b)), .. })) if b.boolval)
}

/// The view of PostgreSQL's that would show a connection's prepared statements in place of the session's.
pub fn names_prepared_statements(statement: &NodeEnum) -> bool {
    sql::relations::of(statement).iter().any(|rv| rv.relname == "pg_prepared_statements")
}
