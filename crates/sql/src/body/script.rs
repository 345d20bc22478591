//! The statements of a function or procedure one by one, with its variables: for who proves something of each of them.
//!
//! PostgreSQL looks a name up among a statement's columns before (SQL) or beside (PL/pgSQL, where both is an error) the routine's
//! variables. Which relations have such a column is not known here.

use pg_query::NodeEnum;
use pg_query::protobuf::{self as ast, Node};
use serde_json::Value;

use super::{option, plpgsql};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::{names, search};

/// What a routine runs, in no order.
#[derive(Debug)]
pub struct Script {
    /// Each with its text: statements, and expressions as SELECTs.
    pub statements: Vec<(String, NodeEnum)>,
    /// Expressions of its arguments' defaults.
    pub defaults: Vec<Node>,
    /// It runs with its owner's rights (SECURITY DEFINER).
    pub definer: bool,
    /// It is in PL/pgSQL, and nothing but `BEGIN RETURN …; END`.
    pub only_returns: bool,
    /// Its own name.
    name: String,
    /// Names by which it reads its variables. The n-th is `$n`; arguments come first.
    variables: Vec<Option<String>>,
}

/// Rows that a statement has without saying so: of ON CONFLICT and of RETURNING.
const ROWS: [&str; 3] = ["excluded", "old", "new"];

/// Why a routine's statements are not known, in words that follow its name.
pub type Unread = &'static str;

