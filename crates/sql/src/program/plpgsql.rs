//! Program of PL/pgSQL, from what libpg_query makes of it (JSON): every field of every statement is known here, or the body is not read.
//!
//! Two things its tree does not say: which variable `RETURN v` names (so that what is returned is put into parentheses before,
//! `returned.rs`), and the modifiers of declared types (a declaration with parentheses is not read).

use serde_json::{Map, Value};

use super::declared::declarations;
use super::{
    Block, Expression, Handler, Jump, Kind, Loop, Program, Query, Raise, Step, Target, Variable, conditions,
    has_backslash, returned,
};
use crate::body::{Unread, parse_plpgsql};
use crate::lexer::{Lexer, TokenKind};

const UNREAD: Unread = "can't be read";
const SEVERAL: Unread = "has several variables of one name";
type Read<T> = Result<T, Unread>;
type Fields = Map<String, Value>;

impl Program {
    pub(super) fn plpgsql(&mut self, source: &str) -> Read<()> {
        let declared = declarations(source)?;
        if has_backslash(source) {
            return Err("has a string with a backslash, which is another one without standard_conforming_strings");
        }
        let body = returned::in_parentheses(source).ok_or(UNREAD)?;
        // The parser, which knows no types, need not know those of parameters.
        let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let parameter = |(at, v): (usize, &Variable)| {
            let mode = match (self.arguments.contains(&at), self.outputs.contains(&at)) {
                (true, true) => "INOUT",
                (false, true) => "OUT",
                _ => "",
            };
            format!("{mode} {} text", v.name.as_deref().map(quote).unwrap_or_default())
        };
        let parameters: Vec<String> = self.variables.iter().enumerate().map(parameter).collect();
        let set = if returned::gives_sets(source) { "SETOF " } else { "" };
        let returns = match self.outputs.len() {
            0 if set.is_empty() && returned::gives_nothing(source) => "void",
            0 | 1 => "text",
            _ => "record",
        };
        let tag = (0..).map(|n| format!("$herd{n}$")).find(|tag| !body.contains(tag.as_str())).ok_or(UNREAD)?;
        let tree = parse_plpgsql(&format!(
            "CREATE FUNCTION f({}) RETURNS {set}{returns} LANGUAGE plpgsql AS {tag}{body}{tag}",
            parameters.join(", ")
        ))
        .ok_or(UNREAD)?;
        let function = tree.pointer("/0/PLpgSQL_function").and_then(Value::as_object).ok_or(UNREAD)?;
        let datums = function.get("datums").and_then(Value::as_array).ok_or(UNREAD)?;
        let names = self.variables.iter().filter_map(|v| v.name.clone());
        let names = declared.iter().flatten().cloned().chain(names).collect();
        let mut read = Reader {
            names,
            declared,
            blocks: 0,
            dynamic: false,
            counts: false,
            variables: vec![],
            places: vec![],
            open: vec![],
            placed: Default::default(),
        };
        for (at, datum) in datums.iter().enumerate() {
            read.datum(datum, at < self.parameters)?;
        }
        read.place_declared(self.parameters)?;
        let mut block = None;
        for (key, value) in function {
            match key.as_str() {
                "datums" | "new_varno" | "old_varno" => {}
                "action" => block = Some(read.whole(inside(value, "PLpgSQL_stmt_block")?)?),
                _ => return Err(UNREAD),
            }
        }
        self.block = block.ok_or(UNREAD)?;
        (self.dynamic, self.counts) = (read.dynamic, read.counts);
        if read.blocks != read.declared.len() {
            return Err(UNREAD);
        }
        let parameters = std::mem::take(&mut self.variables);
        self.variables = read.variables;
        for (own, given) in self.variables.iter_mut().zip(parameters) {
            own.name = given.name;
            own.kind = given.kind;
        }
        Ok(())
    }
}

