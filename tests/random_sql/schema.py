"""Random tables: distributed in several colocation groups, reference and local ones, with odd names, all common types,
defaults, constraints, indexes and foreign keys. Says how to make and fill them, and keeps what statements need to know.
"""

import random
from collections.abc import Generator
from dataclasses import dataclass, field

from . import values
from .pair import Done
from .step import Step
from .values import Type, ident, literal, quoted

_NAMES = [
    "a", "b", "c", "v", "x", "val", "n", "data", "Mixed", "with space", 'qu"ote', "per%cent", "ünï", "select", "order", "user", "%now%", "%e0%", "%r0", "$1", "it's", "a.b", "x-y",
    "UPPER", "group", "1st", "q;", "/*c*/", "back\\s", "colon:x", "oid", "value", "key", "name", "id", "r0", "t0_0", "日本", "count",
]
_NAMES = values.tame(_NAMES)
ENUM, COMPOSITE, DOMAIN = Type("mood", "enum mood", is_key=True), Type("pair_of", "composite pair_of", is_key=False), Type("small", "domain small", is_key=False)


@dataclass
class Column:
    name: str
    type: Type
    not_null: bool = False
    # A default, identity or generated column: INSERT may leave it out.
    has_default: bool = False
    is_generated: bool = False
    is_serial: bool = False
    # GENERATED … AS IDENTITY: written by DEFAULT alone.
    is_identity: bool = False
    # The reference table it refers to.
    refers: "Table | None" = None

    @property
    def sql(self) -> str:
        return ident(self.name)


@dataclass
class Table:
    """`key`: the distribution key's column. `group`: tables of one group are colocated. `unique`: the primary key's columns, if any."""

    name: str
    place: str
    columns: list[Column]
    key: Column | None = None
    group: int = -1
    strategy: str = "hash"
    unique: list[Column] = field(default_factory=list)
    parent: "Table | None" = None
    sequences: list[str] = field(default_factory=list)
    has_trigger: bool = False
    is_view: bool = False
    # Of a view: which of equal values it shows is open.
    any_of_equals: bool = False
    constraints: list[str] = field(default_factory=list)

    @property
    def sql(self) -> str:
        return ident(self.name)

    @property
    def counts(self) -> bool:
        """Some of its values come from sequences."""
        return bool(self.sequences) or any(c.is_identity for c in self.columns)

    def writable(self) -> list[Column]:
        return [c for c in self.columns if not c.is_generated]


Steps = Generator[Step, Done, None]