impl Script {
    /// Of `CREATE FUNCTION …`, as `pg_get_functiondef` prints it. Argument `fixed` (from 1) must keep its value.
    pub fn of(definition: &str, fixed: usize) -> Result<Script, Unread> {
        let parsed = crate::parse(definition, true).ok().and_then(|mut s| s.pop());
        let Some(NodeEnum::CreateFunctionStmt(f)) = parsed else { return Err("can't be read") };
        let parameters: Vec<&ast::FunctionParameter> = f
            .parameters
            .iter()
            .filter_map(|p| match &p.node {
                Some(NodeEnum::FunctionParameter(p)) => Some(&**p),
                _ => None,
            })
            .collect();
        let is_given = |p: &&ast::FunctionParameter| {
            let mode = ast::FunctionParameterMode::try_from(p.mode);
            use ast::FunctionParameterMode::*;
            matches!(mode, Ok(FuncParamIn | FuncParamInout | FuncParamDefault))
        };
        // SQL counts what a call gives, PL/pgSQL results, too.
        if !parameters.iter().take(fixed).all(is_given) || parameters.len() < fixed {
            return Err("has results before its distribution argument");
        }
        let defaults = parameters.iter().filter_map(|p| p.defexpr.as_deref().cloned()).collect();
        let named = |p: &&ast::FunctionParameter| Some(p.name.clone()).filter(|n| !n.is_empty());
        let mut script = Script {
            statements: vec![],
            defaults,
            definer: f.options.iter().any(is_definer),
            only_returns: false,
            name: f.funcname.last().map(|_| names::last(&f.funcname).to_string()).unwrap_or_default(),
            variables: vec![],
        };
        let (language, source) = (option(&f.options, "language"), option(&f.options, "as"));
        let Some(source) = source else { return Err("has a body that is stored parsed (BEGIN ATOMIC)") };
        match language.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("sql") => {
                script.variables = parameters.iter().filter(|p| is_given(p)).map(named).collect();
                script.texts(&source)?;
            }
            Some("plpgsql") => {
                // Who writes it says which of a column and a variable is meant.
                if definition.to_ascii_lowercase().contains("variable_conflict") {
                    return Err("says what names of both columns and variables mean");
                }
                let tree = plpgsql::parse_definition(definition, &source).ok_or("can't be read")?;
                script.variables = parameters.iter().map(named).collect();
                script.plpgsql(&tree, fixed.checked_sub(1))?;
            }
            _ => return Err("is neither in SQL nor in PL/pgSQL"),
        }
        Ok(script)
    }

    fn texts(&mut self, sql: &str) -> Result<(), Unread> {
        let is_two = |t: &Token| t.kind == TokenKind::String && sql[t.start..t.end].contains('\\');
        if Lexer::new(sql, true).flatten().any(|t| is_two(&t)) {
            return Err("has a string with a backslash, which is another one without standard_conforming_strings");
        }
        for range in crate::split::split_statements(sql, true).map_err(|_| "can't be read")? {
            let text = sql[range].trim();
            let mut parsed = crate::parse(text, true).map_err(|_| "can't be read")?;
            match (parsed.pop(), parsed.pop()) {
                (Some(statement), None) => self.statements.push((text.to_string(), statement)),
                (None, _) => {}
                _ => return Err("can't be read"),
            }
        }
        Ok(())
    }

    /// `fixed`: the number of the variable that must keep its value.
    fn plpgsql(&mut self, tree: &Value, fixed: Option<usize>) -> Result<(), Unread> {
        let found = tree.pointer("/0/PLpgSQL_function").or_else(|| tree.pointer("/PLpgSQL_function"));
        let datums = found.and_then(|f| f.get("datums")).and_then(Value::as_array).ok_or("can't be read")?;
        let name = |datum: &Value| {
            let datum = datum.as_object()?.values().next()?;
            datum.get("refname").and_then(Value::as_str).map(str::to_string)
        };
        let known: Vec<Option<String>> = datums.iter().map(name).collect();
        if let Some(fixed) = fixed {
            self.keeps(tree, fixed, &known)?;
        }
        let arguments = self.variables.len();
        // PL/pgSQL's own variable is FOUND.
        self.only_returns = returns_at_once(found) && known.len() == arguments + 1;
        self.variables.extend(known.into_iter().skip(arguments).map(|n| n.filter(|n| !n.starts_with(['(', '$']))));
        self.expressions(tree)
    }

    /// Whether one variable, of which `known` has the names, keeps its value.
    fn keeps(&self, tree: &Value, fixed: usize, known: &[Option<String>]) -> Result<(), Unread> {
        let own = known.get(fixed).cloned().flatten().ok_or("can't be read")?;
        let is_own = match &self.variables[fixed] {
            Some(name) => *name == own,
            None => own == format!("${}", fixed + 1),
        };
        if !is_own || known.iter().flatten().filter(|n| **n == own).count() != 1 {
            return Err("has another variable of its distribution argument's name");
        }
        if assigns(tree, fixed as u64) {
            return Err("changes its distribution argument");
        }
        Ok(())
    }

    /// Whether a statement has a name where a column can stand that a variable or the routine has, too: PL/pgSQL may take it for
    /// the variable, or say that it can't tell.
    pub fn may_mean_variables(&self, statement: &NodeEnum) -> bool {
        let is_own = |part: &String| *part == self.name || self.variables.iter().flatten().any(|v| v == part);
        columns(statement).iter().flatten().any(is_own)
    }

    fn expressions(&mut self, value: &Value) -> Result<(), Unread> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|v| self.expressions(v)),
            Value::Object(fields) => fields.iter().try_for_each(|(key, value)| match key.as_str() {
                "PLpgSQL_expr" => match plpgsql::text_of(value).ok_or("can't be read")? {
                    Some(sql) => self.texts(&sql),
                    None => Ok(()),
                },
                "PLpgSQL_stmt_dynexecute" | "PLpgSQL_stmt_dynfors" | "dynquery" => Err("puts statements together"),
                "PLpgSQL_stmt_call" => Err("calls a procedure or has a DO block"),
                "PLpgSQL_stmt_commit" | "PLpgSQL_stmt_rollback" => Err("ends transactions"),
                _ => self.expressions(value),
            }),
            _ => Ok(()),
        }
    }

    /// A statement with parameters in place of the variables that it names. `has`: what it reads has a column of the name.
    pub fn with_parameters(&self, text: &str, statement: &NodeEnum, has: impl Fn(&str) -> bool) -> NodeEnum {
        let mut statement = statement.clone();
        if names_columns(&statement) {
            return statement;
        }
        let read: Vec<Vec<String>> = columns(&statement);
        let words = words(text);
        let said = |word: &str| words.iter().filter(|w| *w == word).count();
        let meant = |name: &str| {
            let plain = read.iter().filter(|c| c[0] == name).count();
            let qualified = read.iter().filter(|c| c.len() > 1 && c[0] == self.name && c[1] == name).count();
            let own = read.iter().filter(|c| c[0] == self.name).count();
            !has(name)
                && !super::SYSTEM_COLUMNS.contains(&name)
                && !ROWS.contains(&name)
                && said(name) == plain + qualified
                && (qualified == 0 || said(&self.name) == own)
        };
        let numbered = self.variables.iter().enumerate().filter_map(|(i, name)| Some((i + 1, name.as_deref()?)));
        let used: Vec<(usize, &str)> = numbered.filter(|(_, name)| said(name) > 0 && meant(name)).collect();
        search::each_mut(&mut statement, |n| {
            let NodeEnum::ColumnRef(c) = n else { return true };
            let parts = names::strings(&c.fields);
            let name = match parts[..] {
                [own, name] if own == self.name => name,
                [name, ..] => name,
                [] => return true,
            };
            // A later variable hides an earlier one of its name.
            if let Some((number, _)) = used.iter().rev().find(|(_, n)| *n == name) {
                *n = NodeEnum::ParamRef(ast::ParamRef { number: *number as i32, location: -1 });
            }
            true
        });
        statement
    }
}