struct Reader {
    /// The names of parameters, and of what DECLAREs make.
    names: Vec<String>,
    /// Those of each block; and how many blocks have been read.
    declared: Vec<Vec<String>>,
    blocks: usize,
    /// There is an EXECUTE.
    dynamic: bool,
    /// There is a GET DIAGNOSTICS.
    counts: bool,
    variables: Vec<Variable>,
    /// By the numbers of the tree: which variable it is.
    places: Vec<Option<usize>>,
    /// Loops' own variables that are in use.
    open: Vec<String>,
    /// What is declared and not yet some block's, in order.
    placed: std::collections::VecDeque<usize>,
}

impl Reader {
    fn datum(&mut self, datum: &Value, argument: bool) -> Read<()> {
        let (kind, fields) = one(datum)?;
        let mut place = None;
        match kind {
            "PLpgSQL_var" => {
                let mut v = Variable::default();
                for (key, value) in fields {
                    match key.as_str() {
                        "refname" => v.name = value.as_str().map(str::to_string),
                        "lineno" => {}
                        "datatype" if argument => {}
                        "datatype" => v.kind = kind_of(value)?,
                        "default_val" => v.first = Some(expression(value)?),
                        "isconst" => v.constant = true,
                        "notnull" => v.not_null = true,
                        _ => return Err(UNREAD),
                    }
                }
                if is_of_handler(v.name.as_deref()) {
                    v.kind = Kind::Own;
                }
                place = Some(v);
            }
            "PLpgSQL_rec" => {
                let mut v = Variable { kind: Kind::Record, ..Variable::default() };
                for (key, value) in fields {
                    match key.as_str() {
                        "refname" => v.name = value.as_str().map(str::to_string),
                        "dno" | "lineno" => {}
                        _ => return Err("has records with a default or of a named type"),
                    }
                }
                place = Some(v);
            }
            "PLpgSQL_row" | "PLpgSQL_recfield" => {}
            _ => return Err(UNREAD),
        }
        self.places.push(place.as_ref().map(|_| self.variables.len()));
        if let Some(v) = place {
            self.variables.push(v);
        }
        Ok(())
    }

    /// Which variables blocks declare: in the order of the text, as the names are.
    fn place_declared(&mut self, parameters: usize) -> Read<()> {
        // FOUND stands behind the parameters.
        let own = self.variables.iter().skip(parameters).position(|v| v.name.as_deref() == Some("found"));
        let mut at = parameters + own.ok_or(UNREAD)? + 1;
        let mut places = vec![];
        for name in self.declared.iter().flatten() {
            let found = self.variables[at..].iter().position(|v| v.name.as_deref() == Some(name)).ok_or(UNREAD)?;
            places.push((name.clone(), at + found));
            at += found + 1;
        }
        // Any other of such a name is a loop's.
        let is_declared = |i: usize| i < parameters || places.iter().any(|(_, at)| *at == i);
        let named = |v: &Variable| v.name.as_ref().is_some_and(|n| self.names.contains(n));
        let first = self.variables.iter().position(|v| v.name.as_deref() == Some("found"));
        if self.variables.iter().enumerate().any(|(i, v)| named(v) && !is_declared(i) && Some(i) != first) {
            return Err(SEVERAL);
        }
        if self.names.iter().any(|n| n == "found" || is_of_handler(Some(n))) {
            return Err(SEVERAL);
        }
        self.placed = places.into_iter().map(|(_, at)| at).collect();
        Ok(())
    }

    fn variable(&self, number: &Value) -> Read<usize> {
        let number = number.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or(UNREAD)?;
        self.places.get(number).copied().flatten().ok_or("changes a part of a value")
    }

    /// One that may be changed.
    fn written(&self, number: Option<&Value>) -> Read<usize> {
        // The tree leaves out zero.
        let at = match number {
            Some(number) => self.variable(number)?,
            None => self.places.first().copied().flatten().ok_or(UNREAD)?,
        };
        if self.variables[at].constant {
            return Err("changes a constant");
        }
        Ok(at)
    }

