//! COPY's options from the syntax tree, with `ProcessCopyOptions`' checks of what the formats depend on.
//!
//! Options that only the storing node needs (FREEZE, ON_ERROR, …) and unknown ones pass: the statement goes to
//! PostgreSQL too, which knows what its version makes of them.

use sql::NodeEnum;
use sql::ast::{DefElem, Node};
use wire::sqlstate;

use super::error::CopyError;
use super::options::{CopyOptions, ForcedColumns, Format, Header};

const INVALID: &str = sqlstate::INVALID_PARAMETER_VALUE;
const SYNTAX: &str = sqlstate::SYNTAX_ERROR;
const UNSUPPORTED: &str = sqlstate::FEATURE_NOT_SUPPORTED;

/// The options as written, before defaults.
#[derive(Default)]
struct Written {
    format: Option<String>,
    delimiter: Option<String>,
    null: Option<String>,
    default: Option<String>,
    header: Option<Header>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<ForcedColumns>,
    force_null: Option<ForcedColumns>,
    force_not_null: Option<ForcedColumns>,
    encoding: Option<String>,
}

impl CopyOptions {
    /// Reads `CopyStmt.options`, a list of DefElem.
    pub fn from_ast(options: &[Node]) -> Result<Self, CopyError> {
        let mut written = Written::default();
        for node in options {
            let Some(NodeEnum::DefElem(option)) = &node.node else { continue };
            match option.defname.as_str() {
                "format" => once(&mut written.format, string(option)?)?,
                "delimiter" => once(&mut written.delimiter, string(option)?)?,
                "null" => once(&mut written.null, string(option)?)?,
                "default" => once(&mut written.default, string(option)?)?,
                "header" => once(&mut written.header, header(option)?)?,
                "quote" => once(&mut written.quote, string(option)?)?,
                "escape" => once(&mut written.escape, string(option)?)?,
                "force_quote" => once(&mut written.force_quote, columns(option)?)?,
                "force_null" => once(&mut written.force_null, columns(option)?)?,
                "force_not_null" => once(&mut written.force_not_null, columns(option)?)?,
                "encoding" => once(&mut written.encoding, string(option)?)?,
                _ => {}
            }
        }
        written.check()
    }
}

impl Written {
    fn check(self) -> Result<CopyOptions, CopyError> {
        let format = match self.format.as_deref() {
            None | Some("text") => Format::Text,
            Some("csv") => Format::Csv,
            Some("binary") => Format::Binary,
            Some(other) => return refuse(INVALID, format!("COPY format \"{other}\" not recognized")),
        };
        let mut options = CopyOptions::new(format);
        options.encoding = self.encoding.clone();
        options.header = self.header.unwrap_or(Header::No);
        if format == Format::Binary {
            self.check_binary(&options)?;
            return Ok(options);
        }
        if let Some(delimiter) = &self.delimiter {
            options.delimiter = one_byte("delimiter", delimiter)?;
        }
        options.null = self.null.map_or(options.null, String::into_bytes);
        options.default = self.default.map(String::into_bytes);
        check_markers(&options)?;
        if format == Format::Text {
            for (name, given) in [
                ("QUOTE", self.quote.is_some()),
                ("ESCAPE", self.escape.is_some()),
                ("FORCE_QUOTE", self.force_quote.is_some()),
                ("FORCE_NOT_NULL", self.force_not_null.is_some()),
                ("FORCE_NULL", self.force_null.is_some()),
            ] {
                if given {
                    return refuse(UNSUPPORTED, format!("COPY {name} requires CSV mode"));
                }
            }
        } else {
            if let Some(quote) = &self.quote {
                options.quote = one_byte("quote", quote)?;
            }
            options.escape = self.escape.map_or(Ok(options.quote), |escape| one_byte("escape", &escape))?;
            options.force_quote = self.force_quote.unwrap_or_default();
            options.force_null = self.force_null.unwrap_or_default();
            options.force_not_null = self.force_not_null.unwrap_or_default();
            check_quote(&options)?;
        }
        check_default(&options)?;
        Ok(options)
    }

    fn check_binary(&self, options: &CopyOptions) -> Result<(), CopyError> {
        for (name, given) in [
            ("DELIMITER", self.delimiter.is_some()),
            ("NULL", self.null.is_some()),
            ("DEFAULT", self.default.is_some()),
        ] {
            if given {
                return refuse(SYNTAX, format!("cannot specify {name} in BINARY mode"));
            }
        }
        if options.header != Header::No {
            return refuse(UNSUPPORTED, "cannot specify HEADER in BINARY mode");
        }
        Ok(())
    }
}

