//! A function's, procedure's or DO block's body as steps that can be taken one by one, each with the statement or expression it
//! holds. Of SQL and PL/pgSQL; what is not understood in all its parts is not read at all. How a step is taken, and what types
//! and tables there are, is not known here.
//!
//! Names that stand for variables are found by [`names`]; [`conditions`] has the errors' names.

pub mod conditions;
mod declared;
pub mod names;
mod plpgsql;
mod returned;

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
    pub block: Block,
    /// The variables whose values are the result: OUT, INOUT and TABLE parameters.
    pub outputs: Vec<usize>,
    /// The value of a function in SQL is its last statement's.
    pub gives_last: bool,
    /// It runs text that is put together.
    dynamic: bool,
    counts: bool,
}

/// A place for a value.
#[derive(Clone, Debug, Default)]
pub struct Variable {
    /// None: it is read by its number alone.
    pub name: Option<String>,
    pub kind: Kind,
    /// What it begins with; NULL where there is nothing.
    pub first: Option<Expression>,
    pub constant: bool,
    pub not_null: bool,
}

/// What a variable holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A value of a type, as it was written.
    Type(String),
    /// A value of a column's type: the table, as it was written, and the column.
    Column(String, String),
    /// A row of whatever is put into it.
    Record,
    /// Not declared: SQLSTATE, SQLERRM, a loop's own, the value of CASE. Of an argument its function says it.
    #[default]
    Own,
}

/// BEGIN … END
#[derive(Debug, Default)]
pub struct Block {
    pub label: Option<String>,
    /// Variables that begin anew with it.
    pub declared: Vec<usize>,
    pub steps: Vec<Step>,
    pub handlers: Vec<Handler>,
}

/// EXCEPTION WHEN … THEN
#[derive(Debug)]
pub struct Handler {
    /// SQLSTATEs, `None` for OTHERS; one that ends in `000` is of its whole class.
    pub states: Vec<Option<String>>,
    pub steps: Vec<Step>,
}

/// A statement or, as `SELECT …`, an expression.
#[derive(Clone, Debug)]
pub struct Expression {
    pub text: String,
    pub tree: Box<NodeEnum>,
    /// What its parameters stand for, once that is [known](Program::resolve).
    pub uses: Vec<Slot>,
}

/// What a parameter stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    Variable(usize),
    /// A record's field.
    Field(usize, String),
}

/// Where a row goes.
#[derive(Clone, Debug)]
pub enum Target {
    /// Variables, for a column each.
    Variables(Vec<usize>),
    Record(usize),
}

/// What is run.
#[derive(Clone, Debug)]
pub enum Query {
    Static(Expression),
    /// EXECUTE text USING values
    Dynamic(Expression, Vec<Expression>),
}

/// How a loop is left, or begun again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// EXIT; otherwise CONTINUE.
    pub exit: bool,
    pub label: Option<String>,
}