class Schema:
    """The tables of one program, as they are now."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.tables: list[Table] = []
        self.views: list[Table] = []
        self.functions: list[tuple[str, str, str]] = []
        self._number = 0
        # A group's key type, its strategy and bounds.
        self.groups: list[tuple[Type, str, str]] = []

    def new_name(self, prefix: str) -> str:
        rng = self.rng
        self._number += 1
        if rng.random() < 0.45:
            return f"{prefix}{self._number}"
        odd = rng.choice(_NAMES)
        name = f"{prefix}{self._number}{odd}" if rng.random() < 0.5 else f"{odd}{self._number}"
        if rng.random() < 0.08:
            name = (name + "_" + "long" * 16)[: 63 - len(name.encode()) + len(name)]
        return name

    def _column_name(self, taken: set[str]) -> str:
        name = self.rng.choice(_NAMES)
        if name in taken:
            name = f"{name}{len(taken)}"
        taken.add(name)
        return name

    # -- the types, and the tables of each kind

    def create(self) -> Steps:
        rng = self.rng
        labels = ", ".join(map(quoted, values.ENUM_LABELS))
        yield self._setup(f"create type mood as enum ({labels})")
        yield self._setup("create type pair_of as (a int, b text)")
        yield self._setup("create domain small as int check (value between -5 and 100)")
        for _ in range(rng.choice([0, 1, 1])):
            yield from self._whole("reference")
        for number in range(rng.choice([1, 2, 2])):
            of = rng.choice([*values.KEYS, *values.KEYS, ENUM])
            strategy, bounds = "hash", ""
            if of.kind == "int" and rng.random() < 0.35:
                strategy, bounds = rng.choice([
                    ("range", "'FROM (MINVALUE) TO (2)', 'FROM (2) TO (6)', 'FROM (6) TO (MAXVALUE)', 'DEFAULT'"), ("list", "'IN (0, 1, 2, NULL)', 'IN (3, 4, 5)', 'DEFAULT'"),
                ])
            elif of.kind == "text" and rng.random() < 0.25:
                strategy, bounds = "list", "'IN ('''', ''A'', NULL)', 'IN (''$1'', ''k10'')', 'DEFAULT'"
            self.groups.append((of, strategy, bounds))
            for _ in range(rng.choice([1, 2, 2, 3])):
                yield from self._distributed(number)
        for _ in range(rng.choice([0, 1])):
            yield from self._whole("reference")
        for _ in range(rng.choice([0, 1, 1])):
            yield from self._whole("local")

    def _setup(self, sql: str, **more) -> Step:
        return Step(sql, setup=True, **more)

    def _distributed(self, group: int) -> Steps:
        rng = self.rng
        of, strategy, bounds = self.groups[group]
        first = next((t for t in self.tables if t.group == group), None)
        table = self._table("d", of)
        key = table.columns[0]
        table.place, table.key, table.group, table.strategy = "distributed", key, group, strategy
        definitions = self._unique(table, strategy)
        parents = [t for t in self.tables if t.group == group and t.unique == [t.key]]
        if parents and rng.random() < 0.35 and of.name == parents[0].key.type.name:
            table.parent = rng.choice(parents)
            action = rng.choice(["", " on delete cascade", " on delete cascade on update cascade"])
            definitions.append(f"foreign key ({key.sql}) references {table.parent.sql} ({table.parent.key.sql}){action}")
        more = f", colocate_with => {quoted(ident(first.name))}" if first else (f", strategy => {quoted(strategy)}, bounds => array[{bounds}]" if bounds else ", colocate_with => 'none'")
        # The column's name is read as it stands, without quotes.
        distribute = self._setup(f"select create_distributed_table({quoted(table.sql)}, {quoted(key.name)}{more})", herd_only=True)
        yield from self._made(table, definitions, distribute)

    def _whole(self, place: str) -> Steps:
        table = self._table(place[0], self.rng.choice(values.KEYS))
        table.place = place
        definitions = self._unique(table, "none")
        step = self._setup(f"select create_reference_table({quoted(table.sql)})", herd_only=True) if place == "reference" else None
        yield from self._made(table, definitions, step)

    def _table(self, prefix: str, key: Type) -> Table:
        rng = self.rng
        taken: set[str] = set()
        name = self._column_name(taken)
        if "case" in values.AVOID:
            name = name.lower()
            taken.add(name)
        columns = [Column(name, key)]
        for _ in range(rng.randrange(2, 7)):
            of = rng.choice([*values.COMMON, ENUM, COMPOSITE, DOMAIN])
            columns.append(Column(self._column_name(taken), of, not_null=rng.random() < 0.15))
        return Table(self.new_name(prefix), "local", columns)

    def _unique(self, table: Table, strategy: str) -> list[str]:
        """A primary key, that of the first column or of two, or none."""
        rng = self.rng
        key, *others = table.columns
        dice = rng.random()
        if dice < 0.4:
            table.unique = [key]
        elif dice < 0.6:
            candidates = [c for c in others if c.type.has_order and c.type.is_key]
            if candidates:
                table.unique = [key, rng.choice(candidates)]
        found = []
        if table.unique:
            for column in table.unique:
                column.not_null = True
            found.append(f"primary key ({', '.join(c.sql for c in table.unique)})")
        return found

    def _made(self, table: Table, definitions: list[str], distribute: Step | None) -> Steps:
        rng = self.rng
        columns = []
        for column in table.columns:
            text = f"{column.sql} {column.type.name}"
            if column is not table.key and column not in table.unique:
                text += self._column_extras(table, column)
            if column.not_null and column not in table.unique:
                text += " not null"
            columns.append(text)
        if rng.random() < 0.3:
            ints = [c for c in table.columns if c.type.kind == "int" and c is not table.key and c not in table.unique]
            if ints:
                columns.append(f"check ({ints[0].sql} is null or {ints[0].sql} <> 11)")
        for name in table.sequences:
            yield self._setup(f"create sequence {name}")
        splits = distribute is not None and "create_distributed_table" in distribute.sql
        parts = self._parts(table, definitions) if splits and rng.random() < 0.2 else []
        done = yield self._setup(f"create table {table.sql} ({', '.join(columns + definitions)})" + (parts[0] if parts else ""))
        if done.sqlstate:
            return
        for part in parts[1:]:
            yield self._setup(part)
        place, table.place = table.place, "local"
        self.tables.append(table)
        fill = self.fill(table, rng.randrange(4, 30))
        # A table may get its rows before it is distributed; not where these refer to rows that already are.
        if distribute and table.parent is None and rng.random() < 0.15:
            for step in fill:
                yield step
            fill = []
        if distribute:
            done = yield distribute
            if done.sqlstate:
                table.key, table.group = None, -1
            else:
                table.place = place
                # A group of several moduli, if none of its tables is one that can't be split.
                for _ in range(rng.choice([0, 0, 1, 2]) if table.unique and splits and table.strategy == "hash" else 0):
                    yield self._setup(f"select herd.split_shard({quoted(table.sql)}, {rng.randrange(4)})", herd_only=True)
        if rng.random() < 0.4:
            ordered = [c for c in table.columns if c.type.has_order and c.type.has_equality and not c.type.kind.startswith("composite")]
            if ordered:
                yield Step(f"create index on {table.sql} ({rng.choice(ordered).sql})", writes=True)
        for step in fill:
            yield step

    def _parts(self, table: Table, definitions: list[str]) -> list[str]:
        """What the table is partitioned by above its key, and its partitions, one of which every row is for. What is unique has the key."""
        rng = self.rng
        columns = [c for c in table.columns if c.type.kind == "int" and (c is table.key or not definitions and not table.unique)]
        if not columns:
            return []
        column, name = rng.choice(columns), table.sql.strip('"')
        if rng.random() < 0.5:
            bounds, by = [f"with (modulus 3, remainder {n})" for n in range(3)], "hash"
        else:
            bounds, by = ["from (minvalue) to (3)", "from (3) to (8)"], "range"
        made = [f'create table "{name}_part{n}" partition of {table.sql} for values {bound}' for n, bound in enumerate(bounds)]
        if by == "range":
            made.append(f'create table "{name}_part" partition of {table.sql} default')
        return [f" partition by {by} ({column.sql})", *made]

    def _column_extras(self, table: Table, column: Column) -> str:
        rng = self.rng
        dice = rng.random()
        if dice < 0.03 and column.type.kind == "int" and column.type.name != "int2":
            column.has_default = column.is_serial = column.is_identity = True
            column.not_null = False
            return f" generated {rng.choice(['always', 'by default'])} as identity"
        if dice < 0.08 and column.type.kind == "int" and column.type.name != "int2":
            column.has_default = column.is_serial = True
            column.not_null = False
            # Named, so that both sides can be told to go on from one number.
            name = f"seq_{self._number}_{len(table.sequences)}"
            table.sequences.append(name)
            return f" default nextval({quoted(name)})"
        if dice < 0.13 and column.type.kind in ("int", "text"):
            source = next((c for c in table.columns if c is not column and c.type.kind == column.type.kind and not c.is_generated and not c.is_serial), None)
            if source is not None:
                column.is_generated = column.has_default = True
                column.not_null = False
                formula = f"{source.sql} % 100" if column.type.kind == "int" else f"left({source.sql}, 20) || '%now%'"
                return f" generated always as (({formula})::{column.type.name}) {rng.choice(['stored', 'stored', 'virtual'])}"
        if dice < 0.17 and column.type.name == "text":
            return ' collate "C"'
        parents = [t for t in self.tables if t.place == "reference" and t.unique == [t.columns[0]] and t.columns[0].type == column.type]
        if parents and dice < 0.5 and table.place in ("distributed", "reference"):
            column.refers, column.not_null = rng.choice(parents), False
            return f" references {column.refers.sql} ({column.refers.columns[0].sql})"
        if dice < 0.3:
            column.has_default = True
            default = values.value(rng, column.type, 0.0)
            return f" default {literal(rng, default, column.type)}"
        return ""

    # -- rows

    def fill(self, table: Table, count: int) -> list[Step]:
        """INSERTs of so many rows, few enough in each that a row that is refused takes few others with it."""
        rng = self.rng
        steps = []
        while count > 0:
            size = min(count, rng.choice([1, 2, 6]) if table.parent or any(c.refers for c in table.columns) else rng.choice([3, 8, 20]))
            count -= size
            steps.append(self.insert(table, size))
        return steps

    def key_text(self, column: Column, null: float = 0.1) -> str | None:
        if self.rng.random() < null and not column.not_null:
            return None
        if column.type.kind.startswith("enum"):
            return self.rng.choice(values.ENUM_LABELS)
        return values.key_value(column.type, self.rng.randrange(14))

    def row_value(self, table: Table, column: Column) -> str | None:
        if column is table.columns[0]:
            return self.key_text(column)
        if column in table.unique:
            return values.value(self.rng, column.type, 0.0)
        if column.refers is not None:
            return None if self.rng.random() < 0.4 else self.key_text(column.refers.columns[0], 0.0)
        return values.value(self.rng, column.type, 0.0 if column.not_null else 0.12)

    def insert(self, table: Table, size: int) -> Step:
        rng = self.rng
        columns = [c for c in table.writable() if not c.is_identity and not (c.has_default and rng.random() < 0.5)]
        used: set[tuple] = set()
        rows = []
        for _ in range(size):
            row = [self.row_value(table, c) for c in columns]
            at = tuple(row[columns.index(c)] for c in table.unique if c in columns)
            if table.unique and at in used:
                continue
            used.add(at)
            rows.append("(" + ", ".join(literal(rng, v, c.type) for v, c in zip(row, columns)) + ")")
        conflict = " on conflict do nothing" if table.unique and rng.random() < 0.9 else ""
        names = ", ".join(c.sql for c in columns)
        return Step(f"insert into {table.sql} ({names}) values {', '.join(rows)}{conflict}", writes=True)
