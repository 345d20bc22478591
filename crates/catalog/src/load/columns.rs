//! Columns of tables and views. Only what is new is read: the server makes a number of the very rows that it would answer with
//! for each relation, and where a snapshot at hand holds rows of the same number, those are taken over, and none travel. So what a row
//! is made of (names of types, functions, sequences, collations; what was rolled back; another server's catalog) need not be
//! known: whatever makes a row another makes the number another.
//!
//! What a column says by rows of other questions (texts that are printed under locks, defaults of domains, object ids of sequences)
//! is looked up at each load, for columns read now and for those taken over. It does not judge what can be done with any.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use super::ahead::Ahead;
use super::definitions::Definitions;
use super::facts::NOT_SYSTEM;
use crate::load::{reading, slowly};
use crate::{CatalogError, Column, Oid, Query, UserType};
use wire::type_oid::FIRST_NORMAL_OBJECT_ID;

/// The columns that a load has read, by their relations, for the next one.
#[derive(Clone, Debug, Default)]
pub struct KeptColumns {
    relations: HashMap<Oid, Arc<Read>>,
    /// What columns of the database's own collation were told of it.
    collation_is_bytes: bool,
}

/// One relation's.
#[derive(Debug)]
pub(super) struct Read {
    /// Of the rows it was read from: the sum of their hashes.
    mark: i128,
    pub attnums: Vec<i32>,
    pub columns: Arc<[Column]>,
    /// Positions of columns about which other questions say something, too.
    open: Vec<(usize, Open)>,
    /// A column has another collation than the database's.
    pub own_collations: bool,
    /// A column does not compare by bytes.
    pub unlike_bytes: bool,
}

/// What the column's row does not say by itself.
#[derive(Clone, Copy, Debug)]
enum Open {
    /// The text of its default, of this object id.
    Text(Oid),
    /// The default of its domain.
    Domain,
    /// The object id of the sequence it names.
    Sequence,
}

/// What other questions have answered.
pub(super) struct Elsewhere<'l> {
    pub types: &'l HashMap<Oid, UserType>,
    pub definitions: &'l Definitions,
    /// By their names, quoted and qualified.
    pub sequences: HashMap<String, Oid>,
    pub collation_is_bytes: bool,
}

impl KeptColumns {
    /// Those of a relation, in their order.
    pub(super) fn of(&self, relation: Oid) -> Option<&Arc<[Column]>> {
        self.relations.get(&relation).map(|read| &read.columns)
    }

    pub(super) fn read(&self, relation: Oid) -> Option<&Arc<Read>> {
        self.relations.get(&relation)
    }
}

/// Of these relations: taken over where nothing is new. Relations whose defaults are behind a lock become `locked`.
pub(super) async fn load<Q: Query>(
    q: &mut Ahead<'_, Q>,
    relations: &[Oid],
    elsewhere: &Elsewhere<'_>,
    before: Option<&KeptColumns>,
    locked: &mut HashSet<Oid>,
) -> Result<KeptColumns, CatalogError<Q::Error>> {
    let mut all: HashMap<Oid, Arc<Read>> = HashMap::with_capacity(relations.len());
    let collation_is_bytes = elsewhere.collation_is_bytes;
    let before = before.filter(|kept| !kept.relations.is_empty() && kept.collation_is_bytes == collation_is_bytes);
    if let Some(before) = before {
        let marks = marks(q).await?;
        for oid in relations {
            // Without a column there is no row.
            let mark = marks.get(oid).copied().unwrap_or_default();
            if let Some(read) = before.relations.get(oid).filter(|read| read.mark == mark) {
                all.insert(*oid, read.clone());
            }
        }
    }
    let new: Vec<Oid> = relations.iter().filter(|oid| !all.contains_key(oid)).copied().collect();
    let mut fresh = match new.is_empty() {
        true => HashMap::new(),
        false => rows(q, before.is_some().then_some(&*new), elsewhere).await?,
    };
    all.extend(new.into_iter().map(|oid| (oid, Arc::new(fresh.remove(&oid).unwrap_or_else(Read::none)))));
    for (oid, read) in &mut all {
        if let Some(other) = read.with_what_is_elsewhere(*oid, elsewhere, locked) {
            *read = Arc::new(other);
        }
    }
    Ok(KeptColumns { relations: all, collation_is_bytes })
}

/// Nobody who makes tables knows it, so nobody can make two rows of one hash.
static SEED: LazyLock<i64> = LazyLock::new(|| RandomState::new().hash_one(0) as i64);

