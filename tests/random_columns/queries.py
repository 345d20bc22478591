"""Random SELECTs over copied tables, weighted towards what columns answer: totals, groups, DISTINCT, the first rows of an order.

Their answers are determined: LIMIT only where ORDER BY tells all rows apart, no sum of floats. It does not know how they are compared.
"""

import random

from random_sql.step import Step

from .columns import INT4, INT8, Column
from .expressions import Constants, Expressions
from .tables import Table, Tables

_DIRECTIONS = ["", "", " desc", " nulls first", " desc nulls last", " asc nulls last"]
_MODES = ["simple", "simple", "extended", "binary", "prepared"]


class Queries:
    """Makes one statement."""

    def __init__(self, rng: random.Random, tables: Tables):
        self.rng, self.tables = rng, tables
        self.constants = Constants(rng)
        self.any_of_equals = False
        self.ordered_by: tuple[int, ...] = ()

    def step(self) -> Step:
        make = self.rng.choices([self.totals, self.groups, self.distinct, self.first, self.composed], [31, 35, 8, 18, 8])[0]
        sql = make()
        c = self.constants
        return Step(sql, mode=self.rng.choice(_MODES), params=tuple(c.params), types=tuple(c.types), ordered_by=self.ordered_by, any_of_equals=self.any_of_equals)

    # -- FROM and WHERE

    def _source(self, joins: float, may_fail: bool = True) -> tuple[str, Expressions, list[tuple[str, Column]]]:
        """FROM, what may be made of its columns, and the columns that tell its rows apart."""
        rng = self.rng
        table = rng.choice(self.tables.all)
        if rng.random() < joins:
            return self._join()
        if rng.random() < 0.08:
            return self._within()
        alias = rng.choice(["", "", " x", ' as "T x"'])
        prefix = {"": rng.choice(["", "", f"{table.name}."]), " x": "x.", ' as "T x"': '"T x".'}[alias]
        columns = self._named(table, prefix)
        return f"{table.name}{alias}", Expressions(self.constants, columns, may_fail and rng.random() < 0.25), self._unique(table, prefix)

    def _within(self) -> tuple[str, Expressions, list[tuple[str, Column]]]:
        """A subquery of FROM: rows of one table, of several, groups, or different rows; with other names for some of its columns."""
        rng = self.rng
        if rng.random() < 0.3:
            source, inner, unique = self._join()
        else:
            table = rng.choice(self.tables.all)
            source, inner, unique = f"{table.name} y", Expressions(self.constants, self._named(table, "y."), False), self._unique(table, "y.")
        where = self._where(inner, source)
        some = rng.sample(inner.columns, min(len(inner.columns), rng.choice([2, 4, 8])))
        plain = [(sql, c) for sql, c in some if c.type.kind in ("bool", "int", "text", "char", "date", "timestamp", "uuid") and "(" not in c.type.name]
        dice = rng.random()
        if dice < 0.3 and plain:
            groups = plain[:2]
            number = rng.choice([sql for sql, c in inner.columns if c.type is INT4] or ["1"])
            items = [*groups, ("count(*)", Column("n_", INT8)), (f"sum({number})", Column("s_", INT8)), (f"max({number})", Column("x_", INT4))]
            tail, unique = " group by " + ", ".join(sql for sql, _ in groups), groups
        elif dice < 0.4 and plain:
            items, tail, unique = plain, "", plain
        else:
            items, tail = list(dict.fromkeys([*unique, *some])), ""
        word = "distinct " if dice >= 0.3 and dice < 0.4 and plain else ""
        names = [c.name if rng.random() < 0.3 and [d.name for _, d in items].count(c.name) == 1 and not c.name.startswith("c_") else f"c_{n}" for n, (_, c) in enumerate(items)]
        renamed = [Column(name, c.type) for name, (_, c) in zip(names, items)]
        texts = ", ".join(f"{sql} as {c.sql}" for (sql, _), c in zip(items, renamed))
        alias = "w"
        if rng.random() < 0.3:
            texts, alias = ", ".join(sql for sql, _ in items), f"w ({', '.join(c.sql for c in renamed)})"
        columns = [(f"{rng.choice(['', 'w.'])}{c.sql}", c) for c in renamed]
        named = dict(zip([sql for sql, _ in items], columns))
        return f"(select {word}{texts} from {source}{where}{tail}) {alias}", Expressions(self.constants, columns, False), [named[sql] for sql, _ in unique]

    def _subquery(self, make: Expressions) -> str:
        """A condition with one: EXISTS, IN, or a total."""
        rng = self.rng
        keys = [(sql, c) for sql, c in make.columns if c.name == "k" and "." in sql]
        table = rng.choice([*self.tables.all[:2], *self.tables.all[:2], self.tables.reference])
        inner = self._named(table, "z.")
        own = Expressions(self.constants, inner, False)
        same = [sql for sql, c in keys if c.type == table.key.type]
        both = Expressions(self.constants, inner + (keys if rng.random() < 0.5 else []), False)
        condition = f"z.k = {rng.choice(same)} and {both.boolean(1)}" if same and rng.random() < 0.85 else own.boolean(1)
        dice, word = rng.random(), rng.choice(["", "", "not "])
        if dice < 0.4:
            return f"{word}exists (select {rng.choice(['1', '1', 'z.k', '*'])} from {table.name} z where {condition})"
        number, other = make.column("int"), own.column("int")
        if not number or not other:
            return f"exists (select 1 from {table.name} z where {condition})"
        if dice < 0.6:
            found = make.column("int", "text", "date", "timestamp", "char")
            matching = own.column(found[1].kind)
            return f"{found[0]} {word}in (select {matching[0]} from {table.name} z where {condition})" if matching else f"{number[0]} in (select {other[0]} from {table.name} z)"
        if dice < 0.75:
            return f"{number[0]} {word}in (select {other[0]} from {table.name} z where {condition} group by {other[0]} having count(*) {rng.choice(['>', '<', '='])} {rng.randrange(1, 4)})"
        total = rng.choice(["max", "min", "count", "sum"])
        return f"{number[0]} {rng.choice(['<', '>', '=', '<=', '<>'])} (select {total}({other[0]}) from {table.name} z where {condition})"

    def _named(self, table: Table, prefix: str) -> list[tuple[str, Column]]:
        # Now and then one that the copy has not.
        columns = table.columns if self.rng.random() < 0.05 else table.copied
        return [(f"{prefix}{c.sql}", c) for c in columns]

    def _unique(self, table: Table, prefix: str) -> list[tuple[str, Column]]:
        return [(f"{prefix}{c.sql}", c) for c in table.unique]

    def _join(self) -> tuple[str, Expressions, list[tuple[str, Column]]]:
        rng = self.rng
        if rng.random() < 0.4:
            return self._with_reference()
        one, other = rng.choice([self.tables.all[:2], self.tables.all[1::-1], [self.tables.all[0]] * 2])
        columns = self._named(one, "x.") + self._named(other, "y.")
        make = Expressions(self.constants, columns, False)
        on = "x.k = y.k" + (f" and {make.boolean(1)}" if rng.random() < 0.3 else "")
        word = rng.choice(["join", "join", "join", "left join", "right join", "full join"])
        if word == "full join":
            on = "x.k = y.k"
        text = f"{one.name} x {word} {other.name} y on {on}" if rng.random() < 0.85 else f"{one.name} x, {other.name} y"
        return text, make, self._unique(one, "x.") + self._unique(other, "y.")

    def _with_reference(self) -> tuple[str, Expressions, list[tuple[str, Column]]]:
        """Rows of a distributed table, and those of the reference table that they name."""
        rng = self.rng
        one, other = rng.choice(self.tables.all), self.tables.reference
        of_one = self._named(one, "x.")
        make = Expressions(self.constants, of_one + self._named(other, "y."), False)
        number = Expressions(self.constants, of_one, False).column("int") or ("x.k", one.key)
        on = f"{number[0]} = y.k" + (f" and {make.boolean(1)}" if rng.random() < 0.2 else "")
        sides = [f"{one.name} x", rng.choice(["join", "join", "left join"]), f"{other.name} y"]
        if rng.random() < 0.2:
            # Rows that every node has are kept: mostly rows' to answer.
            sides[1] = "right join"
        return f"{' '.join(sides)} on {on}", make, self._unique(one, "x.") + self._unique(other, "y.")

    def _where(self, make: Expressions, source: str) -> str:
        needs = "x.k = y.k" if source.endswith(" y") and ", " in source else ""
        if self.rng.random() < 0.3:
            return f" where {needs}" if needs else ""
        condition = make.boolean(self.rng.choice([0, 1, 1, 2]))
        # Beside what may fail it is not known of which rows that is computed.
        if self.rng.random() < 0.1 and not make.failed:
            make.may_fail = False
            condition = f"{condition} {self.rng.choice(['and', 'and', 'or'])} {self._subquery(make)}"
            condition = condition if not needs else f"({condition})"
        return f" where {needs} and {condition}" if needs else f" where {condition}"

    # -- aggregates

    def _aggregate(self, make: Expressions) -> str:
        rng = self.rng
        dice = rng.random()
        if dice < 0.15:
            sql = "count(*)"
        elif dice < 0.3:
            found = make.column() or ("1", INT4)
            sql = f"count({'distinct ' if rng.random() < 0.25 and found[1].has_equality and found[1].kind not in ('json', 'point') else ''}{found[0]})"
        elif dice < 0.5:
            of, word = make.integer(rng.choice([0, 1])), rng.choice(["sum", "sum", "avg"])
            sql = f"{word}({'distinct ' if rng.random() < 0.12 else ''}{of})"
        elif dice < 0.62:
            sql = f"{rng.choice(['sum', 'sum', 'avg'])}({make.number(rng.choice([0, 1]))})"
        elif dice < 0.82:
            of, _ = self._ordered(make)
            sql = f"{rng.choice(['min', 'max'])}({of})"
        elif dice < 0.92:
            sql = f"{rng.choice(['bool_and', 'bool_or', 'every'])}({make.boolean(rng.choice([0, 0, 1]))})"
        elif rng.random() < 0.7:
            sql = rng.choice([f"avg({make.integer(0)})", f"count({make.boolean(0)})", f"sum({make.number(0)})", f"count(nullif({make.integer(0)}, 0))"])
        else:
            found = make.column("int", "num") or ("1", INT4)
            text = make.text(0)
            sql = rng.choice([f"stddev({found[0]})", f"variance({found[0]})", f"bit_or({make.integer(0)})", f"string_agg({text}, ',' order by {text})", f"max({self._float(make)})", f"avg({make.integer(0)})"])
        # Beside what may fail a filter is to keep PostgreSQL from no row.
        if rng.random() < 0.12 and not make.failed:
            sql += f" filter (where {make.boolean(rng.choice([0, 1]))})"
        return sql

    def _float(self, make: Expressions) -> str:
        self.any_of_equals = True
        found = make.column("float")
        return found[0] if found else "1::float8"

    def _ordered(self, make: Expressions) -> tuple[str, bool]:
        """Something with an order that min() knows."""
        rng = self.rng
        found = make.column("int", "num", "text", "char", "date", "timestamp", "timestamptz")
        if found is None or rng.random() < 0.35:
            sql = rng.choice([make.integer, make.number, make.text])(1)
            self.any_of_equals = True
            return sql, False
        if found[1].name == "numeric":
            self.any_of_equals = True
        return found[0], found[1].name != "numeric"

    # -- statements

    def totals(self) -> str:
        source, make, _ = self._source(0.12)
        where = self._where(make, source)
        items = [self._aggregate(make) for _ in range(self.rng.choice([1, 1, 2, 3, 4]))]
        if self.rng.random() < 0.1:
            items.append(self.rng.choice([f"{self._aggregate(make)} is null", "count(*) + 1", f"coalesce(sum({make.column('int')[0] if make.column('int') else 1}), 0)", "count(*) > 3", "'x'", "1.50"]))
        having = f" having {self._having(make)}" if self.rng.random() < 0.06 else ""
        return f"select {', '.join(items)} from {source}{where}{having}"

    def _having(self, make: Expressions) -> str:
        rng = self.rng
        number = make.column("int")
        return rng.choice([f"count(*) {rng.choice(['>', '<', '>=', '='])} {rng.randrange(5)}", f"sum({number[0] if number else 1}) > 10", f"max({number[0] if number else 1}) is not null", f"bool_or({make.boolean(0)})"])

    def groups(self) -> str:
        rng = self.rng
        source, make, _ = self._source(0.12)
        where = self._where(make, source)
        keys = list(dict.fromkeys(make.any(rng.choice([0, 0, 1])) for _ in range(rng.choice([1, 1, 2, 3]))))
        exact = all(e for _, e in keys)
        self.any_of_equals |= not exact
        # A constant would be a position, a parameter another one in each place.
        keys = [(sql, e) for sql, e in keys if "\x01" not in sql and not sql.isdigit()] or [("count(*)", True)]
        texts = [sql for sql, _ in keys]
        if texts == ["count(*)"]:
            return f"select count(*) from {source}{where}"
        items = texts if rng.random() < 0.85 else texts[:1]
        items = items + [self._aggregate(make) for _ in range(rng.choice([0, 1, 2, 2, 3]))]
        named = rng.random() < 0.3
        outputs = [f"{sql} as g{n}" if named else sql for n, sql in enumerate(items)]
        by = [str(n + 1) if rng.random() < 0.3 and n < len(items) and items[n] == sql else sql for n, sql in enumerate(texts)]
        sql = f"select {', '.join(outputs)} from {source}{where} group by {', '.join(by)}"
        if rng.random() < 0.15:
            sql += f" having {self._having(make)}"
        if rng.random() < 0.45:
            whole = len(items) >= len(texts) and items[: len(texts)] == texts
            order = ", ".join((f"g{n}" if named and n < len(items) and items[n] == text else text) + rng.choice(_DIRECTIONS) for n, text in enumerate(texts))
            sql += f" order by {order}"
            if whole and exact:
                self.ordered_by = tuple(range(len(items)))
            # Of groups that come in order, PostgreSQL makes no more than are wanted.
            if exact and not self.any_of_equals and not make.failed and rng.random() < 0.6:
                sql += self._slice()
        return sql

    def _slice(self) -> str:
        rng = self.rng
        sql = f" limit {self.constants.constant(str(rng.randrange(0, 30)), INT8)}"
        return sql + (f" offset {rng.randrange(0, 9)}" if rng.random() < 0.3 else "")

    def distinct(self) -> str:
        rng = self.rng
        source, make, _ = self._source(0.08)
        where = self._where(make, source)
        items = [make.any(rng.choice([0, 0, 1])) for _ in range(rng.choice([1, 2, 3]))]
        exact = all(e for _, e in items)
        self.any_of_equals |= not exact
        sql = f"select distinct {', '.join(text for text, _ in items)} from {source}{where}"
        if rng.random() < 0.5:
            sql += " order by " + ", ".join(str(n + 1) + rng.choice(_DIRECTIONS) for n in range(len(items)))
            if exact:
                self.ordered_by = tuple(range(len(items)))
                sql += self._slice() if rng.random() < 0.5 and not make.failed else ""
        return sql

    def first(self) -> str:
        """The first rows of an order, which is that of all columns in the end."""
        rng = self.rng
        source, make, unique = self._source(0.06, may_fail=False)
        if " join " in source:
            # Rows of outer joins may have no key.
            source, make, unique = self._source(0, may_fail=False)
        where = self._where(make, source)
        kinds = ("bool", "int", "num", "text", "char", "date", "timestamp", "timestamptz", "uuid", "float", "bytea")
        printed = [c for c in make.columns if rng.random() < 0.03 or c[1].type.kind in kinds and c[1].type.name not in ("numeric", "numeric(3,-2)", "varchar") and not (c[1].type.name.startswith("timestamp("))]
        items = [rng.choice(printed)[0] if rng.random() < 0.7 else make.any(1)[0] for _ in range(rng.choice([1, 2, 3, 5]))]
        items = [sql for sql, _ in unique] + items
        if rng.random() < 0.06:
            items = ["*"]
        by = [make.any(rng.choice([0, 0, 0, 1]))[0] for _ in range(rng.choice([0, 1, 1, 2]))]
        by = [sql for sql in by if not sql.isdigit()] + [sql for sql, _ in unique]
        some = self._slice()
        # Where no index has the order, PostgreSQL computes what it shows before it sorts: what fails, fails for any row.
        if items != ["*"] and not any(sql in by[0] for sql, _ in unique) and rng.random() < 0.25:
            make.may_fail, some = True, f" limit {rng.randrange(1, 30)}"
            items.append(make.integer())
        order = ", ".join(sql + rng.choice(_DIRECTIONS) for sql in by)
        self.ordered_by = tuple(range(len(items))) if items != ["*"] else (0,)
        return f"select {', '.join(items)} from {source}{where} order by {order}{some}"

    # -- of several

    def composed(self) -> str:
        """Queries within queries: what of them columns answer is put together by PostgreSQL."""
        rng = self.rng
        table = rng.choice(self.tables.all)
        make = Expressions(self.constants, self._named(table, ""), False)
        where = self._where(make, table.name)
        one, other = make.integer(0), make.text(0)
        group = rng.choice([c for c in make.columns if c[1].type.kind in ("int", "text", "bool", "date", "char")] or make.columns)[0]
        inner = f"select {group} as g, count(*) as n, sum({one}) as s, max({other}) as x from {table.name}{where} group by {group}"
        return rng.choice([
            f"select count(*), sum(n), max(x) from ({inner}) as y", f"select g, n, rank() over (order by n desc) from ({inner}) as y", f"with y as ({inner}) select * from y where n > 1",
            f"with y as ({inner}) select y.n, count(*) from y group by y.n", f"select count(*) from {table.name} where {one} in (select {one} from {table.name} where {make.boolean(0)})",
            f"select (select count(*) from {table.name}{where}), (select max({one}) from {table.name})", f"(select {group} from {table.name}{where}) union (select {group} from {table.name})",
            f"select count(*) from {table.name}{where} union all select sum({one}) from {table.name}", f"select {group}, count(*) from {table.name}{where} group by rollup ({group})",
            f"select k, sum({one}) over (partition by {group}) from {table.name}{where}", f"select count(*) from {table.name} y where exists (select 1 from {table.name} z where z.k = y.k and {make.boolean(0)})",
            f"select distinct on ({group}) {group} from {table.name}{where} order by {group}", f"select {group}, count(*) from {table.name}{where} group by {group} except select {group}, 1 from {table.name}",
            f"select array_agg({one} order by {one}) from {table.name}{where}",
        ])  # fmt: skip
