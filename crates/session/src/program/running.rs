//! What a program's variables hold while it runs, and what it is told of its statements and errors. It runs nothing.

use std::sync::Arc;

use bytes::Bytes;
use exec::ExecError;
use sql::program::{Diagnostic, Ex, Expression, Slot};
use wire::sqlstate;

use super::{Held, Running, Text, Value, records, rows, run};
use crate::session::Result;

impl Running<'_> {
    /// As it is before its first step, with these arguments.
    pub(super) fn begin(&mut self, arguments: impl Iterator<Item = (usize, Text)>) {
        self.held.clone_from(&self.first);
        self.row_count = 0;
        self.handled.clear();
        self.set_found(false);
        for (at, value) in arguments {
            match &mut self.held[at] {
                Held::Value { text, .. } => *text = value,
                Held::Row(_, values) => *values = value.and_then(|row| rows::apart(&row)),
                Held::Any(_) | Held::Record(_) => {}
            }
        }
    }

    /// What its variables hold now is memory of the session's.
    pub(super) fn count_held(&mut self) -> Result<()> {
        self.holds.grow_to(self.held.iter().map(Held::bytes).sum())
    }

    /// What it has given so far.
    pub(super) fn taken_out(&mut self) -> Vec<Vec<Text>> {
        self.given_bytes = 0;
        std::mem::take(&mut self.given)
    }

    pub(super) fn set_found(&mut self, found: bool) {
        if let Some(Held::Value { text, .. }) = self.program.found.map(|at| &mut self.held[at]) {
            *text = Some(Bytes::from_static(if found { b"t" } else { b"f" }));
        }
    }

    pub(super) fn count(&mut self, rows: u64) {
        self.row_count = rows;
        self.set_found(rows > 0);
    }

    /// An error is handled from now on.
    pub(super) fn handles(&mut self, error: ExecError) {
        self.handled.push(error);
        self.tell_handled();
    }

    /// SQLSTATE and SQLERRM are the innermost error's.
    pub(super) fn tell_handled(&mut self) {
        let fields = self.handled.last().map(ExecError::to_fields);
        for (variable, held) in self.program.variables.iter().zip(&mut self.held) {
            let text = match (variable.name.as_deref(), &fields) {
                (Some("sqlstate"), Some(f)) => Some(Bytes::from(f.code().to_string())),
                (Some("sqlerrm"), Some(f)) => Some(Bytes::from(f.message().to_string())),
                (Some("sqlstate" | "sqlerrm"), None) => None,
                _ => continue,
            };
            if let Held::Any(value) = held {
                *value = Value::new(wire::type_oid::TEXT, text);
            }
        }
    }

    /// What a parameter is now.
    pub(super) fn slot(&self, slot: &Slot) -> Result<Value> {
        match slot {
            Slot::Variable(at) => match self.held.get(*at) {
                Some(Held::Value { ty, text }) => {
                    Ok(Value { modifier: ty.modifier, ..Value::new(ty.oid, text.clone()) })
                }
                Some(Held::Any(value)) => Ok(value.clone()),
                _ => Err(ExecError::internal("a record is no value")),
            },
            Slot::Field(at, field) => {
                let Some(columns) = self.held.get(*at).and_then(Held::columns) else {
                    return Err(records::unassigned(self.name_of(*at)));
                };
                let found = columns.into_iter().find(|(column, _)| column == field).map(|(_, value)| value);
                found.ok_or_else(|| self.no_field(*at, field))
            }
        }
    }

    pub(super) fn no_field(&self, at: usize, field: &str) -> ExecError {
        let message = format!("record \"{}\" has no field \"{field}\"", self.name_of(at));
        ExecError::sql(sqlstate::UNDEFINED_COLUMN, message)
    }

    /// NULL goes where it may not.
    pub(super) fn is_null(&self, at: usize) -> ExecError {
        let message = format!("null value cannot be assigned to variable \"{}\" declared NOT NULL", self.name_of(at));
        ExecError::sql(sqlstate::NULL_VALUE_NOT_ALLOWED, message)
    }

    /// What GET DIAGNOSTICS tells.
    pub(super) fn diagnostic(&self, what: Diagnostic) -> Result<Value> {
        match what {
            Diagnostic::RowCount => Ok(Value::new(wire::type_oid::INT8, run::text(&self.row_count.to_string()))),
            Diagnostic::Error(field) => match self.handled.last().map(ExecError::to_fields) {
                // What an error does not say is an empty text.
                Some(said) => Ok(Value::new(wire::type_oid::TEXT, run::text(said.get(field).unwrap_or_default()))),
                None => Err(ExecError::sql(
                    sqlstate::STACKED_DIAGNOSTICS_ACCESSED_WITHOUT_ACTIVE_HANDLER,
                    "GET STACKED DIAGNOSTICS cannot be used outside an exception handler",
                )),
            },
        }
    }

    /// A statement or expression.
    pub(super) fn expression(&self, e: Ex) -> Result<Arc<Expression>> {
        self.expressions[e.number()].clone().map_err(|why| {
            let message = format!("a statement of a function that runs over several nodes {why}");
            ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, &message)
                .hint("Qualify names by their tables, or give variables names of their own.")
        })
    }

    /// The row variable that an expression is and nothing else.
    pub(super) fn whole(&self, e: Ex) -> Result<Option<usize>> {
        Ok(records::whole(&*self.expression(e)?, self))
    }

    /// The values of the outputs.
    pub(super) fn outputs(&self) -> Vec<Text> {
        let text = |at: &usize| match &self.held[*at] {
            Held::Value { text, .. } => text.clone(),
            Held::Row(_, values) => values.as_ref().map(|values| rows::together(values)),
            Held::Any(_) | Held::Record(_) => None,
        };
        self.program.outputs.iter().map(text).collect()
    }

    /// How a variable is called in messages.
    pub(super) fn name_of(&self, at: usize) -> &str {
        self.program.variables[at].name.as_deref().unwrap_or("unnamed")
    }
}
