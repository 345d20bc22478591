//! Where a cursor stands, and which rows a FETCH or MOVE asks for (DoPortalRunFetch, PortalRunSelect and DoPortalRewind in PostgreSQL's
//! pquery.c). Where rows are read is not known here.

use sql::ast::{FetchDirection, FetchStmt};
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::cursor::{Cursor, To};
use crate::work::Work;

/// `FETCH_ALL` in parsenodes.h.
pub const ALL: u64 = i64::MAX as u64;

/// In front of a row's number, on one, or behind the last.
#[derive(Clone, Copy)]
pub struct Position {
    /// Rows up to the one it stands on.
    pub row: u64,
    pub at_start: bool,
    pub at_end: bool,
}

impl Default for Position {
    fn default() -> Self {
        Position { row: 0, at_start: true, at_end: false }
    }
}

impl Cursor {
    /// FETCH and MOVE: rows go where they are wanted; how many there were.
    ///
    /// # Errors
    /// 55000 if it can't go back, or has failed before.
    pub async fn fetch<C: Client>(&mut self, work: &mut Work<'_, C>, f: &FetchStmt, to: &mut To<'_>) -> Result<u64> {
        if self.failed {
            let message = format!("portal \"{}\" cannot be run", f.portalname);
            return Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let done = match self.late.take() {
            Some(error) => Err(ExecError::Sql(error)),
            None => self.fetch_in(work, f, to).await,
        };
        self.failed = done.is_err();
        done
    }

    async fn fetch_in<C: Client>(&mut self, work: &mut Work<'_, C>, f: &FetchStmt, to: &mut To<'_>) -> Result<u64> {
        let nowhere = &mut To::Nowhere;
        let (count, size) = (f.how_many, f.how_many.unsigned_abs());
        let forward = match FetchDirection::try_from(f.direction).unwrap_or(FetchDirection::Undefined) {
            FetchDirection::FetchAbsolute if count > 0 => {
                let row = self.position.row;
                if size - 1 <= row / 2 {
                    self.rewind(work).await?;
                    self.forward(work, size - 1, nowhere).await?;
                } else {
                    let row = row + u64::from(self.position.at_end);
                    if size <= row {
                        self.backward(work, row - size + 1, nowhere).await?;
                    } else {
                        self.forward(work, size - row - 1, nowhere).await?;
                    }
                }
                return self.forward(work, 1, to).await;
            }
            FetchDirection::FetchAbsolute if count < 0 => {
                self.forward(work, ALL, nowhere).await?;
                if size > 1 {
                    self.backward(work, size - 1, nowhere).await?;
                }
                return self.backward(work, 1, to).await;
            }
            FetchDirection::FetchAbsolute => {
                self.rewind(work).await?;
                return Ok(0);
            }
            FetchDirection::FetchRelative if count > 0 => {
                self.forward(work, size - 1, nowhere).await?;
                return self.forward(work, 1, to).await;
            }
            FetchDirection::FetchRelative if count < 0 => {
                if size > 1 {
                    self.backward(work, size - 1, nowhere).await?;
                }
                return self.backward(work, 1, to).await;
            }
            FetchDirection::FetchBackward => count < 0,
            _ => count >= 0,
        };
        if count == 0 {
            let on_row = !self.position.at_start && !self.position.at_end;
            if f.ismove || !on_row {
                return Ok(u64::from(on_row));
            }
            self.backward(work, 1, nowhere).await?;
            return self.forward(work, 1, to).await;
        }
        match forward {
            true => self.forward(work, size, to).await,
            false if size >= ALL && f.ismove => {
                let Position { row, at_end, .. } = self.position;
                self.rewind(work).await?;
                Ok(row.saturating_sub(u64::from(!at_end)))
            }
            false => self.backward(work, size, to).await,
        }
    }

    /// The next rows.
    pub async fn forward<C: Client>(&mut self, work: &mut Work<'_, C>, count: u64, to: &mut To<'_>) -> Result<u64> {
        if let Some(error) = self.late.take() {
            return Err(ExecError::Sql(error));
        }
        if self.position.at_end || count == 0 {
            return Ok(0);
        }
        let given = self.give_forward(work, self.position.row, count, to).await?;
        self.position.at_start &= given == 0;
        self.position.row += given;
        self.position.at_end = count >= ALL || given < count;
        Ok(given)
    }

    async fn backward<C: Client>(&mut self, work: &mut Work<'_, C>, count: u64, to: &mut To<'_>) -> Result<u64> {
        self.need_scroll(work).await?;
        if self.position.at_start {
            return Ok(0);
        }
        let top = match self.position.at_end {
            true => self.position.row,
            false => self.position.row.saturating_sub(1),
        };
        let given = count.min(top);
        self.give_backward(work, top - given, top, to).await?;
        if given > 0 && self.position.at_end {
            self.position.at_end = false;
            self.position.row += 1;
        }
        match count >= ALL || given < count {
            true => (self.position.at_start, self.position.row) = (true, 0),
            false => self.position.row -= given,
        }
        Ok(given)
    }

    /// Stands in front of the first row again; 55000 if rows were passed over and it can only go forward.
    pub async fn rewind<C: Client>(&mut self, work: &mut Work<'_, C>) -> Result<()> {
        if self.position.at_start && !self.position.at_end {
            return Ok(());
        }
        self.need_scroll(work).await?;
        self.position = Position::default();
        Ok(())
    }
}
