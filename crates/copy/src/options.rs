//! COPY's options once read: what the format needs, and nothing of what only the storing node needs.

use super::error::CopyError;

/// COPY's formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Csv,
    Binary,
}

/// Whether the first line names the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    No,
    Skip,
    /// COPY FROM only: PostgreSQL compares the header with the columns' names.
    Match,
}

/// The columns an option like FORCE_QUOTE is for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ForcedColumns {
    #[default]
    None,
    All,
    Named(Vec<String>),
}

impl ForcedColumns {
    /// The option is for this column, by its name as it is stored.
    pub fn contains(&self, column: &str) -> bool {
        match self {
            ForcedColumns::None => false,
            ForcedColumns::All => true,
            ForcedColumns::Named(names) => names.iter().any(|name| name == column),
        }
    }

    pub(super) fn names(&self) -> &[String] {
        match self {
            ForcedColumns::Named(names) => names,
            _ => &[],
        }
    }
}

/// What of COPY's options changes how records are cut and written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOptions {
    pub format: Format,
    pub delimiter: u8,
    /// The NULL marker. In text format it is compared before un-escaping.
    pub null: Vec<u8>,
    /// The marker for a column's default (COPY FROM, PostgreSQL 16).
    pub default: Option<Vec<u8>>,
    pub quote: u8,
    pub escape: u8,
    pub header: Header,
    pub force_quote: ForcedColumns,
    pub force_null: ForcedColumns,
    pub force_not_null: ForcedColumns,
    /// As written in the statement; the client's encoding applies where it is None.
    pub encoding: Option<String>,
    /// Whether a line of `\.` ends CSV data. Servers before PostgreSQL 18 say so; for 18 it is a value like any other.
    /// Not an option of the statement: set it when a node is older than 18.
    pub csv_end_marker: bool,
}

/// Client encodings whose multi-byte characters contain bytes below 0x80 (`PG_ENCODING_IS_CLIENT_ONLY` in pg_wchar.h),
/// written without case and punctuation, with their aliases.
const EMBEDS_ASCII: [&str; 18] = [
    "sjis",
    "mskanji",
    "shiftjis",
    "win932",
    "windows932",
    "big5",
    "win950",
    "windows950",
    "gbk",
    "win936",
    "windows936",
    "uhc",
    "win949",
    "windows949",
    "gb18030",
    "johab",
    "shiftjis2004",
    "sjis2004",
];

impl CopyOptions {
    /// A format with PostgreSQL's defaults.
    pub fn new(format: Format) -> Self {
        let csv = format == Format::Csv;
        CopyOptions {
            format,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { Vec::new() } else { b"\\N".to_vec() },
            default: None,
            quote: b'"',
            escape: b'"',
            header: Header::No,
            force_quote: ForcedColumns::None,
            force_null: ForcedColumns::None,
            force_not_null: ForcedColumns::None,
            encoding: None,
            csv_end_marker: false,
        }
    }

    /// Whether the data is in the encoding in which values are held here.
    pub fn is_utf8(&self) -> bool {
        self.encoding.as_deref().is_none_or(|name| matches!(&*plain(name), "utf8" | "unicode" | "sqlascii"))
    }

    /// Refuses text that can't be cut bytewise. `client_encoding` is the session's, used where the statement names
    /// none. Call it before splitting; passing a node's output on needs no such check.
    pub fn check_encoding(&self, client_encoding: &str) -> Result<(), CopyError> {
        let name = self.encoding.as_deref().unwrap_or(client_encoding);
        if self.format != Format::Binary && EMBEDS_ASCII.contains(&&*plain(name)) {
            return Err(CopyError::Encoding(name.to_string()));
        }
        Ok(())
    }
}

/// An encoding's name without case and punctuation.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}