    /// The function's block. Around one with handlers or a label PostgreSQL puts another, with a RETURN behind it.
    fn whole(&mut self, fields: &Fields) -> Read<Block> {
        if !fields.contains_key("lineno")
            && let [inner, _] = array(fields.get("body"))?
            && let Ok(inner) = inside(inner, "PLpgSQL_stmt_block")
        {
            let inner = self.block(inner)?;
            return Ok(Block { steps: vec![Step::Block(inner), Step::Return(None)], ..Block::default() });
        }
        self.block(fields)
    }

    fn block(&mut self, fields: &Fields) -> Read<Block> {
        let mut block = Block::default();
        let declared = self.declared.get(self.blocks).map_or(0, Vec::len);
        self.blocks += 1;
        block.declared.extend(self.placed.drain(..declared));
        for (key, value) in fields {
            match key.as_str() {
                "lineno" => {}
                "label" => block.label = value.as_str().map(str::to_string),
                "body" => block.steps = self.steps(value)?,
                "exceptions" => block.handlers = self.handlers(inside(value, "PLpgSQL_exception_block")?)?,
                _ => return Err(UNREAD),
            }
        }
        Ok(block)
    }

    fn handlers(&mut self, fields: &Fields) -> Read<Vec<Handler>> {
        let mut handlers = vec![];
        for (key, value) in fields {
            if key != "exc_list" {
                return Err(UNREAD);
            }
            for one in value.as_array().ok_or(UNREAD)? {
                handlers.push(self.handler(inside(one, "PLpgSQL_exception")?)?);
            }
        }
        Ok(handlers)
    }

    fn handler(&mut self, fields: &Fields) -> Read<Handler> {
        let mut handler = Handler { states: vec![], steps: vec![] };
        for (key, value) in fields {
            match key.as_str() {
                "lineno" => {}
                "conditions" => {
                    for one in value.as_array().ok_or(UNREAD)? {
                        let condition = inside(one, "PLpgSQL_condition")?;
                        match condition.get("condname").and_then(Value::as_str) {
                            Some("others") => handler.states.push(None),
                            Some(name) => {
                                let states = conditions::states(name);
                                if states.is_empty() {
                                    return Err(UNREAD);
                                }
                                handler.states.extend(states.into_iter().map(|s| Some(s.to_string())));
                            }
                            None => return Err(UNREAD),
                        }
                    }
                }
                "action" => handler.steps = self.steps(value)?,
                _ => return Err(UNREAD),
            }
        }
        Ok(handler)
    }

    fn steps(&mut self, value: &Value) -> Read<Vec<Step>> {
        value.as_array().ok_or(UNREAD)?.iter().map(|v| self.step(v)).collect()
    }

