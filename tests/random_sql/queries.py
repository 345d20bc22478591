"""Random SELECTs whose answers are determined: LIMIT only where ORDER BY names every output column, row_number over what
is unique, no order-dependent aggregate without an order of its own.

Most joins are on keys, since others are refused; the rest may be anything.
"""

import re
from dataclasses import dataclass, field

from . import shapes, values
from .expressions import Column, Context, Expressions, Relation
from .schema import Table
from .step import Step
from .values import BOOL, INT4, INT8, NUMERIC, TEXT, Type


# A column with its table's alias.
_QUALIFIED = re.compile(r'\w+\. ?(\w+|"[^"]+")')


@dataclass
class Query:
    """Text, and what it yields: names, types. `ordered_by`: positions its rows are ordered by."""

    sql: str
    columns: list[Type]
    names: list[str] = field(default_factory=list)
    ordered_by: tuple[int, ...] = ()
    # Which output column is the key of a colocation group.
    key: int | None = None
    group: int = -1
    # It has its ORDER BY.
    is_finished: bool = False


class Queries:
    """Makes queries for one statement: its context gathers parameters."""

    def __init__(self, context: Context, depth: int = 2):
        self.context, self.rng, self.schema = context, context.rng, context.schema
        self.depth = depth
        self.outer: list[Relation] = []
        self.ctes: list[tuple[str, Query]] = []

    # -- FROM

    def table_relation(self, table: Table) -> tuple[str, Relation]:
        alias = self.context.alias()
        self.context.any_of_equals |= table.any_of_equals
        columns = [Column(f"{alias}.{c.sql}", c.type) for c in table.columns]
        at = {id(c): columns[i] for i, c in enumerate(table.columns)}
        key = at[id(table.key)] if table.key is not None and id(table.key) in at else None
        unique = [at[id(c)] for c in table.unique if id(c) in at]
        return f"{table.sql} {alias}", Relation(alias, columns, table, key, table.group, unique if len(unique) == len(table.unique) else [])

    def pick_table(self, group: int | None = None) -> Table:
        tables = self.schema.tables + self.schema.views
        if "local" in values.AVOID and any(t.place != "local" for t in tables):
            tables = [t for t in tables if t.place != "local"]
        if group is not None:
            same = [t for t in tables if t.group == group]
            if same and self.rng.random() < 0.75:
                return self.rng.choice(same)
        weighted = [t for t in tables for _ in range({"distributed": 4, "reference": 2, "local": 1}[t.place])]
        return self.rng.choice(weighted)

    def _item(self, group: int | None, laterals: list[Relation]) -> tuple[str, Relation]:
        """One item of FROM."""
        rng = self.rng
        dice = rng.random()
        if self.ctes and dice < 0.25:
            name, query = rng.choice(self.ctes)
            return self._named(name, query)
        if dice < 0.13 and self.depth > 0:
            inner = self._inner(laterals if rng.random() < 0.3 else None)
            query = inner.statement() if rng.random() < 0.25 else inner.select()
            lateral = "lateral " if laterals and rng.random() < 0.3 else ""
            return self._derived(f"{lateral}({query.sql})", query)
        if dice < 0.17:
            rows = ", ".join(f"({rng.randrange(12)}, {values.literal(rng, values.value(rng, TEXT), TEXT)}::text)" for _ in range(rng.randrange(1, 4)))
            return self._derived(f"(values {rows})", Query("", [INT4, TEXT], ["column1", "column2"]))
        if dice < 0.20:
            return self._derived(f"generate_series(1, {rng.randrange(1, 6)})", Query("", [INT4], ["x"]))
        if laterals and dice < 0.25:
            text, types = shapes.function_in_from(self, laterals)
            return self._derived(text, Query("", types))
        return self.table_relation(self.pick_table(group))

    def _inner(self, outer: list[Relation] | None = None) -> "Queries":
        inner = Queries(self.context, self.depth - 1)
        inner.outer = list(outer or [])
        inner.ctes = list(self.ctes)
        return inner

    def _derived(self, sql: str, query: Query) -> tuple[str, Relation]:
        alias = self.context.alias()
        names = [f"c{i}" for i in range(len(query.columns))]
        columns = [Column(f"{alias}.{n}", t) for n, t in zip(names, query.columns)]
        return f"{sql} as {alias} ({', '.join(names)})", Relation(alias, columns, None, columns[query.key] if query.key is not None else None, query.group)

    def _named(self, name: str, query: Query) -> tuple[str, Relation]:
        alias = self.context.alias()
        columns = [Column(f"{alias}.c{i}", t) for i, t in enumerate(query.columns)]
        return f"{name} {alias}", Relation(alias, columns, None, columns[query.key] if query.key is not None else None, query.group)

    def source(self) -> tuple[str, list[Relation]]:
        """FROM's text, and what it makes visible."""
        rng = self.rng
        text, first = (shapes.joined_by_name(self) if rng.random() < 0.04 else None) or self._item(None, [])
        scope = [first]
        for _ in range(rng.choices([0, 1, 2, 3], [45, 35, 15, 5])[0]):
            keyed = next((r for r in scope if r.key is not None), None)
            item, relation = self._item(keyed.group if keyed else None, scope)
            dice = rng.random()
            if dice < 0.08:
                text = f"{text} cross join {item}"
            elif dice < 0.14:
                text = f"{text}, {item}"
            else:
                join = rng.choices(["join", "left join", "right join", "full join", "left join"], [45, 25, 10, 10, 10])[0]
                if "outer" in values.AVOID:
                    join = "join"
                elif item.startswith("lateral"):
                    join = rng.choice(["join", "left join"])
                text = f"{text} {join} {item} on {self._on(scope, relation, join)}"
            scope.append(relation)
        return text, scope

    def _on(self, scope: list[Relation], relation: Relation, join: str) -> str:
        rng = self.rng
        equal = self._equality(scope, relation)
        if equal is None:
            return "true"
        if join == "full join" or rng.random() < 0.7:
            return equal
        return f"{equal} and {self.expressions([*scope, relation], subqueries=False).condition(1)}"

    def _equality(self, scope: list[Relation], relation: Relation) -> str | None:
        rng = self.rng
        same = [r for r in scope if r.key is not None and r.group == relation.group]
        if relation.key is not None and same and rng.random() < 0.85:
            left, right = rng.choice(same).key.sql, relation.key.sql
            return f"{left} = {right}" if rng.random() < 0.6 else f"{right} = {left}"
        pairs = [
            (a, b) for r in scope for a in r.columns for b in relation.columns
            if a.type.kind == b.type.kind and a.type.has_equality and (a.type.kind != "composite pair_of")
        ]
        if not pairs:
            return None
        a, b = rng.choice(pairs)
        return f"{a.sql} = {b.sql}"

    # -- a level

    def expressions(self, scope: list[Relation], subqueries: bool = True) -> Expressions:
        maker = Subqueries(self, scope) if subqueries and self.depth > 0 else None
        return Expressions(self.context, scope, self.outer, maker)

    def where(self, scope: list[Relation], make: Expressions) -> str:
        rng = self.rng
        conditions = []
        keyed = [r for r in scope if r.key is not None]
        if keyed and rng.random() < 0.3:
            key = rng.choice(keyed).key
            conditions.append(f"{key.sql} = {make.constant(key.type) if key.type in values.KEYS else self.context.constant(values.value(rng, key.type, 0), key.type)}")
        correlated = [r for r in self.outer if r.key is not None]
        if correlated and keyed and rng.random() < 0.7:
            pairs = [(a, b) for a in correlated for b in keyed if a.group == b.group]
            if pairs:
                a, b = rng.choice(pairs)
                conditions.append(f"{b.key.sql} = {a.key.sql}")
        if rng.random() < 0.45:
            conditions.append(make.condition())
        return f" where {' and '.join(conditions)}" if conditions else ""

    def output_type(self) -> Type:
        rng = self.rng
        return rng.choice([INT4, INT4, INT8, TEXT, TEXT, NUMERIC, BOOL, values.DATE, values.UUID, values.FLOAT8, values.JSONB, values.BYTEA, values.TIMESTAMPTZ, values.INTS])

    def select(self, wanted: list[Type] | None = None, plain: bool = False) -> Query:
        """A level without ORDER BY, of `wanted` types if given."""
        rng = self.rng
        text, scope = self.source()
        make = self.expressions(scope)
        where = self.where(scope, make)
        dice = rng.random()
        if plain or dice < 0.5:
            return self._plain(text, scope, make, where, wanted)
        if dice < 0.8:
            return self._grouped(text, scope, make, where, wanted)
        if dice < 0.92:
            return self._distinct(text, scope, make, where, wanted)
        return self._window(text, scope, make, where, wanted)

    def _outputs(self, make: Expressions, scope: list[Relation], wanted: list[Type] | None) -> list[tuple[str, Type]]:
        rng = self.rng
        if wanted is not None:
            return [(make.of(t), t) for t in wanted]
        found = []
        if rng.random() < 0.05 and (row := shapes.whole_row(self, scope)):
            found.append(row)
        for _ in range(rng.randrange(1, 5)):
            if rng.random() < 0.65 and make.columns:
                column = rng.choice(make.columns)
                found.append((column.sql, column.type))
            else:
                of = self.output_type()
                found.append((make.of(of), of))
        return found

    def _query(self, outputs: list[tuple[str, Type]], head: str, tail: str, scope: list[Relation]) -> Query:
        names = [f"c{i}" for i in range(len(outputs))]
        listed = ", ".join(f"{sql} as {name}" for (sql, _), name in zip(outputs, names))
        key = next(((i, r.group) for i, (sql, _) in enumerate(outputs) for r in scope if r.key is not None and r.key.sql == sql), (None, -1))
        return Query(f"select {head}{listed}{tail}", [t for _, t in outputs], names, (), *key)

    def _plain(self, text, scope, make, where, wanted) -> Query:
        query = self._query(self._outputs(make, scope, wanted), "", f" from {text}{where}", scope)
        unique = scope[0].unique if len(scope) == 1 else []
        if self.rng.random() < 0.1 and wanted is None and (unique or make.columns):
            # By what is not shown; the first of them only where there are no equal ones.
            hidden = self.rng.choice(self._groupable(make) or [Column("true", BOOL)])
            query.sql += f" order by {', '.join(c.sql + self.rng.choice(['', ' desc', ' nulls first']) for c in [hidden, *unique])}"
            if unique:
                query.sql += self.rng.choice(["", f" limit {self.rng.randrange(6)}", f" limit {self.rng.randrange(1, 9)} offset {self.rng.randrange(4)}"])
            query.is_finished = True
        return query

    def _distinct(self, text, scope, make, where, wanted) -> Query:
        outputs = self._outputs(make, scope, wanted)
        if any(not t.has_order or not t.has_equality for _, t in outputs):
            return self._query(outputs, "", f" from {text}{where}", scope)
        self.context.any_of_equals = True
        if self.rng.random() < 0.3 and all(t.is_exact for _, t in outputs):
            # ON the first; which row stands for it is told by the order of all.
            order = ", ".join(f"{sql} {self.rng.choice(['', 'desc', 'nulls first', 'desc nulls last'])}".rstrip() for sql, _ in outputs)
            if all("\x01" not in sql and not sql.isdigit() for sql, _ in outputs):
                query = self._query(outputs, f"distinct on ({outputs[0][0]}) ", f" from {text}{where} order by {order}", scope)
                query.is_finished = True
                return query
        return self._query(outputs, "distinct ", f" from {text}{where}", scope)

    def _groupable(self, make: Expressions) -> list[Column]:
        return [c for c in make.columns if c.type.has_order and c.type.has_equality]

    def _grouped(self, text, scope, make, where, wanted) -> Query:
        rng = self.rng
        groupable = self._groupable(make)
        keyed = [r.key for r in scope if r.key is not None]
        by: list[tuple[str, Type]] = []
        for _ in range(rng.choices([0, 1, 2], [30, 50, 20])[0]):
            if keyed and rng.random() < 0.35:
                column = rng.choice(keyed)
                by.append((column.sql, column.type))
            elif groupable:
                column = rng.choice(groupable)
                by.append((column.sql, column.type))
        by = list(dict(by).items())
        if by:
            self.context.any_of_equals = True
        outputs: list[tuple[str, Type]] = []
        if wanted is not None:
            outputs = [self._aggregate_of(make, t, by) for t in wanted]
        else:
            outputs = [b for b in by if rng.random() < 0.85]
            outputs += [self._aggregate(make) for _ in range(rng.randrange(0 if outputs else 1, 4))]
        tail, is_finished = f" from {text}{where}", False
        if by:
            names = [sql for sql, _ in by]
            if len(scope) == 1:
                # A bare name may be that of an output column, too.
                names = [name.split(".", 1)[1].strip() if rng.random() < 0.4 and _QUALIFIED.fullmatch(name) else name for name in names]
            form = rng.random()
            if wanted is None and form < 0.25:
                tail += f" group by {rng.choice(['rollup', 'cube'])} ({', '.join(names)})"
            elif wanted is None and form < 0.33:
                tail += f" group by grouping sets (({', '.join(names)}), ({names[0]}), ())"
            else:
                tail += f" group by {', '.join(names)}"
            # PostgreSQL (15 to 18) does not sort by the second of two columns that a join equates, although sets leave out one of them.
            is_finished = "group by " + ", ".join(names) not in tail and len(names) > 1 and len(scope) > 1
        if rng.random() < 0.25:
            sql, of = self._aggregate(make)
            tail += f" having {sql} {'is not null' if not of.has_order else rng.choice(['is not null', 'is null'])}" if rng.random() < 0.5 else f" having count(*) {rng.choice(['>', '<', '>=', '<>'])} {rng.randrange(4)}"
        query = self._query(outputs, "", tail, scope)
        query.is_finished = is_finished
        return query

    def _aggregate_of(self, make: Expressions, of: Type, by: list[tuple[str, Type]]) -> tuple[str, Type]:
        for sql, its in by:
            if its == of and self.rng.random() < 0.6:
                return sql, of
        if of == INT8:
            return self.rng.choice(["count(*)", f"sum({make.of(INT4, 1)})"]), of
        if of.has_order and of.kind in ("int", "text", "num", "date", "timestamp", "timestamptz", "float"):
            self.context.any_of_equals = True
            return f"{self.rng.choice(['min', 'max'])}({make.of(of, 1)})" + ("::" + of.name if of.kind in ("text", "num") else ""), of
        if of == BOOL:
            return f"bool_or({make.condition(1)})", of
        return make._typed_constant(of), of

    def _aggregate(self, make: Expressions) -> tuple[str, Type]:
        """Aggregates whose value does not depend on the order of rows; those that do have an order of their own, by their whole argument."""
        rng = self.rng
        ints = make.of(INT4, 1)
        texts = make.of(TEXT, 1)
        any_column = rng.choice(self._groupable(make) or [Column("1", INT4)])
        sql, of, is_plain = rng.choice([
            ("count(*)", INT8, True), (f"count({ints})", INT8, True), (f"count(distinct {any_column.sql})", INT8, True), (f"sum({ints})", INT8, True), (f"avg({ints})", NUMERIC, True),
            (f"sum(distinct {ints})", INT8, True), (f"min({texts})", TEXT, True), (f"max({ints})", INT4, True), (f"max({any_column.sql})", any_column.type, True) if any_column.type.kind in ("int", "date", "timestamp", "timestamptz", "num", "float", "time", "interval") else ("count(*)", INT8, True),
            (f"string_agg({texts}, ',' order by {texts})", TEXT, True), (f"array_agg({ints} order by {ints} desc nulls first)", values.INTS, True), (f"array_agg(distinct {ints})", values.INTS, True), (f"bool_and({make.condition(1)})", BOOL, True),
            (f"every({make.condition(0)})", BOOL, True), (f"sum({make.of(NUMERIC, 1)})", NUMERIC, True), (f"bit_or({ints})", INT4, True), (f"stddev({ints})", NUMERIC, True), (f"avg({make.of(NUMERIC, 0)})", NUMERIC, True),
            (f"jsonb_agg({ints} order by {ints})", values.JSONB, True), (f"percentile_cont(0.5) within group (order by {ints})", values.FLOAT8, False), (f"mode() within group (order by {ints})", INT4, False), (f"string_agg(distinct {texts}, '%r0')", TEXT, True),
            (f"count(distinct ({ints}, {texts}))", INT8, True), (f"variance({ints})", NUMERIC, True), (f"sum({make.of(INT8, 0)} % 1000)", NUMERIC, True),
        ])
        if sql.startswith(("max", "min")):
            self.context.any_of_equals = True
        if is_plain and rng.random() < 0.12:
            sql += f" filter (where {make.condition(1)})"
        return sql, of

    def _window(self, text, scope, make, where, wanted) -> Query:
        rng = self.rng
        outputs = self._outputs(make, scope, wanted)
        if wanted is None and rng.random() < 0.5:
            more, clause = shapes.windows(self, make, scope)
            return self._query(outputs + more, "", f" from {text}{where}{clause}", scope)
        if wanted is None:
            partition = rng.choice(self._groupable(make) or [Column("1::int4", INT4)])
            keyed = [r.key for r in scope if r.key is not None]
            if keyed and rng.random() < 0.5:
                partition = rng.choice(keyed)
            over = f"partition by {partition.sql}" if rng.random() < 0.75 else ""
            ordered = rng.choice(self._groupable(make) or [Column("1::int4", INT4)])
            direction = rng.choice(["", " desc", " nulls first", " desc nulls last"])
            unique = scope[0].unique if len(scope) == 1 else []
            choices = [
                ("count(*)", INT8, ""), (f"sum({make.of(INT4, 1)})", INT8, ""), ("rank()", INT8, f" order by {ordered.sql}{direction}"), ("dense_rank()", INT8, f" order by {ordered.sql}{direction}"),
                (f"count({ordered.sql})", INT8, f" order by {ordered.sql}{direction}"), ("cume_dist()", values.FLOAT8, f" order by {ordered.sql}"),
            ]
            if unique:
                total = " order by " + ", ".join(c.sql for c in unique)
                choices += [("row_number()", INT8, total), (f"lag({make.of(INT4, 0)})", INT4, total), (f"first_value({make.of(TEXT, 0)})", TEXT, total), ("ntile(3)", INT4, total)]
            sql, of, order = rng.choice(choices)
            outputs.append((f"{sql} over ({over}{order})", of))
        return self._query(outputs, "", f" from {text}{where}", scope)

    # -- a statement

    def statement(self) -> Query:
        """A whole query: WITH, set operations, ORDER BY, LIMIT."""
        rng = self.rng
        head = ""
        if rng.random() < 0.15:
            parts = []
            for i in range(rng.choice([1, 1, 2])):
                name = f"w{i}" if rng.random() < 0.8 else values.ident(f"W {i}%r0")
                query = self._inner().select()
                parts.append(f"{name} ({', '.join(f'c{j}' for j in range(len(query.columns)))}) as {rng.choice(['', '', 'materialized ', 'not materialized '])}({query.sql})")
                self.ctes.append((name, query))
            head = f"with {', '.join(parts)} "
        if rng.random() < 0.12:
            query = self._set_operation()
        else:
            query = self.select()
        if not query.is_finished:
            self._finish(query)
        query.sql = head + query.sql
        return query

    def _arm(self, types: list[Type], depth: int) -> Query:
        if depth > 0 and self.rng.random() < 0.2:
            query = self._set_operation(types, depth - 1)
        else:
            query = self.select(types)
        if not query.is_finished and self.rng.random() < 0.15:
            self._finish(query)
        return query

    def _set_operation(self, types: list[Type] | None = None, depth: int = 1) -> Query:
        rng = self.rng
        types = types or [rng.choice([INT4, INT8, TEXT, NUMERIC, values.DATE]) for _ in range(rng.randrange(1, 4))]
        arms = [self._arm(types, depth) for _ in range(rng.choice([2, 2, 3]))]
        self.context.any_of_equals = True
        text = f"({arms[0].sql})"
        for arm in arms[1:]:
            text += f" {rng.choice(['union all', 'union all', 'union', 'intersect', 'except', 'except all', 'intersect all'])} ({arm.sql})"
        return Query(text, types, [f"c{i}" for i in range(len(types))])

    def _finish(self, query: Query) -> None:
        rng = self.rng
        orderable = [i for i, t in enumerate(query.columns) if t.has_order and t.has_equality]
        if not orderable or rng.random() < 0.45:
            return
        is_total = len(orderable) == len(query.columns) and all(t.is_exact for t in query.columns) and rng.random() < 0.6
        positions = list(orderable)
        rng.shuffle(positions)
        if not is_total:
            positions = positions[: rng.randrange(1, len(positions) + 1)]
        items = []
        for position in positions:
            what = rng.choice([str(position + 1), query.names[position]]) if query.names else str(position + 1)
            items.append(what + rng.choice(["", "", " desc", " asc nulls first", " desc nulls last"]))
        query.sql += f" order by {', '.join(items)}"
        query.ordered_by = tuple(positions)
        # Rows that are equal to ORDER BY may differ in what is seen of them.
        self.context.any_of_equals |= any(not query.columns[i].is_exact for i in positions)
        if is_total and rng.random() < 0.5:
            query.sql += f" limit {self.context.constant(str(rng.randrange(0, 8)), INT8)}" if rng.random() < 0.8 else f" fetch first {rng.randrange(1, 5)} rows only"
            if rng.random() < 0.3 and "fetch" not in query.sql[-30:]:
                query.sql += f" offset {rng.randrange(0, 5)}"
        elif rng.random() < 0.1 and not _is_of_extremes(query.sql):
            # All that are equal to the last.
            query.sql += f" fetch first {rng.randrange(1, 4)} rows with ties"