/// A loop's name and steps.
#[derive(Debug, Default)]
pub struct Loop {
    pub label: Option<String>,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub enum Step {
    Block(Block),
    Assign(usize, Expression),
    /// The first whose condition is true, or what stands behind ELSE.
    If(Vec<(Expression, Vec<Step>)>, Vec<Step>),
    /// CASE: the same with a value that the conditions look at, and an error where none is true and there is no ELSE.
    Case {
        value: Option<(usize, Expression)>,
        when: Vec<(Expression, Vec<Step>)>,
        otherwise: Option<Vec<Step>>,
    },
    Loop(Loop),
    While(Expression, Loop),
    /// FOR i IN [REVERSE] lower .. upper [BY step]
    Count {
        variable: usize,
        lower: Expression,
        upper: Expression,
        by: Option<Expression>,
        reverse: bool,
        steps: Loop,
    },
    /// FOR row IN query
    Rows {
        row: Target,
        query: Query,
        steps: Loop,
    },
    Jump(Jump, Option<Expression>),
    /// None: nothing is returned.
    Return(Option<Expression>),
    /// A row more of the result; none: the values of the outputs.
    ReturnNext(Option<Expression>),
    ReturnRows(Query),
    Raise(Raise),
    /// A statement whose rows nobody wants.
    Perform(Expression),
    Run {
        statement: Query,
        into: Option<Target>,
        strict: bool,
    },
    /// GET DIAGNOSTICS v = ROW_COUNT
    CountRows(Vec<usize>),
}

/// RAISE
#[derive(Debug)]
pub struct Raise {
    pub level: &'static str,
    /// A condition's name, or an SQLSTATE.
    pub condition: Option<String>,
    /// With % in place of values.
    pub message: Option<String>,
    pub values: Vec<Expression>,
    /// USING: the option, as it is written there, and its value.
    pub options: Vec<(&'static str, Expression)>,
}

impl Raise {
    /// The error that is being handled is raised again.
    pub fn is_again(&self) -> bool {
        self.level == "EXCEPTION" && self.condition.is_none() && self.message.is_none() && self.options.is_empty()
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
        let source = source.ok_or("has a body that is stored parsed (BEGIN ATOMIC)")?;
        let mut program = Program { name, ..Program::default() };
        for p in parameters {
            let Some(NodeEnum::FunctionParameter(p)) = &p.node else { return Err("can't be read") };
            program.argument(p)?;
        }
        program.parameters = program.variables.len();
        match language.as_deref().unwrap_or("plpgsql").to_ascii_lowercase().as_str() {
            // No DO block is.
            "sql" if program.name.is_some() => program.sql(&source)?,
            "plpgsql" => program.plpgsql(&source)?,
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

    /// SQL statements, one after the other.
    fn sql(&mut self, source: &str) -> Result<(), Unread> {
        if has_backslash(source) {
            return Err("has a string with a backslash, which is another one without standard_conforming_strings");
        }
        self.gives_last = true;
        for range in crate::split::split_statements(source, true).map_err(|_| "can't be read")? {
            let statement = Query::Static(Expression::of(&source[range])?);
            self.block.steps.push(Step::Run { statement, into: None, strict: false });
        }
        Ok(())
    }
}

impl Program {
    /// It asks how many rows there were.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// It has EXECUTE somewhere.
    pub fn runs_text(&self) -> bool {
        self.dynamic
    }

    /// Every statement and expression, in no order.
    pub fn expressions(&self) -> Vec<&Expression> {
        let mut found: Vec<&Expression> = self.variables.iter().filter_map(|v| v.first.as_ref()).collect();
        of_block(&self.block, &mut found);
        found
    }
}

fn of_block<'p>(block: &'p Block, found: &mut Vec<&'p Expression>) {
    of_steps(&block.steps, found);
    block.handlers.iter().for_each(|h| of_steps(&h.steps, found));
}

fn of_query<'p>(query: &'p Query, found: &mut Vec<&'p Expression>) {
    match query {
        Query::Static(e) => found.push(e),
        Query::Dynamic(text, using) => {
            found.push(text);
            found.extend(using);
        }
    }
}

fn of_steps<'p>(steps: &'p [Step], found: &mut Vec<&'p Expression>) {
    for step in steps {
        match step {
            Step::Block(b) => of_block(b, found),
            Step::Assign(_, e) | Step::Perform(e) => found.push(e),
            Step::If(when, otherwise) => {
                for (e, steps) in when {
                    found.push(e);
                    of_steps(steps, found);
                }
                of_steps(otherwise, found);
            }
            Step::Case { value, when, otherwise } => {
                found.extend(value.iter().map(|(_, e)| e));
                for (e, steps) in when {
                    found.push(e);
                    of_steps(steps, found);
                }
                otherwise.iter().for_each(|steps| of_steps(steps, found));
            }
            Step::Loop(l) => of_steps(&l.steps, found),
            Step::While(e, l) => {
                found.push(e);
                of_steps(&l.steps, found);
            }
            Step::Count { lower, upper, by, steps, .. } => {
                found.extend([lower, upper]);
                found.extend(by);
                of_steps(&steps.steps, found);
            }
            Step::Rows { query, steps, .. } => {
                of_query(query, found);
                of_steps(&steps.steps, found);
            }
            Step::Jump(_, e) | Step::Return(e) => found.extend(e),
            Step::Raise(r) => {
                found.extend(&r.values);
                found.extend(r.options.iter().map(|(_, e)| e));
            }
            Step::ReturnNext(e) => found.extend(e),
            Step::Run { statement: query, .. } | Step::ReturnRows(query) => of_query(query, found),
            Step::CountRows(_) => {}
        }
    }
}

impl Expression {
    /// Of a statement's text.
    fn of(text: &str) -> Result<Expression, Unread> {
        let text = text.trim();
        let mut parsed = crate::parse(text, true).map_err(|_| "can't be read")?;
        match (parsed.pop(), parsed.pop()) {
            (Some(tree), None) => Ok(Expression { text: text.to_string(), tree: Box::new(tree), uses: vec![] }),
            _ => Err("can't be read"),
        }
    }
}

/// Plain strings mean something else without standard_conforming_strings.
fn has_backslash(source: &str) -> bool {
    use crate::lexer::{Lexer, TokenKind};
    Lexer::new(source, true).flatten().any(|t| t.kind == TokenKind::String && source[t.start..t.end].contains('\\'))
}
