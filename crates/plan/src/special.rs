//! Statements that leave something behind in a session: which functions and statements do. What follows from it is not known here.

use std::collections::HashSet;
use std::sync::Arc;

use catalog::code::is_temporary;
use catalog::{Placement, Relation, RelationKind, Volatility};
use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};
use wire::type_oid::FIRST_NORMAL_OBJECT_ID;

use crate::admin::AdminFunction;
use crate::needs::{self, Told};
use crate::{Context, Result, code};

/// The view whose UPDATE sets parameters of the session.
const SETTINGS: &str = "pg_settings";

/// What a statement does besides giving rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Special {
    /// It takes something that belongs to the connection: an advisory lock, a large object.
    pub pins: bool,
    /// It may run code that uses any table, by text it puts together.
    pub watched: bool,
    /// It does, where errors are caught.
    pub catches: bool,
    /// It uses a table whose code breaks the rule of where code may be.
    pub marked: bool,
    /// Code that it runs on several nodes, in words, and what is temporary in this session that this code names.
    pub hides: Option<(String, String)>,
    /// It calls a function of a user's own, which may have written anything.
    pub writes: bool,
    /// It calls a function that routers run: its name.
    pub calls_admin: Option<String>,
    /// It asks for values the session took from sequences.
    pub reads_sequences: bool,
    /// What it may leave behind in the session.
    pub leaves: Leaves,
}

/// What a statement may leave behind in the session.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Leaves {
    /// It calls code of users' own that may leave something behind.
    pub code: bool,
    /// Parameters that it may set.
    pub by_code: Vec<String>,
    /// `set_config('name', …)`: the parameters.
    pub settings: Vec<String>,
    /// `set_config($1, …)`: the numbers of the client's parameters.
    pub named_by: Vec<i32>,
    /// `set_config(… || …, …)`.
    pub unknown: bool,
    /// A `set_config` that is not `is_local`.
    pub beyond: bool,
}

impl Leaves {
    /// Whether there is something to look for: outside a transaction, what is local is gone with the statement.
    pub fn anything(&self, in_transaction: bool) -> bool {
        let sets = !self.settings.is_empty() || !self.named_by.is_empty() || self.unknown;
        self.code || sets && (in_transaction || self.beyond)
    }

    /// What code of users' own may leave that it comes to run.
    fn add(&mut self, left: Option<catalog::Left>) {
        let Some(left) = left else { return };
        self.code = true;
        self.by_code.extend(left.settings);
        self.unknown |= left.opaque;
    }
}

impl Special {
    /// Code that it comes to may not run so.
    pub fn refused(&self) -> Result<()> {
        if self.marked {
            return Err(code::marked());
        }
        if let Some((who, name)) = &self.hides {
            return Err(code::hidden(who, name));
        }
        if self.catches { Err(code::caught()) } else { Ok(()) }
    }

    /// Nothing in it is the session's own affair.
    pub fn is_plain(&self) -> bool {
        *self == Special::default()
    }
}

/// `cx` has the types of the statement's parameters: values become such before anything runs.
pub fn special(statement: &NodeEnum, cx: &Context) -> Special {
    let snapshot = cx.snapshot;
    let named = !snapshot.named_by_code.is_empty() || !snapshot.named_by_calls.is_empty();
    let hides = !cx.temporary.is_empty() && named;
    let any = hides || !(snapshot.relation_code.is_empty() && snapshot.domains.is_empty());
    let writes = any && writes(statement);
    let (words, called) = (HashSet::new(), None);
    let mut find = Find { cx, writes, hides, words, told: vec![], shared: false, called, special: Special::default() };
    find.node(statement);
    walk::below(statement, &mut find);
    let by_types = || snapshot.session_code.left_by_types();
    for oid in cx.parameters.iter().filter(|oid| **oid >= FIRST_NORMAL_OBJECT_ID) {
        match snapshot.types.get(oid) {
            Some(t) => find.words.extend([&*t.schema, &*t.name]),
            None => find.special.leaves.add(by_types()),
        }
    }
    let words = find.words.into_iter().chain(find.told.iter().map(String::as_str));
    find.special.leaves.add(snapshot.session_code.leaves(words, cx.search_path));
    if find.shared && find.special.hides.is_none() {
        find.special.hides = find.called;
    }
    find.special
}

/// Whether expressions of the statement may run text that somebody puts together; not relations it names.
pub fn calls_text(statement: &NodeEnum, cx: &Context) -> bool {
    sql::search::any(statement, |n| needs::runs_text(n, cx))
}

fn writes(statement: &NodeEnum) -> bool {
    use NodeEnum::*;
    let is_write = |n: &NodeEnum| match n {
        InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) | TruncateStmt(_) => true,
        CopyStmt(c) => c.is_from,
        _ => false,
    };
    is_write(statement) || sql::search::any(statement, is_write)
}

struct Find<'s, 'a> {
    cx: &'s Context<'s>,
    /// The statement writes to a table, wherever that stands.
    writes: bool,
    /// Code may name what is temporary in the session.
    hides: bool,
    /// It names what other nodes have, too.
    shared: bool,
    /// A function it calls, which names what is temporary: as [`Special::hides`].
    called: Option<(String, String)>,
    /// Parts of names, whatever they name.
    words: HashSet<&'a str>,
    /// The same of types that functions are told.
    told: Vec<String>,
    special: Special,
}

