//! Values that go from one type to another, as PL/pgSQL's assignment has it: by the cast that is allowed in an assignment, or else by
//! how the value is printed.

use std::sync::Arc;

use exec::{Bound, ExecError, bind_tail};
use sql::NodeEnum;
use sql::ast::{self, Node};
use sql::program::Expression;
use wire::sqlstate;
use wire::type_oid;

use super::{Held, Running, Text, Value};
use crate::session::{Result, Session};

/// The string that an expression is.
fn constant(tree: &NodeEnum) -> Option<&str> {
    let NodeEnum::SelectStmt(s) = tree else { return None };
    let [Node { node: Some(NodeEnum::ResTarget(target)) }] = &s.target_list[..] else { return None };
    match target.val.as_deref()?.node.as_ref()? {
        NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Sval(text)), .. }) if s.from_clause.is_empty() => {
            Some(&text.sval)
        }
        _ => None,
    }
}

impl Session {
    /// Gives a variable a value.
    pub(super) async fn assign(&mut self, running: &mut Running<'_>, at: usize, value: Value) -> Result<()> {
        let (oid, name) = match &running.held[at] {
            Held::Value { oid, name, .. } => (*oid, name.clone()),
            Held::Any(_) | Held::Record(_) => return Err(ExecError::internal("a variable without a type")),
        };
        let text = self.converted(running, value, oid, &name).await?;
        if text.is_none() && running.program.variables[at].not_null {
            let message =
                format!("null value cannot be assigned to variable \"{}\" declared NOT NULL", running.name_of(at));
            return Err(ExecError::sql(sqlstate::NULL_VALUE_NOT_ALLOWED, message));
        }
        running.held[at] = Held::Value { oid, name, text };
        Ok(())
    }

    /// `variable := expression`
    pub(super) async fn assign_expression(
        &mut self,
        running: &mut Running<'_>,
        at: usize,
        e: &Expression,
    ) -> Result<()> {
        let value = match (constant(&e.tree), &running.held[at]) {
            // A string by itself is read as one of the variable's type.
            (Some(text), Held::Value { oid, name, .. }) => {
                let oid = *oid;
                let sql = format!("SELECT CAST({} AS {name})", catalog::quote_literal(text));
                let text = self.asked(&sql).await?.pop().and_then(|row| row.into_iter().next()).flatten();
                Value { oid, text }
            }
            _ => self.value_of(running, e).await?,
        };
        self.assign(running, at, value).await
    }

    /// A value as one of another type, which is called `name`.
    pub(super) async fn converted(
        &mut self,
        running: &mut Running<'_>,
        value: Value,
        oid: u32,
        name: &str,
    ) -> Result<Text> {
        // What a modifier would change goes the long way.
        if value.text.is_none() || value.oid == oid && !name.contains('(') {
            return Ok(value.text);
        }
        let from = match self.is_cast(running, value.oid, oid).await? {
            true => value.oid,
            // As it is printed.
            false => type_oid::UNKNOWN,
        };
        let sql = match from {
            type_oid::UNKNOWN => format!("SELECT CAST(CAST($1 AS pg_catalog.text) AS {name})"),
            _ => format!("SELECT CAST($1 AS {name})"),
        };
        let given = if from == type_oid::UNKNOWN { type_oid::TEXT } else { from };
        let mut bound = Bound { types: Arc::from([given]), values: vec![value.text], ..Bound::default() };
        bound.tail = bind_tail(&bound);
        let tree = sql::parse(&sql, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let mut rows = self.nested(&tree, &sql, &bound).await?;
        Ok(rows.rows.pop().and_then(|row| row.into_iter().next()).flatten())
    }

    /// There is a cast that an assignment may use; of arrays and domains, nobody here knows.
    async fn is_cast(&mut self, running: &mut Running<'_>, from: u32, to: u32) -> Result<bool> {
        if from == to {
            return Ok(true);
        }
        if let Some(known) = running.casts.get(&(from, to)) {
            return Ok(*known);
        }
        let sql = format!(
            "SELECT (SELECT c.castcontext FROM pg_catalog.pg_cast c WHERE c.castsource OPERATOR(pg_catalog.=) {from} \
             AND c.casttarget OPERATOR(pg_catalog.=) {to}), pg_catalog.count(*) FROM pg_catalog.pg_type t \
             WHERE t.oid OPERATOR(pg_catalog.=) ANY (ARRAY[{from}, {to}]::pg_catalog.oid[]) \
             AND t.typtype OPERATOR(pg_catalog.=) ANY (ARRAY['b', 'e', 'r']::pg_catalog.\"char\"[]) \
             AND NOT (t.typcategory OPERATOR(pg_catalog.=) 'A')"
        );
        let row = self.asked(&sql).await?.into_iter().next().unwrap_or_default();
        let known = |i: usize| row.get(i).and_then(|v: &Text| v.as_deref());
        if known(1) != Some(b"2") {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "values of arrays, domains and rows of other types can't be assigned in a function that runs over several nodes",
            )
            .hint("Cast the value to the variable's type."));
        }
        let is = matches!(known(0), Some(b"a" | b"i"));
        running.casts.insert((from, to), is);
        Ok(is)
    }

    /// Rows of a question of the router's own.
    pub(super) async fn asked(&mut self, sql: &str) -> Result<Vec<Vec<Text>>> {
        let tree = sql::parse(sql, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let mut bound = Bound::default();
        bound.tail = bind_tail(&bound);
        Ok(self.nested(&tree, sql, &bound).await?.rows)
    }
}
