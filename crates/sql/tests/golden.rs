//! Golden tests of what is found in a statement's text: its template and literals, statements and rows, names.

mod golden_support;

use std::fmt::Write;
use std::path::Path;

use sql::NodeEnum;
use sql::ast::Node;
use sql::search;
use sql::template::Template;

fn check(folder: &str, show: impl Fn(&str) -> String) {
    golden_support::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder), show);
}

/// A placeholder is shown as `<kind>`; a literal as the client wrote it and what it means.
#[test]
fn templates_and_literals() {
    check("template", |sql| {
        let mut template = Template::new();
        if let Err(error) = template.scan(sql, true) {
            return format!("error: {error}");
        }
        let mut out = format!("template: {}", shown_template(template.text()));
        for (n, literal) in template.literals().iter().enumerate() {
            let value = match template.literal_value(sql, n) {
                Ok(value) => format!("{:?}", value.as_ref()),
                Err(error) => format!("error: {error}"),
            };
            write!(out, "\n{:?}: {} is {value}", literal.kind, template.literal_text(sql, n)).unwrap();
        }
        out
    });
}

fn shown_template(text: &[u8]) -> String {
    let names = ["integer", "bigint", "numeric", "string", "bit", "hex", "unicode", "national"];
    let mut out = String::new();
    for c in String::from_utf8_lossy(text).chars() {
        match names.get((c as usize).wrapping_sub(1)) {
            Some(name) => write!(out, "<{name}>").unwrap(),
            None => out.push(c),
        }
    }
    out
}

/// Where a string of statements is taken apart, the first word of each, and the rows of its VALUES.
#[test]
fn statements_and_rows() {
    check("split", |sql| {
        let ranges = match sql::split::split_statements(sql, true) {
            Ok(ranges) => ranges,
            Err(error) => return format!("error: {error}"),
        };
        let mut out = format!("{} statements", ranges.len());
        for range in ranges {
            let statement = &sql[range];
            write!(out, "\n[{}] {}", sql::split::first_keyword(statement), statement.replace('\n', "⏎")).unwrap();
            out += &rows(statement);
        }
        out
    });
}

fn rows(statement: &str) -> String {
    let Some(at) = statement.to_ascii_lowercase().find("values") else { return String::new() };
    let rows = match sql::split::values_rows(statement, true, at) {
        Ok(rows) => rows,
        Err(error) => return format!("\n  no rows: {error}"),
    };
    let mut out = String::new();
    for row in rows {
        write!(out, "\n  row {}", &statement[row]).unwrap();
    }
    out
}

/// The statement as it is written again, the tables it names, and what its columns are called.
#[test]
fn trees_and_names() {
    check("names", |sql| {
        let statement = match sql::parse(sql, true) {
            Ok(mut statements) => statements.remove(0),
            Err(error) => return format!("error: {error}"),
        };
        let mut tables = vec![];
        search::each_relation(&statement, |table| {
            let (schema, name) = sql::names::table(table);
            tables.push(schema.map_or(name.to_owned(), |schema| format!("{schema}.{name}")));
        });
        let mut out = format!("again: {}", sql::deparse(&statement).unwrap());
        if !tables.is_empty() {
            write!(out, "\ntables: {}", tables.join(", ")).unwrap();
        }
        if let NodeEnum::SelectStmt(select) = &statement
            && !select.target_list.is_empty()
        {
            let columns: Vec<_> = select.target_list.iter().map(column_name).collect();
            write!(out, "\ncolumns: {}", columns.join(", ")).unwrap();
        }
        out
    });
}

fn column_name(target: &Node) -> String {
    match &target.node {
        Some(NodeEnum::ResTarget(t)) if !t.name.is_empty() => t.name.clone(),
        Some(NodeEnum::ResTarget(t)) => t.val.as_deref().map(sql::names::figure_column).unwrap_or_default(),
        _ => String::new(),
    }
}
