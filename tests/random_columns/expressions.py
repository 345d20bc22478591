"""Random expressions over columns, most of them such that columns compute with them.

An expression may fail for a row (overflow, division by zero, a text that is no number) only where it is certain that
PostgreSQL meets that row: not beside AND and OR, in a join, or under LIMIT without a sort; one such place a statement at most, so that
there is one SQLSTATE to compare.
"""

import random

from random_sql.expressions import Context
from random_sql.step import mark
from random_sql.values import Type

from .columns import BOOL, CHAR, DATE, FLOAT8, INT2, INT4, N12_3, TEXT, TIMESTAMP, VARCHAR, Column, asked

_COMPARISONS = ["=", "=", "<>", "<", "<=", ">", ">="]
_LIKE = ["a_", "_", "__", "_b%", "b\\%", "b\\_%", "%\\\\", "\\a%", "%_", "a%", "%b%", "", "%", "abc", "1%", "%c ", "é%", "%'%", "%\n%", "A%", "aa%b", "%%", "日%", "a%", "ab%", "1%"]
_LIKE_WRONG = "b\\"
# How often something is made of a kind that columns refuse: it runs on rows, and is there so that what comes to be computed is tested.
_REFUSED = 0.06


class Constants(Context):
    """Literals and parameters, the latter with and without a cast."""

    def __init__(self, rng: random.Random):
        super().__init__(rng, None)

    def bare(self, of: Type) -> str:
        """Where a column of this type is beside it."""
        rng, text = self.rng, asked(self.rng, of)
        if text is not None and rng.random() < 0.2:
            self.params.append(text)
            self.types.append(of.name)
            return mark(len(self.params) - 1)
        return self.constant(text, of)

    def typed(self, of: Type) -> str:
        text = self.bare(of)
        return text if f"::{of.name}" in text else f"({text})::{of.name}"


