//! Rows that are held in one format and wanted in the other: home reads and writes the values.

use bytes::Bytes;
use wire::put;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::cursor::Nodes;
use crate::query::cursor::further::read_all;
use crate::work::Work;

impl Nodes {
    /// Formats of all columns: those that rows are merged by are binary.
    pub(super) fn all_formats(&self, visible: &[i16]) -> Vec<i16> {
        let hidden = self.merge.as_ref().map_or(0, |m| m.keys.len());
        visible.iter().copied().chain(std::iter::repeat_n(1, hidden)).collect()
    }

    /// What was read ahead, and what is read from now on, has these formats.
    pub(super) async fn read_ahead_as<C: Client>(&mut self, work: &mut Work<'_, C>, visible: &[i16]) -> Result<()> {
        let formats = self.all_formats(visible);
        if formats == self.formats {
            return Ok(());
        }
        let from = std::mem::replace(&mut self.formats, formats);
        let Some(merge) = &self.merge else { return Ok(()) };
        for stream in self.streams.iter_mut().filter(|s| !s.ahead.is_empty()) {
            let rows: Vec<Bytes> = stream.ahead.iter().cloned().collect();
            stream.ahead = work.converted(rows, &merge.types, &from, &self.formats).await?.into();
        }
        Ok(())
    }
}

impl<C: Client> Work<'_, C> {
    /// Rows with their values in other formats. `types`: the names of their columns' types.
    pub(super) async fn converted(
        &mut self,
        rows: Vec<Bytes>,
        types: &[String],
        from: &[i16],
        to: &[i16],
    ) -> Result<Vec<Bytes>> {
        let home = self.home();
        let count = rows.len();
        let list: Vec<String> = types.iter().enumerate().map(|(i, t)| format!("${}::{t}", i + 1)).collect();
        let mut p = self.lane(home).await?;
        let converted = async {
            let out = p.lane.conn.out();
            put::parse(out, "", &format!("SELECT {}", list.join(", ")), &[]);
            for row in &rows {
                let values = wire::backend::parse_data_row(&row[wire::frame::HEADER_LEN..])?;
                put::bind(out, "", "", from, values.into_iter(), to);
                put::execute(out, "", 0);
            }
            put::sync(out);
            p.lane.conn.sent_sync();
            p.lane.conn.flush().await?;
            let converted = read_all(self, &mut p).await?;
            match converted.len() == count {
                true => Ok(converted.into()),
                false => Err(ExecError::internal("rows were lost when their format was changed")),
            }
        }
        .await;
        self.abandon(vec![p]).await;
        converted
    }
}
