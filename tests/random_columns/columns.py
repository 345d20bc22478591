"""Columns of every type that a table with a column copy may have, and values of them that have broken things.

A value is its text as PostgreSQL reads it, or None. It does not know tables, nor what columns compute with.
"""

import random
from dataclasses import dataclass

from random_sql import values
from random_sql.values import Type, ident

INT2, INT4, INT8, BOOL, TEXT, UUID = values.INT2, values.INT4, values.INT8, values.BOOL, values.TEXT, values.UUID
DATE, TIMESTAMP, TIMESTAMPTZ = values.DATE, values.TIMESTAMP, values.TIMESTAMPTZ
FLOAT4, FLOAT8 = values.FLOAT4, values.FLOAT8
VARCHAR, CHAR = Type("varchar(20)", "text"), Type("char(12)", "char")
# Of a column numeric(p, s) equal values are of one text.
N12_3, N38_0, N38_20, N5_5 = (Type(f"numeric({d})", "num") for d in ("12,3", "38", "38,20", "5,5"))
NUMERIC = values.NUMERIC
# These columns keep, and do not compute with.
ENUM, DOMAIN, TEXT_DOMAIN = Type("shade", "enum"), Type("small", "domain"), Type("word", "domain_text")


@dataclass(frozen=True)
class Column:
    name: str
    type: Type
    more: str = ""

    @property
    def sql(self) -> str:
        return self.name if self.name.isidentifier() and self.name.islower() else ident(self.name)


COMPUTED = [
    Column("b", BOOL), Column("s", INT2), Column("i", INT4), Column("l", INT8), Column("n", N12_3), Column("w", N38_0), Column("q", N38_20), Column("p", N5_5),
    Column("t", TEXT), Column("v", VARCHAR), Column("c", CHAR), Column("d", DATE), Column("m", TIMESTAMP), Column("z", TIMESTAMPTZ),
    Column("uu", UUID), Column("f", FLOAT8), Column("r", FLOAT4), Column('Odd "n', INT4), Column("Ünï", TEXT), Column("b2", BOOL), Column("i2", INT4), Column("d2", DATE), Column("m2", TIMESTAMP),
]  # fmt: skip
KEPT = [
    Column("x", NUMERIC), Column("xs", Type("numeric(3,-2)", "num")), Column("y", values.BYTEA), Column("ti", values.TIME), Column("tz", values.TIMETZ), Column("iv", values.INTERVAL), Column("j", values.JSON),
    Column("jb", values.JSONB), Column("ai", values.INTS), Column("at", values.TEXTS), Column("e", ENUM), Column("dm", DOMAIN), Column("dt", TEXT_DOMAIN), Column("ip", values.INET), Column("rg", values.RANGE),
    Column("c1", Type("char(1)", "char")), Column("vv", Type("varchar", "text")), Column("m3", Type("timestamp(3)", "timestamp")), Column("n0", Type("name", "name")),
]  # fmt: skip

# These take all columns of texts from being compared with each other, so that most programs have none.
COLLATED = [Column("tc", TEXT, ' collate "C"'), Column("tp", TEXT, ' collate "ucs_basic"')]

_WORDS = [
    "", "a", "A", "ab", "Ab", "abc", "abc ", " abc", "a\t", "a\x01", "b%", "b_", "b\\", "zz", "é", "É", "e\u0301", "日本", "😀", "1", "10", "1x", "x'y", "ß", "\n", "%", "NULL", "aaaaaaaaaaab",
]  # fmt: skip
_INTS = ["0", "1", "-1", "2", "3", "7", "100", "-100"]
_EDGES = {"int2": ["32767", "-32768"], "int4": ["2147483647", "-2147483648", "32768"], "int8": ["9223372036854775807", "-9223372036854775808", "4294967296", "-2147483649"]}
_NUMBERS = {
    "numeric(12,3)": ["0", "0.001", "-0.001", "1.5", "2.500", "-2.5", "100", "7", "999999999.999", "-999999999.999"],
    "numeric(38)": ["0", "1", "-1", "7", "100", "9" * 38, "-" + "9" * 38, "12345678901234567890"],
    "numeric(38,20)": ["0", "1", "-1.5", "0.00000000000000000001", "999999999999999999.99999999999999999999", "0.1", "7"],
    "numeric(5,5)": ["0", "0.5", "-0.99999", "0.00001"],
    "numeric": ["0", "1", "1.0", "1.00", "NaN", "Infinity", "-Infinity", "1e30", "-0.0001", "123456789012345678901234567890123456789012345.5"],
    "numeric(3,-2)": ["0", "100", "-99900"],
}
_FLOATS = ["0", "1", "1.5", "-2.25", "NaN", "Infinity", "-Infinity", "1e30", "1e-30", "0.1", "1e23", "100"]
_DATES = ["2000-01-01", "1999-12-31", "2024-02-29", "0044-03-15 BC", "infinity", "-infinity", "5874897-12-31", "0001-01-01", "9999-12-31", "1970-01-01"]
_CLOCKS = ["00:00:00", "12:34:56.789", "23:59:59.999999", "00:00:00.000001"]


