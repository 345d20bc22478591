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
pub const VOID: Oid = 2278;

pub const BOOL_ARRAY: Oid = 1000;
pub const BYTEA_ARRAY: Oid = 1001;
pub const CHAR_ARRAY: Oid = 1002;
pub const NAME_ARRAY: Oid = 1003;
pub const INT8_ARRAY: Oid = 1016;
pub const INT2_ARRAY: Oid = 1005;
pub const INT4_ARRAY: Oid = 1007;
pub const TEXT_ARRAY: Oid = 1009;
pub const OID_ARRAY: Oid = 1028;
pub const TID_ARRAY: Oid = 1010;
pub const XID_ARRAY: Oid = 1011;
pub const CID_ARRAY: Oid = 1012;
pub const OIDVECTOR_ARRAY: Oid = 1013;
pub const CIDR_ARRAY: Oid = 651;
pub const FLOAT4_ARRAY: Oid = 1021;
pub const FLOAT8_ARRAY: Oid = 1022;
pub const MACADDR8_ARRAY: Oid = 775;
pub const MACADDR_ARRAY: Oid = 1040;
pub const INET_ARRAY: Oid = 1041;
pub const BPCHAR_ARRAY: Oid = 1014;
pub const VARCHAR_ARRAY: Oid = 1015;
pub const DATE_ARRAY: Oid = 1182;
pub const TIME_ARRAY: Oid = 1183;
pub const TIMESTAMP_ARRAY: Oid = 1115;
pub const TIMESTAMPTZ_ARRAY: Oid = 1185;
pub const INTERVAL_ARRAY: Oid = 1187;
pub const TIMETZ_ARRAY: Oid = 1270;
pub const NUMERIC_ARRAY: Oid = 1231;
pub const UUID_ARRAY: Oid = 2951;
pub const PG_LSN_ARRAY: Oid = 3221;
pub const JSONB_ARRAY: Oid = 3807;
pub const XID8_ARRAY: Oid = 271;

pub const INT4RANGE: Oid = 3904;
pub const INT4RANGE_ARRAY: Oid = 3905;
pub const INT4MULTIRANGE: Oid = 4451;
pub const INT4MULTIRANGE_ARRAY: Oid = 6150;
pub const NUMRANGE: Oid = 3906;
pub const NUMRANGE_ARRAY: Oid = 3907;
pub const NUMMULTIRANGE: Oid = 4532;
pub const NUMMULTIRANGE_ARRAY: Oid = 6151;
pub const TSRANGE: Oid = 3908;
pub const TSRANGE_ARRAY: Oid = 3909;
pub const TSMULTIRANGE: Oid = 4533;
pub const TSMULTIRANGE_ARRAY: Oid = 6152;
pub const TSTZRANGE: Oid = 3910;
pub const TSTZRANGE_ARRAY: Oid = 3911;
pub const TSTZMULTIRANGE: Oid = 4534;
pub const TSTZMULTIRANGE_ARRAY: Oid = 6153;
pub const DATERANGE: Oid = 3912;
pub const DATERANGE_ARRAY: Oid = 3913;
pub const DATEMULTIRANGE: Oid = 4535;
pub const DATEMULTIRANGE_ARRAY: Oid = 6155;
pub const INT8RANGE: Oid = 3926;
pub const INT8RANGE_ARRAY: Oid = 3927;
pub const INT8MULTIRANGE: Oid = 4536;
pub const INT8MULTIRANGE_ARRAY: Oid = 6157;

/// From here on object ids are of users' own (`FirstNormalObjectId` in transam.h): each node has others.
pub const FIRST_NORMAL_OBJECT_ID: Oid = 16384;

/// name, text, bpchar or varchar.
pub fn is_string(oid: Oid) -> bool {
    matches!(oid, NAME | TEXT | BPCHAR | VARCHAR)
}

/// Both are of [`is_integer`], and the first has values that the other has not.
pub fn is_wider(one: Oid, other: Oid) -> bool {
    matches!((one, other), (INT8, INT4 | INT2) | (INT4, INT2))
}

/// int2, int4 or int8.
pub fn is_integer(oid: Oid) -> bool {
    matches!(oid, INT8 | INT2 | INT4)
}

/// PostgreSQL's own ranges: int4range, numrange, tsrange, tstzrange, daterange, int8range.
pub fn is_range(oid: Oid) -> bool {
    matches!(oid, INT4RANGE | NUMRANGE | TSRANGE | TSTZRANGE | DATERANGE | INT8RANGE)
}

/// Their multiranges.
pub fn is_multirange(oid: Oid) -> bool {
    matches!(oid, INT4MULTIRANGE | NUMMULTIRANGE | TSMULTIRANGE | TSTZMULTIRANGE | DATEMULTIRANGE | INT8MULTIRANGE)
}

/// anyelement and its like (`typtype` p), and record: the type of an argument, of no value's. In PostgreSQL's order: cstring, any,
/// anyarray, void, trigger, language_handler, internal, opaque, anyelement; the others by themselves.
pub fn is_pseudo(oid: Oid) -> bool {
    const CSTRING: Oid = 2275;
    const ANYELEMENT: Oid = 2283;
    const ANYNONARRAY: Oid = 2776;
    const ANYENUM: Oid = 3500;
    const ANYRANGE: Oid = 3831;
    const EVENT_TRIGGER: Oid = 3838;
    const ANYMULTIRANGE: Oid = 4537;
    const ANYCOMPATIBLEMULTIRANGE: Oid = 4538;
    const ANYCOMPATIBLE: Oid = 5077;
    const ANYCOMPATIBLERANGE: Oid = 5080;
    matches!(oid, CSTRING..=ANYELEMENT | ANYCOMPATIBLE..=ANYCOMPATIBLERANGE)
        || matches!(
            oid,
            RECORD | ANYNONARRAY | ANYENUM | ANYRANGE | EVENT_TRIGGER | ANYMULTIRANGE | ANYCOMPATIBLEMULTIRANGE
        )
}

/// An integer, float4, float8 or numeric.
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
        INT2_ARRAY => INT2,
        INT4_ARRAY => INT4,
        TEXT_ARRAY => TEXT,
        VARCHAR_ARRAY => VARCHAR,
        INT8_ARRAY => INT8,
        UUID_ARRAY => UUID,
        _ => return None,
    })
}