    fn step(&mut self, value: &Value) -> Read<Step> {
        let (kind, fields) = one(value)?;
        let known = |names: &[&str]| fields.keys().all(|k| k == "lineno" || names.contains(&k.as_str()));
        let get = |name: &str| fields.get(name);
        let expr = |name: &str| fields.get(name).ok_or(UNREAD).and_then(expression);
        let perhaps = |name: &str| fields.get(name).map(expression).transpose();
        let label = || get("label").and_then(Value::as_str).map(str::to_string);
        let check = |names: &[&str]| if known(names) { Ok(()) } else { Err(UNREAD) };
        match kind {
            "PLpgSQL_stmt_block" => self.block(fields).map(Step::Block),
            "PLpgSQL_stmt_assign" => {
                check(&["varno", "expr"])?;
                let (text, mode) = query(get("expr").ok_or(UNREAD)?)?;
                if mode != 3 {
                    return Err("changes a part of a value");
                }
                let value = assigned(text).ok_or("changes a part of a value")?;
                let at = self.written(get("varno"))?;
                Ok(Step::Assign(at, Expression::of(&format!("SELECT {value}"))?))
            }
            "PLpgSQL_stmt_if" => {
                check(&["cond", "then_body", "elsif_list", "else_body"])?;
                let mut when = vec![(expr("cond")?, self.some(get("then_body"))?)];
                for one in array(get("elsif_list"))? {
                    let fields = inside(one, "PLpgSQL_if_elsif")?;
                    let cond = fields.get("cond").ok_or(UNREAD).and_then(expression)?;
                    when.push((cond, self.some(fields.get("stmts"))?));
                }
                Ok(Step::If(when, self.some(get("else_body"))?))
            }
            "PLpgSQL_stmt_case" => {
                check(&["t_expr", "t_varno", "case_when_list", "have_else", "else_stmts"])?;
                let value = match get("t_expr") {
                    Some(e) => {
                        let own = self.written(get("t_varno"))?;
                        // Of the value's type.
                        self.variables[own].kind = Kind::Own;
                        Some((own, expression(e)?))
                    }
                    None => None,
                };
                let mut when = vec![];
                for one in array(get("case_when_list"))? {
                    let fields = inside(one, "PLpgSQL_case_when")?;
                    let cond = fields.get("expr").ok_or(UNREAD).and_then(expression)?;
                    when.push((cond, self.some(fields.get("stmts"))?));
                }
                let otherwise = match get("have_else").is_some() {
                    true => Some(self.some(get("else_stmts"))?),
                    false => None,
                };
                Ok(Step::Case { value, when, otherwise })
            }
            "PLpgSQL_stmt_loop" => {
                check(&["label", "body"])?;
                Ok(Step::Loop(Loop { label: label(), steps: self.some(get("body"))? }))
            }
            "PLpgSQL_stmt_while" => {
                check(&["label", "body", "cond"])?;
                Ok(Step::While(expr("cond")?, Loop { label: label(), steps: self.some(get("body"))? }))
            }
            "PLpgSQL_stmt_fori" => {
                check(&["label", "body", "var", "lower", "upper", "step", "reverse"])?;
                let own = inside(get("var").ok_or(UNREAD)?, "PLpgSQL_var")?;
                let name = own.get("refname").and_then(Value::as_str).ok_or(UNREAD)?.to_string();
                if self.open.contains(&name) || self.names.contains(&name) {
                    return Err(SEVERAL);
                }
                let is = |v: &Variable| v.name.as_deref() == Some(&name);
                let variable = self.variables.iter().position(is).ok_or(UNREAD)?;
                self.variables[variable].kind = Kind::Own;
                self.open.push(name);
                let steps = Loop { label: label(), steps: self.some(get("body"))? };
                self.open.pop();
                Ok(Step::Count {
                    variable,
                    lower: expr("lower")?,
                    upper: expr("upper")?,
                    by: perhaps("step")?,
                    reverse: get("reverse").is_some(),
                    steps,
                })
            }
            "PLpgSQL_stmt_fors" => {
                check(&["label", "body", "var", "query"])?;
                let row = self.target(get("var").ok_or(UNREAD)?)?;
                Ok(Step::Rows {
                    row,
                    query: Query::Static(expr("query")?),
                    steps: Loop { label: label(), steps: self.some(get("body"))? },
                })
            }
            "PLpgSQL_stmt_dynfors" => {
                check(&["label", "body", "var", "query", "params"])?;
                let row = self.target(get("var").ok_or(UNREAD)?)?;
                let query = self.runs(expr("query")?, expressions(get("params"))?);
                Ok(Step::Rows { row, query, steps: Loop { label: label(), steps: self.some(get("body"))? } })
            }
            "PLpgSQL_stmt_dynexecute" => {
                check(&["query", "into", "strict", "target", "params"])?;
                let into = match get("into").is_some() {
                    true => Some(self.target(get("target").ok_or(UNREAD)?)?),
                    false => None,
                };
                let statement = self.runs(expr("query")?, expressions(get("params"))?);
                Ok(Step::Run { statement, into, strict: get("strict").is_some() })
            }
            "PLpgSQL_stmt_return_next" => {
                check(&["expr"])?;
                Ok(Step::ReturnNext(perhaps("expr")?))
            }
            "PLpgSQL_stmt_return_query" => {
                check(&["query", "dynquery", "params"])?;
                let query = match get("dynquery") {
                    Some(text) => self.runs(expression(text)?, expressions(get("params"))?),
                    None => Query::Static(expr("query")?),
                };
                Ok(Step::ReturnRows(query))
            }
            "PLpgSQL_stmt_exit" => {
                check(&["is_exit", "label", "cond"])?;
                Ok(Step::Jump(Jump { exit: get("is_exit").is_some(), label: label() }, perhaps("cond")?))
            }
            "PLpgSQL_stmt_return" => {
                check(&["expr"])?;
                Ok(Step::Return(perhaps("expr")?))
            }
            "PLpgSQL_stmt_raise" => self.raise(fields).map(Step::Raise),
            "PLpgSQL_stmt_perform" => {
                check(&["expr"])?;
                Ok(Step::Perform(expr("expr")?))
            }
            "PLpgSQL_stmt_execsql" => {
                check(&["sqlstmt", "into", "strict", "target"])?;
                let into = match get("into").is_some() {
                    true => Some(self.target(get("target").ok_or(UNREAD)?)?),
                    false => None,
                };
                Ok(Step::Run { statement: Query::Static(expr("sqlstmt")?), into, strict: get("strict").is_some() })
            }
            "PLpgSQL_stmt_getdiag" => {
                check(&["diag_items"])?;
                self.counts = true;
                let mut into = vec![];
                for one in array(get("diag_items"))? {
                    let fields = inside(one, "PLpgSQL_diag_item")?;
                    if fields.get("kind").and_then(Value::as_str) != Some("ROW_COUNT") {
                        return Err("asks for diagnostics other than ROW_COUNT");
                    }
                    into.push(self.written(fields.get("target"))?);
                }
                Ok(Step::CountRows(into))
            }
            "PLpgSQL_stmt_commit" | "PLpgSQL_stmt_rollback" => Err("ends transactions"),
            "PLpgSQL_stmt_call" => Err("calls a procedure or has a DO block"),
            "PLpgSQL_stmt_foreach_a" => Err("has FOREACH"),
            "PLpgSQL_stmt_assert" => Err("has ASSERT"),
            _ => Err("has cursors"),
        }
    }

