//! Variables that hold rows: what is put into them and taken out, as a whole and by their fields. It does not know how they get into a statement.

use std::sync::Arc;

use bytes::Bytes;
use exec::ExecError;
use sql::NodeEnum;
use sql::ast::{self, Node};
use sql::build;
use sql::program::{Ex, Expression, Slot};
use wire::backend::Field;
use wire::{ErrorFields, sqlstate, type_oid};

use super::expanded::expanded;
use super::types::{RowType, Type};
use super::{Held, Running, Text, Value, rows};
use crate::session::{Result, Session};

/// Columns by their names, in their order.
pub type Columns = Vec<(String, Value)>;

impl Held {
    /// How much its values take.
    pub fn bytes(&self) -> usize {
        let of = |text: &Text| text.as_ref().map_or(0, Bytes::len);
        match self {
            Held::Value { text, .. } => of(text),
            Held::Any(value) => of(&value.text),
            Held::Record(columns) => columns.iter().flatten().map(|(_, value)| of(&value.text)).sum(),
            Held::Row(_, values) => values.iter().flatten().map(of).sum(),
        }
    }

    /// Its columns, if it is a row; an unassigned record has none.
    pub fn columns(&self) -> Option<Columns> {
        match self {
            Held::Record(columns) => columns.clone(),
            Held::Row(ty, values) => {
                let text = |i: usize| values.as_ref().and_then(|v| v.get(i).cloned()).flatten();
                let column = |(i, (name, ty)): (usize, &(String, Type))| {
                    (name.clone(), Value { modifier: ty.modifier, ..Value::new(ty.oid, text(i)) })
                };
                Some(ty.columns.iter().enumerate().map(column).collect())
            }
            Held::Value { .. } | Held::Any(_) => None,
        }
    }

    /// It is of a row, whether there is one or not.
    pub fn is_row(&self) -> bool {
        matches!(self, Held::Record(_) | Held::Row(..))
    }

    /// It is no row at all, not one of NULLs.
    pub fn is_null(&self) -> bool {
        matches!(self, Held::Record(None) | Held::Row(_, None))
    }
}

/// What becomes of a value that is no row.
#[derive(Clone, Copy)]
pub enum NotARow<'m> {
    /// An error that says so.
    Fails(&'m str),
    /// As it is printed it is read as one of this variable's type.
    ReadBy(usize),
}

/// The variable that an expression is, if it is a row and nothing else.
pub fn whole(e: &Expression, running: &Running<'_>) -> Option<usize> {
    let [Slot::Variable(at)] = e.uses[..] else { return None };
    let is_it = matches!(value(&e.tree)?, NodeEnum::ParamRef(_));
    (is_it && running.held[at].is_row()).then_some(at)
}

/// The only thing that is selected, by nothing but SELECT.
pub fn value(tree: &NodeEnum) -> Option<&NodeEnum> {
    let NodeEnum::SelectStmt(s) = tree else { return None };
    let bare = s.from_clause.is_empty()
        && s.where_clause.is_none()
        && s.group_clause.is_empty()
        && s.having_clause.is_none()
        && s.distinct_clause.is_empty()
        && s.sort_clause.is_empty()
        && s.limit_count.is_none()
        && s.limit_offset.is_none()
        && s.with_clause.is_none()
        && s.larg.is_none();
    let [Node { node: Some(NodeEnum::ResTarget(target)) }] = &s.target_list[..] else { return None };
    if bare { target.val.as_deref()?.node.as_ref() } else { None }
}

/// A column's value, as its query describes it.
pub fn of_field(field: &Field, text: Text) -> Value {
    Value { modifier: field.typmod, ..Value::new(field.type_oid, text) }
}

