//! Functions, procedures and DO blocks that use tables of several nodes: no node can run them whole, so the session runs them statement by
//! statement, in one transaction, each statement as if the client had sent it.
//!
//! What is not understood in all its parts is refused before anything has run ([`sql::program`]). Values are kept as PostgreSQL prints
//! them; every expression is evaluated by PostgreSQL. It does not know how a statement finds its nodes.

mod call;
mod called_first;
mod cursors;
mod each;
mod each_row;
mod expanded;
mod instead_of;
mod once;
mod raise;
mod records;
mod result;
mod rows;
mod run;
mod running;
mod signature;
mod types;
mod values;

use catalog::TemporaryRelation;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use exec::ExecError;
use sql::program::{Block, Expression, Jump, Loop, Program, Step};
use wire::backend::Field;
use wire::sqlstate;

use crate::session::{Result, Session};
use cursors::Opened;
use records::Columns;
use result::Gives;
use types::{RowType, Type};

/// A value as PostgreSQL prints it.
pub type Text = Option<Bytes>;

/// A value of a type.
#[derive(Clone, Debug)]
pub struct Value {
    pub oid: u32,
    /// Of its type, as far as that is known; -1: none.
    pub modifier: i32,
    pub text: Text,
}

impl Default for Value {
    fn default() -> Self {
        Value::new(0, None)
    }
}

/// What a variable holds.
#[derive(Clone, Debug)]
pub enum Held {
    /// A value of the variable's own type.
    Value { ty: Arc<Type>, text: Text },
    /// A value of whatever type it has been given.
    Any(Value),
    /// A row of whatever columns were put into it; `None`: nothing was.
    Record(Option<Columns>),
    /// A row of its own type.
    Row(Arc<RowType>, Option<Vec<Text>>),
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
    /// RETURN, with its value.
    /// The row of what is returned; `None` in it: NULL as a whole.
    Return(Option<Option<Vec<Text>>>),
}

/// A program while it runs.
pub struct Running<'p> {
    program: &'p Program,
    held: Vec<Held>,
    /// What they hold when it begins.
    first: Vec<Held>,
    /// Its expressions, with what their names mean now; or why that can't be told.
    expressions: Vec<std::result::Result<Arc<Expression>, &'static str>>,
    /// Rows of the last statement.
    row_count: u64,
    /// The errors that are being handled, the innermost last.
    handled: Vec<ExecError>,
    /// What its statements were found to give.
    fields: HashMap<(String, Vec<u32>), Vec<Field>>,
    /// Types of rows, as far as they were asked for.
    row_types: HashMap<u32, Option<Arc<RowType>>>,
    /// Whether values of one type may be given to another.
    casts: HashMap<(u32, u32), bool>,
    /// It has changed the catalog.
    made: bool,
    /// Where its names are looked up.
    path: Arc<Vec<String>>,
    temporary: Arc<[TemporaryRelation]>,
    /// Whether expressions are more than that to PL/pgSQL, by their texts.
    queries: HashMap<String, bool>,
    /// What it gives, and the rows of a set.
    gives: Gives,
    given: Vec<Vec<Text>>,
    given_bytes: usize,
    /// For what its variables hold.
    holds: exec::Taken,
    taken: exec::Taken,
}

type Steps<'f> = std::pin::Pin<Box<dyn Future<Output = Result<Flow>> + Send + 'f>>;

