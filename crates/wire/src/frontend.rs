//! Messages of a client, decoded from their bodies. They borrow from the body; nothing is copied.

use smallvec::SmallVec;

use crate::error::Result;
use crate::frame::Reader;

/// Parse: a statement gets a name.
#[derive(Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    pub name: &'a str,
    pub sql: &'a str,
    /// Type oids of the parameters; 0 or missing: to be inferred.
    pub types: Vec<u32>,
}

/// Format codes (0 text, 1 binary), as Bind gives them: mostly none or one.
pub type Formats = SmallVec<[i16; 4]>;

/// A Bind message. Formats are as sent: none (all text), one (for all) or one each.
#[derive(Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    pub formats: Formats,
    pub values: SmallVec<[Option<&'a [u8]>; 8]>,
    pub result_formats: Formats,
    /// Everything behind the two names, as it came, for forwarding under another name.
    pub tail: &'a [u8],
}

/// Describe or Close.
#[derive(Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// `b'S'` statement or `b'P'` portal.
    pub kind: u8,
    pub name: &'a str,
}

/// Execute: rows of a portal, all or so many.
#[derive(Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    pub portal: &'a str,
    /// 0: no limit.
    pub rows_max: i32,
}

/// The text of a Query; `Err`: the body is malformed or not UTF-8.
pub fn query(body: &[u8]) -> Result<&str> {
    let mut r = Reader::new(body);
    let sql = r.cstr()?;
    r.end()?;
    Ok(sql)
}

/// `Err`: the body is malformed or not UTF-8.
pub fn parse(body: &[u8]) -> Result<Parse<'_>> {
    let mut r = Reader::new(body);
    let (name, sql) = (r.cstr()?, r.cstr()?);
    let n = r.count(4)?;
    let types = (0..n).map(|_| r.u32()).collect::<Result<_>>()?;
    r.end()?;
    Ok(Parse { name, sql, types })
}

/// `Err`: the body is malformed; that formats and values agree in number is not checked.
pub fn bind(body: &[u8]) -> Result<Bind<'_>> {
    let mut r = Reader::new(body);
    let (portal, statement) = (r.cstr()?, r.cstr()?);
    let tail = &body[body.len() - r.remaining()..];
    let n = r.count(2)?;
    let formats = (0..n).map(|_| r.i16()).collect::<Result<_>>()?;
    let n = r.count(4)?;
    let values = (0..n).map(|_| r.value()).collect::<Result<_>>()?;
    let n = r.count(2)?;
    let result_formats = (0..n).map(|_| r.i16()).collect::<Result<_>>()?;
    r.end()?;
    Ok(Bind { portal, statement, formats, values, result_formats, tail })
}

/// Body of Describe and Close.
pub fn named(body: &[u8]) -> Result<Named<'_>> {
    let mut r = Reader::new(body);
    let named = Named { kind: r.u8()?, name: r.cstr()? };
    r.end()?;
    Ok(named)
}

/// `Err`: the body is malformed or not UTF-8.
pub fn execute(body: &[u8]) -> Result<Execute<'_>> {
    let mut r = Reader::new(body);
    let execute = Execute { portal: r.cstr()?, rows_max: r.i32()? };
    r.end()?;
    Ok(execute)
}

impl Bind<'_> {
    /// The format (0 text, 1 binary) of parameter `i`.
    pub fn format(&self, i: usize) -> i16 {
        format_of(&self.formats, i)
    }
}

/// A format list as PostgreSQL reads it: empty is all text, one stands for all.
pub fn format_of(formats: &[i16], i: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(i).copied().unwrap_or(0),
    }
}
