//! What a program gives: values, rows and sets of them, as its function's type has them, and how the client is told. It does not know how a
//! program runs.

use bytes::Bytes;
use exec::{Answer, Bound, Client, ExecError, Forwarded};
use sql::program::{Ex, Program, Query, Step};
use wire::backend::Field;
use wire::{ErrorFields, sqlstate};

use super::records::{Columns, NotARow, of_field, unassigned};
use super::run::{literal, text};
use super::signature::{Returns, Signature};
use super::types::Type;
use super::{Flow, Held, Running, Text, rows};
use crate::session::{Result, Session};

/// Rows that are told at once where PostgreSQL has to write them.
const ROWS_AT_ONCE: usize = 500;

const NOT_A_ROW: NotARow = NotARow::Fails("cannot return non-composite value from function returning composite type");

/// What it gives: columns by their names.
#[derive(Default)]
pub struct Gives {
    pub columns: Vec<(String, Type)>,
    /// They are a row's, of this type if it has a name.
    pub row: Option<Option<u32>>,
    /// The row is told as one value.
    pub whole: bool,
}

/// A row's columns are those of another type.
fn differ(message: &str, detail: String) -> ExecError {
    ExecError::Sql(Box::new(ErrorFields::error(sqlstate::DATATYPE_MISMATCH, message).detail(detail)))
}

