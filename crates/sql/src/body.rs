//! What code names: the relations it reads and writes, the functions, operators and types it uses.
//!
//! Code is a statement, or the definition of a function or procedure. SQL and PL/pgSQL are parsed; of what can't be parsed
//! (other languages, newer syntax) every word counts, as a name that is read, written and called. It resolves no name, and
//! does not know where anything is. Dynamic SQL is read as far as its text is constant ([`plpgsql`]).

mod dynamic;
mod plpgsql;
mod script;
mod utility;

pub(crate) use script::names_columns;
pub use script::{Script, Unread};

use std::collections::BTreeSet;

use pg_query::NodeEnum;
use pg_query::protobuf::{self as ast, Node};

use crate::moments;
use crate::names;
use crate::walk::{self, Visit};

/// Schema, if given, and name.
pub type Name = (Option<String>, String);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// Everything named where a table can stand, those that are written included.
    pub reads: BTreeSet<Name>,
    pub writes: BTreeSet<Name>,
    pub calls: BTreeSet<Name>,
    pub operators: BTreeSet<Name>,
    pub types: BTreeSet<Name>,
    /// What stands behind a dot: a column, or a function of the row.
    pub fields: BTreeSet<String>,
    /// A moment, a row's place, an object's number: what it is depends on where and when it is asked.
    pub varies: Option<String>,
    /// By this name a trigger asks which table it is on.
    pub asks_table: Option<String>,
    /// Runs text that is put together at run time, and may name anything.
    pub unknown: bool,
    /// Its blocks that catch errors: what they have locked is free when one is caught, and nobody sees that it was.
    pub caught: Vec<Body>,
    /// It is of such a block: those in it are part of it, and are not looked at by themselves. (At each of them all within would be
    /// read twice.)
    pub is_caught: bool,
    /// Its statements that are neither queries nor writes: what they do to the catalog is judged where that is known.
    pub utilities: Vec<NodeEnum>,
    /// A word is in its text that stands for a moment where it becomes a date or a time ('now'): see [`crate::moments`].
    pub moments: bool,
    /// How often its text has the words search_path.
    pub search_paths: usize,
    /// Of what could not be parsed: its words, in lower case, and the whole text for names that are no words.
    pub words: Option<Words>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub words: BTreeSet<String>,
    pub text: String,
}

impl Words {
    fn of(text: &str) -> Self {
        let text = text.to_lowercase();
        // Not '$', though identifiers may hold it: "$$SELECT … FROM t$$" has to show t.
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let words = text.split(|c| !is_word(c)).filter(|w| !w.is_empty()).map(str::to_string).collect();
        Words { words, text }
    }

    /// A name stands in the text as a word, or, where it is not one word, as a text.
    pub fn mentions(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        match Words::is_word(&name) {
            true => self.words.contains(&name),
            false => self.text.contains(&name.replace('"', "\"\"")),
        }
    }

    /// The name is one word.
    pub fn is_word(name: &str) -> bool {
        name.chars().all(|c| c.is_alphanumeric() || c == '_')
    }
}

impl Body {
    /// Of `CREATE FUNCTION …`, as `pg_get_functiondef` prints it, or of `DO …`.
    pub fn of_definition(definition: &str) -> Body {
        let mut body = Body::of_any(definition);
        body.definition(definition);
        body
    }

    /// Of SQL statements, one after the other.
    pub fn of_sql(sql: &str) -> Body {
        let mut body = Body::default();
        body.text(sql);
        body
    }

    /// Of `CREATE RULE …`, as `pg_get_ruledef` prints it: what it does, and not that it is made. A function that was written as a
    /// column of a row is printed as a call.
    pub fn of_rule(definition: &str) -> Body {
        let mut body = Body::default();
        let parsed = crate::parse(definition, true).ok().and_then(|mut s| s.pop());
        match &parsed {
            Some(rule @ NodeEnum::RuleStmt(_)) => body.visit(|look| walk::below(rule, look)),
            _ => body.by_words(definition),
        }
        body.fields.clear();
        body
    }

    /// Of code that is not read: it may run any text, wherever errors are caught.
    pub fn opaque() -> Body {
        let any = || Body { unknown: true, varies: Some("code that is too long to be read".into()), ..Body::default() };
        Body { caught: vec![any()], ..any() }
    }

    /// Of text in a language that nobody here reads.
    pub fn of_text(text: &str) -> Body {
        let mut body = Body::of_any(text);
        body.by_words(text);
        body
    }

    /// What any text says, once: texts are long, and looked at again and again.
    fn of_any(text: &str) -> Body {
        Body { moments: moments::mentions(text), search_paths: search_paths(text), ..Body::default() }
    }