impl<'a> Visit<'a> for Find<'_, 'a> {
    fn range_var(&mut self, rv: &'a ast::RangeVar) {
        self.words.extend([&*rv.schemaname, &*rv.relname]);
        // Of its columns' types nothing is known here, nor of what those run.
        if self.cx.snapshot.session_code.by_types && (rv.schemaname.starts_with("pg_temp") || self.cx.is_temporary(rv))
        {
            self.special.leaves.add(self.cx.snapshot.session_code.left_by_types());
        }
        self.special.watched |= needs::relation_runs_text(rv, self.writes, self.cx)
            || self.writes && needs::temporary_runs_text(rv, self.cx);
        self.special.marked |= needs::is_marked(rv, self.cx);
        if self.hides {
            let is_shared =
                |r: &Arc<Relation>| r.kind == RelationKind::View || !matches!(r.placement, Placement::Local);
            self.shared |= self.cx.relation(rv).is_some_and(is_shared);
            if self.called.is_none() {
                let view = || format!("what view \"{}\" calls", rv.relname);
                self.called = needs::view_hides(rv, self.cx).map(|hidden| (view(), hidden.to_string()));
            }
            if self.writes && self.special.hides.is_none() {
                let code = || format!("code that runs where \"{}\" is written", rv.relname);
                self.special.hides = needs::hides(rv, self.cx).map(|name| (code(), name.to_string()));
            }
        }
    }

    fn node(&mut self, n: &'a NodeEnum) -> bool {
        self.special.watched |= needs::runs_text(n, self.cx);
        self.special.catches |= self.writes && needs::catches(n, self.cx);
        match n {
            NodeEnum::FuncCall(f) => self.call(f),
            NodeEnum::CallStmt(c) => c.funccall.iter().for_each(|f| self.call(f)),
            // Of functions, types and operators; of columns, too, as a row's function may be written as if it were one.
            NodeEnum::String(s) => drop(self.words.insert(&s.sval)),
            NodeEnum::UpdateStmt(u) => {
                self.special.leaves.code |= u.relation.as_ref().is_some_and(|rv| rv.relname == SETTINGS);
            }
            _ => {}
        }
        true
    }
}

impl Find<'_, '_> {
    fn call(&mut self, f: &ast::FuncCall) {
        let name = names::last(&f.funcname);
        if self.hides && self.called.is_none() {
            self.called = needs::call_hides(f, self.cx).map(|hidden| (format!("{name}()"), hidden.to_string()));
        }
        let session_lock = (name.starts_with("pg_advisory_") || name.starts_with("pg_try_advisory_"))
            && !name.contains("_xact")
            && !name.contains("unlock");
        self.special.pins |= session_lock;
        if name == "set_config" {
            self.set_config(f);
        } else if !session_lock && self.lasts(names::qualified(&f.funcname)) {
            self.special.leaves.code = true;
            // What PostgreSQL's own leave, and what a text does, has no name to ask for.
            self.special.leaves.unknown |=
                self.cx.functions(&f.funcname).any(|f| f.schema == "pg_catalog" || f.dynamic);
        }
        if self.cx.snapshot.session_code.by_types {
            match needs::told(f, self.cx) {
                Some(Told::Type(name)) => self.told.extend(name),
                Some(Told::Any) => self.special.leaves.code = true,
                None => {}
            }
        }
        if AdminFunction::of(f, self.cx).is_some() {
            self.special.calls_admin = Some(name.to_string());
        }
        self.special.reads_sequences |= crate::sequences::reads(f);
        self.special.writes |=
            self.cx.functions(&f.funcname).any(|f| f.user_defined && f.volatility == Volatility::Volatile);
    }

    /// One that comes with PostgreSQL and may leave something, or the session's own, of which nothing is known.
    fn lasts(&self, name: (Option<&str>, &str)) -> bool {
        name.0.is_some_and(is_temporary) || self.cx.snapshot.lasts(name, self.cx.search_path)
    }

    fn set_config(&mut self, f: &ast::FuncCall) {
        let leaves = &mut self.special.leaves;
        leaves.beyond |= !f.args.get(2).is_some_and(is_true);
        match f.args.first() {
            Some(name) => match (string(name), parameter(name)) {
                (Some(setting), _) => leaves.settings.push(setting.to_ascii_lowercase()),
                (None, Some(number)) => leaves.named_by.push(number),
                (None, None) => leaves.unknown = true,
            },
            None => leaves.unknown = true,
        }
    }
}

fn parameter(node: &Node) -> Option<i32> {
    match node.node.as_ref()? {
        NodeEnum::ParamRef(p) => Some(p.number),
        NodeEnum::TypeCast(t) => parameter(t.arg.as_deref()?),
        _ => None,
    }
}

fn string(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Sval(s)), .. }) => Some(&s.sval),
        NodeEnum::TypeCast(t) => string(t.arg.as_deref()?),
        NodeEnum::String(s) => Some(&s.sval),
        _ => None,
    }
}

fn is_true(node: &Node) -> bool {
    matches!(&node.node, Some(NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Boolval(b)), .. })) if b.boolval)
}
