"""A random program: a schema, then reads, writes, transactions, cursors, prepared statements, views, functions and DDL.

`steps` is a Python generator that is told what came of each step, since what succeeded decides what exists. Locks are
never waited for: while one session has a transaction open, the other only reads.
"""

import random
from collections.abc import Generator
from dataclasses import replace
from functools import partial

from . import queries, sessions, shapes, values
from .expressions import Context, Expressions
from .pair import Done
from .queries import Queries
from .schema import Column, Schema, Table
from .step import Step
from .values import INT4, TEXT, ident, literal
from .writes import Writes, copy_out

Steps = Generator[Step, Done, None]
_SETTINGS = ["herd.coalesce", "herd.multiplex", "herd.snapshot", "herd.broadcast", "herd.shuffle"]


class Program:
    def __init__(self, seed: str):
        self.rng = random.Random(seed)
        self.schema = Schema(self.rng)
        self.writes = Writes(self.rng, self.schema)
        self._number = 0

    def steps(self, statements: int) -> Steps:
        """The schema, then about so many statements."""
        for step in self._settings(0) + self._settings(1):
            yield step
        for session in (0, 1):
            if self.rng.random() < 0.25:
                yield from sessions.settings(self, session)
        yield from self.schema.create()
        if not self.schema.tables:
            return
        done = 0
        kinds = [
            (self._read, 42), (self._write, 26), (self._transaction, 8), (self._ddl, 4), (self._view, 3), (self._prepare, 3), (self._cursor, 3), (self._function, 3), (self._copy, 2),
            (self._lock, 1), (self._through_view, 3), (self._recursive, 1), (self._change_settings, 1), (self._values, 1), (self._trigger, 1), (self._crowd, 2), (self._every_way, 3), (self._by_template, 4), (self._create_as, 1),
        ]
        kinds += [(partial(make, self), weight) for make, weight in (
            (sessions.changed_settings, 2), (sessions.several_in_one, 3), (sessions.cursors, 2), (sessions.current_row, 1), (sessions.block, 1), (sessions.policies, 1),
        )]
        while done < statements:
            make = self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
            done += yield from make()

    def _settings(self, session: int) -> list[Step]:
        return [
            Step(f"set {name} = {self.rng.choice(['on', 'off'])}", session=session, herd_only=True) for name in _SETTINGS if self.rng.random() < 0.4
        ]

    def _name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}" if self.rng.random() < 0.6 else f"{self.rng.choice(['%r0', 'Odd', 'a b', 'ü', 'select'])}{prefix}{self._number}"

    # -- one statement each

    def _read(self) -> Generator[Step, Done, int]:
        step = queries.step(self.schema, self.rng)
        yield step
        if self.rng.random() < 0.12:
            # The same by another protocol.
            yield replace(step, mode=self.rng.choice(["simple", "extended", "binary", "prepared"]), session=1)
            return 2
        return 1

    def _write(self) -> Generator[Step, Done, int]:
        yield replace(self.writes.step(), session=self.rng.choice([0, 0, 0, 1]))
        return 1

    def _create_as(self) -> Generator[Step, Done, int]:
        """A table of a query's rows."""
        context = Context(self.rng, self.schema)
        query = Queries(context, 1).select()
        if context.any_of_equals:
            # What is stored is compared as it is.
            return 0
        name = ident(self._name("ctas"))
        names = ", ".join(f"c{i}" for i in range(len(query.columns)))
        done = yield Step(f"create table {name} ({names}) as {query.sql}", mode=self.rng.choice(["simple", "extended"]), params=tuple(context.params), types=tuple(context.types), writes=True)
        if not done.sqlstate:
            yield Step(f"drop table {name}", writes=True)
        return 2

    def _copy(self) -> Generator[Step, Done, int]:
        yield copy_out(self.rng, self.schema)
        return 1

    def _change_settings(self) -> Generator[Step, Done, int]:
        for step in self._settings(0):
            yield step
        return 0

    def _values(self) -> Generator[Step, Done, int]:
        rows = ", ".join(f"({self.rng.randrange(9)}, {literal(self.rng, values.value(self.rng, TEXT), TEXT)})" for _ in range(self.rng.randrange(1, 4)))
        yield Step(f"values {rows} order by 1, 2", mode=self.rng.choice(["simple", "extended"]))
        return 1

    def _lock(self) -> Generator[Step, Done, int]:
        rng = self.rng
        table = rng.choice(self.schema.tables)
        context = Context(rng, self.schema)
        source, relation = Queries(context, 0).table_relation(table)
        where = Queries(context, 0).where([relation], Expressions(context, [relation]))
        how = rng.choice(["for update", "for share", "for no key update", "for key share", "for update skip locked", "for update nowait"])
        yield Step(f"select * from {source}{where} {how}", mode=rng.choice(["simple", "extended"]), params=tuple(context.params), types=tuple(context.types))
        return 1

    def _recursive(self) -> Generator[Step, Done, int]:
        rng = self.rng
        if rng.random() < 0.6:
            context = Context(rng, self.schema)
            sql = shapes.recursive(Queries(context, 1))
            yield Step(sql, mode=rng.choice(["simple", "extended"]), params=tuple(context.params), types=tuple(context.types), ordered_by=(0,))
            return 1
        table = rng.choice(self.schema.tables)
        ints = [c for c in table.columns if c.type == INT4]
        # From the least number it would take for ever.
        source = f"select {ints[0].sql} from {table.sql} where {ints[0].sql} > -9" if ints and rng.random() < 0.5 else "values (1)"
        yield Step(f"with recursive n (x) as ({source} {rng.choice(['union', 'union all'])} select x + 1 from n where x < 6) select x, count(*) from n group by x order by x", ordered_by=(0,))
        return 1

    def _every_way(self) -> Generator[Step, Done, int]:
        """One read by each protocol, with settings that must not show, planned and from the cache of plans, in a transaction."""
        rng = self.rng
        step = queries.step(self.schema, rng)
        for mode in ("simple", "simple", "extended", "binary", "prepared", "prepared"):
            for name in _SETTINGS:
                if rng.random() < 0.5:
                    yield Step(f"set {name} = {rng.choice(['on', 'off'])}", session=1, herd_only=True)
            yield replace(step, mode=mode, session=1)
        yield Step("begin" + rng.choice(["", " isolation level repeatable read", " read only"]), session=1)
        yield replace(step, session=1)
        yield Step("rollback", session=1)
        return 9

    def _by_template(self) -> Generator[Step, Done, int]:
        """Statements that differ in their constants only, by the plan that is kept for all of them, and each with a comment of its own:
        white space and comments are part of what a plan is kept by, so that text is planned by itself. Both must answer as PostgreSQL."""
        rng, done = self.rng, 0
        for step in self._of_one_template():
            yield step
            self._number += 1
            own = f"/* {self._number} */"
            if step.writes:
                # A second time it meets its own row, or none.
                yield replace(step, sql=f"{step.sql} {own}")
            else:
                yield replace(step, sql=rng.choice([f"{own} {step.sql}", f"{step.sql} {own}"]))
            done += 2
        return done

    def _of_one_template(self) -> list[Step]:
        rng = self.rng
        tables = [t for t in self.schema.tables if t.unique == [t.columns[0]] and not t.counts and not t.columns[0].type.kind.startswith("enum")]
        if not tables or rng.random() < 0.4:
            # Parameters that are sent as constants: other values of their types.
            step = replace(queries.step(self.schema, rng), mode="simple")
            types = [values.NAMED.get(name) for name in step.types]
            if not step.params or None in types:
                return [step]
            return [step, *(replace(step, params=tuple(values.value(rng, of) for of in types)) for _ in range(3))]
        table = rng.choice(tables)
        key, written = table.columns[0], [c for c in table.writable() if c is not table.columns[0] and c.refers is None]
        # One for all: what is around the constants must be the same to the byte.
        form = rng.choice(["select", "several", "range", "update", "delete"])
        cast = rng.choice(["", "", f"::{key.type.name}"])

        def sql(constant: str, other: str) -> str:
            if form == "several":
                return f"select * from {table.sql} where {key.sql} in ({constant}{cast}, {other}{cast})"
            if form == "range":
                return f"select count(*), min({constant}{cast}) from {table.sql} where {key.sql} = {constant}{cast} or {key.sql} <> {other}{cast}"
            if form == "update" and written:
                return f"update {table.sql} set {written[0].sql} = {written[0].sql} where {key.sql} = {constant}{cast} returning {key.sql}"
            if form == "delete":
                return f"delete from {table.sql} where {key.sql} = {constant}{cast} returning *"
            return f"select * from {table.sql} where {key.sql} = {constant}{cast}"

        numbers = [rng.randrange(20) for _ in range(6)]
        constants = [values.quoted(values.key_value(key.type, n)) for n in numbers]
        writes = form in ("update", "delete")
        return [Step(sql(one, other), writes=writes) for one, other in zip(constants, constants[1:])]

    def _crowd(self) -> Generator[Step, Done, int]:
        """Statements of one row each, every one of another key, that several clients send at once."""
        rng = self.rng
        tables = [t for t in self.schema.tables if t.unique == [t.columns[0]] and not t.counts]
        if not tables:
            return 0
        table = rng.choice(tables)
        key, others = table.columns[0], [c for c in table.writable() if c is not table.columns[0] and c.refers is None]
        numbers = list(range(30))
        rng.shuffle(numbers)
        for number in numbers[: rng.randrange(8, 25)]:
            context = Context(rng, self.schema)
            if key.type.kind.startswith("enum"):
                continue
            text = values.key_value(key.type, number)
            this = values.quoted(text) if rng.random() < 0.3 else context.constant(text, key.type)
            sql = rng.choice(["select", "insert", "insert", "update", "delete"])
            if sql == "select":
                sql = f"select * from {table.sql} where {key.sql} = {this}"
            elif sql == "delete":
                sql = f"delete from {table.sql} where {key.sql} = {this}{rng.choice(['', ' returning *'])}"
            elif sql == "update" and others:
                sql = f"update {table.sql} set {others[0].sql} = {context.constant(self.schema.row_value(table, others[0]), others[0].type)} where {key.sql} = {this}{rng.choice(['', '', ' returning *'])}"
            else:
                listed = [c for c in others if not c.has_default or rng.random() < 0.5]
                made = ", ".join([this, *(context.constant(self.schema.row_value(table, c), c.type) for c in listed)])
                sql = f"insert into {table.sql} ({', '.join(c.sql for c in [key, *listed])}) values ({made}){rng.choice(['', ' on conflict do nothing', ' returning *'])}"
            yield Step(sql, mode=rng.choice(["simple", "extended", "prepared"]), params=tuple(context.params), types=tuple(context.types), writes=True, together=True)
        yield Step(f"select count(*) from {table.sql}", writes=True)
        return 20

    # -- transactions

    def _transaction(self) -> Generator[Step, Done, int]:
        rng = self.rng
        level = rng.choice(["", "", "", " isolation level repeatable read", " isolation level serializable", " read only"])
        yield Step(rng.choice(["begin", "start transaction"]) + level)
        savepoints: list[str] = []
        count = rng.randrange(2, 8)
        for _ in range(count):
            dice = rng.random()
            if dice < 0.2:
                savepoints.append(rng.choice(["s1", "s2", '"S %r0"']))
                yield Step(f"savepoint {savepoints[-1]}")
                continue
            if dice < 0.28 and savepoints:
                yield Step(f"{rng.choice(['rollback to savepoint', 'release savepoint', 'rollback to'])} {savepoints[-1]}")
                continue
            if dice < 0.36:
                # Sees what is committed, and waits for nobody.
                yield replace(queries.step(self.schema, rng, 1), session=1)
                continue
            if dice < 0.66:
                step = self.writes.step()
                if step.sql.startswith("truncate"):
                    continue
            else:
                step = queries.step(self.schema, rng, 1)
            done = yield step
            if done.sqlstate:
                if not savepoints:
                    break
                yield Step(f"rollback to savepoint {savepoints[-1]}")
            elif step.writes and rng.random() < 0.5:
                table = next((t for t in self.schema.tables if t.sql in step.sql), None)
                if table:
                    yield Step(f"select * from {table.sql}")
        yield Step(rng.choice(["commit", "commit", "end", "rollback"]), writes=True)
        return count

    def _cursor(self) -> Generator[Step, Done, int]:
        rng = self.rng
        context = Context(rng, self.schema)
        query = Queries(context, 1).statement()
        is_total = len(query.ordered_by) == len(query.columns)
        yield Step("begin")
        done = yield Step(f"declare c1 {rng.choice(['', 'no scroll '])}cursor for {query.sql}", params=tuple(context.params), types=tuple(context.types), any_of_equals=context.any_of_equals)
        if not done.sqlstate:
            fetches = rng.choice([["fetch 2 from c1", "fetch next from c1", "fetch all from c1", "fetch 1 from c1"], ["fetch forward 3 from c1", "move 1 in c1", "fetch all in c1"], ["fetch all from c1"]]) if is_total else ["fetch all from c1"]
            for sql in fetches:
                ordered = query.ordered_by if sql.startswith("fetch") else ()
                yield Step(sql, ordered_by=ordered, any_of_equals=context.any_of_equals, mode=rng.choice(["simple", "extended"]))
            yield Step("close c1")
        yield Step("commit", writes=True)
        return 4

    def _prepare(self) -> Generator[Step, Done, int]:
        """SQL's own PREPARE, executed with several values."""
        rng = self.rng
        name = ident(self._name("p"))
        table = rng.choice(self.schema.tables)
        column = table.columns[0]
        others = [c for c in table.writable() if c is not column and c not in table.unique and not c.is_identity]
        dice = rng.random()
        more = others[0] if others else column
        declared = f" ({column.type.name}, {more.type.name})" if rng.random() < 0.6 else ""
        if dice < 0.4 or not others:
            sql, writes, declared = f"select * from {table.sql} where {column.sql} = $1", False, f" ({column.type.name})" if declared else ""
        elif dice < 0.7:
            sql, writes = f"update {table.sql} set {more.sql} = $2 where {column.sql} = $1", True
        else:
            sql, writes = f"insert into {table.sql} ({column.sql}, {more.sql}) values ($1, $2)" + rng.choice(["", " on conflict do nothing"]), True
        done = yield Step(f"prepare {name}{declared} as {sql}")
        if done.sqlstate:
            return 1
        for _ in range(rng.randrange(1, 4)):
            arguments = [literal(rng, self.schema.row_value(table, column), column.type)]
            if writes:
                arguments.append(literal(rng, self.schema.row_value(table, more), more.type))
            yield Step(f"execute {name} ({', '.join(arguments)})", writes=writes)
        yield Step(f"deallocate {name}")
        return 4

    # -- objects

    def _view(self) -> Generator[Step, Done, int]:
        rng = self.rng
        if len(self.schema.views) > 4:
            view = rng.choice(self.schema.views)
            done = yield Step(f"drop view {view.sql}", writes=True)
            if not done.sqlstate:
                self.schema.views.remove(view)
            return 1
        name = self._name("v")
        context = Context(rng, self.schema)
        if rng.random() < 0.5:
            table = rng.choice(self.schema.tables)
            columns = [c for c in table.columns if c is table.columns[0] or rng.random() < 0.7]
            check = rng.choice(["", "", " with check option", " with local check option"])
            condition = ""
            if rng.random() < 0.5:
                numbers = [c for c in columns if c.type.kind == "int"]
                condition = f" where {numbers[0].sql} < 9" if numbers else f" where {columns[0].sql} is not null"
            sql = f"create view {ident(name)} as select {', '.join(c.sql for c in columns)} from {table.sql}{condition}{check if condition else ''}"
            view = Table(name, table.place, [Column(c.name, c.type, c.not_null, c.has_default, c.is_generated, c.is_serial, c.is_identity) for c in columns], group=table.group, strategy=table.strategy)
            view.is_view = True
            if table.key is not None and table.key is columns[0]:
                view.key = view.columns[0]
            view.parent = table
        else:
            query = Queries(context, 1).select()
            names = [f"c{i}" for i in range(len(query.columns))]
            sql = f"create view {ident(name)} ({', '.join(names)}) as {query.sql}"
            view = Table(name, "distributed" if query.key is not None else "reference", [Column(n, t) for n, t in zip(names, query.columns)], group=query.group)
            view.is_view = True
            view.any_of_equals = context.any_of_equals
            view.key = view.columns[query.key] if query.key is not None else None
        done = yield Step(sql, params=tuple(context.params), types=tuple(context.types), writes=True)
        if not done.sqlstate:
            self.schema.views.append(view)
            yield Step(f"select * from {view.sql}", any_of_equals=context.any_of_equals)
        return 2

    def _through_view(self) -> Generator[Step, Done, int]:
        """A write through a view of one table."""
        simple = [v for v in self.schema.views if v.parent is not None]
        if not simple or "views" in values.AVOID:
            return 0
        view = self.rng.choice(simple)
        make = self.rng.choice([self.writes.insert, self.writes.update, self.writes.delete])
        yield make(view)
        return 1

    def _function(self) -> Generator[Step, Done, int]:
        rng = self.rng
        name = ident(self._name("f"))
        table = rng.choice(self.schema.tables)
        others = [c for c in table.writable() if c not in table.unique and c is not table.columns[0]]
        bodies = [
            f"create function {name}(i int) returns int language sql immutable as $f$ select i % 10 + 1 $f$",
            f"create function {name}(i int) returns int language plpgsql stable as $f$ begin return coalesce(i, 0) % 5; end $f$",
            f"create function {name}(i int) returns int language plpgsql as $f$ begin return 1; exception when others then return 2; end $f$",
            f"create function {name}(i int) returns bigint language sql stable as $f$ select count(*) from {table.sql} $f$",
            f"create function {name}(i int) returns bigint language plpgsql stable as $f$ begin return (select count(*) from {table.sql}); end $f$",
        ]
        ints = [c for c in table.columns if c.type == INT4]
        if ints:
            one, two = rng.choice(ints).sql, rng.choice(ints).sql
            head, volatility = f"create function {name}(i int) returns", rng.choice(["stable", "stable", ""])
            queries = [f"select count(*) from {table.sql} where {one} = i", f"select max(i) from {table.sql}", f"select sum({one} + i) from {table.sql} where {two} > i",
                       f"select {one} from {table.sql} where {one} > i order by 1 limit 1", f"select {one} from {table.sql} where {two} = i order by 1 limit i",
                       f"with w as (select {one} as x from {table.sql} where {two} = i) select count(*) + min(x) from w", f"select count(distinct {one}) from {table.sql} group by {two} = i order by 1 limit 1"]
            bodies += [f"{head} bigint language sql {volatility} as $f$ {query} $f$" for query in queries]
            bodies.append(f"{head} setof int language sql {volatility} as $f$ select {one} from {table.sql} where {two} = i $f$")
        if others:
            bodies.append(f"create function {name}(i int) returns int language plpgsql as $f$ begin update {table.sql} set {others[0].sql} = null; return 1; end $f$")
        sql = rng.choice(bodies)
        done = yield Step(sql, writes=True)
        if done.sqlstate:
            return 1
        context = Context(rng, self.schema)
        source, relation = Queries(context, 0).table_relation(rng.choice(self.schema.tables))
        argument = Expressions(context, [relation]).of(INT4, 1)
        yield Step(f"select {name}({argument}) from {source}", params=tuple(context.params), types=tuple(context.types), writes="update" in sql)
        yield Step(f"select {name}({rng.randrange(9)})", mode=rng.choice(["simple", "extended"]), writes="update" in sql)
        if "language sql" in sql and (columns := [c for c in relation.columns if c.type == INT4]):
            column = rng.choice(columns).sql
            called = rng.choice([f"select {column}, {name}({column}) from {source}", f"select {name}({column})::text from {source} where {name}({column}) is not null",
                                 f"select {column}, f from {source}, {name}({column}) as f", f"select count(*) from {source} left join lateral {name}({column}) f on f > {column}",
                                 f"with {table.sql} as (select 1 as x) select {name}({rng.randrange(9)}), count(*) from {table.sql}"])
            yield Step(called, writes="update" in sql)
        yield Step(f"drop function {name}", writes=True)
        return 4

    def _trigger(self) -> Generator[Step, Done, int]:
        rng = self.rng
        table = rng.choice(self.schema.tables)
        texts = [c for c in table.writable() if c.type == TEXT and c is not table.columns[0] and c not in table.unique]
        if not texts or table.has_trigger:
            return 0
        function, trigger = ident(self._name("tf")), ident(self._name("tr"))
        body = f"new.{texts[0].sql} := left(coalesce(new.{texts[0].sql}, '%now%'), 30); return new;"
        yield Step(f"create function {function}() returns trigger language plpgsql as $f$ begin {body} end $f$", writes=True)
        done = yield Step(f"create trigger {trigger} before {rng.choice(['insert', 'update', 'insert or update'])} on {table.sql} for each row execute function {function}()", writes=True)
        table.has_trigger = not done.sqlstate
        return 2

    # -- DDL

    def _ddl(self) -> Generator[Step, Done, int]:
        make = self.rng.choice([self._add_column, self._add_column, self._drop_column, self._rename_column, self._rename_table, self._create_index, self._alter_column])
        return (yield from make(self.rng.choice(self.schema.tables)))

    def _add_column(self, table: Table) -> Generator[Step, Done, int]:
        rng = self.rng
        of = rng.choice(values.COMMON)
        column = Column(self._name("new"), of, has_default=True)
        default = rng.choice(["", f" default {literal(rng, values.value(rng, of, 0), of)}"])
        done = yield Step(f"alter table {table.sql} add column {column.sql} {of.name}{default}", writes=True)
        if not done.sqlstate:
            table.columns.append(column)
        return 1

    def _spare(self, table: Table) -> list[Column]:
        return [c for c in table.columns if c is not table.columns[0] and c is not table.key and c not in table.unique]

    def _drop_column(self, table: Table) -> Generator[Step, Done, int]:
        if len(self._spare(table)) < 2:
            return 0
        column = self.rng.choice(self._spare(table))
        done = yield Step(f"alter table {table.sql} drop column {column.sql}", writes=True)
        if not done.sqlstate:
            table.columns.remove(column)
            table.has_trigger = True
        return 1

    def _rename_column(self, table: Table) -> Generator[Step, Done, int]:
        column = self.rng.choice(table.columns)
        name = self._name("col")
        done = yield Step(f"alter table {table.sql} rename column {column.sql} to {ident(name)}", writes=True)
        if not done.sqlstate:
            column.name = name
            table.has_trigger = True
        return 1

    def _rename_table(self, table: Table) -> Generator[Step, Done, int]:
        name = self._name("ren")
        done = yield Step(f"alter table {table.sql} rename to {ident(name)}", writes=True)
        if not done.sqlstate:
            table.name = name
        return 1

    def _create_index(self, table: Table) -> Generator[Step, Done, int]:
        rng = self.rng
        columns = [c for c in table.columns if c.type.has_order and c.type.is_key]
        if not columns:
            return 0
        column = rng.choice(columns)
        where = rng.choice(["", "", f" where {column.sql} is not null"])
        unique = ""
        if table.key is not None and table.key is not column and rng.random() < 0.2:
            unique, listed = "unique ", f"{table.key.sql}, {column.sql}"
        else:
            listed = rng.choice([column.sql, column.sql, f"coalesce({column.sql}, null)", f"({column.sql} is null), {column.sql}"])
        yield Step(f"create {unique}index {ident(self._name('ix'))} on {table.sql} ({listed}{rng.choice(['', ' desc'])}){where}", writes=True)
        return 1

    def _alter_column(self, table: Table) -> Generator[Step, Done, int]:
        rng = self.rng
        spare = [c for c in self._spare(table) if not c.is_generated and not c.is_serial]
        if not spare:
            return 0
        column = rng.choice(spare)
        text = values.value(rng, column.type, 0)
        action = rng.choice([f"set default {literal(rng, text, column.type)}", "drop default", "set not null", "drop not null"])
        done = yield Step(f"alter table {table.sql} alter column {column.sql} {action}", writes=True)
        if not done.sqlstate:
            column.not_null = action == "set not null" or (column.not_null and action != "drop not null")
            column.has_default = action.startswith("set default") or column.has_default
        return 1