    /// What an expression names and calls.
    pub fn of_expression(node: &Node) -> Body {
        let mut body = Body::default();
        body.node(node);
        body
    }

    /// What a statement names and calls.
    pub fn of_statement(statement: &NodeEnum) -> Body {
        let mut body = Body::default();
        body.statement(statement);
        body
    }

    fn by_words(&mut self, text: &str) {
        let new = Words::of(text);
        let words = self.words.get_or_insert_default();
        words.words.extend(new.words);
        words.text.push(' ');
        words.text.push_str(&new.text);
        self.unknown |= words.words.contains("execute");
        if self.unknown && ["exception", "subtransaction"].iter().any(|word| words.words.contains(*word)) {
            self.caught.push(Body { unknown: true, ..Body::default() });
        }
    }

    fn definition(&mut self, definition: &str) {
        let parsed = crate::parse(definition, true).ok().and_then(|mut s| s.pop());
        let mut trigger = false;
        let (language, source) = match &parsed {
            Some(NodeEnum::CreateFunctionStmt(f)) => {
                self.signature(f);
                if let Some(body) = f.sql_body.as_deref() {
                    return self.node(body);
                }
                let returns = f.return_type.as_ref().map_or("", |t| names::last(&t.names));
                trigger = matches!(returns, "trigger" | "event_trigger");
                (option(&f.options, "language"), option(&f.options, "as"))
            }
            Some(NodeEnum::DoStmt(d)) => {
                (option(&d.args, "language").or(Some("plpgsql".into())), option(&d.args, "as"))
            }
            _ => return self.by_words(definition),
        };
        let Some(source) = source else { return self.by_words(definition) };
        match language.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("sql") => self.text(&source),
            Some("plpgsql") => self.plpgsql(definition, &source, trigger),
            _ => self.by_words(&source),
        }
    }

    /// Types of arguments and of the result: a domain's conditions are code, too. Defaults are.
    fn signature(&mut self, f: &ast::CreateFunctionStmt) {
        f.return_type.iter().for_each(|t| self.named_type(t));
        for p in &f.parameters {
            if let Some(NodeEnum::FunctionParameter(p)) = &p.node {
                p.arg_type.iter().for_each(|t| self.named_type(t));
                p.defexpr.iter().for_each(|e| self.node(e));
            }
        }
    }

    /// SQL statements, one after the other.
    fn text(&mut self, sql: &str) {
        match crate::parse(sql, true) {
            Ok(statements) => statements.iter().for_each(|s| self.statement(s)),
            Err(_) => self.by_words(sql),
        }
    }

    fn statement(&mut self, statement: &NodeEnum) {
        utility::note(self, statement);
        self.visit(|look| {
            look.node(statement);
            if let NodeEnum::SelectStmt(s) = statement {
                walk::select_stmt(s, look);
            } else {
                walk::below(statement, look);
            }
        });
    }

    fn node(&mut self, node: &Node) {
        self.visit(|look| walk::walk(node, look));
    }

    fn visit<'a>(&mut self, walk: impl FnOnce(&mut Look<'_, 'a>)) {
        let mut look = Look { body: self, ctes: BTreeSet::new(), tables: vec![], made: vec![] };
        walk(&mut look);
        let Look { ctes, tables, .. } = look;
        for (rv, written) in tables {
            let (schema, name) = names::table(rv);
            if schema.is_none() && !written && ctes.contains(name) {
                continue;
            }
            let name = (schema.map(str::to_string), name.to_string());
            if written {
                self.writes.insert(name.clone());
            }
            self.reads.insert(name);
        }
    }

    fn named_type(&mut self, t: &ast::TypeName) {
        let mut parts = names::strings(&t.names);
        if t.pct_type {
            // table.column%TYPE: nothing is read.
            parts.clear();
        }
        if let Some((name, schema)) = parts.split_last() {
            if schema.last().is_none_or(|s| *s == "pg_catalog") && name.starts_with("reg") {
                self.varies.get_or_insert_with(|| format!("type {name}"));
            }
            self.types.insert((schema.last().map(|s| s.to_string()), name.to_string()));
        }
    }
}

/// How often a text has the words search_path.
pub fn search_paths(text: &str) -> usize {
    text.to_ascii_lowercase().matches("search_path").count()
}

