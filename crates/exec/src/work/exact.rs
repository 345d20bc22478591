//! Which values stay what they are when they travel from node to node as text, under the session's settings.
//!
//! Nodes have the same settings for a session (`session/src/serve/greet.rs`). Text is what those make of a value: some lose
//! digits, or write what they read as something else. Where rows are finished or stored elsewhere, such values travel in binary, or they are refused;
//! to clients they go as PostgreSQL writes them.

use wire::sqlstate;

use crate::carried::{Carried, Carriers, base, without_collation};
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// What no setting changes there and back; of arrays the elements. Types of users' own may hold anything: home knows what.
const SAFE: &[&str] = &[
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "boolean",
    "text",
    "character varying",
    "character",
    "name",
    "\"char\"",
    "bpchar",
    "bytea",
    "uuid",
    "date",
    "time without time zone",
    "time with time zone",
    "timestamp without time zone",
    "interval",
    "json",
    "jsonb",
    "inet",
    "cidr",
    "macaddr",
    "macaddr8",
    "oid",
    "bit",
    "bit varying",
    "\"bit\"",
    "money",
    "xml",
    "tid",
    "regclass",
    "regtype",
    "regproc",
    "regprocedure",
    "regoper",
    "regoperator",
    "regrole",
    "regnamespace",
    "regconfig",
    "regdictionary",
    "regcollation",
    "aclitem",
    "refcursor",
    "pg_snapshot",
    "int4range",
    "int8range",
    "numrange",
    "daterange",
    "tsrange",
    "int4multirange",
    "int8multirange",
    "nummultirange",
    "datemultirange",
    "tsmultirange",
    "pg_lsn",
    "jsonpath",
    "tsvector",
    "tsquery",
    "oidvector",
    "int2vector",
    "xid",
    "xid8",
    "cid",
];
const FLOATS: &[&str] = &["real", "double precision", "point", "line", "lseg", "box", "path", "polygon", "circle"];
const MOMENTS: &[&str] = &["timestamp with time zone", "tstzrange", "tstzmultirange"];

/// A setting, whether its value is harmless, and the types that come to no harm by any value.
type Rule = (&'static str, fn(&str) -> bool, &'static [&'static [&'static str]]);

const RULES: &[Rule] = &[
    // From 1 on a float's text is that float.
    ("extra_float_digits", |v| v.trim().parse::<i32>().is_ok_and(|n| n > 0), &[SAFE, MOMENTS]),
    // Others name time zones by abbreviations, which several zones share.
    ("datestyle", |v| v.trim_start().get(..3).is_some_and(|s| s.eq_ignore_ascii_case("iso")), &[SAFE, FLOATS]),
];
/// The types that types are made of, down to PostgreSQL's own (which `quote_all_identifiers` puts quotes around) and those of extensions; an
/// enum is its labels, which no setting changes.
const MADE_OF: &str = "WITH RECURSIVE made (oid) AS ( \
       SELECT pg_catalog.to_regtype(n)::pg_catalog.oid FROM pg_catalog.unnest({}::pg_catalog.text[]) n \
       UNION SELECT u.oid FROM made JOIN pg_catalog.pg_type p ON p.oid OPERATOR(pg_catalog.=) made.oid, LATERAL ( \
         SELECT p.typbasetype WHERE p.typtype OPERATOR(pg_catalog.=) 'd' \
         UNION ALL SELECT p.typelem WHERE p.typcategory OPERATOR(pg_catalog.=) 'A' AND p.typelem OPERATOR(pg_catalog.<>) 0 \
         UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE p.typtype OPERATOR(pg_catalog.=) 'c' \
           AND a.attrelid OPERATOR(pg_catalog.=) p.typrelid AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped \
         UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid OPERATOR(pg_catalog.=) p.oid \
       ) u (oid)) \
     SELECT p.typcategory OPERATOR(pg_catalog.=) 'A' AND p.typelem OPERATOR(pg_catalog.<>) 0, CASE WHEN p.oid OPERATOR(pg_catalog.<) 16384 AND p.typname OPERATOR(pg_catalog.<>) 'char' \
            THEN pg_catalog.replace(pg_catalog.format_type(p.oid, NULL), '\"', '') ELSE pg_catalog.format_type(p.oid, NULL) END FROM made LEFT JOIN pg_catalog.pg_type p ON p.oid OPERATOR(pg_catalog.=) made.oid \
      WHERE p.oid IS NULL OR NOT p.typtype OPERATOR(pg_catalog.=) ANY (ARRAY['d', 'c', 'r', 'e']::pg_catalog.\"char\"[])";
/// Off, an array's NULL is read as a string.
const ARRAY_NULLS: &str = "array_nulls";

