"""Random INSERT, UPDATE, DELETE, MERGE, TRUNCATE and COPY whose effect is determined: what joins a row to change is unique."""

from . import values, wide_writes
from .expressions import Column, Context, Expressions, Relation
from .queries import Queries
from .schema import Schema, Table
from .step import Step


class Writes:
    def __init__(self, rng, schema: Schema):
        self.rng, self.schema = rng, schema

    def step(self) -> Step:
        rng = self.rng
        make = rng.choices(
            [self.insert, self.insert_select, self.upsert, self.update, self.update_from, self.delete, self.delete_using, self.merge, self.copy_in, self.truncate, self.with_write, self._wide],
            [22, 10, 10, 18, 10, 8, 8, 6, 8, 1, 5, 18],
        )[0]
        return make(self._table())

    def _wide(self, table: Table) -> Step:
        made = [wide_writes.merge_insert, wide_writes.update_listed, wide_writes.update_several, wide_writes.insert_computed, wide_writes.chained, wide_writes.in_turn]
        return self.rng.choice(made)(self, table)

    def _table(self) -> Table:
        tables = self.schema.tables
        return self.rng.choice([t for t in tables for _ in range({"distributed": 5, "reference": 3, "local": 1}[t.place])])

    def _sent(self, context: Context, sql: str, **more) -> Step:
        mode = self.rng.choice(["simple", "extended", "binary", "prepared"])
        return Step(sql, mode=mode, params=tuple(context.params), types=tuple(context.types), any_of_equals=context.any_of_equals, writes=True, **more)

    def _context(self) -> Context:
        return Context(self.rng, self.schema)

    def _relation(self, table: Table, alias: str) -> Relation:
        columns = [Column(f"{alias}.{c.sql}", c.type) for c in table.columns]
        at = {id(c): made for c, made in zip(table.columns, columns)}
        return Relation(alias, columns, table, at.get(id(table.key)), table.group, [at[id(c)] for c in table.unique])

    def _value(self, context: Context, table: Table, column) -> str:
        if column.is_identity or (column.has_default and self.rng.random() < 0.3):
            return "default"
        return context.constant(self.schema.row_value(table, column), column.type)

    def _returning(self, context: Context, relation: Relation) -> str:
        rng = self.rng
        if rng.random() < 0.6:
            return ""
        if rng.random() < 0.4:
            return " returning *"
        make = Expressions(context, [relation])
        items = [make.of(rng.choice([values.INT4, values.TEXT, values.BOOL])) for _ in range(rng.randrange(1, 3))]
        return f" returning {', '.join(items)}" if rng.random() < 0.7 else f" returning {relation.columns[0].sql} as \"%r0\", {items[0]}"

    def _rows(self, context: Context, table: Table, counts: list[int]) -> str:
        """Columns and VALUES of an INSERT."""
        rng = self.rng
        columns = [c for c in table.writable() if not (c.has_default and rng.random() < 0.4)]
        rows = [f"({', '.join(self._value(context, table, c) for c in columns)})" for _ in range(rng.choice(counts))]
        return f"({', '.join(c.sql for c in columns)}) values {', '.join(rows)}"

    def insert(self, table: Table) -> Step:
        rng, context = self.rng, self._context()
        alias = " as n" if rng.random() < 0.3 else ""
        relation = self._relation(table, "n" if alias else table.sql)
        conflict = " on conflict do nothing" if rng.random() < 0.3 else ""
        rows = self._rows(context, table, [1, 1, 1, 2, 3, 5])
        return self._sent(context, f"insert into {table.sql}{alias} {rows}{conflict}{self._returning(context, relation)}")

    def insert_select(self, table: Table) -> Step:
        # Which row gets which value of a sequence is open, and of an identity column nothing else is taken.
        if any(c.is_identity for c in table.columns):
            return self.insert(table)
        rng, context = self.rng, self._context()
        columns = [c for c in table.writable() if (not c.has_default or c.is_serial or rng.random() < 0.5) and not c.is_identity]
        queries = Queries(context, 1)
        if rng.random() < 0.6:
            query = queries.select([c.type for c in columns], plain=True)
            select = query.sql
        else:
            source, relation = queries.table_relation(queries.pick_table(table.group))
            make = Expressions(context, [relation])
            outputs = []
            for i, c in enumerate(columns):
                if i == 0 and relation.key is not None and relation.key.type == c.type:
                    outputs.append(relation.key.sql)
                else:
                    outputs.append(make.of(c.type, 1))
            select = f"select {', '.join(outputs)} from {source}{queries.where([relation], make)}"
        names = ", ".join(c.sql for c in columns)
        # Of rows that conflict with each other, which one comes first is open.
        conflict = " on conflict do nothing" if not table.unique else ""
        context.any_of_equals = True
        return self._sent(context, f"insert into {table.sql} ({names}) {select}{conflict}")

    def upsert(self, table: Table) -> Step:
        rng, context = self.rng, self._context()
        if not table.unique:
            return self.insert(table)
        target = ", ".join(c.sql for c in table.unique)
        others = [c for c in table.writable() if c not in table.unique and not c.is_identity]
        head = f"insert into {table.sql} as n {self._rows(context, table, [1, 1, 2, 3])} on conflict ({target}) do "
        if not others or rng.random() < 0.2:
            return self._sent(context, head + "nothing")
        make = Expressions(context, [self._relation(table, "n")])
        settings = []
        for column in rng.sample(others, min(len(others), rng.randrange(1, 3))):
            value = rng.choice([f"excluded.{column.sql}", f"excluded.{column.sql}", make.of(column.type, 1), self._value(context, table, column)])
            settings.append(f"{column.sql} = {value}")
        where = f" where {make.condition(1)}" if rng.random() < 0.25 else ""
        return self._sent(context, f"{head}update set {', '.join(settings)}{where}{self._returning(context, self._relation(table, 'n'))}")

    def _settings(self, context: Context, table: Table, make: Expressions) -> str:
        rng = self.rng
        others = [c for c in table.writable() if c is not table.columns[0] and c not in table.unique and not c.is_identity]
        if not others or rng.random() < 0.12:
            others = [table.columns[0]]
        settings = []
        for column in rng.sample(others, min(len(others), rng.randrange(1, 4))):
            value = make.of(column.type, 1) if rng.random() < 0.5 and column not in table.unique else self._value(context, table, column)
            settings.append(f"{column.sql} = {value}")
        return ", ".join(settings)

    def _where(self, context: Context, table: Table, relation: Relation, make: Expressions) -> str:
        rng = self.rng
        if relation.key is not None and rng.random() < 0.5:
            text = f"{relation.key.sql} = {context.constant(self.schema.key_text(table.key, 0.03), table.key.type)}"
            return f" where {text}" + (f" and {make.condition(1)}" if rng.random() < 0.3 else "")
        return f" where {make.condition(2)}" if rng.random() < 0.9 else ""

    def _make(self, context: Context, relation: Relation) -> Expressions:
        if self.rng.random() < 0.45:
            return Queries(context, 1).expressions([relation])
        return Expressions(context, [relation])

    def update(self, table: Table) -> Step:
        context = self._context()
        alias = context.alias() if self.rng.random() < 0.5 else table.sql
        relation = self._relation(table, alias)
        make = self._make(context, relation)
        settings = self._settings(context, table, make)
        name = table.sql if alias == table.sql else f"{table.sql} {alias}"
        where = self._where(context, table, relation, make)
        returning = self._returning(context, relation)
        if self.rng.random() < 0.08:
            column = self.rng.choice(table.columns)
            returning = f" returning old.{column.sql} as o, new.{column.sql} as n"
        return self._sent(context, f"update {name} set {settings}{where}{returning}")

    def update_from(self, table: Table) -> Step:
        """The other side is joined by its primary key, so that a row meets one row at most."""
        rng, context = self.rng, self._context()
        joined = self._unique_join(context, table)
        if joined is None:
            return self.update(table)
        source, on, relation, other = joined
        make = Expressions(context, [relation, other])
        settings = self._settings(context, table, make)
        more = f" and {make.condition(1)}" if rng.random() < 0.4 else ""
        return self._sent(context, f"update {table.sql} u set {settings} from {source} where {on}{more}{self._returning(context, relation)}")

    def _unique_join(self, context: Context, table: Table, alias: str = "u"):
        rng = self.rng
        relation = self._relation(table, alias)
        candidates = []
        for other in self.schema.tables:
            if len(other.unique) != 1:
                continue
            for column in relation.columns:
                if column.type.kind == other.unique[0].type.kind:
                    is_key = relation.key is column and other.group == table.group
                    # Rows that are not joined by the key are read beforehand, the table's own among them.
                    candidates += [(other, column)] * (3 if is_key else 1)
        if not candidates:
            return None
        other, column = rng.choice(candidates)
        source, joined = Queries(context, 0).table_relation(other)
        return source, f"{column.sql} = {joined.unique[0].sql}", relation, joined

    def delete(self, table: Table) -> Step:
        context = self._context()
        relation = self._relation(table, table.sql)
        make = self._make(context, relation)
        where = self._where(context, table, relation, make)
        return self._sent(context, f"delete from {table.sql}{where or ' where ' + make.condition(1)}{self._returning(context, relation)}")

    def delete_using(self, table: Table) -> Step:
        context = self._context()
        joined = self._unique_join(context, table)
        if joined is None:
            return self.delete(table)
        source, on, relation, other = joined
        condition = Expressions(context, [relation, other]).condition(1)
        return self._sent(context, f"delete from {table.sql} u using {source} where {on} and {condition}{self._returning(context, relation)}")

    def merge(self, table: Table) -> Step:
        rng, context = self.rng, self._context()
        joined = self._unique_join(context, table)
        if joined is None:
            return self.update(table)
        source, on, relation, other = joined
        make = Expressions(context, [relation, other])
        others = [c for c in table.writable() if c not in table.unique and c is not table.columns[0] and not c.is_identity]
        clauses = []
        if rng.random() < 0.3:
            clauses.append(f"when matched and {make.condition(1)} then delete")
        if others:
            clauses.append(f"when matched then update set {others[0].sql} = {make.of(others[0].type, 1)}")
        if not clauses or rng.random() < 0.3:
            clauses.append("when matched then do nothing")
        # Rows that come must say by ON where they go.
        if table.unique == [table.columns[0]] and on.startswith(f"{relation.columns[0].sql} = ") and rng.random() < 0.5 and not table.counts:
            given = [c for c in table.writable() if c is not table.columns[0] and not c.is_identity and (c.not_null or rng.random() < 0.5)]
            key = on.partition(" = ")[2]
            values_given = [context.constant(self.schema.row_value(table, c), c.type) for c in given]
            only = f" and {Expressions(context, [other]).condition(1)}" if rng.random() < 0.3 else ""
            columns = ", ".join(c.sql for c in [table.columns[0], *given])
            clauses.append(f"when not matched{only} then insert ({columns}) values ({', '.join([key, *values_given])})")
        pin = ""
        if relation.key is not None and rng.random() < 0.4:
            pin = f" and {relation.key.sql} = {context.constant(self.schema.key_text(table.key, 0), table.key.type)}"
        return self._sent(context, f"merge into {table.sql} u using {source} on {on}{pin} {' '.join(clauses)}")

    def copy_in(self, table: Table) -> Step:
        rng = self.rng
        columns = [c for c in table.writable() if not c.is_identity and not (c.has_default and rng.random() < 0.5)]
        rows = [[self.schema.row_value(table, c) for c in columns] for _ in range(rng.randrange(0, 6))]
        form = rng.choice(["text", "csv", "csv header"])
        names = ", ".join(c.sql for c in columns)
        if form == "text":
            def escaped(v):
                return "\\N" if v is None else v.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
            data = "".join("\t".join(map(escaped, row)) + "\n" for row in rows)
            return Step(f"copy {table.sql} ({names}) from stdin", data=data, writes=True)
        def csv(v):
            return "" if v is None else '"' + v.replace('"', '""') + '"'
        data = "".join(",".join(map(csv, row)) + "\n" for row in rows)
        if form == "csv header":
            data = ",".join(csv(c.name) for c in columns) + "\n" + data
        return Step(f"copy {table.sql} ({names}) from stdin (format csv{', header' if 'header' in form else ''})", data=data, writes=True)

    def truncate(self, table: Table) -> Step:
        return Step(f"truncate {table.sql}{self.rng.choice(['', ' cascade', ' restart identity cascade' if not table.counts else ' cascade'])}", writes=True)

    def with_write(self, table: Table) -> Step:
        """A write inside WITH."""
        rng = self.rng
        if "with" in values.AVOID:
            return self.insert(table)
        inner = rng.choice([self.insert, self.update, self.delete])(table)
        sql = inner.sql.split(" returning ")[0] + " returning *"
        return Step(f"with w as ({sql}) select count(*) from w", mode=inner.mode, params=inner.params, types=inner.types, any_of_equals=inner.any_of_equals, writes=True)


def copy_out(rng, schema: Schema) -> Step:
    table = rng.choice(schema.tables)
    if rng.random() < 0.5:
        return Step(f"copy {table.sql} to stdout" + rng.choice(["", " (format csv)", " (format csv, header)", " (format csv, force_quote *)"]))
    context = Context(rng, schema)
    query = Queries(context, 1).select()
    return Step(f"copy ({query.sql}) to stdout", params=tuple(context.params), types=tuple(context.types), any_of_equals=context.any_of_equals)