def _is_of_extremes(sql: str) -> bool:
    """PostgreSQL (15 to 18) reads min() and max() of all rows by a subquery that keeps WITH TIES: 21000 where several rows have that value."""
    return "group by" not in sql and re.search(r"\b(min|max) *\(", sql) is not None


class Subqueries:
    """Subqueries in expressions of one level."""

    def __init__(self, queries: Queries, scope: list[Relation]):
        self.queries, self.scope, self.rng = queries, scope, queries.rng

    def _inner(self, is_correlated: bool) -> Queries:
        inner = self.queries._inner([*self.queries.outer, *self.scope] if is_correlated else [])
        return inner

    def scalar(self, of: Type) -> str:
        rng = self.rng
        inner = self._inner(rng.random() < 0.6)
        text, scope = inner.source()
        make = inner.expressions(scope)
        if of == values.INTS:
            number = make.of(INT4, 1)
            return f"array(select {number} from {text}{inner.where(scope, make)} order by 1)"
        sql, _ = inner._aggregate_of(make, of, [])
        # Without an aggregate there may be several rows, and whether anybody looks is open.
        return f"(select {sql} from {text}{inner.where(scope, make)})" if sql[:3] in ("cou", "sum", "min", "max", "boo") else sql

    def condition(self, make: Expressions) -> str:
        rng = self.rng
        dice = rng.random()
        inner = self._inner(dice < 0.35 or rng.random() < 0.3)
        if dice < 0.35:
            return f"{rng.choice(['', 'not '])}exists ({inner.select(plain=True).sql})"
        keyed = [r for r in self.scope if r.key is not None]
        if keyed and rng.random() < 0.7:
            relation = rng.choice(keyed)
            left, table = relation.key, self.queries.pick_table(relation.group)
            text, found = inner.table_relation(table)
            right = found.key if found.key is not None and found.group == relation.group else next((c for c in found.columns if c.type.kind == left.type.kind), None)
            if right is not None:
                body = f"select {right.sql} from {text}{inner.where([found], inner.expressions([found]))}"
                return f"{left.sql} {self._any()} ({body})"
        column = make.column()
        if column is None or not column.type.has_equality or column.type.kind.startswith("composite"):
            return f"exists ({inner.select(plain=True).sql})"
        if rng.random() < 0.25:
            other = make.column(INT4)
            both = inner.select([column.type, INT4], plain=True).sql
            return f"({column.sql}, {other.sql if other else '1'}) {rng.choice(['in', 'not in', '= any'])} ({both})"
        body = inner.select([column.type], plain=True).sql
        return f"{column.sql} {self._any()} ({body})"

    def _any(self) -> str:
        return self.rng.choice(["in", "in", "in", "not in", "not in", "= any", "<> all", "= all", "<> any"])


def step(schema, rng, depth: int = 2) -> Step:
    """A query as a step."""
    context = Context(rng, schema)
    query = Queries(context, depth).statement()
    return Step(query.sql, mode=rng.choice(["simple", "extended", "binary", "prepared"]), params=tuple(context.params), types=tuple(context.types), ordered_by=query.ordered_by, any_of_equals=context.any_of_equals)
