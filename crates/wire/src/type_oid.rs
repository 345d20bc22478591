//! The object ids of PostgreSQL's own types (`pg_type.dat`; the same in every version and server), those the herd itself
//! uses. How their values are read, hashed or ordered is said where that is done.

pub type Oid = u32;

pub const BOOL: Oid = 16;
pub const BYTEA: Oid = 17;
pub const CHAR: Oid = 18;
pub const NAME: Oid = 19;
pub const INT8: Oid = 20;
pub const INT2: Oid = 21;
pub const INT4: Oid = 23;
pub const TEXT: Oid = 25;
pub const OID: Oid = 26;
pub const TID: Oid = 27;
pub const XID: Oid = 28;
pub const CID: Oid = 29;
pub const OIDVECTOR: Oid = 30;
pub const JSON: Oid = 114;
pub const XML: Oid = 142;
pub const CIRCLE: Oid = 718;
pub const CIDR: Oid = 650;
pub const FLOAT4: Oid = 700;
pub const FLOAT8: Oid = 701;
/// A literal, or a parameter nobody has said a type of.
pub const UNKNOWN: Oid = 705;
pub const MACADDR8: Oid = 774;
pub const MONEY: Oid = 790;
pub const MACADDR: Oid = 829;
pub const INET: Oid = 869;
pub const BPCHAR: Oid = 1042;
pub const VARCHAR: Oid = 1043;
pub const DATE: Oid = 1082;
pub const TIME: Oid = 1083;
pub const TIMESTAMP: Oid = 1114;
pub const TIMESTAMPTZ: Oid = 1184;
pub const INTERVAL: Oid = 1186;
pub const TIMETZ: Oid = 1266;
pub const NUMERIC: Oid = 1700;
pub const RECORD: Oid = 2249;
pub const RECORD_ARRAY: Oid = 2287;
pub const UUID: Oid = 2950;
pub const PG_LSN: Oid = 3220;
pub const JSONB: Oid = 3802;
pub const XID8: Oid = 5069;

/// From here on object ids are of users' own (`FirstNormalObjectId` in transam.h): each node has others.
pub const FIRST_USER_OID: Oid = 16384;

pub fn is_integer(oid: Oid) -> bool {
    matches!(oid, INT8 | INT2 | INT4)
}

/// PostgreSQL's own ranges: int4range, numrange, tsrange, tstzrange, daterange, int8range.
pub fn is_range(oid: Oid) -> bool {
    matches!(oid, 3904 | 3906 | 3908 | 3910 | 3912 | 3926)
}

/// Their multiranges.
pub fn is_multirange(oid: Oid) -> bool {
    matches!(oid, 4451 | 4532..=4536)
}

pub fn is_number(oid: Oid) -> bool {
    is_integer(oid) || matches!(oid, FLOAT4 | FLOAT8 | NUMERIC)
}

/// text and varchar: the same bytes in either format, with one hash and one equality.
pub fn is_text(oid: Oid) -> bool {
    matches!(oid, TEXT | VARCHAR)
}

/// A type by the name it has in pg_type, to which the grammar turns `integer`, `bigint` and their like.
pub fn named(name: &str) -> Option<Oid> {
    Some(match name {
        "bool" => BOOL,
        "bytea" => BYTEA,
        "int8" => INT8,
        "int2" => INT2,
        "int4" => INT4,
        "text" => TEXT,
        "json" => JSON,
        "float4" => FLOAT4,
        "float8" => FLOAT8,
        "varchar" => VARCHAR,
        "date" => DATE,
        "timestamp" => TIMESTAMP,
        "timestamptz" => TIMESTAMPTZ,
        "numeric" => NUMERIC,
        "uuid" => UUID,
        "jsonb" => JSONB,
        _ => return None,
    })
}

/// What an array holds, of those whose elements the router reads.
pub fn element(array: Oid) -> Option<Oid> {
    Some(match array {
        1005 => INT2,
        1007 => INT4,
        1009 => TEXT,
        1015 => VARCHAR,
        1016 => INT8,
        2951 => UUID,
        _ => return None,
    })
}
