//! What home is asked before a statement is classified, in one query. It does not judge the answers.

use std::collections::{HashMap, HashSet};

use catalog::schema::CATALOG_LOCK;
use catalog::{Row, Snapshot, TemporaryRelation, quote_literal};
use sql::NodeEnum;
use sql::ast::{self, ObjectType};
use sql::names;

use super::drop;
use super::materialized;
use super::mode::Mode;
use super::object;
use super::place::{self, Name, text};

/// What a classification may look at besides tree and snapshot.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Schemas unqualified names are looked up in, first to last.
    pub search_path: Vec<String>,
    /// Names of the session's temporary tables.
    pub temporary: Vec<TemporaryRelation>,
    /// Schema and name of the table of each index the statement names, by the index's name as written.
    pub indexes: HashMap<String, (String, String)>,
    /// Where home makes what is given no schema.
    pub creation_schema: String,
    /// What the statement is to make, qualified and quoted, if home has a relation of that name.
    pub taken: Option<String>,
    /// Names of types, as written, which are not those of the rows of the relations so called: PostgreSQL's own come first.
    pub types: HashSet<String>,
    /// Sequences, qualified and quoted, that go with columns which home drops with all that depends on them.
    pub sequences: Vec<String>,
    /// A free name for an index that was given none.
    pub index_name: Option<String>,
    /// What the materialized view that is to be refreshed is made of.
    pub definition: Option<String>,
    /// Part of names that nobody is to guess.
    pub unguessed: u64,
}

/// Home's answers.
#[derive(Debug, Default)]
pub struct Answers {
    pub epoch: i64,
    pub current_schema: String,
    pub indexes: HashMap<String, (String, String)>,
    pub taken: Option<String>,
    pub types: HashSet<String>,
    pub sequences: Vec<String>,
    pub index_name: Option<String>,
    pub definition: Option<String>,
}

impl Facts {
    /// Takes what home said.
    pub fn take(&mut self, answers: &mut Answers) {
        self.creation_schema = answers.current_schema.clone();
        self.indexes = std::mem::take(&mut answers.indexes);
        self.taken = answers.taken.take();
        self.types = std::mem::take(&mut answers.types);
        self.sequences = std::mem::take(&mut answers.sequences);
        self.index_name = answers.index_name.take();
        self.definition = answers.definition.take();
    }
}

/// PostgreSQL's limit on names (NAMEDATALEN − 1).
pub const NAME_BYTES_MAX: usize = 63;

/// The query. Statements that change the catalog go on beside one another; whoever makes tables distributed or local, or
/// adds nodes, waits until they have ended, and they for him.
pub fn question(mode: Mode, statement: &NodeEnum, snapshot: &Snapshot, facts: &Facts) -> String {
    let mut sql = String::new();
    if mode == Mode::Changes {
        sql += &format!("SELECT pg_catalog.pg_advisory_xact_lock_shared({CATALOG_LOCK}); ");
    }
    sql += "SELECT 'epoch', epoch::pg_catalog.text, NULL, NULL FROM herd.epoch \
            UNION ALL SELECT 'schema', pg_catalog.current_schema()::pg_catalog.text, NULL, NULL";
    for name in index_names(statement, snapshot, facts) {
        let literal = quote_literal(&name);
        sql += &format!(
            " UNION ALL SELECT 'index', {literal}, n.nspname::pg_catalog.text, c.relname::pg_catalog.text FROM pg_catalog.pg_index x \
             JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) x.indrelid JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
             WHERE x.indexrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({literal})"
        );
    }
    for (name, of_column) in object::types_named(statement) {
        let local = snapshot.resolve(name.0, name.1, &facts.search_path).is_some_and(|r| !place::is_herd(r));
        if name.0.is_none() && local && !of_column {
            let literal = quote_literal(&text(name));
            sql += &format!(
                " UNION ALL SELECT 'type', {literal}, NULL, NULL FROM pg_catalog.pg_type t \
                 WHERE t.oid OPERATOR(pg_catalog.=) pg_catalog.to_regtype({literal}) AND t.typrelid OPERATOR(pg_catalog.=) 0"
            );
        }
    }
    for (table, column) in drop::cascading(statement) {
        sql += &drop::sequences_of(&text(table), column);
    }
    if let Some((schema, name)) = made(statement, snapshot, facts) {
        let schema = schema.map_or("pg_catalog.current_schema()::pg_catalog.text".to_string(), quote_literal);
        let literal = quote_literal(name);
        sql += &format!(
            " UNION ALL SELECT 'taken', NULL, {schema}, {literal} \
             WHERE pg_catalog.to_regclass(pg_catalog.quote_ident({schema}) OPERATOR(pg_catalog.||) '.' OPERATOR(pg_catalog.||) pg_catalog.quote_ident({literal})) IS NOT NULL"
        );
    }
    if let Some((schema, base)) = wanted_index_name(statement, snapshot, facts) {
        let base = quote_literal(&base);
        let candidate = format!("pg_catalog.concat({base}, CASE WHEN i OPERATOR(pg_catalog.<>) 0 THEN i END)");
        sql += &format!(
            " UNION ALL (SELECT 'name', {candidate}, NULL, NULL FROM pg_catalog.generate_series(0, 999) i \
             WHERE pg_catalog.to_regclass(pg_catalog.format('%I.%I', {}, {candidate})) IS NULL ORDER BY i LIMIT 1)",
            quote_literal(&schema)
        );
    }
    if let Some(view) = materialized::refreshed(statement, snapshot, facts) {
        // It waits for whoever has the view locked, as REFRESH would; a snapshot has not.
        let view = quote_literal(&place::of_relation(view));
        sql += &format!(
            " UNION ALL SELECT 'definition', pg_catalog.pg_get_viewdef(pg_catalog.to_regclass({view})), NULL, NULL"
        );
    }
    sql
}

