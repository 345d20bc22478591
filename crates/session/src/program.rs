//! Functions, procedures and DO blocks that use tables of several nodes: no node can run them whole, so the session runs them statement by
//! statement, in one transaction, each statement as if the client had sent it.
//!
//! What is not understood in all its parts is refused before anything has run ([`sql::program`]). Values are kept as PostgreSQL prints
//! them; every expression is evaluated by PostgreSQL. It does not know how a statement finds its nodes.

mod call;
mod called_first;
mod each_row;
mod raise;
mod run;
mod signature;
mod values;

use std::collections::HashMap;

use bytes::Bytes;
use exec::ExecError;
use sql::program::{Block, Jump, Loop, Program, Slot, Step};
use wire::backend::Field;
use wire::sqlstate;

use crate::session::{Result, Session};

/// A value as PostgreSQL prints it.
pub type Text = Option<Bytes>;

/// A value of a type.
#[derive(Clone, Debug, Default)]
pub struct Value {
    pub oid: u32,
    pub text: Text,
}

/// What a variable holds.
#[derive(Clone, Debug)]
pub enum Held {
    /// A value of the variable's own type.
    Value { oid: u32, name: String, text: Text },
    /// A value of whatever type it has been given.
    Any(Value),
    /// Columns by their names; `None`: nothing was put into it.
    Record(Option<Vec<(String, Value)>>),
}

/// What a statement gave.
#[derive(Default)]
pub struct Rows {
    pub fields: Vec<Field>,
    pub rows: Vec<Vec<Text>>,
    pub tag: String,
    /// What they take.
    pub _taken: Option<exec::Taken>,
}

/// Where a program goes on.
#[derive(Debug)]
enum Flow {
    Next,
    Jump(Jump),
    Return(Option<Value>),
}

/// A program while it runs.
pub struct Running<'p> {
    program: &'p Program,
    held: Vec<Held>,
    /// What they hold when it begins.
    first: Vec<Held>,
    /// Rows of the last statement.
    row_count: u64,
    /// FOUND's place.
    found: Option<usize>,
    /// The errors that are being handled, the innermost last.
    handled: Vec<ExecError>,
    /// What its statements were found to give.
    fields: HashMap<(String, Vec<u32>), Vec<Field>>,
    /// Whether values of one type may be given to another.
    casts: HashMap<(u32, u32), bool>,
    limits: exec::Limits,
    /// Where its names are looked up.
    path: std::sync::Arc<Vec<String>>,
    temporary: Vec<String>,
    /// Whether expressions are more than that to PL/pgSQL, by their texts.
    queries: HashMap<String, bool>,
    /// The types of the result's columns, and the rows of a set.
    columns: Vec<(u32, String)>,
    given: Vec<Vec<Text>>,
    given_bytes: usize,
    taken: exec::Taken,
}

type Steps<'f> = std::pin::Pin<Box<dyn Future<Output = Result<Flow>> + Send + 'f>>;

impl Session {
    /// Takes the steps, one after the other.
    fn steps<'f>(&'f mut self, running: &'f mut Running<'_>, steps: &'f [Step]) -> Steps<'f> {
        Box::pin(async move {
            for step in steps {
                running.limits.check()?;
                self.unless_cancelled()?;
                match self.step(running, step).await? {
                    Flow::Next => {}
                    flow => return Ok(flow),
                }
            }
            Ok(Flow::Next)
        })
    }