fn check_markers(options: &CopyOptions) -> Result<(), CopyError> {
    let line_end = |bytes: &[u8]| bytes.iter().any(|b| matches!(b, b'\r' | b'\n'));
    let delimiter = options.delimiter;
    if line_end(&[delimiter]) {
        return refuse(INVALID, "COPY delimiter cannot be newline or carriage return");
    }
    if line_end(&options.null) {
        return refuse(INVALID, "COPY null representation cannot use newline or carriage return");
    }
    if options.default.as_deref().is_some_and(line_end) {
        return refuse(INVALID, "COPY default representation cannot use newline or carriage return");
    }
    let unsafe_in_text = matches!(delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9');
    if options.format == Format::Text && unsafe_in_text {
        return refuse(INVALID, format!("COPY delimiter cannot be \"{}\"", char::from(delimiter)));
    }
    if options.null.contains(&delimiter) {
        return refuse(INVALID, "COPY delimiter character must not appear in the NULL specification");
    }
    Ok(())
}

fn check_quote(options: &CopyOptions) -> Result<(), CopyError> {
    if options.delimiter == options.quote {
        return refuse(INVALID, "COPY delimiter and quote must be different");
    }
    // PostgreSQL allows it, and reads nothing sensible then.
    if matches!(options.quote, b'\r' | b'\n') {
        return refuse(UNSUPPORTED, "COPY quote cannot be newline or carriage return");
    }
    if options.null.contains(&options.quote) {
        return refuse(INVALID, "CSV quote character must not appear in the NULL specification");
    }
    Ok(())
}

fn check_default(options: &CopyOptions) -> Result<(), CopyError> {
    let Some(default) = &options.default else { return Ok(()) };
    if default.contains(&options.delimiter) {
        return refuse(UNSUPPORTED, "COPY delimiter character must not appear in the DEFAULT specification");
    }
    if options.format == Format::Csv && default.contains(&options.quote) {
        return refuse(UNSUPPORTED, "CSV quote character must not appear in the DEFAULT specification");
    }
    if *default == options.null {
        return refuse(UNSUPPORTED, "NULL specification and DEFAULT specification cannot be the same");
    }
    Ok(())
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), CopyError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => refuse(SYNTAX, "conflicting or redundant options"),
    }
}

fn one_byte(what: &str, value: &str) -> Result<u8, CopyError> {
    match value.as_bytes() {
        [byte] => Ok(*byte),
        _ => refuse(UNSUPPORTED, format!("COPY {what} must be a single one-byte character")),
    }
}

/// `defGetString`.
fn string(option: &DefElem) -> Result<String, CopyError> {
    Ok(match option.arg.as_ref().and_then(|arg| arg.node.as_ref()) {
        Some(NodeEnum::String(s)) => s.sval.clone(),
        Some(NodeEnum::Integer(i)) => i.ival.to_string(),
        Some(NodeEnum::Float(f)) => f.fval.clone(),
        Some(NodeEnum::Boolean(b)) => b.boolval.to_string(),
        Some(NodeEnum::AStar(_)) => "*".into(),
        _ => return refuse(SYNTAX, format!("{} requires a parameter", option.defname)),
    })
}

fn header(option: &DefElem) -> Result<Header, CopyError> {
    if option.arg.is_none() {
        return Ok(Header::Skip);
    }
    match string(option)?.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(Header::Skip),
        "false" | "off" | "0" => Ok(Header::No),
        "match" => Ok(Header::Match),
        _ => refuse(SYNTAX, format!("{} requires a Boolean value or \"match\"", option.defname)),
    }
}

fn columns(option: &DefElem) -> Result<ForcedColumns, CopyError> {
    match option.arg.as_ref().and_then(|arg| arg.node.as_ref()) {
        Some(NodeEnum::AStar(_)) => Ok(ForcedColumns::All),
        Some(NodeEnum::List(list)) => {
            let names = list.items.iter().filter_map(|item| match &item.node {
                Some(NodeEnum::String(s)) => Some(s.sval.clone()),
                _ => None,
            });
            Ok(ForcedColumns::Named(names.collect()))
        }
        _ => refuse(INVALID, format!("argument to option \"{}\" must be a list of column names", option.defname)),
    }
}

fn refuse<T>(sqlstate: &'static str, message: impl Into<String>) -> Result<T, CopyError> {
    Err(CopyError::Options { sqlstate, message: message.into() })
}
