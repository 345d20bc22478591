//! Names in scope at one level of a query: tables, subqueries, common table expressions.
//!
//! It resolves names to variables and does not know where rows are.

use std::collections::HashMap;
use std::rc::Rc;

use sql::ast;

use crate::classes::Var;

/// One item of a FROM list.
#[derive(Clone, Debug)]
pub struct Item {
    pub alias: String,
    /// Schema, where the item is a table without an alias.
    pub schema: Option<String>,
    pub columns: Vec<(String, Option<Var>)>,
    /// Columns are not known (system catalogs, functions, tables of other kinds).
    pub opaque: bool,
}

#[derive(Debug, Default)]
pub struct Scope<'a> {
    pub items: Vec<Item>,
    /// Columns merged by USING or NATURAL: an unqualified name means this one.
    pub merged: HashMap<String, Option<Var>>,
    pub ctes: HashMap<String, Cte<'a>>,
    pub parent: Option<Rc<Scope<'a>>>,
}

#[derive(Clone, Debug)]
pub struct Cte<'a> {
    pub query: &'a ast::CommonTableExpr,
    pub recursive: bool,
}

impl<'a> Scope<'a> {
    /// The variable a column reference means, if it is a plain column of something known.
    pub fn resolve(&self, parts: &[&str]) -> Option<Var> {
        let mut scope = Some(self);
        while let Some(s) = scope {
            let found = match parts {
                [column] => s.unqualified(column),
                [table, column] => s.qualified(None, table, column),
                [schema, table, column] => s.qualified(Some(schema), table, column),
                _ => return None,
            };
            match found {
                Found::Var(v) => return v,
                Found::Unknown => return None,
                Found::Nothing => scope = s.parent.as_deref(),
            }
        }
        None
    }

    fn unqualified(&self, column: &str) -> Found {
        if let Some(v) = self.merged.get(column) {
            return Found::Var(*v);
        }
        let mut opaque = false;
        for item in &self.items {
            if let Some((_, v)) = item.columns.iter().find(|(n, _)| n == column) {
                return Found::Var(*v);
            }
            opaque |= item.opaque;
        }
        if opaque { Found::Unknown } else { Found::Nothing }
    }

    fn qualified(&self, schema: Option<&str>, table: &str, column: &str) -> Found {
        for item in &self.items {
            if item.alias == table && schema.is_none_or(|s| item.schema.as_deref() == Some(s)) {
                return match item.columns.iter().find(|(n, _)| n == column) {
                    Some((_, v)) => Found::Var(*v),
                    None => Found::Unknown,
                };
            }
        }
        Found::Nothing
    }

    pub fn cte(&self, name: &str) -> Option<Cte<'a>> {
        match self.ctes.get(name) {
            Some(cte) => Some(cte.clone()),
            None => self.parent.as_deref()?.cte(name),
        }
    }
}

enum Found {
    Var(Option<Var>),
    /// Named, but not a column we know: no equality can be drawn from it.
    Unknown,
    Nothing,
}
