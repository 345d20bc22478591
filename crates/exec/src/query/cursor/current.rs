//! The row that a cursor stands on, for UPDATE and DELETE WHERE CURRENT OF: on which node it is, in whose cursor, and the value of the
//! distribution key by which its partition is found. It rides behind the columns that a client sees. Which statement changes the row is
//! not known here.

use bytes::{Bytes, BytesMut};
use catalog::NodeId;
use parking_lot::Mutex;
use wire::backend;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::cursor::further::{read_all, send};
use crate::query::cursor::{Cursor, Nodes, Source};
use crate::work::Work;

/// The key of the row that was read last, if one was: its text, or NULL.
#[derive(Default)]
pub(super) struct Key(Mutex<Option<Option<String>>>);

impl Key {
    /// No row has been read since.
    pub fn forget(&self) {
        *self.0.lock() = None;
    }

    /// A row without its last column, which is the key.
    pub fn taken_from(&self, row: &[u8]) -> Result<Bytes> {
        let mut values = backend::parse_data_row(&row[wire::frame::HEADER_LEN..])?;
        let key = values.pop().ok_or_else(|| ExecError::internal("a row without its key"))?;
        *self.0.lock() = Some(key.map(|key| String::from_utf8_lossy(key).into_owned()));
        let mut seen = BytesMut::new();
        backend::data_row(&mut seen, values.into_iter());
        Ok(seen.freeze())
    }
}

/// Where a cursor stands.
pub struct Standing {
    pub node: NodeId,
    /// The node's own cursor, which stands on the row.
    pub name: String,
    /// The row's key, as text.
    pub key: Option<String>,
}

impl Cursor {
    /// Its last column is the distribution key of the table whose rows may be changed where it stands; no client sees it. False: its
    /// rows are not on nodes.
    pub fn hides_key(&mut self) -> bool {
        let hides = matches!(self.source, Source::Nodes(_));
        self.key = hides.then(Key::default);
        hides
    }

    /// The row it stands on; none: it does not stand on a row.
    ///
    /// # Errors
    /// What goes wrong when its node is asked; 0A000 where the node's cursor is behind the row and can't go back.
    pub async fn standing<C: Client>(&mut self, work: &mut Work<'_, C>) -> Result<Option<Standing>> {
        if self.position.at_start || self.position.at_end || self.failed {
            return Ok(None);
        }
        if let Some(error) = self.late.take() {
            return Err(ExecError::Sql(error));
        }
        if let Some(standing) = self.known()? {
            return Ok(Some(standing));
        }
        let scrolls = self.scrolls(work).await?;
        let Source::Nodes(nodes) = &mut self.source else {
            return Err(ExecError::internal("a cursor that knows no keys"));
        };
        let (at, number) = nodes.stood_on(self.position.row)?;
        let stream = &mut nodes.streams[at];
        let (node, name) = (stream.node, stream.name.clone());
        if !scrolls {
            return Err(ExecError::sql(
                wire::sqlstate::FEATURE_NOT_SUPPORTED,
                "WHERE CURRENT OF a cursor over several nodes that was read ahead and can't go back is not supported",
            )
            .hint("Declare it FOR UPDATE."));
        }
        let sql = format!("FETCH ABSOLUTE {number} FROM {}", catalog::quote_ident(&name));
        stream.at = number;
        let mut lanes = work.ask_each(std::iter::once((node, ())), |_, p, ()| send(p, None, &sql, &[0])).await?;
        let row = match lanes.first_mut() {
            Some(p) => read_all(work, p).await,
            None => Err(ExecError::internal("no node")),
        };
        work.abandon(lanes).await;
        let row = row?.pop_front().ok_or_else(|| ExecError::internal("a node's cursor has lost a row"))?;
        let values = backend::parse_data_row(&row[wire::frame::HEADER_LEN..])?;
        let value = values.get(self.fields.len() - 1).copied().flatten();
        Ok(Some(Standing { node, name, key: value.map(|key| String::from_utf8_lossy(key).into_owned()) }))
    }
}

impl Cursor {
    /// Where it stands, if that is the row that was read last.
    fn known(&self) -> Result<Option<Standing>> {
        let (Source::Nodes(nodes), Some(key)) = (&self.source, &self.key) else { return Ok(None) };
        let Some(key) = key.0.lock().clone() else { return Ok(None) };
        let (at, number) = nodes.stood_on(self.position.row)?;
        let stream = &nodes.streams[at];
        Ok((stream.at == number).then(|| Standing { node: stream.node, name: stream.name.clone(), key }))
    }
}

impl Nodes {
    /// The stream that has the row of this number, counted from 1, and which of its rows it is.
    fn stood_on(&self, row: u64) -> Result<(usize, u64)> {
        if let (Some(last), true) = (self.last, row == self.passed) {
            return Ok((last, self.streams[last].passed));
        }
        let stretch = self.order.stretch(row - 1, row, self.streams.len());
        let at =
            stretch.runs.first().ok_or_else(|| ExecError::internal("a cursor does not know where it stands"))?.stream
                as usize;
        Ok((at, self.streams[at].skipped + stretch.before[at] + 1))
    }
}
