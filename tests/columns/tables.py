"""One table of every type that columns hold, with odd values, on a herd and on a plain PostgreSQL; and random queries over it."""

import random

import psycopg

from harness.server import Server

NAME = "c_all"

CREATE = f"""
create table {NAME} (id bigint primary key, b boolean, s smallint, i integer, l bigint, n numeric(12,3), w numeric(38,0), f float8, r real,
  t text, v varchar(20), c character(12), d date, m timestamp, z timestamptz, u uuid, y bytea, j jsonb, "Odd ""name" integer)
"""

_WORDS = ["", "a", "A", "ab", "abc", "abc ", " abc", "b%", "b_", "zz", "é", "日本", "1", "10", "1x", "x'y", "long " * 3, "abcdefgh", "abcdefghi", "abcdefgz", "日本語"]
_INTS = [0, 1, -1, 2, 7, 100, 32767, -32768]


def rows(seed: int, count: int) -> list[tuple]:
    """Values as PostgreSQL reads them."""
    r = random.Random(seed)

    def some(values):
        return None if r.random() < 0.12 else r.choice(values)

    def one(key: int) -> tuple:
        return (
            key, some([True, False]), some(_INTS), some([*_INTS, 2147483647, -2147483648]),
            some([*_INTS, 9223372036854775807, -9223372036854775808, 5000000000]),
            some(["0", "0.001", "-0.001", "123456789.999", "-123456789.999", "1.5", "2.500"]),
            some(["0", "9" * 38, "-" + "9" * 38, "12345678901234567890"]),
            some(["0", "1.5", "NaN", "Infinity", "-Infinity", "1e300", "0.1"]), some(["-0", "1.25", "NaN", "3e38", "0.1"]),
            some(_WORDS), some(_WORDS), some([w[:12] for w in _WORDS]),
            some(["2000-01-01", "1999-12-31", "2026-02-28", "0044-03-15 BC", "infinity", "-infinity", "5000-01-01"]),
            some(["2000-01-01 00:00:00", "2026-11-25 15:00:00.123456", "1969-12-31 23:59:59.5", "infinity"]),
            some(["2000-01-01 00:00:00+00", "2026-11-25 15:00:00.5+02"]),
            some(["00000000-0000-0000-0000-000000000000", "f0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
            some([b"", b"\x00\xff", b"abc"]), some(['{"a": 1}', "[1, 2.50]", '"x"']), some(_INTS),
        )  # fmt: skip

    return [one(key) for key in range(1, count + 1)]


def fill(server: Server, seed: int, count: int, distribute: bool) -> None:
    with server.connect() as connection:
        connection.execute(f"drop table if exists {NAME}")
        connection.execute(CREATE)
        if distribute:
            connection.execute(f"select create_distributed_table('{NAME}', 'id')")
        with connection.cursor() as cursor, cursor.copy(f"copy {NAME} from stdin") as copy:
            for row in rows(seed, count):
                copy.write_row(row)


def answer(connection, sql: str):
    """Rows byte by byte, with the columns' types; or the error's SQLSTATE."""
    try:
        cursor = connection.execute(sql)
    except psycopg.Error as error:
        return error.sqlstate
    result = cursor.pgresult
    width = range(result.nfields)
    types = [(result.ftype(c), result.fmod(c)) for c in width]
    return types, [tuple(result.get_value(r, c) for c in width) for r in range(result.ntuples)]


class Queries:
    """Random queries of one table: filters, groups, totals, and the first of an order."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def next(self) -> tuple[str, bool]:
        """The query, and whether its rows have an order."""
        r = self.random
        where = f" where {self._condition(2)}" if r.random() < 0.7 else ""
        form = r.randrange(4)
        if form == 0:
            return f"select {self._totals()} from {NAME}{where}", True
        if form == 1:
            keys = r.sample(["b", "s", "i", "t", "c", "d", "n", "v", '"Odd ""name"', "m::date", "lower(c)"], r.randint(1, 2))
            having = f" having count(*) > {r.randint(0, 3)}" if r.random() < 0.3 else ""
            return f"select {', '.join(keys)}, {self._totals()} from {NAME}{where} group by {', '.join(keys)}{having}", False
        if form == 2:
            keys = r.sample(["b", "s", "i", "t", "c", "d", "v", "m"], r.randint(1, 2))
            return f"select distinct {', '.join(keys)} from {NAME}{where}", False
        column, order = r.choice(["s", "i", "l", "n", "t", "c", "d", "m", "v", "u"]), r.choice(["", " desc", " nulls first", " desc nulls last"])
        shown = ", ".join(["id", *r.sample(["b", "s", "i", "l", "n", "w", "t", "v", "c", "u", "j"], 2)])
        offset = f" offset {r.randint(0, 30)}" if r.random() < 0.5 else ""
        return f"select {shown} from {NAME}{where} order by {column}{order}, id limit {r.randint(1, 20)}{offset}", True

    def _totals(self) -> str:
        r = self.random
        choices = [
            "count(*)", "count(1)", "count(t)", "count(f)", "count(z)", "sum(s)", "sum(i)", "sum(l)", "sum(n)", "sum(w)", "avg(i)", "avg(n)", "avg(s)",
            "min(i)", "max(i)", "min(l)", "max(n)", "min(d)", "max(d)", "max(m)", "min(t)", "max(v)", "bool_and(b)", "bool_or(b)",
            "sum(s) filter (where i > 0)", "count(*) filter (where t like 'a%')", "sum(i + s)", "sum(s * 2)", "max(i - 1)", "min(coalesce(i, 0))",
            "sum(case when b then 1 else 0 end)", "sum(case when b then n else 0 end)", "sum(coalesce(n, i))", "avg(case when i > 0 then n else 0.5 end)", "sum(case when i > 7 then n when b then 1.5 end)", "sum(f)", "max(f)", "count(distinct s)", "min(c)", 'max("Odd ""name")',
        ]  # fmt: skip
        return ", ".join(r.sample(choices, r.randint(1, 4)))

    def _condition(self, depth: int) -> str:
        r = self.random
        if depth and r.random() < 0.45:
            parts = [self._condition(depth - 1) for _ in range(2)]
            joined = f" {r.choice(['and', 'or'])} ".join(f"({p})" for p in parts)
            return f"not ({joined})" if r.random() < 0.2 else joined
        op = r.choice(["=", "<>", "<", "<=", ">", ">="])
        number = r.choice([*_INTS, 2147483648, -5])
        word = r.choice(_WORDS).replace("'", "''")
        return r.choice(
            [
                f"s {op} {number}", f"i {op} {number}", f"l {op} {number}", f"n {op} {r.choice(['0', '1.5', '-0.001', '2', '123456789.9990'])}",
                f"i {op} s", f"l {op} i", f"n {op} i", f"f {op} {r.choice(['0', '1.5', '0.1'])}", f"t {op} '{word}'", f"v {op} '{word}'", f"c {op} '{word[:12]}'",
                f"t {r.choice(['like', 'not like'])} '{r.choice(['a%', '%b%', '', '%', 'abc', '1%', '%c ', 'b%', 'abcdefgh%', 'abcdefghi%', 'ab_d%', '日本%'])}'", f"c like '{r.choice(['a%', '1%', 'ab%', '%', 'long %'])}'",
                f"v like '{r.choice(['a%', '1%', 'x%', 'long long%'])}'", f"d {op} '{r.choice(['2000-01-01', '1999-12-31', '2026-02-28'])}'", f"m {op} '2000-01-01 00:00:00'",
                f"i between {r.choice(_INTS)} and {r.choice(_INTS)}", f"i in ({', '.join(str(n) for n in r.sample(_INTS, 3))})", f"t in ('{word}', 'a', 'zz')",
                f"i not in ({r.choice(_INTS)}, 7)", f"{r.choice(['b', 's', 'i', 't', 'c', 'f', 'z', 'j', 'y'])} is {r.choice(['', 'not '])}null", "b", "not b",
                f"i is {r.choice(['', 'not '])}distinct from s", f"i + 1 {op} {number}", f"s * 2 {op} {number}", f"coalesce(i, s) {op} 1", f"u {op} '00000000-0000-0000-0000-000000000000'",
                f'"Odd ""name" {op} {number}', "lower(t) = 'abc'", "upper(v) < 'B'", f"t {r.choice(['ilike', 'not ilike'])} '{r.choice(['A%', '%B%', 'abc', ''])}'",
                f"t = any (array['{word}', 'a'])", f"i = any (array[{r.choice(_INTS)}, 1])", f"i <> all (array[{r.choice(_INTS)}, 7])",
                f"m {op} date '2000-01-01'", f"d {op} m", f"d {op} timestamp '2000-01-01 {r.choice(['00:00:00', '10:20:30'])}'", f"m::date {op} '2000-01-01'", f"i % 3 = {r.randint(0, 2)}", f"l - i {op} 0", f"id {op} {r.randint(0, 200)}",
            ]
        )  # fmt: skip
