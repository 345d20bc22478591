//! Code of users' own as the catalog has it: routines, what hangs on tables, who uses what. Raw: nothing is read into it here.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Oid, Relation, Volatility};

/// All code of users' own, and what PostgreSQL knows it to use.
#[derive(Clone, Debug, Default)]
pub struct Code {
    pub routines: Vec<Routine>,
    pub attached: Vec<Attached>,
    /// What PostgreSQL knows an object to use (`pg_depend`), and types what they are made of.
    pub uses: HashMap<Object, Vec<Object>>,
    /// Domains, types that may be made of some, and arrays of those: schema, name.
    pub types: Vec<(String, String, Oid)>,
    pub operators: Vec<Operator>,
    /// Names of user types that pg_catalog has, too.
    pub builtin_types: HashSet<String>,
    pub schemas: Vec<Schema>,
    pub unnamed: Vec<Unnamed>,
    /// Who writes the first may come to write the second: foreign keys, inheritance.
    pub tied: Vec<(Oid, Oid)>,
    /// Whose code calls a function that runs the text it is given ([`RUN_TEXT`]), and C functions of extensions that may.
    pub runs_text: HashSet<Object>,
    /// Relations and types of which some code breaks the rule of where code may be (plan's `code.rs`): nobody may use them
    /// until it is mended.
    pub marked: HashSet<Object>,
    /// Of those, whose code calls one of [`WHOLE_SCHEMAS`].
    pub whole_schemas: HashSet<Object>,
    /// Whose code calls one of [`TAKE_TYPES`].
    pub takes_types: HashSet<Object>,
    /// CHECKs, policies and conditions of triggers that name `tableoid`.
    pub asks_tableoid: HashSet<Object>,
    /// Names of routines that are distributed by an argument.
    pub by_argument: HashSet<String>,
    /// What was proved of them.
    pub proofs: Proofs,
    /// Names of functions whose calls can be replaced by their queries.
    pub open: HashSet<String>,
}

/// PostgreSQL's own functions (and dblink's) that run the text they are given, or read the table they are told (func.sgml).
pub const RUN_TEXT: [&str; 15] = [
    "schema_to_xml",
    "schema_to_xmlschema",
    "schema_to_xml_and_xmlschema",
    "database_to_xml",
    "database_to_xmlschema",
    "database_to_xml_and_xmlschema",
    "query_to_xml",
    "query_to_xmlschema",
    "query_to_xml_and_xmlschema",
    "table_to_xml",
    "table_to_xml_and_xmlschema",
    "ts_stat",
    "ts_rewrite",
    "dblink",
    "dblink_exec",
];

/// The first six: those of all tables of a schema, or of all schemas: partitioned tables, which distributed ones are on their nodes, are not
/// among them, and no lock tells that one was left out (xml.c, `schema_get_xml_visible_tables`).
pub const WHOLE_SCHEMAS: &[&str] = RUN_TEXT.split_at(6).0;

/// PostgreSQL's own functions that make a value of a type they are told by its number or name, and so run what domains and types of
/// users' own check and call. The rule: what has a type's number beside a text or bytes, and gives a value of any type (input and receive
/// functions of pseudo-types; those of other types pass the number over), and what says whether a text can be read as a type.
pub const TAKE_TYPES: &[&str] = &[
    "array_in",
    "array_recv",
    "domain_in",
    "domain_recv",
    "multirange_in",
    "multirange_recv",
    "pg_input_error_info",
    "pg_input_is_valid",
    "range_in",
    "range_recv",
    "record_in",
    "record_recv",
];

/// A routine that PostgreSQL calls where no statement need name it.
#[derive(Clone, Debug)]
pub struct Unnamed {
    pub routine: Oid,
    /// `cast`, `operator class`, `range type`, `event trigger`.
    pub what: String,
    pub name: String,
    /// Whoever uses a value of one of these may come to run it. None of a cast between two owners' types: what one has written
    /// must not be held against the other's.
    pub types: Vec<Oid>,
}

/// An operator outside of pg_catalog.
#[derive(Clone, Debug)]
pub struct Operator {
    pub oid: Oid,
    pub schema: String,
    pub name: String,
    /// Of its function.
    pub volatility: Volatility,
    /// pg_catalog has one of that name, too.
    pub builtin: bool,
}

/// A schema whose code may be met, and whose it is.
#[derive(Clone, Debug)]
pub struct Schema {
    pub name: String,
    pub owner: Oid,
    /// A superuser's, in which nobody else may create anything.
    pub trusted: bool,
}

/// An operator or domain that is not as harmless as PostgreSQL's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Harm {
    pub schema: String,
    pub needs: Needs,
    /// By the word of its function.
    pub immutable: bool,
}

/// The schema is a session's own for temporary objects, by whichever name.
pub fn is_temporary(schema: &str) -> bool {
    schema == "pg_temp" || schema.strip_prefix("pg_temp_").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

/// A name as it is written, qualified or looked up along a path, can mean something that is in schema `of`.
pub fn can_mean(schema: Option<&str>, path: &[String], of: &str) -> bool {
    match schema {
        Some("pg_temp") => of.starts_with("pg_temp_"),
        Some(schema) => schema == of,
        None => path.iter().any(|s| s == of),
    }
}

/// What code needs beside its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Uses distributed tables, or writes reference tables.
    pub herd: bool,
    /// Uses what only home has.
    pub home: bool,
    pub dynamic: bool,
    /// Reads tables, the clock or what else could differ from node to node, whatever its volatility says.
    pub varies: bool,
}

