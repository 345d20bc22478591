//! Cursors of PL/pgSQL: they are the session's, as if the client had declared them, so that who is given a cursor's name can go on with it. It does
//! not know how a cursor finds its rows.

use bytes::Bytes;
use exec::{Bound, ExecError, bind_tail};
use sql::NodeEnum;
use sql::program::{Direction, Ex, Loop, Query, Target};
use wire::{backend, sqlstate};

use super::{After, Flow, Held, Rows, Running, Text, Value, run};
use crate::session::{Result, Session};

/// OPEN, as it is written.
pub struct Opened<'o> {
    pub cursor: usize,
    /// A bound cursor's arguments.
    pub given: &'o [(usize, Ex)],
    /// What an unbound one is opened for.
    pub query: Option<&'o Query>,
    pub scroll: Option<bool>,
}

fn in_use(name: &str) -> ExecError {
    ExecError::sql(sqlstate::DUPLICATE_CURSOR, format!("cursor \"{name}\" already in use"))
}

impl Session {
    pub(super) async fn open(&mut self, running: &mut Running<'_>, o: Opened<'_>) -> Result<String> {
        let said = running.cursor_name(o.cursor)?;
        if let Some(name) = said.as_deref().filter(|name| self.has_cursor(name)) {
            return Err(in_use(name));
        }
        let bound = running.program.variables[o.cursor].cursor.as_ref();
        for (at, value) in o.given {
            self.assign_expression(running, &(*at).into(), *value).await?;
        }
        let (tree, text, values) = match (o.query, bound) {
            (Some(Query::Static(e)), _) => self.with_values(running, *e)?,
            (None, Some(bound)) => self.with_values(running, bound.query)?,
            (Some(Query::Dynamic(text, using)), _) => self.put_together(running, *text, using).await?,
            (None, None) => return Err(ExecError::internal("a cursor without a query")),
        };
        if !matches!(tree, NodeEnum::SelectStmt(_)) {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "a cursor of another statement than a query is not supported in a function that runs over several nodes",
            )
            .hint("Loop over the rows of the statement."));
        }
        let name = match said {
            Some(name) => name,
            None if running.program.variables[o.cursor].constant => {
                let message = format!("variable \"{}\" is declared CONSTANT", running.name_of(o.cursor));
                return Err(ExecError::sql(sqlstate::ERROR_IN_ASSIGNMENT, message));
            }
            None => {
                let name = loop {
                    let name = format!("<unnamed portal {}>", self.next_number());
                    if !self.has_cursor(&name) {
                        break name;
                    }
                };
                let named = Value::new(wire::type_oid::TEXT, run::text(&name));
                self.assign(running, o.cursor, named).await?;
                name
            }
        };
        let scroll = match o.scroll.or(bound.and_then(|bound| bound.scroll)) {
            Some(true) => "SCROLL ",
            Some(false) => "NO SCROLL ",
            None => "",
        };
        let declare = format!("DECLARE {} {scroll}CURSOR FOR {text}", catalog::quote_ident(&name));
        self.of_its_path(running).await?;
        self.about_cursor(&declare, values).await?;
        Ok(name)
    }

    fn has_cursor(&self, name: &str) -> bool {
        self.cursors.contains_key(name) || self.portals.get(name).is_some()
    }

    /// A statement about a cursor, and what it gives.
    async fn about_cursor(&mut self, sql: &str, values: Vec<Value>) -> Result<Rows> {
        let tree = sql::parse(sql, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let types: Vec<u32> = values.iter().map(|v| v.oid).collect();
        let mut bound = Bound { types: types.into(), ..Bound::default() };
        bound.values = values.into_iter().map(|v| v.text).collect();
        bound.tail = bind_tail(&bound);
        self.nested(&tree, sql, &bound).await
    }

    /// FETCH, and MOVE without a target.
    pub(super) async fn fetch_into(
        &mut self,
        running: &mut Running<'_>,
        cursor: usize,
        direction: &Direction,
        into: Option<&Target>,
    ) -> Result<()> {
        let name = running.open_cursor(cursor)?;
        let count = match direction.count {
            Some(e) => {
                let null = "relative or absolute cursor position is null";
                format!(" {}", self.number(running, e, null).await?)
            }
            None => String::new(),
        };
        let verb = if into.is_some() { "FETCH" } else { "MOVE" };
        let sql = format!("{verb} {}{count} FROM {}", direction.words, catalog::quote_ident(&name));
        let rows = self.fetched(&name, &sql, into.is_some()).await?;
        let count = match into {
            Some(target) => {
                self.put(running, target, &rows.fields, rows.rows.first()).await?;
                rows.rows.len() as u64
            }
            None => backend::rows_of_tag(&rows.tag),
        };
        running.count(count);
        Ok(())
    }

    async fn fetched(&mut self, name: &str, sql: &str, rows: bool) -> Result<Rows> {
        let fields = match rows && self.has_cursor(name) {
            true => self.describe_fetch(name, sql, &[]).await?.unwrap_or_default(),
            false => vec![],
        };
        self.may_come(&fields).await?;
        let rows = self.about_cursor(sql, vec![]).await?;
        Ok(Rows { fields, ..rows })
    }

    pub(super) async fn close(&mut self, running: &Running<'_>, cursor: usize) -> Result<()> {
        let name = running.open_cursor(cursor)?;
        self.about_cursor(&format!("CLOSE {}", catalog::quote_ident(&name)), vec![]).await.map(drop)
    }

    /// FOR record IN cursor: a row at a time, as the steps may change the one where the cursor stands.
    pub(super) async fn each_of_cursor(
        &mut self,
        running: &mut Running<'_>,
        record: usize,
        o: Opened<'_>,
        steps: &Loop,
    ) -> Result<Flow> {
        let cursor = o.cursor;
        let had_name = running.cursor_name(cursor)?.is_some();
        let name = self.open(running, o).await?;
        let next = format!("FETCH NEXT FROM {}", catalog::quote_ident(&name));
        let (target, mut found, mut leaves) = (vec![record.into()], false, Flow::Next);
        loop {
            let rows = self.fetched(&name, &next, true).await?;
            let Some(row) = rows.rows.first() else {
                if !found {
                    self.put(running, &target, &rows.fields, None).await?;
                }
                break;
            };
            self.put(running, &target, &rows.fields, Some(row)).await?;
            found = true;
            match self.turn(running, steps).await? {
                After::Again => {}
                After::Out => break,
                After::Leave(flow) => {
                    leaves = flow;
                    break;
                }
            }
        }
        self.about_cursor(&format!("CLOSE {}", catalog::quote_ident(&name)), vec![]).await?;
        if !had_name && let Held::Value { text, .. } = &mut running.held[cursor] {
            *text = None;
        }
        running.set_found(found);
        Ok(leaves)
    }
}

impl Running<'_> {
    /// The name that a cursor's variable holds.
    fn cursor_name(&self, cursor: usize) -> Result<Option<String>> {
        let text: &Text = match &self.held[cursor] {
            Held::Value { text, .. } => text,
            Held::Any(value) => &value.text,
            Held::Record(_) | Held::Row(..) => return Err(ExecError::internal("a cursor that is a row")),
        };
        let name =
            |text: &Bytes| String::from_utf8(text.to_vec()).map_err(|_| ExecError::internal("a name is no text"));
        text.as_ref().map(name).transpose()
    }

    /// The same, of one that is to be open.
    fn open_cursor(&self, cursor: usize) -> Result<String> {
        self.cursor_name(cursor)?.ok_or_else(|| {
            let message = format!("cursor variable \"{}\" is null", self.name_of(cursor));
            ExecError::sql(sqlstate::NULL_VALUE_NOT_ALLOWED, message)
        })
    }
}