/// How a collation `co` compares: 'd' as the database's does, 'y' by bytes, 'n' otherwise. One of provider "d" is the database's. The builtin
/// provider orders by code points, which is UTF-8's order of bytes (src/backend/utils/adt/pg_locale_builtin.c).
pub(super) const COLLATION: &str = "CASE WHEN co.collprovider = 'd' THEN 'd' WHEN co.collprovider = 'b' THEN 'y' \
    WHEN co.collprovider = 'c' AND co.collcollate IN ('C', 'POSIX') AND co.collctype IN ('C', 'POSIX') THEN 'y' ELSE 'n' END";

/// The rows: what is asked for, and what marks are made of.
fn question(only: &str) -> String {
    // A default names no columns; said with its table, pg_get_expr would wait for whoever has that locked. Objects of users' own have
    // numbers of five digits; a default that has none needs no closer look (as in herd.definitions).
    // A partition's identity column takes its values where its parent's does.
    let identity = "SELECT sn.nspname, s.relname FROM pg_attribute o \
                 JOIN pg_depend e ON e.classid = 'pg_class'::regclass AND e.refclassid = 'pg_class'::regclass AND e.deptype = 'i' \
                      AND e.refobjid = o.attrelid AND e.refobjsubid = o.attnum \
                 JOIN pg_class s ON s.oid = e.objid AND s.relkind = 'S' JOIN pg_namespace sn ON sn.oid = s.relnamespace \
                 WHERE o.attname = a.attname AND o.attrelid = ANY (CASE WHEN c.relispartition THEN ARRAY( \
                       WITH RECURSIVE up (oid) AS (SELECT c.oid UNION ALL SELECT i.inhparent FROM up u JOIN pg_inherits i ON i.inhrelid = u.oid) \
                       SELECT oid FROM up) ELSE ARRAY[c.oid] END) LIMIT 1";
    format!(
        "SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod), a.attnotnull, \
                d.oid, CASE WHEN NOT (d.adbin::text ~ '[0-9]{{5}}' AND herd.names_rows(d.adbin::text)) THEN pg_get_expr(d.adbin, 0) END, \
                q.nspname, q.relname, a.attidentity, a.attgenerated <> '', a.attcollation, \
                CASE WHEN a.attcollation = 0 THEN 'y' ELSE {COLLATION} END, \
                coalesce(co.collisdeterministic, true), coalesce(co.collprovider <> 'd', false) \
         FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.attgenerated = '' \
         LEFT JOIN pg_collation co ON co.oid = a.attcollation \
         LEFT JOIN LATERAL ({identity}) q ON a.attidentity <> '' \
         WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND c.relpersistence <> 't' AND {NOT_SYSTEM} \
           AND a.attnum > 0 AND NOT a.attisdropped{only} OFFSET 0"
    )
}

/// Of each relation with columns.
async fn marks<Q: Query>(q: &mut Ahead<'_, Q>) -> Result<HashMap<Oid, i128>, CatalogError<Q::Error>> {
    let sql = format!(
        "SELECT x.attrelid, sum(hash_record_extended(x, {})) FROM ({}) x GROUP BY x.attrelid",
        *SEED,
        question("")
    );
    let mut marks = HashMap::new();
    let mut rows = reading(q, &sql).await?;
    while let Some(mut row) = rows.next().await {
        marks.insert(row.number()?, row.number()?);
    }
    Ok(marks)
}