    /// EXECUTE
    fn runs(&mut self, text: Expression, using: Vec<Expression>) -> Query {
        self.dynamic = true;
        Query::Dynamic(text, using)
    }

    fn some(&mut self, steps: Option<&Value>) -> Read<Vec<Step>> {
        steps.map_or(Ok(vec![]), |steps| self.steps(steps))
    }

    fn target(&mut self, value: &Value) -> Read<Target> {
        let (kind, fields) = one(value)?;
        match kind {
            "PLpgSQL_row" => {
                let mut variables = vec![];
                for field in array(fields.get("fields"))? {
                    let field = field.as_object().ok_or(UNREAD)?;
                    let at = self.written(field.get("varno"))?;
                    // Zero is not printed, nor are parts of records distinguished by it.
                    if self.variables[at].name.as_deref() != field.get("name").and_then(Value::as_str) {
                        return Err("puts values into parts of a record");
                    }
                    if self.variables[at].kind == Kind::Record {
                        return Err("puts a value into a record");
                    }
                    variables.push(at);
                }
                Ok(Target::Variables(variables))
            }
            "PLpgSQL_rec" => self.written(fields.get("dno")).map(Target::Record),
            _ => Err(UNREAD),
        }
    }

    fn raise(&mut self, fields: &Fields) -> Read<Raise> {
        let mut raise = Raise { level: "EXCEPTION", condition: None, message: None, values: vec![], options: vec![] };
        for (key, value) in fields {
            match key.as_str() {
                "lineno" => {}
                // elog.h
                "elog_level" => {
                    raise.level = match value.as_i64() {
                        Some(14) => "DEBUG",
                        Some(15) => "LOG",
                        Some(17) => "INFO",
                        Some(18) => "NOTICE",
                        Some(19) => "WARNING",
                        Some(21) => "EXCEPTION",
                        _ => return Err(UNREAD),
                    }
                }
                "condname" => {
                    let name = value.as_str().filter(|name| !conditions::states(name).is_empty());
                    raise.condition = Some(name.ok_or(UNREAD)?.to_string());
                }
                "message" => raise.message = value.as_str().map(str::to_string),
                "params" => {
                    raise.values = expressions(Some(value))?;
                }
                "options" => {
                    for one in array(Some(value))? {
                        let fields = inside(one, "PLpgSQL_raise_option")?;
                        let option = match fields.get("opt_type").and_then(Value::as_i64).unwrap_or(0) {
                            0 => "ERRCODE",
                            1 => "MESSAGE",
                            2 => "DETAIL",
                            3 => "HINT",
                            4 => "COLUMN",
                            5 => "CONSTRAINT",
                            6 => "DATATYPE",
                            7 => "TABLE",
                            8 => "SCHEMA",
                            _ => return Err(UNREAD),
                        };
                        raise.options.push((option, fields.get("expr").ok_or(UNREAD).and_then(expression)?));
                    }
                }
                _ => return Err(UNREAD),
            }
        }
        Ok(raise)
    }
}