def value(rng: random.Random, of: Type, null: float = 0.1) -> str | None:
    """One that may be stored."""
    if rng.random() < null:
        return None
    kind, name = of.kind, of.name
    if kind == "int":
        return rng.choice(_EDGES[name]) if rng.random() < 0.06 else rng.choice(_INTS)
    if kind == "num":
        return rng.choice(_NUMBERS[name])
    if kind == "float":
        # A store that has had a zero with a sign shows no zero any more.
        return rng.choice(_FLOATS) if rng.random() < 0.9995 else "-0"
    if kind in ("text", "name", "domain_text"):
        return rng.choice(_WORDS)
    if kind == "char":
        return rng.choice(_WORDS) if name != "char(1)" else rng.choice(["", "a", "A", "é", "1"])
    if kind == "date":
        return rng.choice(_DATES)
    if kind in ("timestamp", "timestamptz"):
        day = rng.choice([d for d in _DATES if not d.startswith("5874897")])
        if "infinity" in day:
            return day
        day, bc = (day[:-3], " BC") if day.endswith("BC") else (day, "")
        return f"{day} {rng.choice(_CLOCKS)}" + (rng.choice(["+00", "+02", "-03:30"]) if kind == "timestamptz" else "") + bc
    if kind == "uuid":
        return rng.choice(["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "80000000-0000-0000-0000-000000000000", "7fffffff-0000-0000-0000-000000000001"])
    if kind == "enum":
        return rng.choice(LABELS)
    if kind == "domain":
        return str(rng.randrange(-5, 9))
    return values.value(rng, of, 0.0)


def asked(rng: random.Random, of: Type) -> str | None:
    """One that a query may compare with: more often one that columns read as PostgreSQL does, sometimes in another spelling."""
    text = value(rng, of, 0.03)
    if text is None:
        return None
    if rng.random() > _OTHERWISE:
        return _plain(rng, of, text)
    if of.kind == "num":
        return rng.choice(["1.50", "0.0", "-2", "1e1", "00.5", "1.0000000000000000000000000001", " 7", "+1"])
    if of.kind == "int":
        return rng.choice([" 1", "+1", "007", "-0", "5"])
    if of.kind == "float":
        return rng.choice(["1e400", "1.50", "0.1e1", "1e-400", "0.30000001", "inf", "-nan"])
    if of.kind == "bool":
        return rng.choice(["t", "f", "on", "yes", "0"])
    if of.kind == "timestamptz":
        # By the session's zone.
        return rng.choice(["2000-01-01", "1999-12-31 23:30:00", "2024-07-01 12:00:00 Europe/Paris", "2000-01-01 00:00:00Z"])
    if of.kind == "uuid":
        return rng.choice([text.upper(), text.replace("-", ""), "{" + text + "}"])
    return text


def _plain(rng: random.Random, of: Type, text: str) -> str:
    """In the spelling that both read."""
    day = rng.choice(["2000-01-01", "1999-12-31", "2024-02-29", "9999-12-31"])
    if of.kind == "date":
        return day
    if of.kind == "timestamptz":
        return f"{rng.choice([day, '2024-03-01', '2023-12-31'])} {rng.choice(_CLOCKS)}{rng.choice(['+00', '+02', '-03:30', '+14', '-11', '+05:45'])}"
    if of.kind == "timestamp":
        return f"{day} {rng.choice(_CLOCKS)}" if rng.random() < 0.8 else day
    if of.kind == "num" and of.name == "numeric":
        return rng.choice(["0", "1.5", "-7"])
    if of.kind == "float":
        return rng.choice(["0", "1.5", "-2.25", "0.1", "100", "1e23"])
    return text


# How often a constant is written in a way that columns may refuse.
_OTHERWISE = 0.15
LABELS = ["dark", "light", "it's", "Dark"]
