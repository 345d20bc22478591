//! Values that go from one type to another, as PL/pgSQL's assignment has it: by the cast that is allowed in an assignment, or else by
//! how the value is printed.

use std::sync::Arc;

use exec::{Bound, ExecError, bind_tail};
use sql::NodeEnum;
use sql::ast;
use sql::program::{Ex, Place};
use wire::sqlstate;
use wire::type_oid;

use super::records::NotARow;
use super::run::literal;
use super::types::Type;
use super::{Held, Running, Text, Value, records};
use crate::session::{Result, Session};

/// The string that an expression is.
fn constant(tree: &NodeEnum) -> Option<&str> {
    match records::value(tree)? {
        NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Sval(text)), .. }) => Some(&text.sval),
        _ => None,
    }
}

impl Value {
    /// Of a type without a modifier.
    pub fn new(oid: u32, text: Text) -> Value {
        Value { oid, modifier: -1, text }
    }
}

impl Session {
    /// Gives a variable a value.
    pub(super) async fn assign(&mut self, running: &mut Running<'_>, at: usize, value: Value) -> Result<()> {
        let ty = match &running.held[at] {
            Held::Value { ty, .. } => ty.clone(),
            // It can have but NULL: what else goes into rows has columns.
            Held::Record(_) | Held::Row(..) if value.text.is_none() => return self.put_row(running, at, None).await,
            _ => return Err(ExecError::internal("a variable without a type")),
        };
        let text = self.converted(running, value, &ty).await?;
        if text.is_none() && running.program.variables[at].not_null {
            return Err(running.is_null(at));
        }
        running.held[at] = Held::Value { ty, text };
        Ok(())
    }

    /// A variable begins, with its first value.
    pub(super) async fn begin_variable(&mut self, running: &mut Running<'_>, at: usize) -> Result<()> {
        let variable = &running.program.variables[at];
        match &mut running.held[at] {
            Held::Value { text, .. } => *text = None,
            Held::Any(value) => value.text = None,
            Held::Record(columns) => *columns = None,
            Held::Row(_, values) => *values = None,
        }
        match variable.first {
            Some(e) => self.assign_expression(running, &at.into(), e).await,
            None if variable.not_null => {
                let message = format!("variable \"{}\" must have a default value", running.name_of(at));
                Err(ExecError::sql(sqlstate::NULL_VALUE_NOT_ALLOWED, message))
            }
            None => Ok(()),
        }
    }

    /// Gives it to a variable or a row's field.
    pub(super) async fn assign_place(&mut self, running: &mut Running<'_>, place: &Place, value: Value) -> Result<()> {
        match &place.field {
            Some(field) => self.put_field(running, place.variable, field, value).await,
            None => self.assign(running, place.variable, value).await,
        }
    }

    /// `place := expression`
    pub(super) async fn assign_expression(&mut self, running: &mut Running<'_>, place: &Place, e: Ex) -> Result<()> {
        let at = place.variable;
        if place.field.is_none() && running.held[at].is_row() {
            let columns = self.row_of(running, e, NotARow::ReadBy(at)).await?;
            return self.put_row(running, at, columns).await;
        }
        let ty = match (&place.field, &running.held[at]) {
            (None, Held::Value { ty, .. }) => ty.clone(),
            (Some(field), _) => Arc::new(self.field_type(running, at, field).await?),
            _ => return Err(ExecError::internal("a variable without a type")),
        };
        let e = &*running.expression(e)?;
        let value = match constant(&e.tree) {
            // A string by itself is read as one of the variable's type.
            Some(text) => {
                let text = self.printed(super::run::text(text), &ty).await?;
                Value { modifier: ty.modifier, ..Value::new(ty.oid, text) }
            }
            None => self.value_of(running, e).await?,
        };
        self.assign_place(running, place, value).await
    }

    /// The value of a type that is printed so.
    pub(super) async fn printed(&mut self, text: Text, ty: &Type) -> Result<Text> {
        let sql = format!("SELECT {}", ty.cast(&literal(&text)?));
        Ok(self.asked(&sql).await?.pop().and_then(|row| row.into_iter().next()).flatten())
    }

    /// A value as one of another type.
    pub(super) async fn converted(&mut self, running: &mut Running<'_>, value: Value, ty: &Type) -> Result<Text> {
        // What a modifier would change goes the long way.
        let is_it = value.oid == ty.oid && (ty.modifier < 0 || ty.modifier == value.modifier);
        if value.text.is_none() || is_it {
            return Ok(value.text);
        }
        let oid = ty.oid;
        let from = match self.is_cast(running, value.oid, oid).await? {
            true => value.oid,
            // As it is printed.
            false => type_oid::UNKNOWN,
        };
        let sql = match from {
            type_oid::UNKNOWN => format!("SELECT {}", ty.cast("CAST($1 AS pg_catalog.text)")),
            _ => format!("SELECT {}", ty.cast("$1")),
        };
        let given = if from == type_oid::UNKNOWN { type_oid::TEXT } else { from };
        let mut bound = Bound { types: Arc::from([given]), values: vec![value.text], ..Bound::default() };
        bound.tail = bind_tail(&bound);
        let tree = sql::parse(&sql, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let mut rows = self.nested(&tree, &sql, &bound).await?;
        Ok(rows.rows.pop().and_then(|row| row.into_iter().next()).flatten())
    }

    /// There is a cast that an assignment may use; of domains, and between arrays, nobody here knows. Records have none.
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
             AND (t.typtype OPERATOR(pg_catalog.=) ANY (ARRAY['b', 'e', 'r', 'c']::pg_catalog.\"char\"[]) OR t.oid OPERATOR(pg_catalog.=) 2249) \
             HAVING pg_catalog.count(*) FILTER (WHERE t.typcategory OPERATOR(pg_catalog.=) 'A') OPERATOR(pg_catalog.<) 2"
        );
        let row = self.asked(&sql).await?.into_iter().next().unwrap_or_default();
        let known = |i: usize| row.get(i).and_then(|v: &Text| v.as_deref());
        if known(1) != Some(b"2") {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "values of arrays and domains of other types can't be assigned in a function that runs over several nodes",
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