    async fn step(&mut self, running: &mut Running<'_>, step: &Step) -> Result<Flow> {
        match step {
            Step::Block(block) => return self.block(running, block).await,
            Step::Assign(at, e) => self.assign_expression(running, *at, e).await?,
            Step::If(when, otherwise) => {
                for (condition, steps) in when {
                    if self.is_true(running, condition).await? {
                        return self.steps(running, steps).await;
                    }
                }
                return self.steps(running, otherwise).await;
            }
            Step::Case { value, when, otherwise } => {
                if let Some((at, e)) = value {
                    running.held[*at] = Held::Any(self.value_of(running, e).await?);
                }
                for (condition, steps) in when {
                    if self.is_true(running, condition).await? {
                        return self.steps(running, steps).await;
                    }
                }
                match otherwise {
                    Some(steps) => return self.steps(running, steps).await,
                    None => {
                        return Err(ExecError::sql(sqlstate::CASE_NOT_FOUND, "case not found")
                            .hint("CASE statement is missing ELSE part."));
                    }
                }
            }
            Step::Loop(l) => loop {
                match self.turn(running, l).await? {
                    After::Again => {}
                    After::Out => break,
                    After::Leave(flow) => return Ok(flow),
                }
            },
            Step::While(condition, l) => {
                while self.is_true(running, condition).await? {
                    match self.turn(running, l).await? {
                        After::Again => {}
                        After::Out => break,
                        After::Leave(flow) => return Ok(flow),
                    }
                }
            }
            Step::Count { variable, lower, upper, by, reverse, steps } => {
                let lower = self.bound(running, lower, "lower bound of FOR loop").await?;
                let upper = self.bound(running, upper, "upper bound of FOR loop").await?;
                let by = match by {
                    Some(by) => self.bound(running, by, "BY value of FOR loop").await?,
                    None => 1,
                };
                if by <= 0 {
                    let message = "BY value of FOR loop must be greater than zero";
                    return Err(ExecError::sql(sqlstate::INVALID_PARAMETER_VALUE, message));
                }
                let mut at = lower;
                let mut found = false;
                let leaves = loop {
                    let over = if *reverse { at < upper } else { at > upper };
                    if over {
                        break None;
                    }
                    found = true;
                    let text = Some(Bytes::from(at.to_string()));
                    let name = "pg_catalog.int4".to_string();
                    running.held[*variable] = Held::Value { oid: wire::type_oid::INT4, name, text };
                    match self.turn(running, steps).await? {
                        After::Again => {}
                        After::Out => break None,
                        After::Leave(flow) => break Some(flow),
                    }
                    // As PostgreSQL: it ends where the next would not fit.
                    match if *reverse { at.checked_sub(by) } else { at.checked_add(by) } {
                        Some(next) => at = next,
                        None => break None,
                    }
                };
                running.set_found(found);
                return Ok(leaves.unwrap_or(Flow::Next));
            }
            Step::Rows { row, query, steps } => {
                let rows = self.run_query(running, query).await?;
                let mut leaves = None;
                let found = !rows.rows.is_empty();
                if !found {
                    self.put(running, row, &rows.fields, None).await?;
                }
                for values in &rows.rows {
                    self.put(running, row, &rows.fields, Some(values)).await?;
                    match self.turn(running, steps).await? {
                        After::Again => {}
                        After::Out => break,
                        After::Leave(flow) => {
                            leaves = Some(flow);
                            break;
                        }
                    }
                }
                running.set_found(found);
                return Ok(leaves.unwrap_or(Flow::Next));
            }
            Step::Jump(jump, condition) => {
                let goes = match condition {
                    Some(condition) => self.is_true(running, condition).await?,
                    None => true,
                };
                if goes {
                    return Ok(Flow::Jump(jump.clone()));
                }
            }
            Step::Return(None) => return Ok(Flow::Return(None)),
            Step::Return(Some(e)) => return Ok(Flow::Return(Some(self.value_of(running, e).await?))),
            Step::Raise(raise) => self.raise(running, raise).await?,
            Step::Perform(e) => {
                let rows = self.rows_given(running, e).await?;
                running.count(wire::backend::rows_of_tag(&rows.tag));
            }
            Step::Run { statement, into, strict } => {
                let rows = self.run_query(running, statement).await?;
                self.into(running, statement, &rows, into.as_ref(), *strict).await?;
            }
            Step::ReturnNext(e) => self.return_next(running, e.as_ref()).await?,
            Step::ReturnRows(query) => self.return_rows(running, query).await?,
            Step::CountRows(into) => {
                for at in into {
                    let text = Some(Bytes::from(running.row_count.to_string()));
                    self.assign(running, *at, Value { oid: wire::type_oid::INT8, text }).await?;
                }
            }
        }
        Ok(Flow::Next)
    }

    /// A loop's steps, once. One of nothing gives way, and ends in time, too.
    async fn turn(&mut self, running: &mut Running<'_>, l: &Loop) -> Result<After> {
        tokio::task::yield_now().await;
        running.limits.check()?;
        self.unless_cancelled()?;
        let flow = self.steps(running, &l.steps).await?;
        Ok(after(flow, l.label.as_deref()))
    }

    /// BEGIN … END: what its handlers catch undoes what it has done.
    async fn block(&mut self, running: &mut Running<'_>, block: &Block) -> Result<Flow> {
        for at in &block.declared {
            self.begin_variable(running, *at).await?;
        }
        let flow = match block.handlers.is_empty() {
            true => self.steps(running, &block.steps).await?,
            false => self.guarded(running, block).await?,
        };
        Ok(match flow {
            Flow::Jump(j) if j.exit && j.label.is_some() && j.label == block.label => Flow::Next,
            flow => flow,
        })
    }