/// What a handler knows of its error.
fn is_of_handler(name: Option<&str>) -> bool {
    matches!(name, Some("sqlstate" | "sqlerrm"))
}

fn kind_of(value: &Value) -> Read<Kind> {
    let name = inside(value, "PLpgSQL_type")?.get("typname").and_then(Value::as_str).ok_or(UNREAD)?.trim();
    match name.strip_suffix("%TYPE").or_else(|| name.strip_suffix("%type")) {
        Some(column) => {
            let (table, column) = column.rsplit_once('.').ok_or("has a variable of another variable's type")?;
            Ok(Kind::Column(table.to_string(), column.to_string()))
        }
        None if name.to_ascii_lowercase().contains("%rowtype") => Err("has variables of a table's row type"),
        None => Ok(Kind::Type(name.to_string())),
    }
}

fn one(value: &Value) -> Read<(&str, &Fields)> {
    let fields = value.as_object().filter(|o| o.len() == 1).ok_or(UNREAD)?;
    let (kind, value) = fields.iter().next().ok_or(UNREAD)?;
    Ok((kind, value.as_object().ok_or(UNREAD)?))
}

fn inside<'v>(value: &'v Value, kind: &str) -> Read<&'v Fields> {
    match one(value)? {
        (k, fields) if k == kind => Ok(fields),
        _ => Err(UNREAD),
    }
}

fn array(value: Option<&Value>) -> Read<&[Value]> {
    value.map_or(Ok(&[][..]), |v| v.as_array().map(Vec::as_slice).ok_or(UNREAD))
}

/// Its text, and how it is to be parsed (RawParseMode).
fn query(value: &Value) -> Read<(&str, i64)> {
    let fields = inside(value, "PLpgSQL_expr")?;
    let text = fields.get("query").and_then(Value::as_str).ok_or(UNREAD)?;
    Ok((text, fields.get("parseMode").and_then(Value::as_i64).unwrap_or(0)))
}

fn expressions(values: Option<&Value>) -> Read<Vec<Expression>> {
    array(values)?.iter().map(expression).collect()
}

fn expression(value: &Value) -> Read<Expression> {
    match query(value)? {
        (text, 0) => Expression::of(text),
        (text, 2) => Expression::of(&format!("SELECT {text}")),
        _ => Err(UNREAD),
    }
}

/// `name := value`; None: it is another place that is assigned to.
fn assigned(text: &str) -> Option<&str> {
    let mut tokens = Lexer::new(text, true).flatten();
    tokens.next().filter(|t| matches!(t.kind, TokenKind::Ident | TokenKind::QuotedIdent | TokenKind::UIdent))?;
    let sign = tokens.next()?;
    let is = sign.kind == TokenKind::ColonEquals || &text[sign.start..sign.end] == "=";
    is.then(|| &text[sign.end..])
}