/// The error of a record that nothing was put into.
pub fn unassigned(name: &str) -> ExecError {
    let message = format!("record \"{name}\" is not assigned yet");
    ExecError::Sql(Box::new(
        ErrorFields::error(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .detail("The tuple structure of a not-yet-assigned record is indeterminate."),
    ))
}

impl Session {
    /// A row more is in a variable; `None`: no row at all.
    pub(super) async fn put_row(
        &mut self,
        running: &mut Running<'_>,
        at: usize,
        columns: Option<Columns>,
    ) -> Result<()> {
        if columns.is_none() && running.program.variables[at].not_null {
            return Err(running.is_null(at));
        }
        let held = match (&running.held[at], columns) {
            (Held::Row(ty, _), None) => Held::Row(ty.clone(), None),
            (Held::Row(ty, _), Some(columns)) => {
                let ty = ty.clone();
                // By their places: those that are missing are NULL.
                let mut given = columns.into_iter().map(|(_, value)| value);
                let mut values = Vec::with_capacity(ty.columns.len());
                for (_, column) in &ty.columns {
                    let value = given.next().unwrap_or_else(|| Value::new(column.oid, None));
                    values.push(self.converted(running, value, column).await?);
                }
                Held::Row(ty, Some(values))
            }
            (_, columns) => Held::Record(columns),
        };
        running.held[at] = held;
        Ok(())
    }

    /// `row.field := value`
    pub(super) async fn put_field(
        &mut self,
        running: &mut Running<'_>,
        at: usize,
        field: &str,
        value: Value,
    ) -> Result<()> {
        let ty = self.field_type(running, at, field).await?;
        let text = self.converted(running, value, &ty).await?;
        match &mut running.held[at] {
            Held::Record(Some(columns)) => {
                if let Some((_, value)) = columns.iter_mut().find(|(name, _)| name == field) {
                    value.text = text;
                }
            }
            Held::Row(ty, values) => {
                let values = values.get_or_insert_with(|| vec![None; ty.columns.len()]);
                if let Some(i) = ty.columns.iter().position(|(name, _)| name == field) {
                    values[i] = text;
                }
            }
            _ => return Err(ExecError::internal("a field of no row")),
        }
        Ok(())
    }

    /// A field keeps its type.
    pub(super) async fn field_type(&mut self, running: &mut Running<'_>, at: usize, field: &str) -> Result<Type> {
        let found = match &running.held[at] {
            Held::Row(ty, _) => {
                let found = ty.columns.iter().find(|(name, _)| name == field).map(|(_, ty)| ty.clone());
                return found.ok_or_else(|| running.no_field(at, field));
            }
            Held::Record(None) => return Err(unassigned(running.name_of(at))),
            Held::Record(Some(columns)) => columns.iter().find(|(name, _)| name == field),
            Held::Value { .. } | Held::Any(_) => return Err(ExecError::internal("a field of no row")),
        };
        let (oid, modifier) = match found {
            Some((_, value)) => (value.oid, value.modifier),
            None => return Err(running.no_field(at, field)),
        };
        self.type_of(oid, modifier).await
    }

    /// The columns of the row that an expression gives; `None`: NULL. `otherwise`: what becomes of anything else.
    pub(super) async fn row_of(
        &mut self,
        running: &mut Running<'_>,
        e: Ex,
        otherwise: NotARow<'_>,
    ) -> Result<Option<Columns>> {
        let e = &*running.expression(e)?;
        if let Some(at) = whole(e, running) {
            let held = &running.held[at];
            return Ok(if held.is_null() { None } else { held.columns() });
        }
        // The columns by themselves have types.
        let instead = match value(&e.tree) {
            Some(NodeEnum::RowExpr(r)) => {
                let named = |(i, value): (usize, &Node)| build::target(value.clone(), Some(&format!("f{}", i + 1)));
                let target_list = r.args.iter().enumerate().map(named).collect();
                Some(ast::SelectStmt { target_list, ..build::select() })
            }
            Some(NodeEnum::FuncCall(f)) if self.gives_record(running, e).await? => Some(ast::SelectStmt {
                target_list: vec![build::target(build::star(), None)],
                from_clause: vec![build::from_function(f)],
                ..build::select()
            }),
            _ => None,
        };
        if let Some(select) = instead {
            let e = e.with_tree(&NodeEnum::SelectStmt(Box::new(select))).map_err(ExecError::internal)?;
            let rows = self.rows_given(running, &e).await?;
            let row = rows.rows.first().cloned().unwrap_or_default();
            let mut row = row.into_iter();
            let column = |f: &Field| (f.name.clone(), of_field(f, row.next().flatten()));
            return Ok(Some(rows.fields.iter().map(column).collect()));
        }
        let value = self.value_of(running, e).await?;
        let Some(text) = value.text else { return Ok(None) };
        match self.row_type_of(running, value.oid).await? {
            Some(ty) => {
                let values = rows::apart(&text).filter(|v| v.len() == ty.columns.len());
                let values = values.ok_or_else(|| ExecError::internal("a row with other columns than its type"))?;
                Ok(Held::Row(ty, Some(values)).columns())
            }
            None if value.oid == type_oid::RECORD => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "a row of a type without a name is not supported in a function that runs over several nodes",
            )
            .hint("Write ROW(…), or cast it to a table's row type.")),
            None => match otherwise {
                NotARow::Fails(message) => Err(ExecError::sql(sqlstate::DATATYPE_MISMATCH, message)),
                NotARow::ReadBy(at) => match &running.held[at] {
                    Held::Row(ty, _) => {
                        let ty = ty.clone();
                        let text = self.printed(Some(text), &Type::plain(value.oid, &ty.name)).await?;
                        Ok(Held::Row(ty, text.and_then(|text| rows::apart(&text))).columns())
                    }
                    _ => {
                        let message = "input of anonymous composite types is not implemented";
                        Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message))
                    }
                },
            },
        }
    }

    async fn gives_record(&mut self, running: &mut Running<'_>, e: &Expression) -> Result<bool> {
        let types = match expanded(e, running)? {
            Some(_) => return Ok(false),
            None => e.uses.iter().map(|slot| running.slot(slot).map(|v| v.oid)).collect::<Result<Vec<_>>>()?,
        };
        let fields = self.fields(running, &e.text, &types).await?;
        Ok(matches!(&fields[..], [one] if one.type_oid == type_oid::RECORD))
    }

    /// A type of rows, which is asked for once.
    pub(super) async fn row_type_of(&mut self, running: &mut Running<'_>, oid: u32) -> Result<Option<Arc<RowType>>> {
        if let Some(known) = running.row_types.get(&oid) {
            return Ok(known.clone());
        }
        let found = self.row_type(oid).await?;
        running.row_types.insert(oid, found.clone());
        Ok(found)
    }
}
