"""Types, and values of them that have broken things: NULL, quotes, placeholders, extremes.

A value is its text as PostgreSQL reads it, or None. What a statement says of it (literal or parameter) is decided when it
is sent. Knows nothing of tables.
"""

import os
import random
import re
import struct
import uuid
from dataclasses import dataclass
from datetime import date, timedelta


@dataclass(frozen=True)
class Type:
    """A type as DDL spells it. `kind`: types of one kind can be compared with each other, and one expression yields them."""

    name: str
    kind: str
    has_order: bool = True
    # Equal values have the same text. Where they have not (1.0 and 1.00), nobody knows which one stands for both.
    is_exact: bool = True
    is_key: bool = True

    @property
    def has_equality(self) -> bool:
        return self.kind not in ("json", "point")


INT2, INT4, INT8 = Type("int2", "int"), Type("int4", "int"), Type("int8", "int")
NUMERIC, MONEY = Type("numeric", "num", is_exact=False), Type("numeric(12,3)", "num", is_exact=False)
FLOAT4, FLOAT8 = Type("float4", "float", is_exact=False, is_key=False), Type("float8", "float", is_exact=False, is_key=False)
BOOL = Type("bool", "bool", is_key=False)
TEXT, VARCHAR, CHAR = Type("text", "text"), Type("varchar(200)", "text"), Type("char(6)", "char")
BYTEA = Type("bytea", "bytea")
UUID = Type("uuid", "uuid")
DATE, TIME = Type("date", "date"), Type("time", "time")
TIMETZ = Type("timetz", "timetz", is_key=False)
TIMESTAMP, TIMESTAMPTZ = Type("timestamp", "timestamp"), Type("timestamptz", "timestamptz")
INTERVAL = Type("interval", "interval", is_exact=False, is_key=False)
JSON, JSONB = Type("json", "json", has_order=False, is_key=False), Type("jsonb", "jsonb", is_exact=False, is_key=False)
INTS, TEXTS = Type("int4[]", "ints", is_key=False), Type("text[]", "texts", is_key=False)
INET = Type("inet", "inet")
RANGE = Type("int4range", "range", is_key=False)

COMMON = [
    INT2, INT4, INT4, INT4, INT8, INT8, NUMERIC, MONEY, FLOAT4, FLOAT8, BOOL, BOOL, TEXT, TEXT, TEXT, VARCHAR, CHAR, BYTEA, UUID, DATE, DATE, TIME, TIMETZ,
    TIMESTAMP, TIMESTAMPTZ, INTERVAL, JSON, JSONB, INTS, TEXTS, INET, RANGE,
]
# By what a template calls them.
NAMED = {t.name: t for t in COMMON} | {"ints": INTS, "texts": TEXTS, "range": RANGE}
KEYS = [INT4, INT4, INT4, INT8, INT8, INT2, TEXT, TEXT, UUID, NUMERIC, DATE, VARCHAR, TIMESTAMP, TIMESTAMPTZ, CHAR, BYTEA, INET]

_LIMITS = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
_TEXTS = [
    "", "a", "b", "abc", "ABC", " a", "a ", "O'Reilly", "it''s", 'say "x"', "back\\slash", "\\", "\\n", "new\nline", "tab\tx", "%now%", "%e0%", '"%r0"', '"%t0_0"', "%s", "100%",
    "$1", "$2", "$$", "$q$", ":x", "/*", "*/", "/* c */", "--", "-- c", ";", "{a,b}", "NULL", "null", "ü", "ß", "日本", "😀", "é", "x" * 150, "1", "-0", "NaN", "true", "2024-02-29",
    "%r0", "%t0", "?", "a%", "_", "E'x'", "''", "(", ")", "(1,2)", "[1]", "\r", "b\\",
]
_NUMERICS = ["0", "1", "2.5", "-1", "-0.5", "100", "0.001", "99999.999", "-7.25", "3"]
_FLOATS = ["0", "-0", "1", "1.5", "-2.25", "NaN", "Infinity", "-Infinity", "1e30", "1e-30", "100", "0.1"]
_DATES = ["2000-01-01", "2024-02-29", "1999-12-31", "0044-03-15 BC", "infinity", "-infinity", "1970-01-01", "9999-12-31"]
# Differences that are known and open hide others behind them: RANDOM_SQL_AVOID names what not to make meanwhile.
AVOID = set(os.environ.get("RANDOM_SQL_AVOID", "").split(","))


