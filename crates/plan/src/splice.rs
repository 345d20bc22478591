//! When, and where, a partition's name can stand in place of its table's.
//!
//! A statement that names the partition runs at twice the speed of one through the parent, but it is not always the
//! same: row-level security, statement triggers, row types and schema-qualified columns belong to the parent.

use std::sync::Arc;

use catalog::Relation;
use sql::lexer::Lexer;
use sql::{NodeEnum, names, search};

use crate::levels::Analysis;
use crate::types::Splice;

/// The splices for all uses, or `None` where the parent must be named.
pub fn splices(statement: &NodeEnum, text: &str, a: &Analysis, writes: bool) -> Option<Vec<Splice>> {
    let mut found = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (i, u) in a.uses.iter().enumerate() {
        // The rows of one shard are in as many partitions as there are above it.
        if u.relation.distribution().is_some_and(|d| d.is_partitioned())
            || u.relation.row_security
            || u.relation.through.is_some()
            || (writes && u.relation.statement_triggers)
        {
            return None;
        }
        let range = u.range.as_ref()?;
        if range.alias.is_some() && names_hidden(statement, &u.relation.name, a) {
            return None;
        }
        let start = usize::try_from(range.location).ok()?;
        // A CTE used twice is analysed twice: its table is named once.
        if !seen.insert(start) {
            continue;
        }
        let end = name_end(text, start)?;
        let alias = range.alias.is_none().then(|| catalog::quote_ident(&u.relation.name));
        found.push(Splice { start, end, table: i, alias });
    }
    found.sort_by_key(|s| s.start);
    let relations: Vec<_> = a.uses.iter().map(|u| u.relation.clone()).collect();
    parent_needed(statement, &relations).then_some(()).map_or(Some(found), |_| None)
}

/// A column is asked of the table's own name, which its alias hides: the error names the table.
fn names_hidden(statement: &NodeEnum, table: &str, a: &Analysis) -> bool {
    let hidden = |n: &NodeEnum| matches!(n, NodeEnum::ColumnRef(c) if names::strings(&c.fields).first() == Some(&table) && c.fields.len() > 1);
    search::any(statement, hidden) && !a.scopes.values().flat_map(|s| &s.items).any(|i| i.alias == table)
}

/// The end of a possibly qualified and quoted name that starts at `start`.
fn name_end(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = start;
    loop {
        if bytes.get(at) == Some(&b'"') {
            at += 1;
            loop {
                match bytes.get(at)? {
                    b'"' if bytes.get(at + 1) == Some(&b'"') => at += 2,
                    b'"' => break,
                    _ => at += 1,
                }
            }
            at += 1;
        } else {
            let begin = at;
            while bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'$' || *b >= 0x80) {
                at += 1;
            }
            if at == begin {
                return None;
            }
        }
        if bytes.get(at) != Some(&b'.') {
            return ends_at(text, at).then_some(at);
        }
        at += 1;
    }
}

/// Nothing more of a name stands behind it: `s . t`, `U&"t"`, `t *`.
fn ends_at(text: &str, end: usize) -> bool {
    match Lexer::starting_at(text, end, true).next() {
        None => true,
        Some(Ok(next)) => !text[next.start..].starts_with(['.', '&', '*']),
        Some(Err(_)) => false,
    }
}

/// Whole-row references, `schema.table.column`, `tableoid`: things that tell a partition from its table.
fn parent_needed(statement: &NodeEnum, relations: &[Arc<Relation>]) -> bool {
    let mut aliases: Vec<&str> = vec![];
    let mut only = false;
    search::each_relation(statement, |rv| {
        // ONLY and column aliases are handled by not touching anything but the name.
        aliases.push(rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname));
        only |= !rv.inh;
    });
    let is_row = |name: &str| {
        relations.iter().all(|r| r.column(name).is_none())
            && (relations.iter().any(|r| r.name == name) || aliases.contains(&name))
    };
    only || search::any(statement, |n| match n {
        NodeEnum::ColumnRef(c) => {
            let parts = names::strings(&c.fields);
            let star = names::has_star(c);
            parts.len() > 2
                || (star && parts.len() > 1)
                || parts.last() == Some(&"tableoid")
                || matches!(parts[..], [name] if !star && is_row(name))
        }
        // `t.*` as a row value inside a function call is a whole-row reference too.
        NodeEnum::FuncCall(f) => {
            f.args.iter().any(|a| matches!(&a.node, Some(NodeEnum::ColumnRef(c)) if names::has_star(c)))
        }
        _ => false,
    })
}
