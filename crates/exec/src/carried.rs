//! What the values of a column are while they travel from node to node in arrays: text, or PostgreSQL's binary form where text is what the
//! session's settings make of a value, or where nobody but PostgreSQL reads them, which takes half the time. Whether text may be is not known
//! here (`work/exact.rs`).

use std::borrow::Cow;
use std::sync::Arc;

use wire::type_oid::{self as oid, Oid};

/// A column's elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// The type of the elements, that of an array of them, and its name.
    pub element: Oid,
    pub array: Oid,
    pub name: &'static str,
    /// NULL inside of a value would be read as something else.
    pub without_null: bool,
}

pub const TEXT: Carried = Carried { element: oid::TEXT, array: oid::TEXT_ARRAY, name: "text", without_null: false };

const fn binary(element: Oid, array: Oid, name: &'static str) -> Carried {
    Carried { element, array, name, without_null: false }
}

/// Those whose text settings change, by what `format_type` calls them. Ranges have their own text around that of their bounds.
const BINARY: &[(&str, Carried)] = &[
    ("real", binary(oid::FLOAT4, oid::FLOAT4_ARRAY, "float4")),
    ("double precision", binary(oid::FLOAT8, oid::FLOAT8_ARRAY, "float8")),
    ("timestamp with time zone", binary(oid::TIMESTAMPTZ, oid::TIMESTAMPTZ_ARRAY, "timestamptz")),
    ("tstzrange", binary(oid::TSTZRANGE, oid::TSTZRANGE_ARRAY, "tstzrange")),
    ("tstzmultirange", binary(oid::TSTZMULTIRANGE, oid::TSTZMULTIRANGE_ARRAY, "tstzmultirange")),
];

/// Those whose binary form is written and read faster than their text, and means the same in all versions.
const FASTER: &[(&str, Carried)] = &[
    ("smallint", binary(oid::INT2, oid::INT2_ARRAY, "int2")),
    ("integer", binary(oid::INT4, oid::INT4_ARRAY, "int4")),
    ("bigint", binary(oid::INT8, oid::INT8_ARRAY, "int8")),
    ("numeric", binary(oid::NUMERIC, oid::NUMERIC_ARRAY, "numeric")),
    ("boolean", binary(oid::BOOL, oid::BOOL_ARRAY, "bool")),
    ("bytea", binary(oid::BYTEA, oid::BYTEA_ARRAY, "bytea")),
    ("uuid", binary(oid::UUID, oid::UUID_ARRAY, "uuid")),
    ("date", binary(oid::DATE, oid::DATE_ARRAY, "date")),
    ("time without time zone", binary(oid::TIME, oid::TIME_ARRAY, "time")),
    ("timestamp without time zone", binary(oid::TIMESTAMP, oid::TIMESTAMP_ARRAY, "timestamp")),
    ("interval", binary(oid::INTERVAL, oid::INTERVAL_ARRAY, "interval")),
];

impl Carried {
    /// How values of a type travel, as text if they may.
    pub fn of(type_name: &str) -> Self {
        Self::among(type_name, BINARY.iter())
    }

    /// How they travel where nobody but PostgreSQL reads them.
    pub fn unread(type_name: &str) -> Self {
        Self::among(type_name, BINARY.iter().chain(FASTER))
    }

    fn among(type_name: &str, mut binary: impl Iterator<Item = &'static (&'static str, Carried)>) -> Self {
        if without_collation(type_name).ends_with("[]") {
            return TEXT;
        }
        let name = base(type_name);
        binary.find(|(n, _)| *n == name).map_or(TEXT, |(_, carried)| *carried)
    }

    /// What values must have in common so that equal ones are the same bytes, integers once they are widened.
    pub fn kind(&self) -> Oid {
        if self.is_integer() { oid::INT8 } else { self.element }
    }

    /// Integers in binary.
    pub fn is_integer(&self) -> bool {
        oid::is_integer(self.element)
    }

    /// They are text, whatever the column's type.
    pub fn is_text(&self) -> bool {
        self.element == oid::TEXT
    }
}

/// How the values of each column travel.
#[derive(Clone, Debug)]
pub struct Carriers(Arc<[Carried]>);

impl Carriers {
    /// All of so many columns are text.
    pub fn text(width: usize) -> Self {
        Carriers(vec![TEXT; width].into())
    }

    /// Each as it is said.
    pub fn of(columns: impl IntoIterator<Item = Carried>) -> Self {
        Carriers(columns.into_iter().collect())
    }

    /// One after the other, in the columns' order.
    pub fn iter(&self) -> std::slice::Iter<'_, Carried> {
        self.0.iter()
    }

    /// In which formats they are asked for; none: all are text.
    pub fn formats(&self) -> Vec<i16> {
        match self.iter().all(Carried::is_text) {
            true => vec![],
            false => self.iter().map(|c| i16::from(!c.is_text())).collect(),
        }
    }
}

/// A type without what a column adds to it: its collation, `[]`, and modifiers as in `numeric(12,3)[]`, `time(3) without time zone`.
pub fn base(of: &str) -> Cow<'_, str> {
    let of = without_collation(of).trim_end_matches("[]");
    match of.split_once('(').and_then(|(name, rest)| Some((name, rest.split_once(')')?.1))) {
        Some((name, "")) => name.into(),
        Some((name, rest)) => [name, rest].concat().into(),
        None => of.into(),
    }
}

/// A type's name without the collation of its column.
pub fn without_collation(of: &str) -> &str {
    of.split_once(" COLLATE ").map_or(of, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_without_their_modifiers() {
        assert_eq!(
            ["numeric(12,3)", "numeric(12,3)[]", "integer[]", "text"].map(base),
            ["numeric", "numeric", "integer", "text"]
        );
        assert_eq!(base("timestamp(3) without time zone"), "timestamp without time zone");
        assert_eq!([r#"name COLLATE "C""#, r#"text[] COLLATE public."a b""#].map(base), ["name", "text"]);
    }

    #[test]
    fn what_nobody_reads_travels_in_binary() {
        let unread = |types: &[&str]| Carriers::of(types.iter().map(|t| Carried::unread(t))).formats();
        assert_eq!(unread(&["bigint", "numeric(12,2)", "text", "integer[]", "public.bigint"]), [1, 1, 0, 0, 0]);
        let kinds = ["smallint", "bigint", "date", "character varying(3)"].map(|t| Carried::unread(t).kind());
        assert_eq!(kinds, [oid::INT8, oid::INT8, oid::DATE, oid::TEXT]);
    }

    #[test]
    fn floats_and_moments_travel_in_binary() {
        let formats = |types: &[&str]| Carriers::of(types.iter().map(|t| Carried::of(t))).formats();
        assert_eq!(formats(&["real", "text", "timestamp(3) with time zone"]), [1, 0, 1]);
        // An array has others inside; a type of that name in quotes is a user's own.
        assert!(formats(&["integer", "double precision[]", "\"real\"", "timestamp without time zone"]).is_empty());
    }
}