def tame(texts: list[str]) -> list[str]:
    """The same without placeholders of the router's own, if these are to be avoided."""
    return [re.sub(r"%(now|e0|r0|t0_0|t0)%?", r"\1", t) for t in texts] if "placeholders" in AVOID else texts


_TEXTS = tame(_TEXTS)
_INTERVALS = ["0", "1 day", "24:00:00", "1 mon", "30 days", "-1 year 2 mons", "1.5 seconds", "-00:00:01"]
_JSONS = [
    "null", "1", '"a"', "[]", "{}", '{"a": 1}', '{"a": {"b": [1, 2]}}', '{"b": 2, "a": 1}', "[1, null, \"x\"]", '{"k": "%now%"}', '{"q": "\\""}', "true", '{"$1": "%e0%"}', "1.0", "1.00",
]


def _texts_array(values: list) -> str:
    def item(value):
        return "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return "{" + ",".join(map(item, values)) + "}"


def value(rng: random.Random, of: Type, null: float = 0.08) -> str | None:
    """A value: often one of few, so that values meet, sometimes a strange one."""
    if rng.random() < null:
        return None
    name, kind = of.name, of.kind
    if kind == "int":
        if rng.random() < 0.08:
            return str(rng.choice([_LIMITS[name] - 1, -_LIMITS[name], _LIMITS[name] - 2, 12345, -32768]))
        return str(rng.randrange(-2, 12))
    if kind == "num":
        choices = _NUMERICS if name != "numeric" else _NUMERICS + ["NaN", "123456789012345678901234567890.5", "1.0", "1.00", "-0.0", "Infinity"]
        return rng.choice(choices)
    if kind == "float":
        return rng.choice(_FLOATS)
    if kind == "bool":
        return rng.choice(["true", "false"])
    if kind == "text":
        return rng.choice(_TEXTS)
    if kind == "char":
        return rng.choice(tame(["", "a", "a ", "ab", "abc   ", "ü", "%e0%", "'x'", "\\x"]))
    if kind == "bytea":
        return rng.choice(["\\x", "\\x00", "\\xdeadbeef", "\\x5c27", "\\x61", "abc", "\\\\"])
    if kind == "uuid":
        return key_value(UUID, rng.randrange(12))
    if kind == "date":
        return rng.choice(_DATES) if rng.random() < 0.3 else key_value(DATE, rng.randrange(12))
    if kind in ("timestamp", "timestamptz"):
        day = rng.choice(_DATES[:2] + _DATES[4:7])
        if "infinity" in day:
            return day
        clock = rng.choice(["00:00:00", "12:34:56.789", "23:59:59.999999"])
        return f"{day} {clock}" + (rng.choice(["", "+00", "+02", "-03:30"]) if kind == "timestamptz" else "")
    if kind == "time":
        return rng.choice(["00:00:00", "24:00:00", "12:34:56.789", "01:02:03"])
    if kind == "timetz":
        return rng.choice(["00:00:00+00", "12:00:00+00", "13:00:00+01", "23:59:59-05"])
    if kind == "interval":
        return rng.choice(_INTERVALS)
    if kind in ("json", "jsonb"):
        return rng.choice(tame(_JSONS))
    if kind == "ints":
        return "{" + ",".join(rng.choice(["1", "2", "3", "NULL", "-5"]) for _ in range(rng.randrange(4))) + "}"
    if kind == "texts":
        return _texts_array([rng.choice([None, *_TEXTS]) for _ in range(rng.randrange(4))])
    if kind == "inet":
        return rng.choice(["10.0.0.1", "10.0.0.0/8", "::1", "192.168.1.1/24", "10.0.0.2"])
    if kind == "range":
        return rng.choice(["empty", "[1,5)", "(,3]", "[4,)", "(,)", "[2,2]"])
    if kind.startswith("enum"):
        return rng.choice(ENUM_LABELS)
    if kind.startswith("composite"):
        return rng.choice(tame(["(1,a)", "(2,)", "(,)", '(3,"x,y")', '(1,"%e0%")', '(1,"q""q")']))
    if kind.startswith("domain"):
        return str(rng.randrange(0, 12))
    raise ValueError(kind)