    async fn guarded(&mut self, running: &mut Running<'_>, block: &Block) -> Result<Flow> {
        // Nobody else's: what fails without a handler leaves its own behind.
        let savepoint = loop {
            let name = format!("herd block {}", self.next_number());
            if !self.transaction.has_savepoint(&name) {
                break name;
            }
        };
        self.transaction.savepoint(&savepoint).await?;
        let error = match self.steps(running, &block.steps).await {
            Ok(flow) => {
                self.release(&savepoint).await?;
                return Ok(flow);
            }
            Err(error) => error,
        };
        let handler = block.handlers.iter().find(|h| run::is_handled(&error, &h.states));
        let Some(handler) = handler else { return Err(error) };
        self.rollback_to(&savepoint).await?;
        self.release(&savepoint).await?;
        running.handles(error);
        let flow = self.steps(running, &handler.steps).await;
        running.handled.pop();
        running.tell_handled();
        flow
    }
}

/// Where a loop goes when its steps are done.
enum After {
    Again,
    Out,
    Leave(Flow),
}

fn after(flow: Flow, label: Option<&str>) -> After {
    match flow {
        Flow::Next => After::Again,
        Flow::Jump(j) if j.label.is_none() || j.label.as_deref() == label => match j.exit {
            true => After::Out,
            false => After::Again,
        },
        flow => After::Leave(flow),
    }
}

impl Running<'_> {
    /// As it is before its first step, with these arguments.
    fn begin(&mut self, arguments: impl Iterator<Item = (usize, Text)>) {
        self.held.clone_from(&self.first);
        self.row_count = 0;
        self.handled.clear();
        self.set_found(false);
        for (at, value) in arguments {
            if let Held::Value { text, .. } = &mut self.held[at] {
                *text = value;
            }
        }
    }

    /// What it has given so far.
    fn taken_out(&mut self) -> Vec<Vec<Text>> {
        self.given_bytes = 0;
        std::mem::take(&mut self.given)
    }

    fn set_found(&mut self, found: bool) {
        if let Some(Held::Value { text, .. }) = self.found.map(|at| &mut self.held[at]) {
            *text = Some(Bytes::from_static(if found { b"t" } else { b"f" }));
        }
    }

    fn count(&mut self, rows: u64) {
        self.row_count = rows;
        self.set_found(rows > 0);
    }

    /// An error is handled from now on.
    fn handles(&mut self, error: ExecError) {
        self.handled.push(error);
        self.tell_handled();
    }

    /// SQLSTATE and SQLERRM are the innermost error's.
    fn tell_handled(&mut self) {
        let fields = self.handled.last().map(ExecError::to_fields);
        for (variable, held) in self.program.variables.iter().zip(&mut self.held) {
            let text = match (variable.name.as_deref(), &fields) {
                (Some("sqlstate"), Some(f)) => Some(Bytes::from(f.code().to_string())),
                (Some("sqlerrm"), Some(f)) => Some(Bytes::from(f.message().to_string())),
                (Some("sqlstate" | "sqlerrm"), None) => None,
                _ => continue,
            };
            if let Held::Any(value) = held {
                *value = Value { oid: wire::type_oid::TEXT, text };
            }
        }
    }

    /// What a parameter is now.
    fn slot(&self, slot: &Slot) -> Result<Value> {
        match slot {
            Slot::Variable(at) => match self.held.get(*at) {
                Some(Held::Value { oid, text, .. }) => Ok(Value { oid: *oid, text: text.clone() }),
                Some(Held::Any(value)) => Ok(value.clone()),
                _ => Err(ExecError::internal("a record is no value")),
            },
            Slot::Field(at, field) => {
                let name = || self.program.variables[*at].name.as_deref().unwrap_or_default();
                let Some(Held::Record(Some(columns))) = self.held.get(*at) else {
                    let message = format!("record \"{}\" is not assigned yet", name());
                    return Err(ExecError::Sql(Box::new(
                        wire::ErrorFields::error(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                            .detail("The tuple structure of a not-yet-assigned record is indeterminate."),
                    )));
                };
                let found = columns.iter().find(|(column, _)| column == field).map(|(_, value)| value.clone());
                found.ok_or_else(|| {
                    let message = format!("record \"{}\" has no field \"{field}\"", name());
                    ExecError::sql(sqlstate::UNDEFINED_COLUMN, message)
                })
            }
        }
    }

    /// The values of the outputs.
    fn outputs(&self) -> Vec<Text> {
        let text = |at: &usize| match &self.held[*at] {
            Held::Value { text, .. } => text.clone(),
            Held::Any(_) | Held::Record(_) => None,
        };
        self.program.outputs.iter().map(text).collect()
    }

    /// How a column of the result is called.
    fn column_name<'r>(&'r self, i: usize, otherwise: &'r str) -> &'r str {
        self.program.outputs.get(i).map_or(otherwise, |at| self.name_of(*at))
    }

    /// How a variable is called in messages.
    fn name_of(&self, at: usize) -> &str {
        self.program.variables[at].name.as_deref().unwrap_or("unnamed")
    }
}
