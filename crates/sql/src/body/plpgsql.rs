//! PL/pgSQL: every expression and statement in it, found in what libpg_query makes of it.
//!
//! The shape of its tree is taken as it comes: whatever holds an expression is read, so that no kind of statement is missed.

use serde_json::Value;

use super::{Body, dynamic};

/// The parser is C, works recursively and is given code of users' own: it has room.
const STACK_BYTES: usize = 64 << 20;

/// What a trigger function finds in its variables. libpg_query prints no tree of a function that RETURNS trigger.
const TRIGGER: &str = "new record, old record, tg_name text, tg_when text, tg_level text, tg_op text, tg_relid oid, \
    tg_relname text, tg_table_name text, tg_table_schema text, tg_nargs int, tg_argv text[], tg_event text, tg_tag text";

impl Body {
    pub(super) fn plpgsql(&mut self, definition: &str, source: &str, trigger: bool) {
        let tree = match trigger {
            true => {
                let rows = without_row_types(source);
                parse(&format!(
                    "CREATE FUNCTION f({TRIGGER}) RETURNS record LANGUAGE plpgsql AS $herd_body${rows}$herd_body$"
                ))
            }
            false => parse_definition(definition, source),
        };
        match tree {
            Some(tree) => self.tree(&tree, false),
            None => self.by_words(source),
        }
    }

    /// `text`: an expression found here gives the text of a statement.
    fn tree(&mut self, value: &Value, text: bool) {
        match value {
            Value::Array(items) => items.iter().for_each(|v| self.tree(v, text)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    match key.as_str() {
                        "PLpgSQL_expr" => self.expression(value, text),
                        "PLpgSQL_stmt_dynexecute" | "PLpgSQL_stmt_dynfors" => self.executes(value, "query"),
                        "dynquery" => self.tree(value, true),
                        "PLpgSQL_stmt_block" => self.block(value),
                        _ => self.tree(value, false),
                    }
                }
            }
            _ => {}
        }
    }

    /// What handles an error runs behind what was undone.
    fn block(&mut self, block: &Value) {
        if let (Some(_), Some(body), false) = (block.get("exceptions"), block.get("body"), self.is_caught) {
            let mut caught = Body { is_caught: true, ..Body::default() };
            caught.tree(body, false);
            self.caught.push(caught);
        }
        self.tree(block, false);
    }

    /// A statement whose field `query` is text to run; its other fields are ordinary.
    fn executes(&mut self, statement: &Value, query: &str) {
        let Some(fields) = statement.as_object() else { return };
        for (key, value) in fields {
            self.tree(value, key == query);
        }
    }

    fn expression(&mut self, expression: &Value, text: bool) {
        let Some(query) = expression.get("query").and_then(Value::as_str) else { return };
        let sql = match text_of(expression) {
            Some(Some(sql)) => sql,
            Some(None) => return,
            None => return self.by_words(query),
        };
        self.text(&sql);
        if text {
            match dynamic::statement(&sql) {
                Some(run) => self.text(&run),
                None => {
                    self.unknown = true;
                    // Names in its constant parts count: a part may be run as it stands.
                    self.by_words(query);
                }
            }
        }
    }
}

/// The statement that an expression is, if it is more than a type; `None`: it can't be told.
pub(super) fn text_of(expression: &Value) -> Option<Option<String>> {
    let query = expression.get("query").and_then(Value::as_str)?;
    // RawParseMode (parser/parser.h): 0 a statement, 1 a type, 2 an expression, 3 to 5 assignments to 1 to 3 names.
    match expression.get("parseMode").and_then(Value::as_i64) {
        Some(0) => Some(Some(query.to_string())),
        Some(1) => Some(None),
        Some(3..=5) => Some(Some(format!("SELECT {}", assigned(query)?))),
        _ => Some(Some(format!("SELECT {query}"))),
    }
}

/// The tree of a function that is no trigger's.
pub(super) fn parse_definition(definition: &str, source: &str) -> Option<Value> {
    // The parser, which knows no types, takes no VARIADIC: to the body it is an array.
    let head = definition.find(source).map_or(definition, |at| &definition[..at]);
    let one = head.matches("VARIADIC ").count();
    parse(&definition.replacen("VARIADIC ", "", one).replace(source, &without_row_types(source)))
}

/// `table%ROWTYPE` is a record to a parser that knows no table.
fn without_row_types(source: &str) -> String {
    use crate::lexer::{Lexer, TokenKind};
    let tokens: Vec<_> = Lexer::new(source, true).flatten().collect();
    let text = |i: usize| tokens.get(i).map_or("", |t| &source[t.start..t.end]);
    let is_name = |i: usize| matches!(tokens[i].kind, TokenKind::Ident | TokenKind::QuotedIdent);
    let mut out = String::with_capacity(source.len());
    let mut copied = 0;
    for i in 1..tokens.len() {
        if text(i) != "%" || !text(i + 1).eq_ignore_ascii_case("rowtype") || !is_name(i - 1) {
            continue;
        }
        let qualified = i >= 3 && text(i - 2) == "." && is_name(i - 3);
        let start = tokens[if qualified { i - 3 } else { i - 1 }].start;
        out.push_str(&source[copied..start]);
        out.push_str("record");
        copied = tokens[i + 1].end;
    }
    out.push_str(&source[copied..]);
    out
}

/// What is assigned: behind the first `:=` or `=`.
fn assigned(assignment: &str) -> Option<&str> {
    use crate::lexer::{Lexer, TokenKind};
    let mut tokens = Lexer::new(assignment, true).flatten();
    let at = tokens
        .find(|t| t.kind == TokenKind::ColonEquals || t.kind == TokenKind::Op && &assignment[t.start..t.end] == "=")?;
    Some(&assignment[at.end..])
}

fn parse(definition: &str) -> Option<Value> {
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = parser.spawn_scoped(scope, || pg_query::parse_plpgsql(definition).ok()).ok()?;
        thread.join().ok()?
    })
}
