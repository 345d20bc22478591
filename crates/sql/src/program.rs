//! A function's, procedure's or DO block's body as steps that can be taken one by one, each with the statement or expression it
//! holds. Of SQL and PL/pgSQL; what is not understood in all its parts is not read at all. How a step is taken, and what types
//! and tables there are, is not known here.
//!
//! Which variables a piece of text can see is its [`scope`]; names that stand for them are found by [`names`]; [`conditions`] has the errors' names.

pub mod conditions;
pub mod names;
mod plpgsql;
pub mod scope;
mod steps;
mod tokens;
pub mod trigger;

use scope::Scope;
pub use steps::{Block, Diagnostic, Direction, Handler, Jump, Loop, Place, Query, Raise, Step, Target};

use pg_query::NodeEnum;
use pg_query::protobuf::{self as ast, Node};

use crate::body::Unread;

/// What runs.
#[derive(Debug, Default)]
pub struct Program {
    /// Its own name; a DO block has none.
    pub name: Option<String>,
    /// How many of the variables are parameters, the first ones.
    pub parameters: usize,
    /// Those of them that a call gives.
    pub arguments: Vec<usize>,
    pub variables: Vec<Variable>,
    /// Every statement and expression, of which steps know the numbers.
    pub expressions: Vec<Expression>,
    pub block: Block,
    /// The variables whose values are the result: OUT, INOUT and TABLE parameters.
    pub outputs: Vec<usize>,
    /// FOUND's place.
    pub found: Option<usize>,
    /// The value of a function in SQL is its last statement's.
    pub gives_last: bool,
    /// What statements of PL/pgSQL itself put values into; of an assignment, its value.
    pub changed: Vec<(Place, Option<Ex>)>,
    /// What fails as STRICT is told with the values of parameters.
    pub tells_parameters: bool,
    /// Some of its strings are others without standard_conforming_strings.
    pub has_backslash: bool,
    conflict: Conflict,
    /// It runs text that is put together.
    dynamic: bool,
    counts: bool,
}

/// What a name is that may be both a column's and a variable's (`#variable_conflict`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Conflict {
    #[default]
    Error,
    Variable,
    Column,
}

/// A place for a value.
#[derive(Clone, Debug, Default)]
pub struct Variable {
    /// None: it is read by its number alone.
    pub name: Option<String>,
    pub kind: Kind,
    /// What it begins with; NULL where there is nothing.
    pub first: Option<Ex>,
    pub constant: bool,
    pub not_null: bool,
    /// Its collation, by name.
    pub collation: Option<Vec<String>>,
    /// What a cursor is of.
    pub cursor: Option<BoundCursor>,
}

/// c CURSOR (arguments) FOR query
#[derive(Clone, Debug)]
pub struct BoundCursor {
    pub query: Ex,
    pub arguments: Vec<usize>,
    pub scroll: Option<bool>,
}

/// The number of a statement or expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ex(usize);

/// What a variable holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A value of a type, as it was written.
    Type(String),
    /// A value of a column's type: the table, as it was written, and the column.
    Column(String, String),
    /// A row of a table, as it was written.
    Row(String),
    /// A value of another variable's type.
    Like(usize),
    /// A row of whatever is put into it.
    Record,
    /// Not declared: SQLSTATE, SQLERRM, a loop's own, the value of CASE. Of an argument its function says it.
    #[default]
    Own,
}

/// A statement or, as `SELECT …`, an expression.
#[derive(Clone, Debug)]
pub struct Expression {
    pub text: String,
    pub tree: Box<NodeEnum>,
    /// What its parameters stand for, once that is [known](Program::resolved).
    pub uses: Vec<Slot>,
    /// The variable that WHERE CURRENT OF names.
    pub current_of: Option<usize>,
    /// What it can see.
    scope: Scope,
}

/// What a parameter stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    Variable(usize),
    /// A record's field.
    Field(usize, String),
}

impl Slot {
    /// The variable that it is, or is a field of.
    pub fn variable(&self) -> usize {
        match self {
            Slot::Variable(at) | Slot::Field(at, _) => *at,
        }
    }
}

impl Program {
    /// Of `CREATE FUNCTION …`, as `pg_get_functiondef` prints it, or of a DO block's tree.
    ///
    /// # Errors
    /// Why it can't be run step by step, in words that follow its name.
    pub fn of(statement: &NodeEnum) -> Result<Program, Unread> {
        let (name, parameters, options): (_, &[Node], &[Node]) = match statement {
            NodeEnum::CreateFunctionStmt(f) => {
                (Some(crate::names::last(&f.funcname).to_string()), &f.parameters, &f.options)
            }
            NodeEnum::DoStmt(d) => (None, &[], &d.args),
            _ => return Err("can't be read"),
        };
        let (language, source) = (crate::body::option(options, "language"), crate::body::option(options, "as"));
        let mut program = Program { name, ..Program::default() };
        for p in parameters {
            let Some(NodeEnum::FunctionParameter(p)) = &p.node else { return Err("can't be read") };
            program.argument(p)?;
        }
        program.parameters = program.variables.len();
        match (language.as_deref().unwrap_or("plpgsql").to_ascii_lowercase().as_str(), source, statement) {
            // No DO block is.
            ("sql", Some(source), NodeEnum::CreateFunctionStmt(_)) => program.sql(&source)?,
            ("sql", None, NodeEnum::CreateFunctionStmt(f)) => program.parsed(f.sql_body.as_deref())?,
            ("plpgsql", Some(source), _) => program.plpgsql(&source)?,
            _ => return Err("is neither in SQL nor in PL/pgSQL"),
        }
        Ok(program)
    }