/// `BEGIN RETURN …; END`
fn returns_at_once(function: Option<&Value>) -> bool {
    let Some(block) = function.and_then(|f| f.pointer("/action/PLpgSQL_stmt_block")) else { return false };
    let body = block.get("body").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let [only] = body else { return false };
    block.get("exceptions").is_none() && only.pointer("/PLpgSQL_stmt_return/expr/PLpgSQL_expr").is_some()
}

/// `SECURITY DEFINER`.
fn is_definer(option: &Node) -> bool {
    matches!(&option.node, Some(NodeEnum::DefElem(d)) if d.defname == "security"
        && matches!(d.arg.as_deref().and_then(|a| a.node.as_ref()), Some(NodeEnum::Boolean(b)) if b.boolval))
}

/// It may read columns whose names are nowhere in it: of what functions give, of VALUES, of expressions in a subquery.
pub(crate) fn names_columns(statement: &NodeEnum) -> bool {
    use NodeEnum::{CommonTableExpr, JsonTable, RangeFunction, RangeSubselect, RangeTableFunc, ResTarget, SelectStmt};
    let of_functions = |n: &NodeEnum| matches!(n, RangeFunction(_) | RangeTableFunc(_) | JsonTable(_));
    let is_named = |target: &Node| match &target.node {
        Some(ResTarget(t)) => {
            let column = t.val.as_deref().and_then(|v| v.node.as_ref());
            !t.name.is_empty() || matches!(column, Some(NodeEnum::ColumnRef(_)))
        }
        _ => false,
    };
    fn unnamed(s: &ast::SelectStmt, is_named: &dyn Fn(&Node) -> bool) -> bool {
        let sides = [&s.larg, &s.rarg];
        !s.values_lists.is_empty()
            || !s.target_list.iter().all(is_named)
            || sides.into_iter().flatten().any(|side| unnamed(side, is_named))
    }
    let query = |q: &Option<Box<Node>>| match q.as_deref().and_then(|q| q.node.as_ref()) {
        Some(SelectStmt(s)) => unnamed(s, &is_named),
        // Its RETURNING.
        _ => true,
    };
    search::any(statement, |n| match n {
        RangeSubselect(s) => query(&s.subquery),
        CommonTableExpr(c) => query(&c.ctequery),
        n => of_functions(n),
    })
}

/// The parts of all names that stand where a column can.
fn columns(statement: &NodeEnum) -> Vec<Vec<String>> {
    let mut found = vec![];
    search::each(statement, |n| {
        if let NodeEnum::ColumnRef(c) = n {
            let parts: Vec<String> = names::strings(&c.fields).into_iter().map(str::to_string).collect();
            found.extend(Some(parts).filter(|p| !p.is_empty()));
        }
    });
    found
}

/// All identifiers of a text, as names.
fn words(text: &str) -> Vec<String> {
    let tokens = Lexer::new(text, true).flatten();
    let word = |kind, text: &str| match kind {
        TokenKind::Ident => Some(text.to_lowercase()),
        TokenKind::QuotedIdent => Some(text[1..text.len() - 1].replace("\"\"", "\"")),
        // So does one that is written by its characters' numbers: it is counted as missing.
        _ => None,
    };
    tokens.filter_map(|t| word(t.kind, &text[t.start..t.end])).collect()
}

/// Whether a variable is given a value. Zero is not printed.
fn assigns(value: &Value, variable: u64) -> bool {
    let is = |of: &Value, field: &str| match of.get(field) {
        None => variable == 0,
        Some(number) => number.as_u64() == Some(variable),
    };
    match value {
        Value::Array(items) => items.iter().any(|v| assigns(v, variable)),
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            let here = match key.as_str() {
                "PLpgSQL_stmt_assign" | "PLpgSQL_stmt_foreach_a" => is(value, "varno"),
                "PLpgSQL_diag_item" => is(value, "target"),
                "fields" => value.as_array().is_some_and(|all| all.iter().any(|f| is(f, "varno"))),
                _ => false,
            };
            here || assigns(value, variable)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