impl Session {
    /// Takes the steps, one after the other.
    fn steps<'f>(&'f mut self, running: &'f mut Running<'_>, steps: &'f [Step]) -> Steps<'f> {
        Box::pin(async move {
            for step in steps {
                self.keep_time().await?;
                running.count_held()?;
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
            Step::Assign(place, e) => self.assign_expression(running, place, *e).await?,
            Step::If(when, otherwise) => {
                for (condition, steps) in when {
                    if self.is_true(running, *condition).await? {
                        return self.steps(running, steps).await;
                    }
                }
                return self.steps(running, otherwise).await;
            }
            Step::Case { value, when, otherwise } => {
                if let Some((at, e)) = value {
                    running.held[*at] = Held::Any(self.value(running, *e).await?);
                }
                for (condition, steps) in when {
                    if self.is_true(running, *condition).await? {
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
                while self.is_true(running, *condition).await? {
                    match self.turn(running, l).await? {
                        After::Again => {}
                        After::Out => break,
                        After::Leave(flow) => return Ok(flow),
                    }
                }
            }
            Step::Count { variable, lower, upper, by, reverse, steps } => {
                let lower = self.number(running, *lower, "lower bound of FOR loop cannot be null").await?;
                let upper = self.number(running, *upper, "upper bound of FOR loop cannot be null").await?;
                let by = match by {
                    Some(by) => self.number(running, *by, "BY value of FOR loop cannot be null").await?,
                    None => 1,
                };
                if by <= 0 {
                    let message = "BY value of FOR loop must be greater than zero";
                    return Err(ExecError::sql(sqlstate::INVALID_PARAMETER_VALUE, message));
                }
                let ty = Arc::new(Type::plain(wire::type_oid::INT4, "pg_catalog.int4"));
                let mut at = lower;
                let mut found = false;
                let leaves = loop {
                    let over = if *reverse { at < upper } else { at > upper };
                    if over {
                        break None;
                    }
                    found = true;
                    let text = Some(Bytes::from(at.to_string()));
                    running.held[*variable] = Held::Value { ty: ty.clone(), text };
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
            Step::Cursor { record, cursor, given, steps } => {
                let opened = Opened { cursor: *cursor, given, query: None, scroll: None };
                return self.each_of_cursor(running, *record, opened, steps).await;
            }
            Step::Each { row, slice, array, steps } => {
                return self.each(running, (row, *slice), *array, steps).await;
            }
            Step::Jump(jump, condition) => {
                let goes = match condition {
                    Some(condition) => self.is_true(running, *condition).await?,
                    None => true,
                };
                if goes {
                    return Ok(Flow::Jump(jump.clone()));
                }
            }
            Step::Return(None) => return Ok(Flow::Return(None)),
            // Here, where handlers and FOUND are what they are.
            Step::Return(Some(e)) => return Ok(Flow::Return(Some(self.returned(running, *e).await?))),
            Step::Raise(raise) => self.raise(running, raise).await?,
            Step::Perform(e) => {
                let e = running.expression(*e)?;
                let rows = self.rows_given(running, &e).await?;
                running.count(wire::backend::rows_of_tag(&rows.tag));
            }
            Step::Run { statement, into, strict } => {
                let rows = self.run_query(running, statement).await?;
                self.into(running, statement, &rows, into.as_ref(), *strict).await?;
            }
            Step::ReturnNext(e) => self.return_next(running, *e).await?,
            Step::ReturnRows(query) => self.return_rows(running, query).await?,
            Step::Assert(condition, message) => self.assert(running, *condition, *message).await?,
            Step::Open { cursor, given, query, scroll } => {
                let opened = Opened { cursor: *cursor, given, query: query.as_ref(), scroll: *scroll };
                self.open(running, opened).await?;
            }
            Step::Fetch { cursor, direction, into } => {
                self.fetch_into(running, *cursor, direction, into.as_ref()).await?;
            }
            Step::Close(cursor) => self.close(running, *cursor).await?,
            Step::Diagnostics(asked) => {
                for (place, what) in asked {
                    let value = running.diagnostic(*what)?;
                    self.assign_place(running, place, value).await?;
                }
            }
        }
        Ok(Flow::Next)
    }

    /// A loop's steps, once. One of nothing gives way, and ends in time, too.
    async fn turn(&mut self, running: &mut Running<'_>, l: &Loop) -> Result<After> {
        tokio::task::yield_now().await;
        self.keep_time().await?;
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
        // A handler meets the reason.
        let cancelled = error.code() == sqlstate::QUERY_CANCELED;
        let deadlocked = cancelled && self.io.is_deadlocked();
        let error = if deadlocked { ExecError::deadlocked() } else { error };
        let handler = block.handlers.iter().find(|h| run::is_handled(&error, &h.states));
        let Some(handler) = handler else { return Err(if deadlocked { ExecError::cancelled() } else { error }) };
        let error = if cancelled { self.goes_on(error).await? } else { error };
        self.rollback_to(&savepoint).await?;
        self.release(&savepoint).await?;
        if cancelled {
            self.work().has_kept_time().await;
        }
        if running.made {
            self.names_anew(running).await?;
        }
        running.handles(error);
        let flow = self.steps(running, &handler.steps).await;
        running.handled.pop();
        running.tell_handled();
        flow
    }

    /// A handler is there for a statement that was cancelled; the error in the words that the client would have been told.
    async fn goes_on(&mut self, error: ExecError) -> Result<ExecError> {
        if self.io.has_left() || self.io.ended().is_some() {
            return Err(error);
        }
        let late = self.io.take_late();
        if !self.io.goes_on().await {
            self.transaction.doubtful = true;
            return Err(error);
        }
        Ok(if late { ExecError::late() } else { error })
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
