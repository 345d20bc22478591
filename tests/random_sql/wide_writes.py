"""Writes whose rows come in a list, from other tables, or from other writes of the same statement.

Every row to change meets one row at most, so that there is one answer. Functions of the `Writes` that asks for them.
"""

import re

from . import values
from .expressions import Expressions
from .queries import Queries
from .schema import Column, Table
from .step import Step, mark

_SOURCE = "s"


def _listed(writes, context, table: Table, columns: list[Column], count: int) -> str | None:
    """`(values …) s (s0, s1 …)`, the first column of different values."""
    first = columns[0]
    if first.type not in values.KEYS or "user types" in values.AVOID:
        return None
    numbers = writes.rng.sample(range(14), count)
    rows = []
    for number in numbers:
        row = [context.constant(values.key_value(first.type, number), first.type) + f"::{first.type.name}"]
        row += [context.constant(writes.schema.row_value(table, c), c.type) + f"::{c.type.name}" for c in columns[1:]]
        rows.append(row)
    names = ", ".join(f"s{i}" for i in range(len(columns)))
    if writes.rng.random() < 0.3:
        arrays = ", ".join(f"array[{', '.join(row[i] for row in rows)}]" for i in range(len(columns)) if not columns[i].type.name.endswith("[]"))
        if not any(c.type.name.endswith("[]") for c in columns):
            return f"unnest({arrays}) as {_SOURCE} ({names})"
    return f"(values {', '.join('(' + ', '.join(row) + ')' for row in rows)}) as {_SOURCE} ({names})"


def _others(table: Table) -> list[Column]:
    return [c for c in table.writable() if c is not table.columns[0] and c not in table.unique and not c.is_identity]


def merge_insert(writes, table: Table) -> Step:
    """MERGE of a list of rows: those that are there change, the others come."""
    rng, context = writes.rng, writes._context()
    columns = [table.columns[0], *(c for c in table.writable() if c is not table.columns[0] and (c.not_null or c in table.unique or rng.random() < 0.5) and not c.is_identity)]
    source = _listed(writes, context, table, columns, rng.choice([1, 1, 2, 4])) if table.unique == [table.columns[0]] else None
    if source is None:
        return writes.upsert(table)
    make = Expressions(context, [writes._relation(table, "u")])
    clauses = []
    changed = [i for i, c in enumerate(columns) if i and c not in table.unique]
    if rng.random() < 0.3:
        clauses.append(f"when matched and {make.condition(1)} then delete")
    if changed:
        clauses.append(f"when matched then update set {columns[changed[0]].sql} = s.s{changed[0]}")
    if rng.random() < 0.85:
        clauses.append(f"when not matched then insert ({', '.join(c.sql for c in columns)}) values ({', '.join(f's.s{i}' for i in range(len(columns)))})")
    if not clauses or rng.random() < 0.1:
        clauses.append(rng.choice(["when not matched by source then delete", "when matched then do nothing"]))
    returning = rng.choice(["", "", f" returning merge_action(), u.{table.columns[0].sql}", " returning u.*"])
    return writes._sent(context, f"merge into {table.sql} u using {source} on u.{table.columns[0].sql} = s.s0 {' '.join(clauses)}{returning}")


def update_listed(writes, table: Table) -> Step:
    """UPDATE … FROM a list of rows, or DELETE … USING it."""
    rng, context = writes.rng, writes._context()
    others = _others(table)
    if not others:
        return writes.delete(table)
    column = rng.choice(others)
    source = _listed(writes, context, table, [table.columns[0], column], rng.choice([1, 2, 4]))
    if source is None:
        return writes.update(table)
    key = table.columns[0].sql
    returning = rng.choice(["", "", " returning *", f" returning u.{key}, s.s1"])
    if rng.random() < 0.3:
        return writes._sent(context, f"delete from {table.sql} u using {source} where u.{key} = s.s0{returning}")
    return writes._sent(context, f"update {table.sql} u set {column.sql} = s.s1 from {source} where u.{key} = s.s0{returning}")


