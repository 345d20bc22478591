//! The built-in types this crate knows, by their fixed oids (`pg_type.dat`, the same in every version and server).
//!
//! It holds what a type *is*, not how its values are hashed, ordered or read.

use crate::Oid;

pub(crate) use wire::type_oid::*;

/// The scalar types, with the name `format_type` gives them.
const SCALARS: &[(Oid, &str)] = &[
    (BOOL, "boolean"),
    (BYTEA, "bytea"),
    (CHAR, "\"char\""),
    (NAME, "name"),
    (INT8, "bigint"),
    (INT2, "smallint"),
    (INT4, "integer"),
    (TEXT, "text"),
    (OID, "oid"),
    (TID, "tid"),
    (XID, "xid"),
    (CID, "cid"),
    (OIDVECTOR, "oidvector"),
    (CIDR, "cidr"),
    (FLOAT4, "real"),
    (FLOAT8, "double precision"),
    (MACADDR8, "macaddr8"),
    (MACADDR, "macaddr"),
    (INET, "inet"),
    (BPCHAR, "character"),
    (VARCHAR, "character varying"),
    (DATE, "date"),
    (TIME, "time without time zone"),
    (TIMESTAMP, "timestamp without time zone"),
    (TIMESTAMPTZ, "timestamp with time zone"),
    (INTERVAL, "interval"),
    (TIMETZ, "time with time zone"),
    (NUMERIC, "numeric"),
    (UUID, "uuid"),
    (PG_LSN, "pg_lsn"),
    (JSONB, "jsonb"),
    (XID8, "xid8"),
];

/// Array types: oid, element, name. Of `oidvector`'s and `int2vector`'s relatives only the true arrays.
const ARRAYS: &[(Oid, Oid, &str)] = &[
    (BOOL_ARRAY, BOOL, "boolean[]"),
    (BYTEA_ARRAY, BYTEA, "bytea[]"),
    (CHAR_ARRAY, CHAR, "\"char\"[]"),
    (NAME_ARRAY, NAME, "name[]"),
    (INT8_ARRAY, INT8, "bigint[]"),
    (INT2_ARRAY, INT2, "smallint[]"),
    (INT4_ARRAY, INT4, "integer[]"),
    (TEXT_ARRAY, TEXT, "text[]"),
    (OID_ARRAY, OID, "oid[]"),
    (TID_ARRAY, TID, "tid[]"),
    (XID_ARRAY, XID, "xid[]"),
    (CID_ARRAY, CID, "cid[]"),
    (OIDVECTOR_ARRAY, OIDVECTOR, "oidvector[]"),
    (CIDR_ARRAY, CIDR, "cidr[]"),
    (FLOAT4_ARRAY, FLOAT4, "real[]"),
    (FLOAT8_ARRAY, FLOAT8, "double precision[]"),
    (MACADDR8_ARRAY, MACADDR8, "macaddr8[]"),
    (MACADDR_ARRAY, MACADDR, "macaddr[]"),
    (INET_ARRAY, INET, "inet[]"),
    (BPCHAR_ARRAY, BPCHAR, "character[]"),
    (VARCHAR_ARRAY, VARCHAR, "character varying[]"),
    (DATE_ARRAY, DATE, "date[]"),
    (TIME_ARRAY, TIME, "time without time zone[]"),
    (TIMESTAMP_ARRAY, TIMESTAMP, "timestamp without time zone[]"),
    (TIMESTAMPTZ_ARRAY, TIMESTAMPTZ, "timestamp with time zone[]"),
    (INTERVAL_ARRAY, INTERVAL, "interval[]"),
    (TIMETZ_ARRAY, TIMETZ, "time with time zone[]"),
    (NUMERIC_ARRAY, NUMERIC, "numeric[]"),
    (UUID_ARRAY, UUID, "uuid[]"),
    (PG_LSN_ARRAY, PG_LSN, "pg_lsn[]"),
    (JSONB_ARRAY, JSONB, "jsonb[]"),
    (XID8_ARRAY, XID8, "xid8[]"),
    (INT4RANGE_ARRAY, INT4RANGE, "int4range[]"),
    (NUMRANGE_ARRAY, NUMRANGE, "numrange[]"),
    (TSRANGE_ARRAY, TSRANGE, "tsrange[]"),
    (TSTZRANGE_ARRAY, TSTZRANGE, "tstzrange[]"),
    (DATERANGE_ARRAY, DATERANGE, "daterange[]"),
    (INT8RANGE_ARRAY, INT8RANGE, "int8range[]"),
    (INT4MULTIRANGE_ARRAY, INT4MULTIRANGE, "int4multirange[]"),
    (NUMMULTIRANGE_ARRAY, NUMMULTIRANGE, "nummultirange[]"),
    (TSMULTIRANGE_ARRAY, TSMULTIRANGE, "tsmultirange[]"),
    (TSTZMULTIRANGE_ARRAY, TSTZMULTIRANGE, "tstzmultirange[]"),
    (DATEMULTIRANGE_ARRAY, DATEMULTIRANGE, "datemultirange[]"),
    (INT8MULTIRANGE_ARRAY, INT8MULTIRANGE, "int8multirange[]"),
];