struct Look<'b, 'a> {
    body: &'b mut Body,
    ctes: BTreeSet<&'a str>,
    /// With whether it is written.
    tables: Vec<(&'a ast::RangeVar, bool)>,
    /// Names that tables and views are to have: nothing is read there, whatever else has them.
    made: Vec<*const ast::RangeVar>,
}

/// What PL/pgSQL tells a trigger of its table, beside `tableoid` of its row. Of PL/pgSQL alone: elsewhere they are names like others, and nothing is missed.
const OWN_TABLE: [&str; 4] = ["tg_relid", "tg_relname", "tg_table_name", "tg_table_schema"];

/// Columns every table has, which tell where a row is.
pub(crate) const SYSTEM_COLUMNS: [&str; 6] = ["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"];

impl<'a> Visit<'a> for Look<'_, 'a> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        use NodeEnum::*;
        match n {
            CommonTableExpr(c) => {
                self.ctes.insert(&c.ctename);
            }
            CreateTableAsStmt(s) => self.made(s.into.as_deref()),
            ViewStmt(s) => self.made.extend(s.view.as_ref().map(std::ptr::from_ref)),
            InsertStmt(s) => self.written(&s.relation),
            UpdateStmt(s) => self.written(&s.relation),
            DeleteStmt(s) => self.written(&s.relation),
            MergeStmt(s) => self.written(&s.relation),
            CopyStmt(s) if s.is_from => self.written(&s.relation),
            // With its escapes read.
            AConst(ast::AConst { val: Some(ast::a_const::Val::Sval(s)), .. }) => {
                self.body.moments |= moments::mentions(&s.sval);
            }
            NotifyStmt(_) => {
                self.body.calls.insert((Some("pg_catalog".into()), "pg_notify".into()));
            }
            FuncCall(f) => self.called(f),
            CallStmt(s) => s.funccall.iter().for_each(|f| self.called(f)),
            // Aggregates with a syntax of their own: what they give depends on the order of rows, as json_agg() does.
            JsonArrayAgg(_) | JsonArrayQueryConstructor(_) => self.own_syntax("json_arrayagg"),
            JsonObjectAgg(_) => self.own_syntax("json_objectagg"),
            AExpr(e) => {
                let (schema, name) = names::qualified(&e.name);
                self.body.operators.insert((schema.map(str::to_string), name.to_string()));
            }
            SqlvalueFunction(f) => {
                use ast::SqlValueFunctionOp::*;
                let same = [SvfopCurrentRole, SvfopCurrentUser, SvfopUser, SvfopSessionUser, SvfopCurrentSchema];
                if !same.iter().any(|op| *op as i32 == f.op) {
                    self.body.varies.get_or_insert_with(|| "the current time or catalog".into());
                }
            }
            AIndirection(i) => self.body.fields.extend(names::strings(&i.indirection).into_iter().map(str::to_string)),
            ColumnRef(c) => {
                let column = names::last(&c.fields);
                if c.fields.len() > 1 {
                    self.body.fields.insert(column.to_string());
                }
                if column == "tableoid" || c.fields.len() == 1 && OWN_TABLE.contains(&column) {
                    self.body.asks_table.get_or_insert_with(|| column.to_string());
                }
                if SYSTEM_COLUMNS.contains(&column) {
                    self.body.varies.get_or_insert_with(|| format!("column {column}"));
                }
            }
            _ => {}
        }
        true
    }

    fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
        self.made(s.into_clause.as_deref());
        true
    }

    fn type_name(&mut self, t: &'a ast::TypeName) {
        self.body.named_type(t);
    }

    fn range_var(&mut self, rv: &'a ast::RangeVar) {
        if !self.made.contains(&std::ptr::from_ref(rv)) {
            self.tables.push((rv, false));
        }
    }
}

impl<'a> Look<'_, 'a> {
    fn written(&mut self, rv: &'a Option<ast::RangeVar>) {
        self.tables.extend(rv.iter().map(|rv| (rv, true)));
    }

    fn made(&mut self, into: Option<&ast::IntoClause>) {
        self.made.extend(into.and_then(|i| i.rel.as_ref()).map(std::ptr::from_ref));
    }

    fn called(&mut self, f: &ast::FuncCall) {
        let parts = names::strings(&f.funcname);
        if let Some((name, schema)) = parts.split_last() {
            self.body.calls.insert((schema.last().map(|s| s.to_string()), name.to_string()));
        }
    }

    fn own_syntax(&mut self, name: &str) {
        self.body.calls.insert((Some("pg_catalog".into()), name.into()));
    }
}

/// The string of an option: `LANGUAGE x`, `AS '…'`.
pub(crate) fn option(options: &[Node], name: &str) -> Option<String> {
    options.iter().find_map(|o| match &o.node {
        Some(NodeEnum::DefElem(d)) if d.defname == name => match d.arg.as_deref()?.node.as_ref()? {
            NodeEnum::String(s) => Some(s.sval.clone()),
            NodeEnum::List(l) => names::strings(&l.items).first().map(|s| s.to_string()),
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests;
