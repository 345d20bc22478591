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
    (1000, BOOL, "boolean[]"),
    (1001, BYTEA, "bytea[]"),
    (1002, CHAR, "\"char\"[]"),
    (1003, NAME, "name[]"),
    (1016, INT8, "bigint[]"),
    (1005, INT2, "smallint[]"),
    (1007, INT4, "integer[]"),
    (1009, TEXT, "text[]"),
    (1028, OID, "oid[]"),
    (1010, TID, "tid[]"),
    (1011, XID, "xid[]"),
    (1012, CID, "cid[]"),
    (1013, OIDVECTOR, "oidvector[]"),
    (651, CIDR, "cidr[]"),
    (1021, FLOAT4, "real[]"),
    (1022, FLOAT8, "double precision[]"),
    (775, MACADDR8, "macaddr8[]"),
    (1040, MACADDR, "macaddr[]"),
    (1041, INET, "inet[]"),
    (1014, BPCHAR, "character[]"),
    (1015, VARCHAR, "character varying[]"),
    (1182, DATE, "date[]"),
    (1183, TIME, "time without time zone[]"),
    (1115, TIMESTAMP, "timestamp without time zone[]"),
    (1185, TIMESTAMPTZ, "timestamp with time zone[]"),
    (1187, INTERVAL, "interval[]"),
    (1270, TIMETZ, "time with time zone[]"),
    (1231, NUMERIC, "numeric[]"),
    (2951, UUID, "uuid[]"),
    (3221, PG_LSN, "pg_lsn[]"),
    (3807, JSONB, "jsonb[]"),
    (271, XID8, "xid8[]"),
    (3905, 3904, "int4range[]"),
    (3907, 3906, "numrange[]"),
    (3909, 3908, "tsrange[]"),
    (3911, 3910, "tstzrange[]"),
    (3913, 3912, "daterange[]"),
    (3927, 3926, "int8range[]"),
    (6150, 4451, "int4multirange[]"),
    (6151, 4532, "nummultirange[]"),
    (6152, 4533, "tsmultirange[]"),
    (6153, 4534, "tstzmultirange[]"),
    (6155, 4535, "datemultirange[]"),
    (6157, 4536, "int8multirange[]"),
];

/// Range types and their multiranges: range, multirange, subtype, the two names.
const RANGES: &[(Oid, Oid, Oid, &str, &str)] = &[
    (3904, 4451, INT4, "int4range", "int4multirange"),
    (3906, 4532, NUMERIC, "numrange", "nummultirange"),
    (3908, 4533, TIMESTAMP, "tsrange", "tsmultirange"),
    (3910, 4534, TIMESTAMPTZ, "tstzrange", "tstzmultirange"),
    (3912, 4535, DATE, "daterange", "datemultirange"),
    (3926, 4536, INT8, "int8range", "int8multirange"),
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