/// What using a relation runs besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelationCode {
    pub read: Needs,
    /// Who writes to it may run text that somebody puts together.
    pub written_dynamic: bool,
    /// The same in a block whose errors are caught.
    pub written_catches: bool,
    /// Code that hangs on it breaks the rule: it is neither read nor written.
    pub marked: bool,
    /// Of a reference table: code that runs row by row sees the rows that the statement has written so far.
    pub by_rows: bool,
    /// The same of rows of other tables, to which its foreign keys' actions come.
    pub by_tied_rows: bool,
    /// Of a reference table: triggers decide what becomes of a row before it is written.
    pub before_rows: bool,
    /// Of those, some read tables.
    pub before_reads: bool,
}

/// A function or procedure outside of pg_catalog.
#[derive(Clone, Debug)]
pub struct Routine {
    pub oid: Oid,
    pub schema: String,
    pub name: String,
    pub language: String,
    /// `pg_get_functiondef` of SQL and PL/pgSQL (`CREATE OR REPLACE`), the source of other languages, nothing of C. Of a body that is stored
    /// parsed, which could not be printed without a lock, a function of another name that uses the same (`CREATE FUNCTION f()`).
    pub definition: Arc<str>,
    pub volatility: Volatility,
    /// Its code is too long to be read (`herd.code_read`): it may do anything.
    pub opaque: bool,
    pub owner: Oid,
    /// `SET search_path` of its own.
    pub path: Option<String>,
    /// How many arguments a call gives, at least and at most.
    pub arity: (usize, usize),
    /// It is distributed by an argument.
    pub by_argument: Option<ByArgument>,
    /// A call can be replaced by its query, as far as the catalog tells: it is a function in SQL or PL/pgSQL whose body is a text, anybody may
    /// call it, it runs with its caller's rights and settings, and also where an argument is NULL.
    pub open: bool,
    /// The types of the arguments that a call gives.
    pub argument_types: Vec<Oid>,
}

/// The parameter that is set for a function or procedure which is distributed by an argument, in `pg_proc.proconfig`: it goes where the
/// function goes, is its owner's to set, and gone when the function is replaced.
pub const BY_ARGUMENT: &str = "herd.distribution_argument";

/// A call is sent to the node that has the rows of an argument's value. It is the owner's word alone: whether the body can run there is
/// proved where a call is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByArgument {
    /// Which one, from 1.
    pub number: usize,
    /// Its type.
    pub type_oid: Oid,
}

/// What a routine that is distributed by an argument uses.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    /// Distributed tables, colocated, of rows of the argument's value alone.
    pub tables: Vec<Arc<Relation>>,
    /// Reference tables, by home's object ids.
    pub others: Vec<Oid>,
}

/// What was proved of routines that are distributed by an argument, by object id and search path. Of one catalog: a copy has none.
#[derive(Debug, Default)]
pub struct Proofs(Mutex<Proved>);

type Proved = HashMap<(Oid, Vec<String>), Arc<Uses>>;

impl Proofs {
    /// Paths are clients' to choose.
    const MAX: usize = 10_000;

    /// What is known.
    pub fn get(&self, routine: Oid, path: &[String]) -> Option<Arc<Uses>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(routine, path.to_vec())).cloned()
    }

    /// Keeps what was proved.
    pub fn put(&self, routine: Oid, path: &[String], uses: Arc<Uses>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < Self::MAX {
            known.insert((routine, path.to_vec()), uses);
        }
    }
}

impl Clone for Proofs {
    fn clone(&self) -> Self {
        Proofs::default()
    }
}

/// What PostgreSQL runs by itself when a table (or view) is used.
#[derive(Clone, Debug)]
pub struct Attached {
    pub oid: Oid,
    pub table: Oid,
    /// Of a default, the column's.
    pub name: String,
    /// Of a rule.
    pub definition: Option<String>,
    /// Of a trigger: it is called for each row (pg_trigger.h, TRIGGER_TYPE_ROW).
    pub rows: bool,
    /// Of a trigger: it is called for each row, before that is written (TRIGGER_TYPE_BEFORE).
    pub before_rows: bool,
    /// Of a trigger: it has tables of the rows that the statement has changed.
    pub transition: bool,
    /// Of a trigger: it may run behind its statement, at COMMIT or SET CONSTRAINTS.
    pub deferrable: bool,
    /// Of a foreign key: those that its actions set to their defaults.
    pub columns: Vec<String>,
    /// `trigger`, `default`, `constraint`, `policy`, `rule`, `index`, `statistics`, `foreign key` (with an action SET DEFAULT);
    /// `view` is the query of one.
    pub what: String,
}

/// `class`: 'r' relation, 'f' routine, 't' type, 'o' operator, 'd' default, 'c' constraint, 'g' trigger, 'u' rule, 'p' policy,
/// 's' extended statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    pub class: u8,
    pub oid: Oid,
}

impl Attached {
    /// What it is in PostgreSQL's catalog, by its class and object id.
    pub fn object(&self) -> Object {
        let class = match self.what.as_str() {
            "trigger" => b'g',
            "default" => b'd',
            "constraint" | "foreign key" => b'c',
            "policy" => b'p',
            "statistics" => b's',
            "index" => b'r',
            _ => b'u',
        };
        Object { class, oid: self.oid }
    }
}