/// Of all relations, or of these alone. Each row comes with its hash: in a transaction that sees others' commits it may be newer than
/// the mark that was asked for before, and what is kept must have its own.
async fn rows<Q: Query>(
    q: &mut Ahead<'_, Q>,
    only: Option<&[Oid]>,
    elsewhere: &Elsewhere<'_>,
) -> Result<HashMap<Oid, Read>, CatalogError<Q::Error>> {
    let only = only.map(|oids| oids.iter().map(Oid::to_string).collect::<Vec<_>>().join(","));
    let only = only.map(|oids| format!(" AND c.oid = ANY ('{{{oids}}}'::oid[])")).unwrap_or_default();
    let sql = format!(
        "SELECT hash_record_extended(x, {}), x.* FROM ({}) x ORDER BY x.attrelid, x.attnum",
        *SEED,
        question(&only)
    );
    let mut found: HashMap<Oid, (Read, Vec<Column>)> = HashMap::new();
    let mut rows = slowly(q.now(&sql).await?);
    while let Some(mut row) = rows.next().await {
        let (hash, oid): (i64, Oid) = (row.number()?, row.number()?);
        let (read, columns) = found.entry(oid).or_insert_with(|| (Read::none(), vec![]));
        read.mark += i128::from(hash);
        read.attnums.push(row.number()?);
        let mut column = Column {
            name: row.text(),
            type_oid: row.number()?,
            typmod: row.number()?,
            type_name: row.text(),
            not_null: row.boolean(),
            default: None,
            sequence: None,
            sequence_oid: 0,
            identity: 0,
            generated: false,
            collation: 0,
            collation_is_bytes: false,
            collation_deterministic: true,
        };
        let default: Option<Oid> = row.opt_number()?;
        column.default = row.opt();
        column.sequence = row.opt().zip(row.opt()).map(|(schema, name)| crate::qualified(&schema, &name));
        column.identity = row.char();
        column.generated = row.boolean();
        column.collation = row.number()?;
        column.collation_is_bytes = match row.char() {
            b'd' => elsewhere.collation_is_bytes,
            answer => answer == b'y',
        };
        column.collation_deterministic = row.boolean();
        read.own_collations |= row.boolean();
        read.unlike_bytes |= !column.collation_is_bytes;
        if column.sequence.is_none() {
            column.sequence = column.default.as_deref().and_then(sequence_of_default);
        }
        let open = match default {
            Some(default) if column.default.is_none() => Some(Open::Text(default)),
            None if !column.generated && column.type_oid >= FIRST_NORMAL_OBJECT_ID => Some(Open::Domain),
            _ => column.sequence.is_some().then_some(Open::Sequence),
        };
        read.open.extend(open.map(|open| (columns.len(), open)));
        columns.push(column);
    }
    Ok(found.into_iter().map(|(oid, (read, columns))| (oid, Read { columns: columns.into(), ..read })).collect())
}

impl Read {
    fn none() -> Self {
        Read {
            mark: 0,
            attnums: vec![],
            columns: Arc::from([]),
            open: vec![],
            own_collations: false,
            unlike_bytes: false,
        }
    }

    /// The same with what other questions say now; `None`: it says that already.
    fn with_what_is_elsewhere(
        &self,
        relation: Oid,
        elsewhere: &Elsewhere<'_>,
        locked: &mut HashSet<Oid>,
    ) -> Option<Read> {
        let mut others: Option<Vec<Column>> = None;
        for (at, open) in &self.open {
            let column = &self.columns[*at];
            let default = match open {
                Open::Text(oid) => elsewhere.definitions.of_default(*oid),
                Open::Domain => elsewhere.types.get(&column.type_oid).and_then(|t| t.default.clone()),
                Open::Sequence => column.default.clone(),
            };
            if matches!(open, Open::Text(_)) && default.is_none() {
                locked.insert(relation);
            }
            let sequence = match open {
                Open::Sequence => column.sequence.clone(),
                _ => default.as_deref().and_then(sequence_of_default),
            };
            // Names may change behind a session that took values: it knows sequences by their object ids.
            let sequence_oid = sequence.as_ref().and_then(|name| elsewhere.sequences.get(name)).copied();
            let sequence_oid = sequence_oid.unwrap_or_default();
            if (&default, &sequence, sequence_oid) != (&column.default, &column.sequence, column.sequence_oid) {
                let columns = others.get_or_insert_with(|| self.columns.to_vec());
                columns[*at] = Column { default, sequence, sequence_oid, ..column.clone() };
            }
        }
        let columns = others?.into();
        Some(Read { columns, attnums: self.attnums.clone(), open: self.open.clone(), ..*self })
    }
}

/// The sequence of a default that is nothing but `nextval('…'::regclass)`; quoted and qualified, as `regclass` prints it.
fn sequence_of_default(default: &str) -> Option<String> {
    let literal = default.strip_prefix("nextval('")?.strip_suffix("'::regclass)")?;
    let name = literal.replace("''", "'");
    // More than one literal: an expression of several calls.
    (name.matches('\'').count() * 2 == literal.matches('\'').count()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::sequence_of_default;

    #[test]
    fn sequences_of_defaults() {
        for (default, want) in [
            ("nextval('public.t_id_seq'::regclass)", Some("public.t_id_seq")),
            ("nextval('public.\"it''s\"'::regclass)", Some("public.\"it's\"")),
            ("nextval('public.a'::regclass) + nextval('public.b'::regclass)", None),
            ("(nextval('public.a'::regclass) * 2)", None),
            ("0", None),
        ] {
            assert_eq!(sequence_of_default(default).as_deref(), want);
        }
    }
}
