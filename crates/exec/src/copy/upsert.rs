//! COPY FROM whose rows replace those with their primary key: the router reads every value, because a batch may have to
//! become an INSERT. It does not know how batches travel (`write/bulk/held.rs`).

use sql::NodeEnum;
use sql::ast;
use wire::sqlstate;

use crate::client::{Client, CopyInput};
use crate::error::{ExecError, Result};
use crate::router::progress::{self, Running};
use crate::work::Work;
use crate::write::sink::Sink;
use copy::{CopyOptions, Format, Header, Splitter};

/// What of COPY the router understands by itself; anything else would be passed over.
pub fn can_upsert(copy: &ast::CopyStmt, options: &CopyOptions) -> Result<()> {
    const KNOWN: [&str; 9] =
        ["format", "delimiter", "null", "header", "quote", "escape", "force_null", "force_not_null", "encoding"];
    let refuse = |what: String| {
        Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, format!("COPY with {what} is not supported where rows replace others"))
            .hint("Leave out REPLACE and set herd.upsert = off, or COPY into a table without a primary key and INSERT … ON CONFLICT from there."))
    };
    if options.format == Format::Binary {
        return refuse("FORMAT binary".into());
    }
    if copy.where_clause.is_some() {
        return refuse("WHERE".into());
    }
    if options.header == Header::Match {
        return refuse("HEADER match".into());
    }
    let utf8 = |name: &String| matches!(name.to_ascii_lowercase().replace(['-', '_'], "").as_str(), "utf8" | "unicode");
    if options.encoding.as_ref().is_some_and(|e| !utf8(e)) {
        return refuse("an ENCODING other than UTF8".into());
    }
    for option in &copy.options {
        if let Some(NodeEnum::DefElem(d)) = &option.node
            && !KNOWN.contains(&d.defname.as_str())
        {
            return refuse(d.defname.to_ascii_uppercase());
        }
    }
    Ok(())
}

impl<C: Client> Work<'_, C> {
    /// As `pump`, but with each row's values taken apart.
    pub async fn pump_values(
        &mut self,
        options: &CopyOptions,
        sink: &mut Sink,
        columns: &[usize],
        running: &Running,
    ) -> Result<()> {
        let names: Vec<String> = columns.iter().map(|c| sink.relation.columns[*c].name.clone()).collect();
        let mut splitter = Splitter::new(options, (0..columns.len()).collect(), &names).whole();
        let mut memory = self.memory.nothing();
        let mut values = Values { data: vec![], lengths: vec![], width: columns.len() };
        loop {
            match self.client.copy_input().await? {
                CopyInput::Data(_) if sink.commits() && self.is_cancelled() => return Err(ExecError::cancelled()),
                CopyInput::Data(data) => {
                    progress::add(&running.bytes, data.len() as u64);
                    let pushed = splitter.push(&data, &mut |_, row| values.add(row));
                    // Rows before a bad one are sent: they may be in batches that commit.
                    let sent = values.send(sink).await;
                    pushed.and(sent).and(memory.grow_to(splitter.pending_bytes()))?;
                }
                CopyInput::Done => break,
                CopyInput::Fail(reason) => return Err(ExecError::copy_failed(&reason)),
            }
        }
        splitter.finish(&mut |_, row| values.add(row))?;
        values.send(sink).await
    }
}

/// Values of the rows of one message.
struct Values {
    data: Vec<u8>,
    lengths: Vec<Option<usize>>,
    width: usize,
}

impl Values {
    fn add(&mut self, row: &[Option<&[u8]>]) -> Result<()> {
        for value in row {
            self.lengths.push(value.map(<[u8]>::len));
            self.data.extend_from_slice(value.unwrap_or_default());
        }
        Ok(())
    }

    async fn send(&mut self, sink: &mut Sink) -> Result<()> {
        let mut at = 0;
        let mut row: Vec<Option<&[u8]>> = Vec::with_capacity(self.width);
        for lengths in self.lengths.chunks(self.width.max(1)) {
            row.clear();
            for length in lengths {
                row.push(length.map(|n| {
                    at += n;
                    &self.data[at - n..at]
                }));
            }
            sink.row(&row).await?;
        }
        self.data.clear();
        self.lengths.clear();
        Ok(())
    }
}