/// Rows of home's answer: what it is, its value, a schema and a name.
pub fn answers(rows: Vec<Row>) -> Answers {
    let mut answers = Answers::default();
    for row in rows {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let (what, value, schema, name) = (
            cells.next().unwrap_or_default(),
            cells.next().unwrap_or_default(),
            cells.next().unwrap_or_default(),
            cells.next().unwrap_or_default(),
        );
        match what.as_str() {
            "epoch" => answers.epoch = value.parse().unwrap_or(0),
            "schema" => answers.current_schema = value,
            "taken" => answers.taken = Some(catalog::qualified(place::without_number(&schema), &name)),
            "type" => {
                answers.types.insert(value);
            }
            "sequence" => answers.sequences.push(value),
            "definition" => answers.definition = Some(value),
            "index" => {
                answers.indexes.insert(value, (schema, name));
            }
            _ => answers.index_name = Some(value),
        }
    }
    answers
}

/// Names that may be those of indexes, which a snapshot does not hold.
fn index_names(statement: &NodeEnum, snapshot: &Snapshot, facts: &Facts) -> Vec<String> {
    let unknown = |name: Name| snapshot.resolve(name.0, name.1, &facts.search_path).is_none().then(|| text(name));
    let of_var =
        |rv: &Option<ast::RangeVar>| rv.as_ref().and_then(|rv| unknown(names::table(rv))).into_iter().collect();
    let of_object = |object: &ast::Node| place::name_of(&place::strings_of(object)).and_then(unknown);
    match statement {
        NodeEnum::AlterTableStmt(s) => of_var(&s.relation),
        NodeEnum::RenameStmt(s) => of_var(&s.relation),
        NodeEnum::ReindexStmt(s) => of_var(&s.relation),
        NodeEnum::AlterObjectDependsStmt(s) => of_var(&s.relation),
        NodeEnum::DropStmt(s) if place::object_type(s.remove_type) == ObjectType::ObjectIndex => {
            s.objects.iter().filter_map(of_object).collect()
        }
        NodeEnum::CommentStmt(s) if place::object_type(s.objtype) == ObjectType::ObjectIndex => {
            s.object.as_deref().and_then(of_object).into_iter().collect()
        }
        _ => vec![],
    }
}

/// What may be there already, which PostgreSQL looks for in the one schema that it would be made in.
fn made<'s>(statement: &'s NodeEnum, snapshot: &'s Snapshot, facts: &Facts) -> Option<Name<'s>> {
    match statement {
        NodeEnum::CreateTableAsStmt(s) if s.if_not_exists => {
            let rv = s.into.as_deref()?.rel.as_ref()?;
            let (schema, name) = names::table(rv);
            Some((schema.or((rv.relpersistence == "t").then_some("pg_temp")), name))
        }
        NodeEnum::CreateSeqStmt(s) if s.if_not_exists => s.sequence.as_ref().map(names::table),
        NodeEnum::IndexStmt(s) if !s.idxname.is_empty() => {
            let (schema, name) = names::table(s.relation.as_ref()?);
            let table = snapshot.resolve(schema, name, &facts.search_path)?;
            Some((Some(&table.schema), &s.idxname))
        }
        _ => None,
    }
}

/// Schema and first choice of a name for an index of a herd's table: it must be the same on every node.
fn wanted_index_name(statement: &NodeEnum, snapshot: &Snapshot, facts: &Facts) -> Option<(String, String)> {
    let NodeEnum::IndexStmt(s) = statement else { return None };
    let (schema, name) = names::table(s.relation.as_ref()?);
    let table = snapshot.resolve(schema, name, &facts.search_path).filter(|r| place::is_herd(r))?;
    if !s.idxname.is_empty() {
        return None;
    }
    // As PostgreSQL's ChooseIndexName (indexcmds.c): table_column_column_idx.
    let columns = s.index_params.iter().filter_map(|p| match &p.node {
        Some(NodeEnum::IndexElem(e)) if e.name.is_empty() => Some("expr"),
        Some(NodeEnum::IndexElem(e)) => Some(e.name.as_str()),
        _ => None,
    });
    let base = std::iter::once(table.name.as_str()).chain(columns).collect::<Vec<_>>().join("_");
    // Room for the suffix and three digits.
    Some((table.schema.clone(), format!("{}_idx", truncated(&base, NAME_BYTES_MAX - 7))))
}

/// The longest prefix of at most `bytes` bytes that ends at a character.
pub fn truncated(name: &str, bytes: usize) -> &str {
    let mut end = name.len().min(bytes);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