    fn argument(&mut self, p: &ast::FunctionParameter) -> Result<(), Unread> {
        use ast::FunctionParameterMode::{FuncParamDefault, FuncParamIn, FuncParamInout, FuncParamOut, FuncParamTable};
        let at = self.variables.len();
        match ast::FunctionParameterMode::try_from(p.mode) {
            Ok(FuncParamIn | FuncParamDefault) => self.arguments.push(at),
            Ok(FuncParamOut | FuncParamTable) => self.outputs.push(at),
            Ok(FuncParamInout) => {
                self.arguments.push(at);
                self.outputs.push(at);
            }
            _ => return Err("has VARIADIC parameters"),
        }
        let name = Some(p.name.clone()).filter(|n| !n.is_empty());
        self.variables.push(Variable { name, ..Variable::default() });
        Ok(())
    }

    /// What a function in SQL sees: of its parameters those that a call gives.
    fn scope_of_sql(&self) -> Scope {
        let named = |at: &usize| self.variables[*at].name.as_deref().map(|name| (name, *at));
        let outermost = Scope::default().labelled(self.name.as_deref());
        self.arguments.iter().filter_map(named).fold(outermost, |scope, (name, at)| scope.with(name, at))
    }

    /// SQL statements, one after the other.
    fn sql(&mut self, source: &str) -> Result<(), Unread> {
        self.has_backslash = has_backslash(source);
        let scope = self.scope_of_sql();
        for range in crate::split::split_statements(source, true).map_err(|_| "can't be read")? {
            self.runs_in_sql(Expression::of(&source[range], &scope)?);
        }
        self.gives_last = true;
        Ok(())
    }

    /// RETURN, or BEGIN ATOMIC: the parser has read it already.
    fn parsed(&mut self, body: Option<&Node>) -> Result<(), Unread> {
        let scope = self.scope_of_sql();
        let mut left: Vec<&Node> = body.into_iter().collect();
        while let Some(node) = left.pop() {
            let text = match node.node.as_ref() {
                Some(NodeEnum::List(l)) => {
                    left.extend(l.items.iter().rev());
                    continue;
                }
                Some(NodeEnum::ReturnStmt(r)) => {
                    let value = r.returnval.as_deref().ok_or("can't be read")?;
                    crate::deparse_expr(value).map(|value| format!("SELECT {value}"))
                }
                Some(statement) => crate::deparse(statement),
                None => continue,
            };
            self.runs_in_sql(Expression::of(&text.map_err(|_| "can't be read")?, &scope)?);
        }
        self.gives_last = true;
        Ok(())
    }

    fn runs_in_sql(&mut self, statement: Expression) {
        let statement = Query::Static(self.has(statement));
        self.block.steps.push(Step::Run { statement, into: None, strict: false });
    }

    fn has(&mut self, expression: Expression) -> Ex {
        self.expressions.push(expression);
        Ex(self.expressions.len() - 1)
    }

    /// It asks how many rows there were.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// A name that is both a column's and a variable's means the column.
    pub fn takes_columns(&self) -> bool {
        self.conflict == Conflict::Column
    }

    /// It has EXECUTE of text somewhere.
    pub fn runs_text(&self) -> bool {
        self.dynamic
    }
}

impl Ex {
    /// Its place among the program's expressions.
    pub fn number(self) -> usize {
        self.0
    }
}

impl Expression {
    /// Of a statement's text.
    fn of(text: &str, scope: &Scope) -> Result<Expression, Unread> {
        let text = text.trim();
        let mut parsed = crate::parse(text, true).map_err(|_| "can't be read")?;
        match (parsed.pop(), parsed.pop()) {
            (Some(tree), None) => {
                let (tree, scope) = (Box::new(tree), scope.clone());
                Ok(Expression { text: text.to_string(), tree, uses: vec![], current_of: None, scope })
            }
            _ => Err("can't be read"),
        }
    }

    /// Another statement with the same parameters.
    ///
    /// # Errors
    /// It can't be written.
    pub fn with_tree(&self, tree: &NodeEnum) -> Result<Expression, Unread> {
        let text = crate::deparse(tree).map_err(|_| "can't be read")?;
        // With the places of its own text.
        Ok(Expression { uses: self.uses.clone(), current_of: self.current_of, ..Expression::of(&text, &self.scope)? })
    }
}

/// Plain strings mean something else without standard_conforming_strings.
fn has_backslash(source: &str) -> bool {
    use crate::lexer::{Lexer, TokenKind};
    Lexer::new(source, true).flatten().any(|t| t.kind == TokenKind::String && source[t.start..t.end].contains('\\'))
}
