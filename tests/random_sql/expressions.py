"""Random expressions of a wanted type over the columns in sight.

None of them can fail for some rows only (no overflow, division, cast that may be wrong): which row PostgreSQL looks at
first is its own choice, so that such an error is no answer to compare.
"""

import random
from dataclasses import dataclass, field

from . import values
from .formulas import formula
from .schema import Schema, Table
from .step import mark
from .values import BOOL, INT4, NUMERIC, TEXT, Type, literal


@dataclass
class Column:
    sql: str
    type: Type


@dataclass
class Relation:
    """Something in FROM. `key`, `group`: of a distributed table, or of a query that passes them on. `unique`: columns that tell rows apart."""

    alias: str
    columns: list[Column]
    table: Table | None = None
    key: Column | None = None
    group: int = -1
    unique: list[Column] = field(default_factory=list)


@dataclass
class Context:
    """What a statement under construction gathers."""

    rng: random.Random
    schema: Schema
    params: list[str | None] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    any_of_equals: bool = False
    aliases: int = 0

    def alias(self) -> str:
        self.aliases += 1
        if self.rng.random() < 0.06:
            return values.ident(f"{self.rng.choice(['T x', '%r0', 'é', 'select'])}{self.aliases}")
        return f"{self.rng.choice('tarq')}{self.aliases}"

    def constant(self, text: str | None, of: Type) -> str:
        """A literal, or a parameter."""
        if self.rng.random() < 0.35 and not ("user types" in values.AVOID and of.kind.split()[0] in ("enum", "composite", "domain")):
            self.params.append(text)
            self.types.append(of.name)
            number = mark(len(self.params) - 1)
            return number + f"::{of.name}"
        return literal(self.rng, text, of)


