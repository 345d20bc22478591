//! What a program does: PL/pgSQL's statements, which know their expressions and variables by numbers.

use super::Ex;

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

/// Where a value goes: a variable, or a field of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub variable: usize,
    pub field: Option<String>,
}

impl From<usize> for Place {
    fn from(variable: usize) -> Self {
        Place { variable, field: None }
    }
}

/// Where a row goes: a place for each column, or the only one's, if that is a row.
pub type Target = Vec<Place>;

/// What is run.
#[derive(Clone, Debug)]
pub enum Query {
    Static(Ex),
    /// EXECUTE text USING values
    Dynamic(Ex, Vec<Ex>),
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
    Assign(Place, Ex),
    /// The first whose condition is true, or what stands behind ELSE.
    If(Vec<(Ex, Vec<Step>)>, Vec<Step>),
    /// CASE: the same with a value that the conditions look at, and an error where none is true and there is no ELSE.
    Case {
        value: Option<(usize, Ex)>,
        when: Vec<(Ex, Vec<Step>)>,
        otherwise: Option<Vec<Step>>,
    },
    Loop(Loop),
    While(Ex, Loop),
    /// FOR i IN [REVERSE] lower .. upper [BY step]
    Count {
        variable: usize,
        lower: Ex,
        upper: Ex,
        by: Option<Ex>,
        reverse: bool,
        steps: Loop,
    },
    /// FOR row IN query
    Rows {
        row: Target,
        query: Query,
        steps: Loop,
    },
    /// FOR record IN cursor
    Cursor {
        record: usize,
        cursor: usize,
        given: Vec<(usize, Ex)>,
        steps: Loop,
    },
    /// FOREACH … SLICE n IN ARRAY
    Each {
        row: Target,
        slice: usize,
        array: Ex,
        steps: Loop,
    },
    Jump(Jump, Option<Ex>),
    /// None: nothing is returned.
    Return(Option<Ex>),
    /// A row more of the result; none: the values of the outputs.
    ReturnNext(Option<Ex>),
    ReturnRows(Query),
    Raise(Raise),
    /// A condition, and what is said where it is not true.
    Assert(Ex, Option<Ex>),
    /// A statement whose rows nobody wants.
    Perform(Ex),
    Run {
        statement: Query,
        into: Option<Target>,
        strict: bool,
    },
    /// OPEN: of a cursor that is bound with its arguments, of another with its query.
    Open {
        cursor: usize,
        given: Vec<(usize, Ex)>,
        query: Option<Query>,
        scroll: Option<bool>,
    },
    /// FETCH; MOVE without a target.
    Fetch {
        cursor: usize,
        direction: Direction,
        into: Option<Target>,
    },
    Close(usize),
    /// GET DIAGNOSTICS: what is asked for.
    Diagnostics(Vec<(Place, Diagnostic)>),
}

/// Where a cursor goes, in the words that stand in front of a number, and the number.
#[derive(Debug)]
pub struct Direction {
    pub words: &'static str,
    pub count: Option<Ex>,
}

/// What GET DIAGNOSTICS asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagnostic {
    RowCount,
    /// A field of the error that is being handled, by its letter in the protocol.
    Error(u8),
}

/// RAISE
#[derive(Debug)]
pub struct Raise {
    pub level: &'static str,
    /// A condition's name, or an SQLSTATE.
    pub condition: Option<String>,
    /// With % in place of values.
    pub message: Option<String>,
    pub values: Vec<Ex>,
    /// USING: the option, as it is written there, and its value.
    pub options: Vec<(&'static str, Ex)>,
}

impl Raise {
    /// The error that is being handled is raised again.
    pub fn is_again(&self) -> bool {
        self.level == "EXCEPTION" && self.condition.is_none() && self.message.is_none() && self.options.is_empty()
    }
}
