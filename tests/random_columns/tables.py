"""Tables with column copies: how they are made and filled, and how their rows change behind the copy's back.

It does not know what is asked of them.
"""

import random
from dataclasses import dataclass

from random_sql.step import Step
from random_sql.values import literal, quoted

from .columns import COLLATED, COMPUTED, INT4, INT8, KEPT, LABELS, TEXT, UUID, VARCHAR, Column, value

_KEYS = [INT4, INT8, INT8, TEXT, VARCHAR, UUID]
_ROWS_AT_ONCE = 40
# A text that does not fit into its row: an UPDATE of other columns does not tell it again.
_LONG = "(select string_agg(md5(g::text), '') from generate_series({}, {}) g)"


@dataclass
class Table:
    """`unique`: the primary key, the distribution key first."""

    name: str
    columns: list[Column]
    unique: list[Column]
    # What its copy has.
    copied: list[Column]

    @property
    def key(self) -> Column:
        return self.unique[0]


class Tables:
    """Two colocated tables of one program, another one, and a reference table."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        key = Column("k", rng.choice(_KEYS))
        self._computed = COMPUTED + (COLLATED if rng.random() < 0.2 else [])
        self.all = [self._table("a", key), self._table("a2", key), self._table("o", Column("k", INT8))]
        self.reference = self._table("ref", Column("k", rng.choice([INT4, INT8])))
        self._next = 0

    def _table(self, name: str, key: Column) -> Table:
        rng = self.rng
        columns = [c for c in self._computed if rng.random() < 0.85] + [c for c in KEPT if rng.random() < 0.4]
        second = Column("k2", rng.choice([INT4, INT8, TEXT]))
        unique = [key, second] if rng.random() < 0.6 else [key]
        rng.shuffle(columns)
        columns = unique + columns
        copied = [c for c in columns if c in unique or rng.random() < 0.95] if rng.random() < 0.3 else columns
        return Table(name, columns, unique, copied)

    def made(self) -> list[Step]:
        """All of them, with rows and copies."""
        rng = self.rng
        steps = [
            self._setup(f"create type shade as enum ({', '.join(map(quoted, LABELS))})"), self._setup("create domain small as int check (value between -5 and 100)"),
            self._setup("create domain word as text"),
        ]  # fmt: skip
        for table in [*self.all, self.reference]:
            texts = [f"{c.sql} {c.type.name}{c.more}" for c in table.columns]
            unique = ", ".join(c.sql for c in table.unique)
            steps.append(self._setup(f"create table {table.name} ({', '.join(texts)}, primary key ({unique}))"))
            colocated = ", colocate_with => 'a'" if table.name == "a2" else ", colocate_with => 'none'"
            call = "create_reference_table('ref')" if table is self.reference else f"create_distributed_table('{table.name}', 'k'{colocated})"
            steps.append(self._setup(f"select {call}", herd_only=True))
            if rng.random() < 0.2:
                steps.append(self._setup(f"alter table {table.name} replica identity full"))
            steps += self.inserted(table, rng.randrange(100, 260) if table in self.all[:2] else 60)
        for table in [*self.all, self.reference]:
            order = rng.sample([c for c in table.copied if c in COMPUTED], rng.choice([0, 1, 2]))
            columns = f", columns => array[{', '.join(quoted(c.name) for c in table.copied)}]" if table.copied != table.columns else ""
            order_by = f", order_by => array[{', '.join(quoted(c.name) for c in order)}]" if order else ""
            steps.append(self._setup(f"select herd.add_column_copy('{table.name}'{columns}{order_by})", herd_only=True))
        return steps

    def _setup(self, sql: str, **more) -> Step:
        return Step(sql, setup=True, **more)

    # -- rows

    def _key_text(self, of, number: int) -> str:
        if of.kind == "int":
            return str(number)
        return f"{number:08x}-0000-4000-8000-000000000000" if of.kind == "uuid" else f"k{number}"

    def _row(self, table: Table, number: int) -> str:
        texts = []
        for column in table.columns:
            if column is table.key:
                text = self._key_text(column.type, number)
            elif column in table.unique:
                text = str(self.rng.randrange(3))
            else:
                text = value(self.rng, column.type)
            texts.append(literal(self.rng, text, column.type))
        return f"({', '.join(texts)})"

    def inserted(self, table: Table, count: int) -> list[Step]:
        steps = []
        if table is self.reference:
            # The integers of others are small.
            self._next = 0
        while count > 0:
            size = min(count, _ROWS_AT_ONCE)
            rows = [self._row(table, self._next + n) for n in range(size)]
            # Another table of the group has rows of the same keys.
            self._next = 0 if self._next > 400 else self._next + size
            steps.append(Step(f"insert into {table.name} ({', '.join(c.sql for c in table.columns)}) values {', '.join(rows)} on conflict do nothing", writes=True))
            count -= size
        return steps

    def _where(self, table: Table) -> str:
        rng = self.rng
        some = f"k = {quoted(self._key_text(table.key.type, rng.randrange(300)))}"
        among = f"k in ({', '.join(quoted(self._key_text(table.key.type, rng.randrange(300))) for _ in range(8))})"
        return rng.choice([some, some, among, among, "i = 7", "s = 2 and b", "t like 'a%'"])

    def change(self) -> list[Step]:
        """Rows of a copied table come, go, or are others."""
        rng = self.rng
        table = rng.choice([*self.all, self.reference])
        dice = rng.random()
        if dice < 0.2:
            return self.inserted(table, rng.choice([1, 2, 40]))
        if dice < 0.35:
            return [Step(f"delete from {table.name} where {self._where(table)}", writes=True)]
        if dice < 0.5:
            texts = [c for c in table.columns if c.type is TEXT and c not in table.unique]
            if texts:
                first = rng.randrange(1000)
                long = Step(f"update {table.name} set {rng.choice(texts).sql} = {_LONG.format(first, first + rng.choice([10, 300]))} where {self._where(table)}", writes=True)
                return [long, self._update(table)]
        if dice < 0.6 and len(table.unique) > 1:
            second = table.unique[1]
            to = f"{second.sql} + 10" if second.type.kind == "int" else f"{second.sql} || 'x'"
            return [Step(f"update {table.name} set {second.sql} = {to} where {self._where(table)}", writes=True)]
        if dice < 0.65:
            end = rng.choice(["commit", "rollback"])
            inside = [self._update(table), Step("savepoint p"), Step(f"delete from {table.name} where {self._where(table)}", writes=True), Step("rollback to p"), *self.inserted(table, 2)]
            return [Step("begin"), *inside, Step(end)]
        if dice < 0.67:
            gone = rng.choice([self.all[2], self.reference])
            return [Step(f"truncate {gone.name}", writes=True), *self.inserted(gone, 60)]
        return [self._update(table)]

    def _update(self, table: Table) -> Step:
        rng = self.rng
        others = [c for c in table.columns if c not in table.unique]
        chosen = rng.sample(others, rng.choice([1, 2, 3]))
        sets = ", ".join(f"{c.sql} = {literal(rng, value(rng, c.type), c.type)}" for c in chosen)
        return Step(f"update {table.name} set {sets} where {self._where(table)}", writes=True)
