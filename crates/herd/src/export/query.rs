//! A query, which the router answers, into one file: a view, too, and whatever else is no table. And what a session says of a query's
//! columns, whoever answers it.

use super::error::Result;
use super::files::{Folder, plain};
use super::parquet::Columns;
use super::progress::Progress;
use super::write::{Source, Writing};
use super::{Export, Format, settings};
use crate::dump::session::Session;

/// Writes the rows of a query into a file of this name; how many there are.
pub fn export(asked: &Export, router: &str, query: &str, name: &str, folder: &Folder) -> Result<u64> {
    let mut session = Session::begin(router)?;
    session.unlimited()?;
    session.ask(&settings(asked))?;
    session.ask("SET herd.snapshot = on; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;")?;
    let columns = columns(asked, &mut session, query)?;
    let file = format!("{}.{}", plain(name), asked.format.extension());
    let source = Source { file, session, query: query.to_owned(), check: "COMMIT;".to_owned() };
    Writing::new(asked, folder, columns, Progress::new(None)).all(vec![source])
}

/// Those of Parquet, which needs to know types.
pub fn columns(asked: &Export, session: &mut Session, query: &str) -> Result<Option<Columns>> {
    match asked.format {
        Format::Csv => Ok(None),
        Format::Parquet => Ok(Some(Columns::new(&described(session, query)?, &asked.as_text)?)),
    }
}

/// The names and types of a query's columns, as psql describes them without running it.
fn described(session: &mut Session, query: &str) -> Result<Vec<(String, String)>> {
    // Names may have anything in them but a zero.
    let script = format!("\\pset fieldsep_zero\n\\pset recordsep_zero\n{query}\n\\gdesc");
    let said = session.ask_bytes(&script)?;
    session.ask("\\pset fieldsep '|'\n\\pset recordsep '\\n'")?;
    let said = String::from_utf8_lossy(&said);
    // In psql's words, by LC_ALL = C.
    if said.trim_end() == "The command has no result, or the result has no columns." {
        return Ok(vec![]);
    }
    let mut texts: Vec<&str> = said.split('\0').collect();
    // Behind the last one.
    let end = texts.pop();
    let (pairs, rest) = texts.as_chunks::<2>();
    if !rest.is_empty() || end.is_none_or(|end| !end.is_empty()) {
        return Err(session.unreadable(&said).into());
    }
    Ok(pairs.iter().map(|[name, of]| ((*name).to_owned(), (*of).to_owned())).collect())
}
