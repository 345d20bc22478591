//! Rows of COPY's text format as a Parquet file: they are gathered by column, and written as a row group when they are many. It does
//! not know where rows come from.
//!
//! No value is changed: what a column's type can't hold is an error. Floats have no dictionary, in which -0 and 0 would be one.

mod buffer;
mod kind;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Repetition};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use wire::values::text_fields;

use super::error::{Error, Result};
use buffer::Buffer;
use kind::Kind;

/// DuckDB's row groups have as many.
const ROWS_IN_GROUP: usize = 122_880;
/// As [`ROWS_IN_GROUP`], in bytes before they are compressed. A file takes about twice as much of memory, and its longest row.
const BYTES_IN_GROUP: usize = 16 << 20;
/// Characters of a value that an error shows.
const SHOWN_MAX: usize = 60;

/// The columns of all files of an export.
pub struct Columns {
    columns: Vec<Column>,
    schema: TypePtr,
    properties: WriterPropertiesPtr,
}

struct Column {
    name: String,
    kind: Kind,
}

impl Columns {
    /// Of names and types as `format_type` has them; those in `as_text` are text, whatever they are.
    pub fn new(described: &[(String, String)], as_text: &[String]) -> Result<Columns> {
        if let Some(column) = as_text.iter().find(|name| !described.iter().any(|(column, _)| column == *name)) {
            return Err(Error::NoColumn { column: column.clone() });
        }
        let kind = |name: &String, of: &str| if as_text.contains(name) { Kind::Text } else { Kind::of(of) };
        let columns: Vec<Column> =
            described.iter().map(|(name, of)| Column { name: name.clone(), kind: kind(name, of) }).collect();
        if columns.is_empty() {
            return Err(Error::NoColumns);
        }
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|before| before.name == column.name) {
                return Err(Error::Twice { column: column.name.clone() });
            }
        }
        let strange = |source| Error::Parquet { path: PathBuf::from("the schema"), source: Box::new(source) };
        let fields = columns.iter().map(|c| c.kind.field(&c.name).map(Arc::new)).collect::<std::result::Result<_, _>>();
        let schema = Type::group_type_builder("rows").with_fields(fields.map_err(strange)?).build().map_err(strange)?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("pgherd {}", env!("CARGO_PKG_VERSION")));
        for column in columns.iter().filter(|c| matches!(c.kind, Kind::Float4 | Kind::Float8)) {
            properties = properties.set_column_dictionary_enabled(ColumnPath::from(vec![column.name.clone()]), false);
        }
        Ok(Columns { columns, schema: Arc::new(schema), properties: Arc::new(properties.build()) })
    }
}

/// A file that rows are put into.
pub struct Rows<'c> {
    columns: &'c Columns,
    buffers: Vec<Buffer>,
    rows: usize,
    path: PathBuf,
    writer: SerializedFileWriter<File>,
}

impl<'c> Rows<'c> {
    /// None yet; `path` is for errors.
    pub fn new(columns: &'c Columns, file: File, path: &Path) -> Result<Rows<'c>> {
        let writer = SerializedFileWriter::new(file, columns.schema.clone(), columns.properties.clone());
        let writer = writer.map_err(unwritten(path))?;
        let buffers = columns.columns.iter().map(|column| Buffer::new(column.kind)).collect();
        Ok(Rows { columns, buffers, rows: 0, path: path.to_owned(), writer })
    }

    /// A line of COPY, without its newline.
    pub fn push(&mut self, line: &[u8]) -> Result<()> {
        let path = &self.path;
        let strange = || Error::Row { path: path.clone() };
        let mut fields = text_fields(line);
        for (column, buffer) in self.columns.columns.iter().zip(&mut self.buffers) {
            let field = fields.next().ok_or_else(strange)?.map_err(|_| strange())?;
            let Some(field) = field else {
                buffer.push_null();
                continue;
            };
            let text = std::str::from_utf8(&field).map_err(|_| Error::NotUtf8 { column: column.name.clone() })?;
            if !buffer.push(column.kind, text) {
                return Err(Error::Value {
                    column: column.name.clone(),
                    value: text.chars().take(SHOWN_MAX).collect(),
                    kind: column.kind.to_string(),
                });
            }
        }
        if fields.next().is_some() {
            return Err(strange());
        }
        self.rows += 1;
        if self.rows >= ROWS_IN_GROUP || self.buffers.iter().map(Buffer::bytes).sum::<usize>() >= BYTES_IN_GROUP {
            self.write_group()?;
        }
        Ok(())
    }

    /// What came is no row.
    pub fn strange(&self) -> Error {
        Error::Row { path: self.path.clone() }
    }

    /// The file is whole.
    pub fn finish(mut self) -> Result<File> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.writer.into_inner().map_err(unwritten(&self.path))
    }

    fn write_group(&mut self) -> Result<()> {
        let mut group = self.writer.next_row_group().map_err(unwritten(&self.path))?;
        for buffer in &mut self.buffers {
            let column = group.next_column().map_err(unwritten(&self.path))?;
            let Some(mut column) = column else { break };
            buffer.write(&mut column).map_err(unwritten(&self.path))?;
            column.close().map_err(unwritten(&self.path))?;
        }
        group.close().map_err(unwritten(&self.path))?;
        self.rows = 0;
        Ok(())
    }
}

fn unwritten(path: &Path) -> impl Fn(ParquetError) -> Error {
    let path = path.to_owned();
    move |source| Error::Parquet { path: path.clone(), source: Box::new(source) }
}

/// Any column may have NULLs: a query's do, and who reads tables of several exports together wants them alike.
const REPETITION: Repetition = Repetition::OPTIONAL;