ENUM_LABELS = tame(["red", "Green", "it's", "%now%", "dark blue"])


def key_value(of: Type, number: int) -> str:
    """The value that stands for `number` where this type is a key; different numbers, different values."""
    kind = of.kind
    if kind == "int":
        return str(number if number < 20 else -number)
    if kind == "num":
        return str(number) if number % 3 else f"{number}.5"
    if kind == "text":
        special = tame(["", "O'Reilly", "%now%", '"%r0"', "$1", "ü", "back\\slash", "a ", "A", "/*"])
        return special[number] if number < len(special) else f"k{number}"
    if kind == "char":
        return f"k{number}"
    if kind == "bytea":
        return f"\\x{number:02x}27"
    if kind == "uuid":
        return str(uuid.UUID(int=number * 0x1234567890ABCDEF1234567))
    if kind == "date":
        return ["-infinity", "0044-03-15 BC"][number] if number < 2 else str(date(2024, 2, 20) + timedelta(days=number))
    if kind in ("timestamp", "timestamptz"):
        return f"{date(2024, 2, 20) + timedelta(days=number)} 12:00:00.5" + ("+00" if kind == "timestamptz" else "")
    if kind == "inet":
        return f"10.0.0.{number}"
    raise ValueError(kind)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def ident(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(rng: random.Random, text: str | None, of: Type) -> str:
    """SQL that is this value, in one of the ways SQL has."""
    if text is None:
        return rng.choice(["NULL", "NULL", f"NULL::{of.name}"])
    if of.kind == "int" and rng.random() < 0.7:
        # A minus binds weaker than ::, so that the sign goes inside.
        return text if not text.startswith("-") else f"({text})"
    if of.kind == "num" and text[0] not in "NI-" and rng.random() < 0.5:
        return text
    if of.kind == "bool" and rng.random() < 0.7:
        return text
    way = rng.randrange(8)
    if way == 0 and "\n" not in text:
        return "E" + quoted(text.replace("\\", "\\\\"))
    if way == 1 and "$q" not in text and not text.endswith("$"):
        return f"$q${text}$q$::{of.name}"
    if way == 2:
        return f"CAST({quoted(text)} AS {of.name})"
    if way <= 5:
        return f"{quoted(text)}::{of.name}"
    return quoted(text)


_EPOCH = date(2000, 1, 1)


def binary(text: str | None, of: Type) -> bytes | None:
    """The value in PostgreSQL's binary format. Raises ValueError where this module does not know it."""
    if text is None:
        return None
    if of.kind == "int":
        return struct.pack({"int2": "!h", "int4": "!i", "int8": "!q"}[of.name], int(text))
    if of.kind == "float":
        return struct.pack("!f" if of.name == "float4" else "!d", float(text))
    if of.kind == "bool":
        return b"\1" if text == "true" else b"\0"
    if of.kind in ("text", "char"):
        return text.encode()
    if of.kind == "uuid":
        return uuid.UUID(text).bytes
    if of.kind == "date" and text[0].isdigit() and "BC" not in text:
        return struct.pack("!i", (date.fromisoformat(text) - _EPOCH).days)
    if of.kind == "jsonb":
        return b"\1" + text.encode()
    if of.kind == "json":
        return text.encode()
    raise ValueError(of.name)