impl Session {
    /// What a function gives that is called in FROM, where these columns are described, or for a value; or why that can't be told.
    pub(super) async fn gives(
        &mut self,
        program: &Program,
        signature: &Signature,
        from: Option<&[Field]>,
    ) -> Result<std::result::Result<Gives, &'static str>> {
        // Of one value the column is called as its function, in FROM.
        let own = program.name.clone().filter(|_| from.is_some());
        let outputs = || {
            let name = |at: &usize| program.variables[*at].name.clone().unwrap_or_default();
            program.outputs.iter().map(|at| (name(at), signature.parameters[*at].ty.clone())).collect()
        };
        Ok(Ok(match &signature.returns {
            Returns::Nothing => Gives::default(),
            Returns::Value(ty) => {
                let name = program.outputs.first().and_then(|at| program.variables[*at].name.clone());
                Gives { columns: vec![(name.or(own).unwrap_or_default(), ty.clone())], ..Gives::default() }
            }
            Returns::Outputs if program.outputs.is_empty() => {
                let Some(fields) = from else { return Ok(Err("returns a row of unknown columns")) };
                let mut columns = Vec::with_capacity(fields.len());
                for field in fields {
                    columns.push((field.name.clone(), self.type_of(field.type_oid, field.typmod).await?));
                }
                Gives { columns, row: Some(None), whole: false }
            }
            Returns::Outputs => Gives { columns: outputs(), row: Some(None), whole: from.is_none() },
            Returns::Row(oid) => match self.row_type(*oid).await? {
                Some(ty) => Gives { columns: ty.columns.clone(), row: Some(Some(*oid)), whole: from.is_none() },
                None => return Ok(Err("returns a row with columns that are not understood")),
            },
        }))
    }

    /// From its beginning to its end, with these arguments; what it returns is given.
    pub(super) async fn run_once(
        &mut self,
        running: &mut Running<'_>,
        signature: &Signature,
        values: Vec<Text>,
    ) -> Result<()> {
        let program = running.program;
        if signature.strict && values.iter().any(Option::is_none) {
            return if signature.set { Ok(()) } else { self.give(running, None) };
        }
        running.begin(program.arguments.iter().copied().zip(values));
        let before = running.given.len();
        if program.gives_last {
            self.last_rows(running, signature.set).await?;
            // As PostgreSQL: without a row it is NULL.
            return match signature.set || running.given.len() > before {
                true => Ok(()),
                false => self.give(running, None),
            };
        }
        let flow = self.block(running, &program.block).await?;
        if signature.set {
            return Ok(());
        }
        let returns = !running.gives.columns.is_empty();
        let value = match flow {
            Flow::Return(value) => value,
            Flow::Next if !returns || !program.outputs.is_empty() => None,
            Flow::Next => {
                return Err(ExecError::sql(
                    sqlstate::S_R_E_FUNCTION_EXECUTED_NO_RETURN_STATEMENT,
                    "control reached end of function without RETURN",
                ));
            }
            Flow::Jump(_) => return Err(ExecError::internal("a jump out of a function")),
        };
        let row = match value {
            _ if !program.outputs.is_empty() => running.output_row(),
            // Of void, that is nothing.
            _ if !returns => Some(vec![text("")]),
            Some(row) => row,
            None => None,
        };
        self.give(running, row)
    }

    /// What RETURN says.
    pub(super) async fn returned(&mut self, running: &mut Running<'_>, e: Ex) -> Result<Option<Vec<Text>>> {
        if running.gives.columns.is_empty() || !running.program.outputs.is_empty() {
            return Ok(None);
        }
        if running.gives.row.is_some() {
            let columns = self.row_of(running, e, NOT_A_ROW).await?;
            let Some(columns) = columns else { return Ok(None) };
            return self
                .as_given(running, columns, "returned record type does not match expected record type")
                .await
                .map(Some);
        }
        let value = self.value(running, e).await?;
        let (_, ty) = running.gives.columns[0].clone();
        Ok(Some(vec![self.converted(running, value, &ty).await?]))
    }

    /// RETURN NEXT
    pub(super) async fn return_next(&mut self, running: &mut Running<'_>, e: Option<Ex>) -> Result<()> {
        let wrong = "wrong record type supplied in RETURN NEXT";
        let row = match e {
            None => running.output_row(),
            Some(e) if running.gives.row.is_some() || running.whole(e)?.is_some() => {
                let variable = running.whole(e)?.map(|at| &running.held[at]);
                let columns = match variable {
                    // As PostgreSQL: nothing is a row of NULLs.
                    Some(row @ Held::Row(..)) => row.columns(),
                    Some(Held::Record(None)) => {
                        let at = running.whole(e)?.unwrap_or_default();
                        return Err(unassigned(running.name_of(at)));
                    }
                    _ => self.row_of(running, e, NOT_A_ROW).await?,
                };
                match columns {
                    Some(columns) => Some(self.as_given(running, columns, wrong).await?),
                    None => Some(vec![None; running.gives.columns.len()]),
                }
            }
            Some(e) => {
                let [(_, ty)] = &running.gives.columns[..] else {
                    let message = "wrong result type supplied in RETURN NEXT";
                    return Err(ExecError::sql(sqlstate::DATATYPE_MISMATCH, message));
                };
                let ty = ty.clone();
                let value = self.value(running, e).await?;
                Some(vec![self.converted(running, value, &ty).await?])
            }
        };
        self.give(running, row)
    }

    /// A row's values, whose types have to be those of what is given.
    async fn as_given(&mut self, running: &Running<'_>, columns: Columns, message: &str) -> Result<Vec<Text>> {
        let types: Vec<(u32, i32)> = columns.iter().map(|(_, value)| (value.oid, value.modifier)).collect();
        self.fit(running, &types, message).await?;
        Ok(columns.into_iter().map(|(_, value)| value.text).collect())
    }

    async fn fit(&mut self, running: &Running<'_>, is: &[(u32, i32)], message: &str) -> Result<()> {
        let should = &running.gives.columns;
        let fits =
            |(oid, modifier): &(u32, i32), ty: &Type| *oid == ty.oid && (ty.modifier < 0 || ty.modifier == *modifier);
        if let Some(i) = (0..is.len().min(should.len())).find(|i| !fits(&is[*i], &should[*i].1)) {
            let field = Field { typmod: is[i].1, ..Field::new("", is[i].0, -1) };
            let name = self.work().type_names(&[field]).await?.pop().unwrap_or_default();
            return Err(differ(
                message,
                format!(
                    "Returned type {name} does not match expected type {} in column \"{}\" (position {}).",
                    should[i].1.name,
                    should[i].0,
                    i + 1
                ),
            ));
        }
        if is.len() != should.len() {
            return Err(differ(
                message,
                format!(
                    "Number of returned columns ({}) does not match expected column count ({}).",
                    is.len(),
                    should.len()
                ),
            ));
        }
        Ok(())
    }

    /// RETURN QUERY
    pub(super) async fn return_rows(&mut self, running: &mut Running<'_>, query: &Query) -> Result<()> {
        let rows = self.run_query(running, query).await?;
        let types: Vec<(u32, i32)> = rows.fields.iter().map(|f| (f.type_oid, f.typmod)).collect();
        self.fit(running, &types, "structure of query does not match function result type").await?;
        let count = rows.rows.len();
        for row in rows.rows {
            self.give(running, Some(row))?;
        }
        running.count(count as u64);
        Ok(())
    }

    /// A row more of the result, as long as there is room; `None`: no row at all, which is NULL.
    fn give(&mut self, running: &mut Running<'_>, row: Option<Vec<Text>>) -> Result<()> {
        let row = match (row, running.gives.whole) {
            (Some(row), true) => vec![Some(rows::together(&row))],
            (Some(row), false) => row,
            (None, true) => vec![None],
            (None, false) => vec![None; running.gives.columns.len().max(1)],
        };
        running.given_bytes += row.iter().map(|v| v.as_ref().map_or(0, Bytes::len) + size_of::<Text>()).sum::<usize>();
        running.taken.grow_to(running.given_bytes)?;
        running.given.push(row);
        Ok(())
    }

    /// The last statement's rows are the function's: the first, or all.
    async fn last_rows(&mut self, running: &mut Running<'_>, set: bool) -> Result<()> {
        let mut last = None;
        let program = running.program;
        for step in &program.block.steps {
            let Step::Run { statement, .. } = step else { continue };
            self.keep_time().await?;
            last = Some(self.run_query(running, statement).await?);
        }
        let Some(mut rows) = last.filter(|_| !running.gives.columns.is_empty()) else { return Ok(()) };
        if !set {
            rows.rows.truncate(1);
        }
        // One value that is the row.
        if let ([field], Some(Some(oid))) = (&rows.fields[..], running.gives.row)
            && field.type_oid == oid
        {
            for row in rows.rows {
                let row = row.into_iter().next().flatten().and_then(|text| super::rows::apart(&text));
                self.give(running, row)?;
            }
            return Ok(());
        }
        if rows.fields.len() != running.gives.columns.len() {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "a function in SQL that returns a row of a type without a name is not supported over several nodes",
            )
            .hint("Select the columns by themselves."));
        }
        for row in rows.rows {
            let mut values = Vec::with_capacity(row.len());
            for (i, text) in row.into_iter().enumerate() {
                let (_, ty) = running.gives.columns[i].clone();
                values.push(self.converted(running, of_field(&rows.fields[i], text), &ty).await?);
            }
            self.give(running, Some(values))?;
        }
        Ok(())
    }

    /// Tells the client the result.
    pub(super) async fn tell_rows(
        &mut self,
        rows: &[Vec<Text>],
        fields: &[Field],
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let tag = format!("SELECT {}", rows.len());
        if bound.is_none_or(|b| (0..fields.len()).all(|i| b.result_format(i) == 0)) {
            if bound.is_none() {
                self.io.tell(Answer::Columns(fields));
            }
            for row in rows {
                let values: Vec<Option<&[u8]>> = row.iter().map(Option::as_deref).collect();
                self.io.tell(Answer::Row(&values));
                self.io.relieve().await?;
            }
            return Ok(Forwarded { tag, ..Default::default() });
        }
        // In binary PostgreSQL writes them.
        let names = self.work().type_names(fields).await?;
        let less = bound.map(Bound::without_values);
        for some in rows.chunks(ROWS_AT_ONCE) {
            let mut selects = Vec::with_capacity(some.len());
            for row in some {
                let values: Result<Vec<String>> =
                    row.iter().zip(&names).map(|(v, name)| Ok(format!("CAST({} AS {name})", literal(v)?))).collect();
                selects.push(format!("SELECT {}", values?.join(", ")));
            }
            self.on_home_bound(&selects.join(" UNION ALL "), less.as_ref()).await?;
        }
        Ok(Forwarded { tag, ..Default::default() })
    }
}

impl Running<'_> {
    /// The outputs as the row that is given.
    fn output_row(&self) -> Option<Vec<Text>> {
        let outputs = self.outputs();
        match (&outputs[..], self.gives.row) {
            // The only one is the row.
            ([row], Some(Some(_))) => row.as_ref().and_then(|row| rows::apart(row)),
            _ => Some(outputs),
        }
    }
}
