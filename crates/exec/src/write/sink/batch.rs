//! Batches of rows that go by INSERT, and what goes with them: rows are the first parameters of a statement, an array a column. It does
//! not know when a batch is full.

use plan::Text;
use wire::backend;

use super::{Sink, SinkKind};
use crate::arrays::Arrays;
use crate::error::{ExecError, Result};
use crate::render::{self, BatchStatement, Fill};
use crate::work::rows::{self, Reply};

impl Sink {
    /// Values of these types go with each row, behind those given; no column is filled then. By [`SinkKind::Insert`] only, and before
    /// there are rows.
    ///
    /// # Errors
    /// XX000 where columns are filled.
    pub fn beside(&mut self, types: Vec<String>) -> Result<()> {
        if self.fills() && !types.is_empty() {
            return Err(ExecError::internal("rows are filled that have something beside them"));
        }
        let width = self.columns.len() + types.len();
        self.batches.iter_mut().for_each(|rows| *rows = Arrays::of_text(width));
        self.beside = types;
        Ok(())
    }

    /// What sends a batch: rows are its first parameters, an array a column.
    pub(super) fn batch_statement(&self, rows: String) -> BatchStatement {
        // The columns as the statement names them, and those that are filled.
        let own = || {
            let table = catalog::qualified(&self.relation.schema, &self.relation.name);
            let names = self.column_names();
            let (given, filled) = match &self.kind {
                SinkKind::Insert(insert) if !insert.rows.columns.is_empty() => {
                    (insert.rows.columns.clone(), names[self.given..].iter().map(|name| format!(", {name}")).collect())
                }
                _ => (Text::from(names.join(", ")), String::new()),
            };
            let (head, end) = (format!("INSERT INTO {table} ("), format!("{filled}) OVERRIDING SYSTEM VALUE SELECT "));
            Text::all([head.into(), given, end.into()])
        };
        let width = self.columns.len() + self.beside.len();
        let SinkKind::Insert(insert) = &self.kind else {
            let (bound, now) = Default::default();
            return BatchStatement::new(&Fill::new(&bound, &now), &own(), rows, width, &Text::default());
        };
        let fill = Fill::new(&insert.bound, &insert.now);
        match !insert.rows.head.is_empty() && self.given == self.columns.len() {
            true => BatchStatement::new(&fill, &insert.rows.head, rows, width, &insert.rows.tail),
            false => BatchStatement::new(&fill, &own(), rows, width, &insert.rows.tail),
        }
    }

    pub(super) async fn insert_batch(&mut self, i: usize) -> Result<()> {
        let SinkKind::Insert(insert) = &self.kind else { return Ok(()) };
        // Without `(20)`: a cast would cut what is too long, where the assignment says so.
        let of_table = self.columns.iter().map(|c| catalog::without_modifier(&self.relation.columns[*c].type_name));
        let types: Vec<String> = of_table.chain(self.beside.iter().cloned()).collect();
        let returning = insert.returning;
        let batch = self.batches[i].take().finish();
        let rows = render::unnest(1, &types, batch.iter().map(|a| &a.carried));
        let statement = self.batch_statement(rows).with(batch);
        self.inserted = true;
        let p = &mut self.lanes[i];
        let foreign = p.lane.node != self.home;
        p.lane.look = self.looks.of(p.lane.node);
        rows::send_statement(&mut p.lane, None, &statement, foreign, &self.result_formats);
        p.lane.conn.flush().await?;
        let counts = self.relation.distribution().is_some() || p.lane.node == self.home;
        let mut kept = Ok(());
        loop {
            match rows::next(&mut p.lane).await? {
                Reply::Row(frame) if returning && counts && kept.is_ok() => kept = self.returned.push(i, frame.raw),
                Reply::Complete(tag) if counts => self.count += backend::rows_of_tag(&tag),
                Reply::Done => {
                    if returning && counts && self.relation.distribution().is_some() {
                        self.returned.answered(i);
                    }
                    return kept;
                }
                _ => {}
            }
        }
    }
}