class Expressions:
    def __init__(self, constants: Constants, columns: list[tuple[str, Column]], may_fail: bool):
        self.constants, self.rng = constants, constants.rng
        self.columns = columns
        self.may_fail, self.failed = may_fail, False

    def column(self, *kinds: str) -> tuple[str, Type] | None:
        fitting = [(sql, c.type) for sql, c in self.columns if not kinds or c.type.kind in kinds]
        return self.rng.choice(fitting) if fitting else None

    def _of(self, *types: Type) -> str | None:
        fitting = [sql for sql, c in self.columns if c.type in types]
        return self.rng.choice(fitting) if fitting else None

    def fails(self) -> bool:
        """Takes the one place."""
        if self.may_fail and self.rng.random() < 0.5:
            self.may_fail, self.failed = False, True
            return True
        return False

    # -- by type

    def integer(self, depth: int = 1) -> str:
        """An int4 or int8, or smaller."""
        rng = self.rng
        found = self.column("int")
        if found is None:
            return f"({self.constants.bare(INT4)})::int4"
        sql, of = found
        if depth <= 0 or rng.random() < 0.5:
            return sql
        if self.fails():
            other = self.column("int")[0]
            return rng.choice([
                f"({sql} + 1)", f"({sql} - {other})", f"({sql} * {other})", f"(- {sql})", f"abs({sql})", f"({sql})::int2", f"({sql})::int4", f"({sql}::int8 / {other})", f"({sql}::int8 % {other})", f"({sql} * 2 + 1)",
                f"({sql} / (-1))", f"({sql} + {self.constants.bare(of)})", f"({sql} - 1::int2)", f"({sql} * 2)::int8", f"({sql} % 0)",
            ])  # fmt: skip
        small, text = self._of(INT2) or "1::int2", self._of(TEXT, VARCHAR, CHAR)
        if rng.random() < _REFUSED:
            return rng.choice([f"({sql} & 7)", f"sign({sql})::int4", f"({sql} / ({small}::int4 * 0 + 3))", f"coalesce({sql}, 1.5)::int8"])
        return rng.choice([
            f"({sql} / {rng.choice([2, 3, 7, 100])})", f"({sql} % {rng.choice([2, 3, 10])})", f"({sql} % (-3))", f"({small}::int4 + {rng.choice([1, 5, -7])})", f"({small}::int4 * {small})", f"({small}::int4 - {small})", f"abs({small}::int4)",
            f"(- ({sql} / 2))", f"length({text})" if text else sql, f"char_length({text})" if text else sql, f"coalesce({sql}, {rng.choice([0, 7])})", f"coalesce({sql}, {small})", f"nullif({sql}, {self.constants.bare(of)})",
            f"greatest({sql}, {small})", f"least({sql}, {small}, 3)", f"case when {self.boolean(0)} then {sql} else {small} end", f"case {small} when 1 then {sql} when 2 then 0 end", f"({small})::int8", f"({sql} / 3 + {small})",
            f"(+ {sql})", f"case when {self.boolean(0)} then 1 else 0 end", f"coalesce(nullif({sql}, 0), {small}, 1)",
        ])  # fmt: skip

    def number(self, depth: int = 1) -> str:
        rng = self.rng
        found = self.column("num")
        if found is None:
            return f"({rng.choice(['1.5', '2', '0.001'])})"
        sql, of = found
        if of.name in ("numeric", "numeric(3,-2)") and rng.random() < 0.7:
            sql, of = self._of(N12_3) or sql, N12_3
        if depth <= 0 or rng.random() < 0.5:
            return sql
        narrow, small = self._of(N12_3) or "1.500", self._of(INT2) or "2"
        if self.fails() and of.name != "numeric":
            return rng.choice([f"({narrow} / {small})", f"({narrow})::int2", f"({narrow} % {small})", f"({narrow})::numeric(4,1)"])
        if rng.random() < _REFUSED:
            return rng.choice([f"round({narrow}, 1)", f"trunc({narrow})", f"({narrow} / 4)", f"greatest({narrow}, {rng.choice(['2', '0.5'])})", f"coalesce({narrow}, 0)"])
        return rng.choice([
            f"({narrow} + {rng.choice(['1', '0.5', '1.50', '-2.001'])})", f"({narrow} * {small})", f"({narrow} * {narrow})", f"({narrow} - {small})", f"(- {sql})", f"abs({sql})", f"coalesce({narrow}, 0.000)",
            f"({self.integer(0)})::numeric", f"greatest({narrow}, 1.500)", f"nullif({sql}, {self.constants.bare(of)})", f"case when {self.boolean(0)} then {narrow} end", f"({sql} + {sql})", f"({sql} * 2)",
            f"({narrow} * (1 - {narrow}))", f"(- ({narrow} - 1))", f"({narrow} * 1.0000)",
        ])  # fmt: skip

    def text(self, depth: int = 1) -> str:
        rng = self.rng
        found = self.column("text", "char") if rng.random() < 0.9 else self.column("text")
        if found is None:
            return f"({self.constants.bare(TEXT)})::text"
        sql, of = found
        if depth <= 0 or rng.random() < 0.65:
            return sql
        other = self.column("text")[0] if self.column("text") else sql
        some = self.constants.bare(TEXT)
        if rng.random() < _REFUSED:
            return rng.choice([
                f"upper({other})", f"lower({other})", f"trim({sql})", f"replace({other}, 'a', 'b')", f"concat({other}, {sql})", f"left({other}, -1)", f"substr({other}, 0, 2)", f"({sql} || {self.integer(0)})", f"substr({other}, 2)",
                f"({other})::char(3)", f"({other})::varchar(2)",
            ])  # fmt: skip
        return rng.choice([
            f"({sql})::text", f"coalesce({other}, {some})", f"coalesce({other}, {other})", f"nullif({other}, {some})", f"case when {self.boolean(0)} then {other} else 'x' end", f"greatest({other}, {some})", f"least({other}, {other})",
            f"({sql})::varchar", f"case {self.integer(0)} when 1 then 'one' when 2 then 'two' end", f"left({sql}, {rng.randrange(4)})", f"substr({sql}, {rng.choice([1, 2, 3])}, {rng.randrange(4)})", f"substring({other} from 2 for 2)",
            f"({other} || {some})", f"({other} || {other})", f"('x' || {other})", f"({self.integer(0)})::text", f"({self.boolean(0)})::text",
        ])  # fmt: skip

    def moment(self, depth: int = 1) -> str:
        rng = self.rng
        found = self.column("date", "timestamp", "timestamp", "timestamptz")
        if found is None:
            return "date '2000-01-01'"
        sql, of = found
        if depth <= 0 or rng.random() < 0.6:
            return sql
        unit = rng.choice(["day", "month", "year", "hour", "week", "quarter"])
        if rng.random() < _REFUSED:
            return rng.choice([f"date_trunc('{unit}', {sql})", f"extract({unit} from {sql})", f"({sql})::date", f"date_part('{unit}', {sql})", f"date_trunc('century', {sql})", f"extract(epoch from {sql})"])
        if rng.random() < 0.5 and of.kind != "timestamptz":
            field = rng.choice(["day", "month", "quarter", "dow", "isodow", "doy", "day", "month", "year"])
            field = rng.choice(["hour", "minute", field]) if of.kind == "timestamp" else field
            return f"date_trunc('{unit}', {sql})" if of.kind == "timestamp" and rng.random() < 0.6 else f"extract({field} from {sql})"
        return rng.choice([
            f"coalesce({sql}, {self.constants.typed(of)})", f"greatest({sql}, {self.constants.typed(of)})", f"nullif({sql}, {self.constants.bare(of)})", f"case when {self.boolean(0)} then {sql} end", f"least({sql}, {sql})",
        ])  # fmt: skip

    def any(self, depth: int = 1) -> tuple[str, bool]:
        """An expression that may be grouped and ordered by; whether equal values of it are one text."""
        rng = self.rng
        dice = rng.random()
        if dice < 0.45:
            found = self.column("bool", "int", "num", "text", "char", "date", "timestamp", "uuid", "timestamptz")
            if found and (found[1].name not in ("numeric", "numeric(3,-2)") or rng.random() < _REFUSED):
                return found[0], found[1].name != "numeric"
        if dice < 0.7:
            return self.integer(depth), True
        if dice < 0.85:
            return self.text(depth), True
        if dice < 0.92:
            return self.moment(depth), False
        if dice < 0.97:
            return self.boolean(0), True
        return self.number(depth), False

    # -- conditions

    def boolean(self, depth: int = 1) -> str:
        rng = self.rng
        dice = rng.random()
        if depth > 0 and dice < 0.25:
            may_fail, self.may_fail = self.may_fail, False
            word = rng.choice(["and", "or"])
            parts = f" {word} ".join(self.boolean(depth - 1) for _ in range(rng.choice([2, 2, 3])))
            self.may_fail = may_fail
            return f"({parts})"
        if depth > 0 and dice < 0.32:
            return f"(not {self.boolean(depth - 1)})"
        if depth > 0 and dice < 0.36:
            return f"({self.boolean(depth - 1)} is {rng.choice(['', 'not '])}{rng.choice(['true', 'false', 'unknown', 'null'])})"
        return f"({self._test()})"

    def _test(self) -> str:
        rng = self.rng
        dice = rng.random()
        if dice < 0.1:
            found = self.column() or ("1", INT4)
            return f"{found[0]} is {rng.choice(['', 'not '])}null"
        if dice < 0.16:
            found = self.column("bool")
            return found[0] if found else "true"
        if dice < 0.24:
            found = self.column("text", "char")
            if found:
                pattern = _LIKE_WRONG if rng.random() < _REFUSED and self.fails() else rng.choice(_LIKE).replace("'", "''")
                return f"{found[0]} {rng.choice(['', 'not '])}{'like' if rng.random() > _REFUSED else 'ilike'} '{pattern}'"
        if dice < 0.42:
            return self._computed()
        kinds = ["bool", "int", "num", "text", "char", "date", "timestamp", "timestamptz", "uuid", "float"]
        found = self.column(*kinds) if rng.random() > _REFUSED else self.column("bytea", "enum", "time", "interval", "jsonb", "ints", "inet")
        if found is None:
            return "true"
        sql, of = found
        if of.kind == "float" and rng.random() < 0.5:
            return f"{sql} {rng.choice(_COMPARISONS)} {rng.choice(['0', '1.5', '0.1', chr(39) + 'NaN' + chr(39), '1', '-0.0', '1e30', '0.1::float8'])}"
        if dice < 0.50:
            return f"{sql} {rng.choice(['', '', 'not '])}in ({', '.join(self.constants.bare(of) for _ in range(rng.choice([1, 2, 3])))})"
        if dice < 0.57:
            return f"{sql} {rng.choice(['', '', 'not '])}between {'' if rng.random() > _REFUSED else 'symmetric '}{self.constants.bare(of)} and {self.constants.bare(of)}"
        if dice < 0.64:
            return f"{sql} is {rng.choice(['', 'not '])}distinct from {self.constants.bare(of)}"
        if dice < 0.76:
            same = self.column(of.kind)
            return f"{sql} {rng.choice([*_COMPARISONS, 'is distinct from', 'is not distinct from'])} {same[0]}"
        if dice < 0.82 and of.kind in ("int", "num"):
            other = self.column("int", "num")
            return f"{sql} {rng.choice(_COMPARISONS)} {other[0] if other else 1}"
        if dice < 0.84 and of.kind in ("date", "timestamp", "timestamptz") and rng.random() < 0.8:
            return f"{sql} {rng.choice(_COMPARISONS)} {self._shifted(of)}"
        if dice < 0.84:
            return f"{self.constants.bare(of)} {rng.choice(_COMPARISONS)} {sql}"
        if dice < 0.86 and of.kind == "int":
            return f"{sql} {rng.choice(_COMPARISONS)} {rng.choice(['1.5', '2147483648', '99999999999999999999', '7.0', '0.1'])}"
        return f"{sql} {rng.choice(_COMPARISONS)} {self.constants.bare(of)}"

    def _shifted(self, of: Type) -> str:
        """A constant moment and an interval."""
        rng = self.rng
        n, unit = rng.choice([0, 1, 1, 2, 3, 11, 13, 28, 90, 400, -1, -7]), rng.choice(["year", "month", "month", "day", "day", "week", "hour", "minute", "second"])
        if of.kind == "timestamptz" and rng.random() < 0.8:
            unit = rng.choice(["hour", "minute", "second"])
        some = [f"interval '{n} {unit}'", f"interval '{n} {unit}s'", f"'{n} {unit}s'::interval", f"interval '{n} {unit}s {rng.randrange(9)} {'hours' if unit != 'hour' else 'minutes'}'"]
        if unit != "week":
            some += [f"interval '{n}' {unit}"] * 2
        if rng.random() < _REFUSED:
            some = [f"interval '{n}-3'", f"interval '{n} fortnight'" if self.fails() else "interval '1:30'", "interval 'P1DT2H'", "interval '1.5 days'"]
        start = rng.choice(["2000-01-01", "2024-02-29", "2023-12-31", "2024-03-31", "0001-01-15", "9999-12-30", "1999-08-30 23:59:59.999999"])
        if of.kind == "timestamptz":
            moment = rng.choice([f"timestamptz '{start}{rng.choice(['+00', '+02', '-03:30'])}'" if " " in start else f"timestamptz '{start} 00:00:00+00'", "now()", "current_timestamp"])
            # What is stored is long ago, or to come.
            return f"({moment} {rng.choice('+-')} {rng.choice(some)})"
        word = of.kind if " " not in start else "timestamp"
        return f"{word} '{start}' {rng.choice('+-')} {rng.choice(some)}"

    def _computed(self) -> str:
        """A comparison of something computed."""
        rng = self.rng
        dice, sign = rng.random(), rng.choice([*_COMPARISONS, "is distinct from"])
        if dice < 0.5:
            return f"{self.integer(1)} {sign} {rng.choice([str(rng.randrange(-3, 9)), self.integer(0)])}"
        if dice < 0.7:
            return f"{self.number(1)} {sign} {rng.choice(['0', '1.5', '-2.50', '7'])}"
        if dice < 0.9:
            return f"{self.text(1)} {sign} {self.constants.bare(TEXT)}"
        found = self.column("date", "timestamp")
        if found is None:
            return "true"
        of = DATE if found[1].kind == "date" else TIMESTAMP
        return f"coalesce({found[0]}, {self.constants.typed(of)}) {sign} {self.constants.bare(of)}"


__all__ = ["BOOL", "FLOAT8", "Constants", "Expressions"]