impl<C: Client> Work<'_, C> {
    /// Refuses types (as `format_type` writes them) whose values would not arrive as text as they are.
    pub fn travel_whole<'t>(&self, types: impl IntoIterator<Item = &'t str> + Clone) -> Result<()> {
        self.read_the_same(types.clone())?;
        match self.loses_nulls().then(|| types.into_iter().find(|t| !is_plain(t))).flatten() {
            Some(t) => Err(refused(ARRAY_NULLS, t)),
            None => Ok(()),
        }
    }

    /// The same, where home can be asked what types of users' own are made of.
    pub async fn travel_made_of(&mut self, types: Vec<&str>) -> Result<()> {
        if self.travel_whole(types.iter().copied()).is_ok() {
            return Ok(());
        }
        let (arrays, others) = self.made_of(&types).await?;
        match arrays.first().filter(|_| self.loses_nulls()) {
            Some(array) => Err(refused(ARRAY_NULLS, array)),
            None => self.read_the_same(others.iter().map(String::as_str)),
        }
    }

    /// How values of these types travel in arrays: what would not arrive as text goes in binary.
    ///
    /// # Errors
    /// 0A000 for a type whose text the session's settings change, and that has no binary form of its own.
    pub async fn carry(&mut self, types: impl IntoIterator<Item = &str>) -> Result<Carriers> {
        self.carry_as(types.into_iter().map(|t| (t, Carried::of(t))).collect()).await
    }

    /// The same, where nobody but PostgreSQL reads them.
    pub async fn carry_unread(&mut self, types: impl IntoIterator<Item = &str>) -> Result<Carriers> {
        self.carry_as(types.into_iter().map(|t| (t, Carried::unread(t))).collect()).await
    }

    async fn carry_as(&mut self, carried: Vec<(&str, Carried)>) -> Result<Carriers> {
        let text = carried.iter().filter(|(_, c)| c.is_text()).map(|(t, _)| *t).collect();
        self.made_of_the_same(text).await?;
        let loses = self.loses_nulls();
        Ok(Carriers::of(
            carried.into_iter().map(|(t, c)| Carried { without_null: loses && c.is_text() && !is_plain(t), ..c }),
        ))
    }

    async fn made_of_the_same(&mut self, types: Vec<&str>) -> Result<()> {
        if self.read_the_same(types.iter().copied()).is_ok() {
            return Ok(());
        }
        let (_, others) = self.made_of(&types).await?;
        self.read_the_same(others.iter().map(String::as_str))
    }

    /// The types that these are made of, themselves among them: arrays, and what has no types inside. One that is not found has no name.
    async fn made_of(&mut self, types: &[&str]) -> Result<(Vec<String>, Vec<String>)> {
        let names = types.iter().map(|t| catalog::quote_literal(without_collation(t))).collect::<Vec<_>>().join(", ");
        let rows = self.ask_home(&MADE_OF.replace("{}", &format!("ARRAY[{names}]"))).await?;
        let (mut arrays, mut others) = (vec![], vec![]);
        for row in rows {
            let of = if row.first().and_then(Option::as_deref) == Some("t") { &mut arrays } else { &mut others };
            of.push(row.into_iter().nth(1).flatten().unwrap_or_default());
        }
        Ok((arrays, others))
    }

    /// Their text is read as it was written, but for NULL inside of it.
    fn read_the_same<'t>(&self, types: impl IntoIterator<Item = &'t str> + Clone) -> Result<()> {
        for (name, is_harmless, safe) in RULES {
            if self.may_be(name, is_harmless) {
                let harmed = |t: &&str| !safe.iter().any(|list| list.contains(&base(t).as_ref()));
                types.clone().into_iter().find(harmed).map_or(Ok(()), |t| Err(refused(name, t)))?;
            }
        }
        Ok(())
    }

    fn loses_nulls(&self) -> bool {
        self.may_be(ARRAY_NULLS, |v| v.trim().eq_ignore_ascii_case("on"))
    }

    /// What is set in a transaction is known by its text alone.
    fn may_be(&self, name: &str, is_harmless: impl Fn(&str) -> bool) -> bool {
        self.settings.get(name).is_some_and(|v| !is_harmless(v)) || self.transaction.sets(name)
    }
}

/// It has no values inside.
fn is_plain(t: &str) -> bool {
    let known = [SAFE, FLOATS, MOMENTS].iter().any(|list| list.contains(&base(t).as_ref()));
    known && !without_collation(t).ends_with("[]")
}

fn refused(setting: &str, of: &str) -> ExecError {
    ExecError::sql(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!("moving values of type {of} between nodes is not supported with this setting of {setting}: they could change on the way"),
    )
    .hint(&format!("RESET {setting}, or read from one node only: with a condition on one key."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_settings_are_told_apart() {
        let harmless = |name: &str, value: &str| RULES.iter().find(|r| r.0 == name).is_some_and(|r| r.1(value));
        assert!(harmless("extra_float_digits", "3") && harmless("datestyle", "ISO, DMY"));
        assert!(!harmless("extra_float_digits", "0") && !harmless("datestyle", "German, DMY"));
    }
}