/// Range types and their multiranges: range, multirange, subtype, the two names.
const RANGES: &[(Oid, Oid, Oid, &str, &str)] = &[
    (INT4RANGE, INT4MULTIRANGE, INT4, "int4range", "int4multirange"),
    (NUMRANGE, NUMMULTIRANGE, NUMERIC, "numrange", "nummultirange"),
    (TSRANGE, TSMULTIRANGE, TIMESTAMP, "tsrange", "tsmultirange"),
    (TSTZRANGE, TSTZMULTIRANGE, TIMESTAMPTZ, "tstzrange", "tstzmultirange"),
    (DATERANGE, DATEMULTIRANGE, DATE, "daterange", "datemultirange"),
    (INT8RANGE, INT8MULTIRANGE, INT8, "int8range", "int8multirange"),
];

/// What a type is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Scalar,
    Array { element: Oid },
    Range { subtype: Oid },
    Multirange { subtype: Oid },
}

/// The shape of a known type.
pub(crate) fn shape(type_oid: Oid) -> Option<Shape> {
    describe(type_oid).map(|(shape, _)| shape)
}

/// The type's name as `format_type` writes it, as in PostgreSQL's error messages; `None` for types this crate does not know.
pub fn type_name(type_oid: Oid) -> Option<&'static str> {
    describe(type_oid).map(|(_, name)| name)
}

/// The name for error messages, where a type may also be unknown here.
pub(crate) fn name_or_unknown(type_oid: Oid) -> &'static str {
    type_name(type_oid).unwrap_or("unknown")
}

fn describe(type_oid: Oid) -> Option<(Shape, &'static str)> {
    if let Some((_, name)) = SCALARS.iter().find(|(oid, _)| *oid == type_oid) {
        return Some((Shape::Scalar, name));
    }
    if let Some((_, element, name)) = ARRAYS.iter().find(|(oid, ..)| *oid == type_oid) {
        return Some((Shape::Array { element: *element }, name));
    }
    RANGES.iter().find_map(|(range, multirange, subtype, range_name, multirange_name)| {
        let subtype = *subtype;
        if *range == type_oid {
            Some((Shape::Range { subtype }, *range_name))
        } else if *multirange == type_oid {
            Some((Shape::Multirange { subtype }, *multirange_name))
        } else {
            None
        }
    })
}

/// May the type be a hash key here? All built-in types with a hash operator class, but for `aclitem` and the `reg…` aliases: their
/// values hold oids of objects that differ between servers.
pub fn hashable(type_oid: Oid) -> bool {
    shape(type_oid).is_some()
}

/// May the type be a range or list key here, that is, does [`crate::compare`] know its order?
pub fn orderable(type_oid: Oid) -> bool {
    // jsonb orders strings by the database's collation; xid and cid have no order in PostgreSQL either.
    shape(type_oid) == Some(Shape::Scalar) && ![JSONB, OIDVECTOR, XID, CID].contains(&type_oid)
}