class Expressions:
    """`of(type)` gives an expression; `condition()` one of type bool."""

    def __init__(self, context: Context, scope: list[Relation], outer: list[Relation] | None = None, subquery=None):
        self.context, self.rng = context, context.rng
        self.columns = [c for r in scope for c in r.columns]
        # Columns of the levels outside are rarer.
        self.outer = [c for r in outer or [] for c in r.columns]
        self.scope = scope
        self.subquery = subquery

    def column(self, of: Type | None = None, kind: str | None = None) -> Column | None:
        pool = self.columns + (self.outer if self.rng.random() < 0.2 else [])
        fitting = [c for c in pool if (of is None or c.type == of) and (kind is None or c.type.kind == kind)]
        return self.rng.choice(fitting) if fitting else None

    def constant(self, of: Type) -> str:
        rng = self.rng
        if of in values.KEYS and rng.random() < 0.5:
            return self.context.constant(values.key_value(of, rng.randrange(14)), of)
        return self.context.constant(values.value(rng, of), of)

    def of(self, of: Type, depth: int = 2) -> str:
        """An expression whose type is exactly this one."""
        rng = self.rng
        dice = rng.random()
        if dice < 0.55 or depth <= 0:
            found = self.column(of)
            if found is not None and rng.random() < 0.9:
                return found.sql
            return self._typed_constant(of)
        if dice < 0.65:
            return f"coalesce({self.of(of, depth - 1)}, {self.of(of, depth - 1)})"
        if dice < 0.72:
            return f"case when {self.condition(depth - 1)} then {self.of(of, depth - 1)} else {self.of(of, depth - 1)} end"
        if dice < 0.76 and of.has_equality:
            return f"nullif({self.of(of, depth - 1)}, {self._typed_constant(of)})"
        if dice < 0.80 and of.has_order and of.kind not in ("bool",) and not of.kind.startswith("composite"):
            self.context.any_of_equals = True
            return f"{rng.choice(['greatest', 'least'])}({self.of(of, depth - 1)}, {self.of(of, depth - 1)})"
        if dice < 0.83 and self.subquery:
            return self.subquery.scalar(of)
        return self._function(of, depth)

    def _typed_constant(self, of: Type) -> str:
        text = self.constant(of)
        # A bare literal has a type of its own.
        return text if "::" in text and text.endswith(of.name) else f"({text})::{of.name}"

    def _function(self, of: Type, depth: int) -> str:
        rng, less = self.rng, depth - 1
        if rng.random() < 0.5 and (text := formula(rng, of.name, lambda slot: self.of(values.NAMED[slot], less))):
            return f"({text})"
        if of == INT4:
            any_int, any_text = self.of(INT4, less), self.of(TEXT, less)
            return rng.choice([
                f"({any_int} % 10 + {self.of(INT4, less)} % 7)", f"(- ({any_int} % 100))", f"length({any_text})", f"({any_int} / 3)", f"abs({any_int} % 50)",
                f"(extract(day from {self.of(values.TIMESTAMP, 0)}) is null)::int4", f"octet_length({self.of(values.BYTEA, 0)})", f"array_length({self.of(values.INTS, 0)}, 1)",
                f"ascii({any_text})", f"position('a' in {any_text})", f"({any_int} & 6)", f"cardinality({self.of(values.TEXTS, 0)})",
            ])
        if of == TEXT:
            any_text = self.of(TEXT, less)
            other = self.column()
            return rng.choice([
                f"upper({any_text})", f"lower({any_text})", f"({any_text} || {self.of(TEXT, less)})", f"substr({any_text}, 1, 3)", f"replace({any_text}, 'a', '%r0')", f"left({any_text}, 2)",
                f"({other.sql})::text" if other else any_text, f"quote_literal({any_text})", f"concat({any_text}, {self.of(INT4, less)})", f"md5({any_text})",
                f"format('%s-%L', {any_text}, {self.of(INT4, less)})", f"coalesce({any_text}, 'none')", f"trim({any_text})", f"reverse({any_text})", f"({self.of(values.JSONB, 0)} ->> 'a')",
                f"array_to_string({self.of(values.TEXTS, 0)}, ',', '*')", f"split_part({any_text}, 'a', 1)",
            ])
        if of == NUMERIC:
            return f"round({self.of(NUMERIC, less)}, 1)"
        if of == BOOL:
            return f"({self.condition(less)})"
        if of.kind == "int":
            return f"({self.of(of, less)} % 9::{of.name})"
        if of == values.JSONB:
            return rng.choice([f"jsonb_build_object('k', {self.of(INT4, less)})", f"({self.of(values.JSONB, less)} -> 'a')", f"to_jsonb({self.of(TEXT, less)})"])
        if of == values.INTS:
            return rng.choice([f"array[{self.of(INT4, less)}, 1]", f"({self.of(of, less)} || {self.of(INT4, less)})"])
        if of == values.TIMESTAMP:
            return f"date_trunc('day', {self.of(of, less)})"
        found = self.column(of)
        return found.sql if found else self._typed_constant(of)

    # -- conditions

    def condition(self, depth: int = 2) -> str:
        rng = self.rng
        dice = rng.random()
        if depth > 0 and rng.random() < 0.12:
            return formula(rng, "bool", lambda slot: self.of(values.NAMED[slot], depth - 1)) or "true"
        if depth > 0 and dice < 0.12:
            return f"({self.condition(depth - 1)} {rng.choice(['and', 'or', 'and'])} {self.condition(depth - 1)})"
        if depth > 0 and dice < 0.18:
            return f"not ({self.condition(depth - 1)})"
        if depth > 0 and dice < 0.22:
            return f"({self.condition(depth - 1)}) is {rng.choice(['', 'not '])}{rng.choice(['true', 'false', 'unknown', 'null'])}"
        if dice < 0.30 and self.subquery:
            return self.subquery.condition(self)
        column = self.column()
        if column is None:
            return rng.choice(["true", "1 = 1", f"{self.constant(INT4)} > 3"])
        return self._test(column)

    def _test(self, column: Column) -> str:
        rng, of, sql = self.rng, column.type, column.sql
        dice = rng.random()
        if dice < 0.12 or not of.has_equality:
            return f"{sql} is {rng.choice(['', 'not '])}null"
        other = self.column(kind=of.kind)
        right = other.sql if other is not None and other is not column and rng.random() < 0.3 else self.constant(of)
        if of.kind == "bool" and dice < 0.5:
            return rng.choice([sql, f"not {sql}"])
        if dice < 0.3:
            return f"{sql} is {rng.choice(['', 'not '])}distinct from {right}"
        if dice < 0.42:
            items = ", ".join(self.constant(of) for _ in range(rng.randrange(1, 4)))
            return f"{sql} {rng.choice(['', '', 'not '])}in ({items})"
        if dice < 0.48:
            items = ", ".join(self._typed_constant(of) for _ in range(rng.randrange(1, 4)))
            return f"{sql} {rng.choice(['= any', '= any', '<> all', '= all'])} (array[{items}])"
        if dice < 0.55 and of.kind == "text":
            pattern = rng.choice(["'%a%'", "'_'", "'%!%now!%%' escape '!'", "'O''%'", "'%'", "''", "'%e0%'"])
            return f"{sql} {rng.choice(['', 'not '])}{rng.choice(['like', 'ilike'])} {pattern}"
        if dice < 0.62 and of.has_order:
            return f"{sql} {rng.choice(['', 'not '])}between {rng.choice(['', 'symmetric '])}{self.constant(of)} and {self.constant(of)}"
        if dice < 0.67 and len(self.columns) > 1:
            return f"({sql}, {self.columns[0].sql}) {rng.choice(['=', '<>'])} ({right}, {self.columns[0].sql})" if self.columns[0].type.has_equality else f"{sql} = {right}"
        operators = ["=", "=", "=", "<>"] + (["<", "<=", ">", ">="] if of.has_order else [])
        return f"{sql} {rng.choice(operators)} {right}"