def update_several(writes, table: Table) -> Step:
    """Several columns in one assignment, from expressions or a subquery on the same key."""
    rng, context = writes.rng, writes._context()
    others = _others(table)
    if len(others) < 2:
        return writes.update(table)
    first, second = rng.sample(others, 2)
    relation = writes._relation(table, "u")
    make = Expressions(context, [relation])
    where = writes._where(context, table, relation, make)
    if rng.random() < 0.5:
        row = rng.choice(["", "row"]) + f"({make.of(first.type, 1)}, {make.of(second.type, 1)})"
    else:
        queries = Queries(context, 0)
        source, other = queries.table_relation(queries.pick_table(table.group))
        inner = Expressions(context, [other])
        pair = f"{other.key.sql} = {relation.key.sql}" if other.key and relation.key and other.group == relation.group else "true"
        got = [queries._aggregate_of(inner, c.type, [])[0] for c in (first, second)]
        row = f"(select {got[0]}, {got[1]} from {source} where {pair} having count(*) > 0)"
        context.any_of_equals = True
    return writes._sent(context, f"update {table.sql} u set ({first.sql}, {second.sql}) = {row}{where}{writes._returning(context, relation)}")


def insert_computed(writes, table: Table) -> Step:
    """Values that are looked up, and defaults alone."""
    rng, context = writes.rng, writes._context()
    if rng.random() < 0.15:
        return writes._sent(context, f"insert into {table.sql} default values{rng.choice(['', ' returning *'])}")
    columns = [c for c in table.writable() if not c.has_default]
    queries = Queries(context, 1)
    make = queries.expressions([])
    row = []
    for column in columns:
        is_key = column is table.columns[0] or column in table.unique
        row.append(make.subquery.scalar(column.type) if not is_key and make.subquery and rng.random() < 0.4 else writes._value(context, table, column))
    conflict = rng.choice(["", " on conflict do nothing"])
    context.any_of_equals = True
    return writes._sent(context, f"insert into {table.sql} ({', '.join(c.sql for c in columns)}) values ({', '.join(row)}){conflict}{rng.choice(['', f' returning {table.columns[0].sql}'])}")


def chained(writes, table: Table) -> Step:
    """Rows that one write of the statement gives and another takes."""
    rng = writes.rng
    if "with" in values.AVOID:
        return writes.insert(table)
    inner = rng.choice([writes.insert, writes.update, writes.delete])(table)
    head = inner.sql.split(" returning ")[0] + " returning *"
    colocated = [t for t in writes.schema.tables if t.group == table.group] if rng.random() < 0.5 else []
    other = rng.choice(colocated or writes.schema.tables)
    key, its = table.columns[0], other.columns[0]
    listed = [c for c in other.writable() if not c.has_default]
    matching = [next((m.sql for m in table.columns if m.type == c.type), None) for c in listed]
    if rng.random() < 0.4 and key.type == its.type and all(m or not c.not_null for m, c in zip(matching, listed)) and other is not table and not other.counts:
        # Rows come in any order: which gets which value of a sequence would be open.
        outer = f"insert into {other.sql} ({', '.join(c.sql for c in listed)}) select {', '.join(m or 'null' for m in matching)} from w on conflict do nothing"
    elif rng.random() < 0.5 and key.type.kind == its.type.kind and other is not table:
        outer = f"delete from {other.sql} o using w where o.{its.sql} = w.{key.sql}"
    else:
        outer = rng.choice(["select * from w", f"select count(*), max({key.sql}::text) from w", f"select count(*) from w join {table.sql} o on o.{key.sql} = w.{key.sql}", "table w"])
    return Step(f"with w as ({head}) {outer}", mode=inner.mode, params=inner.params, types=inner.types, any_of_equals=inner.any_of_equals, writes=True)


def in_turn(writes, table: Table) -> Step:
    """Several writes in one statement, each of a table of its own, and one that takes their rows or reads beside them."""
    rng = writes.rng
    others = [t for t in writes.schema.tables if t is not table]
    if "with" in values.AVOID or not others:
        return writes.insert(table)
    other = rng.choice(others)
    make = [writes.insert, writes.update, writes.delete]
    one, two = rng.choice(make)(table), rng.choice(make)(other)
    behind = re.sub("\x01(\\d+)\x02", lambda m: mark(int(m[1]) + len(one.params)), two.sql)
    heads = [sql.split(" returning ")[0] + " returning *" for sql in (one.sql, behind)]
    named = rng.choice([t for t in writes.schema.tables])
    outer = rng.choice([
        "select (select count(*) from w), (select count(*) from x)",
        "select count(*) from w",
        "select * from x",
        f"select count(*), (select count(*) from w) from {named.sql}",
        f"select count(*) from {named.sql}",
        f"select count(*) from w, x, {named.sql} o",
    ])
    sql = f"with w as ({heads[0]}), x as ({heads[1]}) {outer}"
    return Step(sql, mode=one.mode, params=one.params + two.params, types=one.types + two.types, any_of_equals=True, writes=True)
