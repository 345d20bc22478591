//! A typed expression of DuckDB's, and how it is written. Whoever makes one has seen to it that DuckDB computes what PostgreSQL would.

use catalog::Oid;

use super::collation::Collation;
use super::constant;
use super::mixed::Mixed;
use super::subquery::Subquery;
use super::types::Ty;
use crate::text::{Piece, Text};

/// With the type that PostgreSQL gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub ty: Ty,
    pub kind: Kind,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Column(Column),
    /// Its text as DuckDB is to read it; with the type unknown as PostgreSQL was given it.
    Constant(String),
    Null,
    /// The statement's time, and so many seconds.
    Now(i64),
    /// The client's parameter, from 1, and the type it must have. Of an unknown type: as the client has declared it, or 0.
    Param(usize, Oid),
    /// Operands with a word between.
    Infix(&'static str, Vec<Expr>),
    Prefix(&'static str, Box<Expr>),
    Postfix(Box<Expr>, &'static str),
    /// To this expression's type.
    Cast(Box<Expr>),
    Case {
        whens: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    Call(&'static str, Vec<Expr>),
    /// An error of PostgreSQL's, in these words. (One by which DuckDB just says that rows are to answer is a call.)
    Fails(&'static str),
    /// IN or NOT IN.
    List(Box<Expr>, &'static str, Vec<Expr>),
    Aggregate(Box<Aggregate>),
    /// A sum of floats, which is finite or fails: PostgreSQL's own may be an infinity of which somebody has to find out whether it was one before.
    FloatSum(Box<Expr>),
    Mixed(Box<Mixed>),
    /// See [`catalog::first_bytes`].
    FirstBytes(u64),
    Bound(Box<Bound>),
    Subquery(Box<Subquery>),
}

/// A table's column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Which of the tables that are read.
    pub table: usize,
    pub name: String,
    pub collation: Collation,
}

/// The rows whose number is not behind that of the first rows by it: as many as are wanted, and those that have the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Of one copy's rows.
    pub copy: i64,
    /// The first bytes of the text by which rows are ordered.
    pub number: Column,
    pub descending: bool,
    /// Of rows for which this is true.
    pub condition: Option<Expr>,
    pub limit: Expr,
}

/// A call of an aggregate.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    pub name: &'static str,
    pub distinct: bool,
    /// `None`: `*`
    pub argument: Option<Expr>,
    pub filter: Option<Expr>,
}

impl Expr {
    /// Each of its operands.
    pub fn operands(&self) -> Vec<&Expr> {
        match &self.kind {
            Kind::Column(_)
            | Kind::Constant(_)
            | Kind::Null
            | Kind::Now(_)
            | Kind::Param(..)
            | Kind::Fails(_)
            | Kind::FirstBytes(_)
            | Kind::Bound(_) => vec![],
            Kind::Infix(_, operands) | Kind::Call(_, operands) => operands.iter().collect(),
            Kind::Prefix(_, e) | Kind::Postfix(e, _) | Kind::Cast(e) | Kind::FloatSum(e) => vec![e],
            Kind::Case { whens, otherwise } => {
                whens.iter().flat_map(|(when, then)| [when, then]).chain([otherwise.as_ref()]).collect()
            }
            Kind::List(e, _, list) => std::iter::once(e.as_ref()).chain(list).collect(),
            Kind::Aggregate(a) => a.argument.iter().chain(&a.filter).collect(),
            Kind::Mixed(mixed) => vec![&mixed.value, &mixed.scale],
            Kind::Subquery(subquery) => subquery.left.iter().collect(),
        }
    }

    /// It, and all that is below.
    pub fn any(&self, test: &mut dyn FnMut(&Expr) -> bool) -> bool {
        test(self) || self.operands().into_iter().any(|e| e.any(test))
    }

    /// It aggregates, or something in it does.
    pub fn has_aggregate(&self) -> bool {
        self.any(&mut |e| matches!(e.kind, Kind::Aggregate(_)))
    }

    /// PostgreSQL may fail to compute it: an integer in it may be too great for its type (see [`Self::computed`]), or a timestamp before all others.
    pub fn may_not_fit(&self) -> bool {
        self.any(&mut Self::is_checked)
    }

    /// This very expression is where such a failure is found out.
    fn is_checked(&self) -> bool {
        match &self.kind {
            Kind::Prefix("+", _) | Kind::FloatSum(_) => true,
            Kind::Case { whens, .. } => whens.iter().any(|(_, then)| matches!(then.kind, Kind::Fails(_))),
            _ => false,
        }
    }

    /// It adds up floats, or something in it does.
    pub fn adds_floats(&self) -> bool {
        self.any(&mut |e| matches!(e.kind, Kind::FloatSum(_)))
    }

    /// Some of it is computed of no column, which PostgreSQL does even where there is no row, and says if it does not fit.
    pub fn computes_of_none(&self) -> bool {
        let of_row = |e: &Expr| matches!(e.kind, Kind::Column(_) | Kind::Aggregate(_));
        self.any(&mut |e| e.is_checked() && !e.any(&mut |e| of_row(e)))
    }

    /// How many digits it has behind the point is what a parameter's value says, which is not known here.
    pub fn has_parameters_digits(&self) -> bool {
        let number = matches!(self.ty, Ty::Numeric { .. } | Ty::Mixed);
        number && (matches!(self.kind, Kind::Param(..)) || self.operands().into_iter().any(Expr::has_parameters_digits))
    }

    /// A literal or a parameter.
    pub fn is_constant(&self) -> bool {
        matches!(self.kind, Kind::Constant(_) | Kind::Null | Kind::Now(_) | Kind::Param(..))
    }

    /// NULL as it is written, without a type.
    pub fn is_bare_null(&self) -> bool {
        matches!((self.ty, &self.kind), (Ty::Unknown, Kind::Null))
    }

    /// This, as another type.
    pub fn cast(self, ty: Ty) -> Expr {
        if self.ty == ty { self } else { Expr { ty, kind: Kind::Cast(Box::new(self)) } }
    }

    /// An integer that may be too great for its type, which must be an error. DuckDB's optimizer makes `x > 4` of `x + 1 > 5`, adds up `x`
    /// for the sum of `x + 1`, and counts rows where it should count sums, but computes what stands behind a sign.
    pub fn computed(self) -> Expr {
        match self.ty.is_integer() {
            true => Expr { ty: self.ty, kind: Kind::Prefix("+", Box::new(self)) },
            false => self,
        }
    }

    /// True or false, or neither.
    pub fn condition(kind: Kind) -> Expr {
        Expr { ty: Ty::Bool, kind }
    }
}

/// SQL in the making.
#[derive(Default)]
pub struct Writer {
    done: Vec<Text>,
    sql: String,
    /// The parameters that it names, with the types they must have.
    pub params: Vec<(usize, Oid)>,
    /// The columns that it names, each with the number of its table.
    pub columns: Vec<(usize, String)>,
    /// Several tables are read.
    several: bool,
}

impl Writer {
    /// For so many tables.
    pub fn new(tables: usize) -> Self {
        Writer { several: tables > 1, ..Self::default() }
    }

    /// A table's name. Columns are written with it, so that no name of an output column is taken for theirs.
    pub fn table(&mut self, number: usize) {
        match self.several {
            true => self.sql(&format!("t{number}")),
            false => self.sql("t"),
        }
    }

    /// A piece of SQL as it is.
    pub fn sql(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    /// Each, with something between.
    pub fn list<'e>(&mut self, list: impl IntoIterator<Item = &'e Expr>, between: &str) {
        for (i, e) in list.into_iter().enumerate() {
            self.sql(if i == 0 { "" } else { between });
            self.expression(e);
        }
    }

    /// An expression, with all that is in it.
    pub fn expression(&mut self, e: &Expr) {
        match &e.kind {
            Kind::Column(column) => self.column(column),
            Kind::Constant(text) => self.sql(&constant::written(text, e.ty)),
            Kind::Null => self.sql(&format!("NULL::{}", e.ty)),
            Kind::Now(seconds) => self.now(*seconds),
            Kind::Param(n, oid) => self.param(*n, *oid),
            Kind::Infix(word, operands) => {
                self.sql("(");
                self.list(operands, &format!(" {word} "));
                self.sql(")");
            }
            Kind::Prefix(word, e) => {
                self.sql(&format!("({word} "));
                self.expression(e);
                self.sql(")");
            }
            Kind::Postfix(e, word) => {
                self.sql("(");
                self.expression(e);
                self.sql(&format!(" {word})"));
            }
            Kind::Cast(operand) => {
                self.sql("CAST(");
                self.expression(operand);
                self.sql(&format!(" AS {})", e.ty));
            }
            Kind::Case { whens, otherwise } => {
                self.sql("CASE");
                for (when, then) in whens {
                    self.sql(" WHEN ");
                    self.expression(when);
                    self.sql(" THEN ");
                    self.expression(then);
                }
                self.sql(" ELSE ");
                self.expression(otherwise);
                self.sql(" END");
            }
            Kind::Call(name, arguments) => {
                self.sql(&format!("{name}("));
                self.list(arguments, ", ");
                self.sql(")");
            }
            Kind::Fails(why) => self.sql(&format!("error({})", constant::written(why, Ty::Text))),
            Kind::List(e, word, list) => {
                self.sql("(");
                self.expression(e);
                self.sql(&format!(" {word} ("));
                self.list(list, ", ");
                self.sql("))");
            }
            Kind::Aggregate(a) => self.aggregate(a),
            Kind::FloatSum(sum) => self.float_sum(sum, e.ty),
            Kind::Mixed(mixed) => mixed.write(self),
            Kind::FirstBytes(number) => self.sql(&format!("{number}::UBIGINT")),
            Kind::Bound(bound) => self.bound(bound),
            Kind::Subquery(subquery) => subquery.write(self),
        }
    }

    fn bound(&mut self, bound: &Bound) {
        let (sign, last, direction) = if bound.descending { (">=", "min", "DESC") } else { ("<=", "max", "ASC") };
        self.sql("(");
        self.column(&bound.number);
        self.sql(&format!(" {sign} (SELECT {last}(n) FROM (SELECT "));
        self.column(&bound.number);
        self.sql(&format!(" AS n FROM copy_{} AS ", bound.copy));
        self.table(bound.number.table);
        if let Some(condition) = &bound.condition {
            self.sql(" WHERE ");
            self.expression(condition);
        }
        self.sql(&format!(" ORDER BY 1 {direction} LIMIT "));
        self.expression(&bound.limit);
        self.sql(") AS b))");
    }

    fn aggregate(&mut self, a: &Aggregate) {
        self.sql(&format!("{}({}", a.name, if a.distinct { "DISTINCT " } else { "" }));
        match &a.argument {
            Some(argument) => self.expression(argument),
            None => self.sql("*"),
        }
        self.sql(")");
        if let Some(filter) = &a.filter {
            self.sql(" FILTER (WHERE ");
            self.expression(filter);
            self.sql(")");
        }
    }

    fn float_sum(&mut self, sum: &Expr, ty: Ty) {
        self.sql("CAST(CASE WHEN NOT isfinite(");
        self.expression(sum);
        self.sql(") THEN error('not finite') ELSE ");
        self.expression(sum);
        self.sql(&format!(" END AS {ty})"));
    }

    fn column(&mut self, column: &Column) {
        self.table(column.table);
        self.sql(&format!(".\"{}\"", column.name.replace('"', "\"\"")));
        let named = (column.table, column.name.clone());
        if !self.columns.contains(&named) {
            self.columns.push(named);
        }
    }

    fn now(&mut self, seconds: i64) {
        self.sql("(");
        self.piece(Piece::Now);
        if seconds != 0 {
            self.sql(&format!(" + to_seconds({seconds})"));
        }
        self.sql(")");
    }

    fn piece(&mut self, piece: Piece) {
        let before = std::mem::take(&mut self.sql);
        self.done.push(before.into());
        self.done.push(piece.into());
    }

    fn param(&mut self, n: usize, oid: Oid) {
        self.piece(Piece::Param(n));
        if !self.params.contains(&(n, oid)) {
            self.params.push((n, oid));
        }
    }

    /// The text, when all is written.
    pub fn text(self) -> Text {
        Text::all(self.done.into_iter().chain([Text::from(self.sql)]))
    }
}
