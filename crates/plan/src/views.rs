//! Views over distributed and reference tables are replaced by their queries, so that planning sees the tables.
//!
//! Views over local tables and system views are left as they are.

use sql::NodeEnum;
use sql::ast;
use sql::walk::{self, Visit, VisitMut};
use sql::{build, names};

use catalog::{Placement, RelationKind};

use crate::refuse::Refusal;
use crate::{Context, Result};

const DEPTH_MAX: usize = 32;

/// Replaces them; true if there was one.
pub fn expand(statement: &mut NodeEnum, cx: &Context) -> Result<bool> {
    let mut any = false;
    for _ in 0..DEPTH_MAX {
        let mut v = Expand { cx, ctes: cte_names(statement), found: false, error: None };
        // The target of a write is never replaced: writing through views is refused by the planners.
        walk::below_mut(statement, &mut v);
        if let Some(e) = v.error {
            return Err(e);
        }
        if !v.found {
            return Ok(any);
        }
        any = true;
    }
    Err(Refusal::bare("views are nested too deeply"))
}

fn cte_names(statement: &NodeEnum) -> Vec<String> {
    struct Names(Vec<String>);
    impl<'a> Visit<'a> for Names {
        fn node(&mut self, n: &'a NodeEnum) -> bool {
            if let NodeEnum::CommonTableExpr(c) = n {
                self.0.push(c.ctename.clone());
            }
            true
        }
    }
    let mut v = Names(vec![]);
    walk::below(statement, &mut v);
    v.0
}

struct Expand<'a> {
    cx: &'a Context<'a>,
    ctes: Vec<String>,
    found: bool,
    error: Option<Refusal>,
}

impl Expand<'_> {
    fn expansion(&mut self, rv: &ast::RangeVar) -> Option<NodeEnum> {
        let (schema, name) = names::table(rv);
        let temporary = schema.is_none() && self.cx.temporary.iter().any(|t| t == name);
        if temporary || (schema.is_none() && self.ctes.iter().any(|c| c == name)) {
            return None;
        }
        let relation = self.cx.snapshot.resolve(schema, name, self.cx.search_path)?;
        if relation.kind != RelationKind::View || !reads_herd(relation.view.as_deref()?, self.cx, 0) {
            return None;
        }
        let text = relation.view.as_deref()?;
        let query = match sql::parse(text, true) {
            Ok(mut statements) if statements.len() == 1 => statements.remove(0),
            _ => {
                self.error = Some(Refusal::bare(format!("the definition of view {name} could not be read")));
                return None;
            }
        };
        let NodeEnum::SelectStmt(select) = query else { return None };
        let alias = rv.alias.clone().unwrap_or_else(|| build::alias(name));
        build::subselect(*select, Some(alias), false).node
    }
}

impl VisitMut for Expand<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        // Range variables inside FROM lists and joins arrive through their parents' lists.
        match n {
            NodeEnum::JoinExpr(j) => {
                for side in [&mut j.larg, &mut j.rarg].into_iter().flatten() {
                    self.replace(side);
                }
            }
            NodeEnum::UpdateStmt(u) => u.from_clause.iter_mut().for_each(|f| self.replace(f)),
            NodeEnum::DeleteStmt(d) => d.using_clause.iter_mut().for_each(|f| self.replace(f)),
            _ => {}
        }
        true
    }

    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        s.from_clause.iter_mut().for_each(|f| self.replace(f));
        true
    }
}

impl Expand<'_> {
    fn replace(&mut self, node: &mut ast::Node) {
        if let Some(NodeEnum::RangeVar(rv)) = &node.node
            && let Some(new) = self.expansion(&rv.clone())
        {
            node.node = Some(new);
            self.found = true;
        }
    }
}

/// The view's query names a distributed or reference table, itself or through other views.
pub fn reads_herd(view: &str, cx: &Context, depth: usize) -> bool {
    struct Tables(Vec<(Option<String>, String)>);
    impl<'a> Visit<'a> for Tables {
        fn range_var(&mut self, rv: &'a ast::RangeVar) {
            let (schema, name) = names::table(rv);
            self.0.push((schema.map(str::to_string), name.to_string()));
        }
    }
    if depth > DEPTH_MAX {
        return true;
    }
    let Ok(statements) = sql::parse(view, true) else { return false };
    let mut v = Tables(vec![]);
    statements.iter().for_each(|s| walk::below(s, &mut v));
    v.0.iter().any(|(schema, name)| match cx.snapshot.resolve(schema.as_deref(), name, cx.search_path) {
        Some(r) => match (&r.placement, &r.view) {
            (Placement::Local, Some(view)) => reads_herd(view, cx, depth + 1),
            (Placement::Local, None) => false,
            _ => true,
        },
        None => false,
    })
}
